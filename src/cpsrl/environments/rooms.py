"""Four rooms to be crossed again and again."""

from itertools import product

import numpy as np
import scipy

from cpsrl.environments.gridworld import ACTIONS, STEPS
from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import checked_number, checked_whole


def rooms(side: int = 3, slip: float = 1 / 3) -> TabularMDP:
    """Four rooms joined by doors, from the far corner of one to that of the opposite one.

    Four rooms of `side` x `side` cells, two by two, a wall between neighbours with a door in its
    middle. A move goes the way it should with probability 1 - `slip` and in each of the other
    directions with probability `slip`/3; a move into a wall stays. In the goal every action pays 1
    and leads to the start; all else pays 0. States are the cells, row by row, the start first and
    the goal last. After Sutton, Precup and Singh (1999), "Between MDPs and semi-MDPs", whose rooms
    also have 4 side^2 + 4 = 104 cells for `side` = 5.

    The optimal gain is 1 / (1 + D) with D the least expected number of steps from start to goal:
    1 / (4 side + 1) exactly for `slip` = 0.

    Args:
        side: of a room, in cells.
        slip: the probability that a move goes another way.
    """
    side = checked_whole("side", side, 1)
    slip = checked_number("slip", slip, 0.0, 1.0)
    middle = side // 2
    doors = {(i, side) for i in (middle, side + 1 + middle)}
    doors |= {(side, j) for j in (middle, side + 1 + middle)}
    square = product(range(2 * side + 1), repeat=2)
    cells = [cell for cell in square if side not in cell or cell in doors]
    number = {cell: s for s, cell in enumerate(cells)}
    n = len(cells)
    reached = np.array(
        [[number.get((i + down, j + right), s) for down, right in STEPS]
         for s, (i, j) in enumerate(cells)]
    )  # fmt: skip
    reached[-1] = 0
    chance = np.full((4, 4), slip / 3) + np.eye(4) * (1.0 - slip - slip / 3)
    data, columns = np.tile(chance.ravel(), n), np.repeat(reached, 4, axis=0).ravel()
    data[-16:] = np.tile([1.0, 0.0, 0.0, 0.0], 4)  # in the goal, whatever the move
    transitions = scipy.sparse.csr_array(
        (data, columns, np.arange(0, 16 * n + 1, 4)), shape=(4 * n, n)
    )
    rewards = np.zeros((n, 4))
    rewards[-1] = 1.0
    return TabularMDP(
        transitions,
        rewards,
        state_names=[f"row {i}, column {j}" for i, j in cells],
        action_names=ACTIONS,
    )
