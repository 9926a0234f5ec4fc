"""What is known of a problem without a model: its sizes, and what an observation must be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.checks import checked_index, checked_number, checked_whole


@dataclass(frozen=True)
class Sizes:
    """The sizes of a problem whose model is not known."""

    n_states: int
    n_actions: int

    def __post_init__(self) -> None:
        for name in ("n_states", "n_actions"):
            object.__setattr__(self, name, checked_whole(name, getattr(self, name), 1))

    def checked(self, what: str, state: Any) -> int:
        """Return `state` as an int, or raise if there is no such state."""
        return checked_index(what, state, self.n_states)


@dataclass(frozen=True)
class FeatureSizes:
    """The sizes of a problem whose observations are vectors of `n_features` numbers."""

    n_features: int
    n_actions: int

    def __post_init__(self) -> None:
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


def checked_transition(
    sizes: Sizes | FeatureSizes, state: Any, action: Any, reward: Any, next_state: Any
) -> tuple[Any, int, float, Any]:
    """Return a transition of a problem of these sizes, as plain numbers or vectors, or raise."""
    return (
        sizes.checked("state", state),
        checked_index("action", action, sizes.n_actions),
        checked_number("reward", reward),
        sizes.checked("next_state", next_state),
    )
