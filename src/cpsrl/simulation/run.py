"""A run under way, and what a loop is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cpsrl.mdp import Simulator
from cpsrl.simulation.recording import Recorder
from cpsrl.types import Ints


@dataclass
class Run:
    """A run under way."""

    agent: Any
    simulator: Simulator
    gain: float = 0.0
    """the optimal gain of the state it began in"""
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


LOOPS: dict[type, Loop] = {}
"""The compiled loops, by the live agents they are for; all others run in the readable one."""
