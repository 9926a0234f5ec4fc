"""What a run writes down as it goes."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl.types import Bools, Floats, Ints

MOST_AT_ONCE = 1 << 16
"""The most steps taken in one call of a kernel."""

Watch = Callable[[int, Any], float]
"""Is shown every pseudo-episode as it begins, its first state and the agent; returns a loss."""


class Watcher(NamedTuple):
    """A compiled watch, for beliefs that are sampled inside the kernel, which need not pause."""

    look: Any
    """a leaf `look(arrays, t, state, gamma, policy, belief, model)`, called when the policy of the
    pseudo-episode that begins at step t is made"""
    arrays: Any
    """a NamedTuple of what it writes into"""


class Tape(NamedTuple):
    """The arrays that a loop writes into; those that nobody asked for are empty."""

    first: Ints
    """`(1,)` the first step of the chunk"""
    marks: Ints
    """`(points,)` the steps to record"""
    reward_sums: Floats
    """`(points,)` rewards realised up to each mark"""
    resamples: Ints
    """`(points,)` resamplings up to each mark"""
    resampled: Bools
    """`(chunk,)` whether each step of the chunk resampled"""
    states: Ints
    """`(chunk,)`; empty, too, where states are not numbers"""
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
        states: whether states are numbers, which can be kept.
        watch: is shown every pseudo-episode, and what it returns is summed; None for nobody.
        lost: the sum of the losses so far.
        rows: `(points,)` twice, where sums of rewards and numbers of resamplings go.
        agents: of how many agents the rewards are kept apart, in `each` `(points, agents)`.
    """

    def __init__(
        self,
        marks: Ints,
        chunk: int = MOST_AT_ONCE,
        resample_times: bool = False,
        trajectory: bool = False,
        states: bool = True,
        watch: Watch | Watcher | None = None,
        lost: float = 0.0,
        rows: tuple[Floats, Ints] | None = None,
        agents: int = 0,
    ) -> None:
        path = chunk if trajectory else 0
        points = len(marks)
        sums, resamples = rows or (np.zeros(points), np.zeros(points, np.int64))
        self.tape = Tape(
            np.zeros(1, np.int64),
            marks,
            sums,
            resamples,
            np.zeros(chunk if resample_times else 0, np.bool_),
            np.zeros(path if states else 0, np.int64),
            np.zeros(path, np.int64),
            np.zeros(path),
        )
        self.chunk = chunk
        self.watch, self.lost = watch, lost
        self.losses = np.zeros(points if callable(watch) else 0)
        self.each = np.zeros((points, agents))
        self._filled = 0
        self._times: list[Ints] = []
        kept = [name for name in ("states", "actions", "rewards") if len(getattr(self.tape, name))]
        self._path: dict[str, list[NDArray[Any]]] = {name: [] for name in kept}

    def part(self, first: int, last: int) -> "Recorder":
        """Return a recorder of the marks first, ..., last alone, which writes into this one."""
        part, tape = copy.copy(self), self.tape
        at = slice(*np.searchsorted(tape.marks, [first, last + 1]).tolist())
        points = {name: getattr(tape, name)[at] for name in ("marks", "reward_sums", "resamples")}
        part.tape, part.each = tape._replace(**points), self.each[at]
        return part

    def look(self, state: int, agent: Any) -> None:
        """Show the watcher, if there is one, the pseudo-episode that begins in `state`."""
        if callable(self.watch):
            self.lost += self.watch(state, agent)

    def fill(self, mark: int) -> None:
        """Enter the sum of the losses for the marks that have been reached, those below `mark`."""
        if callable(self.watch):
            self.losses[self._filled : mark] = self.lost
            self._filled = mark

    def collect(self, first: int, n: int) -> None:
        """Keep what the steps first, ..., first + n - 1 have left on the tape."""
        if len(self.tape.resampled):
            self._times.append(first + np.flatnonzero(self.tape.resampled[:n]))
        for name, parts in self._path.items():
            parts.append(getattr(self.tape, name)[:n].copy())

    @property
    def resample_times(self) -> Ints:
        """The steps that resampled."""
        return np.concatenate(self._times)

    def trajectory(self, last_state: Any) -> dict[str, NDArray[Any]]:
        """Return `states` (n + 1,), the last one included, `actions` and `rewards` (n,).

        Where states are not numbers, there are no `states`.
        """
        path = {name: np.concatenate(parts) for name, parts in self._path.items()}
        if "states" not in path:
            return path
        return path | {"states": np.append(path["states"], last_state)}
