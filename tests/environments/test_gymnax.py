"""Environments with gymnax's interface: what the compiled loop does is what their `step` does."""

import warnings

import numpy as np
import pytest

import cpsrl
from cpsrl.environments import environment
from cpsrl.environments.gymnax import Held, gymnax_world
from cpsrl.environments.pure import KNOWN, EnvironmentSimulator, observed
from cpsrl.networks import DQN
from cpsrl.seeding import Streams
from cpsrl.simulation import simulate

jax = pytest.importorskip("jax")
gymnax = pytest.importorskip("gymnax")
pytest.importorskip("foragax")

CANNOT = {"MNISTBandit-bsuite": "downloads digits", "SimpleBandit-bsuite": "its step raises"}
FORAGER = "foragax:ForagaxTwoBiomeLarge-v1"
SEEN = {"aperture_size": 9, "observation_type": "object"}
STATED = {"reward_range": (-1.0, 1.0), "reference": 0.0}


def discrete():
    names = [name for name in gymnax.registered_envs if name not in CANNOT]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {name: gymnax.make(name) for name in names}
    return [
        f"gymnax:{name}"
        for name, (env, params) in made.items()
        if hasattr(env.action_space(params), "n")
    ]


@pytest.fixture(autouse=True)
def _their_casts():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def driven(world, actions, seed, run):
    """The rewards and the last state of the environment's own `step`, driven by the same keys."""
    streams, env, params = Streams(seed, run), world.env.thing, world.params
    first, *keys = (world.draw(streams, 1)[0] for _ in range(len(actions) + 1))
    _, state = env.reset(first, params)

    @jax.jit
    def walk(state, params):
        def one(state, drawn):
            key, action = drawn
            seen, state, reward, ended, _ = env.step(key, state, action, params)
            return state, (reward, seen, ended)

        return jax.lax.scan(one, state, (np.array(keys), actions.astype(np.int32)))

    state, (rewards, seen, ended) = walk(jax.tree.map(jax.numpy.asarray, state), params)
    return np.asarray(rewards, np.float32), np.asarray(seen), np.asarray(ended), state


def check_as_its_own_step(name, steps, **options):
    world = environment(name, **STATED, **options)
    agent = DQN(hidden=(4,), batch=2, capacity=20, epsilon=0.3, target_every=50)
    whole = simulate(agent, world, steps, [3], trajectory=True)
    first = simulate(agent, world, steps // 3, [3], trajectory=True)
    rest = simulate(agent, world, steps - steps // 3, resume=first.state, trajectory=True)
    path = whole.trajectory[0]
    for column, values in path.items():
        parts = (first.trajectory[0][column], rest.trajectory[0][column])
        np.testing.assert_array_equal(np.concatenate(parts), values)
    rewards, seen, _, state = driven(world, path["actions"], 0, 3)
    np.testing.assert_array_equal(path["rewards"].astype(np.float32), rewards)
    *leaves, last = whole.state[0]["environment_state"]
    for mine, theirs in zip(leaves, jax.tree.leaves(state), strict=True):
        assert mine.dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(last, seen[-1])
    if world.whole:
        assert np.isin(seen, np.arange(256)).all()
    return len(np.unique(path["actions"]))


@pytest.mark.parametrize("name", discrete())
@pytest.mark.slow
def test_every_environment_does_what_its_own_step_does(name):
    assert check_as_its_own_step(name, 10_000) > 1


@pytest.mark.slow
def test_the_forager_does_what_its_own_step_does():
    assert check_as_its_own_step(FORAGER, 10_000, **SEEN) == 4


@pytest.mark.parametrize("name", ["gymnax:Breakout-MinAtar", "gymnax:UmbrellaChain-bsuite"])
def test_it_does_what_its_own_step_does(name):
    assert check_as_its_own_step(name, 300) > 1


def test_the_forager_keeps_its_kinds_of_numbers():
    assert check_as_its_own_step(FORAGER, 300, **SEEN) == 4
    kinds = {a.dtype.name for a in environment(FORAGER, **SEEN).simulator().stored()}
    assert {"float16", "int16", "uint8", "int32"} <= kinds


class Steps:
    """The smallest environment with gymnax's interface: episodes of `length` steps, and a clock."""

    name, default_params = "Steps", None

    def action_space(self, params):
        return type("Space", (), {"n": 2})()

    def reset(self, key, params):
        drawn = jax.random.uniform(key).astype(np.float16)
        return jax.numpy.zeros(2), {"time": np.int16(0), "luck": drawn}

    def step(self, key, state, action, params):
        time = state["time"] + np.int16(1)
        ended = time >= 3
        again = self.reset(key, params)[1]
        moved = {"time": time, "luck": state["luck"]}
        after = jax.tree.map(lambda x, y: jax.numpy.where(ended, x, y), again, moved)
        seen = jax.numpy.stack([after["time"], action]).astype(np.float32)
        return seen, after, action, ended, {}


def test_one_of_ones_own_ends_its_episodes_for_a_reward():
    world = gymnax_world(Steps(), reward_range=(0, 1), terminal_reward=-5.0, reference=1.0)
    assert world.reference()[:2] == (1.0, KNOWN)
    simulator = world.simulator()
    rewards = [simulator.step(1)[0] for _ in range(7)]
    assert rewards == [1, 1, -4, 1, 1, -4, 1]
    assert {a.dtype.name for a in simulator.stored()} == {"int16", "float16", "float32"}


def test_a_window_shows_what_was_seen_before():
    world = gymnax_world(Steps(), reward_range=(0, 1), window=3)
    simulator = world.simulator()
    seen = [observed(world, simulator.state)]
    for action in (1, 0):
        simulator.step(action)
        seen.append(observed(world, simulator.state))
    np.testing.assert_array_equal(seen, [[0] * 6, [1, 1, 0, 0, 0, 0], [2, 0, 1, 1, 0, 0]])
    assert (world.n_features, world.picture) == (6, None)
    whole = simulate(DQN(hidden=(4,), batch=2), world, 60, [1], trajectory=True)
    first = simulate(DQN(hidden=(4,), batch=2), world, 20, [1])
    rest = simulate(DQN(hidden=(4,), batch=2), world, 40, resume=first.state, trajectory=True)
    parts = whole.trajectory[0]["actions"][20:], rest.trajectory[0]["actions"]
    np.testing.assert_array_equal(*parts)


def test_the_planes_of_a_window_of_pictures_stand_behind_each_other():
    world = environment("gymnax:Catch-bsuite", rows=4, columns=3, window=2)
    simulator = EnvironmentSimulator(world, Streams(5))
    before = observed(world.inside, simulator.state[0]).reshape(4, 3)
    simulator.step(0)
    now = observed(world.inside, simulator.state[0]).reshape(4, 3)
    assert world.picture == (4, 3, 2)
    seen = observed(world, simulator.state).reshape(world.picture)
    np.testing.assert_array_equal(seen, np.stack([now, before], axis=2))
    assert (now != before).any()


def test_what_is_not_stated_is_that_of_a_random_policy():
    world = environment("gymnax:Catch-bsuite")
    gain, kind, reason, _ = world.reference()
    assert world.reward_range == (-1.0, 1.0)
    assert (kind, reason) == (KNOWN, "a random policy earns it in 10,000 steps")
    assert -0.1 < gain < 0


def test_names_and_options_are_checked_and_enter_the_label():
    world = environment("gymnax:Breakout-MinAtar", max_steps_in_episode=500)
    assert world.name == "gymnax:Breakout-MinAtar (max_steps_in_episode=500)"
    assert int(world.params.max_steps_in_episode) == 500
    assert (world.picture, world.whole) == ((10, 10, 4), True)
    for name, said in [
        ("gymnax:Breakot-MinAtar", "did you mean 'Breakout-MinAtar'"),
        ("foragax:Forager", "unknown environment of foragax 'Forager'"),
        ("gymnax:Pendulum-v1", "are not discrete"),
    ]:
        with pytest.raises(ValueError, match=said):
            environment(name)
    with pytest.raises(ValueError, match="unknown option 'colour'"):
        environment("gymnax:Breakout-MinAtar", colour="red")


def test_an_object_that_no_worker_can_have_is_refused():
    with pytest.raises(ValueError, match="function cannot be sent to a worker"):
        Held(lambda: 0)
    assert Held(3) == Held(3) != Held(4)


def test_a_specification_names_it():
    spec = cpsrl.experiments.Experiment.from_toml(
        'name = "x"\nsteps = 10\n[[environments]]\nname = "gymnax:Breakout-MinAtar"\n'
        "max_steps_in_episode = 500\nreward_range = [0.0, 1.0]\n"
        '[[agents]]\nname = "dqn"\n'
    )
    again = cpsrl.experiments.Experiment.from_toml(spec.to_toml())
    assert again.problem(again.all_environments[0]).params.max_steps_in_episode == 500
