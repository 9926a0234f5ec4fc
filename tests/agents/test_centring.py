"""Discounted Q-learning with reward centring, and without."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import DifferentialQLearning


@pytest.mark.parametrize(("eta", "gamma", "rate"), [(0.0, 0.9, 0.0), (0.5, 0.9, 2.0)])
def test_its_values_are_those_of_the_formula(eta, gamma, rate):
    mdp, rng = cpsrl.environment("riverswim"), np.random.default_rng(0)
    agent = cpsrl.start(DifferentialQLearning(0.2, eta, gamma=gamma, rate=rate), mdp)
    q, rbar = np.zeros((6, 2)), rate
    for _ in range(200):
        s, a, r, after = rng.integers(6), rng.integers(2), rng.random(), rng.integers(6)
        agent.learn(int(s), int(a), float(r), int(after))
        delta = r - rbar + gamma * q[after].max() - q[s, a]
        q[s, a] += 0.2 * delta
        rbar += eta * 0.2 * delta
    np.testing.assert_allclose(agent.values, q, rtol=1e-12)
    assert agent.reward_rate == pytest.approx(rbar, rel=1e-12)
    assert (rbar == rate) == (eta == 0)


def test_from_the_first_reward_a_constant_changes_no_action():
    mdp = cpsrl.environment("riverswim")
    moved = dataclasses.replace(mdp, rewards=mdp.rewards + 8.0)
    agent = DifferentialQLearning(0.125, 0.25, gamma=0.75, rate="first")
    plain, added = (
        cpsrl.simulate(agent, one, 2000, 1, trajectory=True).trajectory[0] for one in (mdp, moved)
    )
    np.testing.assert_array_equal(plain["states"], added["states"])


@pytest.mark.parametrize(
    ("option", "value"), [("gamma", 1.5), ("gamma", -1), ("eta", -1), ("rate", "low")]
)
def test_bad_settings_are_refused(option, value):
    with pytest.raises(ValueError, match=option):
        DifferentialQLearning(**{option: value})


@pytest.mark.slow
def test_with_it_neither_offsets_nor_gamma_matter():
    """The short form of benchmarks/centring.py: two runs of 10,000 steps."""
    path = Path(__file__).parents[2] / "benchmarks" / "centring.py"
    spec = importlib.util.spec_from_file_location("centring", path)
    centring = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(centring)
    over_offsets, over_gammas, without = centring.verdict(centring.losses("access-control", 2, 5))
    assert max(over_offsets, over_gammas) <= centring.WITHIN
    assert without >= centring.DEGRADED
