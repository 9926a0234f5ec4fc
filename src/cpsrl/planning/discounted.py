"""Discounted planning: a policy that maximises the gamma-discounted return in a known MDP.

It solves V = max over a of r_a + gamma P_a V. Small models are solved by policy iteration with
exact evaluation; larger ones by value sweeps with MacQueen's bounds (`sweeps`), and, where these
contract too slowly, by policy iteration with a sparse (or dense) factorisation. In every case the
result carries a bound on its error that was computed from the Bellman residual of the value
returned: |V - V*| <= residual / (1 - gamma), or MacQueen's sharper one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.mdp import SMALL, Floats, Ints, TabularMDP
from cpsrl.planning import kernels, sweeps
from cpsrl.planning.chain import checked_gamma, checked_policy, discounted_value

SWEEPS = 120
"""Bellman steps (each with up to 128 policy steps) before policy iteration takes over."""

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class DiscountedSolution:
    """A discounted optimal policy.

    Attributes:
        policy: `(S,)` actions.
        value: `(S,)`, the optimal value up to `error`.
        error: a checked bound on the value's error.
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
    if mdp.n_states <= SMALL:
        value = np.empty(mdp.n_states)
        scratch = np.empty((mdp.n_states, mdp.n_states))
        kernels.plan_discounted(mdp.dense, mdp.rewards, gamma, choice, value, scratch)
        residual = kernels.bellman_residual(mdp.dense, mdp.rewards, gamma, value)
        return DiscountedSolution(choice, value, residual / (1 - gamma), tol)
    value = np.zeros(mdp.n_states)
    if policy is not None:
        value = discounted_value(mdp, choice, gamma)
    found = _sweep(mdp, gamma, tol, choice, value)
    if not found.reached:
        found = min(found, _iterate(mdp, gamma, tol, found.policy), key=lambda x: x.error)
    return found


def _sweep(
    mdp: TabularMDP, gamma: float, tol: float, policy: Ints, value: Floats
) -> DiscountedSolution:
    reach = gamma / (1 - gamma)
    target = 2 * tol / reach if reach else np.inf
    low, high, _ = run_sweeps(mdp, gamma, target, SWEEPS, value, policy)
    value += reach * (low + high) / 2
    error = reach * (high - low) / 2 + 4 * EPS * float(np.abs(value).max()) / (1 - gamma)
    return DiscountedSolution(policy, value, error, tol)


def _iterate(mdp: TabularMDP, gamma: float, tol: float, policy: Ints) -> DiscountedSolution:
    best = None
    while True:
        value = discounted_value(mdp, policy, gamma)
        step, following = value.copy(), policy.copy()
        low, high, _ = run_sweeps(mdp, gamma, 0.0, 1, step, following)
        error = max(abs(low), abs(high)) / (1 - gamma)
        if best is not None and error >= best.error:
            return best
        best = DiscountedSolution(policy, value, error, tol)
        if best.reached or np.array_equal(following, policy):
            return best
        policy = following


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
