"""FrozenLake, going round."""

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import checked_number, checked_word

LAKES = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": (
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
    ),
}
"""Start, frozen, hole, goal, as Gymnasium draws them."""
ACTIONS = ("left", "down", "right", "up")
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))


def frozen_lake(lake: str = "4x4", slip: float = 2 / 3) -> TabularMDP:
    """A walk over slippery ice to a goal that pays 1, from the start again after goal or hole.

    A move goes the way it should with probability 1 - `slip`, and to each side with probability
    `slip`/2; a move off the lake stays. To step onto the goal pays 1, and that step, like one into
    a hole, ends at the start: a reset costs no step. (Where one move may lead to both, in one cell
    of "8x8", the step to the start pays the mean.) The states are the cells on which one can
    stand, row by row. After FrozenLake of OpenAI Gym (Brockman et al. 2016), now of Gymnasium,
    without its time limit.

    The optimal gain is .017973856209 for "4x4" and .010614143812 for "8x8".

    Args:
        lake: "4x4" or "8x8".
        slip: the probability that a move goes to a side.
    """
    cells = LAKES[checked_word("lake", lake, LAKES, "frozen-lake")]
    slip = checked_number("slip", slip, 0.0, 1.0)
    size = len(cells)
    stands = [(i, j) for i in range(size) for j in range(size) if cells[i][j] in "SF"]
    number = {place: s for s, place in enumerate(stands)}
    n = len(stands)
    transitions, earned = np.zeros((n, 4, n)), np.zeros((n, 4, n))
    for s, (i, j) in enumerate(stands):
        for action in range(4):
            for turn, chance in ((0, 1.0 - slip), (1, slip / 2), (3, slip / 2)):
                down, right = MOVES[(action + turn) % 4]
                there = (min(max(i + down, 0), size - 1), min(max(j + right, 0), size - 1))
                place = (s, action, number.get(there, 0))
                transitions[place] += chance
                earned[place] += chance * (cells[there[0]][there[1]] == "G")
    return TabularMDP(
        transitions,
        np.divide(earned, transitions, out=np.zeros_like(earned), where=transitions > 0),
        reward_range=(0.0, 1.0),
        state_names=[f"row {i}, column {j}" for i, j in stands],
        action_names=ACTIONS,
    )
