import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average

MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
SIDES = {
    "up": ("left", "right"),
    "right": ("up", "down"),
    "down": ("left", "right"),
    "left": ("up", "down"),
}


def slowly(rows, columns, slip):
    """The model cell by cell, as its description says it."""
    transitions = np.zeros((rows * columns, 4, rows * columns))
    for r in range(rows):
        for c in range(columns):
            for a, name in enumerate(MOVES):
                for move, p in ((name, 1 - 2 * slip), *((side, slip) for side in SIDES[name])):
                    to_r, to_c = r + MOVES[move][0], c + MOVES[move][1]
                    if not (0 <= to_r < rows and 0 <= to_c < columns):
                        to_r, to_c = r, c
                    if (r, c) == (rows - 1, columns - 1):
                        to_r, to_c = 0, 0
                    transitions[r * columns + c, a, to_r * columns + to_c] += p
    return transitions


@pytest.mark.parametrize(
    ("rows", "columns", "slip"), [(3, 4, 0.1), (1, 5, 0.1), (5, 1, 0.2), (1, 1, 0.1), (2, 2, 0.5)]
)
def test_the_model_is_as_described(rows, columns, slip):
    mdp = environment("gridworld", rows=rows, columns=columns, slip=slip)
    assert mdp.is_sparse
    assert mdp.action_names == tuple(MOVES)
    np.testing.assert_allclose(mdp.dense, slowly(rows, columns, slip), atol=1e-15)
    assert (mdp.rewards[-1] == 1).all()
    assert mdp.rewards.sum() == 4


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (4, 3), (8, 8)])
def test_without_slips_the_gain_is_that_of_the_shortest_cycle(rows, columns):
    mdp = environment("gridworld", rows=rows, columns=columns, slip=0.0)
    np.testing.assert_allclose(solve_average(mdp).gain, 1 / (rows + columns - 1), atol=1e-10)


def test_with_slips_the_gain_is_one_over_the_shortest_expected_cycle():
    mdp = environment("gridworld", rows=4, columns=5)
    steps_to_goal = np.zeros(20)
    for _ in range(2_000):
        steps_to_goal = 1 + (mdp.dense @ steps_to_goal).min(axis=1)
        steps_to_goal[-1] = 0
    np.testing.assert_allclose(solve_average(mdp).gain, 1 / (1 + steps_to_goal[0]), atol=1e-10)


def test_a_hundred_thousand_states():
    mdp = environment("gridworld", rows=250, columns=400)
    assert mdp.n_states == 100_000
    assert mdp.csr.nnz <= 3 * 4 * mdp.n_states
    np.testing.assert_allclose(mdp.csr.sum(axis=1), 1, atol=1e-15)


def test_a_slip_of_more_than_a_half_is_refused():
    with pytest.raises(ValueError, match=r"slip must be a number in \[0, 0\.5\], not 0\.6"):
        environment("gridworld", slip=0.6)
