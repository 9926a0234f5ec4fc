"""What is known of a problem without a model: its sizes, its range of rewards, its observations.

The range (low, high) is that of the mean rewards, and says in which units they come: what an agent
believes of rewards before it has met any is said in units of the range, so that agents act alike
whether a reward is counted in cents or in millions. A range of width 0 counts as one of width 1.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.checks import checked_index, checked_number, checked_whole
from cpsrl.types import Bools, Ints

UNIT_RANGE = (0.0, 1.0)


def checked_range(reward_range: Any) -> tuple[float, float]:
    """Return a range of rewards as two floats, or raise if it is not one."""
    try:
        low, high = reward_range
    except (TypeError, ValueError):
        raise ValueError(
            f"reward_range must be two numbers (low, high), not {reward_range!r}"
        ) from None
    low, high = checked_number("reward_range[0]", low), checked_number("reward_range[1]", high)
    if low > high:
        raise ValueError(f"reward_range must be (low, high) with low <= high, not {(low, high)}")
    return low, high


def width_of(reward_range: tuple[float, float]) -> float:
    """Return the width of a range, 1 where it is 0."""
    return reward_range[1] - reward_range[0] or 1.0


@dataclass(frozen=True)
class Sizes:
    """The sizes of a problem whose model is not known.

    Args:
        n_states: S.
        n_actions: A.
        reward_range: the least and the largest mean reward that is thought possible.
        available: `(S, A)`, whether an action is available in a state; None: all are.
    """

    n_states: int
    n_actions: int
    reward_range: tuple[float, float] = UNIT_RANGE
    available: Any = field(default=None, compare=False)
    _mask: bytes = field(default=b"", init=False, repr=False)  # by which sizes are compared

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward_range", checked_range(self.reward_range))
        for name in ("n_states", "n_actions"):
            object.__setattr__(self, name, checked_whole(name, getattr(self, name), 1))
        mask = checked_available(self.available, self.n_states, self.n_actions)
        object.__setattr__(self, "available", mask)
        object.__setattr__(self, "_mask", b"" if mask is None else mask.tobytes())

    @cached_property
    def stand_in(self) -> Ints:
        """`(S, A)`: an available action is its own, any other's is the state's first available."""
        actions = np.arange(self.n_actions)
        if self.available is None:
            return np.tile(actions, (self.n_states, 1))
        first = np.argmax(self.available, axis=1)
        return np.where(self.available, actions, first[:, None])

    @property
    def exchanged(self) -> Ints:
        """`stand_in`, as compiled code takes it: empty where all actions are available."""
        return np.zeros((0, 0), np.int64) if self.available is None else self.stand_in

    def allows(self, policy: Ints) -> bool:
        """Return whether all actions of `policy` `(S,)` are there and available."""
        if not ((policy >= 0) & (policy < self.n_actions)).all():
            return False
        return self.available is None or bool(
            self.available[np.arange(self.n_states), policy].all()
        )

    def repeated(self, rows: Any) -> Any:
        """Return an array `(S, A, ...)`, or a matrix with S*A rows, with the rows of stand-ins."""
        if self.available is None:
            return rows
        order = (np.arange(self.n_states)[:, None] * self.n_actions + self.stand_in).ravel()
        if isinstance(rows, np.ndarray):
            return rows.reshape(len(order), -1)[order].reshape(rows.shape)
        return rows[order]

    def checked(self, what: str, state: Any) -> int:
        """Return `state` as an int, or raise if there is no such state."""
        return checked_index(what, state, self.n_states)

    def checked_action(self, state: int, action: Any) -> int:
        """Return `action` as an int, or raise if `state` has no such action."""
        action = checked_index("action", action, self.n_actions)
        if self.available is not None and not self.available[state, action]:
            raise unavailable(state, action)
        return action


@dataclass(frozen=True)
class FeatureSizes:
    """The sizes of a problem whose observations are vectors of `n_features` numbers.

    Args:
        n_features: N.
        n_actions: A.
        reward_range: the least and the largest mean reward that is thought possible.
    """

    n_features: int
    n_actions: int
    reward_range: tuple[float, float] = UNIT_RANGE

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward_range", checked_range(self.reward_range))
        for name in ("n_features", "n_actions"):
            object.__setattr__(self, name, checked_whole(name, getattr(self, name), 1))

    def checked(self, what: str, observation: Any) -> NDArray[np.float32]:
        """Return `observation` as a vector `(n_features,)`, or raise if it is not one."""
        try:
            with np.errstate(over="ignore"):
                vector = np.asarray(observation, np.float32)
        except (TypeError, ValueError):
            vector = np.zeros(0, np.float32)
        if vector.shape != (self.n_features,) or not np.isfinite(vector).all():
            raise ValueError(
                f"{what} must be {self.n_features} finite numbers, not {observation!r}"
            )
        return vector

    def checked_action(self, observation: Any, action: Any) -> int:
        """Return `action` as an int, or raise if there is no such action."""
        return checked_index("action", action, self.n_actions)


def checked_available(available: Any, n_states: int, n_actions: int) -> Bools | None:
    """Return which actions are available, `(S, A)` and frozen; None where all are."""
    if available is None:
        return None
    given, shape = np.asarray(available), (n_states, n_actions)
    if given.shape != shape or given.dtype.kind not in "biu" or not np.isin(given, (0, 1)).all():
        raise ValueError(f"available must be (S, A) = {shape} of True and False")
    mask = given.astype(np.bool_)
    none = np.flatnonzero(~mask.any(axis=1))
    if none.size:
        raise ValueError(f"available[{none[0]}] has no action: every state needs at least one")
    mask.setflags(write=False)
    return None if mask.all() else mask


def unavailable(state: Any, action: Any) -> ValueError:
    """Return the error for an action, by number or name, that its state does not have."""
    return ValueError(f"action {action!r} is not available in state {state!r}")


def checked_transition(
    sizes: Sizes | FeatureSizes, state: Any, action: Any, reward: Any, next_state: Any
) -> tuple[Any, int, float, Any]:
    """Return a transition of a problem of these sizes, as plain numbers or vectors, or raise."""
    state = sizes.checked("state", state)
    return (
        state,
        sizes.checked_action(state, action),
        checked_number("reward", reward),
        sizes.checked("next_state", next_state),
    )
