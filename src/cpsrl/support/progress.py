"""How far a long piece of work has come: bars on a terminal, a line in a notebook, else lines.

The time left is the sum over the parts of the work, each at its own pace. Who knows better than can
be seen from outside, such as an experiment that measures every part in turn, says what to expect.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any, TextIO

from cpsrl._private.compile import CLOCK
from cpsrl.support.interruptible import QUIET_SECONDS

LINE_SECONDS = 10.0
NARROW = 70
"""Terminals of fewer columns have no room for a bar beside its name."""
LEAST_SECONDS = 0.5
"""A speed is measured over at least this time."""


class Progress:
    """How far a piece of work with named parts has come; this base class shows nothing."""

    def begin(self, what: str, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        """Begin: what is to be done, how much of every part, and how much was done before."""

    def advance(self, part: str, amount: float) -> None:
        """Count a further `amount` of `part`; called from any thread."""

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Expect that every part takes so many further seconds, one after the other."""

    def end(self) -> None:
        """Stop showing."""


class Pace:
    """How much of every part is done, how fast it goes on, and how long the rest will take.

    A speed is measured from the first progress of the part on, and without the time for compiling.
    A part that has not begun is taken to be as fast as the others on average.
    """

    def __init__(self, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        self.totals, self.done = dict(totals), dict.fromkeys(totals, 0.0) | dict(done)
        self.speed = dict.fromkeys(totals, 0.0)
        self._first: dict[str, tuple[float, float]] = {}
        self._expected: dict[str, float] = {}
        self._since = 0.0

    def advance(self, part: str, amount: float, now: float) -> None:
        """Count a further `amount` of `part`, which is done now."""
        self.done[part] += amount
        now -= CLOCK.seconds
        first, before = self._first.setdefault(part, (now, self.done[part]))
        if now - first >= LEAST_SECONDS:
            self.speed[part] = (self.done[part] - before) / (now - first)

    def expect(self, seconds: Mapping[str, float], now: float) -> None:
        """Expect that every part takes so many further seconds."""
        self._expected, self._since = dict(seconds), now

    def seconds_left(self, now: float) -> float:
        """Return how long everything will still take; 0 where that is unknown, and at the end."""
        if self._expected:
            return max(0.0, sum(self._expected.values()) - (now - self._since))
        each = {part: 1 / speed for part, speed in self.speed.items() if speed}
        usual = sum(each.values()) / max(1, len(each))
        return sum((n - self.done[p]) * each.get(p, usual) for p, n in self.totals.items())

    def left(self, now: float) -> str:
        """Return how long everything will still take, in words."""
        if CLOCK.running:
            return "compiling"
        seconds = self.seconds_left(now)
        return f"{duration(seconds)} left" if seconds else ""


class _Shown(Progress):
    """Progress with a pace that a subclass shows: `_open`, `_show` after every advance, `_close`.

    Args:
        unit: what is counted; without one, speeds are not mentioned.
        quiet: nothing is shown of work that takes less than so many seconds.
    """

    def __init__(self, unit: str = "steps", quiet: float = 0.0) -> None:
        self._unit, self._quiet = unit, quiet
        self._lock, self._opened = threading.Lock(), False

    def begin(self, what: str, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        """Begin to count, and to show unless it is too early."""
        self._what, self._pace = what, Pace(totals, done)
        self._before = sum(done.values())
        self._began = time.monotonic()
        if not self._quiet:
            self._opened = True
            self._open(self._began)

    def advance(self, part: str, amount: float) -> None:
        """Count a further `amount` of `part`, and show it unless it is too early."""
        with self._lock:
            now = time.monotonic()
            self._pace.advance(part, amount, now)
            if not self._opened and now - self._began > self._quiet:
                self._opened = True
                self._open(now)
            elif self._opened:
                self._show(part, now)

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Show this time as what is left."""
        self._pace.expect(seconds, time.monotonic())

    def end(self) -> None:
        """Stop showing, if it has begun."""
        if self._opened:
            self._close()

    def _speed(self, part: str) -> str:
        speed = self._pace.speed[part]
        return f"{short(speed)} {self._unit}/s" if speed and self._unit else ""

    def _open(self, now: float) -> None: ...
    def _show(self, part: str, now: float) -> None: ...
    def _close(self) -> None: ...


class Bars(_Shown):
    """A bar for every part with its speed, and the time left; `transient` ones go away."""

    def __init__(self, unit: str = "steps", quiet: float = 0.0, transient: bool = False) -> None:
        super().__init__(unit, quiet)
        self._transient = transient

    def _open(self, now: float) -> None:
        from rich import progress
        from rich.console import Console
        from rich.table import Column
        from rich.text import Text

        console, what, pace = Console(stderr=True), self._what, self._pace

        class Titled(progress.Progress):
            def get_renderables(self) -> Any:
                yield Text(" ".join([what, pace.left(time.monotonic())]))
                yield from super().get_renderables()

        self._bars = Titled(
            progress.TextColumn("{task.description}", table_column=Column(overflow="fold")),
            *([progress.BarColumn()] if console.width >= NARROW else []),
            progress.TextColumn("{task.percentage:>4.0f}%"),
            progress.TextColumn("{task.fields[speed]:>14}"),
            console=console,
            transient=self._transient,
        )
        totals = pace.totals.items()
        self._tasks = {part: self._bars.add_task(part, total=n, speed="") for part, n in totals}
        for part in self._tasks:
            self._show(part, now)
        self._bars.start()

    def _show(self, part: str, now: float) -> None:
        done, speed = self._pace.done[part], self._speed(part)
        self._bars.update(self._tasks[part], completed=done, speed=speed)

    def _close(self) -> None:
        self._bars.stop()


class Lines(_Shown):
    """A line every ten seconds, and one when a part is done.

    Without a `unit`, neither parts that are done nor speeds are mentioned.
    """

    every: float | None = None
    """How many seconds there are between two lines; `LINE_SECONDS` where it is None."""
    file: TextIO | None = None
    """Where the lines go; None for standard error."""

    def _open(self, now: float) -> None:
        self._last = now
        self._say(self._what)

    def _show(self, part: str, now: float) -> None:
        done, total = self._pace.done, self._pace.totals
        if self._unit and done[part] >= total[part]:
            self._say(f"{part}: done")
        elif now - self._last >= (LINE_SECONDS if self.every is None else self.every):
            self._last = now
            share = sum(done.values()) / sum(total.values())
            words = [f"{share:.0%} at {now - self._began:.0f} s"]
            words += [f"{part} {done[part] / total[part]:.0%}", self._speed(part)]
            self._say(", ".join(filter(None, [*words, self._pace.left(now)])))

    def _close(self) -> None:
        if self._unit:
            taken = sum(self._pace.done.values()) - self._before
            self._say(f"{short(taken)} {self._unit} in {time.monotonic() - self._began:.1f} s")

    def _say(self, line: str) -> None:
        # Threads print elsewhere, too: the line and its end are one write.
        print(f"cpsrl: {line}\n", end="", file=self.file or sys.stderr, flush=True)


class Notebook(Lines):
    """One line below a notebook's cell, which changes every second."""

    every = 1.0
    _line: Any = None

    def _say(self, line: str) -> None:
        words = {"text/plain": line}
        if self._line is None:
            display = import_module("IPython.display").display
            self._line = display(words, raw=True, display_id=True)
        else:
            self._line.update(words, raw=True)


def shown_progress(unit: str = "steps", transient: bool = False, late: bool = False) -> Progress:
    """Return what suits the place: bars on a terminal that can move its cursor, else lines.

    A `late` one shows only work that takes longer than two seconds.
    """
    quiet = QUIET_SECONDS if late else 0.0
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return Notebook(unit, quiet)
    moves = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return Bars(unit, quiet, transient) if moves else Lines(unit, quiet)


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
