"""How far a long piece of work has come: bars on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, TextIO

LINE_SECONDS = 10.0


class Progress:
    """Is told how far a piece of work has come, which consists of named parts; shows nothing."""

    def begin(self, what: str, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        """Learn what is to be done, how much it is of every part, and how much was done before."""

    def advance(self, part: str, amount: float) -> None:
        """Count a further `amount` of `part`; called from any thread."""

    def end(self) -> None:
        """Stop showing."""


class Bars(Progress):
    """A bar for every part, with its speed and the time left; `transient` ones go away at the end.

    Speed is measured from a part's first progress on, since what comes before it is compilation.
    """

    def __init__(self, unit: str = "steps", transient: bool = False) -> None:
        self._unit, self._transient = unit, transient
        self._bars: Any = None

    def begin(self, what: str, totals: Mapping[str, float], done: Mapping[str, float]) -> None:
        """Draw the bars."""
        from rich import progress
        from rich.console import Console

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.percentage:>4.0f}%"),
            progress.TextColumn("{task.fields[speed]:>14}"),
            progress.TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=self._transient,
        )
        self._tasks = {
            part: self._bars.add_task(
                part, total=total, completed=done.get(part, 0), start=False, speed=""
            )
            for part, total in totals.items()
        }
        self._bars.start()

    def advance(self, part: str, amount: float) -> None:
        """Move the bar of `part`."""
        task = self._bars.tasks[self._tasks[part]]
        if task.start_time is None:
            self._bars.start_task(task.id)
        speed = f"{short(task.speed)} {self._unit}/s" if task.speed and self._unit else ""
        self._bars.update(task.id, advance=amount, speed=speed)

    def end(self) -> None:
        """Leave the bars as they are."""
        if self._bars is not None:
            self._bars.stop()


class Lines(Progress):
    """A line every ten seconds, and one when a part is done; speed is measured as in `Bars`.

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
        self._first: tuple[float, float] | None = None
        self._say(what)

    def advance(self, part: str, amount: float) -> None:
        """Count, and say how far it has come if it is time to."""
        with self._lock:
            self._done[part] += amount
            now, taken = time.monotonic(), sum(self._done.values())
            first, before = self._first = self._first or (now, taken)
            if self._unit and self._done[part] >= self._totals[part]:
                self._say(f"{part}: done")
            elif now - self._last >= LINE_SECONDS:
                self._last, total = now, sum(self._totals.values())
                words = [f"{taken / total:.0%} at {now - self._began:.0f} s"]
                words.append(f"{part} {self._done[part] / self._totals[part]:.0%}")
                if taken > before and now > first:
                    speed = (taken - before) / (now - first)
                    words += [f"{short(speed)} {self._unit}/s"] if self._unit else []
                    words.append(f"{(total - taken) / speed:.0f} s left")
                self._say(", ".join(words))

    def end(self) -> None:
        """Say how long it took."""
        if self._unit:
            taken = sum(self._done.values()) - self._before
            self._say(f"{short(taken)} {self._unit} in {time.monotonic() - self._began:.1f} s")

    def _say(self, line: str) -> None:
        print(f"cpsrl: {line}", file=self._file, flush=True)


def shown_progress(unit: str = "steps", transient: bool = False) -> Progress:
    """Return bars if standard error is a terminal, and plain lines otherwise."""
    return Bars(unit, transient) if sys.stderr.isatty() else Lines(unit)


def short(number: float, digits: int = 3) -> str:
    """Return a number as a person writes it: 20k, 1.5M."""
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.{digits}g}{mark}"
    return f"{number:.{digits}g}"
