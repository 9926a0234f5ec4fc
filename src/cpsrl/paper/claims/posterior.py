"""Claims of section 5: posterior sampling, the value decomposition, and the confidence set."""

import math
from functools import cache

import numpy as np

from cpsrl.environments import environment
from cpsrl.paper.claims.pseudo_episodes import ROUNDING, sum_over_pseudo_episodes
from cpsrl.paper.from_prior import Prior, PriorRuns, runs_from_prior
from cpsrl.paper.verdicts import LEVEL, Control, Effort, Verdict, claim
from cpsrl.planning import discounted_value, solve_discounted
from cpsrl.planning.evaluation import policy_chain
from cpsrl.resampling import Bernoulli
from cpsrl.seeding import stream
from cpsrl.statistics import critical_z, upper_probability, z_score
from cpsrl.theory.bounds import high_probability_length

STATES, ACTIONS, STEPS, GAMMA = 3, 2, 200, 0.9
RIGHT, WRONG = None, 1.0
"""What the agent believes in: the prior, or Dirichlet(1), where MDPs come from Dirichlet(1/S)."""
WRONG_PRIOR = "an agent that believes in Dirichlet(1)"
NARROW = 0.1
"""In place of 14, a constant with which the confidence set is too small."""


@cache
def runs(effort: Effort, believed: float | None) -> PriorRuns:
    """Return runs on MDPs from the prior, made by the first claim that needs them."""
    n, coin, prior = effort.choose(2_000, 20_000), Bernoulli(gamma=GAMMA), Prior(STATES, ACTIONS)
    count = effort.counter(n * STEPS)
    return runs_from_prior(prior, coin, STEPS, n, effort.seed, believed=believed, progress=count)


def _scores(found: PriorRuns) -> dict[str, float]:
    """Return z-scores of g(E) f(H) - g(E^K) f(H) for some functions g, and f of the history."""
    run, state = np.arange(len(found.last_start)), found.last_start
    row = state * ACTIONS
    value = found.true_value - found.sample_value
    probability = found.truth[run, row, state] - found.sample[run, row, state]
    squares = (found.truth**2 - found.sample**2).sum(axis=2)
    return {
        "optimal value": z_score(value),
        "which optimal value is larger": z_score(np.sign(value)),
        "probability of staying": z_score(probability),
        "the same, times the visits": z_score(probability * found.visits[run, row]),
        "squares of all probabilities": z_score(squares.sum(axis=1)),
        "the same, where a pair is new": z_score((squares * (found.visits == 0)).sum(axis=1)),
    }


@claim(
    "lemma-5.1",
    "Lemma 5.1",
    "E[g(E) | history] = E[g(E^k) | history] at a resampling time, the coins being part of the "
    "history",
)
def posterior_sampling(effort: Effort) -> Verdict:
    """Compare E and E^K under several functions; with a wrong prior they must differ."""
    right, wrong = (_scores(runs(effort, believed)) for believed in (RIGHT, WRONG))
    limit = critical_z(len(right), LEVEL)
    ratio = max(map(abs, right.values())) / limit
    control = Control(WRONG_PRIOR, max(map(abs, wrong.values())) / limit)
    details = {"MDPs": len(runs(effort, RIGHT).delta), "z": right, "z limit": limit}
    details["z with a wrong prior"] = wrong
    return Verdict(ratio <= 1, ratio, control, details, LEVEL)


@claim("lemma-5.2", "Lemma 5.2", "E[sum of Delta_k] = E[sum of Delta~_k]")
def regret_equivalence(effort: Effort) -> Verdict:
    """Compare the sums run by run; with a wrong prior they must differ."""
    right, wrong = runs(effort, RIGHT), runs(effort, WRONG)
    limit = critical_z(1, LEVEL)
    z, z_wrong = (z_score(found.delta - found.delta_tilde) for found in (right, wrong))
    details = {
        "MDPs": len(right.delta),
        "mean sum of Delta_k": float(right.delta.mean()),
        "mean sum of Delta~_k": float(right.delta_tilde.mean()),
        "z": z,
        "z limit": limit,
        "z with a wrong prior": z_wrong,
    }
    control = Control(WRONG_PRIOR, abs(z_wrong) / limit)
    return Verdict(abs(z) <= limit, abs(z) / limit, control, details, LEVEL)


@claim(
    "lemma-5.3",
    "Lemma 5.3",
    "the difference of a policy's values in two environments is the expected sum, over a "
    "pseudo-episode in the first, of gamma <P - P^, V^>",
)
def value_decomposition(effort: Effort) -> Verdict:
    """Check it by linear algebra on pairs of random MDPs, and by simulation on one of them."""
    worst, other_way, gammas = 0.0, 0.0, (0.0, 0.5, 0.9, 0.99)
    for seed in range(effort.choose(10, 100)):
        true, other = (environment("random", n_states=5, seed=2 * seed + i) for i in (0, 1))
        other = type(true)(other.dense, true.rewards)
        for gamma in gammas:
            policy = solve_discounted(other, gamma).policy
            chain, rewards = policy_chain(true, policy)
            value, value_hat = (discounted_value(m, policy, gamma) for m in (true, other))
            apart = gamma * (chain - policy_chain(other, policy)[0])
            error, wrong = apart @ value_hat, apart @ value
            system, scale = np.eye(len(rewards)) - gamma * chain, np.abs(value).max()
            distance, distance_wrong = (
                float(np.abs(value - value_hat - np.linalg.solve(system, x)).max() / scale)
                for x in (error, wrong)
            )
            worst, other_way = max(worst, distance), max(other_way, distance_wrong)
    n = effort.choose(20_000, 200_000)
    sums = sum_over_pseudo_episodes(chain, error, gammas[-1], 0, n, stream(effort.seed, 0, "model"))
    z, limit = z_score(sums - (value - value_hat)[0]), critical_z(1, LEVEL)
    ratio = max(worst / ROUNDING, abs(z) / limit)
    details = {"largest relative error": worst, "allowed": ROUNDING}
    details |= {"simulated pseudo-episodes": n, "z": z, "z limit": limit}
    control = Control("V in place of V^ under the sum", other_way / ROUNDING)
    return Verdict(ratio <= 1, ratio, control, details, LEVEL)


@claim(
    "lemma-5.4",
    "Lemma 5.4",
    "the true environment is outside the confidence set M_k with probability at most 1/K "
    "(with T for K, which is not known at t_k: at most 1/T)",
)
def confidence_set(effort: Effort) -> Verdict:
    """Count how often the truth is outside at any of the resampling times of a run."""
    confidence = runs(effort, RIGHT).confidence
    n, largest = len(confidence), float(confidence.max())
    outside = int((confidence > 1).sum())
    limit = upper_probability(outside, n, LEVEL)
    narrow = int((confidence > math.sqrt(NARROW / 14)).sum())
    log = 7 * STATES * math.log(2 * STATES * ACTIONS * STEPS)
    proved = math.log(STATES * ACTIONS * STEPS) + STATES * math.log(2) - log
    details = {
        "runs": n,
        "runs with the truth outside at some k": outside,
        "upper confidence limit of that probability": limit,
        "1/T": 1 / STEPS,
        "largest deviation over width": largest,
        "the constant at which the first run is outside": 14 * largest**2,
        "what the proof gives at t_k = T (log10)": proved / math.log(10),
    }
    least = 1 - upper_probability(n - narrow, n, LEVEL)
    control = Control(f"{NARROW:g} in place of 14 in the width", least * STEPS)
    return Verdict(limit <= 1 / STEPS, limit * STEPS, control, details, LEVEL)


@claim(
    "long-pseudo-episodes",
    "section 5, second term",
    "with m = log(2K/(1 - gamma))/(1 - gamma), rounded up, the pseudo-episodes longer than m cost "
    "at most 1/2: K gamma^m/(1 - gamma) <= 1/2",
)
def long_pseudo_episodes(effort: Effort) -> Verdict:
    """Compute it for many K and gamma."""
    worst, at, cut = 0.0, (0, 0.0), 0.0
    for K in (1, 10, 1_000, 100_000, 10**7):
        for gamma in (0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999):
            cost = 2 * K * gamma ** high_probability_length(K, gamma) / (1 - gamma)
            worst, at = max((worst, at), (cost, (K, gamma)))
            cut = max(cut, cost / gamma if gamma else 0.0)
    control = Control("m rounded down", cut)
    details = {"largest cost over 1/2": worst, "at K, gamma": list(at)}
    return Verdict(worst <= 1, worst, control, details)


@claim(
    "indicator-in-the-sum",
    "appendix A, first bound",
    "E[Delta~_k 1_B] <= E[sum over pseudo-episode k of |gamma <P - P^k, V>| 1_B], where B says "
    "that no count more than doubles in it",
    true=False,
    instead="stop the sum before the first step sigma whose count has doubled: Delta~_k = E[sum "
    "over t < sigma of gamma <P^k - P, V>] + E[1{sigma in E_k} Delta~(s_sigma)], where the last is "
    "at most 1/(1 - gamma), for each of at most S A log2(1 + T/(2SA)) doublings",
)
def indicator_in_the_sum(effort: Effort) -> Verdict:
    """Compute both sides where the Bellman errors come late in the pseudo-episodes that break B.

    The truth stays in state 0, goes to 1 with probability .01, and stays there, all for nothing.
    E^k leads from 1 to a third state that pays 1 for ever. Pair 1 was visited once before, so B
    says that it is visited at most once in the pseudo-episode; pair 0 so often that it cannot
    double.
    """
    gamma, leave = 0.9, 0.01
    value = np.array([0.0, gamma / (1 - gamma), 1 / (1 - gamma)])
    value[0] = gamma * leave * value[1] / (1 - gamma * (1 - leave))
    error = gamma * (value[2] - value[1])
    reach = gamma * leave / (1 - gamma * (1 - leave))
    holds = 1 - reach * gamma
    left, right = value[0] * holds, error * reach * (1 - gamma)
    stopped = reach * error + reach * gamma * value[1]
    details = {
        "Delta~": value[0],
        "probability of B": holds,
        "left side": left,
        "right side": right,
        "sum up to sigma, and what comes after": [reach * error, reach * gamma * value[1]],
    }
    away = abs(stopped / value[0] - 1) / ROUNDING
    control = Control("the sum up to sigma and what comes after make Delta~", away, must_hold=True)
    return Verdict(left <= right, left / right, control, details)


@claim(
    "sum-of-widths",
    "appendix A",
    "the sum over all steps of 1/sqrt(N_{t_k}(s_t, a_t)), while counts at most double, is at most "
    "sqrt(2 S A T)",
    true=False,
    instead="it is at most sqrt(8 S A T): the integral of x^(-1/2) to N is 2 sqrt(N), and the 2 is "
    "lost in the paper. The constant 8 is enough; resampling at every step comes to 4.",
)
def sum_of_widths(effort: Effort) -> Verdict:
    """Visit all pairs in turn and resample at every step: N_{t_k} is then N_t."""
    pairs, rounds = 10, 1_000
    total = pairs * float((np.arange(1, rounds) ** -0.5).sum())
    steps = pairs * rounds
    ratio = total / math.sqrt(2 * pairs * steps)
    corrected = total / math.sqrt(8 * pairs * steps)
    details = {"S A": pairs, "T": steps, "sum": total}
    control = Control("sqrt(8 S A T)", corrected, must_hold=True)
    return Verdict(ratio <= 1, ratio, control, details)
