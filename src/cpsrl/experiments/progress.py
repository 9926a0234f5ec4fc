"""How far a long piece of work has come: bars on a terminal, plain lines elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, TextIO

from cpsrl._compile import CLOCK

LINE_SECONDS = 10.0
NARROW = 70
"""Terminals of fewer columns have no room for a bar beside what it is of."""
LEAST_SECONDS = 0.5
"""A speed is measured over at least this time."""


class Progress:
    """Is told how far a piece of work has come, which consists of named parts; shows nothing."""

    def begin(self, what: str, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        """Learn what is to be done, how much it is of every part, and how much was done before."""

    def advance(self, part: str, amount: float) -> None:
        """Count a further `amount` of `part`; called from any thread."""

    def end(self) -> None:
        """Stop showing."""


class Pace:
    """How fast work goes on, measured from its first progress on and without time for compiling."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self.speed = 0.0

    def reach(self, amount: float, now: float) -> None:
        """Learn that in all `amount` is done now."""
        now -= CLOCK.seconds
        first, before = self._first = self._first or (now, amount)
        if now - first >= LEAST_SECONDS:
            self.speed = (amount - before) / (now - first)

    def left(self, amount: float) -> str:
        """Return how long a further `amount` will take, in words."""
        if CLOCK.running:
            return "compiling"
        return f"{duration(amount / self.speed)} left" if amount and self.speed else ""


class Bars(Progress):
    """A bar for every part, with speed and time left; `transient` ones go away at the end."""

    def __init__(self, unit: str = "steps", transient: bool = False) -> None:
        self._unit, self._transient = unit, transient
        self._bars: Any = None

    def begin(self, what: str, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        """Draw the bars."""
        from rich import progress
        from rich.console import Console
        from rich.table import Column
        from rich.text import Text

        console = Console(stderr=True)
        self._paces = paces = {part: Pace() for part in totals}

        class Left(progress.ProgressColumn):
            def render(self, task: progress.Task) -> Text:
                return Text(paces[task.description].left(task.remaining or 0.0))

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}", table_column=Column(overflow="fold")),
            *([progress.BarColumn()] if console.width >= NARROW else []),
            progress.TextColumn("{task.percentage:>4.0f}%"),
            progress.TextColumn("{task.fields[speed]:>14}"),
            Left(),
            console=console,
            transient=self._transient,
        )
        self._tasks = {
            part: self._bars.add_task(part, total=total, completed=done.get(part, 0), speed="")
            for part, total in totals.items()
        }
        self._bars.start()

    def advance(self, part: str, amount: float) -> None:
        """Move the bar of `part`."""
        task, pace = self._bars.tasks[self._tasks[part]], self._paces[part]
        pace.reach(task.completed + amount, time.monotonic())
        speed = f"{short(pace.speed)} {self._unit}/s" if pace.speed and self._unit else ""
        self._bars.update(task.id, advance=amount, speed=speed)

    def end(self) -> None:
        """Leave the bars as they are."""
        if self._bars is not None:
            self._bars.stop()


class Lines(Progress):
    """A line every ten seconds, and one when a part is done.

    Without a `unit`, neither parts that are done nor speeds are mentioned.
    """

    def __init__(self, unit: str = "steps", file: TextIO | None = None) -> None:
        self._unit, self._file = unit, file or sys.stderr
        self._lock = threading.Lock()

    def begin(self, what: str, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        """Say what is to be done."""
        self._totals, self._done = dict(totals), dict.fromkeys(totals, 0.0) | dict(done)
        self._before = sum(done.values())
        self._began = self._last = time.monotonic()
        self._pace = Pace()
        self._say(what)

    def advance(self, part: str, amount: float) -> None:
        """Count, and say how far it has come if it is time to."""
        with self._lock:
            self._done[part] += amount
            now, taken = time.monotonic(), sum(self._done.values())
            self._pace.reach(taken, now)
            if self._unit and self._done[part] >= self._totals[part]:
                self._say(f"{part}: done")
            elif now - self._last >= LINE_SECONDS:
                self._last, total = now, sum(self._totals.values())
                words = [f"{taken / total:.0%} at {now - self._began:.0f} s"]
                words.append(f"{part} {self._done[part] / self._totals[part]:.0%}")
                if self._pace.speed and self._unit:
                    words.append(f"{short(self._pace.speed)} {self._unit}/s")
                words.append(self._pace.left(total - taken))
                self._say(", ".join(filter(None, words)))

    def end(self) -> None:
        """Say how long it took."""
        if self._unit:
            taken = sum(self._done.values()) - self._before
            self._say(f"{short(taken)} {self._unit} in {time.monotonic() - self._began:.1f} s")

    def _say(self, line: str) -> None:
        # Threads print elsewhere, too: the line and its end are one write.
        print(f"cpsrl: {line}\n", end="", file=self._file, flush=True)


def shown_progress(unit: str = "steps", transient: bool = False) -> Progress:
    """Return bars if standard error is a terminal that can move its cursor, and lines otherwise."""
    moves = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return Bars(unit, transient) if moves else Lines(unit)


def duration(seconds: float) -> str:
    """Return a time as a person says it: 40 s, 12 min, 5 h, 3 days."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def short(number: float, digits: int = 3) -> str:
    """Return a number as a person writes it: 20k, 1.5M."""
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.{digits}g}{mark}"
    return f"{number:.{digits}g}"
