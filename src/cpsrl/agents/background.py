"""Policies that are drawn while an agent acts (`cpsrl.live.Options(background=...)`).

Where a resampling is due, a snapshot of the agent draws a model and plans in a thread, and its
policy begins a fixed number of steps later: draws and policies do not depend on how long that
takes. The stream of the draws is used by that thread alone, for one draw after the other.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from cpsrl.support.interruptible import once_a_process
from cpsrl.support.types import Ints


class Upcoming(NamedTuple):
    """A policy that is being drawn, or was and has not begun."""

    begins: int
    """the step from which it acts"""
    policy: Ints
    """`(S,)`, once the draw is done"""
    draw: Any = None
    """the draw, a future of the drawn model; None for a policy that was stored"""

    def wait(self) -> Any:
        """Wait for the policy, and return the drawn model; None for a policy that was stored."""
        return None if self.draw is None else self.draw.result()

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.draw is None or bool(self.draw.done())


@once_a_process
def drawer() -> ThreadPoolExecutor:
    """Return the thread in which policies are drawn."""
    return ThreadPoolExecutor(1, "cpsrl-draws")
