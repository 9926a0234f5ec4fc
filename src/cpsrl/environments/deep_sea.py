"""DeepSea, going round: as a table, and as an environment for networks."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from cpsrl.environments.pure import Environment, Reference
from cpsrl.mdp import TabularMDP
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_number, checked_whole
from cpsrl.support.types import Ints

LEFT, RIGHT = 0, 1


def deep_sea(
    size: int = 10, move_cost: float = 0.01, slip: float = 0.0, mapping: int | None = None
) -> TabularMDP:
    """A diver sinks row by row; only by always steering right is the treasure at the bottom met.

    A triangle of `size` rows: in row i, the columns 0, ..., i; state i (i + 1)/2 + column. Every
    step sinks one row, and 'right' moves one column to the right, which costs `move_cost`/`size`
    and fails with probability `slip`; 'left' moves to the left for nothing. 'right' in the corner
    of the last row pays 1. The step after the last row begins again at the top: a round takes
    `size` steps. With a `mapping`, a seed, it is random in every state which action is 'right'.
    Osband et al. (2020), "Behaviour suite for reinforcement learning" (there with
    episodes, and with `slip` = 1/size where it is stochastic).

    A random policy meets the treasure once in 2^size rounds. Without slips the optimal gain is
    (1 - `move_cost`)/`size`, if that is above 0: .099 with the defaults.

    Args:
        size: the number of rows.
        move_cost: what a whole round to the right costs.
        slip: the probability that 'right' fails.
        mapping: the seed of which action is 'right' in which state; None for action 1
            everywhere.
    """
    size, cost, slip = _checked(size, move_cost, slip)
    row, column = np.tril_indices(size)
    n = len(row)
    entries, places = np.zeros((n, 2, 2)), np.zeros((n, 2, 2), np.int64)
    rewards = np.zeros((n, 2))
    flips = _flips(size, mapping)[row, column]
    for action in (LEFT, RIGHT):
        for slipped, chance in ((1, slip), (0, 1.0 - slip)):
            step = dive(row, column, action ^ flips, slipped, size, cost)
            rewards[:, action] = step[0]
            entries[:, action, 1 - slipped] = chance
            places[:, action, 1 - slipped] = cell(*step[1:])
    transitions = scipy.sparse.csr_array(
        (entries.ravel(), places.ravel(), np.arange(0, 4 * n + 1, 2)), shape=(2 * n, n)
    )
    return TabularMDP(
        transitions,
        rewards,
        state_names=[f"row {i}, column {j}" for i, j in zip(row, column, strict=True)],
        action_names=("left", "right") if mapping is None else ("0", "1"),
    )


def dive(
    row: Any, column: Any, right: Any, slipped: Any, size: int, cost: Any
) -> tuple[Any, Any, Any]:
    """Return the reward, the row and the column of one step: the rules of the game.

    `right` and `slipped` are 0 or 1. Numbers, NumPy's arrays or JAX's.
    """
    moves = right * (1 - slipped)
    moved = column + moves - (1 - moves) * (column > 0)
    sunk = 1 - (row == size - 1)
    met = (row == size - 1) & (column == size - 1)
    reward = right * (-cost / size + 1.0 * met) + 0.0
    return reward, (row + 1) * sunk, moved * sunk


def cell(row: Any, column: Any) -> Any:
    """Return the number of a place of the triangle."""
    return row * (row + 1) // 2 + column


@dataclass(frozen=True, eq=False)
class DeepSea(Environment):
    """DeepSea as the diver sees it: a vector of as many entries as there are places, one of them 1.

    Made by `pixel_deep_sea`.
    """

    flips: Any = field(repr=False)
    """`(size, size)` which action is 'right': 1 where it is action 0"""
    size: int = field(metadata={"static": True})
    move_cost: float
    slip: float

    n_actions, whole = 2, True

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """The number of places."""
        return self.size * (self.size + 1) // 2

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """From a move's cost to the treasure less that."""
        cost = self.move_cost / self.size
        return (-cost, 1.0 - cost)

    def initial(self, streams: Streams) -> Any:
        """Return the top."""
        return np.int32(0), np.int32(0)

    def draw(self, streams: Streams, n: int) -> Ints:
        """Return whether a move to the right fails, by the variate that decides it in the table."""
        return (streams.transition.random(n) < self.slip).astype(np.int64)

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Sink one row."""
        row, column = state
        right = action ^ self.flips[row, column]
        reward, *below = dive(row, column, right, noise, self.size, self.move_cost)
        return reward, tuple(below)

    def observation(self, state: Any) -> Any:
        """Return the place, one-hot."""
        import jax

        return jax.nn.one_hot(cell(*state), self.n_features)

    def reference(self) -> Reference:
        """Return the gain of the table."""
        from cpsrl.planning import solve_average

        gain = solve_average(deep_sea(self.size, self.move_cost, self.slip)).gain
        return Reference(float(gain[0]))


def pixel_deep_sea(
    size: int = 10, move_cost: float = 0.01, slip: float = 0.0, mapping: int | None = 0
) -> DeepSea:
    """DeepSea with a random action mapping for networks, which see the diver's place as a picture.

    The rules and the options are those of `deep-sea`, whose one-hot features are what is seen here.
    """
    size, cost, slip = _checked(size, move_cost, slip)
    return DeepSea(_flips(size, mapping).astype(np.int32), size, cost, slip)


pixel_deep_sea.handed_on = (deep_sea,)  # type: ignore[attr-defined]


def _checked(size: int, move_cost: float, slip: float) -> tuple[int, float, float]:
    return (
        checked_whole("size", size, 1),
        checked_number("move_cost", move_cost, 0.0),
        checked_number("slip", slip, 0.0, 1.0),
    )


def _flips(size: int, mapping: int | None) -> Ints:
    """Return `(size, size)` which action is 'right': 0 for action 1, 1 for action 0."""
    if mapping is None:
        return np.zeros((size, size), np.int64)
    rng = np.random.default_rng(checked_whole("mapping", mapping, most=None))
    return rng.integers(2, size=(size, size))
