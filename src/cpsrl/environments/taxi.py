"""Taxi, fare after fare."""

from itertools import product

import numpy as np
import scipy

from cpsrl.mdp import TabularMDP

SIDE = 5
LANDMARKS = {"R": (0, 0), "G": (0, 4), "Y": (4, 0), "B": (4, 3)}
WALLS = {(0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2)}
"""The cells with a wall to their east."""
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))
ACTIONS = ("south", "north", "east", "west", "pick up", "drop off")
PICK_UP, DROP_OFF = 4, 5
INSIDE = "taxi"


def taxi() -> TabularMDP:
    """A taxi in a small town: fetch a passenger, bring it to where it wants to go, and so on.

    Dietterich (2000), "Hierarchical reinforcement learning with the MAXQ value function
    decomposition", in the form of Gymnasium's Taxi. A 5 x 5 grid with walls and four landmarks. A
    passenger waits at one of them and wants to go to another. A step costs 1, to pick up or drop
    off where that can't be done costs 10, and to drop off at the destination pays 20; at another
    landmark, the passenger waits there from then on. After a ride, within the same step, the next
    fare begins anywhere: taxi, passenger and destination are uniformly random, the passenger not
    at its destination. That is also the start.

    400 states: cells times destinations times the places of a passenger that has not arrived. The
    optimal gain is .606732976282.
    """
    cells = list(product(range(SIDE), range(SIDE)))
    places = (*LANDMARKS, INSIDE)
    states = [s for s in product(cells, places, LANDMARKS) if s[1] != s[2]]
    number = {state: s for s, state in enumerate(states)}
    fares = np.array([s for s, (_, place, _) in enumerate(states) if place != INSIDE])
    n = len(states)
    rows, columns, chances = [], [], []
    rewards = np.full((n, 6), -1.0)
    for s, (cell, place, destination) in enumerate(states):
        here = next((name for name, spot in LANDMARKS.items() if spot == cell), None)
        for action in range(6):
            after = (cell, place, destination)
            if action < PICK_UP:
                after = (_moved(cell, action), place, destination)
            elif action == PICK_UP and place == here:
                after = (cell, INSIDE, destination)
            elif action == DROP_OFF and place == INSIDE and here is not None:
                after = (cell, here, destination)
            else:
                rewards[s, action] = -10.0
            if after in number:
                reached = np.array([number[after]])
            else:
                rewards[s, action] = 20.0
                reached = fares
            rows.append(np.full(len(reached), s * 6 + action))
            columns.append(reached)
            chances.append(np.full(len(reached), 1.0 / len(reached)))
    entries = (np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns)))
    initial = np.zeros(n)
    initial[fares] = 1.0 / len(fares)
    return TabularMDP(
        scipy.sparse.csr_array(entries, shape=(6 * n, n)),
        rewards,
        initial=initial,
        state_names=[f"at {i} {j}, passenger {p}, to {d}" for (i, j), p, d in states],
        action_names=ACTIONS,
    )


def _moved(cell: tuple[int, int], action: int) -> tuple[int, int]:
    """Return the cell that a move leads to: the same one at a wall."""
    down, right = MOVES[action]
    i, j = cell[0] + down, cell[1] + right
    if not (0 <= i < SIDE and 0 <= j < SIDE) or (right and (i, min(j, cell[1])) in WALLS):
        return cell
    return i, j
