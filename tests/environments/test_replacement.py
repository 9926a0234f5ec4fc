import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average


@pytest.mark.parametrize(
    ("n_states", "wear", "cost"), [(10, 0.3, 1.0), (10, 0.3, 0.0), (25, 1.0, 3.0), (4, 0.1, 100.0)]
)
def test_the_gain_is_that_of_the_best_condition_to_replace_at(n_states, wear, cost):
    earned = 1 - np.arange(n_states) / (n_states - 1)
    gains = [(earned[:j].sum() / wear - cost) / (j / wear + 1) for j in range(1, n_states)]
    mdp = environment("replacement", n_states=n_states, wear=wear, replacement_cost=cost)
    np.testing.assert_allclose(solve_average(mdp).gain, max([0.0, *gains]), atol=1e-10)


def test_the_documented_gain():
    best = solve_average(environment("replacement"))
    np.testing.assert_allclose(best.gain, 71 / 99, atol=1e-10)
    np.testing.assert_array_equal(best.policy, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1])


def test_rows_cover_every_condition():
    mdp = environment("replacement", n_states=3, wear=0.25)
    np.testing.assert_array_equal(mdp.dense[:, 0], [[0.75, 0.25, 0], [0, 0.75, 0.25], [0, 0, 1]])
    np.testing.assert_array_equal(mdp.dense[:, 1], [[1, 0, 0]] * 3)
    np.testing.assert_array_equal(mdp.rewards, [[1, -1], [0.5, -1], [0, -1]])


def test_a_wear_above_one_is_refused():
    with pytest.raises(ValueError, match=r"wear must be a number in \[0, 1\], not 2"):
        environment("replacement", wear=2)
