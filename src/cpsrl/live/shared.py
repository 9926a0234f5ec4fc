"""Answers that take long: made one at a time in a thread, and shared by those who ask the same."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from cpsrl.live.access import Refused

AGAIN = 4.0
"""An answer is reused for so many times as long as it took: that costs a fifth of a core."""
LOOK_SECONDS = 0.2
"""How often to check whether those who asked are still there."""
NICENESS = 10
T = TypeVar("T")


async def apart_in(threads: ThreadPoolExecutor, work: Callable[..., T], *given: Any) -> T:
    """Return what `work` returns, which is done in one of the threads."""
    return await asyncio.get_running_loop().run_in_executor(threads, work, *given)


def step_back() -> None:
    """Lower the priority of this thread, where threads have priorities of their own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class _Answer:
    def __init__(self, work: Callable[[threading.Event], Any]) -> None:
        self.work, self.stop = work, threading.Event()
        self.waiting, self.until = 0, 0.0
        self.task: Any = None


class Shared:
    """Answers by what was asked; what nobody waits for any more is stopped."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, _Answer] = {}
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "cpsrl-explanations", step_back)

    async def answer(
        self,
        key: Hashable,
        work: Callable[[threading.Event], Any],
        gone: Callable[[], Awaitable[bool]],
    ) -> Any:
        """Return what `work(stop)` returns; it ends soon after the event `stop` is set."""
        now = time.monotonic()
        kept = self._answers.items()
        self._answers = {k: one for k, one in kept if one.waiting or now < one.until}
        if key not in self._answers:
            new = self._answers[key] = _Answer(work)
            new.task = asyncio.create_task(self._make(new))
            new.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        one = self._answers[key]
        one.waiting += 1
        try:
            while not (await asyncio.wait([one.task], timeout=LOOK_SECONDS))[0]:
                if await gone():
                    raise Refused(499, "who asked has gone")
            return one.task.result()
        finally:
            one.waiting -= 1
            if not one.waiting and not one.task.done():
                one.stop.set()
                if self._answers.get(key) is one:
                    del self._answers[key]

    def stop(self) -> None:
        """End what is being made."""
        for one in self._answers.values():
            one.stop.set()

    async def _make(self, one: _Answer) -> Any:
        async with self._turn:
            if one.stop.is_set():
                raise Refused(499, "who asked has gone")
            begun = time.monotonic()
            found = await apart_in(self._thread, one.work, one.stop)
            now = time.monotonic()
            one.until = now + AGAIN * (now - begun)
            return found
