"""What is known of a problem without a model: its sizes, its range of rewards, its observations.

The range (low, high) is that of the mean rewards, and sets the unit of reward: what an agent
believes of rewards before it has met any is said in units of the range, so that agents act alike
whether a reward is counted in cents or in millions. A range of width 0 counts as one of width 1.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from cpsrl.support.checks import (
    check_finite,
    check_room,
    checked_floats,
    checked_index,
    checked_number,
    checked_whole,
    frozen,
)
from cpsrl.support.types import Bools, Floats, Ints

UNIT_RANGE = (0.0, 1.0)
KEPT = 12
"""About how many numbers an agent takes for each pair while it is made and stored, copies apart."""


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


def _put(sizes: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(sizes, name, value)


def _check_numbers(sizes: Any, first: str) -> None:
    """Check the range of rewards and both numbers, of which `first` names one."""
    numbers = {name: checked_whole(name, getattr(sizes, name), 1) for name in (first, "n_actions")}
    check_room("what an agent keeps", *numbers.values(), KEPT, instead="take a smaller problem")
    _put(sizes, reward_range=checked_range(sizes.reward_range), **numbers)


def checked_action(sizes: Any, state: Any, action: Any) -> int:
    """Return `action` as an int, or raise if it is invalid or not available in `state`."""
    action = checked_index("action", action, sizes.n_actions)
    if sizes.available is not None and not sizes.available[state, action]:
        raise unavailable(state, action)
    return action


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
        _check_numbers(self, "n_states")
        mask = checked_available(self.available, self.n_states, self.n_actions)
        _put(self, available=mask, _mask=b"" if mask is None else mask.tobytes())

    @property
    def sizes(self) -> "Sizes":
        """These sizes: a TabularMDP has its own under the same name."""
        return self

    @cached_property
    def stand_in(self) -> Ints:
        """`(S, A)`: an available action is its own, any other's is the state's first available."""
        actions = np.arange(self.n_actions)
        if self.available is None:
            return np.tile(actions, (self.n_states, 1))
        first = np.argmax(self.available, axis=1)
        return np.where(self.available, actions, first[:, None])

    @property
    def kernel_stand_in(self) -> Ints:
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

    checked_action = checked_action


@dataclass(frozen=True)
class FeatureSizes:
    """The sizes of a problem whose observations are vectors of `n_features` numbers.

    Args:
        n_features: N.
        n_actions: A.
        reward_range: the least and the largest mean reward that is thought possible.
        features: `(S, N)`, the observation in each of S states; the agent is then given states by
            number. None: it is given observations.
        available: `(S, A)`, whether an action is available in a state; None: all are.
    """

    n_features: int
    n_actions: int
    reward_range: tuple[float, float] = UNIT_RANGE
    features: Any = field(default=None, compare=False)
    available: Any = field(default=None, compare=False)
    _arrays: tuple[bytes, ...] = field(default=(), init=False, repr=False)  # compared for equality

    def __post_init__(self) -> None:
        _check_numbers(self, "n_features")
        if self.features is None:
            if self.available is not None:
                raise ValueError(
                    "available says which actions each state has: give the features (S, N) of the "
                    "states as well"
                )
            return
        features = checked_features(self.features, n_features=self.n_features)
        mask = checked_available(self.available, len(features), self.n_actions)
        arrays = tuple(array.tobytes() for array in (features, mask) if array is not None)
        _put(self, features=features, available=mask, _arrays=arrays)

    @property
    def n_states(self) -> int | None:
        """S, or None where observations are vectors."""
        return None if self.features is None else len(self.features)

    def checked(self, what: str, observation: Any) -> Any:
        """Return a state as an int, or a vector `(n_features,)`; raise if it is not one."""
        if self.features is not None:
            return checked_index(what, observation, len(self.features))
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

    checked_action = checked_action


@dataclass(frozen=True)
class Labels:
    """How errors call states and actions: by name where there are names, else by number."""

    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None
    n_actions: int

    def state(self, state: int) -> str:
        """Return a state in words."""
        return f"state {self.states[state]!r}" if self.states else f"state {state}"

    def pair(self, row: Any) -> str:
        """Return the state and the action of row s*A + a in words."""
        state, action = divmod(int(row), self.n_actions)
        label = repr(self.actions[action]) if self.actions else str(action)
        return f"{self.state(state)} under action {label}"


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
    return None if mask.all() else frozen(mask)


def checked_features(
    features: Any, n_states: int | None = None, n_features: int | None = None
) -> Floats:
    """Return features as a frozen array `(S, N)`, with these numbers where they are given."""
    array = checked_floats("features", features, 2)
    fits = n_states in (None, array.shape[0]) and n_features in (None, array.shape[1])
    if not fits or not array.size:
        wanted = f"({n_states or 'S'}, {n_features or 'N'})"
        raise ValueError(f"features must be {wanted}, not {array.shape}")
    check_finite("features", array)
    return cast(Floats, frozen(array))


def models_of(problem: Any) -> tuple[Any, ...]:
    """Return the models that a problem goes through, one or more; none where there is no model."""
    return getattr(problem, "models", ())


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
