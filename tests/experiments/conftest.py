"""A small experiment that has everything: two environments, a coin, a horizon, counts, no state."""

import numpy as np
import pytest

from cpsrl.experiments import Entry, Experiment, load, run_experiment


@pytest.fixture(scope="session")
def experiment():
    return Experiment(
        name="small",
        environments=(Entry("riverswim"), Entry("random", {"n_states": 4}, per_run="seed")),
        agents=(
            Entry("continuing-psrl", {"schedule": "horizon"}),
            Entry("tsde"),
            Entry("random"),
        ),
        steps=600,
        seeds=5,
        seed=3,
        record=7,
    )


@pytest.fixture(scope="session")
def undisturbed(experiment, tmp_path_factory):
    """The directory of the experiment run in one go."""
    directory = tmp_path_factory.mktemp("undisturbed") / "results"
    run_experiment(experiment, directory)
    return directory


def _assert_same_runs(one, other):
    for name in ("times", "regret", "resamples", "seeds", "gain"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    assert (one.agent, one.environment, one.seed) == (other.agent, other.environment, other.seed)
    np.testing.assert_equal(one.state, other.state)


@pytest.fixture(scope="session")
def assert_same_runs():
    """Checks that two `Runs` are equal bit for bit, states included."""
    return _assert_same_runs


@pytest.fixture(scope="session")
def assert_same_results():
    """Checks that two results directories hold the same curves and states, bit for bit."""
    return lambda one, other: _assert_same_runs(load(one), load(other))
