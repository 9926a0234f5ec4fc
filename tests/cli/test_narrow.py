"""Every command is readable on a terminal of 60 columns, on one that is dumb, and in a pipe."""

import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len

from cpsrl.cli.main import COMMANDS, main
from cpsrl.experiments.suite import suite
from cpsrl.reports.summary import HEADINGS

WIDTH = 60
SPEC = """
name = "tiny"
steps = 200
seeds = 2
[[environments]]
name = "riverswim"
[[agents]]
name = "continuing-psrl"
label = "Continuing PSRL with a rather long label, gamma = 0.99"
[[agents]]
name = "random"
"""
CALLS = {
    "solve": ["solve riverswim --variant tsde --gamma 0.99 0.995", "solve queue --all"],
    "bound": ["bound riverswim"],
    "compare": ["compare queue --agents continuing-psrl random --steps 60 --seeds 2"],
    "run": ["run tiny.toml"],
    "continue": ["run tiny.toml", "continue results/tiny --steps 10"],
    "report": ["run tiny.toml", "report results/tiny --formats"],
    "list": ["list", "list agents", "list environments", "list experiments"],
    "suite": ["suite --agents random tsde imed-rl --steps 20 --seeds 1"],
    "verify": ["verify --quick --only bellman-equation"],
    "agent": [
        "agent new a.db tsde --states idle busy --actions wait go",
        "agent decide a.db idle --id 1",
        "agent outcome a.db 1 1.0 busy",
        "agent status a.db",
        "agent explain a.db idle",
        "agent",
    ],
    "learn": [
        "agent new a.db tsde --states idle busy --actions wait go",
        "learn a.db past.csv",
    ],
}
ELSEWHERE = {"reproduce", "serve", "compile", "watch"}
"""What they print is that of `report`, of a server, one line, and a film with tests of its own."""


class Terminal(io.StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(SPEC)
    (tmp_path / "past.csv").write_text("state,action,reward,next_state\nidle,go,1,busy\n")
    monkeypatch.setattr("cpsrl.cli.suite.experiment_of", small_suite)


def small_suite(*options):
    """The suite without its large problems, which take long to solve."""
    whole = suite(*options)
    return replace(whole, environments=whole.environments[:2])


def test_every_command_has_a_call():
    assert set(CALLS) | ELSEWHERE >= set(COMMANDS)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", CALLS)
def test_it_fits_a_narrow_dumb_terminal(name, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("LINES", "50")
    for call in CALLS[name]:
        monkeypatch.setattr(sys, "stdout", Terminal())
        assert main(call.split()) == 0
        check(call, sys.stdout.getvalue())


@pytest.mark.parametrize("call", [*COMMANDS, "agent new", "agent explain", "solve riverswim"])
def test_help_fits_it_too(call, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("LINES", "50")
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(SystemExit):
        main([*call.split(), "--help"])
    check(call, sys.stdout.getvalue())


@pytest.mark.usefixtures("folder")
def test_a_narrow_report_keeps_every_number_with_its_name(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("LINES", "50")
    main(["run", "tiny.toml"])
    monkeypatch.setattr(sys, "stdout", Terminal())
    main(["report", "results/tiny", "--formats"])
    lines = sys.stdout.getvalue().splitlines()
    heads = [i for i, line in enumerate(lines) if line == "agent"]
    found = " ".join(lines[i + 1] for i in heads).split()
    assert found == " ".join(HEADINGS[1:]).split()
    places = [i for i, line in enumerate(lines) if line == "Random"]
    assert len(places) == len(heads) > 1
    numbers = " ".join(lines[i + 1] for i in places).split()
    assert numbers[0] == numbers[0].strip("[],-")
    assert {"100%", "1.00"} <= set(numbers)


def check(call, text):
    """Nothing is too wide, cut off, or a control code."""
    assert not [line for line in text.splitlines() if cell_len(line) > WIDTH], f"{call}\n{text}"
    assert "…" not in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("call", ["run tiny.toml", "verify --quick --only bellman-equation"])
def test_a_pipe_and_its_log_have_no_control_codes(call):
    done = subprocess.run(
        [sys.executable, "-m", "cpsrl", *call.split()],
        capture_output=True,
        env=os.environ | {"TERM": "xterm-256color", "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, done.stderr):
        assert b"\x1b" not in text
        assert b"\r" not in text.replace(b"\r\n", b"\n")
        assert "…".encode() not in text
