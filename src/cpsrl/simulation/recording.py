"""What a run writes down as it goes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl.types import Floats, Ints

CHUNK = 1 << 16
"""The most steps taken at once. A call of a kernel costs about 100 us before its first step."""

Loss = Callable[[int, Ints, float], float]
"""What a pseudo-episode loses, given its first state, its policy and its gamma."""


class Tape(NamedTuple):
    """The arrays that a loop writes into; those that nobody asked for are empty."""

    marks: Ints
    """`(points,)` the steps to record"""
    reward_sums: Floats
    """`(points,)` rewards realised up to each mark"""
    resamples: Ints
    """`(points,)` resamplings up to each mark"""
    resampled: NDArray[np.bool_]
    """`(chunk,)` whether each step of the chunk resampled"""
    states: Ints
    """`(chunk,)`"""
    actions: Ints
    """`(chunk,)`"""
    rewards: Floats
    """`(chunk,)`"""


class Recorder:
    """A run's tape, and what has been taken off it chunk by chunk.

    Args:
        marks: `(points,)` the steps to record.
        chunk: the most steps between two calls of `collect`.
        resample_times: whether to keep the steps that resampled.
        trajectory: whether to keep states, actions and rewards.
        loss: what each pseudo-episode loses, to be summed; None where that is not asked for.
        lost: the sum of the losses so far.
    """

    def __init__(
        self,
        marks: Ints,
        chunk: int = CHUNK,
        resample_times: bool = False,
        trajectory: bool = False,
        loss: Loss | None = None,
        lost: float = 0.0,
    ) -> None:
        path = chunk if trajectory else 0
        self.tape = Tape(
            marks,
            np.zeros(len(marks)),
            np.zeros(len(marks), np.int64),
            np.zeros(chunk if resample_times else 0, np.bool_),
            np.zeros(path, np.int64),
            np.zeros(path, np.int64),
            np.zeros(path),
        )
        self.chunk = chunk
        self.loss, self.lost = loss, lost
        self.losses = np.zeros(len(marks) if loss else 0)
        self._filled = 0
        self._times: list[Ints] = []
        self._path: dict[str, list[NDArray[Any]]] = {"states": [], "actions": [], "rewards": []}

    def add_loss(self, state: int, policy: Ints, gamma: float) -> None:
        """Add what the pseudo-episode that begins in `state` loses, if that is asked for."""
        if self.loss is not None:
            self.lost += self.loss(state, policy, gamma)

    def fill(self, mark: int) -> None:
        """Enter the sum of the losses for the marks that have been reached, those below `mark`."""
        self.losses[self._filled : mark] = self.lost
        self._filled = mark

    def collect(self, first: int, n: int) -> None:
        """Keep what the steps first, ..., first + n - 1 have left on the tape."""
        if len(self.tape.resampled):
            self._times.append(first + np.flatnonzero(self.tape.resampled[:n]))
        if len(self.tape.states):
            for name, parts in self._path.items():
                parts.append(getattr(self.tape, name)[:n].copy())

    @property
    def resample_times(self) -> Ints:
        """The steps that resampled."""
        return np.concatenate(self._times)

    def trajectory(self, last_state: int) -> dict[str, NDArray[Any]]:
        """Return `states` (n + 1,), the last one included, `actions` and `rewards` (n,)."""
        path = {name: np.concatenate(parts) for name, parts in self._path.items()}
        return path | {"states": np.append(path["states"], last_state)}
