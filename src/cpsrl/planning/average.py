"""Average-reward planning: a policy that maximises the gain in a known MDP.

Right for any finite model: weakly communicating or not, periodic or not. Small models are solved by
Howard's policy iteration with exact evaluation (`kernels.plan_average`). Larger ones are first
swept (`sweeps` with gamma = 1), which finishes a model that mixes fast; the others go to policy
iteration with a factorisation of each policy's chain, started from a discounted policy (why: see
`kernels.plan_average`).

The bound on the gain's error is computed from the gain and the bias that are returned, with every
rounding counted (`certificates`). Where it is above the tolerance asked for, policy iteration goes
on, and exchanges every action whose advantage is more than the rounding of its own comparison.

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
from cpsrl.planning.certificates import UNIT, average_error, differences, settled_error
from cpsrl.planning.discounted import (
    COARSE,
    EPS,
    checked_tolerance,
    first_policy,
    iterate,
    reward_shift,
    run_sweeps,
    with_rewards,
)
from cpsrl.planning.evaluation import factored, policy_chain
from cpsrl.types import Floats, Ints

TRIAL_SWEEPS, MORE_SWEEPS = 8, 60
START_GAMMA, START_SWEEPS = 0.999, 24
POLICY_STEPS = 300
MOST_DENSE = 2000
TIE = 1e-11
MOST_ITERATIONS, PATIENCE = 1000, 10
NOISE = 16
"""In the finest comparison an advantage counts if it is so many times what rounding can do."""


@dataclass(frozen=True)
class AverageSolution:
    """A gain-optimal policy.

    Attributes:
        policy: `(S,)` actions.
        gain: `(S,)`, the gain of the policy; the optimal gain up to `error`.
        bias: `(S,)`, the bias of the policy, with P* h = 0.
        error: a bound on the distance of `gain` from the optimal gain and from the policy's.
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
    if shift := reward_shift(mdp):
        centred = with_rewards(mdp, mdp.rewards - shift)
        found = solve_average(centred, tol, bias_optimal, choice)
        return _certified(mdp, tol, found.policy, found.gain + shift, found.bias)
    if mdp.n_states > DENSE_PLANNING:
        if not bias_optimal and (swept := _sweep(mdp, tol, choice)) is not None:
            return swept
        run_sweeps(mdp, START_GAMMA, 0.0, START_SWEEPS, np.zeros(mdp.n_states), choice)
        within = float(np.abs(mdp.rewards).max())
        start = iterate(mdp, kernels.FAR_SIGHTED, within, choice)
        try:
            return _iterate(mdp, tol, bias_optimal, start.policy)
        except ZeroDivisionError:  # a pivot underflowed in a chain that drifts far
            if mdp.n_states > MOST_DENSE:
                raise ValueError(
                    f"{mdp!r} has states that are visited too rarely for float64 to plan"
                ) from None
    work = kernels.workspace(mdp.n_states)
    kernels.plan_average(*kernels.thawed(mdp.dense, mdp.rewards), 1.0, choice, work)
    found = _certified(mdp, tol, choice, work.gain, work.value)
    if bias_optimal:
        return _iterate(mdp, tol, bias_optimal, choice)
    if not found.reached and mdp.n_states <= DENSE_PLANNING:
        found = min(found, _iterate(mdp, tol, bias_optimal, choice), key=lambda x: x.error)
    return found


def _certified(
    mdp: TabularMDP, tol: float, policy: Ints, gain: Floats, bias: Floats
) -> AverageSolution:
    error = average_error(mdp, policy, gain, bias)
    return AverageSolution(policy, gain, bias, error if error >= 0 else np.inf, tol)


def _sweep(mdp: TabularMDP, tol: float, policy: Ints) -> AverageSolution | None:
    """Return the solution by value sweeps, or None when they contract too slowly."""
    value = np.zeros(mdp.n_states)
    choice = policy.copy()
    sharp = min(tol, COARSE * float(np.ptp(mdp.rewards)))
    low, high, _ = run_sweeps(mdp, 1.0, sharp, TRIAL_SWEEPS, value, choice)
    before = np.inf
    while high - low > sharp:
        if high - low > 0.1 * before:
            return None
        before = high - low
        low, high, _ = run_sweeps(mdp, 1.0, sharp, MORE_SWEEPS, value, choice)
    matrix, rewards = policy_chain(mdp, choice)
    found = _settle(matrix, rewards, value)
    if found is None:
        chain = factored(matrix)
        gain = chain.average(rewards)
        return _certified(mdp, tol, choice, gain, chain.potential(rewards - gain))
    level, bias, low = found
    _, high, _ = run_sweeps(mdp, 1.0, tol, 1, bias.copy(), choice.copy())
    error = settled_error(mdp, level, bias, low, high)
    return AverageSolution(choice, np.full(mdp.n_states, level), bias, error, tol)


def _settle(matrix: Any, rewards: Floats, start: Floats) -> tuple[float, Floats, float] | None:
    """Return gain and bias of a chain that mixes fast, by iteration; None when it does not.

    Also the smallest r + P h - h of the bias h, as computed.
    """
    bias = start - start[0]
    scale = float(np.abs(rewards).max() + np.ptp(bias)) + np.finfo(np.float64).tiny
    for _ in range(POLICY_STEPS):
        following = rewards + matrix @ bias
        step = following - bias
        low, high = step.min(), step.max()
        if high - low <= 16 * EPS * scale:
            break
        bias = following - following[0]
    else:
        return None
    level = bias
    for _ in range(POLICY_STEPS):
        if level.max() - level.min() <= 16 * EPS * scale:
            return float(low + high) / 2, bias - level[0], float(low)
        level = matrix @ level
    return None


def _iterate(mdp: TabularMDP, tol: float, bias_optimal: bool, policy: Ints) -> AverageSolution:
    best, best_total, stalled, fine = None, -np.inf, 0, bias_optimal
    for _ in range(MOST_ITERATIONS):
        matrix, rewards = policy_chain(mdp, policy)
        chain = factored(matrix)
        gain = chain.average(rewards)
        bias = chain.potential(rewards - gain)
        second = chain.potential(-bias) if bias_optimal else None
        found = _certified(mdp, tol, policy, gain, bias)
        total = float(gain.sum())
        stalled = 0 if total > best_total + TIE * abs(total) else stalled + 1
        if best is None or (
            total >= best_total - TIE * abs(total) if bias_optimal else found.error < best.error
        ):
            best = found
        best_total = max(total, best_total)
        if not bias_optimal and found.reached:
            break
        following = _improved(mdp, policy, gain, bias, second, fine)
        if not fine and (np.array_equal(following, policy) or stalled > mdp.n_states):
            fine, stalled = True, 0
            following = _improved(mdp, policy, gain, bias, second, fine)
        most = mdp.n_states if bias_optimal else PATIENCE
        if np.array_equal(following, policy) or (fine and stalled > most):
            break
        policy = following
    assert best is not None
    return best


def _improved(
    mdp: TabularMDP, policy: Ints, gain: Floats, bias: Floats, second: Floats | None, fine: bool
) -> Ints:
    """Return the policy with every action exchanged for a lexicographically better one.

    At each level the policy's own actions would all have 0 in exact arithmetic. How far they are
    from it, and the rounding of the comparison, are the slack of a `fine` comparison.
    """
    states = np.arange(mdp.n_states)
    levels = [differences(mdp, gain)]
    change, slack = differences(mdp, bias)
    rest = mdp.rewards - gain[:, None]
    levels.append((rest + change, slack + 4 * UNIT * (np.abs(rest) + np.abs(change))))
    if second is not None:
        change, slack = differences(mdp, second)
        away = bias[:, None]
        levels.append((change - away, slack + 4 * UNIT * (np.abs(away) + np.abs(change))))
    scale = (np.abs(gain).max(), np.abs(mdp.rewards).max() + np.abs(bias).max())
    following = policy.copy()
    tied = np.ones(mdp.rewards.shape, bool)
    settled = np.zeros(mdp.n_states, bool)
    for number, (level, rounding) in enumerate(levels):
        own = level[states, policy]
        if fine:
            noise = np.abs(own) if number == 0 else np.abs(own).max()
            slack = NOISE * rounding + (2 * noise)[..., None]
        else:
            slack = np.full_like(level, 16 * EPS * scale[number])
        candidates = np.where(tied & (level > own[:, None] + slack), level, -np.inf)
        choice = np.argmax(candidates, axis=1)
        better = ~settled & (candidates[states, choice] > -np.inf)
        following[better] = choice[better]
        settled |= better
        tied &= level >= own[:, None] - slack
    return following


def expected_change(mdp: TabularMDP, x: Floats) -> Floats:
    """Return P x - x `(S, A)`: how much x `(S,)` is expected to change in one step."""
    if mdp.is_thin:
        matrix = mdp.csr
        shape = mdp.rewards.shape
        return sweeps.sparse_change(matrix.indptr, matrix.indices, matrix.data, x, shape[1])
    return kernels.dense_change(mdp.dense, x)
