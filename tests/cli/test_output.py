"""What commands print, on a terminal of 80 columns, into a pipe, and in any locale."""

import json
import os
import re
import subprocess
import sys

import pytest

import cpsrl
from cpsrl.cli.main import main
from cpsrl.cli.values import whole

NAMES = """state,action,next_state,probability,reward
müßig,warten,müßig,1,0
müßig,starten,beschäftigt,1,-0.5
beschäftigt,warten,müßig,0.3,1
beschäftigt,warten,beschäftigt,0.7,1
beschäftigt,starten,beschäftigt,1,0
"""


def long_corridor(n):
    """A CSV of n named states, in a circle, in which one action goes on and the other stays."""
    lines = ["state,action,next_state,probability,reward"]
    for i in range(n):
        name, following = f"room {i}", f"room {(i + 1) % n}"
        lines += [f"{name},go,{following},1,{int(i == 0)}", f"{name},stay,{name},1,{int(i == 7)}"]
    return "\n".join(lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maschine.csv").write_text(NAMES, encoding="utf-8")
    (tmp_path / "rooms.csv").write_text(long_corridor(60))
    return tmp_path


def said(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def rows(out):
    """The lines of the policy's table."""
    lines = out.splitlines()
    return lines[lines.index(next(line for line in lines if line.startswith("state "))) + 1 :]


def test_the_policy_is_a_table_by_name_and_says_what_is_left_out(folder, capsys):
    shown = rows(said(capsys, "solve", "rooms.csv"))
    assert [line.split()[:3] for line in shown[6:9]] == [
        ["room", "6", "go"],
        ["room", "7", "stay"],
        ["room", "8", "go"],
    ]
    assert len(shown) == 41
    assert shown[-1] == "... and 20 states more: --all prints them, --json too"
    everything = rows(said(capsys, "solve", "rooms.csv", "--all"))
    assert everything[:40] == shown[:40]
    assert len(everything) == 60
    answer = json.loads(said(capsys, "solve", "rooms.csv", "--json"))
    assert answer["state_names"] == [f"room {i}" for i in range(60)]
    assert answer["action_names"] == ["go", "stay"]
    assert len(answer["policy"]) == len(answer["bias"]) == 60


def test_one_action_everywhere_is_one_line_unless_all_is_asked_for(capsys):
    out = said(capsys, "solve", "riverswim")
    assert "right in every state" in out
    assert "\nstate " not in out
    assert len(rows(said(capsys, "solve", "riverswim", "--all"))) == 6


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "command",
    [
        "solve maschine.csv --gamma 0.2",
        "bound riverswim",
        "list agents",
        "list experiments",
        "list",
    ],
)
def test_a_pipe_gets_whole_lines_without_padding(command, capsys):
    out = said(capsys, *command.split())
    lines = out.splitlines()
    assert not [line for line in lines if line != line.rstrip()]
    assert "…" not in out
    assert max(map(len, lines)) > 80
    if command.startswith("solve"):
        assert any("(scan of 300 gammas up to" in line for line in lines)


def on_a_terminal(command, columns=80):
    """What a command prints on a terminal, as lines of text."""
    pty = pytest.importorskip("pty")
    program = f"""
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if not pid:
    os.execv(sys.executable, [sys.executable, "-m", "cpsrl", *{command!r}])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, {columns}, 0, 0))
seen = b""
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    seen += piece
os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
"""
    assert pty
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env=os.environ | {"TERM": "xterm", "NO_COLOR": "1", "PYTHONUTF8": "1"},
    )
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout.decode())
    return [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]


SPEC = """
name = "tiny"
steps = 200
seeds = 2
[[environments]]
name = "riverswim"
[[agents]]
name = "continuing-psrl"
label = "Continuing PSRL with a rather long label of its own"
[[agents]]
name = "random"
"""


def test_a_report_fits_a_terminal_of_80_columns(folder, capsys):
    (folder / "tiny.toml").write_text(SPEC)
    said(capsys, "run", "tiny.toml")
    lines = on_a_terminal(["report", "results/tiny", "--formats"])
    assert max(map(len, lines)) <= 80
    place = lines.index("Continuing PSRL with a rather long label of its own")
    assert re.match(r" +[\d,]+ +\[", lines[place + 1])
    assert lines[place + 2] == "Random"
    piped = said(capsys, "report", "results/tiny", "--formats").splitlines()
    (row,) = [line for line in piped if line.startswith("Continuing PSRL with")]
    second = lines.index("Continuing PSRL with a rather long label of its own", place + 1)
    assert row.split()[10:] == lines[place + 1].split() + lines[second + 1].split()


@pytest.mark.usefixtures("folder")
def test_names_are_printed_in_the_c_locale():
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"}
    done = subprocess.run(
        [sys.executable, "-m", "cpsrl", "solve", "maschine.csv"],
        capture_output=True,
        env=variables | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout.decode("utf-8"))[1].startswith("beschäftigt   warten ")


def test_the_version(capsys):
    assert said(capsys, "--version") == f"cpsrl {cpsrl.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+.*", cpsrl.__version__)
    done = subprocess.run([sys.executable, "-m", "cpsrl", "--version"], capture_output=True)
    assert done.stdout.decode().split() == ["cpsrl", cpsrl.__version__]


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (
            "agents",
            ["differential-q +Differential Q-learning", " +alpha=0.1, eta=0.1, epsilon=0.1"],
        ),
        (
            "agents",
            ["psrl +Posterior", r" +rule=Bernoulli\(gamma=0.99\), objective=Discounted\(\)"],
        ),
        ("environments", ["riverswim +A chain", " +n_states=6, variant='osband'"]),
        ("rules", ["fixed-length +Resample every", " +length=100"]),
        ("beliefs", ["truncated +A Dirichlet", " +span=100.0"]),
        ("beliefs", ["members +Independent networks", " +members=10"]),
        ("objectives", ["discounted +Plan", " +gamma=None"]),
        ("rewards", ["known +"]),
    ],
)
def test_lists_show_options_defaults_and_what_a_thing_is(kind, lines, capsys):
    out = said(capsys, "list", kind)
    assert re.search("^" + ".*\n".join(lines), out, re.MULTILINE)


def test_what_is_registered_is_listed_like_the_rest(capsys, monkeypatch):
    from cpsrl.resampling import RULES

    for kept in ("_factories", "_packages"):
        monkeypatch.setattr(RULES, kept, dict(getattr(RULES, kept)))

    @cpsrl.register("rule", "once-a-week")
    def once_a_week(day: str = "Monday", *, hour):
        """Resample on one day."""

    monkeypatch.setitem(RULES._packages, "once-a-week", "calendar-rules")
    out = said(capsys, "list", "rules")
    assert re.search(r"once-a-week +Resample on one day\.\n +day='Monday', hour\n", out)
    assert "from the package calendar-rules" in out
    assert "once-a-week" in said(capsys, "list")


def test_numbers_as_people_write_them(folder, capsys):
    (folder / "tiny.toml").write_text(SPEC)
    said(capsys, "run", "tiny.toml", "--steps", "1e2", "--seeds", "1_0")
    assert cpsrl.load("results/tiny").regret.shape == (20, 100)
    assert whole("100_000") == whole("1e5") == whole("1E+5") == 100_000
    for wrong in ("1.5", "1e-3", "many", "", "nan", "inf", "1e999999999"):
        with pytest.raises(
            ValueError, match="is not a whole number such as 100000, 100_000 or 1e5"
        ):
            whole(wrong)


def test_a_file_is_normalised_on_request_with_one_line(folder, capsys):
    (folder / "off.csv").write_text(NAMES.replace("0.3,", "0.2999999,"), encoding="utf-8")
    assert main(["solve", "off.csv"]) == 2
    assert "--normalise" in capsys.readouterr().err
    assert main(["solve", "off.csv", "--normalise"]) == 0
    assert capsys.readouterr().err == (
        "cpsrl: off.csv: 1 of 4 rows were normalised; the largest correction was 1e-07\n"
    )
    (folder / "less.csv").write_text("\n".join(NAMES.splitlines()[:-1]), encoding="utf-8")
    assert main(["solve", "less.csv"]) == 2
    assert "--missing-unavailable" in capsys.readouterr().err
    assert main(["solve", "less.csv", "--missing-unavailable"]) == 0


def test_a_model_that_does_not_fit_is_one_line(capsys):
    assert main(["solve", "riverswim", "--n-states", "1000000"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cpsrl: the transitions would be 1,000,000 x 2 x 1,000,000 numbers")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["run", "figure2-left", "--seeds", "abc"], "--seeds: 'abc' is not a whole number such as"),
        (["run", "figure2-left", "--jobs", "2.5"], "--jobs: '2.5' is not a whole number such as"),
        (["solve", "riverswim", "--n-states", "x"], "--n-states: 'x' is not a whole number such"),
        (["solve", "riverswim", "--gamma", "0.5", "0,9"], "--gamma: '0,9' is not a number such as"),
        (["bound", "riverswim", "--tau", "x"], "--tau: 'x' is not a number such as 0.99"),
        (
            ["agent", "outcome", "a.db", "7", "x", "idle"],
            "REWARD: 'x' is not a number such as 0.99",
        ),
    ],
)
def test_what_is_no_number_is_said_without_types(words, complaint, capsys):
    with pytest.raises(SystemExit):
        main(words)
    error = re.sub(r"[│\s]+", " ", capsys.readouterr().err)
    assert complaint in error
    assert not re.search("lambda|typing|matching|valid parse", error)
