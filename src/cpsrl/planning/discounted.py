"""Discounted planning: a policy that maximises the gamma-discounted return in a known MDP.

It solves V = max over a of r_a + gamma P_a V. Small models are solved by policy iteration with
exact evaluation; larger ones by modified policy iteration with MacQueen's bounds (`sweeps`), and,
where these contract too slowly, by policy iteration with a sparse (or dense) factorisation. In
every case the result carries a bound on its error that was computed from the value returned, with
every rounding counted (`certificates`). Rewards far from 0 for their range are centred first.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.mdp import DENSE_STATES, TabularMDP
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.certificates import (
    discounted_bound,
    discounted_error,
    measures,
    shifted_error,
    swept_error,
)
from cpsrl.planning.evaluation import discounted_value
from cpsrl.planning.ladder import (
    COARSE,
    EPS,
    POLICY_ITERATION,
    QUICK_ENTRIES,
    Solution,
    Task,
    climb,
    first_policy,
    in_rewards,
    n_entries,
    of_magnitude,
    tolerance,
    with_rewards,
)
from cpsrl.planning.small import small_discounted
from cpsrl.planning.sweeps import Sweeps, bellman_step
from cpsrl.support.interruptible import interruptible, stage
from cpsrl.support.types import Floats, Ints

SWEEPS, MORE_SWEEPS = 60, 5000
"""Bellman steps before policy iteration takes over, and the most where it cannot."""
QUICK_SWEEPS = 12
"""Bellman steps that are taken in the caller's own thread."""
FEW_SUCCESSORS, MOST_DENSE, PATIENCE = 8, 2000, 3
FACTORED = "policy iteration, factored chains"


@dataclass(frozen=True, repr=False)
class DiscountedSolution(Solution):
    """A discounted optimal policy.

    Attributes:
        policy: `(S,)` actions.
        value: `(S,)`, the optimal value up to `error`.
        error: a bound on the distance of `value` from the optimal value and from the policy's.
        tol: the tolerance asked for.
        method: how it was found.
        sweeps: how often every state's action was chosen anew.
    """

    policy: Ints
    value: Floats
    error: float
    tol: float
    method: str
    sweeps: int


@checks_arguments
def solve_discounted(
    mdp: TabularMDP, gamma: float, tol: float | None = None, policy: ArrayLike | None = None
) -> DiscountedSolution:
    """Return a gamma-discounted optimal policy of `mdp` and its value.

    Args:
        mdp: the model.
        gamma: the discount factor, in [0, 1).
        tol: the error of the value that is wanted, by default 1e-8 of the width of the range of
            rewards; `solution.reached` says whether it was reached.
        policy: `(S,)`, a policy to start from.
    """
    facts, tol = measures(mdp), tolerance(mdp, tol)
    choice = first_policy(mdp, policy)
    if power := facts.power:
        scaled, tolerated, lost = of_magnitude(mdp, tol, power)
        found = solve_discounted(scaled, gamma, tolerated, choice)
        return in_rewards(found, power, tol, discounted_bound(mdp, gamma, lost), "value")
    if shift := facts.shift:
        found = solve_discounted(with_rewards(mdp, mdp.rewards - shift), gamma, tol, choice)
        value = found.value + shift / (1 - gamma)
        error = discounted_error(mdp, gamma, found.policy, value)
        shifted = shifted_error(mdp, gamma, found.error, found.value, value)
        return replace(found, value=value, error=min(error, shifted))
    task = Task(mdp, tol, choice, gamma, given=policy is not None)
    return climb(task, _small, _swept, _iterated)


def _small(task: Task) -> DiscountedSolution | None:
    """Solve a small model with dense arithmetic."""
    mdp = task.mdp
    if mdp.n_states > DENSE_STATES:
        return None
    value, error, number = small_discounted(mdp, task.gamma, task.policy)
    task.policy = mdp.allowed(task.policy)
    return DiscountedSolution(task.policy, value, error, task.tol, POLICY_ITERATION, number)


def _swept(task: Task) -> DiscountedSolution | None:
    """Solve a model by Bellman steps, at first in the caller's own thread."""
    mdp, gamma = task.mdp, task.gamma
    if mdp.n_states <= DENSE_STATES:
        return None
    sweeps = Sweeps(mdp, gamma, np.zeros(mdp.n_states), task.policy)
    reach, scale = gamma / (1 - gamma), measures(mdp).reward / (1 - gamma)
    sharp = min(task.tol, COARSE * float(np.ptp(mdp.rewards)) / (1 - gamma))
    target = max(2 * sharp / reach, 4 * EPS * scale) if reach else np.inf
    if n_entries(mdp) > QUICK_ENTRIES:
        return _swept_on(task, sweeps, target)
    if task.given:
        sweeps.evaluate(target)
    if sweeps.run(target, QUICK_SWEEPS):
        found, _ = _found(task, sweeps)
        task.done = not sweeps.slow
        if found.reached or task.done:
            return found
    return _swept_on(task, sweeps, target)


@interruptible("planning for the discounted return")
def _swept_on(task: Task, sweeps: Sweeps, target: float) -> DiscountedSolution:
    """Go on sweeping; policy iteration is to follow where it can be had and would do better.

    Rows with many successors in a large sparse model fill factors up.
    """
    mdp = task.mdp
    if task.given and not sweeps.sweeps:
        sweeps.evaluate(target)
    factors = not mdp.prefers_sparse or mdp.csr.nnz <= FEW_SUCCESSORS * mdp.rewards.size
    sweeps.run(target, (SWEEPS if factors else MORE_SWEEPS) - sweeps.sweeps)
    found, close = _found(task, sweeps)
    affordable = factors or mdp.n_states <= MOST_DENSE
    task.done = not affordable or (close and not sweeps.slow)
    task.policy = found.policy
    return found


def _found(task: Task, sweeps: Sweeps) -> tuple[DiscountedSolution, bool]:
    """Return the solution that sweeps have found, and whether more of the like would not help."""
    mdp, gamma, tol = task.mdp, task.gamma, task.tol
    reach, scale = gamma / (1 - gamma), measures(mdp).reward / (1 - gamma)
    low, high, value = sweeps.low, sweeps.high, sweeps.value
    shift = reach * (low + high) / 2
    error = swept_error(mdp, gamma, low, high, value, shift)
    value = value + shift
    estimate = reach * (high - low) / 2 + 4 * EPS * float(np.abs(value).max()) / (1 - gamma)
    close = estimate <= max(tol, 8 * EPS * scale / (1 - gamma))
    if error > tol:
        error = min(error, discounted_error(mdp, gamma, sweeps.policy, value))
    found = DiscountedSolution(sweeps.policy, value, error, tol, sweeps.method, sweeps.sweeps)
    return found, close


@interruptible("planning for the discounted return")
def _iterated(task: Task) -> DiscountedSolution:
    """Solve a model by policy iteration with a factorisation of each policy's chain.

    Values rise from policy to policy, their distance from the optimum need not fall: the iteration
    ends when the value rises no more, and the one that seemed nearest is taken and certified.
    Rounding can hide that a few states rise, so it is given PATIENCE policies to be sure.
    """
    mdp, gamma, policy = task.mdp, task.gamma, task.policy
    best, highest, nearest = (policy, np.zeros(mdp.n_states)), -np.inf, np.inf
    number = stalled = 0
    while True:
        number += 1
        stage(f"policy {number} for gamma = {gamma:g}")
        value = discounted_value(mdp, policy, gamma)
        low, high, following = bellman_step(mdp, gamma, value, policy)
        distance = max(abs(low), abs(high)) / (1 - gamma)
        if distance < nearest:
            best, nearest = (policy, value), distance
        total = float(value.sum())
        stalled = 0 if total > highest else stalled + 1
        if nearest <= task.tol or np.array_equal(following, policy) or stalled > PATIENCE:
            error = discounted_error(mdp, gamma, *best)
            return DiscountedSolution(*best, error, task.tol, FACTORED, number)
        policy, highest = following, max(total, highest)
