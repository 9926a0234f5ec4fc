"""Experiments with networks: stored, carried on and spread out like any others."""

import pytest

from cpsrl.experiments import (
    Entry,
    Execution,
    Experiment,
    continue_experiment,
    load,
    run_experiment,
)

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
