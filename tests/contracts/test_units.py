"""Agents act alike whatever rewards are counted in: those of c r + d are the actions for r."""

import itertools
import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import AGENTS, DifferentialQLearning
from cpsrl.beliefs import BELIEFS, REWARDS, InRange, NormalGamma, Truncated
from cpsrl.statistics import paired_difference

UNITS = list(itertools.product((1e-6, 0.01, 1, 100, 1e6), (-10, 0, 10)))
EXTREMES = [(1e-6, 10), (0.01, 0), (1e6, -10)]
RIVER = cpsrl.environment("riverswim", features="thermometer")

tabular = pytest.mark.parametrize(
    "name", [name for name in AGENTS.names() if not AGENTS.make(name).packages]
)


def scaled(c, d, mdp=RIVER, **options):
    return cpsrl.TabularMDP(mdp.transitions, c * mdp.rewards + d, features=mdp.features, **options)


def assert_alike(agent, mdp, steps, units=UNITS, runs=2):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = cpsrl.simulate(agent, mdp, steps, runs, trajectory=True)
        for c, d in units:
            after = cpsrl.simulate(agent, scaled(c, d, mdp), steps, runs, trajectory=True)
            for one, other in zip(before.trajectory, after.trajectory, strict=True):
                np.testing.assert_array_equal(one["actions"], other["actions"], str((c, d)))
            np.testing.assert_allclose(after.regret[:, -1] / c, before.regret[:, -1], rtol=0.01)
            np.testing.assert_array_equal(after.resamples, before.resamples)


@tabular
def test_every_tabular_agent_acts_alike_in_all_units(name):
    assert_alike(AGENTS.make(name), RIVER, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("agent", [cpsrl.TSDE(), cpsrl.ContinuingPSRL(), cpsrl.UCRL2()])
def test_agents_act_alike_for_long(agent):
    assert_alike(agent, RIVER, 20_000, runs=4)


def with_rewards(belief, rewards):
    inner = cpsrl.Dirichlet(rewards=REWARDS.make(rewards))
    return Truncated(30.0, inner) if belief == "truncated" else inner


@pytest.mark.parametrize("rewards", REWARDS.names())
@pytest.mark.parametrize("belief", ["dirichlet", "truncated"])
def test_every_belief_and_reward_prior_does(belief, rewards):
    assert {"dirichlet", "truncated"} <= set(BELIEFS.names())
    agent = cpsrl.TSDE(with_rewards(belief, rewards))
    assert_alike(agent, RIVER, 500, EXTREMES)


@pytest.mark.parametrize("agent", [cpsrl.TSDE(), cpsrl.ContinuingPSRL(0.9)])
def test_large_models_do(agent):
    assert_alike(agent, cpsrl.environment("riverswim", n_states=140), 60, EXTREMES, 1)


@pytest.mark.parametrize(("c", "d"), EXTREMES)
@pytest.mark.parametrize(
    "belief", [cpsrl.Dirichlet(), Truncated(20.0), cpsrl.Dirichlet(rewards=InRange())]
)
def test_what_is_drawn_is_scaled(belief, c, d):
    rng = np.random.default_rng(0)
    seen = [(rng.integers(4), rng.integers(2), rng.normal(0.4, 0.3)) for _ in range(50)]
    states, actions, rewards = map(np.array, zip(*seen, strict=True))
    for n in (0, 50):
        drawn = []
        for factor, shift in ((1, 0), (c, d)):
            live = belief.start(cpsrl.Sizes(4, 2, (shift, factor + shift)))
            data = (states[:n], actions[:n], factor * rewards[:n] + shift, states[:n] * 0)
            live.observe_many(*data)
            drawn.append(live.sample(3))
        np.testing.assert_array_equal(drawn[0].dense, drawn[1].dense)
        np.testing.assert_allclose((drawn[1].rewards - d) / c, drawn[0].rewards, rtol=1e-6)


@pytest.mark.parametrize(
    ("reward_range", "prior"),
    [
        ((0, 1), [1, 1, 0.5, 0.5]),
        ((-3, 5), [5, 1, 0.5, 32]),
        ((2, 2), [3, 1, 0.5, 0.5]),
    ],
)
def test_the_default_prior_is_the_papers_in_the_range(reward_range, prior):
    arrays = NormalGamma().arrays(cpsrl.Sizes(3, 2, reward_range))
    assert arrays.prior.tolist() == prior


def test_a_prior_given_by_hand_is_in_the_units_of_the_rewards_and_is_said_not_to_fit():
    sizes = cpsrl.Sizes(3, 2, (300, 500))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = NormalGamma(mu0=350, n_mu=2, tau0=1e-4, n_tau=4).arrays(sizes)
    assert given.prior.tolist() == [350, 2, 2, 20_000]
    with pytest.warns(UserWarning, match=r"range 300 to 500: mu0 = 1 is not near it and tau0 = 1 "):
        cpsrl.start(cpsrl.TSDE(cpsrl.Dirichlet(rewards=NormalGamma(1, 1, 1, 1))), sizes)
    with pytest.raises(ValueError, match=r"width 1e-60.*scale the rewards"):
        NormalGamma().arrays(cpsrl.Sizes(3, 2, (0, 1e-60)))


@pytest.mark.parametrize("name", ["tsde", "ucrl2", "differential-q"])
def test_one_warning_where_a_reward_is_far_outside_the_range_and_learning_goes_on(name):
    agents = [cpsrl.start(AGENTS.make(name), cpsrl.Sizes(2, 1, (0, 10))) for _ in range(2)]
    for agent in agents:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            agent.observe(0, 0, 9.5, 1)
        with pytest.warns(UserWarning, match=r"reward of 21 is outside \[0, 10\]"):
            agent.observe(0, 0, 21.0, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for reward in range(-30, 30, 6):
                agent.observe(0, 0, reward, 1)
    if name == "tsde":
        assert agents[0].belief.arrays.rewards.seen.sum() == 12


def test_the_noise_of_an_mdp_itself_is_no_surprise():
    mdp = cpsrl.TabularMDP(RIVER.dense, RIVER.rewards, noise=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cpsrl.simulate(cpsrl.TSDE(), mdp, 2000, 1)
        agent = cpsrl.start(cpsrl.TSDE(), mdp)
        agent.observe(0, 0, 14.0, 0)
    with pytest.warns(UserWarning, match="reward of 40"):
        agent.observe(0, 0, 40.0, 0)


@tabular
def test_a_state_is_not_resumed_in_other_units(name):
    first, second = scaled(1, 0), scaled(1, 0.5)
    runs = cpsrl.simulate(AGENTS.make(name), first, 20, 1)
    state = runs.state[0]["agent"]
    agent = cpsrl.start(AGENTS.make(name), second)
    before = agent.state()
    with pytest.raises(ValueError, match=r"rewards in the range \(0.0, 1.0\), and here it is"):
        agent.restore(state)
    assert agent.state()["reward_range"] == before["reward_range"] == [0.5, 1.5]
    cpsrl.start(AGENTS.make(name), first).restore(state)


class Seen:
    ranges: ClassVar = []

    def __init__(self, problem):
        Seen.ranges.append(problem.reward_range)
        self.problem = problem

    def observe_many(self, states, actions, rewards, next_states):
        pass

    def sample(self, rng):
        P = rng.dirichlet(np.ones(self.problem.n_states), self.problem.rewards.shape)
        low, high = self.problem.reward_range
        return P, rng.uniform(low, high, self.problem.rewards.shape)

    def state(self):
        return {}

    def restore(self, state):
        pass


@dataclass(frozen=True)
class SeesTheRange(cpsrl.Belief):
    def start(self, problem):
        return Seen(problem)


def test_a_belief_of_ones_own_sees_the_range_and_may_use_it():
    assert_alike(cpsrl.TSDE(SeesTheRange()), RIVER, 200, EXTREMES, 1)
    assert (-10.0, 1e6 - 10.0) in Seen.ranges


def test_differential_q_learning_estimates_the_gain_in_the_units_of_the_rewards():
    mdp = scaled(100, 1000, cpsrl.environment("queue"))
    agent, world = cpsrl.start(DifferentialQLearning(), mdp), mdp.simulator()
    for _ in range(20_000):
        state = world.state
        action = agent.act(state)
        agent.observe(state, action, *world.step(action))
    assert agent.reward_rate == pytest.approx(1000 + 100 * 128 / 549, abs=10)


networks = pytest.mark.skipif(not find_spec("jax"), reason="networks need JAX")
SMALL = {"members": 3, "hidden": (8,), "batch": 4, "capacity": 60, "target_every": 7}


def in_float32(mdp):
    low, high = mdp.reward_range
    return ((mdp.rewards - low) / (high - low)).astype(np.float32)


@networks
def test_networks_act_alike_where_the_scaled_rewards_are_the_same_in_float32():
    from cpsrl.networks import BootstrappedDQN

    agent, compared = BootstrappedDQN(**SMALL), 0
    before = cpsrl.simulate(agent, RIVER, 150, 1, trajectory=True)
    for c, d in UNITS:
        mdp = scaled(c, d)
        if np.array_equal(in_float32(mdp), in_float32(RIVER)):
            after = cpsrl.simulate(agent, mdp, 150, 1, trajectory=True)
            one, other = before.trajectory[0], after.trajectory[0]
            np.testing.assert_array_equal(one["actions"], other["actions"], str((c, d)))
            np.testing.assert_allclose((other["rewards"] - d) / c, one["rewards"], atol=1e-8)
            mine, theirs = (run.state[0]["agent"] for run in (before, after))
            for name in ("action", "reward"):
                np.testing.assert_array_equal(mine["replay"][name], theirs["replay"][name])
            compared += 1
    assert compared >= 13


@networks
def test_a_live_network_scales_rewards_as_the_loop_does_and_warns_once():
    from cpsrl.mdp.problem import FeatureSizes
    from cpsrl.networks import BootstrappedDQN

    agent = cpsrl.start(BootstrappedDQN(**SMALL), FeatureSizes(2, 2, (-100, 100)))
    agent.observe([0, 1], 0, 50.0, [1, 0])
    assert agent.replay["reward"][0] == 0.75
    with pytest.warns(UserWarning, match="reward of 1000"):
        agent.observe([0, 1], 0, 1000.0, [1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.observe([0, 1], 0, 1000.0, [1, 0])
    assert agent.replay["reward"][1] == 5.5


@networks
@pytest.mark.slow
@pytest.mark.parametrize("d", [-10, 10])
def test_networks_learn_as_well_where_float32_tells_the_scaled_rewards_apart(d):
    from cpsrl.networks import BootstrappedDQN

    c, steps, runs = 1e-6, 3000, 10
    before = cpsrl.simulate(BootstrappedDQN(), RIVER, steps, runs)
    after = cpsrl.simulate(BootstrappedDQN(), scaled(c, d), steps, runs)
    difference = paired_difference(after.regret[:, -1] / c, before.regret[:, -1])
    assert difference.low <= 0 <= difference.high


def test_a_range_is_declared_kept_and_checked(tmp_path):
    assert scaled(100, -10).reward_range == (-10, 90)
    assert cpsrl.environment("random").reward_range == (0, 1)
    assert cpsrl.environment("riverswim", variant="statrl").reward_range == (0, 1)
    noisy = cpsrl.TabularMDP([[[1.0]]], [[0.4]], noise="bernoulli")
    assert noisy.reward_range == (0, 1)
    mdp = replace(RIVER, reward_range=(-1, 2))
    assert mdp.sizes == cpsrl.Sizes(6, 2, (-1.0, 2.0))
    assert replace(mdp, name="other").reward_range == (-1, 2)
    assert replace(RIVER, rewards=3 * RIVER.rewards).reward_range == (0, 3)
    mdp.save(tmp_path / "mdp.npz")
    loaded = cpsrl.TabularMDP.load(tmp_path / "mdp.npz")
    assert loaded.reward_range == (-1, 2)
    RIVER.save(tmp_path / "river.npz")
    assert not cpsrl.TabularMDP.load(tmp_path / "river.npz").declares_range


@pytest.mark.parametrize("make", [cpsrl.Sizes, cpsrl.mdp.problem.FeatureSizes])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, 0), r"low <= high, not \(1.0, 0.0\)"),
        ((0, np.inf), r"reward_range\[1\] must be a finite number"),
        ((np.nan, 1), r"reward_range\[0\] must be a finite number"),
        ((0, 1, 2), r"two numbers \(low, high\), not \(0, 1, 2\)"),
        (1.0, r"two numbers \(low, high\), not 1.0"),
        (("a", "b"), r"reward_range\[0\] must be a finite number"),
    ],
)
def test_a_range_that_is_none_is_refused(make, given, message):
    with pytest.raises(ValueError, match=message):
        make(2, 2, given)
    with pytest.raises(ValueError, match=message):
        replace(RIVER, reward_range=given)


def test_a_declared_range_has_the_mean_rewards_in_it():
    with pytest.raises(
        ValueError, match=r"\(0, 0.5\), but the mean reward of state 5 under action 'right' is 1"
    ):
        replace(RIVER, reward_range=(0, 0.5))
