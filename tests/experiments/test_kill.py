"""SIGKILL at random moments, resumed each time: the same bits in the end."""

import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import polars
import pytest

from cpsrl.experiments import (
    Entry,
    Experiment,
    continue_experiment,
    load,
    open_results,
    results,
    run_experiment,
)
from cpsrl.experiments import run as module
from cpsrl.support.progress import Progress

KILLS = 20
EXPERIMENT = Experiment(
    name="killed",
    environments=(Entry("riverswim"),),
    agents=(Entry("continuing-psrl", {"gamma": 0.99}), Entry("tsde")),
    steps=100_000,
    seeds=6,
    record=100,
)


class Steps(Progress):
    """Writes to a pipe when steps have been taken."""

    def __init__(self, pipe):
        self.pipe = pipe

    def advance(self, agent, steps):
        os.write(self.pipe, b".")


def run_and_be_killed(directory, chunks, seconds):
    """Run the experiment in small chunks in a child; kill it `seconds` after so many of them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        module.LEAST_STEPS, module.TASK_SECONDS, module.PROBE_SECONDS = 100, 0.0, 0.0
        module.SAVE_SECONDS, module.SAVE_SHARE = 0.0, 1e9
        run_experiment(EXPERIMENT, directory, progress=Steps(writing))
        os._exit(0)
    os.close(writing)
    for _ in range(chunks):
        os.read(reading, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.close(reading)
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
    for chunks in rng.integers(1, 20, KILLS):
        run_and_be_killed(directory / "killed", chunks, rng.uniform(0.0, 0.02))
        reached.append(points_stored(directory / "killed"))
    assert reached == sorted(reached), "nothing that was stored is lost"
    assert len(set(reached)) > KILLS / 2, "most kills come while runs are moving on"
    run_experiment(EXPERIMENT, directory / "killed")


def in_its_own_process(body, directory):
    process = multiprocessing.get_context("spawn").Process(target=body, args=(directory,))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_killed_twenty_times_ends_as_undisturbed(tmp_path, assert_same_results):
    in_its_own_process(kill_again_and_again, tmp_path)
    assert_same_results(tmp_path / "killed", tmp_path / "undisturbed")
    assert [path.name for path in tmp_path.rglob(".*")] == []


BOTH = replace(EXPERIMENT, name="both", steps=300, seeds=2)
ONE = replace(BOTH, name="one", agents=BOTH.agents[1:])


def run_and_be_killed_before(experiment, directory, function):
    """Run the experiment in a child that is killed where it is about to call `function`."""
    child = os.fork()
    if child == 0:
        setattr(results, function, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        run_experiment(experiment, directory, progress=Progress())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the experiment ended without a call of {function}"


def kill_around_the_header(directory):
    """Before it (`write_json`) and right after it (`write_file`, of spec.toml)."""
    run_experiment(BOTH, directory, progress=Progress())

    def stored():
        return {path.name: path.stat().st_mtime_ns for path in directory.rglob("*.checkpoint")}

    def agents():
        return load(directory).agents

    written, (first, second) = stored(), agents()

    run_and_be_killed_before(ONE, directory, "write_json")
    assert open_results(directory).experiment == BOTH
    with pytest.warns(UserWarning, match="2 of 4 runs are here"):
        assert agents() == (second,)
    continue_experiment(directory, progress=Progress())
    assert agents() == (first, second), "the header still names both"

    run_and_be_killed_before(ONE, directory, "write_json")
    run_experiment(ONE, directory, progress=Progress())
    assert agents() == (second,)
    run_and_be_killed_before(BOTH, directory, "write_json")
    assert agents() == (second,), "what comes back is moved once the header names it"

    run_and_be_killed_before(BOTH, directory, "write_file")
    assert open_results(directory).experiment == BOTH
    with pytest.warns(UserWarning, match="2 of 4 runs are here"):
        assert agents() == (second,)
    continue_experiment(directory, progress=Progress())
    assert agents() == (first, second)
    assert stored() == written, "nothing was computed again"


def test_killed_between_moving_runs_and_saving_the_header(tmp_path):
    in_its_own_process(kill_around_the_header, tmp_path / "r")
