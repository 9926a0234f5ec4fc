"""Tasks are pure, and only performed where the numbers are the same."""

import sys
import threading

import numpy as np
import pytest

from cpsrl.experiments import Entry, Execution, Experiment
from cpsrl.experiments.backends import Task, perform
from cpsrl.experiments.provenance import Provenance, provenance
from cpsrl.experiments.store import Group

EXPERIMENT = Experiment("tasks", (Entry("riverswim"),), (Entry("continuing-psrl"),), 500, (2, 5))
GROUP = Group(EXPERIMENT.all_environments[0], EXPERIMENT.all_agents[0], (2, 5), "runs/a/b/0")
TASK = {
    "experiment": EXPERIMENT,
    "group": GROUP,
    "steps": 300,
    "record": np.array([100, 200, 300]),
    "resume": (),
    "provenance": provenance(),
}


def test_a_task_performed_twice_is_the_same_and_leaves_its_start_as_it_was():
    first = perform(Task(**TASK))
    on = Task(**TASK | {"resume": first.state, "record": np.array([400])})
    once, again = perform(on), perform(on)
    assert once.times.tolist() == [400]
    np.testing.assert_array_equal(once.regret, again.regret)
    np.testing.assert_equal(once.state, again.state)
    np.testing.assert_equal(first.state, perform(Task(**TASK)).state)


def test_nothing_is_recorded_but_what_is_asked_for():
    runs = perform(Task(**TASK | {"record": np.zeros(0, np.int64)}))
    assert runs.regret.shape == (2, 0)
    assert [state["step"] for state in runs.state] == [300, 300]


def test_a_task_takes_no_thread_of_its_own_and_can_be_stopped():
    threads, stop = set(), np.zeros(1, np.int64)

    def advance(steps):
        threads.add(threading.current_thread())
        stop[0] = 1

    with pytest.raises(InterruptedError):
        perform(Task(**TASK | {"steps": 10**12, "record": np.array([1])}), advance, stop)
    assert threads == {threading.current_thread()}


def test_a_worker_with_other_versions_is_refused():
    task = Task(**TASK | {"provenance": Provenance({"numpy": "1.0"}, provenance().cpu)})
    with pytest.raises(ValueError, match=r"cannot take part .* numpy 1\.0 \(here "):
        perform(task)


def test_an_address_is_for_ray():
    with pytest.raises(ValueError, match="goes with the ray backend"):
        Execution(jobs=1, address="auto").open()


def test_ray_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"needs Ray: pip install 'cpsrl\[ray\]'"):
        Execution("ray").open()


def test_an_unknown_backend_gets_the_nearest_name():
    with pytest.raises(ValueError, match="unknown backend 'rya': did you mean 'ray'"):
        Execution("rya").open()
