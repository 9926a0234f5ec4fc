"""What planning for either criterion shares: a task, and the ladder of ways to solve it.

A rung takes a task and returns what it found, or None where it has nothing to say; it may leave a
better policy in the task for the next to start from. Rungs are tried in order of what they cost
until one reaches the tolerance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.documents import by_state
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.problem import width_of
from cpsrl.planning.evaluation import checked_policy
from cpsrl.support.types import Floats, Ints, brief

TOLERANCE = 1e-8
"""The error that is wanted by default, as a share of the width of the range of rewards."""
COARSE = 1e-5
"""A tolerance above this share of what rewards can make of a difference is not used to stop."""
QUICK_ENTRIES = 500_000
"""The most entries of a model that is swept in the caller's own thread at first."""
LEAST = 5e-324
POLICY_ITERATION = "policy iteration"
EPS = float(np.finfo(np.float64).eps)


@dataclass
class Task:
    """What is to be solved."""

    mdp: TabularMDP
    tol: float
    policy: Ints
    """`(S,)` to start from"""
    gamma: float = 1.0
    """or 1 for the average reward"""
    given: bool = False
    """whether the policy was given"""
    done: bool = False
    """whether no further rung would do better"""


class Solution:
    """What rungs return: dataclasses, with a bound on the error and the tolerance asked for."""

    error: float
    tol: float

    __repr__ = brief
    _repr_html_ = by_state

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance asked for."""
        return self.error <= self.tol


S = TypeVar("S", bound=Solution)


def climb(task: Task, *rungs: Callable[[Task], S | None]) -> S:
    """Return the first solution that reaches the tolerance, or the one with the least error."""
    best = None
    for rung in rungs:
        found = rung(task)
        if found is not None and (best is None or found.error < best.error):
            best = found
        if best is not None and (best.reached or task.done):
            break
    assert best is not None
    return best


def n_entries(mdp: TabularMDP) -> int:
    """Return how many numbers planning goes through to look at every transition."""
    return mdp.csr.nnz if mdp.prefers_sparse else mdp.dense.size


def of_magnitude(mdp: TabularMDP, tol: float, power: int) -> tuple[TabularMDP, float, float]:
    """Return `mdp` and the tolerance with rewards divided by 2^`power`, and what that has lost.

    Rewards that are so much smaller than the largest become 0 or lose digits: each is off by at
    most the loss, which is exact.
    """
    rewards = np.ldexp(mdp.rewards, -power)
    lost = float(np.abs(mdp.rewards - np.ldexp(rewards, power)).max())
    return with_rewards(mdp, rewards), float(np.ldexp(tol, -power)) or LEAST, lost


def in_rewards(found: S, power: int, tol: float, lost: float, worth: str) -> S:
    """Return a solution of such a model in the rewards' own unit.

    Args:
        found: the solution.
        power: that of `of_magnitude`.
        tol: the tolerance that was asked for.
        lost: what the loss of rewards can make of a difference to the numbers `worth`.
        worth: the name of the numbers that the error is about.
    """
    number = getattr(found, worth)
    with np.errstate(over="ignore"):
        unscaled = np.ldexp(number, power)
        rounding = float(np.abs(number - np.ldexp(unscaled, -power)).max())  # exact
        total = found.error + rounding
        error = float(np.ldexp(total, power)) + lost
        if (found.error and (rounding or lost)) or np.ldexp(error, -power) < total:
            error = float(np.nextafter(error, np.inf))
    return replace(found, error=error, tol=tol, **{worth: unscaled})  # type: ignore[type-var]


def with_rewards(mdp: TabularMDP, rewards: Floats) -> TabularMDP:
    """Return `mdp` with other mean rewards `(S, A)`, and no noise."""
    return TabularMDP(mdp.transitions, rewards, available=mdp.available)


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
