"""How far an experiment has come: bars on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Protocol, TextIO

LINE_SECONDS = 10.0


class Progress(Protocol):
    """Is told how far an experiment has come. Steps are counted over all runs of an agent."""

    def begin(self, totals: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Learn the steps that every agent is to take, and those it has taken before."""

    def advance(self, agent: str, steps: int) -> None:
        """Count `steps` further steps of `agent`; called from any thread."""

    def end(self) -> None:
        """Stop showing."""


class Silent:
    """Progress that nobody looks at."""

    def begin(self, totals: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Show nothing."""

    def advance(self, agent: str, steps: int) -> None:
        """Show nothing."""

    def end(self) -> None:
        """Show nothing."""


class Bars:
    """A bar for every agent, with steps per second and the time left."""

    def begin(self, totals: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Draw the bars."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>4.0f}%"),
            TextColumn("{task.fields[speed]:>14}"),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
        )
        self._tasks = {
            agent: self._bars.add_task(
                agent, total=total, completed=done[agent], start=False, speed=""
            )
            for agent, total in totals.items()
        }
        self._bars.start()

    def advance(self, agent: str, steps: int) -> None:
        """Move the bar of `agent`."""
        task = self._bars.tasks[self._tasks[agent]]
        if task.start_time is None:
            self._bars.start_task(task.id)
        speed = f"{_short(task.speed)} steps/s" if task.speed else ""
        self._bars.update(task.id, advance=steps, speed=speed)

    def end(self) -> None:
        """Leave the bars as they are."""
        self._bars.stop()


class Lines:
    """A line every ten seconds, and one when an agent is done."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._lock = threading.Lock()

    def begin(self, totals: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Say what is to be done."""
        self._totals, self._done = dict(totals), Counter(done)
        self._before = sum(done.values())
        self._began = self._last = time.monotonic()
        left = sum(totals.values()) - self._before
        self._say(f"{_short(left)} steps to take, {len(totals)} agents")

    def advance(self, agent: str, steps: int) -> None:
        """Count, and say how far it has come if it is time to."""
        with self._lock:
            self._done[agent] += steps
            now = time.monotonic()
            if self._done[agent] >= self._totals[agent]:
                self._say(f"{agent}: done")
            elif now - self._last >= LINE_SECONDS:
                self._last = now
                taken, total = sum(self._done.values()), sum(self._totals.values())
                speed = (taken - self._before) / (now - self._began)
                self._say(
                    f"{taken / total:.0%} at {now - self._began:.0f} s: {agent} "
                    f"{self._done[agent] / self._totals[agent]:.0%}, {_short(speed)} steps/s, "
                    f"{(total - taken) / speed:.0f} s left"
                )

    def end(self) -> None:
        """Say how long it took."""
        taken = sum(self._done.values()) - self._before
        seconds = time.monotonic() - self._began
        self._say(f"{_short(taken)} steps in {seconds:.1f} s")

    def _say(self, line: str) -> None:
        print(f"cpsrl: {line}", file=self._file, flush=True)


def shown_progress() -> Progress:
    """Return bars if standard error is a terminal, and plain lines otherwise."""
    return Bars() if sys.stderr.isatty() else Lines()


def _short(number: float) -> str:
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{mark}"
    return f"{number:.3g}"
