"""Claims of section 4 and appendix C: the theorems, the schedules, what a constant gamma costs.

The prior of Theorems 4.1 and 4.2 is Dirichlet(1/S), truncated to MDPs whose optimal bias has a
span of at most 10, so that Assumption 3.2 holds: `cpsrl.paper.from_prior`.
"""

import math
from collections.abc import Callable

import numpy as np

from cpsrl.agents import PSRL
from cpsrl.environments import environment
from cpsrl.objectives import Average, Discounted
from cpsrl.paper.from_prior import Prior, runs_from_prior
from cpsrl.paper.verdicts import LEVEL, Control, Details, Effort, Verdict, claim
from cpsrl.planning import planning_gap
from cpsrl.resampling import Bernoulli
from cpsrl.simulation import Group
from cpsrl.statistics import Interval, critical_z, exponent, upper_mean, z_score
from cpsrl.support.types import Floats
from cpsrl.theory.bounds import VERSIONS, theorem_4_1, theorem_4_2

STATES, ACTIONS, CAP = 5, 2, 10.0
PRIOR = Prior(STATES, ACTIONS, cap=CAP)
FASTEST = 0.6
"""The exponent that the doubling schedule must stay below."""
SHORT_SIGHTED = "gamma = 0 throughout, from T = 1,000 to 10,000"


@claim(
    "theorem-4.2",
    "Theorem 4.2",
    "E[Regret_gamma(K)] <= (4 tau + 2) S sqrt(28 A T log(2SAT)) + S A/(1 - gamma) "
    "log(log(2T/(1 - gamma))/(1 - gamma)) + 1/2 + 2/(1 - gamma)",
    vacuous=True,
)
def discounted_regret(effort: Effort) -> Verdict:
    """Measure the discounted regret; tau is the supremum over the prior, not that of each MDP.

    The control is a regret of T, the largest there can be. Where the bound allows it, as at every T
    that can be simulated, the statement is vacuous and the control holds.
    """
    n, cases = effort.choose(300, 3_000), ((1_000, 0.9), (10_000, 0.9), (10_000, 0.99))
    count = effort.counter(n * sum(steps for steps, _ in cases))
    rows, worst, trivial = [], 0.0, 0.0
    for steps, gamma in cases:
        coin = Bernoulli(gamma=gamma)
        draws = runs_from_prior(PRIOR, coin, steps, n, effort.seed, progress=count)
        limit = upper_mean(draws.delta, 1 - (1 - LEVEL) / len(cases))
        row: Details = {"T": steps, "gamma": gamma, "mean": float(draws.delta.mean())}
        row |= {"upper confidence limit": limit, "over T": limit / steps}
        for version in VERSIONS:
            bound = theorem_4_2(STATES, ACTIONS, steps, gamma, CAP, CAP, version).total
            row |= {f"over the {version} bound": limit / bound, f"{version} bound": bound}
        rows.append(row)
        worst = max(worst, row["over the paper bound"])
        trivial = max(trivial, steps / row["paper bound"])
    details = {"MDPs": n, "S, A": [STATES, ACTIONS], "largest span and tau": CAP, "cases": rows}
    control = Control("a regret of T", trivial, must_hold=True)
    return Verdict(worst <= 1, worst, control, details, LEVEL, vacuous=trivial <= 1)


@claim(
    "appendix-c",
    "appendix C",
    "over completed pseudo-episodes E[regret] = (a) + (b), with (b) the discounted regret and "
    "(a) = E[sum of lambda_*/(1 - gamma) - V*_gamma(s_k)] <= tau E[K] (checked with the span)",
)
def decomposition(effort: Effort) -> Verdict:
    """Compare both sides run by run, completing the last pseudo-episode."""
    n, steps, gamma = effort.choose(1_000, 10_000), 500, 0.95
    count, coin = effort.counter(n * steps), Bernoulli(gamma=gamma)
    draws = runs_from_prior(PRIOR, coin, steps, n, effort.seed, progress=count)
    limit = critical_z(2, LEVEL)
    z = {
        "regret = (a) + (b)": z_score(draws.completed_regret - draws.averaging - draws.delta),
        "regret = its low-variance estimate": z_score(
            draws.regret[:, -1] - draws.expected_regret[:, -1]
        ),
    }
    averaging = float((draws.averaging / (draws.span * draws.pseudo_episodes)).max())
    details = {
        "MDPs": n,
        "mean regret": float(draws.completed_regret.mean()),
        "mean (a)": float(draws.averaging.mean()),
        "mean (b)": float(draws.delta.mean()),
        "z": z,
        "z limit": limit,
        "largest (a) over span times K, run by run": averaging,
        "standard deviation of regret and of its low-variance estimate": [
            float(draws.regret[:, -1].std()),
            float(draws.expected_regret[:, -1].std()),
        ],
    }
    ratio = max(*(abs(score) / limit for score in z.values()), averaging)
    alone = abs(z_score(draws.completed_regret - draws.averaging)) / limit
    return Verdict(ratio <= 1, ratio, Control("regret = (a) alone", alone), details, LEVEL)


def _growth(times: list[int], regret: Floats) -> tuple[Interval, Details]:
    """Return how regret `(runs, times)` grows, with the details."""
    found = exponent(times, regret, LEVEL)
    bounds = [theorem_4_1(STATES, ACTIONS, T, None, CAP, CAP) for T in times]
    limits = [upper_mean(column, 1 - (1 - LEVEL) / len(times)) for column in regret.T]
    return found, {
        "T": times,
        "mean regret": [float(x) for x in regret.mean(axis=0)],
        "exponent": found.value,
        "interval": [found.low, found.high],
        "upper confidence limit over the bound": max(
            limit / bound.total for limit, bound in zip(limits, bounds, strict=True)
        ),
        "the bound itself is vacuous at every T": all(bound.is_vacuous for bound in bounds),
    }


def _short_sighted(effort: Effort, count: Callable[[float], None], most: float) -> Control:
    """Return the control of claims on growth: an agent that sees no further than a step.

    Its regret is linear. The exponent must be above `most` with its whole interval.
    """
    times, n = [10**3, 10**4], effort.choose(60, 200)
    coin, marks = Bernoulli(gamma=0.0), np.array(times)
    draws = runs_from_prior(PRIOR, coin, times[-1], n, effort.seed, marks, progress=count)
    return Control(SHORT_SIGHTED, exponent(times, draws.expected_regret, LEVEL).low / most)


@claim(
    "theorem-4.1",
    "Theorem 4.1",
    "with gamma = 1 - sqrt(SA/T) the Bayesian regret is O~(tau S sqrt(A T)) (checked in T, at one "
    "S and A: the exponent of T is at most .5)",
)
def bayesian_regret(effort: Effort) -> Verdict:
    """Measure regret at growing T, a new coin for each, and fit the exponent of T."""
    times = [10**3, 10**4, 10**5] if effort.quick else [10**3, 10**4, 10**5, 10**6]
    n, other_n, other_T = effort.choose(200, 400), effort.choose(50, 200), 10_000
    others = [(3, 2), (5, 2), (8, 2), (5, 4), (5, 8)]
    extra = effort.choose(60, 200) * 10_000
    count = effort.counter(n * sum(times) + len(others) * other_n * other_T + extra)
    rule = Bernoulli(schedule="horizon")
    runs = [runs_from_prior(PRIOR, rule, steps, n, effort.seed, progress=count) for steps in times]
    regret = np.concatenate([draws.expected_regret for draws in runs], axis=1)
    found, growth = _growth(times, regret)
    rejected = sum(d.rejected.sum() for d in runs) / sum(d.pseudo_episodes.sum() for d in runs)
    sizes = [
        {
            "S": S,
            "A": A,
            "mean regret": float(draws.expected_regret[:, -1].mean()),
            "standard error": float(draws.expected_regret[:, -1].std(ddof=1) / math.sqrt(other_n)),
        }
        for S, A in others
        for prior in [Prior(S, A, cap=CAP)]
        for draws in [runs_from_prior(prior, rule, other_T, other_n, effort.seed, progress=count)]
    ]
    details = {
        "MDPs": n,
        "S, A": [STATES, ACTIONS],
        **growth,
        "share of posterior draws rejected": float(rejected),
        f"against S and A at T = {other_T}, no verdict": sizes,
    }
    ratio = found.high / 0.5
    return Verdict(ratio <= 1, ratio, _short_sighted(effort, count, 0.5), details, LEVEL)


@claim(
    "doubling-schedule",
    "section 5.1; appendix C",
    "1/(1 - gamma_t) = sqrt(2^(k+1)/(SA)) for t in [2^k, 2^(k+1)) keeps the rate without knowing T "
    f"(the exponent of regret stays below {FASTEST})",
)
def doubling_schedule(effort: Effort) -> Verdict:
    """Measure the regret of one long run of each MDP at growing T."""
    times = [10**3, 10**4, 10**5] if effort.quick else [10**3, 10**4, 10**5, 10**6]
    n = effort.choose(200, 400)
    extra = effort.choose(60, 200) * 10_000
    rule, count = Bernoulli(schedule="doubling"), effort.counter(n * times[-1] + extra)
    marks = np.array(times)
    draws = runs_from_prior(PRIOR, rule, times[-1], n, effort.seed, marks, progress=count)
    found, growth = _growth(times, draws.expected_regret)
    ratio = found.high / FASTEST
    control = _short_sighted(effort, count, FASTEST)
    return Verdict(ratio <= 1, ratio, control, {"MDPs": n, **growth}, LEVEL)


@claim(
    "constant-gamma",
    "section 1; section 5.1",
    "a constant gamma does not make regret per step vanish where the planning gap is positive; a "
    "growing gamma does, and so does the same coin with average-reward planning",
)
def constant_gamma(effort: Effort) -> Verdict:
    """Measure regret per step at the end of long runs on the `tsde` river with gamma = .99."""
    mdp, gamma, steps = environment("riverswim", variant="tsde"), 0.99, 1_000_000
    n, late = effort.choose(12, 50), 600_000
    gap = planning_gap(mdp, gamma).gap
    agents = {
        "constant gamma": PSRL(Bernoulli(gamma=gamma), Discounted()),
        "growing gamma": PSRL(Bernoulli(schedule="doubling"), Discounted()),
        "constant coin, average reward": PSRL(Bernoulli(gamma=gamma), Average()),
    }
    count = effort.counter(len(agents) * n * steps)
    level = 1 - (1 - LEVEL) / len(agents)
    rates, limits = {}, {}
    for name, agent in agents.items():
        group = Group.start(agent, mdp, range(n), effort.seed, steps)
        runs = group.advance(steps, [late, steps], progress=count)
        rate = (runs.regret[:, 1] - runs.regret[:, 0]) / (steps - late)
        rates[name] = float(rate.mean())
        limits[name] = upper_mean(rate, level)
        if name == "constant gamma":
            least = -upper_mean(-rate, level)
    ratio = max(gap / 2 / least if least > 0 else math.inf, 2 * limits["growing gamma"] / gap)
    ratio = max(ratio, 2 * limits["constant coin, average reward"] / gap)
    details = {
        "planning gap": gap,
        "runs": n,
        f"regret per step from {late} to {steps}": rates,
        "lower confidence limit with constant gamma": least,
        "upper confidence limits": limits,
        "required": "above half the gap with constant gamma, below half of it with the others",
    }
    control = Control("the constant gamma in place of the growing one", 2 * least / gap)
    return Verdict(ratio <= 1, ratio, control, details, LEVEL)
