"""What to plan for in a sampled model: the gamma-discounted return, or the average reward.

An objective is a small class with defaults, as a rule is. Agents with tables ask it to plan, small
dense models by a compiled function on arrays, large ones by a solver. Agents with networks ask it
for the target of their values.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from cpsrl.mdp import TabularMDP
from cpsrl.planning import kernels, solve_discounted
from cpsrl.planning.average import average_policy
from cpsrl.support.checks import WrongTypeError, checked_gamma, checked_kind
from cpsrl.support.registry import Registry
from cpsrl.support.types import Ints


class Objective:
    """What to plan for.

    Attributes:
        discounts: whether planning takes a discount factor.
        gamma: the objective's own discount factor; None where it takes the rule's, or none.
        centre_rate: how fast the average reward that networks take off every reward follows their
            errors; 0 where none is taken off.
        plan: a compiled function of P `(S, A, S)`, r `(S, A)`, gamma, policy `(S,)` (the start, and
            on return the result) and scratch (see `planning.kernels`).
    """

    discounts: ClassVar[bool] = False
    gamma: float | None = None
    centre_rate: ClassVar[float] = 0.0
    plan: ClassVar[Any]

    @property
    def label(self) -> str:
        """The objective in a word or two, for tables and figures."""
        return type(self).__name__.lower()

    def solve(self, model: TabularMDP, gamma: float) -> Ints:
        """Return an optimal policy `(S,)` of a large model, planned with `gamma` if discounted."""
        raise NotImplementedError

    def planning_gamma(self, rule_gamma: float) -> float:
        """Return the discount factor to plan with where the rule's is `rule_gamma` (NaN: none)."""
        return rule_gamma if self.gamma is None else self.gamma

    def target(self, reward: Any, next_value: Any, gamma: Any) -> Any:
        """Return what networks' values should be, by arithmetic that NumPy and JAX share.

        Args:
            reward: `(B,)`, in units of the problem's range, and centred if it is to be.
            next_value: `(J, B)` the greedy values of the next observations.
            gamma: the discount factor; 1 where there is none.
        """
        raise ValueError(
            f"networks cannot learn for the objective {self.label!r}: it has no target"
        )


OBJECTIVES: Registry[Objective] = Registry("objective", Objective)


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
        return solve_discounted(model, gamma).policy


@OBJECTIVES.add("average")
@dataclass(frozen=True)
class Average(Objective):
    """Plan for the average reward.

    Networks learn relative values: of centred rewards r - rbar, undiscounted, rbar being learnt
    along with them (Naik, Wan, Tomar and Sutton 2024; see `cpsrl.networks.learner`).
    """

    centre_rate: ClassVar[float] = 0.01
    plan: ClassVar[Any] = staticmethod(kernels.plan_average)

    def solve(self, model: TabularMDP, gamma: float) -> Ints:
        """Return a gain-optimal policy `(S,)` of a large model; `gamma` is not used."""
        return average_policy(model)

    def target(self, reward: Any, next_value: Any, gamma: Any) -> Any:
        """Return r - rbar + max_a Q'(x', a), given r - rbar."""
        return reward + next_value

    def planning_gamma(self, rule_gamma: float) -> float:
        """Return NaN: there is no discount factor."""
        return math.nan


def checked_objective(objective: Any) -> Objective:
    """Return `objective`, or raise if it is not one."""
    right: Objective = checked_kind("objective", objective, Objective, "Discounted() or Average()")
    if not hasattr(getattr(right, "plan", None), "py_func"):
        raise WrongTypeError(
            f"the `plan` of {right!r} must be compiled: a leaf of cpsrl._private.compile"
        )
    return right
