"""Agents in environments of Gymnasium."""

import os
import signal
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cpsrl
import cpsrl.gym
from cpsrl.gym import Continuing, TabularEnv
from cpsrl.mdp.problem import FeatureSizes, Sizes


def lake(**options):
    return Continuing(gymnasium.make("FrozenLake-v1", **options))


def test_it_is_the_loop_written_out():
    played = cpsrl.play(cpsrl.ContinuingPSRL(gamma=0.9), lake(), 300, seed=5, record=100)
    agent, env = cpsrl.start(cpsrl.ContinuingPSRL(gamma=0.9), Sizes(16, 4), seed=5), lake()
    state, _ = env.reset(seed=5)
    total, ends = 0.0, 0
    for t in range(1, 301):
        action = agent.act(state)
        following, reward, _, _, info = env.step(action)
        agent.observe(state, action, reward, following)
        state, total, ends = following, total + reward, ends + info["ended"]
        if t == 200:
            assert (played.rewards[0, 1], played.ends[0, 1]) == (total, ends)
            assert played.resamples[0, 1] == agent.resamples
    assert played.times.tolist() == [100, 200, 300]
    assert (played.rewards[0, -1], played.ends[0, -1]) == (total, ends)
    assert played.observation == state
    assert played.agent.resamples == agent.resamples > 0
    assert "FrozenLake-v1" in repr(played)


def test_our_own_environments_pay_what_simulate_pays():
    mdp = cpsrl.environment("riverswim")
    agent = cpsrl.ContinuingPSRL(gamma=0.95)
    played = cpsrl.play(agent, gymnasium.make("cpsrl/RiverSwim-v0"), 400, seed=3)
    runs = cpsrl.simulate(agent, mdp, 400, seeds=1, seed=3)
    np.testing.assert_allclose(played.rewards, runs.gain[:, None] * runs.times - runs.regret)


@pytest.mark.parametrize(
    ("agent", "env"),
    [
        (cpsrl.ContinuingPSRL(gamma=0.9), lake),
        (
            cpsrl.BootstrappedDQN(members=2, hidden=(8,)),
            lambda: Continuing(gymnasium.make("CartPole-v1"), terminal_reward=-1),
        ),
    ],
)
def test_two_halves_are_the_whole(agent, env):
    whole = cpsrl.play(agent, env(), 200, seed=1, record=50)
    halves = env()
    first = cpsrl.play(agent, halves, 100, seed=1, record=50)
    second = cpsrl.play(agent, halves, 100, record=50, resume=first)
    assert second.times.tolist() == [150, 200]
    for name in ("rewards", "ends", "resamples"):
        np.testing.assert_array_equal(getattr(second, name), getattr(whole, name)[:, 2:])


def test_every_copy_of_a_vector_environment_has_an_agent_of_its_own():
    envs = gymnasium.make_vec(
        "FrozenLake-v1", num_envs=3, vectorization_mode="sync", wrappers=[Continuing]
    )
    played = cpsrl.play(cpsrl.ContinuingPSRL(gamma=0.9), envs, 200, seed=4)
    for run in range(3):
        env = lake()
        agent = cpsrl.start(cpsrl.ContinuingPSRL(gamma=0.9), Sizes(16, 4), seed=4, run=run)
        state, _ = env.reset(seed=4 + run)
        total = 0.0
        for _ in range(200):
            action = agent.act(state)
            following, reward, *_ = env.step(action)
            agent.observe(state, action, reward, following)
            state, total = following, total + reward
        assert played.rewards[run, -1] == total
    native = gymnasium.make_vec("cpsrl/RiverSwim-v0", num_envs=2)
    both = cpsrl.play(cpsrl.ContinuingPSRL(gamma=0.9), native, 100, seed=4)
    alone = cpsrl.play(
        cpsrl.ContinuingPSRL(gamma=0.9), gymnasium.make("cpsrl/RiverSwim-v0"), 100, seed=4
    )
    np.testing.assert_array_equal(both.rewards[:1], alone.rewards)
    with pytest.raises(ValueError, match="2 agents"):
        both.agent  # noqa: B018


@pytest.mark.parametrize("mask", [1.0, 0.5])
def test_networks_side_by_side_do_what_each_does_alone(mask):
    def cart():
        return Continuing(gymnasium.make("CartPole-v1"), terminal_reward=-1)

    agent = cpsrl.BootstrappedDQN(members=3, hidden=(8,), mask=mask, epsilon=0.1, target_every=20)
    envs = gymnasium.vector.SyncVectorEnv([cart, cart])
    played = cpsrl.play(agent, envs, 150, seed=6, record=50)
    further = cpsrl.play(agent, envs, 50, record=50, resume=played)
    for run in range(2):
        live, env = cpsrl.start(agent, FeatureSizes(4, 2), seed=6, run=run), cart()
        seen, _ = env.reset(seed=6 + run)
        for _ in range(200):
            action = live.act(seen)
            following, reward, *_ = env.step(action)
            live.observe(seen, action, reward, following)
            seen = following
        mine = further.agents[run].state()
        alone = live.state()
        np.testing.assert_array_equal(mine["replay"]["observation"], alone["replay"]["observation"])
        for name, weights in alone["learner"]["online"].items():
            np.testing.assert_allclose(mine["learner"]["online"][name], weights, atol=1e-5)
        assert mine["step"] == alone["step"] == 201


class Remembers:
    """Every action in turn; keeps what it is shown."""

    def __init__(self):
        self.seen = []

    def act(self, observation):
        return len(self.seen) % 2

    def observe(self, observation, action, reward, next_observation):
        self.seen.append((observation, action, reward, next_observation))


class Spaces(gymnasium.Env):
    """Shows what it is given, for ever."""

    def __init__(self, observations, shown, start=0):
        self.observation_space, self.shown = observations, shown
        self.action_space = spaces.Discrete(2, start=start)

    def reset(self, *, seed=None, options=None):
        return self.shown, {}

    def step(self, action):
        assert action in self.action_space
        return self.shown, 1.0, False, False, {}


@pytest.mark.parametrize(
    ("space", "shown", "seen"),
    [
        (spaces.Discrete(3, start=5), 7, 2),
        (spaces.MultiDiscrete([3, 4], start=[1, 0]), np.array([2, 3]), 7),
        (spaces.Tuple([spaces.Discrete(3), spaces.Discrete(4)]), (1, 3), 7),
        (spaces.Box(0, 1, (2, 2)), np.eye(2, dtype=np.float32), [1, 0, 0, 1]),
    ],
)
def test_observations_become_states_or_vectors(space, shown, seen):
    agent = Remembers()
    cpsrl.play(agent, Spaces(space, shown, start=-1), 4)
    np.testing.assert_array_equal(agent.seen[-1][0], seen)
    kind = cpsrl.DQN(hidden=(4,)) if isinstance(space, spaces.Box) else cpsrl.TSDE()
    cpsrl.play(kind, Spaces(space, shown), 4)


class Strict(gymnasium.Wrapper):
    """Lets no unavailable action pass."""

    def step(self, action):
        state = self.env._simulator.state
        assert self.env.mdp.available[state, action]
        return self.env.step(action)


def test_no_agent_takes_an_unavailable_action():
    mdp = cpsrl.TabularMDP(
        np.full((3, 3, 3), 1 / 3),
        np.arange(9.0).reshape(3, 3) % 4 / 4,
        available=[[1, 0, 0], [1, 1, 0], [0, 1, 1]],
    )
    for agent in (cpsrl.ContinuingPSRL(gamma=0.9), cpsrl.RandomAgent(), cpsrl.UCRL2()):
        cpsrl.play(agent, Strict(TabularEnv(mdp)), 300)


def test_blackjack_is_played_though_it_is_no_table():
    env = Continuing(gymnasium.make("Blackjack-v1"))
    played = cpsrl.play(cpsrl.agents.DifferentialQLearning(), env, 500, seed=0)
    assert played.ends[0, -1] > 100


def test_what_ends_is_refused_with_advice():
    for env in (gymnasium.make("CartPole-v1"), gymnasium.make("Blackjack-v1")):
        with pytest.raises(ValueError, match="wrap it, as in"):
            cpsrl.play(Remembers(), env, 100)
    with pytest.raises(ValueError, match="wrappers="):
        cpsrl.play(Remembers(), gymnasium.make_vec("CartPole-v1", num_envs=2), 100)


def test_what_does_not_fit_is_refused():
    cart = Continuing(gymnasium.make("CartPole-v1"))
    for agent, env, message in [
        (cpsrl.TSDE(), cart, "needs states"),
        (cpsrl.DQN(), lake(), "learns from vectors"),
        (cpsrl.TSDE, lake(), "an agent is one of the package's"),
        (cpsrl.RandomAgent(), Continuing(gymnasium.make("Pendulum-v1")), "must be Discrete"),
        (cpsrl.RandomAgent(), Spaces(spaces.Text(3), "abc"), "FlattenObservation"),
        (cpsrl.RandomAgent(), cpsrl.environment("riverswim"), "environment of Gymnasium"),
    ]:
        with pytest.raises(ValueError, match=message):
            cpsrl.play(agent, env, 10)
    envs = gymnasium.make_vec("cpsrl/RiverSwim-v0", num_envs=2)
    with pytest.raises(ValueError, match="starts one for every copy"):
        cpsrl.play(cpsrl.start(cpsrl.TSDE(), Sizes(6, 2)), envs, 10)
    first = cpsrl.play(cpsrl.RandomAgent(), envs, 10)
    with pytest.raises(ValueError, match="resume goes on in the environment"):
        cpsrl.play(None, lake(), 10, resume=first)


def test_a_live_agent_learns_on():
    live = cpsrl.start(cpsrl.DQN(hidden=(4,)), FeatureSizes(4, 2))
    env = Continuing(gymnasium.make("CartPole-v1"), terminal_reward=-1)
    assert cpsrl.play(live, env, 30).agent is live
    assert live.step == 31


def test_a_durable_agent_is_played_by_its_name_and_its_resamplings_are_counted(tmp_path):
    spec = cpsrl.ContinuingPSRL(gamma=0.9)
    with cpsrl.open(tmp_path / "agent.db", spec, (16, 4), seed=5) as agent:
        played = cpsrl.play(agent, lake(), 100, seed=5)
    plain = cpsrl.play(spec, lake(), 100, seed=5)
    assert played.label == plain.label
    assert played.resamples.tolist() == plain.resamples.tolist()
    assert played.rewards.tolist() == plain.rewards.tolist()


def test_an_interrupt_returns_what_was_played(capsys):
    class Stops(Remembers):
        def observe(self, *transition):
            super().observe(*transition)
            if len(self.seen) == 70:
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    env = TabularEnv("riverswim")
    played = cpsrl.play(Stops(), env, 1000, record=50)
    assert played.times.tolist() == [50, 70]
    assert len(played.agent.seen) == 70
    assert "stopped at step 70" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
    further = cpsrl.play(None, env, 30, record=50, resume=played)
    assert further.times.tolist() == [100]


def test_it_runs_in_a_thread_too():
    found = []

    def work():
        found.append(cpsrl.play(Remembers(), TabularEnv("riverswim"), 20))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0].times[-1] == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "terminal_reward", "usual", "sizes", "better"),
    [
        ("CartPole-v1", -1.0, 1.0, [2.4, 3.0, 0.21, 3.0], lambda ours, theirs: ours < theirs / 2),
        ("Acrobot-v1", 0.0, -1.0, [1, 1, 1, 1, 12, 28], lambda ours, theirs: ours > 3 * theirs),
    ],
)
def test_networks_learn_real_continuing_tasks(name, terminal_reward, usual, sizes, better):
    """A short form of benchmarks/control.py: 10,000 steps, and the second half of them."""

    def env():
        box = spaces.Box(-np.inf, np.inf, (len(sizes),), np.float32)
        bare = Continuing(gymnasium.make(name), terminal_reward=terminal_reward)
        bare = gymnasium.wrappers.TransformObservation(bare, lambda x: x / np.array(sizes), box)
        return gymnasium.wrappers.TransformReward(bare, lambda reward: reward - usual)

    def rate(agent, seed):
        played = cpsrl.play(agent, env(), 10_000, seed=seed, record=5_000)
        return (played.ends[0, 1] - played.ends[0, 0]) / 5

    ours = np.mean([rate(cpsrl.BootstrappedDQN(prior_scale=1.0), seed) for seed in range(2)])
    theirs = np.mean([rate(cpsrl.RandomAgent(), seed) for seed in range(6)])
    assert better(ours, theirs), (ours, theirs)


class WritesIntoItsObservation(gymnasium.Env):
    observation_space = spaces.Box(-100, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = np.zeros(1, np.float32)
        return self.x, {}

    def step(self, action):
        self.x += 1
        return self.x, 0.0, False, False, {}


def test_an_environment_may_write_into_the_observation_that_it_returned():
    agent = cpsrl.play(cpsrl.networks.DQN(hidden=(4,)), WritesIntoItsObservation(), 5).agent
    assert agent.replay["observation"][:5, 0].tolist() == [0, 1, 2, 3, 4]
    assert agent.replay["next_observation"][:5, 0].tolist() == [1, 2, 3, 4, 5]


def test_copies_of_ours_side_by_side_say_their_range_and_actions_too():
    mdp = cpsrl.TabularMDP(
        np.full((2, 2, 2), 0.5), [[100, 200], [300, 400]], available=[[1, 0], [1, 1]]
    )
    env = gymnasium.make_vec("cpsrl/Tabular-v0", 2, vectorization_mode="sync", mdp=mdp)
    for agent in cpsrl.play(cpsrl.ContinuingPSRL(gamma=0.9), env, 3).agents:
        assert agent.sizes == mdp.sizes
