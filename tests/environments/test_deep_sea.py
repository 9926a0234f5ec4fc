import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average


def dive(actions, size, cost):
    """One round from the rules, in plain Python: a matrix of cells, episode's total."""
    row = column = 0
    total = 0.0
    while row < size:
        right = actions[row]
        if right:
            total += (column == size - 1) - cost / size
        column = min(column + 1, size - 1) if right else max(column - 1, 0)
        row += 1
    return total


@pytest.mark.parametrize("size", [1, 2, 7])
def test_every_round_pays_what_the_rules_say(size):
    mdp, rng = environment("deep-sea", size=size, move_cost=0.1), np.random.default_rng(size)
    for _ in range(50):
        actions, state, total = rng.integers(2, size=size), mdp.initial, 0.0
        actions = np.ones(size, int) if rng.random() < 0.2 else actions
        for action in actions:
            total += mdp.rewards[state, action]
            (state,) = np.flatnonzero(mdp.dense[state, action])
        assert state == 0
        assert total == pytest.approx(dive(actions, size, 0.1))


@pytest.mark.parametrize(("size", "cost"), [(10, 0.01), (4, 0.5), (3, 2.0)])
def test_the_documented_gain(size, cost):
    mdp = environment("deep-sea", size=size, move_cost=cost)
    expected = max(0.0, (1 - cost) / size)
    np.testing.assert_allclose(solve_average(mdp).gain, expected, atol=1e-12)


def test_with_slips_the_gain_is_that_of_a_backward_recursion():
    size, cost, slip = 6, 0.01, 0.2
    value = np.zeros(size + 1)
    for row in reversed(range(size)):
        new = np.zeros(size + 1)
        for column in range(row + 1):
            left = value[max(column - 1, 0)]
            pays = float(row == column == size - 1) - cost / size
            right = pays + (1 - slip) * value[column + 1] + slip * left
            new[column] = max(left, right)
        value = new
    mdp = environment("deep-sea", size=size, slip=slip)
    np.testing.assert_allclose(solve_average(mdp).gain, value[0] / size, atol=1e-12)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="size must be a whole number of at least 1, not 0"):
        environment("deep-sea", size=0)
