"""Claims on the reward averaging time: Definition 3.1, Lemma 3.3 and eq. 5.

All of them look at the same random weakly communicating MDPs (`survey`); the two that are false
also climb from the worst of these, and look at a counterexample made by hand.
"""

from dataclasses import dataclass
from functools import cache

from cpsrl.environments import environment
from cpsrl.mdp import TabularMDP
from cpsrl.paper.counterexamples import counterexample, dive
from cpsrl.paper.search import GAMMAS, RATIOS, climb, random_mdp, ratios
from cpsrl.paper.verdicts import Check, Claim, Control, Details, Effort, Verdict, claim
from cpsrl.planning import reward_averaging_time, solve_average, span
from cpsrl.seeding import stream

ROUNDING = 1e-7
"""How far above 1 a ratio of float64 numbers may come out that is 1 in exact arithmetic."""

SMALLER = 0.9
"""Of a constant that is the best, this share is too small."""

FAR = 0.99
"""A large gamma at which to show the counterexamples."""


@dataclass(frozen=True)
class Survey:
    """What was found on many random MDPs.

    Attributes:
        n: how many were looked at.
        above: for every ratio, how many were above 1.
        worst: for every ratio, the largest, its gamma and its MDP.
    """

    n: int
    above: dict[str, int]
    worst: dict[str, tuple[float, float, TabularMDP]]

    def of(self, *names: str) -> Details:
        """Return what was found on some of the ratios, for the details of a claim."""
        rows: Details = {"random MDPs": self.n, "gammas": f"{GAMMAS[0]:g} to {GAMMAS[-1]:g}"}
        for name in names:
            value, gamma, _ = self.worst[name]
            row = {"largest": value, "at gamma": gamma, "MDPs above 1": self.above[name]}
            rows[RATIOS[name]] = row
        return rows


@cache
def survey(effort: Effort) -> Survey:
    """Return the survey of this effort, made by the first claim that needs it."""
    n = effort.choose(1_000, 6_000)
    rng, used, above = stream(effort.seed, 0, "model"), 0, dict.fromkeys(RATIOS, 0)
    worst: dict[str, tuple[float, float, TabularMDP]] = {}
    for i in range(n):
        mdp = random_mdp(rng)
        found = ratios(mdp)
        used += found is not None
        for name, (value, gamma) in (found or {}).items():
            above[name] += value > 1 + ROUNDING
            if name not in worst or value > worst[name][0]:
                worst[name] = (value, gamma, mdp)
        if i % 50 == 0:
            effort.progress(i / n)
    return Survey(used, above, worst)


def confirmed(*names: str) -> Check:
    """Return a check that looks for an MDP with one of these ratios above 1, and finds none."""

    def check(effort: Effort) -> Verdict:
        found = survey(effort)
        largest = max(found.worst[name][0] for name in names)
        control = Control(f"{SMALLER:g} times the right side", largest / SMALLER)
        return Verdict(largest <= 1 + ROUNDING, largest, control, found.of(*names))

    return check


def refuted(name: str, factor: float, *examples: str) -> Check:
    """Return a check for the largest ratio: at random, climbing from the worst MDPs, by hand.

    With the right side `factor` times as large the statement is true.
    """

    def check(effort: Effort) -> Verdict:
        found = survey(effort)
        tries, rng = effort.choose(150, 1_500), stream(effort.seed, 1, "model")
        starts = (found.worst[name][2], found.worst["upper/tau"][2])
        climbed = max(climb(start, name, tries, rng)[1] for start in starts)
        details = found.of(name) | {"largest by climbing from the worst": climbed}
        made = {f"counterexample {example!r}": counterexample(example) for example in examples}
        made["'dive' with r = .6668"] = dive(0.6668)
        largest = max(found.worst[name][0], climbed)
        for label, mdp in made.items():
            everywhere, far = ratios(mdp), ratios(mdp, (FAR,))
            assert everywhere is not None
            assert far is not None
            value, gamma = everywhere[name]
            details[label] = {"largest": value, "at gamma": gamma, f"at gamma {FAR}": far[name][0]}
            largest = max(largest, value)
        control = Control(f"{factor:g} times the right side", largest / factor, must_hold=True)
        return Verdict(largest <= 1 + ROUNDING, largest, control, details)

    return check


@claim(
    "tau-is-span",
    "section 3, after Definition 3.1",
    "tau_* of an average-optimal policy is equivalent to (read: equals) the span of its bias",
    true=False,
    instead="span/2 <= tau_* <= span for a bias-optimal policy, and both ends are attained; for an "
    "average-optimal policy that is not bias-optimal tau may even be 0 (counterexample 'idle')",
    counterexample="dive",
)
def tau_is_span(effort: Effort) -> Verdict:
    """Compare the two on RiverSwim, where they differ, and their order on random MDPs."""
    mdp = environment("riverswim")
    best = solve_average(mdp, bias_optimal=True)
    tau, height = float(reward_averaging_time(mdp, best.policy)), span(best.bias)
    found = survey(effort)
    ordered = max(found.worst[name][0] for name in ("tau/span", "span/2tau"))
    details = {"riverswim": {"tau": tau, "span": height}, **found.of("tau/span", "span/2tau")}
    ratio = max(height / tau, 2 * found.worst["span/2tau"][0])
    control = Control("span/2 <= tau <= span", ordered / (1 + ROUNDING), must_hold=True)
    return Verdict(abs(ratio - 1) <= ROUNDING, ratio, control, details)


lemma_lower = Claim(
    "lemma-3.3-lower",
    "Lemma 3.3, lower side",
    "V*_gamma(s) >= lambda_*/(1 - gamma) - tau_* in every weakly communicating MDP",
    confirmed("lower/tau"),
)
lemma_upper = Claim(
    "lemma-3.3-upper",
    "Lemma 3.3, upper side",
    "V*_gamma(s) <= lambda_*/(1 - gamma) + tau_* in every weakly communicating MDP",
    refuted("upper/tau", 2.0, "dive", "wait"),
    true=False,
    instead="V*_gamma(s) <= lambda_*/(1 - gamma) + h(s) - min h, hence + span(h), hence + 2 tau_*, "
    "h being the bias of a bias-optimal policy; the constants 1 and 2 are the best",
    counterexample="dive",
)
lemma_span = Claim(
    "lemma-3.3-span",
    "Lemma 3.3 as its proof has it",
    "|V*_gamma(s) - lambda_*/(1 - gamma)| <= span of the optimal bias, both sides",
    confirmed("upper/span", "lower/span"),
)
span_of_values = Claim(
    "eq-5",
    "eq. 5",
    "|V*_gamma(s) - V*_gamma(s')| <= 2 tau_* in every weakly communicating MDP",
    refuted("range/2tau", 1.5, "dive", "steep"),
    true=False,
    instead="span(V*_gamma) <= span(h) + tau_*, hence <= 2 span(h) and <= 3 tau_*; the constants 2 "
    "and 3 are the best",
    counterexample="dive",
)
span_of_values_corrected = Claim(
    "eq-5-corrected",
    "eq. 5, corrected",
    "span(V*_gamma) <= span(h) + tau_*, hence <= 2 span(h) and <= 3 tau_*",
    confirmed("range/(span+tau)", "range/2span"),
)
