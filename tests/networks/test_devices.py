"""Where networks run: in processes, or as a batch on one device or several, with the same runs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import cpsrl
from cpsrl.networks import BootstrappedDQN, devices, workers
from cpsrl.objectives import Average
from cpsrl.simulation import simulate

pytest.importorskip("jax")

SMALL = {"members": 2, "hidden": (8,), "batch": 4, "target_every": 7, "capacity": 50}
PROGRAM = """
import json, sys
import numpy as np, cpsrl
from cpsrl.networks import BootstrappedDQN, devices, workers
from cpsrl.objectives import Average
from cpsrl.simulation import simulate
devices.WIDTH = 2
import cpsrl.networks.run as run
run.WIDTH = 2
spec = BootstrappedDQN(objective=Average(), members=2, hidden=(8,), batch=4, target_every=7,
                       capacity=50)
told = {}
with workers.worker(devices.layout_of("cpu-batch")) as process:
    told["devices"] = process.call("devices")[2]
name, options = json.loads(sys.argv[1])
place = cpsrl.environment(name, **options)
runs = simulate(spec, place, 40, seeds=3, record=1, device="cpu-batch")
more = simulate(spec, place, 20, record=1, device="cpu-batch", resume=runs.state)
last = [float(np.abs(state["agent"]["learner"]["online"]["w0"]).sum()) for state in more.state]
told["runs"] = [runs.regret.tolist(), more.regret.tolist(), last]
print(json.dumps(told))
"""


def on(n_devices, place):
    """Return what the program tells of runs in a batch on so many devices of the host."""
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={n_devices}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(place)],
        env=os.environ | flags,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WORLD = ("pixel-deep-sea", {"size": 4, "slip": 0.2})
RIVER = ("riverswim", {"features": "thermometer"})


@pytest.mark.slow
@pytest.mark.parametrize("place", [WORLD, RIVER], ids=str)
def test_a_batch_gives_the_same_runs_on_one_device_and_on_two_and_those_of_the_processes(place):
    one, two = on(1, place), on(2, place)
    assert (one["devices"], two["devices"]) == (1, 2)
    assert one["runs"] == two["runs"]
    spec = BootstrappedDQN(objective=Average(), **SMALL)
    name, options = place
    whole = simulate(spec, cpsrl.environment(name, **options), 60, 3, record=1, device="cpu")
    first, rest, weights = one["runs"]
    np.testing.assert_allclose(np.concatenate([first, rest], axis=1), whole.regret, atol=1e-6)
    mine = [np.abs(state["agent"]["learner"]["online"]["w0"]).sum() for state in whole.state]
    np.testing.assert_allclose(weights, mine, rtol=1e-4)


def test_the_layout_is_that_of_the_device_asked_for(monkeypatch):
    assert devices.layout_of("cpu") == workers.ALONE
    assert devices.layout_of("gpu") == workers.Layout("gpu", together=True)
    assert devices.layout_of("cpu-batch") == workers.Layout("cpu", together=True)
    with monkeypatch.context() as without_plugins:
        without_plugins.setattr(devices.importlib.util, "find_spec", lambda name: None)
        devices._found.cache_clear()
        assert devices.layout_of("auto") == workers.ALONE
    devices._found.cache_clear()
    with pytest.raises(ValueError, match="unknown device 'gpus': did you mean 'gpu'"):
        simulate(BootstrappedDQN(**SMALL), cpsrl.environment("pendulum"), 5, 1, device="gpus")


def test_a_device_that_is_not_there_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="JAX has no device of the platform 'rocm' here"):
        simulate(BootstrappedDQN(**SMALL), cpsrl.environment("pendulum"), 5, 1, device="rocm")
