"""A run under way, and what a loop is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cpsrl.mdp import Ints, Simulator
from cpsrl.simulation.recording import Recorder


@dataclass
class Live:
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


class Advance(Protocol):
    """The `advance` of `readable`, `tabular`, `fixed` and `deep`."""

    def __call__(
        self,
        live: Live,
        recorder: Recorder,
        steps: int,
        progress: Callable[[int], None],
        stop: Ints,
    ) -> None:
        """Take steps.

        Args:
            live: the run; its agent, simulator, step and reward sum are carried on.
            recorder: what is recorded.
            steps: how many steps to take.
            progress: called with the number of steps taken since the last call.
            stop: `(1,)` set to 1 by another thread to end the run early.
        """
