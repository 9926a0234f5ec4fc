"""Our problems as environments of Gymnasium."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import cpsrl
import cpsrl.gym
from cpsrl.environments import environments
from cpsrl.gym import TabularEnv, TabularVectorEnv, gymnasium_id, tabular

OWN = cpsrl.TabularMDP(
    [[[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]],
    [[0.1, 0.2], [0.3, 0.4]],
    noise=0.5,
    initial=[0.3, 0.7],
    state_names=("calm", "busy"),
)


MASKED = cpsrl.TabularMDP(
    np.random.default_rng(3).dirichlet(np.ones(4), size=(4, 3)),
    np.random.default_rng(4).random((4, 3, 4)),
    available=[[1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 1]],
)
"""A model with unavailable actions and rewards that depend on the transition."""


@pytest.mark.parametrize("name", environments())
@pytest.mark.parametrize("mode", ["rgb_array", "ansi"])
def test_check_env_finds_nothing(name, mode):
    env = gymnasium.make(gymnasium_id(name), render_mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    assert env.spec.max_episode_steps is None


def test_check_env_finds_nothing_in_features_and_in_an_mdp_of_ones_own():
    river = gymnasium.make("cpsrl/RiverSwim-v0", features="projection", feature_dimension=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(river.unwrapped, skip_render_check=True)
        check_env(TabularEnv(OWN), skip_render_check=True)
    assert river.observation_space.shape == (3,)
    np.testing.assert_array_equal(
        river.reset(seed=0)[0], river.unwrapped.mdp.features[0].astype(np.float32)
    )


def test_the_module_and_name_form_and_an_mdp_or_a_name_by_hand():
    assert gymnasium.make("cpsrl.gym:cpsrl/Queue-v0", capacity=5).unwrapped.mdp.n_states == 6
    assert gymnasium.make("cpsrl/Tabular-v0", mdp=OWN).unwrapped.mdp is OWN
    lake = gymnasium.make("cpsrl/Tabular-v0", mdp="gym:FrozenLake-v1", map_name="8x8")
    assert lake.unwrapped.mdp.n_states == 64


def test_an_environment_registered_later_is_entered_by_another_call():
    @cpsrl.register("environment", "coin-toss")
    def coin() -> cpsrl.TabularMDP:
        """Two states."""
        return OWN

    assert "cpsrl/CoinToss-v0" not in gymnasium.registry
    cpsrl.gym.register_environments()
    assert gymnasium.make("cpsrl/CoinToss-v0").unwrapped.mdp.n_states == 2


def _steps(env, actions, seed):
    states, rewards = [env.reset(seed=seed)[0]], []
    for action in actions:
        state, reward, terminated, truncated, _ = env.step(int(action))
        assert terminated is False
        assert truncated is False
        states.append(state)
        rewards.append(reward)
    return states, rewards


def test_a_seed_is_that_of_simulate():
    runs = cpsrl.simulate(cpsrl.RandomAgent(), OWN, 200, seeds=1, seed=7, trajectory=True)
    path = runs.trajectory[0]
    states, rewards = _steps(TabularEnv(OWN), path["actions"], 7)
    np.testing.assert_array_equal(states, path["states"])
    np.testing.assert_array_equal(rewards, path["rewards"])


def test_equal_seeds_agree_others_differ_and_none_goes_on():
    env, actions = TabularEnv(OWN), np.arange(50) % 2
    assert _steps(env, actions, 1) == _steps(env, actions, 1)
    assert _steps(env, actions, 1) != _steps(env, actions, 2)
    assert _steps(env, actions, None) != _steps(env, actions, None)
    unseeded = [_steps(TabularEnv(OWN), actions, None) for _ in range(2)]
    assert unseeded[0] != unseeded[1]


@pytest.mark.parametrize("steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_it_is_never_truncated(steps):
    _steps(gymnasium.make("cpsrl/RiverSwim-v0"), np.ones(steps, int), 0)


@pytest.mark.parametrize("name", ["riverswim", "gridworld", "queue"])
def test_p_is_the_model_and_gives_it_back_bit_for_bit(name):
    mdp = cpsrl.environment(name)
    env = TabularEnv(mdp)
    table = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    for s, actions in env.P.items():
        for a, entries in actions.items():
            for p, successor, reward, ended in entries:
                table[s, a, successor] += p
                assert reward == mdp.rewards[s, a]
                assert ended is False
    np.testing.assert_array_equal(table, mdp.dense)
    back = tabular(env)
    np.testing.assert_array_equal(back.dense, mdp.dense)
    np.testing.assert_allclose(back.rewards, mdp.rewards, rtol=1e-15)
    assert back.initial == mdp.initial


@pytest.mark.parametrize(
    "mdp", [OWN, MASKED, cpsrl.environment("queue"), cpsrl.environment("gridworld")]
)
def test_every_copy_takes_the_path_of_the_environment_of_its_seed(mdp):
    envs = TabularVectorEnv(5, mdp)
    rng = np.random.default_rng(0)
    actions = rng.integers(mdp.n_actions, size=(300, 5))
    states, rewards = [envs.reset(seed=11)[0]], []
    for row in actions:
        state, reward, terminated, truncated, _ = envs.step(row)
        states.append(state)
        rewards.append(reward)
        assert not terminated.any()
        assert not truncated.any()
    for i in range(5):
        alone = _steps(TabularEnv(mdp), actions[:, i], 11 + i)
        np.testing.assert_array_equal([row[i] for row in states], alone[0])
        np.testing.assert_array_equal([row[i] for row in rewards], alone[1])
    again = envs.reset()[0]
    single = TabularEnv(mdp)
    _steps(single, actions[:, 4], 15)
    assert again[4] == single.reset()[0]
    assert envs.reset(seed=[15, 11, 3, 3, 11])[0][1] == states[0][0]


def test_unavailable_actions_are_masked_and_stood_in_for():
    env, envs = TabularEnv(MASKED), TabularVectorEnv(3, MASKED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    state, info = env.reset(seed=5)
    envs.reset(seed=5)
    for t in range(100):
        np.testing.assert_array_equal(info["action_mask"], MASKED.available[state])
        action = int(env.action_space.sample(info["action_mask"]))
        assert MASKED.available[state, action]
        batch, _, _, _, infos = envs.step(np.full(3, t % 3))
        np.testing.assert_array_equal(infos["action_mask"], MASKED.available[batch])
        state, _, _, _, info = env.step(action)
    assert sorted(env.P[1]) == [1]
    back = tabular(env)
    np.testing.assert_array_equal(back.available, MASKED.available)
    np.testing.assert_array_equal(back.dense, MASKED.dense)
    np.testing.assert_array_equal(back.transition_rewards, MASKED.transition_rewards)
    env.reset(seed=1)
    env._simulator.state = 3
    twin = TabularEnv(MASKED)
    twin.reset(seed=1)
    twin._simulator.state = 3
    assert env.step(0)[:2] == twin.step(2)[:2], "an unavailable action is its stand-in"


def test_the_vector_environment_is_made_by_gymnasium():
    envs = gymnasium.make_vec("cpsrl/RiverSwim-v0", num_envs=4, features="one-hot", n_states=3)
    assert isinstance(envs, TabularVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observed, _ = envs.reset(seed=0)
    assert observed in envs.observation_space
    observed, *_ = envs.step(envs.action_space.sample())
    assert observed in envs.observation_space
    assert observed.shape == (4, 3)


def test_wrong_input_is_refused():
    envs = TabularVectorEnv(2, OWN)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step([0, 0])
    with pytest.raises(gymnasium.error.ResetNeeded):
        TabularEnv(OWN).step(0)
    before = envs.reset(seed=0)[0]
    for actions, message in [
        ([0], "2 whole numbers"),
        ([0.5, 1.0], "2 whole numbers"),
        ([0, 2], "copy 1"),
        ([-1, 0], "copy 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            envs.step(np.array(actions))
    np.testing.assert_array_equal(envs._copies.states, before)
    with pytest.raises(ValueError, match="3 seeds were given for 2"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="has no features"):
        TabularEnv(OWN, observation="features")
    with pytest.raises(ValueError, match="takes no options"):
        TabularEnv(OWN, n_states=3)
    with pytest.raises(ValueError, match="did you mean 'n_states'"):
        gymnasium.make("cpsrl/RiverSwim-v0", n_state=3)


def _drawn(name, mode, actions=(), **options):
    env = gymnasium.make(name, render_mode=mode, **options)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env.render()


def test_texts_show_the_swimmer_the_grid_and_the_queue():
    assert _drawn("cpsrl/RiverSwim-v0", "ansi", [0]).splitlines() == [
        "@ ~ ~ ~ ~ $",
        "state 0 of 0..5, after left, reward 0.005",
    ]
    grid = _drawn("cpsrl/GridWorld-v0", "ansi", rows=2, columns=3)
    assert grid.splitlines()[:2] == ["@ . .", ". . $"]
    queue = _drawn("cpsrl/Queue-v0", "ansi", [1] * 9, capacity=4, service_rate=1e-9)
    assert queue.splitlines()[0] == "|oooo|"
    rooms = _drawn("cpsrl/Rooms-v0", "ansi").splitlines()[:-1]
    assert rooms[0][0] == "@"
    assert len(rooms) == max(map(len, rooms)) / 2 + 0.5, "walls leave gaps in a square"
    own = _drawn("cpsrl/Tabular-v0", "ansi", mdp=OWN)
    assert own.splitlines()[1] in ("state calm", "state busy")


def test_pictures_change_with_the_state_and_are_no_larger_than_a_screen():
    for name in environments():
        frame = _drawn(gymnasium_id(name), "rgb_array")
        assert frame.dtype == np.uint8
        assert frame.shape[2] == 3
        assert max(frame.shape) <= 1000
        assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 3
    still = _drawn("cpsrl/RiverSwim-v0", "rgb_array", [0])
    moved = _drawn("cpsrl/RiverSwim-v0", "rgb_array", [1, 1, 1, 1, 1])
    water = slice(12, 60)
    assert (still[water, :60] != moved[water, :60]).any()
    large = gymnasium.make("cpsrl/GridWorld-v0", rows=100, columns=100, render_mode="rgb_array")
    large.reset(seed=0)
    assert large.render().shape[0] < 100
    frames = gymnasium.make_vec("cpsrl/Queue-v0", num_envs=2, render_mode="ansi")
    frames.reset(seed=0)
    assert len(frames.render()) == 2


def test_what_is_no_table_and_copies_of_a_world_that_changes_are_refused():
    with pytest.raises(ValueError, match="mdp must be a TabularMDP or the name of one"):
        cpsrl.gym.TabularEnv("pendulum")
    with pytest.raises(ValueError, match=r"copies are of one model; .* changes: take one"):
        cpsrl.gym.TabularVectorEnv(2, "changing")
