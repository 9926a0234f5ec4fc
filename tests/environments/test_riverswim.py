from fractions import Fraction

import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.environments.riverswim import VARIANTS
from cpsrl.planning import solve_average

GAINS = {
    "osband": 7203 / 16805,
    "tsde": 243 / 1090,
    "statrl": 0.9075003039,
    "srl": 0.8750033379,
    "gym-riverswim": 0.6686320755,
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_optimal_gain_of_every_variant(variant):
    mdp = environment("riverswim", variant=variant)
    np.testing.assert_allclose(solve_average(mdp).gain, GAINS[variant], atol=1e-10, rtol=0)


@pytest.mark.parametrize("n_states", [2, 3, 6, 20])
@pytest.mark.parametrize("variant", VARIANTS)
def test_swimming_right_gains_what_the_birth_death_chain_says(variant, n_states):
    river = VARIANTS[variant]
    exact = [[Fraction(str(p)) for p in part] for part in (river.start, river.middle, river.end)]
    (_, first_up), (down, _, up), (last_down, _) = exact
    weights = [Fraction(1)]
    for s in range(n_states - 1):
        rate_up = first_up if s == 0 else up
        rate_down = last_down if s + 1 == n_states - 1 else down
        weights.append(weights[-1] * rate_up / rate_down)
    stationary = np.array([float(w / sum(weights)) for w in weights])
    mdp = environment("riverswim", n_states=n_states, variant=variant)
    np.testing.assert_allclose(stationary @ mdp.dense[:, 1], stationary, atol=1e-15)
    np.testing.assert_allclose(
        stationary @ mdp.rewards[:, 1], stationary[-1] * river.right_reward, rtol=1e-15
    )


def test_left_always_succeeds_and_pays_at_the_left_end_only():
    mdp = environment("riverswim", n_states=5)
    for s in range(5):
        assert mdp.dense[s, 0, max(s - 1, 0)] == 1
    assert mdp.rewards[0, 0] == 0.005
    assert np.count_nonzero(mdp.rewards) == 2
    assert mdp.initial == 0


def test_a_wrong_variant_gets_the_nearest():
    with pytest.raises(ValueError, match=r"unknown variant 'osbnd'.*'osband'"):
        environment("riverswim", variant="osbnd")


@pytest.mark.parametrize("n_states", [1, 0, -3, 2.5, True, "six"])
def test_a_wrong_length_is_refused(n_states):
    with pytest.raises(ValueError, match="n_states must be a whole number of at least 2"):
        environment("riverswim", n_states=n_states)
