"""A run under way, what it writes down as it goes, and what a loop is."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl.support.types import Bools, Floats, Ints

MOST_AT_ONCE = 1 << 16
"""The most steps taken in one call of a kernel."""

Watch = Callable[[int, Any], float]
"""Is called as a pseudo-episode begins, with its first state and the agent; returns a loss."""


class Tape(NamedTuple):
    """The arrays that a loop writes into; those that are not wanted are empty."""

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
    each: Floats
    """`(points, agents)` of a fleet: the rewards of every agent up to each mark"""


class Recorder:
    """A run's tape, and what has been taken off it chunk by chunk.

    Args:
        marks: `(points,)` the steps to record.
        chunk: the most steps between two calls of `collect`.
        resample_times: whether to keep the steps that resampled.
        trajectory: whether to keep states, actions and rewards.
        states: whether states are numbers, which can be kept.
        watch: is called as a pseudo-episode begins, and what it returns is summed; or None.
        lost: the sum of what it returned before.
        agents: of how many agents the rewards are kept apart.
    """

    def __init__(
        self,
        marks: Ints,
        chunk: int = MOST_AT_ONCE,
        resample_times: bool = False,
        trajectory: bool = False,
        states: bool = True,
        watch: Watch | None = None,
        lost: float = 0.0,
        agents: int = 0,
    ) -> None:
        path = chunk if trajectory else 0
        points = len(marks)
        self.tape = Tape(
            np.zeros(1, np.int64),
            marks,
            np.zeros(points),
            np.zeros(points, np.int64),
            np.zeros(chunk if resample_times else 0, np.bool_),
            np.zeros(path if states else 0, np.int64),
            np.zeros(path, np.int64),
            np.zeros(path),
            np.zeros((points, agents)),
        )
        self.chunk = chunk
        self.watch = watch
        if watch:  # lists that many runs would have for nothing cost the garbage collector time
            self._begun: list[int] = []
            self._losses = [lost]
        self._times: list[Ints] = []
        kept = [name for name in ("states", "actions", "rewards") if len(getattr(self.tape, name))]
        self._path: dict[str, list[NDArray[Any]]] = {name: [] for name in kept}

    def part(self, first: int, last: int) -> "Recorder":
        """Return a recorder of the marks first, ..., last alone, which writes into this one."""
        part, tape = copy.copy(self), self.tape
        at = slice(*np.searchsorted(tape.marks, [first, last + 1]).tolist())
        by_mark = ("marks", "reward_sums", "resamples", "each")
        part.tape = tape._replace(**{name: getattr(tape, name)[at] for name in by_mark})
        return part

    def look(self, step: int, state: int, agent: Any) -> None:
        """Show the watcher, if there is one, the pseudo-episode that begins in `state`."""
        if self.watch:
            self._begun.append(step)
            self._losses.append(self.watch(state, agent))

    def collect(self, first: int, n: int) -> None:
        """Keep what the steps first, ..., first + n - 1 have left on the tape."""
        if len(self.tape.resampled):
            self._times.append(first + np.flatnonzero(self.tape.resampled[:n]))
        for name, parts in self._path.items():
            parts.append(getattr(self.tape, name)[:n].copy())

    @property
    def lost(self) -> float:
        """The sum of the losses so far."""
        return float(np.cumsum(self._losses)[-1])

    @property
    def losses(self) -> Floats:
        """`(points,)` the sum of the losses of the pseudo-episodes begun up to each mark."""
        return np.cumsum(self._losses)[np.searchsorted(self._begun, self.tape.marks, "right")]

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


@dataclass
class Run:
    """A run under way."""

    agent: Any
    simulator: Any
    """a `Simulator`, an `EnvironmentSimulator` or a `FleetSimulator`"""
    gain: float = 0.0
    """the optimal gain of the state it began in, or the reference that stands for it"""
    step: int = 0
    """how many steps have been taken"""
    reward_sum: float = 0.0
    """the rewards realised so far"""
    discounted_regret: float | None = 0.0
    """None where it was not kept from the beginning"""
    recorder: Any = None
    """the `Recorder` of the steps to take"""


Position = tuple[int, float, int]
"""Where a run under way is, as a kernel takes it: the state, the sum of the rewards so far, and the
number of the tape's next mark."""


Loop = Callable[[Run, int, Callable[[int], None], Ints], None]
"""A loop: the `advance(run, steps, progress, stop)` of `readable`, and of those that are compiled
for some agents. It carries on the run's agent, simulator, step and reward sum, and writes into its
recorder. `progress` is called with the number of steps taken since the last call, and `stop` `(1,)`
set to 1 by another thread to end the run early."""

Loops = Callable[[Sequence[Run], int, Callable[[int], None], Ints], None]
"""A loop that takes many runs, all at the same step, at once; else as `Loop`."""

LOOPS: dict[type, Loop] = {}
"""The compiled loops, by the simulators or the live agents they are for; all other agents run in
the readable one."""

TOGETHER: dict[type, Callable[[str], Loops | None]] = {}
"""By live agents that can be on devices: what gives the loop for many runs at once on a device, or
None where every run is taken by itself."""
