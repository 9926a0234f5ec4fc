"""The compiled loop of networks: the live agent's actions, bit for bit the same run after run."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import ContinuingPSRL, start
from cpsrl.mdp import Simulator, TabularMDP
from cpsrl.mdp.simulator import draw_next
from cpsrl.networks import DQN, BootstrappedDQN, workers
from cpsrl.networks import run as deep
from cpsrl.resampling import Bernoulli
from cpsrl.seeding import Streams
from cpsrl.simulation import readable, simulate
from cpsrl.simulation.recording import Recorder
from cpsrl.simulation.run import Run

jax = pytest.importorskip("jax")

SMALL = {"members": 3, "hidden": (8,), "batch": 4, "capacity": 60, "target_every": 7}
MASKED = {**SMALL, "members": 40, "mask": 0.5, "epsilon": 0.1}
RIVER = cpsrl.environment("riverswim", features="thermometer")


def noisy(noise):
    return TabularMDP(RIVER.transitions, RIVER.rewards, noise=noise, features=RIVER.features)


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state["agent"])]


def same(first, second):
    """Whether two runs are equal to the last bit, in curve and in state."""
    return (
        np.array_equal(first.regret, second.regret)
        and first.state[0]["streams"] == second.state[0]["streams"]
        and all(
            np.array_equal(a, b)
            for a, b in zip(leaves(first.state[0]), leaves(second.state[0]), strict=True)
        )
    )


def step_by_step(spec, mdp, run, steps):
    """The live agent in the readable loop: the recorder, the agent, and where they ended."""
    streams = Streams(0, run)
    simulator = Simulator(mdp, streams)
    agent = spec.resolve(mdp, steps).start(mdp, streams)
    recorder = Recorder(np.arange(1, steps + 1), resample_times=True, trajectory=True)
    stop = np.zeros(1, np.int64)
    readable.advance(Run(agent, simulator), recorder, steps, lambda n: None, stop)
    return recorder, agent, simulator


@pytest.mark.parametrize(
    ("spec", "mdp"),
    [
        (BootstrappedDQN(), RIVER),
        (BootstrappedDQN(**MASKED), noisy("bernoulli")),
        (BootstrappedDQN(**{**SMALL, "batch": 2}), noisy(0.3)),
        (BootstrappedDQN(**SMALL, rule=Bernoulli(schedule="doubling")), RIVER),
        (DQN(hidden=(8,), batch=4), RIVER),
    ],
    ids=["default", "masks", "large table", "schedule", "dqn"],
)
def test_the_live_agent_does_the_same_step_by_step(spec, mdp):
    steps = 100
    runs = simulate(spec, mdp, steps, seeds=[3], record=1, trajectory=True, resample_times=True)
    recorder, agent, simulator = step_by_step(spec, mdp, 3, steps)
    path = recorder.trajectory(simulator.state)
    for name, values in runs.trajectory[0].items():
        np.testing.assert_array_equal(values, path[name])
    np.testing.assert_array_equal(runs.resample_times[0], recorder.resample_times)
    np.testing.assert_array_equal(runs.resamples[0], recorder.tape.resamples)
    gain = runs.gain[0] * runs.times
    np.testing.assert_array_equal(runs.regret[0], gain - recorder.tape.reward_sums)
    live, compiled = agent.state(), runs.state[0]["agent"]
    assert live["member"] == compiled["member"]
    for part in ("online", "target", "prior", "adam"):
        for a, b in zip(
            jax.tree.leaves(live["ensemble"][part]),
            jax.tree.leaves(compiled["ensemble"][part]),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)
    for name, column in live["replay"].items():
        np.testing.assert_allclose(column, compiled["replay"][name], rtol=1e-6)
    assert simulator.streams.state() == runs.state[0]["streams"]


@pytest.fixture(scope="module")
def one_run():
    return simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=[2], record=10)


def test_a_run_is_the_same_alone_and_among_others_on_any_threads(one_run):
    among = simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=4, record=10, threads=2)
    picked = among._rows([2])
    assert same(picked, one_run)
    assert len({tuple(row) for row in among.regret}) == 4


def test_a_run_is_the_same_in_another_process(one_run):
    workers._close_all()
    assert same(simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=[2], record=10), one_run)


def test_another_root_seed_gives_another_run(one_run):
    other = simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=[2], record=10, seed=1)
    assert not np.array_equal(other.regret, one_run.regret)


def test_a_run_that_stops_and_goes_on_is_the_same_run(one_run):
    spec, part = BootstrappedDQN(**MASKED), None
    curves = []
    for steps in (1, 68, 100, 61):
        before = None if part is None else part.state
        part = simulate(spec, RIVER, steps, seeds=[2], record=10, start=before)
        curves.append(part.regret[:, part.times % 10 == 0])
    assert same(replace(part, regret=np.concatenate(curves, axis=1)), one_run)


def test_a_run_longer_than_a_chunk_is_the_same_however_it_is_divided():
    spec = DQN(hidden=(8,), batch=4, capacity=700)
    whole = simulate(spec, RIVER, deep.CHUNK + 500, seeds=1, record=100)
    half = simulate(spec, RIVER, 730, seeds=1, record=100)
    rest = simulate(spec, RIVER, deep.CHUNK - 230, seeds=1, record=100, start=half.state)
    for a, b in zip(leaves(whole.state[0]), leaves(rest.state[0]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.regret[0, -1] == rest.regret[0, -1]


def test_the_target_is_copied_when_it_should_be_however_far_off_that_is():
    def runs(target_every, *parts):
        spec, part = DQN(hidden=(8,), batch=4, target_every=target_every), None
        for steps in parts:
            part = simulate(spec, RIVER, steps, seeds=1, start=part and part.state)
        return part.state[0]["agent"]["ensemble"]

    def equal(one, other):
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    far, near, divided = runs(10**10, 1300), runs(1300, 1300), runs(1300, 900, 400)
    assert equal(near, divided)
    assert equal(near["target"], near["online"])
    assert equal(near["online"], far["online"])
    assert not equal(far["target"], far["online"])
    assert equal(runs(1300, 1301)["target"], near["target"])


def test_a_compiled_run_goes_on_live():
    spec = BootstrappedDQN(**SMALL)
    runs = simulate(spec, RIVER, 40, seeds=1)
    more = simulate(spec, RIVER, 30, seeds=1, start=runs.state, trajectory=True)
    state = runs.state[0]
    streams = Streams(9, 9)
    simulator, agent = Simulator(RIVER, streams), spec.start(RIVER, streams)
    agent.restore({**state["agent"], "spec": state["spec"], "streams": state["streams"]})
    simulator.state = state["environment_state"]
    recorder, stop = Recorder(np.array([70]), trajectory=True), np.zeros(1, np.int64)
    readable.advance(Run(agent, simulator, step=40), recorder, 30, lambda n: None, stop)
    path = recorder.trajectory(simulator.state)
    np.testing.assert_array_equal(path["actions"], more.trajectory[0]["actions"])


def test_tables_and_networks_meet_the_same_noise():
    steps = 60
    deep_run = simulate(BootstrappedDQN(**SMALL), noisy(0.3), steps, seeds=[5])
    table_run = simulate(ContinuingPSRL(), noisy(0.3), steps, seeds=[5])
    for stream in ("transition", "reward", "rule"):
        assert deep_run.state[0]["streams"][stream] == table_run.state[0]["streams"][stream]


def test_ranks_give_the_next_states_and_rewards_of_the_mdp():
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.full(7, 0.3), size=(7, 3))
    transitions[rng.random((7, 3, 7)) < 0.4] = 0
    transitions[..., 0] += 1 - transitions.sum(-1)
    mdp = TabularMDP(transitions, rng.random((7, 3)), noise="bernoulli", features=np.eye(7))
    noise = deep.Noise(mdp)
    table = noise.table(mdp.features)
    cumulative = mdp.cdf[2]
    edges = np.concatenate([cumulative, np.nextafter(cumulative, 0), np.nextafter(cumulative, 1)])
    for u in np.concatenate([edges[edges < 1], rng.random(500), [0.0, np.nextafter(1, 0)]]):
        rank = np.searchsorted(noise._cumulative, u, side="right")
        passed = (table.levels < rank).sum(1)
        got = table.successors[np.arange(21), passed]
        assert got.tolist() == [draw_next(*mdp.cdf, row, u) for row in range(21)]
    means = mdp.rewards.ravel()
    for u in np.concatenate([means, np.nextafter(means, 0), rng.random(100)]):
        rank = np.searchsorted(noise._means, u, side="right")
        np.testing.assert_array_equal(rank <= table.rewards, u < means)


def test_the_loop_updates_the_replay_in_place():
    from cpsrl.networks import loop as scan

    spec = BootstrappedDQN(**{**SMALL, "capacity": 12_345})
    agent = start(spec, RIVER)
    loop = scan.Loop(agent.ensemble, np.zeros((12_345, 4), np.int32), np.int32(0))
    n = 10
    draws = scan.Draws(
        *(np.zeros(n, kind) for kind in ("i4", "f4", "i4", "f4", "i4")),
        mask=np.zeros((n, 0), np.int32),
        rows=np.zeros((n, 4), np.int32),
    )
    table = deep.Noise(RIVER).table(agent.features)
    lowered = scan.take_steps.lower(
        loop, draws, table, n, 0, 0, 7, noise=0, learning_rate=1e-3, whole_table=True
    )
    text = lowered.compile().as_text()
    assert "s32[12345,4]" in text
    assert not [line for line in text.splitlines() if "s32[12345,4]" in line and " copy(" in line]


def test_an_error_in_a_worker_is_raised_here_and_the_next_call_works():
    with pytest.raises(AttributeError), workers.worker() as process:
        process.call("end", 0)
    assert simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1).regret.shape == (1, 10)


def test_a_lost_worker_is_said_so():
    process = workers.Worker()
    process._process.kill()
    with pytest.raises(RuntimeError, match="worker process ended"):
        process.call("end", 0)


def test_an_idle_worker_that_died_is_replaced():
    simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1)
    for idle in workers._free:
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
        process.call("end", 0)
    process.close()


def test_a_worker_finds_the_package_where_it_was_found_here(monkeypatch):
    root = str(Path(cpsrl.__file__).parents[1])
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", ["", *(place for place in sys.path if place != root)])
    assert workers._environment()["PYTHONPATH"].split(os.pathsep)[0] == root


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
    monkeypatch.setattr(deep, "CACHE", tmp_path / "file/networks")
    assert simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1).regret.shape == (1, 10)


def test_a_table_without_features_is_refused():
    with pytest.raises(ValueError, match="has no features"):
        simulate(BootstrappedDQN(), cpsrl.environment("riverswim"), 10, seeds=1)


def test_the_discounted_regret_of_networks_is_refused():
    with pytest.raises(ValueError, match="discounted regret"):
        simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1, discounted_regret=True)
