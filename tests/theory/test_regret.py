"""The decomposition of appendix C on real runs."""

import numpy as np
import pytest

from cpsrl import ContinuingPSRL, environment, simulate, solve_average
from cpsrl.planning import discounted_value
from cpsrl.theory import decompose
from cpsrl.theory.regret import expected_regret

GAMMA = 0.95
RECORDS = {"trajectory": True, "resample_times": True, "discounted_regret": True}


@pytest.fixture(scope="module")
def river():
    return environment("riverswim")


@pytest.fixture(scope="module")
def runs(river):
    return simulate(ContinuingPSRL(gamma=GAMMA), river, 2000, 40, **RECORDS)


def test_the_parts_by_hand(river, runs):
    parts = decompose(runs, river, GAMMA)
    np.testing.assert_allclose(parts.averaging + parts.discounted + parts.chance, parts.regret)
    np.testing.assert_allclose(parts.discounted, runs.discounted_regret[:, -1])
    gain = solve_average(river).gain[0]
    best = discounted_value(river, np.ones(6, int), GAMMA)  # 'right' everywhere is optimal
    for row in range(3):
        path, times = runs.trajectory[row], runs.resample_times[row]
        assert parts.regret[row] == pytest.approx(2000 * gain - path["rewards"].sum())
        by_hand = sum(-best[path["states"][t - 1]] for t in times) + 2000 * gain
        assert parts.averaging[row] == pytest.approx(by_hand)


def test_chance_is_within_a_cut_pseudo_episode_of_zero_in_the_mean(river, runs):
    chance = decompose(runs, river, GAMMA).chance
    slack = 4 * chance.std() / len(chance) ** 0.5
    assert -slack < chance.mean() < GAMMA / (1 - GAMMA) + slack


def test_the_expected_regret_of_the_optimal_policy_is_its_two_ends(river):
    from cpsrl.agents import OptimalAgent

    runs = simulate(OptimalAgent(), river, 500, 10, trajectory=True)
    bias = solve_average(river).bias
    ends = [bias[path["states"][-1]] - bias[path["states"][0]] for path in runs.trajectory]
    np.testing.assert_allclose(expected_regret(runs, river), ends, atol=1e-8)


def test_the_expected_regret_has_the_mean_of_the_regret(river, runs):
    parts = decompose(runs, river, GAMMA)
    difference = parts.regret - parts.expected
    assert abs(difference.mean()) < 4 * difference.std() / len(difference) ** 0.5
    assert (parts.expected[:5] != parts.regret[:5]).all()


def test_missing_records_are_named(river):
    bare = simulate(ContinuingPSRL(gamma=GAMMA), river, 20, 1)
    with pytest.raises(ValueError, match="trajectory=True, resample_times=True"):
        decompose(bare, river, GAMMA)
    with pytest.raises(ValueError, match="trajectory=True"):
        expected_regret(bare, river)
    first = simulate(ContinuingPSRL(gamma=GAMMA), river, 20, 1, **RECORDS)
    later = simulate(ContinuingPSRL(gamma=GAMMA), river, 20, 1, resume=first.state, **RECORDS)
    with pytest.raises(ValueError, match="from step 1 on"):
        decompose(later, river, GAMMA)


def test_a_world_that_changes_has_no_expected_regret():
    world = environment("changing", every=10)
    runs = simulate(ContinuingPSRL(gamma=GAMMA), world, 20, 1, trajectory=True)
    with pytest.raises(ValueError, match="plan for its models one by one"):
        expected_regret(runs, world)
