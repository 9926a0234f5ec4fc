"""Tasks are pure, and only performed where the numbers are the same."""

import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpsrl.experiments import Entry, Execution, Experiment, backends
from cpsrl.experiments.backends import Task, Worker
from cpsrl.experiments.provenance import Provenance, provenance
from cpsrl.experiments.store import Group

EXPERIMENT = Experiment("tasks", (Entry("riverswim"),), (Entry("continuing-psrl"),), 500, (2, 5))
GROUP = Group(EXPERIMENT.all_environments[0], EXPERIMENT.all_agents[0], (2, 5), Path("0"), "mark")
FIRST = Task(GROUP, 300, np.array([100, 200, 300]))


def test_a_worker_keeps_its_agents_or_takes_a_checkpoint_and_leaves_that_as_it_was():
    kept = Worker(EXPERIMENT)
    _, checkpoint = kept.perform(FIRST)
    on = Task(GROUP, 100, np.array([400]), None)
    once, end = kept.perform(on)
    again, same = Worker(EXPERIMENT).perform(replace(on, start=checkpoint))
    assert once.times.tolist() == [400]
    np.testing.assert_array_equal(once.regret, again.regret)
    np.testing.assert_equal(end, same)
    np.testing.assert_equal(checkpoint, Worker(EXPERIMENT).perform(FIRST)[1])


def test_a_worker_builds_an_agent_once_a_group(monkeypatch):
    started, worker = [], Worker(EXPERIMENT)
    start = backends.Actor.start
    monkeypatch.setattr(backends.Actor, "start", lambda *a: started.append(1) or start(*a))
    worker.perform(FIRST)
    for _ in range(20):
        worker.perform(Task(GROUP, 10, np.zeros(0, np.int64), None))
    assert len(started) == 1


def test_nothing_is_recorded_but_what_is_asked_for():
    runs, states = Worker(EXPERIMENT).perform(replace(FIRST, record=np.zeros(0, np.int64)))
    assert runs.regret.shape == (2, 0)
    assert [state["step"] for state in states] == [300, 300]


def test_a_task_takes_no_thread_of_its_own_and_can_be_stopped():
    threads, stop = set(), np.zeros(1, np.int64)

    def advance(steps):
        threads.add(threading.current_thread())
        stop[0] = 1

    with pytest.raises(InterruptedError):
        Worker(EXPERIMENT).perform(Task(GROUP, 10**12, np.array([1])), advance, stop)
    assert threads == {threading.current_thread()}


def test_a_worker_with_other_versions_is_refused():
    worker = Worker(EXPERIMENT, "auto", Provenance({"numpy": "1.0"}, provenance().cpu))
    with pytest.raises(ValueError, match=r"cannot take part .* numpy 1\.0 \(here "):
        worker.perform(FIRST)


def test_an_address_is_for_ray():
    with pytest.raises(ValueError, match="goes with the ray backend"):
        Execution(jobs=1, address="auto").check()


def test_ray_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"needs Ray: pip install 'cpsrl\[ray\]'"):
        Execution("ray").check()


def test_an_unknown_backend_gets_the_nearest_name():
    with pytest.raises(ValueError, match="unknown backend 'rya': did you mean 'ray'"):
        Execution("rya").check()
