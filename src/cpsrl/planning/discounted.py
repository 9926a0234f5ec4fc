"""Discounted planning: a policy that maximises the gamma-discounted return in a known MDP.

It solves V = max over a of r_a + gamma P_a V. Small models are solved by policy iteration with
exact evaluation; larger ones by modified policy iteration with MacQueen's bounds (`sweeps`), and,
where these contract too slowly, by policy iteration with a sparse (or dense) factorisation. In
every case the result carries a bound on its error that was computed from the value returned, with
every rounding counted (`certificates`). Rewards far from 0 for their range are centred first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.mdp import DENSE_PLANNING, TabularMDP
from cpsrl.pages.notebook import by_state
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.certificates import discounted_error, measures, swept_error
from cpsrl.planning.evaluation import checked_policy, discounted_value
from cpsrl.planning.small import small_discounted
from cpsrl.planning.sweeps import Sweeps, bellman_step
from cpsrl.sizes import width_of
from cpsrl.types import Floats, Ints, brief
from cpsrl.waiting import interruptible, stage

SWEEPS, MORE_SWEEPS = 60, 5000
"""Bellman steps before policy iteration takes over, and the most where it cannot."""
QUICK_SWEEPS, QUICK_ENTRIES = 12, 500_000
"""Bellman steps that are taken in the caller's own thread, in models of at most so many entries."""
FEW_SUCCESSORS, MOST_DENSE, PATIENCE = 8, 2000, 3
COARSE = 1e-5
"""A tolerance above this share of what rewards can make of a difference is not used to stop."""
FAR = 8
"""Rewards are centred if their middle is more than so many times their range from 0."""

TOLERANCE = 1e-8
"""The error that is wanted by default, as a share of the width of the range of rewards."""

POLICY_ITERATION, FACTORED = "policy iteration", "policy iteration, factored chains"

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, repr=False)
class DiscountedSolution:
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

    __repr__ = brief
    _repr_html_ = by_state

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance asked for."""
        return self.error <= self.tol


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
    tol = tolerance(mdp, tol)
    choice = first_policy(mdp, policy)
    if shift := reward_shift(mdp):
        found = solve_discounted(with_rewards(mdp, mdp.rewards - shift), gamma, tol, choice)
        value = found.value + shift / (1 - gamma)
        return _certified(mdp, gamma, tol, found.policy, value, found.method, found.sweeps)
    if mdp.n_states <= DENSE_PLANNING:
        value, error, number = small_discounted(mdp, gamma, choice)
        choice = mdp.allowed(choice)
        return DiscountedSolution(choice, value, error, tol, POLICY_ITERATION, number)
    reach, scale = gamma / (1 - gamma), measures(mdp).reward / (1 - gamma)
    sharp = min(tol, COARSE * float(np.ptp(mdp.rewards)) / (1 - gamma))
    target = max(2 * sharp / reach, 4 * EPS * scale) if reach else np.inf
    sweeps = Sweeps(mdp, gamma, np.zeros(mdp.n_states), choice)
    if n_entries(mdp) <= QUICK_ENTRIES:
        if policy is not None:
            sweeps.evaluate(target)
        if sweeps.run(target, QUICK_SWEEPS):
            found, _ = _swept(mdp, gamma, tol, sweeps)
            if found.reached or not sweeps.slow:
                return found
    elif policy is not None:
        _evaluate(mdp, sweeps, target)
    return _patiently(mdp, gamma, tol, sweeps, target)


@interruptible("evaluating a policy")
def _evaluate(mdp: TabularMDP, sweeps: Sweeps, target: float) -> None:
    sweeps.evaluate(target)


@interruptible("planning for the discounted return")
def _patiently(
    mdp: TabularMDP, gamma: float, tol: float, sweeps: Sweeps, target: float
) -> DiscountedSolution:
    """Return the solution by further sweeps, or by policy iteration where these would not do."""
    factors = factors_well(mdp)
    sweeps.run(target, (SWEEPS if factors else MORE_SWEEPS) - sweeps.sweeps)
    found, close = _swept(mdp, gamma, tol, sweeps)
    affordable = factors or mdp.n_states <= MOST_DENSE
    if affordable and (not close or (sweeps.slow and not found.reached)):
        iterated = iterate(mdp, gamma, tol, found.policy)
        found = min(found, iterated, key=lambda x: x.error)
    return found


def _swept(
    mdp: TabularMDP, gamma: float, tol: float, sweeps: Sweeps
) -> tuple[DiscountedSolution, bool]:
    """Return the solution that sweeps have found, and whether more of the like would not help."""
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


def n_entries(mdp: TabularMDP) -> int:
    """Return how many numbers planning goes through to look at every transition."""
    return mdp.csr.nnz if mdp.is_thin else mdp.dense.size


def _certified(
    mdp: TabularMDP,
    gamma: float,
    tol: float,
    policy: Ints,
    value: Floats,
    method: str,
    sweeps: int,
) -> DiscountedSolution:
    error = discounted_error(mdp, gamma, policy, value)
    return DiscountedSolution(policy, value, error, tol, method, sweeps)


def reward_shift(mdp: TabularMDP) -> float:
    """Return the middle of the rewards where it is far from 0 for their range, else 0.

    Then r - shift is exact (Sterbenz), and nothing depends on how large the shift is.
    """
    _, _, _, low, high = measures(mdp)
    middle = low / 2 + high / 2
    return middle if abs(middle) > FAR * (high - low) else 0.0


def with_rewards(mdp: TabularMDP, rewards: Floats) -> TabularMDP:
    """Return `mdp` with other mean rewards `(S, A)`, and no noise."""
    return TabularMDP(mdp.transitions, rewards, available=mdp.available)


def factors_well(mdp: TabularMDP) -> bool:
    """Return whether factoring the chains of a model's policies is affordable.

    Rows with many successors in a large sparse model fill the factors up.
    """
    return not mdp.is_thin or mdp.csr.nnz <= FEW_SUCCESSORS * mdp.rewards.size


def iterate(mdp: TabularMDP, gamma: float, tol: float, policy: Ints) -> DiscountedSolution:
    """Return the solution by policy iteration with a factorisation of each policy's chain.

    Values rise from policy to policy, their distance from the optimum need not fall: the iteration
    ends when the value rises no more, and the one that seemed nearest is taken and certified.
    Rounding can hide that a few states rise, so it is given PATIENCE policies to be sure.
    """
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
        if nearest <= tol or np.array_equal(following, policy) or stalled > PATIENCE:
            return _certified(mdp, gamma, tol, *best, FACTORED, number)
        policy, highest = following, max(total, highest)


def first_policy(mdp: TabularMDP, policy: ArrayLike | None) -> Ints:
    """Return a fresh copy of `policy`, or the policy that is greedy for the rewards."""
    if policy is None:
        return mdp.allowed(mdp.rewards.argmax(axis=1).astype(np.int64, copy=False))
    checked = checked_policy(mdp, policy)
    if checked.ndim != 1:
        raise ValueError("the policy to start from must be deterministic, one action a state")
    return np.array(checked, dtype=np.int64)


def tolerance(mdp: TabularMDP, tol: float | None) -> float:
    """Return the tolerance to plan `mdp` with, a share of its range of rewards if `tol` is None."""
    return TOLERANCE * width_of(mdp.reward_range) if tol is None else tol
