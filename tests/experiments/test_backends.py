"""Tasks are pure, and only performed where the numbers are the same."""

import sys

import numpy as np
import pytest

from cpsrl.experiments import Entry
from cpsrl.experiments.backends import BACKENDS, Task, perform
from cpsrl.experiments.origin import Origin, origin

TASK = {
    "environment": Entry("riverswim"),
    "agent": Entry("continuing-psrl"),
    "runs": (2, 5),
    "seed": 0,
    "horizon": 500,
    "steps": 300,
    "record": np.array([100, 200, 300]),
    "start": None,
    "origin": origin(),
}


def test_a_task_performed_twice_is_the_same_and_leaves_its_start_as_it_was():
    first = perform(Task(**TASK))
    on = Task(**TASK | {"start": first.state, "record": np.array([400])})
    once, again = perform(on), perform(on)
    assert once.curves.times.tolist() == [400]
    np.testing.assert_array_equal(once.curves.regret, again.curves.regret)
    np.testing.assert_equal(once.state, again.state)
    np.testing.assert_equal(first.state, perform(Task(**TASK)).state)


def test_nothing_is_recorded_but_what_is_asked_for():
    outcome = perform(Task(**TASK | {"record": np.zeros(0, np.int64)}))
    assert outcome.curves.regret.shape == (2, 0)


def test_a_worker_with_other_versions_is_refused():
    task = Task(**TASK | {"origin": Origin((("numpy", "1.0"),), origin().cpu)})
    with pytest.raises(ValueError, match=r"cannot take part .* numpy 1\.0 \(here "):
        perform(task)


def test_an_address_is_for_ray():
    with pytest.raises(ValueError, match="goes with the ray backend"):
        BACKENDS.make("local", jobs=1, address="auto")


def test_ray_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"needs Ray: pip install 'cpsrl\[ray\]'"):
        BACKENDS.make("ray")


def test_an_unknown_backend_gets_the_nearest_name():
    with pytest.raises(ValueError, match="unknown backend 'rya': did you mean 'ray'"):
        BACKENDS.make("rya")
