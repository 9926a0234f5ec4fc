"""The command `suite`."""

from cpsrl.cli.main import main
from cpsrl.environments.suite import SUITE
from cpsrl.experiments import open_results


def test_the_suite_is_run_as_an_ordinary_experiment(tmp_path, capsys):
    out = tmp_path / "suite"
    command = ["suite", "--agents", "random", "--steps", "6e1", "--seeds", "2", "--out", str(out)]
    assert main(command) == 0
    said = capsys.readouterr().out
    for problem in SUITE:
        assert problem.label in said
    assert "all: mean rank" in said
    assert "Random fails on: " in said
    assert "| riverswim-tsde |" in (out / "report" / "suite.md").read_text()
    assert main(["continue", str(out), "--steps", "40"]) == 0
    assert open_results(out).load().times[-1] == 100
    capsys.readouterr()
    assert main(["report", str(out), "--formats"]) == 0
    assert "windy-catch: 2 runs of 100 steps" in capsys.readouterr().out
    assert main(command) == 0
    assert "steps to take" not in capsys.readouterr().out


def test_an_unknown_agent_is_named(tmp_path, capsys):
    assert main(["suite", "--agents", "tsd", "--out", str(tmp_path / "x")]) == 2
    assert "unknown agent 'tsd': did you mean 'tsde'?" in capsys.readouterr().err
