"""Discounted planning: a policy that maximises the gamma-discounted return in a known MDP.

It solves V = max over a of r_a + gamma P_a V. Small models are solved by policy iteration with
exact evaluation; larger ones by value sweeps with MacQueen's bounds (`sweeps`), and, where these
contract too slowly, by policy iteration with a sparse (or dense) factorisation. In every case the
result carries a bound on its error that was computed from the value returned, with every rounding
counted (`certificates`). Rewards far from 0 for their range are centred first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.checks import checked_gamma
from cpsrl.mdp import DENSE_PLANNING, TabularMDP
from cpsrl.planning import kernels, sweeps
from cpsrl.planning.certificates import discounted_error, measures, swept_error
from cpsrl.planning.evaluation import checked_policy, discounted_value
from cpsrl.types import Floats, Ints

SWEEPS, MORE_SWEEPS = 120, 5000
"""Bellman steps (each with up to 128 policy steps) before policy iteration takes over, and the
most where it cannot."""
FEW_SUCCESSORS = 8
COARSE = 1e-5
"""A tolerance above this share of what rewards can make of a difference is not used to stop."""
FAR = 8
"""Rewards are centred if their middle is more than so many times their range from 0."""

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class DiscountedSolution:
    """A discounted optimal policy.

    Attributes:
        policy: `(S,)` actions.
        value: `(S,)`, the optimal value up to `error`.
        error: a bound on the distance of `value` from the optimal value and from the policy's.
        tol: the tolerance asked for.
    """

    policy: Ints
    value: Floats
    error: float
    tol: float

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance asked for."""
        return self.error <= self.tol


def solve_discounted(
    mdp: TabularMDP, gamma: float, tol: float = 1e-8, policy: ArrayLike | None = None
) -> DiscountedSolution:
    """Return a gamma-discounted optimal policy of `mdp` and its value.

    Args:
        mdp: the model.
        gamma: the discount factor, in [0, 1).
        tol: the error of the value that is wanted; `solution.reached` says whether it was reached.
        policy: `(S,)`, a policy to start from.
    """
    gamma = checked_gamma(gamma)
    checked_tolerance(tol)
    choice = first_policy(mdp, policy)
    if shift := reward_shift(mdp):
        found = solve_discounted(with_rewards(mdp, mdp.rewards - shift), gamma, tol, choice)
        value = found.value + shift / (1 - gamma)
        return _certified(mdp, gamma, tol, found.policy, value)
    if mdp.n_states <= DENSE_PLANNING:
        work = kernels.workspace(mdp.n_states)
        kernels.plan_discounted(*kernels.thawed(mdp.dense, mdp.rewards), gamma, choice, work)
        return _certified(mdp, gamma, tol, choice, work.value)
    factors = factors_well(mdp)
    value = np.zeros(mdp.n_states)
    if policy is not None and factors:
        value = discounted_value(mdp, choice, gamma)
    found, close = _sweep(mdp, gamma, tol, choice, value, SWEEPS if factors else MORE_SWEEPS)
    if factors and not close:
        iterated = iterate(mdp, gamma, tol, found.policy)
        found = min(found, iterated, key=lambda x: x.error)
    return found


def _certified(
    mdp: TabularMDP, gamma: float, tol: float, policy: Ints, value: Floats
) -> DiscountedSolution:
    error = discounted_error(mdp, gamma, policy, value)
    return DiscountedSolution(policy, value, error, tol)


def reward_shift(mdp: TabularMDP) -> float:
    """Return the middle of the rewards where it is far from 0 for their range, else 0.

    Then r - shift is exact (Sterbenz), and nothing depends on how large the shift is.
    """
    low, high = mdp.rewards.min().item(), mdp.rewards.max().item()
    middle = low / 2 + high / 2
    return middle if abs(middle) > FAR * (high - low) else 0.0


def with_rewards(mdp: TabularMDP, rewards: Floats) -> TabularMDP:
    """Return `mdp` with other mean rewards `(S, A)`, and no noise."""
    return TabularMDP(mdp.transitions, rewards)


def factors_well(mdp: TabularMDP) -> bool:
    """Return whether factoring the chains of a model's policies is affordable.

    Rows with many successors in a large sparse model fill the factors up.
    """
    return not mdp.is_thin or mdp.csr.nnz <= FEW_SUCCESSORS * mdp.rewards.size


def _sweep(
    mdp: TabularMDP, gamma: float, tol: float, policy: Ints, value: Floats, most: int
) -> tuple[DiscountedSolution, bool]:
    """Return the solution by value sweeps, and whether more of the like would not help."""
    reach, scale = gamma / (1 - gamma), measures(mdp).reward / (1 - gamma)
    sharp = min(tol, COARSE * float(np.ptp(mdp.rewards)) / (1 - gamma))
    target = max(2 * sharp / reach, 4 * EPS * scale) if reach else np.inf
    low, high, _ = run_sweeps(mdp, gamma, target, most, value, policy)
    shift = reach * (low + high) / 2
    error = swept_error(mdp, gamma, low, high, value, shift)
    value += shift
    estimate = reach * (high - low) / 2 + 4 * EPS * float(np.abs(value).max()) / (1 - gamma)
    close = estimate <= max(tol, 8 * EPS * scale / (1 - gamma))
    return DiscountedSolution(policy, value, error, tol), close


def iterate(mdp: TabularMDP, gamma: float, tol: float, policy: Ints) -> DiscountedSolution:
    """Return the solution by policy iteration with a factorisation of each policy's chain.

    Values rise from policy to policy, their distance from the optimum need not fall: the iteration
    ends when the value rises no more, and the one that seemed nearest is taken and certified.
    """
    best, highest, nearest = (policy, np.zeros(0)), -np.inf, np.inf
    while True:
        value = discounted_value(mdp, policy, gamma)
        step, following = value.copy(), policy.copy()
        low, high, _ = run_sweeps(mdp, gamma, 0.0, 1, step, following)
        distance = max(abs(low), abs(high)) / (1 - gamma)
        if distance < nearest:
            best, nearest = (policy, value), distance
        total = float(value.sum())
        if nearest <= tol or np.array_equal(following, policy) or total <= highest:
            return _certified(mdp, gamma, tol, *best)
        policy, highest = following, total


def run_sweeps(
    mdp: TabularMDP, gamma: float, target: float, most: int, value: Floats, policy: Ints
) -> tuple[float, float, int]:
    """Run `dense_sweeps` or `sparse_sweeps`, whichever fits the model; both work in place."""
    arguments = (mdp.rewards, gamma, target, most, value, policy)
    if mdp.is_thin:
        matrix = mdp.csr
        return sweeps.sparse_sweeps(matrix.indptr, matrix.indices, matrix.data, *arguments)
    return sweeps.dense_sweeps(mdp.by_successor, mdp.dense, *arguments)


def first_policy(mdp: TabularMDP, policy: ArrayLike | None) -> Ints:
    """Return a fresh copy of `policy`, or the policy that is greedy for the rewards."""
    if policy is None:
        return np.argmax(mdp.rewards, axis=1).astype(np.int64)
    checked = checked_policy(mdp, policy)
    if checked.ndim != 1:
        raise ValueError("the policy to start from must be deterministic, one action a state")
    return np.array(checked, dtype=np.int64)


def checked_tolerance(tol: float) -> None:
    """Raise a ValueError unless `tol` is a positive number."""
    if not tol > 0:
        raise ValueError(f"tol must be a positive number, not {tol!r}")
