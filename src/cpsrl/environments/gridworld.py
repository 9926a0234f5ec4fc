"""A grid to be crossed again and again, sparse and large."""

from typing import Any

import numpy as np
import scipy

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import check_room, checked_number, checked_whole

ACTIONS = ("up", "right", "down", "left")
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


def gridworld(rows: int = 10, columns: int = 10, slip: float = 0.1) -> TabularMDP:
    """A grid crossed from corner to corner for ever, with slips to each side; sparse.

    State `row * columns + column`; the start is state 0, the goal the opposite corner. A move goes
    the way it should with probability 1 - 2 `slip` and to each side with probability `slip`; a
    move into the wall stays. In the goal every action pays 1 and leads to the start; all else pays
    0. So the optimal gain is 1 / (1 + D) with D the least expected number of steps from start to
    goal: 1 / (rows + columns - 1) exactly for `slip` = 0.
    The slips are those of Russell and Norvig's grid (Artificial Intelligence, 1995, section on
    sequential decision problems), the return to the start makes it continuing.

    Args:
        rows: of the grid.
        columns: of the grid.
        slip: the probability of a slip to each side.
    """
    slip = checked_number("slip", slip, 0.0, 0.5)
    outcomes = grid_outcomes(rows, columns)
    n = len(outcomes)
    data = np.tile([1.0 - 2.0 * slip, slip, slip], 4 * n)
    indptr = np.arange(0, 12 * n + 1, 3)
    transitions = scipy.sparse.csr_array((data, outcomes.ravel(), indptr), shape=(4 * n, n))
    transitions.sum_duplicates()
    transitions.eliminate_zeros()
    rewards = np.zeros((n, 4))
    rewards[-1] = 1.0
    return TabularMDP(transitions, rewards, action_names=ACTIONS)


def grid_outcomes(rows: int = 10, columns: int = 10) -> Any:
    """Return where moves on a grid lead, `(S, 4, 3)`: the way they should, or to either side."""
    rows, columns = checked_whole("rows", rows, 1), checked_whole("columns", columns, 1)
    n = checked_whole("rows times columns", rows * columns, most=2**31 - 1)
    check_room("the transitions", n, 4, 6)
    row, column = np.divmod(np.arange(n, dtype=np.int32), np.int32(columns))
    reached = np.empty((n, 4), dtype=np.int32)
    for move, (down, right) in enumerate(STEPS):
        inside = np.clip(row + down, 0, rows - 1) * columns
        reached[:, move] = inside + np.clip(column + right, 0, columns - 1)
    reached[-1] = 0
    sides = np.array([[a, (a - 1) % 4, (a + 1) % 4] for a in range(4)])
    return reached[:, sides]
