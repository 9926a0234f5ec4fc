"""A tabular MDP as an environment that goes on for ever.

The environment takes one uniform variate a step through the inverse distribution function of the
next state, whatever the action, and, where rewards are noisy, one variate a step from the reward
stream. Two agents on one seed therefore meet the same noise. Where rewards depend on the
transition, the noise is around the mean of the one that is made.
"""

from typing import Any, NamedTuple

import numpy as np

from cpsrl._private.compile import inlined
from cpsrl._private.variates import Words, standard_normal, uniform
from cpsrl.mdp.problem import unavailable
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_index
from cpsrl.support.types import Floats, Ints

NO_NOISE, GAUSSIAN, BERNOULLI = 0, 1, 2
PADDED, ONE = 4, np.uint64(1)


class Simulator:
    """An environment that goes on for ever: `state`, and `step(action) -> (reward, next_state)`."""

    def __init__(self, world: Any, streams: Streams) -> None:
        self.world, self.streams = world, streams
        self.mdp, self.taken = world.models[0], 0
        self.state = draw_initial(world, streams)

    def step(self, action: int) -> tuple[float, int]:
        """Take `action` and return the realised reward and the next state."""
        self.go_to(self.taken)
        mdp, state = self.mdp, self.state
        action = checked_index("action", action, mdp.n_actions)
        if mdp.available is not None and not mdp.available[state, action]:
            raise unavailable(
                mdp.state_names[state] if mdp.state_names else state,
                mdp.action_names[action] if mdp.action_names else action,
            )
        # `take_step`, which called from Python takes 5.8 us a step where this takes 3.0: it is
        # handed all arrays and both streams, also where rewards are not noisy.
        row, dynamics = state * mdp.n_actions + action, mdp.dynamics
        place = draw_place(dynamics.successors, row, self.streams.transition.random())
        reward = dynamics.rewards[row if mdp.transition_rewards is None else place]
        if dynamics.noise != NO_NOISE:
            with self.streams.words("reward") as (words,):
                reward = draw_reward(reward, dynamics.noise, dynamics.deviation[row], words)
        self.state = int(dynamics.successors.states[place])
        self.taken += 1
        return float(reward), self.state

    def stored(self) -> int:
        """Return the state as a run's state holds it."""
        return int(self.state)

    def restore(self, stored: int) -> None:
        """Go to the state that `stored` gave."""
        self.state = stored

    def go_to(self, taken: int) -> int | None:
        """Stand after so many steps: where the world changes, `mdp` is that of the next step.

        Returns how many steps it stays so; None: for ever.
        """
        self.taken = taken
        if self.mdp is self.world:
            return None
        place, left = self.world.after(taken)
        self.mdp = self.world.models[place]
        return left


def draw_initial(mdp: Any, streams: Streams) -> int:
    """Return the initial state; a distribution over states takes one uniform."""
    if isinstance(mdp.initial, int):
        return mdp.initial
    return int(drawn_states(mdp.initial, streams.transition.random()))


def drawn_states(distribution: Floats, uniforms: Any) -> Any:
    """Return the states that uniform variates, one or `(n,)`, draw of a distribution `(S,)`."""
    support = np.flatnonzero(distribution)
    places = np.searchsorted(np.cumsum(distribution[support]), uniforms, "right")
    return support[np.minimum(places, len(support) - 1)]


class Successors(NamedTuple):
    """The possible next states of every row s*A + a, for `draw_place`.

    Where no row has more than PADDED of them, all rows are padded to that width with probabilities
    that are never reached, and the next state is found by counting: a search takes turns that no
    processor can foresee.
    """

    width: int
    """PADDED, or 0 where rows are not padded"""
    start: Ints
    """`(S*A + 1,)` where each row begins"""
    states: Ints
    cumulative: Floats


def successors_of(indptr: Ints, indices: Ints, cumulative: Floats) -> Successors:
    """Return the successors whose rows begin at `indptr` `(S*A + 1,)`."""
    entries = entries_of_places(indptr)
    if entries is None:
        return Successors(0, indptr, indices, cumulative)
    before_last = np.arange(PADDED) < np.diff(indptr)[:, None] - 1
    levels = np.where(before_last, cumulative[entries], np.inf)
    start = np.arange(0, levels.size + 1, PADDED)
    return Successors(PADDED, start, indices[entries].ravel(), levels.ravel())


def entries_of_places(indptr: Ints) -> Ints | None:
    """Return the stored entry `(S*A, PADDED)` of every padded place; None if none are padded."""
    lengths = np.diff(indptr)
    if lengths.max() > PADDED:
        return None
    return indptr[:-1, None] + np.minimum(np.arange(PADDED), lengths[:, None] - 1)


class Dynamics(NamedTuple):
    """What a step of an environment is made of."""

    successors: Successors
    rewards: Floats
    """mean rewards: one a row, `(S*A,)`, or, where they depend on the transition, one a place"""
    noise: int
    """NO_NOISE, GAUSSIAN or BERNOULLI"""
    deviation: Floats
    """`(S*A,)`"""


@inlined
def take_step(
    dynamics: Dynamics, by_transition: bool, row: int, transition_words: Words, reward_words: Words
) -> tuple[float, int]:
    """Make the transition of row s*A + a; return the realised reward and the next state.

    `by_transition` is whether the mean reward depends on the transition.
    """
    place = draw_place(dynamics.successors, row, uniform(transition_words))
    reward = dynamics.rewards[np.uint64(place if by_transition else row)]
    if dynamics.noise != NO_NOISE:
        reward = draw_reward(reward, dynamics.noise, dynamics.deviation[row], reward_words)
    return reward, dynamics.successors.states[np.uint64(place)]


@inlined
def draw_place(successors: Successors, row: int, u: float) -> int:
    """Return the place of row s*A + a's next state: the first whose cumulative exceeds u."""
    cumulative = successors.cumulative
    if successors.width == PADDED:
        first = np.uint64(row) * np.uint64(PADDED)  # unsigned, as `_private.compile.inlined` says
        passed = np.uint64(u >= cumulative[first]) + np.uint64(u >= cumulative[first + ONE])
        passed += np.uint64(u >= cumulative[first + ONE + ONE])
        return int(np.int64(first + passed))
    low, high = successors.start[row], successors.start[row + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def draw_reward(mean: float, kind: int, deviation: float, words: Words) -> float:
    """Return a realised reward; takes one variate from the stream where rewards are noisy."""
    if kind == GAUSSIAN:
        return mean + deviation * standard_normal(words)
    if kind == BERNOULLI:
        return 1.0 if uniform(words) < mean else 0.0
    return mean
