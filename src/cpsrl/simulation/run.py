"""A run under way, and what a loop is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cpsrl.simulation.recording import Recorder
from cpsrl.types import Ints


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


class Loop(Protocol):
    """A loop: the `advance` of `readable`, and of those that are compiled for some agents."""

    def __call__(
        self,
        run: Run,
        recorder: Recorder,
        steps: int,
        progress: Callable[[int], None],
        stop: Ints,
    ) -> None:
        """Take steps.

        Args:
            run: the run; its agent, simulator, step and reward sum are carried on.
            recorder: what is recorded.
            steps: how many steps to take.
            progress: called with the number of steps taken since the last call.
            stop: `(1,)` set to 1 by another thread to end the run early.
        """


class Loops(Protocol):
    """A loop that takes many runs, all at the same step, at once."""

    def __call__(
        self,
        runs: Sequence[Run],
        recorders: Sequence[Recorder],
        steps: int,
        progress: Callable[[int], None],
        stop: Ints,
    ) -> None:
        """Take steps of every run, as `Loop` takes those of one."""


LOOPS: dict[type, Loop] = {}
"""The compiled loops, by the simulators or the live agents they are for; all other agents run in
the readable one."""

TOGETHER: dict[type, Callable[[str], Loops | None]] = {}
"""By live agents that can be on devices: what gives the loop for many runs at once on a device, or
None where every run is taken by itself."""
