"""SIGKILL at random moments, resumed each time: the same bits in the end."""

import multiprocessing
import os
import signal
import time

import numpy as np
import polars

from cpsrl.experiments import Entry, Experiment, run_experiment
from cpsrl.experiments import run as module
from cpsrl.experiments.progress import Progress

KILLS = 20
EXPERIMENT = Experiment(
    name="killed",
    environments=(Entry("riverswim"),),
    agents=(Entry("continuing-psrl", {"gamma": 0.99}), Entry("tsde")),
    steps=100_000,
    seeds=6,
    record=100,
)


class FirstSteps(Progress):
    """Writes to a pipe when the first steps have been taken."""

    def __init__(self, pipe):
        self.pipe = pipe

    def advance(self, agent, steps):
        if self.pipe is not None:
            os.write(self.pipe, b".")
            self.pipe = None


def run_and_be_killed(directory, seconds):
    """Run the experiment in small chunks in a child; kill it `seconds` after its first steps."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        module.LEAST_STEPS, module.TASK_SECONDS = 100, 0.0
        module.SAVE_SECONDS, module.SAVE_SHARE = 0.0, 1e9
        run_experiment(EXPERIMENT, directory, progress=FirstSteps(writing))
        os._exit(0)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the experiment ended before it could be killed"


def points_stored(directory):
    """How many points a reader of the Parquet files finds, each of them once."""
    paths = list(directory.rglob("*.parquet"))
    if not paths:
        return 0
    table = polars.read_parquet(paths)
    assert len(table) == table.select("agent", "seed", "step").n_unique()
    return len(table)


def kill_again_and_again(directory):
    """The test's body, in a process of its own: forked children find the kernels loaded."""
    run_experiment(EXPERIMENT, directory / "undisturbed")
    rng = np.random.default_rng(20)
    reached = []
    for seconds in rng.uniform(0.0, 0.3, KILLS):
        run_and_be_killed(directory / "killed", seconds)
        reached.append(points_stored(directory / "killed"))
    assert reached == sorted(reached), "nothing that was stored is lost"
    assert len(set(reached)) > KILLS / 2, "most kills come while runs are moving on"
    run_experiment(EXPERIMENT, directory / "killed")


def test_killed_twenty_times_ends_as_undisturbed(tmp_path, assert_same_results):
    process = multiprocessing.get_context("spawn").Process(
        target=kill_again_and_again, args=(tmp_path,)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert_same_results(tmp_path / "killed", tmp_path / "undisturbed")
    assert [path.name for path in tmp_path.rglob(".*")] == []
