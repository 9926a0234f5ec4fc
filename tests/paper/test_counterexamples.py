"""The counterexamples, against their closed forms, and that they are as bad as can be."""

import numpy as np
import pytest

from cpsrl import TabularMDP, solve_average, solve_discounted, span
from cpsrl.paper import COUNTEREXAMPLES, counterexample
from cpsrl.paper.counterexamples import dive, path
from cpsrl.planning import classify, gain_and_bias, reward_averaging_time


def excess(mdp, gamma):
    """V*(s) - lambda/(1 - gamma), the gain having been computed apart."""
    return solve_discounted(mdp, gamma).value - solve_average(mdp).gain / (1 - gamma)


def tau_and_span(mdp):
    best = solve_average(mdp, bias_optimal=True)
    return float(reward_averaging_time(mdp, best.policy)), span(best.bias)


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_every_file_is_a_weakly_communicating_mdp_with_rewards_in_the_unit_interval(name):
    mdp = counterexample(name)
    assert classify(mdp).kind != "multichain"
    assert mdp.rewards.min() >= 0
    assert mdp.rewards.max() <= 1
    assert np.array_equal(TabularMDP.load(path(name)).dense, mdp.dense)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'steep'"):
        counterexample("stepp")


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.85, 6 / 7 - 1e-3])
def test_dive_breaks_lemma_3_3_and_eq_5(gamma):
    mdp = counterexample("dive")
    assert tau_and_span(mdp) == pytest.approx((0.35, 0.7))
    value = solve_discounted(mdp, gamma).value
    exact = np.array([2 - gamma, gamma]) / ((2 + gamma) * (1 - gamma))
    np.testing.assert_allclose(value, exact, rtol=1e-12)
    assert excess(mdp, gamma).max() > 0.35 + 1e-5
    assert span(value) == pytest.approx(2 / (2 + gamma))
    assert span(value) > 2 * 0.35 + 1e-5


def test_dive_holds_from_six_sevenths_on():
    for gamma in (6 / 7 + 1e-6, 0.95, 0.999):
        assert np.abs(excess(counterexample("dive"), gamma)).max() <= 0.35 + 1e-9


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
def test_the_family_of_dive_reaches_its_limits(gamma):
    reward = 2 / 3 + 1e-7
    tau, _ = tau_and_span(dive(reward))
    x = excess(dive(reward), gamma)
    assert x.max() / tau == pytest.approx(4 / (2 + gamma), rel=1e-4)
    assert span(x) / tau == pytest.approx(6 / (2 + gamma), rel=1e-4)


def test_the_family_of_dive_is_the_file():
    assert np.array_equal(dive(0.7).dense, counterexample("dive").dense)
    assert np.array_equal(dive(0.7).rewards, counterexample("dive").rewards)


@pytest.mark.parametrize("gamma", [0.1, 0.9, 0.99, 0.997])
def test_wait_breaks_the_upper_side_up_to_gamma_998(gamma):
    mdp = counterexample("wait")
    assert tau_and_span(mdp) == pytest.approx((0.5, 1.0))
    exact = (1 - 0.001 * gamma / (1 - gamma)) / (2 - gamma)
    assert excess(mdp, gamma).max() == pytest.approx(exact, abs=1e-9)
    assert exact > 0.5 + 1e-4
    assert excess(mdp, 0.9981).max() <= 0.5 + 1e-9


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.99, 0.996])
def test_steep_breaks_eq_5_up_to_300_over_301(gamma):
    mdp = counterexample("steep")
    assert tau_and_span(mdp) == pytest.approx((0.35, 0.7))
    exact = 1 - 0.001 * gamma / (1 - gamma)
    assert span(excess(mdp, gamma)) == pytest.approx(exact, abs=1e-9)
    assert exact > 2 * 0.35
    assert span(excess(mdp, 300 / 301 + 1e-5)) <= 2 * 0.35 + 1e-9


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99, 0.999])
def test_the_constants_are_the_best_at_every_gamma(gamma):
    """2 tau and 3 tau within the family of steep; span and twice the span within a neighbour."""
    steep, loss = counterexample("steep"), 1e-7
    rewards = np.array(steep.rewards)
    rewards[0, 0], rewards[1, 0], rewards[2, 1] = 2 / 3 + loss, 1 / 3 + loss / 2, 1 / 3 - loss
    mdp = TabularMDP(steep.dense, rewards)
    tau, _ = tau_and_span(mdp)
    x = excess(mdp, gamma)
    assert x.max() / tau == pytest.approx(2, abs=1e-3)
    assert -x.min() / tau == pytest.approx(1, abs=1e-6)
    assert span(x) / tau == pytest.approx(3, abs=1e-3)

    rewards[0] = 0.5, 1 - loss
    rewards[1, 0], rewards[2, 1] = 0.5, 0.5 - loss
    mdp = TabularMDP(steep.dense, rewards)
    _, height = tau_and_span(mdp)
    x = excess(mdp, gamma)
    assert x.max() / height == pytest.approx(1, abs=1e-3)
    assert -x.min() / height == pytest.approx(1, abs=1e-6)
    assert span(x) / height == pytest.approx(2, abs=1e-3)


def test_idle_has_an_average_optimal_policy_with_averaging_time_zero():
    mdp = counterexample("idle")
    gain, _ = gain_and_bias(mdp, [0, 0])
    assert gain == pytest.approx(solve_average(mdp).gain)
    assert float(reward_averaging_time(mdp, [0, 0])) == 0
    for gamma in (0.0, 0.9, 0.999):
        assert excess(mdp, gamma).max() == pytest.approx(0.5)
    assert tau_and_span(mdp) == pytest.approx((0.5, 0.5))
