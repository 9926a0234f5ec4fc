"""Claims of section 3 on the coin: how long pseudo-episodes are, how many, what they earn."""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from cpsrl.environments import environment
from cpsrl.mdp import TabularMDP
from cpsrl.paper.verdicts import LEVEL, Control, Effort, Verdict, claim
from cpsrl.planning import discounted_value, solve_average
from cpsrl.planning.evaluation import policy_chain
from cpsrl.resampling import Bernoulli
from cpsrl.seeding import stream
from cpsrl.statistics import critical_z, z_score
from cpsrl.support.types import Floats
from cpsrl.theory.bounds import expected_pseudo_episodes

ROUNDING = 1e-9
"""The relative error that linear algebra in float64 is allowed."""


def problems() -> list[tuple[TabularMDP, NDArray[np.int64]]]:
    """Return a few MDPs, each with its average-optimal policy."""
    mdps = [environment("riverswim", variant=v) for v in ("osband", "tsde")]
    mdps += [environment("random", n_states=6, seed=seed) for seed in range(3)]
    return [(mdp, solve_average(mdp).policy) for mdp in mdps]


def sum_over_pseudo_episodes(
    chain: Floats, x: Floats, gamma: float, start: int, n: int, rng: np.random.Generator
) -> Floats:
    """Simulate n whole pseudo-episodes and return the sum of x(S_t) over each, `(n,)`.

    They begin in `start`, move by the `chain` `(S, S)` of a policy, and go on with probability
    gamma; x is `(S,)`.
    """
    cumulative = np.cumsum(chain, axis=1)
    sums = np.zeros(n)
    alive, states = np.arange(n), np.full(n, start)
    while alive.size:
        sums[alive] += x[states]
        stay = rng.random(alive.size) < gamma
        alive, states = alive[stay], states[stay]
        following = (cumulative[states] <= rng.random(alive.size)[:, None]).sum(axis=1)
        states = np.minimum(following, len(x) - 1)
    return sums


@claim(
    "pseudo-episode-length",
    "section 3",
    "the length of a pseudo-episode is geometric on {1, 2, ...} with mean 1/(1 - gamma) "
    "(the text says binomial)",
)
def length(effort: Effort) -> Verdict:
    """Draw a fixed number of pseudo-episodes: a fixed time would leave out the long ones."""
    n, gammas = effort.choose(20_000, 200_000), (0.5, 0.9, 0.99)
    share = (1 - LEVEL) / (2 * len(gammas))
    rows, worst, fixed = [], 0.0, math.inf
    for i, gamma in enumerate(gammas):
        rng = stream(effort.seed, i, "rule")
        lengths = _lengths(Bernoulli(gamma=gamma), n, rng)
        mean_z = (lengths.mean() - 1 / (1 - gamma)) / np.sqrt(gamma / (1 - gamma) ** 2 / n)
        edges = np.unique(scipy.stats.geom.ppf(np.linspace(0, 1, 21)[1:-1], 1 - gamma))
        bins = np.concatenate([[0], edges, [np.inf]])
        expected = n * np.diff(scipy.stats.geom.cdf(bins, 1 - gamma))
        chi2, alike = (
            float(((np.histogram(x, bins + 0.5)[0] - expected) ** 2 / expected).sum())
            for x in (lengths, np.full(n, round(1 / (1 - gamma))))
        )
        limit = float(scipy.stats.chi2.isf(share, len(expected) - 1))
        worst = max(worst, abs(mean_z) / float(scipy.stats.norm.isf(share / 2)), chi2 / limit)
        fixed = min(fixed, alike / limit)
        groups = lengths.reshape(-1, 20)
        in_time = groups[np.cumsum(groups, axis=1) <= 5 / (1 - gamma)]
        row = {
            "gamma": gamma,
            "mean length": float(lengths.mean()),
            "1/(1 - gamma)": 1 / (1 - gamma),
        }
        row |= {"chi-square": chi2, "chi-square limit": limit}
        row["mean of those completed by 5/(1 - gamma), biased"] = float(in_time.mean())
        rows.append(row)
        effort.progress((i + 1) / len(gammas))
    control = Control("the fixed length 1/(1 - gamma), which has the same mean", fixed)
    return Verdict(worst <= 1, worst, control, {"pseudo-episodes": n, "cases": rows}, LEVEL)


def _lengths(rule: Bernoulli, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the lengths of the first n pseudo-episodes, `(n,)`."""
    starts, first, chunk = np.zeros(0, np.int64), 1, 1 << 18
    while len(starts) <= n:
        resample, _ = rule.arrays(first, chunk, rng)
        starts = np.concatenate([starts, first + np.flatnonzero(resample)])
        first += chunk
    return np.diff(starts[: n + 1])


@claim(
    "pseudo-episode-count",
    "section 3",
    "E[K] = 1 + (T - 1)(1 - gamma), which is at most (1 - gamma) T + 1",
)
def count(effort: Effort) -> Verdict:
    """Count the resamplings of many coins; that E[K] is below the bound is arithmetic."""
    runs, cases = effort.choose(2_000, 20_000), ((100, 0.9), (1000, 0.9), (1000, 0.99))
    limit = critical_z(len(cases), LEVEL)
    rows, worst, wrong = [], 0.0, math.inf
    for i, (steps, gamma) in enumerate(cases):
        rng = stream(effort.seed, i, "rule")
        rule, exact = Bernoulli(gamma=gamma), expected_pseudo_episodes(steps, gamma)
        counts = np.array([rule.arrays(1, steps, rng)[0].sum() for _ in range(runs)])
        z = z_score(counts - exact)
        worst = max(worst, abs(z) / limit)
        wrong = min(wrong, abs(z_score(counts - steps * (1 - gamma))) / limit)
        row = {"T": steps, "gamma": gamma, "mean K": float(counts.mean()), "E[K]": exact}
        rows.append({**row, "z": z})
        effort.progress((i + 1) / len(cases))
    control = Control("E[K] = T (1 - gamma), without the resampling at t = 1", wrong)
    details = {"runs": runs, "z limit": limit, "cases": rows}
    return Verdict(worst <= 1, worst, control, details, LEVEL)


@claim(
    "discounted-value",
    "eq. 3",
    "V = E[sum of P^h r over a pseudo-episode's geometric length] = sum of gamma^h P^h r",
)
def discounted_series(effort: Effort) -> Verdict:
    """Sum both series term by term and compare with the linear solve."""
    worst, late = {"random length": 0.0, "discounting": 0.0}, math.inf
    for mdp, policy in problems():
        chain, rewards = policy_chain(mdp, policy)
        for gamma in (0.0, 0.5, 0.9, 0.99):
            value = discounted_value(mdp, policy, gamma)
            term, total = rewards.copy(), rewards.copy()
            by_length, discounted, weight = np.zeros_like(total), np.zeros_like(total), 1.0
            while weight > 1e-16:
                by_length += (1 - gamma) * weight * total
                discounted += weight * term
                weight *= gamma
                term = chain @ term
                total += term
            scale = np.abs(value).max()
            late = min(late, float(np.abs(gamma * discounted - value).max() / scale))
            for way, sum_ in (("random length", by_length), ("discounting", discounted)):
                worst[way] = max(worst[way], float(np.abs(sum_ - value).max() / scale))
    ratio = max(worst.values()) / ROUNDING
    control = Control("sum of gamma^(h+1) P^h r, discounted a step too many", late / ROUNDING)
    details = {"largest relative error": worst, "allowed": ROUNDING}
    return Verdict(ratio <= 1, ratio, control, details)


@claim("bellman-equation", "eq. 4", "V = r + gamma P V")
def bellman_equation(effort: Effort) -> Verdict:
    """Put the value into the equation."""
    worst, wrong = 0.0, math.inf
    for mdp, policy in problems():
        chain, rewards = policy_chain(mdp, policy)
        for gamma in (0.0, 0.5, 0.9, 0.99, 0.9999):
            value = discounted_value(mdp, policy, gamma)
            scale, ahead = np.abs(value).max(), chain @ value
            worst = max(worst, float(np.abs(rewards + gamma * ahead - value).max() / scale))
            off = rewards + (gamma + 1e-6) * ahead - value
            wrong = min(wrong, float(np.abs(off).max() / scale))
    details = {"largest relative residual": worst, "allowed": ROUNDING}
    control = Control("V = r + (gamma + 1e-6) P V", wrong / ROUNDING)
    return Verdict(worst <= ROUNDING, worst / ROUNDING, control, details)


@claim(
    "unbiased-return",
    "section 1; eq. 3",
    "the undiscounted return between two resamplings is an unbiased estimate of the "
    "gamma-discounted return",
)
def unbiased_return(effort: Effort) -> Verdict:
    """Simulate whole pseudo-episodes from every state of RiverSwim under the optimal policy."""
    n, gamma = effort.choose(20_000, 200_000), 0.95
    mdp = environment("riverswim")
    policy = solve_average(mdp).policy
    chain, rewards = policy_chain(mdp, policy)
    value = discounted_value(mdp, policy, gamma)
    other = discounted_value(mdp, policy, gamma - 0.01)
    rng, scores, wrong = stream(effort.seed, 0, "transition"), [], math.inf
    for state in range(mdp.n_states):
        returns = sum_over_pseudo_episodes(chain, rewards, gamma, state, n, rng)
        scores.append(z_score(returns - value[state]))
        wrong = min(wrong, abs(z_score(returns - other[state])))
        effort.progress((state + 1) / mdp.n_states)
    limit = critical_z(len(scores), LEVEL)
    ratio = max(map(abs, scores)) / limit
    details = {"gamma": gamma, "pseudo-episodes from each state": n, "z": scores, "z limit": limit}
    control = Control(f"the return discounted by {gamma - 0.01:g}", wrong / limit)
    return Verdict(ratio <= 1, ratio, control, details, LEVEL)
