"""Worker processes: what they find, and what is said when they are lost."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import cpsrl
from cpsrl.environments import pure
from cpsrl.networks import BootstrappedDQN, run, workers
from cpsrl.seeding import Streams
from cpsrl.simulation import simulate
from cpsrl.simulation.loops import Recorder, Run

pytest.importorskip("jax")
from networks.parts import NotPure, Unregistered

SMALL = {"members": 3, "hidden": (8,), "batch": 4, "capacity": 60, "target_every": 7}
RIVER = cpsrl.environment("riverswim", features="thermometer")


def test_an_error_in_a_worker_is_raised_here_and_the_next_call_works():
    with pytest.raises(AttributeError), workers.worker() as process:
        process.call("end")
    assert simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1).regret.shape == (1, 10)


def test_an_environment_that_is_not_pure_is_said_so_with_the_line_that_is_not():
    streams, world = Streams(), NotPure()
    agent, simulator = BootstrappedDQN(**SMALL).start(world, streams), world.simulator()
    alive = Run(agent, simulator, recorder=Recorder(np.array([5])))
    with pytest.raises(RuntimeError, match=r"(?s)TracerBoolConversionError.*parts\.py"):
        run.advance(alive, 5, lambda n: None, np.zeros(1, np.int64))


def test_an_environment_that_jax_does_not_know_is_refused():
    with pytest.raises(ValueError, match="Unregistered is not a dataclass"):
        BootstrappedDQN(**SMALL).start(Unregistered(), Streams())


def test_a_lost_worker_is_said_so():
    process = workers.Worker()
    process._process.kill()
    with pytest.raises(RuntimeError, match="worker process ended"):
        process.call("end")


def test_an_idle_worker_that_died_is_replaced():
    simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1)
    for idle in workers._free[workers.ALONE]:
        idle._process.kill()
        idle._process.wait()
    assert simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1).regret.shape == (1, 10)


def test_a_worker_leaves_the_current_directory_alone(tmp_path, monkeypatch):
    for name in ("jax", "queue", "cpsrl"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    process = workers.Worker()
    with pytest.raises(AttributeError):
        process.call("end")
    process.close()


def test_a_worker_finds_the_package_where_it_was_found_here(monkeypatch):
    root = str(Path(cpsrl.__file__).parents[1])
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", ["", *(place for place in sys.path if place != root)])
    assert workers._variables()["PYTHONPATH"].split(os.pathsep)[0] == root


def test_a_worker_whose_parent_is_killed_ends_quietly():
    program = (
        "import os, signal, threading, cpsrl\n"
        "spec = cpsrl.BootstrappedDQN(members=3, hidden=(8,), batch=4, capacity=60)\n"
        "mdp = cpsrl.environment('riverswim', features='thermometer')\n"
        "def progress(steps):\n"
        "    threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "cpsrl.simulate(spec, mdp, 10**9, seeds=1, progress=progress)\n"
    )
    reading, writing = os.pipe()
    parent = subprocess.run([sys.executable, "-c", program], stderr=writing, check=False)
    os.close(writing)
    with os.fdopen(reading) as said:
        # The end comes when the worker, which shares standard error, has ended too.
        assert "Traceback" not in said.read()
    assert parent.returncode == -signal.SIGKILL


def test_a_cache_that_cannot_be_written_to_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CPSRL_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(run, "CACHE", tmp_path / "file/networks")
    workers._close_all()
    assert simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1).regret.shape == (1, 10)
    workers._close_all()


def test_the_environment_that_is_shown_runs_from_a_module_and_not_from_the_main_program(tmp_path):
    shown = pure.__doc__.partition("process:\n")[2].rpartition("Its fields")[0]
    imports = (
        "from dataclasses import dataclass\nimport jax.numpy as jnp\n"
        "import numpy as np\nfrom cpsrl.networks import Environment\n"
    )
    (tmp_path / "mine.py").write_text(imports + textwrap.dedent(shown))
    program = """
import numpy as np, mine
from cpsrl.networks import BootstrappedDQN, EnvironmentSimulator
from cpsrl.networks.run import advance
from cpsrl.seeding import Streams
from cpsrl.simulation.loops import Recorder, Run

@mine.dataclass(frozen=True)
class Here(mine.Walk):
    pass

for kind in (mine.Walk, Here):
    streams, world = Streams(), kind()
    agent = BootstrappedDQN(members=2, hidden=(4,)).start(world, streams)
    recorder = Recorder(np.array([5]))
    run = Run(agent, EnvironmentSimulator(world, streams))
    run.recorder = recorder
    advance(run, 5, lambda n: None, np.zeros(1, np.int64))
    print(run.step)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["5"]
    assert "ValueError: Here is defined in '__main__'" in done.stderr
