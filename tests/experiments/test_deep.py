"""Experiments with networks: stored, carried on and spread out like any others."""

import pytest

from cpsrl.experiments import (
    Entry,
    Execution,
    Experiment,
    backends,
    continue_experiment,
    load,
    run_experiment,
)
from cpsrl.reports import report
from cpsrl.reports.summary import markdown, summary

pytest.importorskip("jax")

SMALL = {"hidden": [6], "batch": 4, "capacity": 100, "target_every": 7}


def experiment(steps):
    return Experiment(
        name="networks",
        environments=(Entry("riverswim", {"features": "thermometer"}),),
        agents=(
            Entry("bootstrapped-dqn", {**SMALL, "members": 3, "mask": 0.5}),
            Entry("dqn", SMALL),
            Entry("random"),
        ),
        steps=steps,
        seeds=3,
        record=10,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_experiment(experiment(150), tmp_path_factory.mktemp("whole")).directory


def test_runs_that_are_carried_on_are_the_same_runs(whole, tmp_path, assert_same_runs):
    run_experiment(experiment(110), tmp_path / "parts")
    continue_experiment(tmp_path / "parts", 40)
    assert_same_runs(load(tmp_path / "parts"), load(whole))


@pytest.mark.slow
def test_ray_gives_the_same_runs(whole, tmp_path, assert_same_runs):
    pytest.importorskip("ray")
    run_experiment(experiment(150), tmp_path / "ray", Execution("ray", jobs=2))
    assert_same_runs(load(tmp_path / "ray"), load(whole))


def in_worlds(steps):
    return Experiment(
        name="worlds",
        environments=(
            Entry("pixel-deep-sea", {"size": 4, "slip": 0.2}, per_run="mapping"),
            Entry("pendulum", {"noise": 0.1}),
        ),
        agents=(Entry("bootstrapped-dqn", {**SMALL, "members": 2}), Entry("random")),
        steps=steps,
        seeds=2,
        record=10,
    )


def test_worlds_that_are_not_tables_are_stored_and_carried_on_with_what_regret_is_against(
    tmp_path, assert_same_runs
):
    run_experiment(in_worlds(60), tmp_path / "whole")
    run_experiment(in_worlds(40), tmp_path / "parts")
    continue_experiment(tmp_path / "parts", 20)
    whole = load(tmp_path / "whole")
    assert_same_runs(load(tmp_path / "parts"), whole)
    assert set(whole.select(environment="pixel-deep-sea (size=4, slip=0.2)").reference) == {"exact"}
    assert set(whole.select(environment="pendulum (noise=0.1)").reference) == {"upper bound"}
    table = markdown(summary(whole))
    assert table.count("regret against an upper bound of the gain") == 1
    states = [state["agent"]["streams"]["transition"] for state in whole.state]
    assert states[0] != states[1]
    report(tmp_path / "whole", formats=["png"])
    page, text = (tmp_path / "whole/report" / name for name in ("report.html", "summary.md"))
    said = "| pendulum (noise=0.1) | Bootstrapped DQN, gamma=0.99 | 6 | "
    assert said in text.read_text()
    assert text.read_text().count("| 6 | ") == 2
    assert '<section id="networks">' in page.read_text()


def test_agents_with_tables_are_refused_in_worlds_before_anything_runs():
    with pytest.raises(ValueError, match="TSDE needs states"):
        Experiment("odd", ("pendulum",), ("tsde",), 10)
    with pytest.raises(ValueError, match="needs to know the MDP"):
        Experiment("odd", ("pendulum",), ("optimal",), 10)


def test_runs_of_one_device_are_not_carried_on_on_another(tmp_path, monkeypatch):
    run_experiment(in_worlds(10), tmp_path, Execution(device="cpu"))
    monkeypatch.setattr(backends, "described", lambda device: "a TPU, batches of 32")
    with pytest.raises(
        ValueError, match=r"networks on the processor \(here a TPU, batches of 32\)"
    ):
        continue_experiment(tmp_path, 5, Execution(device="tpu"))
    with pytest.raises(ValueError, match="unknown device 'moon'"):
        run_experiment(in_worlds(10), tmp_path / "odd", Execution(device="moon"))


def test_anew_on_a_device_that_is_not_here_moves_nothing(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "experiment.json").touch()
    with pytest.raises(ValueError, match="rocm"):
        run_experiment(in_worlds(10), tmp_path / "r", Execution(device="rocm"), anew=True)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
