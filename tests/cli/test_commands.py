"""The commands about experiments, as a user types them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import polars
import pytest

from cpsrl.cli import agent
from cpsrl.cli.main import COMMANDS, main
from cpsrl.experiments.run import LEAST_STEPS
from cpsrl.support.progress import Lines

SPEC = """
name = "tiny"
description = "A tiny experiment."
steps = 300
seeds = 3

[[environments]]
name = "riverswim"

[[agents]]
name = "continuing-psrl"
grid.gamma = [0.9, 0.99]

[[agents]]
name = "tsde"
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.toml"
    path.write_text(SPEC)
    return path


def cpsrl(*arguments):
    """Run the command in this process; return its exit code."""
    return main([str(argument) for argument in arguments])


def refused(capsys, *arguments):
    """Run a command that must fail as a user's mistake does; return the one line it says."""
    assert cpsrl(*arguments) == 2
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if "compiling" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("cpsrl: ")
    return lines[0]


def test_run_continue_and_report(spec, capsys):
    assert cpsrl("run", spec, "--seeds", 2) == 0
    captured = capsys.readouterr()
    assert "results are in results/tiny" in captured.out
    assert "cpsrl: TSDE: done" in captured.err
    assert cpsrl("continue", "results/tiny", "--steps", 100, "--jobs", 1) == 0
    assert "stands at step 400" in capsys.readouterr().out
    assert cpsrl("report", "results/tiny", "--formats", "png") == 0
    shown = capsys.readouterr().out
    assert "Continuing PSRL, gamma=0.99" in shown
    assert "2 runs of 400 steps" in shown
    names = {path.name for path in (spec.parent / "results/tiny/report").iterdir()}
    assert names == {"regret.png", "final.png", "report.html", "summary.md"}
    assert "open results/tiny/report/report.html in a browser" in shown
    table = polars.read_parquet("results/tiny/**/*.parquet")
    assert table["step"].max() == 400
    assert table["seed"].n_unique() == 2


def test_the_command_is_kept_with_the_results(spec, monkeypatch):
    arguments = ["run", str(spec), "--seeds", "2", "--out", "here"]
    monkeypatch.setattr(sys, "argv", ["cpsrl", *arguments])
    assert main() == 0
    assert (
        f"cpsrl run {spec} --seeds 2 --out here"
        in (spec.parent / "here/experiment.json").read_text()
    )


def test_running_again_does_only_what_is_missing(spec, capsys):
    assert cpsrl("run", spec) == 0
    capsys.readouterr()
    assert cpsrl("run", spec) == 0
    assert "steps to take" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.toml"], "nowhere.toml: No such file"),
        (["run", "figure2-lef"], "did you mean 'figure2-left'"),
        (["run", "."], ". is a directory, and an experiment is a TOML file"),
        (["run", "tiny.toml", "--seeds", "0"], "seeds must be a whole number of at least 1"),
        (["run", "tiny.toml", "--address", "auto"], "an address goes with the ray backend"),
        (["run", "tiny.toml", "--jobs", "0"], "jobs must be a whole number of at least 1"),
        (["continue", "nowhere"], "nowhere is not a results directory"),
        (["report", "nowhere"], "nowhere is not a results directory"),
        (["agent", "statsu"], "unknown command 'statsu': did you mean 'status'?"),
    ],
)
@pytest.mark.usefixtures("spec")
def test_a_mistake_is_one_line(capsys, arguments, words):
    assert words in refused(capsys, *arguments)


def test_damage_is_one_line_and_repaired_on_request(spec, capsys):
    cpsrl("run", spec)
    path = next((spec.parent / "results/tiny/runs").rglob("*.checkpoint"))
    path.write_bytes(path.read_bytes()[:60])
    capsys.readouterr()
    for command in (["report", "results/tiny"], ["run", spec], ["continue", "results/tiny"]):
        assert f"{path.name} is damaged" in refused(capsys, *command)
    assert cpsrl("run", spec, "--repair") == 0
    assert cpsrl("report", "results/tiny", "--formats", "svg") == 0


def test_an_unfinished_directory_is_reported_with_a_warning(spec, capsys):
    cpsrl("run", spec)
    shutil.rmtree(next((spec.parent / "results/tiny/runs").rglob("*.checkpoint")).parent)
    capsys.readouterr()
    assert cpsrl("report", "results/tiny", "--formats", "svg") == 0
    assert "cpsrl: results/tiny is not finished" in capsys.readouterr().err


def test_a_report_before_the_first_recorded_step_is_one_line(spec, capsys, monkeypatch):
    spec.write_text(SPEC.replace("seeds = 3", "seeds = 1\nrecord = 250"))
    taken = []

    def interrupted(lines, agent, steps):
        taken.append(steps)
        if sum(taken) > LEAST_STEPS:  # the first chunk is stored, the second under way
            raise KeyboardInterrupt

    monkeypatch.setattr(Lines, "advance", interrupted)
    assert cpsrl("run", spec, "--jobs", 1) == 130
    capsys.readouterr()
    assert refused(capsys, "report", "results/tiny") == (
        "cpsrl: results/tiny: no recorded step has been reached yet"
    )


def test_a_report_without_formats_is_the_summary(spec, capsys):
    cpsrl("run", spec)
    capsys.readouterr()
    assert cpsrl("report", "results/tiny", "--formats") == 0
    assert "1 file in results/tiny/report" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("agents", ["continuing-psrl", "Thompson sampling with dynamic episodes"]),
        ("environments", ["riverswim", "gridworld", "gym:Taxi-v4"]),
        ("rules", ["bernoulli", "count-doubling"]),
        ("experiments", ["figure2-left", "Bayesian regret"]),
    ],
)
def test_list(capsys, kind, some):
    assert cpsrl("list", kind) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in some)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as exit_code:
        cpsrl(command, "--help")
    assert exit_code.value.code == 0
    _usage, *uses = re.findall(rf"cpsrl {command}\b", capsys.readouterr().out)
    assert uses


@pytest.mark.parametrize(
    "call",
    [
        *COMMANDS,
        *(f"agent {name}" for name in agent.COMMANDS),
        "solve riverswim",
        "solve my.csv",
        "compare riverswim --agents ucrl2",
        "watch riverswim --agent continuing-psrl",
    ],
)
def test_help_names_no_default_that_is_none(capsys, call):
    with pytest.raises(SystemExit):
        cpsrl(*call.split(), "--help")
    assert not re.findall(r"\S+ \(default: (?:None)?\)", " ".join(capsys.readouterr().out.split()))


@pytest.mark.parametrize("arguments", [["run"], ["run", "x", "--sedes", "3"], []])
def test_a_wrong_command_line_leaves_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as exit_code:
        cpsrl(*arguments)
    assert exit_code.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_wrong_command_gets_the_nearest_one(capsys):
    assert "unknown command 'slove': did you mean 'solve'?" in refused(capsys, "slove")


def test_reproduce_the_left_figure(tmp_path, capsys):
    assert cpsrl("reproduce", "left", "--out", tmp_path) == 0
    shown = capsys.readouterr().out
    decided = [shown.count(f"\n{word}: ") for word in ("HELD", "UNDECIDED", "DID NOT HOLD")]
    assert decided == [4, 2, 0]
    assert " for DS-PSRL, " in shown
    assert (tmp_path / "figure2-left/report/regret.pdf").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_says_so_and_keeps_what_it_has(spec, number):
    command = [sys.executable, "-m", "cpsrl.cli.main", "run", str(spec)]
    long = [*command, "--steps", "300000000"]
    with subprocess.Popen(long, stderr=subprocess.PIPE, text=True) as process:
        assert any("steps to take" in line for line in process.stderr)
        runs = spec.parent / "results/tiny/runs"
        while process.poll() is None and not list(runs.rglob("*.parquet")):
            time.sleep(0.05)
        os.kill(process.pid, number)
        rest = process.stderr.read()
        assert process.wait() == 130
    assert "interrupted; the same command again does what is missing" in rest
    assert "Traceback" not in rest
    assert list(runs.rglob("*.parquet"))


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "cpsrl", "list", "agents"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
