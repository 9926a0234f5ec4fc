"""The search for MDPs on which V* and lambda / (1 - gamma) lie far apart."""

import numpy as np
import pytest

from cpsrl import TabularMDP
from cpsrl.paper.search import RATIOS, climb, random_mdp, ratios
from cpsrl.planning import classify


def test_ratios_of_two_states_that_alternate():
    """Rewards 1 and 0 in turn: lambda 1/2, h = +-1/4, tau = span = 1/2, V_0 = (1, 0)."""
    mdp = TabularMDP([[[0, 1]], [[1, 0]]], [[1.0], [0.0]])
    found = ratios(mdp, (0.0,))
    assert list(found) == list(RATIOS)
    assert found["upper/tau"] == pytest.approx((1.0, 0.0))
    assert found["range/2span"] == pytest.approx((1.0, 0.0))
    assert found["range/(span+tau)"] == pytest.approx((1.0, 0.0))
    assert found["tau/span"] == pytest.approx((1.0, 0.0))
    assert found["span/2tau"] == pytest.approx((0.5, 0.0))


def test_equal_rewards_are_left_out():
    assert ratios(TabularMDP(np.full((2, 1, 2), 0.5), [[0.3], [0.3]])) is None


def test_random_mdps_are_weakly_communicating_and_varied():
    rng = np.random.default_rng(0)
    mdps = [random_mdp(rng) for _ in range(60)]
    assert {classify(mdp).kind for mdp in mdps} == {"communicating", "weakly communicating"}
    assert len({mdp.rewards.shape for mdp in mdps}) > 5


def test_the_search_finds_counterexamples_by_itself():
    """Random MDPs break the upper side of Lemma 3.3, and climbing makes it worse; the rest hold."""
    rng = np.random.default_rng(1)
    worst = (0.0, None)
    for _ in range(400):
        mdp = random_mdp(rng)
        found = ratios(mdp)
        if found is None:
            continue
        worst = max(worst, (found["upper/tau"][0], mdp), key=lambda pair: pair[0])
        for name in set(RATIOS) - {"upper/tau", "range/2tau"}:
            assert found[name][0] <= 1 + 1e-7, name
    assert worst[0] > 1.01
    higher, value = climb(worst[1], "upper/tau", 60, rng)
    assert worst[0] < value <= 2 + 1e-7
    assert ratios(higher)["upper/tau"][0] == value
