"""`cpsrl watch` on a terminal with keys, on a narrow or dumb one, and in a pipe."""

import os
import re
import select
import signal
import subprocess
import sys

import pytest

import cpsrl
from cpsrl.cli.main import main
from cpsrl.watching import Film
from cpsrl.watching.words import number

COMMAND = ["watch", "riverswim", "--agent", "continuing-psrl", "--gamma", "0.9"]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LIMIT = 120
"""Seconds until a command that does not answer fails a test; no test waits for them."""


def said(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_a_pipe_gets_the_numbers_of_the_run_line_by_line(capsys):
    out = said(capsys, *COMMAND, "--steps", "200", "--seed", "4", "--run", "2")
    river = cpsrl.environment("riverswim")
    films = [Film(a, river, 200, 4, 2) for a in (cpsrl.ContinuingPSRL(0.9), cpsrl.TSDE())]
    lines = out.splitlines()
    assert lines[0] == "riverswim, run 2 of seed 4"
    assert lines[1:3] == ["A: Continuing PSRL, gamma=0.9", "B: TSDE"]
    table = [line.split() for line in lines[4:24]]
    for step in (10, 100, 200):
        for film in films:
            film.advance(step - film.step)
        (row,) = [row for row in table if row[0] == str(step)]
        drawn = len(films[0].begun)
        regrets = [number(film.regret) for film in films]
        assert row == [str(step), str(films[0].state), str(drawn), *regrets]
    assert "\x1b" not in out
    assert max(map(len, lines[:24])) <= 60


def test_a_page_without_a_folder_is_refused_before_anything_is_run(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(Film, "advance", lambda *_: pytest.fail("the run was begun"))
    assert main([*COMMAND, "--html", str(tmp_path / "none" / "film.html")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    for folder in (str(tmp_path), "/"):
        assert main([*COMMAND, "--html", folder]) == 2
        assert f"--html {folder}: this is a folder" in capsys.readouterr().err


def test_a_number_may_begin_with_its_point(capsys):
    out = [said(capsys, *COMMAND[:-1], g, "--steps", "20") for g in (".9", "0.9")]
    assert out[0] == out[1]


def test_agents_take_their_options_and_environments_theirs(capsys, tmp_path):
    out = said(
        capsys,
        *("watch", "random", "--seed", "3", "--model-seed", "5", "--n-states", "4"),
        *("--agent", "psrl", "--rule", '{name = "fixed-length", length = 7}'),
        *("--objective", "average", "--steps", "50"),
        *("--against", "continuing-psrl", "--against-gamma", "0.8"),
    )
    assert "run 0 of seed 3" in out
    assert "A: PSRL, length=7, average" in out
    assert "B: Continuing PSRL, gamma=0.8" in out
    assert "8 pseudo-episodes so far" in out
    path = tmp_path / "own.csv"
    path.write_text(
        "state,action,next_state,probability,reward\nidle,wait,idle,1,0\nidle,go,busy,1,1\n"
        "busy,wait,idle,1,0\nbusy,go,busy,1,0.2\n"
    )
    out = said(capsys, "watch", str(path), "--agent", "tsde", "--against", "none", "--steps", "30")
    assert "regret of B" not in out
    assert "The best policy: wait, but go in idle." in out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--agent tsdee", "unknown agent 'tsdee': did you mean 'tsde'?"),
        ("--agent dqn", "has networks, and only agents with tables are watched"),
        ("--agent continuing-psrl --gamma 2", "gamma"),
        ("--steps 1e9", "watched for at most 100,000 steps, not 1,000,000,000"),
    ],
)
def test_mistakes_are_one_line(capsys, words, error):
    assert main(["watch", "riverswim", *words.split()]) == 2
    told = capsys.readouterr().err
    assert error in told
    assert told.count("\n") == 1


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, arguments, columns=100, term="xterm-256color"):
        import fcntl
        import pty
        import struct
        import termios

        self.place, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.before = termios.tcgetattr(self.place)
        environment = os.environ | {"TERM": term, "PYTHONUTF8": "1"}
        for unwanted in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            environment.pop(unwanted, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cpsrl", *arguments],
            **dict.fromkeys(("stdin", "stdout", "stderr"), end),
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(end)
        self.seen = ""

    def wait_for(self, words):
        """Read until the terminal shows what matches `words`; return what it showed since."""
        start = len(self.seen)
        while not (found := re.search(words, self.seen[start:])):
            assert self.read(), f"it ended without {words!r}: {self.seen[-2000:]}"
        return found

    def read(self):
        ready = select.select([self.place], [], [], LIMIT)[0]
        assert ready, f"nothing for {LIMIT} s after {self.seen[-500:]}"
        try:
            piece = os.read(self.place, 65536).decode(errors="replace")
        except OSError:
            return False
        self.seen += CONTROL.sub("", piece) if self.plain else piece
        return bool(piece)

    plain = True

    def press(self, keys):
        os.write(self.place, keys.encode())

    def end(self):
        """Read to the end; return the exit code. The terminal must be as it was."""
        import termios

        while self.read():
            pass
        code = self.process.wait(LIMIT)
        return code, termios.tcgetattr(self.place) == self.before


needs_terminals = pytest.mark.skipif(os.name != "posix", reason="terminals as POSIX has them")


@needs_terminals
def test_keys_pause_step_hurry_and_quit_and_the_terminal_is_left_as_it_was():
    terminal = Terminal([*COMMAND, "--steps", "100000"])
    terminal.wait_for("space pause   s step")
    terminal.press(" ")
    at = int(terminal.wait_for(r"step ([\d,]+) of 100,000, paused")[1].replace(",", ""))
    for press in (1, 2, 3):
        terminal.press("s")
        terminal.wait_for(rf"step {at + press:,} of 100,000, paused")
    terminal.press("+")
    terminal.wait_for("paused")
    terminal.press(" ")
    terminal.wait_for("16 steps a second")
    terminal.press("-")
    terminal.wait_for(", 8 steps a second")
    terminal.press("q")
    code, restored = terminal.end()
    assert code == 0
    assert restored
    shown = terminal.seen
    for words in ("the policy of the model believed now", "sure", "RESAMPLED", "TSDE", "model 1,"):
        assert words in shown
    assert "The best policy: right in every state." in shown


@needs_terminals
def test_an_interruption_leaves_the_terminal_as_it_was():
    terminal = Terminal([*COMMAND, "--steps", "100000"])
    terminal.wait_for("space pause   s step")
    terminal.press("\x03")
    code, restored = terminal.end()
    assert code in (130, -signal.SIGINT)
    assert restored


@needs_terminals
@pytest.mark.parametrize(("columns", "term"), [(60, "xterm-256color"), (100, "dumb")])
def test_a_narrow_or_dumb_terminal_gets_plain_lines_that_end(columns, term):
    terminal = Terminal([*COMMAND, "--steps", "300"], columns, term)
    terminal.plain = False
    assert terminal.end() == (0, True)
    assert "\x1b" not in terminal.seen
    lines = terminal.seen.replace("\r\n", "\n").split("\n")
    lines = [line for line in lines if "compiling" not in line]
    assert max(map(len, lines)) <= columns
    assert any(line.split()[:1] == ["300"] for line in lines)
    assert any(line.startswith("The best policy: right") for line in lines)
