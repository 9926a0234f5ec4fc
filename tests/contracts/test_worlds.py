"""What every registered environment of pure functions keeps to."""

import inspect
from functools import cache

import numpy as np
import pytest

from contracts.test_agents import equal
from cpsrl.agents import TSDE, RandomAgent
from cpsrl.environments import ENVIRONMENTS, WORLDS, environment
from cpsrl.environments.pure import (
    EXACT,
    UPPER,
    EnvironmentSimulator,
    checked_reference,
    observed,
)
from cpsrl.networks import BootstrappedDQN
from cpsrl.seeding import Streams
from cpsrl.simulation import readable, simulate
from cpsrl.simulation.loops import Recorder, Run

jax = pytest.importorskip("jax")

OPTIONS = {
    "pixel-catch": {"rows": 4, "columns": 4, "new_ball": 0.4},
    "pixel-windy-catch": {"rows": 4, "columns": 3, "new_ball": 0.4, "change": 0.3},
    "pixel-deep-sea": {"size": 4, "slip": 0.2},
    "pendulum": {"noise": 0.5},
}
"""Where the defaults would be slow, or exercise less."""
STEPS, SPLIT = 60, 23
every = pytest.mark.parametrize("name", WORLDS.names())


def small(name):
    return environment(name, **OPTIONS.get(name, {}))


def agent():
    return BootstrappedDQN(members=2, hidden=(8,), batch=4, target_every=7, capacity=50)


@cache
def compiled(name):
    return simulate(agent(), small(name), STEPS, [3], trajectory=True, resample_times=True)


@every
def test_is_documented_and_has_a_default_for_every_option(name):
    assert name not in ENVIRONMENTS.names()
    assert len(WORLDS.summary(name)) > 20
    for parameter in WORLDS.options(name).values():
        assert parameter.default is not inspect.Parameter.empty
        assert parameter.annotation is not inspect.Parameter.empty


@every
def test_a_wrong_option_is_refused(name):
    with pytest.raises(ValueError, match=f"unknown option 'colour' in environment '{name}'"):
        environment(name, colour="red")
    with pytest.raises(ValueError, match=f"unknown option 'features' in environment '{name}'"):
        environment(name, features="one-hot")


@every
def test_it_is_called_by_its_name_and_options(name):
    assert small(name).name.startswith(name)
    assert environment(name).name == name


@every
def test_its_noise_is_the_same_in_parts(name):
    world, whole, parts = small(name), Streams(1, 2), Streams(1, 2)
    noise = jax.tree.leaves(world.draw(whole, 9))
    first, second = (jax.tree.leaves(world.draw(parts, n)) for n in (4, 5))
    for values, *drawn in zip(noise, first, second, strict=True):
        np.testing.assert_array_equal(values, np.concatenate(drawn))
    assert equal(whole.state(), parts.state())


@every
def test_it_goes_on_in_states_that_can_be_seen_and_for_rewards_in_the_range(name):
    def walk(seed):
        simulator = world.simulator(seed)
        actions, rewards = np.random.default_rng(0), []
        for _ in range(80):
            assert observed(world, simulator.state).shape == (world.n_features,)
            rewards.append(simulator.step(int(actions.integers(world.n_actions)))[0])
        return rewards, simulator.stored()

    world = small(name)
    (rewards, last), again, other = walk(7), walk(7), walk(8)
    low, high = world.reward_range
    assert low - 1e-4 <= min(rewards) <= max(rewards) <= high + 1e-4
    assert equal((rewards, last), again)
    assert not equal((rewards, last), other)
    simulator = EnvironmentSimulator(world, Streams())
    simulator.restore(last)
    assert equal(simulator.stored(), last)
    with pytest.raises(ValueError, match="not one of this environment"):
        simulator.restore(last[:-1])


@every
def test_regret_is_counted_against_what_it_says(name):
    world, runs = small(name), compiled(name)
    reference = checked_reference(world)
    assert reference.kind in (EXACT, UPPER)
    assert set(runs.reference) == {reference.kind}
    assert ("against" in repr(runs)) == (reference.kind != EXACT)
    rewards = runs.trajectory[0]["rewards"]
    expected = reference.gain * runs.times - np.cumsum(rewards)
    np.testing.assert_allclose(runs.regret[0], expected, rtol=1e-12, atol=1e-9)
    tossed = simulate(RandomAgent(), world, 300, 2)
    assert (tossed.regret[:, -1] > 0).all()


@every
def test_a_run_stopped_and_resumed_is_the_run_in_one(name):
    whole, spec = compiled(name), agent()
    first = simulate(spec, small(name), SPLIT, [3], trajectory=True)
    rest = simulate(spec, small(name), STEPS - SPLIT, resume=first.state, trajectory=True)
    for column, values in whole.trajectory[0].items():
        parts = (first.trajectory[0][column], rest.trajectory[0][column])
        np.testing.assert_array_equal(np.concatenate(parts), values)
    assert equal(rest.state[0], whole.state[0])


@every
def test_the_live_agent_does_the_same_step_by_step(name):
    whole, streams, world = compiled(name), Streams(0, 3), small(name)
    run = Run(agent().start(world, streams), EnvironmentSimulator(world, streams))
    recorder = Recorder(whole.times, trajectory=True, states=False, resample_times=True)
    run.recorder = recorder
    readable.advance(run, STEPS, lambda n: None, np.zeros(1, np.int64))
    path = recorder.trajectory(None)
    np.testing.assert_array_equal(path["actions"], whole.trajectory[0]["actions"])
    np.testing.assert_allclose(path["rewards"], whole.trajectory[0]["rewards"], rtol=1e-4)
    np.testing.assert_array_equal(recorder.resample_times, whole.resample_times[0])
    assert equal(run.agent.state(), whole.state[0]["agent"], rounding=True)


@every
def test_agents_with_tables_say_that_they_need_states(name):
    with pytest.raises(ValueError, match="TSDE needs states"):
        simulate(TSDE(), small(name), 5, 1)
