"""Catch and windy Catch, a paddle under falling balls: as tables, and for networks on any board."""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import scipy

from cpsrl.environments.pure import UPPER, Environment, Reference
from cpsrl.mdp import TabularMDP
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_number, checked_whole
from cpsrl.support.types import Ints

ACTIONS = ("left", "stay", "right")
WINDS = (0, -1, 1)
MOST_CELLS, ACCURACY = 10_000_000, 1e-7
"""Boards with so many cells after a fall are solved for their gain, to within so much."""


def catch(rows: int = 3, columns: int = 3, new_ball: float = 0.1) -> TabularMDP:
    """Balls fall into a paddle's reach, several at a time: catch them.

    A board of `rows` x `columns`; the paddle is in the last row. In a step the paddle moves one
    column to the left, stays, or moves to the right, and every ball falls one row. A ball that
    arrives in the last row pays 1 if the paddle is there, else -1, and is gone. Then, with
    probability `new_ball`, a ball appears in the first row, in a uniformly random column. Starts
    without a ball, the paddle in the middle. After Catch of csuite (DeepMind 2022),
    where the board has 10 rows and 5 columns.

    State: the paddle's column, and for every row but the last its ball's column, if it has one.
    With the defaults there are 48 states and the optimal gain is 89/930: a ball is missed only
    where it comes at one side right after one at the other.

    Args:
        rows: of the board.
        columns: of the board.
        new_ball: the probability that a ball appears in a step.
    """
    return _catch(rows, columns, new_ball, None)


def windy_catch(
    rows: int = 3, columns: int = 3, new_ball: float = 0.1, change: float = 0.1
) -> TabularMDP:
    """Catch in a wind that is seen, lasts for a while, and blows the falling balls aside.

    `catch`, and a wind: none, to the left or to the right. In a step every ball falls one row and
    is blown one column aside by the wind; off the board it comes in again at the other side. Then,
    with probability `change`, the wind becomes one of the three, uniformly. Starts without wind.
    After WindyCatch of csuite (DeepMind 2022), where the wind changes after a fixed
    number of steps. With the defaults there are 144 states, and since the wind is seen and the
    board small the optimal gain is that of `catch`, 89/930; with 4 columns it is .0880213733.

    Args:
        rows: of the board.
        columns: of the board.
        new_ball: the probability that a ball appears in a step.
        change: the probability that the wind is drawn anew in a step.
    """
    return _catch(rows, columns, new_ball, checked_number("change", change, 0.0, 1.0))


def _catch(rows: int, columns: int, new_ball: float, change: float | None) -> TabularMDP:
    """Return the model; without `change` there is no wind."""
    rows, columns, new_ball, change = _checked(rows, columns, new_ball, change)
    winds, above = _winds(change), range(-1, columns)  # -1: a row without a ball
    states = list(product(winds, range(columns), *[above] * (rows - 1)))
    sizes = (len(winds), columns, *[columns + 1] * (rows - 1))
    wind, paddle, *balls = np.array(states).T
    chances, rows_of = _chances(columns, new_ball, change), 3 * np.arange(len(states))
    rewards, entries = np.zeros((len(states), 3)), []
    for action in range(3):
        rewards[:, action], moved, fallen = fall(wind, paddle, np.array(balls), action, columns)
        for later, ball in chances[0]:
            likely = [chances[now][later, ball] for now in winds]
            place = (winds.index(later), moved, ball + 1, *(fallen[:-1] + 1))
            after = np.ravel_multi_index(np.broadcast_arrays(*place), sizes)
            each = np.repeat(likely, len(states) // len(winds))  # winds come first
            entries.append((each, rows_of + action, after))
    chance, row, after = (np.concatenate(part) for part in zip(*entries, strict=True))
    start = (0, columns // 2, *[0] * (rows - 1))
    return TabularMDP(
        scipy.sparse.csr_array((chance, (row, after)), shape=(3 * len(states), len(states))),
        rewards,
        initial=int(np.ravel_multi_index(start, sizes)),
        state_names=[_named(columns, *state) for state in states],
        action_names=ACTIONS,
    )


def _named(columns: int, wind: int, paddle: int, *balls: int) -> str:
    """Return a state as the rows of its board, such as "./..o/.../_=_"."""
    board = ["".join("o" if j == ball else "." for j in range(columns)) for ball in balls]
    board.append("".join("=" if j == paddle else "_" for j in range(columns)))
    return "/".join(board) + {0: "", -1: " <", 1: " >"}[wind]


def fall(wind: Any, paddle: Any, balls: Any, action: Any, columns: int) -> tuple[Any, Any, Any]:
    """Return the reward, the paddle's column and the balls one row lower: the rules of the game.

    `balls` are the columns of the balls in the rows above the paddle's, `(rows - 1,)`, or -1; those
    returned are in the rows below these. Numbers of NumPy or of JAX.
    """
    moved = (paddle + action - 1).clip(0, columns - 1)
    fallen = (balls >= 0) * ((balls + wind) % columns + 1) - 1
    landed = fallen[-1]
    reward = (landed >= 0) * (2.0 * (landed == moved) - 1.0) + 0.0
    return reward, moved, fallen


def _checked(
    rows: int, columns: int, new_ball: float, change: float | None
) -> tuple[int, int, float, float | None]:
    return (
        checked_whole("rows", rows, 2),
        checked_whole("columns", columns, 1),
        checked_number("new_ball", new_ball, 0.0, 1.0),
        change,
    )


def _winds(change: float | None) -> tuple[int, ...]:
    return WINDS[:1] if change is None else WINDS


def _chances(
    columns: int, new_ball: float, change: float | None
) -> dict[int, dict[tuple[int, int], float]]:
    """Return by the wind, and by the next wind and the new ball's column or -1, how likely it is.

    They stand in the order of the table's states.
    """
    births = [(-1, 1.0 - new_ball), *((j, new_ball / columns) for j in range(columns))]
    winds, change = _winds(change), change or 0.0
    return {
        wind: {
            (later, ball): chance * (change / len(winds) + (later == wind) * (1.0 - change))
            for later in winds
            for ball, chance in births
        }
        for wind in winds
    }


@dataclass(frozen=True)
class Catch(Environment):
    """Catch on a board of any size, seen as a picture; made by `pixel_catch`, `pixel_windy_catch`.

    State: the wind, the paddle's column, and the balls' columns in the rows above, -1 for none.
    Observation: the board row by row, 1 where a ball or the paddle is, and the wind one-hot, if
    there is one.
    """

    rows: int = field(metadata={"static": True})
    columns: int = field(metadata={"static": True})
    new_ball: float
    change: float | None = None

    n_actions, reward_range, whole = 3, (-1.0, 1.0), True

    @property
    def picture(self) -> tuple[int, int, int] | None:  # type: ignore[override]
        """The board, where there is no wind beside it."""
        return (self.rows, self.columns, 1) if self.change is None else None

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """The places of the board, and the winds."""
        return self.rows * self.columns + (0 if self.change is None else len(WINDS))

    def initial(self, streams: Streams) -> Any:
        """Return the board without a ball, the paddle in the middle, and no wind."""
        return np.int32(0), np.int32(self.columns // 2), np.full(self.rows - 1, -1, np.int32)

    def draw(self, streams: Streams, n: int) -> Ints:
        """Return the next wind and the new ball's column or -1, `(n, W, 2)` by the wind modulo W.

        One variate decides all, as it does in the table.
        """
        uniform, found = streams.transition.random(n), []
        chances = _chances(self.columns, self.new_ball, self.change)
        for wind in sorted(chances, key=lambda wind: wind % len(chances)):
            cumulative = np.cumsum(list(chances[wind].values()))[:-1]
            outcomes = np.array(list(chances[wind]))
            found.append(outcomes[np.searchsorted(cumulative, uniform, "right")])
        return np.stack(found, axis=1)

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Move, let fall, and let chance add a ball and turn the wind."""
        import jax.numpy as jnp

        wind, paddle, balls = state
        reward, moved, fallen = fall(wind, paddle, balls, action, self.columns)
        later, ball = noise[wind % noise.shape[0]]
        return reward, (later, moved, jnp.concatenate([ball[None], fallen[:-1]]))

    def observation(self, state: Any) -> Any:
        """Return the picture."""
        import jax
        import jax.numpy as jnp

        wind, paddle, balls = state
        board = jax.nn.one_hot(jnp.append(balls, paddle), self.columns).ravel()
        if self.change is None:
            return board
        return jnp.concatenate([board, jax.nn.one_hot(wind + 1, len(WINDS))])

    def reference(self) -> Reference:
        """Return the gain, or bounds of it where the board has more than MOST_CELLS.

        A board with fewer rows shows less of the same balls, so its gain is no larger; and no ball
        pays more than 1.
        """
        cells, rows = len(_winds(self.change)) * self.columns, 3
        while rows < self.rows and cells * (self.columns + 1) ** (rows - 1) <= MOST_CELLS:
            rows += 1
        low, high = gain_bounds(rows, self.columns, self.new_ball, self.change)
        if rows >= self.rows:
            return Reference((low + high) / 2)
        return Reference(self.new_ball, UPPER, "no ball pays more than 1", low)


@lru_cache
def gain_bounds(
    rows: int, columns: int, new_ball: float, change: float | None
) -> tuple[float, float]:
    """Return bounds of the optimal gain of a board, at most ACCURACY apart, without a table.

    After a fall and before chance has its turn, a state is the wind, the paddle's column m and the
    balls c_1, ..., c_k in the rows 2, ..., k + 1 of k + 2. With the next wind w and the new ball b,

        (T h)(m, c) = E_(w, b) max_m' [r(c_k, m') + h(w, m', b, c_1, ..., c_(k - 1))] ,

    m' a neighbour of m, balls blown by w. For any h the least and the largest entry of T h - h are
    bounds of the gain (Puterman 1994, theorem 8.5.5). Boards are solved from three rows upwards,
    each beginning where the last ended, as if its first row were not seen; of two rows, by their
    table.
    """
    if rows == 2:
        from cpsrl.planning import solve_average

        best = solve_average(_catch(rows, columns, new_ball, change))
        return float(best.gain[0] - best.error), float(best.gain[0] + best.error)
    winds, chances = _winds(change), _chances(columns, new_ball, change)
    balls = np.arange(-1, columns)
    pay = (balls >= 0) * (2.0 * (balls == np.arange(columns)[:, None]) - 1.0)
    h = np.zeros((len(winds), columns))
    for k in range(1, rows - 1):
        h, spread = np.repeat(h[:, :, None], columns + 1, axis=2), np.inf
        while spread > ACCURACY:
            after = np.zeros_like(h)
            for i, wind in enumerate(winds):
                blown = (balls >= 0) * ((balls + wind) % columns + 1)  # the places of -1, 0, ...
                paid = pay[:, blown].reshape(columns, *(1,) * (k - 1), columns + 1)
                value = h[i]
                for axis in range(1, k + 1) if wind else ():
                    value = value.take(blown, axis)
                for ball in range(-1, columns):
                    stay = value[:, ball + 1, ..., None] + paid
                    best = stay.copy()
                    np.maximum(best[1:], stay[:-1], out=best[1:])
                    np.maximum(best[:-1], stay[1:], out=best[:-1])
                    for j, before in enumerate(winds):
                        after[j] += chances[before][wind, ball] * best
            gained = after - h
            low, high = float(gained.min()), float(gained.max())
            h, spread = after - after.flat[0], high - low
    return low, high


def pixel_catch(rows: int = 10, columns: int = 5, new_ball: float = 0.1) -> Catch:
    """Catch for networks, which see the board as a picture: of any size, with many balls at a time.

    The rules are those of `catch`; the board is by default that of csuite (DeepMind 2022).

    Args:
        rows: of the board.
        columns: of the board.
        new_ball: the probability that a ball appears in a step.
    """
    return Catch(*_checked(rows, columns, new_ball, None))


def pixel_windy_catch(
    rows: int = 10, columns: int = 5, new_ball: float = 0.1, change: float = 0.1
) -> Catch:
    """Catch for networks in a wind that is seen, lasts for a while, and blows the balls aside.

    The rules are those of `windy-catch`.

    Args:
        rows: of the board.
        columns: of the board.
        new_ball: the probability that a ball appears in a step.
        change: the probability that the wind is drawn anew in a step.
    """
    return Catch(*_checked(rows, columns, new_ball, checked_number("change", change, 0.0, 1.0)))
