"""Progress: bars on a terminal, plain lines elsewhere, the same counts in both."""

import io
import os
import pty
import subprocess
import sys

import pytest

from cpsrl.support import progress as module
from cpsrl.support.progress import Lines


def test_lines_say_what_is_left_and_when_an_agent_is_done(monkeypatch):
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    file = io.StringIO()
    lines = Lines()
    lines.file = file
    lines.begin("2M steps to take", {"a": 1_000, "b": 2_000_000}, {"a": 400, "b": 0})
    lines.advance("b", 500_000)
    lines.advance("a", 600)
    lines.end()
    first, second, third, last = file.getvalue().splitlines()
    assert first == "cpsrl: 2M steps to take"
    assert second == "cpsrl: 25% at 0 s, b 25%"
    assert third == "cpsrl: a: done"
    assert last.startswith("cpsrl: 501k steps in 0.")


def test_the_time_left_is_that_of_the_steps_since_the_first_progress(monkeypatch):
    """What comes before it is compilation, here half a minute of it."""
    clock = iter([0.0, 30.0, 31.0, 40.0, 41.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    file = io.StringIO()
    lines = Lines()
    lines.file = file
    lines.begin("work", {"a": 1_000}, {"a": 0})
    for steps in (100, 100, 400):
        lines.advance("a", steps)
    assert file.getvalue().splitlines()[1:] == [
        "cpsrl: 10% at 30 s, a 10%",
        "cpsrl: 60% at 40 s, a 60%, 50 steps/s, 8 s left",
    ]


def test_compiling_is_said_and_its_time_is_not_counted(monkeypatch):
    class Clock:
        seconds, running = 0.0, False

    times = iter([0.0, 1.0, 11.0, 41.0, 51.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(module, "CLOCK", Clock)
    file = io.StringIO()
    lines = Lines()
    lines.file = file
    lines.begin("work", {"a": 10_000}, {"a": 0})
    lines.advance("a", 100)
    lines.advance("a", 100)
    Clock.seconds, Clock.running = 30.0, True
    lines.advance("a", 1)
    Clock.running = False
    lines.advance("a", 99)
    assert file.getvalue().splitlines()[1:] == [
        "cpsrl: 2% at 11 s, a 2%, 10 steps/s, 16 min left",
        "cpsrl: 2% at 41 s, a 2%, 10.1 steps/s, compiling",
        "cpsrl: 3% at 51 s, a 3%, 10 steps/s, 16 min left",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (119, "119 s"), (600, "10 min"), (9e4, "25 h")]
)
def test_times_are_said_as_people_say_them(seconds, words):
    assert module.duration(seconds) == words
    assert module.duration(3621559) == "42 days"


def test_lines_are_quiet_in_between():
    file = io.StringIO()
    lines = Lines()
    lines.file = file
    lines.begin("work", {"a": 1_000}, {"a": 0})
    for _ in range(999):
        lines.advance("a", 1)
    assert len(file.getvalue().splitlines()) == 1


def test_short_work_is_not_shown_and_long_work_is_counted_from_its_beginning(monkeypatch):
    clock = iter([0.0, 1.0, 3.0, 13.0, 14.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    lines = Lines(quiet=2.0)
    lines.file = io.StringIO()
    lines.begin("work", {"a": 1_000}, {"a": 0})
    lines.advance("a", 100)
    assert not lines.file.getvalue()
    for steps in (200, 500):
        lines.advance("a", steps)
    lines.end()
    assert lines.file.getvalue().splitlines() == [
        "cpsrl: work",
        "cpsrl: 80% at 13 s, a 80%, 58.3 steps/s, 3 s left",
        "cpsrl: 800 steps in 14.0 s",
    ]
    unseen = Lines(quiet=2.0)
    unseen.end()


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_for_terminals(terminal):
    program = (
        "from cpsrl.experiments import shown_progress\n"
        "p = shown_progress()\n"
        "p.begin('work', {'TSDE': 10, 'DS-PSRL': 10}, {'TSDE': 0, 'DS-PSRL': 5})\n"
        "p.advance('TSDE', 10)\n"
        "p.advance('DS-PSRL', 5)\n"
        "p.end()\n"
    )
    reading, writing = pty.openpty() if terminal else os.pipe()
    subprocess.run([sys.executable, "-c", program], stderr=writing, check=True)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as file:
        shown = file.read(100_000).decode()
    assert ("100%" in shown) == terminal
    assert ("TSDE: done" in shown) == (not terminal)
