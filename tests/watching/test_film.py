"""A film is the run of `simulate`, and looking changes nothing."""

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import AGENTS
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.live.explain import _from_models, solved_draws
from cpsrl.networks.agent import ValueSampling
from cpsrl.planning import discounted_value, gain_and_bias
from cpsrl.watching import Film
from cpsrl.watching import film as film_module

RIVER = cpsrl.environment("riverswim")
TABLES = [name for name in AGENTS.names() if not isinstance(AGENTS.make(name), ValueSampling)]


@pytest.mark.parametrize("name", TABLES)
def test_a_film_is_the_run_of_the_same_seed_bit_by_bit(name):
    noisy = cpsrl.TabularMDP(RIVER.transitions, RIVER.rewards, noise="bernoulli")
    agent = AGENTS.make(name)
    wanted = cpsrl.simulate(
        agent, noisy, 200, seeds=[3], seed=7, record=1, trajectory=True, resample_times=True
    )
    film = Film(agent, noisy, 200, seed=7, run=3)
    for steps in (1, 1, 50, 1000):
        film.advance(steps)
    states, actions, rewards = film.path()
    np.testing.assert_array_equal(states, wanted.trajectory[0]["states"])
    np.testing.assert_array_equal(actions, wanted.trajectory[0]["actions"])
    np.testing.assert_array_equal(rewards, wanted.trajectory[0]["rewards"])
    np.testing.assert_array_equal(film.regrets(), wanted.regret[0])
    assert film.regret == wanted.regret[0, -1]
    assert film.begun == wanted.resample_times[0].tolist()
    assert film.label == wanted.agent[0]


def test_what_a_film_cannot_show_is_refused():
    with pytest.raises(ValueError, match="many agents"):
        Film(AGENTS.make("fleet", n=3), RIVER, 10)
    with pytest.raises(ValueError, match="changes, and only worlds that stay the same"):
        Film(cpsrl.ContinuingPSRL(0.9), cpsrl.environment("changing"), 10)


def test_a_look_is_at_the_model_drawn_and_at_the_posterior():
    film = Film(cpsrl.ContinuingPSRL(0.9), RIVER, 400)
    film.advance(400)
    agent, look = film.agent, film.looks[-1]
    np.testing.assert_array_equal(look.policy, agent.policy)
    value = discounted_value(cpsrl.TabularMDP(*agent.drawn), look.policy, 0.9)
    np.testing.assert_array_equal(look.value, value)
    assert look.earns == gain_and_bias(RIVER, look.policy)[0][film.path()[0][look.step - 1]]
    assert [one.step for one in film.looks] == film.begun
    rows, next_states = film.successors
    for one in film.looks:
        np.testing.assert_allclose(one.optimal.sum(axis=1), 1.0)
        middle, low, high = one.successors
        assert (low <= middle).all()
        assert (middle <= high).all()
    assert len(middle) == len(rows) + 12
    states, actions, _ = (x[: look.step - 1] for x in film.path())
    seen = np.zeros((12, 6))
    np.add.at(seen, (states * 2 + actions, film.path()[0][1 : look.step]), 1)
    visits = seen.sum(axis=1)
    often = visits[rows] > 40
    assert often.any()
    observed = seen[rows, next_states][often] / visits[rows][often]
    assert np.abs(middle[: len(rows)][often] - observed).max() < 0.03


def test_what_is_said_of_all_states_is_what_is_explained_of_each():
    for agent in (cpsrl.TSDE(), cpsrl.ContinuingPSRL(0.9)):
        live = cpsrl.start(agent, RIVER)
        assert isinstance(live, PSRLAgent)
        for t in range(60):
            live.observe(t % 6, t % 2, 0.1, (t + 1) % 6)
        drawn = list(solved_draws(live, np.arange(6), np.random.default_rng(1), 50))
        optimal = np.mean([one.optimal for one in drawn], axis=0)
        for state in (0, 4):
            gamma = live.planning_gamma() if live.objective.discounts else 1.0
            alone = _from_models(live, state, np.random.default_rng(1), 50, gamma, None)
            np.testing.assert_allclose(alone.optimal, optimal[state], atol=1e-12)
            np.testing.assert_allclose(alone.values, [one.values[state] for one in drawn])
            np.testing.assert_allclose(alone.gain, [one.gain[state] for one in drawn])


def test_the_losses_of_decisions_sum_to_the_regret_but_for_noise_and_the_ends():
    lost, regret = [], []
    for run in range(20):
        film = Film(cpsrl.RandomAgent(), RIVER, 500, run=run)
        film.advance(500)
        states, bias = film.path()[0], film.best.bias
        lost.append(film.losses().sum())
        regret.append(film.regret + bias[states[-1]] - bias[states[0]])
    difference = np.array(lost) - np.array(regret)
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(20)
    optimal = Film(cpsrl.agents.OptimalAgent(), RIVER, 50)
    optimal.advance(50)
    assert (film.loss >= 0).all()
    assert not optimal.losses().any()


def test_looks_are_thinned_out_and_the_rest_is_kept(monkeypatch):
    monkeypatch.setattr(film_module, "MOST_LOOKS", 12)
    film = Film(cpsrl.agents.EveryStepPSRL(), RIVER, 100)
    film.advance(100)
    assert film.begun == list(range(1, 101))
    assert film.stride == 16
    assert [look.number for look in film.looks] == list(range(1, 101, 16))
    assert film.waits.tolist() == [1] * 100


def test_a_large_model_is_watched_without_its_posterior():
    grid = cpsrl.environment("gridworld", rows=12, columns=12)
    film = Film(cpsrl.TSDE(), grid, 20)
    film.advance(20)
    assert film.looks[-1].optimal is None
    assert film.looks[-1].value.shape == (144,)


def test_what_cannot_be_watched_is_refused():
    with pytest.raises(ValueError, match="watched for at most 100,000 steps, not 100,001"):
        Film(cpsrl.TSDE(), RIVER, 100_001)
    with pytest.raises(ValueError, match="has networks, and only agents with tables are watched"):
        Film(cpsrl.DQN(), RIVER, 10)
    with pytest.raises(ValueError, match="steps"):
        Film(cpsrl.TSDE(), RIVER, 0)
