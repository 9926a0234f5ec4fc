"""What to plan for in a sampled model: the gamma-discounted return, or the average reward.

An objective is a small class with defaults, as a rule is. Agents with tables ask it to plan, small
dense models by a compiled function on arrays, large ones by a solver. Agents with networks ask it
for the target of their values.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cpsrl.checks import checked_gamma
from cpsrl.mdp import TabularMDP
from cpsrl.planning import kernels, solve_average, solve_discounted
from cpsrl.registry import Registry
from cpsrl.types import Ints

TOLERANCE = 1e-8
"""Error of the value of a large sampled model, or of its gain, as a share of the largest reward."""


class Objective:
    """What to plan for.

    Attributes:
        discounts: whether planning takes a discount factor.
        gamma: the objective's own discount factor; None where it takes the rule's, or none.
        plan: a compiled function of P `(S, A, S)`, r `(S, A)`, gamma, policy `(S,)` (the start, and
            on return the result) and scratch (see `planning.kernels`).
    """

    discounts: ClassVar[bool] = False
    gamma: float | None = None
    plan: ClassVar[Any]

    @property
    def label(self) -> str:
        """The objective in a word or two, for tables and figures."""
        return type(self).__name__.lower()

    def solve(self, model: TabularMDP, gamma: float) -> Ints:
        """Return an optimal policy `(S,)` of a large model, planned with `gamma` if discounted."""
        raise NotImplementedError

    def planning_gamma(self, rules: float) -> float:
        """Return the discount factor to plan with where the rule's is `rules` (NaN: none)."""
        return rules if self.gamma is None else self.gamma

    def target(self, reward: Any, next_value: Any, gamma: Any) -> Any:
        """Return what networks' values should be, by arithmetic that NumPy and JAX share.

        Args:
            reward: `(B,)`
            next_value: `(J, B)` the greedy values of the next observations.
            gamma: the discount factor, if there is one.
        """
        raise ValueError(
            f"networks cannot learn for the objective {self.label!r}: it has no target"
        )


OBJECTIVES: Registry[Objective] = Registry("objective")


@OBJECTIVES.add("discounted")
@dataclass(frozen=True)
class Discounted(Objective):
    """Plan for the gamma-discounted return.

    Args:
        gamma: the discount factor; None takes the rule's, at the moment of resampling.
    """

    gamma: float | None = None

    discounts: ClassVar[bool] = True
    plan: ClassVar[Any] = staticmethod(kernels.plan_discounted)

    def __post_init__(self) -> None:
        if self.gamma is not None:
            object.__setattr__(self, "gamma", checked_gamma(self.gamma))

    @property
    def label(self) -> str:
        """The discount factor, if it is the objective's own."""
        return "discounted" if self.gamma is None else f"discounted {self.gamma:g}"

    def target(self, reward: Any, next_value: Any, gamma: Any) -> Any:
        """Return r + gamma max_a Q'(x', a)."""
        return reward + gamma * next_value

    def solve(self, model: TabularMDP, gamma: float) -> Ints:
        """Return a discounted optimal policy `(S,)` of a large model."""
        return solve_discounted(model, gamma, _tolerance(model)).policy


@OBJECTIVES.add("average")
@dataclass(frozen=True)
class Average(Objective):
    """Plan for the average reward."""

    plan: ClassVar[Any] = staticmethod(kernels.plan_average)

    def solve(self, model: TabularMDP, gamma: float) -> Ints:
        """Return a gain-optimal policy `(S,)` of a large model; `gamma` is not used."""
        return solve_average(model, _tolerance(model)).policy

    def target(self, reward: Any, next_value: Any, gamma: Any) -> Any:
        """Raise: networks do not learn average rewards yet."""
        raise ValueError(
            "networks cannot learn for the average reward yet, only tables can plan for it: give "
            "Discounted(gamma)"
        )

    def planning_gamma(self, rules: float) -> float:
        """Return NaN: there is no discount factor."""
        return math.nan


def checked_objective(objective: Any) -> Objective:
    """Return `objective`, or raise if it is not one."""
    if not isinstance(objective, Objective):
        raise ValueError(f"objective must be Discounted() or Average(), not {objective!r}")
    if not hasattr(getattr(objective, "plan", None), "py_func"):
        raise ValueError(f"the `plan` of {objective!r} must be compiled: a leaf of cpsrl._compile")
    return objective


def _tolerance(model: TabularMDP) -> float:
    return TOLERANCE * max(1.0, float(np.abs(model.rewards).max()))
