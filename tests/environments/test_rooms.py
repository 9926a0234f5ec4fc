import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average


@pytest.mark.parametrize("side", [1, 3, 5])
def test_there_are_four_rooms_and_four_doors(side):
    mdp = environment("rooms", side=side, slip=0.0)
    assert mdp.n_states == 4 * side**2 + 4
    ways = mdp.dense.any(axis=1) & ~np.eye(mdp.n_states, dtype=bool)
    ways[-1] = False  # from the goal it is back to the start
    # 2 side (side - 1) neighbours in each room, two beside each door, either way; two of the goal
    assert ways.sum() == 16 * side * (side - 1) + 16 - 2


@pytest.mark.parametrize("side", [1, 2, 3, 5])
def test_without_slips_the_gain_is_that_of_the_shortest_way(side):
    mdp = environment("rooms", side=side, slip=0.0)
    np.testing.assert_allclose(solve_average(mdp).gain, 1 / (4 * side + 1), atol=1e-12)


def test_slips_go_each_other_way_alike_and_walls_stop():
    mdp = environment("rooms", slip=0.3)
    door, corner, right = mdp.state_names.index("row 1, column 3"), 0, 1
    np.testing.assert_allclose(mdp.dense[door, right, door], 0.2)
    np.testing.assert_allclose(mdp.dense[door, right, door + 1], 0.7)
    np.testing.assert_allclose(mdp.dense[corner, right, corner], 0.2)
    np.testing.assert_array_equal(mdp.dense[-1, :, 0], 1.0)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match=r"slip must be a number in \[0, 1\], not 2"):
        environment("rooms", slip=2)
    with pytest.raises(ValueError, match="side must be a whole number of at least 1, not 0"):
        environment("rooms", side=0)
