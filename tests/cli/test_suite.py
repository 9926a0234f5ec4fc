"""The command `suite`."""

import pytest

from cpsrl.cli.main import main
from cpsrl.environments.suite import SUITES
from cpsrl.experiments import open_results


def test_the_suite_is_run_as_an_ordinary_experiment(tmp_path, capsys):
    out = tmp_path / "suite"
    options = ["--version", "1", "--seed", "3"]
    command = [
        "suite",
        *options,
        "--agents",
        "random",
        "--steps",
        "6e1",
        "--seeds",
        "2",
        "--out",
        str(out),
    ]
    assert main(command) == 0
    said = capsys.readouterr().out
    for problem in SUITES[1]:
        assert problem.label in said
    assert "all: mean rank" in said
    assert "Random fails on: " in said
    assert "| riverswim-tsde |" in (out / "report" / "suite.md").read_text()
    head, *rows = (out / "report" / "suite.csv").read_text().splitlines()
    assert head.startswith("suite,problem,agent,steps,root seed,run,regret,last tenth,")
    assert head.endswith(",reward rate,of optimum")
    assert len(rows) == 2 * len(SUITES[1])
    assert rows[0].startswith("1,riverswim-osband,Random,60,3,0,")
    rate, share = rows[0].split(",")[-2:]
    runs = open_results(out).load().select(environment="riverswim-osband").at([60])
    assert float(rate) == pytest.approx(runs.reward_rate[0, 0], abs=1e-5)
    assert float(share) == pytest.approx(runs.share_of_optimum[0, 0], abs=1e-5)
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


def test_versions_are_not_mixed(tmp_path, capsys):
    common = ["--agents", "random", "--steps", "20", "--seeds", "1"]
    assert main(["suite", "--version", "3", *common, "--out", str(tmp_path / "x")]) == 2
    assert "the suite has the versions [1, 2], not 3" in capsys.readouterr().err
    assert main(["suite", "--version", "3", "--facts"]) == 2
    assert [problem.label for problem in SUITES[2]][: len(SUITES[1])] == [
        problem.label for problem in SUITES[1]
    ]
