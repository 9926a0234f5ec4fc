"""Average-reward planning: a policy that maximises the gain in a known MDP.

Right for any finite model: weakly communicating or not, periodic or not. Small models are solved by
Howard's policy iteration with exact evaluation (`kernels.plan_average`). Larger ones are first
swept (`sweeps` with gamma = 1), which finishes a model that mixes fast; the others go to policy
iteration with a factorisation of each policy's chain, started from a discounted policy (why: see
`kernels.plan_average`).

The bound on the gain's error is checked on the result, by linear-programming duality. With
u(s, a) = r + P h - h - g the advantages and c(s, a) = g - P g >= 0 what an action loses in gain,
(g + delta, h + m g) is feasible for the dual program when delta >= u(s, a) - m c(s, a) everywhere;
then no policy has a gain above g + delta (Puterman 1994, section 9.3).

A bias-optimal policy also maximises the bias among the gain-optimal ones. It is found by adding a
third level to the comparison of actions (Veinott 1966): among those that tie on gain and on
r + P h, the larger P w, where w = -h + P w, P* w = 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.mdp import DENSE_PLANNING, TabularMDP
from cpsrl.planning import kernels, sweeps
from cpsrl.planning.discounted import EPS, checked_tolerance, first_policy, iterate, run_sweeps
from cpsrl.planning.evaluation import factored, policy_chain
from cpsrl.types import Floats, Ints

TRIAL_SWEEPS, MORE_SWEEPS = 8, 60
START_GAMMA, START_SWEEPS = 0.999, 24
POLICY_STEPS = 300
TIE = 1e-11
MOST_ITERATIONS = 1000


@dataclass(frozen=True)
class AverageSolution:
    """A gain-optimal policy.

    Attributes:
        policy: `(S,)` actions.
        gain: `(S,)`, the gain of the policy; the optimal gain up to `error`.
        bias: `(S,)`, the bias of the policy, with P* h = 0.
        error: a checked bound on the gain's error.
        tol: the tolerance asked for.
    """

    policy: Ints
    gain: Floats
    bias: Floats
    error: float
    tol: float

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance asked for."""
        return self.error <= self.tol


def solve_average(
    mdp: TabularMDP,
    tol: float = 1e-8,
    bias_optimal: bool = False,
    policy: ArrayLike | None = None,
) -> AverageSolution:
    """Return a gain-optimal policy of `mdp`, its gain and its bias.

    Args:
        mdp: the model.
        tol: the error of the gain that is wanted; `solution.reached` says whether it was reached.
        bias_optimal: return a policy that also maximises the bias.
        policy: `(S,)`, a policy to start from.
    """
    checked_tolerance(tol)
    choice = first_policy(mdp, policy)
    if mdp.n_states > DENSE_PLANNING:
        if not bias_optimal and (found := _sweep(mdp, tol, choice)) is not None:
            return found
        run_sweeps(mdp, START_GAMMA, 0.0, START_SWEEPS, np.zeros(mdp.n_states), choice)
        within = float(np.abs(mdp.rewards).max())
        start = iterate(mdp, kernels.FAR_SIGHTED, within, choice)
        return _iterate(mdp, tol, bias_optimal, start.policy)
    work = kernels.workspace(mdp.n_states)
    kernels.plan_average(*kernels.thawed(mdp.dense, mdp.rewards), 1.0, choice, work)
    gain, bias = work.gain, work.value
    if bias_optimal:
        return _iterate(mdp, tol, bias_optimal, choice)
    return AverageSolution(choice, gain, bias, _gain_error(mdp, choice, gain, bias), tol)


def _sweep(mdp: TabularMDP, tol: float, policy: Ints) -> AverageSolution | None:
    """Return the solution by value sweeps, or None when they contract too slowly."""
    value = np.zeros(mdp.n_states)
    choice = policy.copy()
    low, high, _ = run_sweeps(mdp, 1.0, tol, TRIAL_SWEEPS, value, choice)
    before = np.inf
    while high - low > tol:
        if high - low > 0.1 * before:
            return None
        before = high - low
        low, high, _ = run_sweeps(mdp, 1.0, tol, MORE_SWEEPS, value, choice)
    matrix, rewards = policy_chain(mdp, choice)
    found = _settle(matrix, rewards, value)
    if found is None:
        chain = factored(matrix)
        gain = chain.average(rewards)
        bias = chain.potential(rewards - gain)
    else:
        gain, bias = np.full(mdp.n_states, found[0]), found[1]
    rounding = 4 * EPS * (np.abs(mdp.rewards).max() + np.abs(bias).max())
    error = max(high - float(gain.min()), float(gain.max()) - low) + rounding
    return AverageSolution(choice, gain, bias, float(error), tol)


def _settle(matrix: Any, rewards: Floats, start: Floats) -> tuple[float, Floats] | None:
    """Return gain and bias of a chain that mixes fast, by iteration; None when it does not."""
    bias = start - start[0]
    scale = float(np.abs(rewards).max() + np.ptp(bias)) + np.finfo(np.float64).tiny
    for _ in range(POLICY_STEPS):
        following = rewards + matrix @ bias
        step = following - bias
        if np.ptp(step) <= 16 * EPS * scale:
            break
        bias = following - following[0]
    else:
        return None
    level = bias
    for _ in range(POLICY_STEPS):
        if np.ptp(level) <= 16 * EPS * scale:
            return float(step.min() + step.max()) / 2, bias - level[0]
        level = matrix @ level
    return None


def _iterate(mdp: TabularMDP, tol: float, bias_optimal: bool, policy: Ints) -> AverageSolution:
    best, best_total, stalled = None, -np.inf, 0
    for _ in range(MOST_ITERATIONS):
        matrix, rewards = policy_chain(mdp, policy)
        chain = factored(matrix)
        gain = chain.average(rewards)
        bias = chain.potential(rewards - gain)
        second = chain.potential(-bias) if bias_optimal else None
        total = float(gain.sum())
        stalled = 0 if total > best_total + TIE * abs(total) else stalled + 1
        if best is None or total >= best_total - TIE * abs(total):
            best, best_total = (policy, gain, bias), max(total, best_total)
        if not bias_optimal and _gain_error(mdp, policy, gain, bias) <= tol:
            break
        following = _improved(mdp, policy, gain, bias, second)
        if np.array_equal(following, policy) or stalled > mdp.n_states:
            break
        policy = following
    policy, gain, bias = best if best is not None else (policy, gain, bias)
    return AverageSolution(policy, gain, bias, _gain_error(mdp, policy, gain, bias), tol)


def _improved(
    mdp: TabularMDP, policy: Ints, gain: Floats, bias: Floats, second: Floats | None
) -> Ints:
    """Return the policy with every action exchanged for a lexicographically better one."""
    states = np.arange(mdp.n_states)
    levels = [(expected_change(mdp, gain), EPS * 16 * np.abs(gain).max())]
    scale = np.abs(mdp.rewards).max() + np.abs(bias).max()
    advantages = mdp.rewards - gain[:, None] + expected_change(mdp, bias)
    levels.append((advantages, TIE * scale if second is not None else EPS * 16 * scale))
    if second is not None:
        third = expected_change(mdp, second) - bias[:, None]
        levels.append((third, TIE * np.abs(second).max()))
    following = policy.copy()
    tied = np.ones(mdp.rewards.shape, bool)
    settled = np.zeros(mdp.n_states, bool)
    for level, slack in levels:
        candidates = np.where(tied, level, -np.inf)
        choice = np.argmax(candidates, axis=1)
        better = ~settled & (candidates[states, choice] > level[states, policy] + slack)
        following[better] = choice[better]
        settled |= better
        tied &= level >= level[states, policy][:, None] - slack
    return following


def expected_change(mdp: TabularMDP, x: Floats) -> Floats:
    """Return P x - x `(S, A)`: how much x `(S,)` is expected to change in one step."""
    if mdp.is_thin:
        matrix = mdp.csr
        shape = mdp.rewards.shape
        return sweeps.sparse_change(matrix.indptr, matrix.indices, matrix.data, x, shape[1])
    return kernels.dense_change(mdp.dense, x)


def _gain_error(mdp: TabularMDP, policy: Ints, gain: Floats, bias: Floats) -> float:
    states = np.arange(mdp.n_states)
    advantages = mdp.rewards - gain[:, None] + expected_change(mdp, bias)
    evaluation = float(np.abs(advantages[states, policy]).max())
    if np.ptp(gain) > 0:
        loss = -expected_change(mdp, gain)
        strict = loss > 1e-9 * np.abs(gain).max()
        m = float(np.max(advantages[strict] / loss[strict], initial=0.0))
        advantages[strict] -= m * loss[strict]
    return max(evaluation, float(advantages.max()))
