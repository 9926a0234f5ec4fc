"""Is gamma large enough? Gaps, ties and sets of gammas that are not intervals."""

import numpy as np
import pytest

import cpsrl
from cpsrl.planning import evaluation

STAY, GO = 0, 1


def stay_or_cycle():
    """Stay for .5 in state 0, or go round states 0 to 3 for .45, 1, 0, 0."""
    transitions = np.zeros((4, 2, 4))
    for s in range(4):
        transitions[s, :, (s + 1) % 4] = 1
    transitions[0, STAY] = [1, 0, 0, 0]
    rewards = np.array([[0.5, 0.45], [1, 1], [0, 0], [0, 0]])
    return cpsrl.TabularMDP(transitions, rewards)


def test_the_gap_of_the_tsde_river_at_gamma_99():
    mdp = cpsrl.environment("riverswim", variant="tsde")
    short = cpsrl.planning_gap(mdp, 0.99)
    assert short.gap == pytest.approx(5 / 218, abs=1e-10)
    assert short.policy[0] == 0
    np.testing.assert_allclose(short.gain, 0.2, atol=1e-10)
    long = cpsrl.planning_gap(mdp, 0.999)
    assert long.gap == 0
    assert (long.policy == 1).all()


@pytest.mark.parametrize(("gamma", "short"), [(0.0, False), (0.5, True), (0.9, False)])
def test_the_sufficient_gammas_need_not_be_an_interval(gamma, short):
    gap = cpsrl.planning_gap(stay_or_cycle(), gamma)
    assert gap.gap == pytest.approx(0.5 - 1.45 / 4 if short else 0, abs=1e-12)
    assert gap.policy[0] == (GO if short else STAY)


def test_the_largest_insufficient_gamma_is_found_where_the_set_has_a_hole():
    # the cycle ties with staying where .45 + gamma = .5 (1 + gamma + gamma^2 + gamma^3)
    roots = np.roots([0.5, 0.5, -0.5, 0.05])
    crossings = sorted(float(x.real) for x in roots if abs(x.imag) < 1e-12 and 0 < x.real < 1)
    assert len(crossings) == 2
    found = cpsrl.planning.sufficient_gamma(stay_or_cycle())
    assert found.gamma == pytest.approx(crossings[1], abs=1e-9)


def test_of_tied_policies_the_one_with_the_larger_gain_counts():
    # at gamma = .5, 1 now and 0 ever after is worth as much as .5 for ever
    transitions = np.array([[[0, 1], [1, 0]], [[0, 1], [0, 1]]], dtype=float)
    mdp = cpsrl.TabularMDP(transitions, [[1.0, 0.5], [0.0, 0.0]])
    assert cpsrl.planning_gap(mdp, 0.5).gap == 0
    assert cpsrl.planning_gap(mdp, 0.5).policy[0] == 1
    assert cpsrl.planning_gap(mdp, 0.499).gap == pytest.approx(0.5)
    assert cpsrl.planning.sufficient_gamma(mdp).gamma == pytest.approx(0.5, abs=1e-9)


def test_the_gap_is_the_largest_over_states_of_a_multichain_model():
    # two rivers that never meet: only the second has a gap
    left, right = (cpsrl.environment("riverswim", variant=v) for v in ("osband", "tsde"))
    transitions = np.zeros((12, 2, 12))
    transitions[:6, :, :6], transitions[6:, :, 6:] = left.dense, right.dense
    mdp = cpsrl.TabularMDP(transitions, np.vstack([left.rewards, right.rewards]))
    assert cpsrl.planning_gap(mdp, 0.99).gap == pytest.approx(5 / 218, abs=1e-10)


def test_the_optimum_may_be_passed_in():
    mdp = cpsrl.environment("riverswim", variant="tsde")
    best = cpsrl.solve_average(mdp)
    assert cpsrl.planning_gap(mdp, 0.99, best).gap == cpsrl.planning_gap(mdp, 0.99).gap


def test_the_gap_of_a_policy_is_that_of_its_gain():
    mdp = cpsrl.environment("random", n_states=120, n_actions=3, concentration=2.0, seed=1)
    found = cpsrl.planning_gap(mdp, 0.2)
    gain = evaluation.gain_and_bias(mdp, found.policy)[0]
    np.testing.assert_allclose(found.gain, gain, atol=1e-10)
    assert found.gap == pytest.approx(float(np.max(cpsrl.solve_average(mdp).gain - gain)), abs=1e-9)
    assert found.gap > 0


def test_without_rewards_every_gamma_suffices():
    mdp = cpsrl.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    assert cpsrl.planning_gap(mdp, 0.3).gap == 0
    assert cpsrl.planning.sufficient_gamma(mdp).gamma == 0


def test_a_scan_whose_largest_gamma_falls_short_says_so():
    mdp = cpsrl.environment("riverswim", variant="tsde")
    assert np.isnan(cpsrl.planning.sufficient_gamma(mdp, largest=0.99).gamma)
