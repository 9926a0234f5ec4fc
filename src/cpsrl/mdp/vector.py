"""Many copies of one MDP, a step of all of them in one call of compiled code.

Every copy has streams of its own and takes from them what a `Simulator` takes, so that its
trajectory is that of the simulator on the same streams, bit for bit.
"""

from typing import Any

import numpy as np

from cpsrl._private.compile import jit
from cpsrl._private.variates import Words, uniform
from cpsrl.mdp.simulator import Dynamics, drawn_states, take_step
from cpsrl.seeding import NUMBER, first_words
from cpsrl.support.checks import checked_index
from cpsrl.support.types import Floats, Ints


@jit
def _step(
    dynamics: Dynamics,
    by_transition: bool,
    n_actions: int,
    states: Ints,
    actions: Ints,
    transition_words: Words,
    reward_words: Words,
    rewards: Floats,
) -> int:
    """Take a step of every copy and return -1; at an invalid action, only return its copy."""
    for i in range(len(states)):
        if not 0 <= actions[i] < n_actions:
            return i
    for i in range(len(states)):
        row, words = states[i] * n_actions + actions[i], (transition_words[i], reward_words[i])
        rewards[i], states[i] = take_step(dynamics, by_transition, row, words[0], words[1])
    return -1


@jit
def _uniforms(words: Words) -> Floats:
    drawn = np.empty(len(words))
    for i in range(len(words)):
        drawn[i] = uniform(words[i])
    return drawn


class Copies:
    """Copies of an MDP under way, copy i on the streams of run 0 of root `seeds[i]`.

    `states` `(copies,)` is where they stand.
    """

    def __init__(self, mdp: Any, seeds: list[int]) -> None:
        words = np.stack([first_words(seed, [0])[0] for seed in seeds])
        self.mdp = mdp
        self._transition = np.ascontiguousarray(words[:, NUMBER["transition"]])
        self._reward = np.ascontiguousarray(words[:, NUMBER["reward"]])
        self.restart()

    def restart(self) -> None:
        """Put every copy in an initial state; a distribution over states takes one uniform each."""
        if isinstance(self.mdp.initial, int):
            self.states = np.full(len(self._transition), self.mdp.initial)
        else:
            self.states = drawn_states(self.mdp.initial, _uniforms(self._transition))

    def step(self, actions: Ints) -> Floats:
        """Take an action `(copies,)` in each, and return the realised rewards `(copies,)`.

        Raises, and changes nothing, if an action is invalid.
        """
        mdp, rewards = self.mdp, np.empty(len(self.states))
        problem = (mdp.dynamics, mdp.transition_rewards is not None, mdp.n_actions)
        wrong = _step(*problem, self.states, actions, self._transition, self._reward, rewards)
        if wrong >= 0:
            checked_index(f"the action of copy {wrong}", actions[wrong], mdp.n_actions)
        return rewards
