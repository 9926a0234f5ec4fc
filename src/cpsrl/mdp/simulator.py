"""A tabular MDP as an environment that goes on for ever.

The environment takes one uniform variate a step through the inverse distribution function of the
next state, whatever the action, and, where rewards are noisy, one variate a step from the reward
stream. Two agents on one seed therefore meet the same noise.
"""

from typing import Any

import numpy as np

from cpsrl._compile import jit
from cpsrl.checks import checked_index
from cpsrl.seeding import Streams
from cpsrl.types import Floats, Ints

NO_NOISE, GAUSSIAN, BERNOULLI = 0, 1, 2


class Simulator:
    """An environment that goes on for ever: `state`, and `step(action) -> (reward, next_state)`."""

    def __init__(self, mdp: Any, streams: Streams) -> None:
        self.mdp = mdp
        self.streams = streams
        self.state = draw_initial(mdp, streams.transition)

    def step(self, action: int) -> tuple[float, int]:
        """Take `action` and return the realised reward and the next state."""
        mdp = self.mdp
        action = checked_index("action", action, mdp.n_actions)
        kind, deviation = mdp.noise_code
        reward = draw_reward(
            mdp.rewards[self.state, action],
            kind,
            deviation[self.state, action],
            self.streams.reward,
        )
        row = self.state * mdp.n_actions + action
        indptr, indices, cumulative = mdp.cdf
        u = self.streams.transition.random()
        self.state = int(draw_next(indptr, indices, cumulative, row, u))
        return float(reward), self.state


def draw_initial(mdp: Any, rng: np.random.Generator) -> int:
    """Return the initial state; a distribution over states takes one uniform from `rng`."""
    if isinstance(mdp.initial, int):
        return mdp.initial
    support = np.flatnonzero(mdp.initial)
    cumulative = np.cumsum(mdp.initial[support])
    place = int(np.searchsorted(cumulative, rng.random(), "right"))
    return int(support[min(place, len(support) - 1)])


@jit
def draw_next(indptr: Ints, indices: Ints, cumulative: Floats, row: int, u: float) -> int:
    """Return the next state of row s*A + a: the first whose cumulative probability exceeds u."""
    low, high = indptr[row], indptr[row + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return indices[low]


@jit
def draw_reward(mean: float, kind: int, deviation: float, rng: np.random.Generator) -> float:
    """Return a realised reward; takes one variate from `rng` where rewards are noisy."""
    if kind == GAUSSIAN:
        return mean + deviation * rng.standard_normal()
    if kind == BERNOULLI:
        return 1.0 if rng.random() < mean else 0.0
    return mean
