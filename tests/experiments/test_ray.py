"""A real Ray of two nodes on this machine: the same bits, also when workers are lost."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from cpsrl.environments import environment
from cpsrl.experiments import Entry, Execution, Experiment, continue_experiment, run_experiment
from cpsrl.experiments import run as module
from cpsrl.experiments.backends import Ray
from cpsrl.support.progress import Progress

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'cpsrl[ray]'")
cluster_utils = pytest.importorskip("ray.cluster_utils")

EXPERIMENT = Experiment(
    name="on-ray",
    environments=(Entry("riverswim"), Entry("random", {"n_states": 4}, per_run="seed")),
    agents=(Entry("continuing-psrl", {"schedule": "doubling"}), Entry("tsde")),
    steps=2_000,
    seeds=6,
)


@pytest.fixture(scope="module")
def cluster():
    cluster = cluster_utils.Cluster(
        initialize_head=True,
        connect=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    directory = tmp_path_factory.mktemp("local") / "results"
    run_experiment(EXPERIMENT, directory)
    return directory


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "LEAST_STEPS", 300)
    monkeypatch.setattr(module, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.0)


class Killer(Progress):
    """Progress that kills worker processes while they perform a task, a number of times."""

    def __init__(self, kills):
        self.kills, self.killed, self.steps = kills, 0, 0
        parent = ray.remote(scheduling_strategy="SPREAD")(lambda: os.getppid())
        self.raylets = set(ray.get([parent.remote() for _ in range(8)]))

    def advance(self, agent, steps):
        self.steps += steps
        for worker in self.performing() if self.killed < self.kills else ():
            os.kill(worker, signal.SIGKILL)
            self.killed += 1
            break

    def performing(self):
        """The processes of this cluster that are at a task."""
        for raylet in self.raylets:
            for child in Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split():
                if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"ray::Worker.perform"):
                    yield int(child)


def test_two_nodes_give_what_this_process_gives(cluster, local, tmp_path, assert_same_results):
    run_experiment(EXPERIMENT, tmp_path / "r", Execution("ray"))
    assert_same_results(tmp_path / "r", local)


@pytest.mark.usefixtures("small_chunks")
def test_lost_workers_lose_nothing(cluster, local, tmp_path, assert_same_results):
    killed = 0
    for attempt in range(12):  # a task may be over before the killer looks for one
        killer = Killer(kills=3 - killed)
        run_experiment(EXPERIMENT, tmp_path / f"{attempt}", Execution("ray"), killer)
        assert killer.steps == 2 * 2 * 6 * 2_000, "every step is counted once"
        assert_same_results(tmp_path / f"{attempt}", local)
        killed += killer.killed
        if killed == 3:
            return
    pytest.fail(f"only {killed} workers were caught at a task in 12 runs")


class NodeRemover(Progress):
    """Progress that takes a node away, with what its object store holds."""

    def __init__(self, cluster, node):
        self.cluster, self.node, self.steps = cluster, node, 0

    def advance(self, agent, steps):
        self.steps += steps
        if self.node is not None and self.steps >= 12_000:
            node, self.node = self.node, None
            self.cluster.remove_node(node, allow_graceful=False)


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_a_lost_node_loses_nothing(cluster, local, tmp_path, assert_same_results):
    remover = NodeRemover(cluster, next(iter(cluster.worker_nodes)))
    run_experiment(EXPERIMENT, tmp_path / "r", Execution("ray"), remover)
    cluster.add_node(num_cpus=1)
    assert remover.node is None
    assert remover.steps == 2 * 2 * 6 * 2_000
    assert_same_results(tmp_path / "r", local)


def test_states_go_from_task_to_task_without_this_process(cluster, tmp_path, monkeypatch):
    """What comes here is what is stored, however many tasks there are."""
    monkeypatch.setattr(module, "LEAST_STEPS", 100)
    monkeypatch.setattr(module, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(module, "SAVE_SECONDS", 1e9)
    fetched = []
    fetch = Ray.fetch
    monkeypatch.setattr(Ray, "fetch", lambda self, one: fetched.append(1) or fetch(self, one))
    experiment = replace(EXPERIMENT, environments=(Entry("riverswim"),), seeds=4)
    results = run_experiment(experiment, tmp_path / "r", Execution("ray"))
    assert len(fetched) == len(results.groups) == 8, "once for each group, at its end"


def test_a_mistake_in_a_task_is_told_as_on_this_machine(cluster, tmp_path):
    """The prior allows what is possible in the model of run 0, and only that."""
    options = {"n_states": 4, "successors": 1}
    prior = {"transitions": environment("random", **options).dense.tolist()}
    experiment = replace(
        EXPERIMENT,
        environments=(Entry("random", options, per_run="seed"),),
        agents=(Entry("tsde", {"belief": prior}),),
    )
    with pytest.raises(ValueError, match=r"^TSDE on random.*: the prior says that state"):
        run_experiment(experiment, tmp_path / "r", Execution("ray"))


def test_a_local_run_is_carried_on_by_ray(cluster, local, tmp_path, assert_same_results):
    for directory, backend in ((tmp_path / "r", "ray"), (tmp_path / "l", "local")):
        shutil.copytree(local, directory)
        continue_experiment(directory, 500, Execution(backend))
    assert_same_results(tmp_path / "r", tmp_path / "l")


def test_a_model_of_ones_own_goes_to_the_workers(cluster, tmp_path, assert_same_results):
    environment("replacement").save(tmp_path / "machine.csv")
    (tmp_path / "own.toml").write_text(
        'name = "own"\nsteps = 300\nseeds = 2\n[[environments]]\nfile = "machine.csv"\n'
        '[[agents]]\nname = "tsde"\n'
    )
    experiment = Experiment.read(tmp_path / "own.toml")
    (tmp_path / "machine.csv").unlink()
    for backend in ("ray", "local"):
        run_experiment(experiment, tmp_path / backend, Execution(backend))
        continue_experiment(tmp_path / backend, 100, Execution(backend), seeds=3)
    assert_same_results(tmp_path / "ray", tmp_path / "local")
