"""Many copies of one MDP, a step of all of them in one call of compiled code.

Every copy has streams of its own and takes from them what a `Simulator` takes, so that its
trajectory is that of the simulator on the same streams, bit for bit.
"""

from typing import Any

import numpy as np

from cpsrl._compile import jit
from cpsrl.checks import checked_index
from cpsrl.mdp.files import check_steady
from cpsrl.mdp.simulator import NO_NOISE, Successors, draw_place, draw_reward
from cpsrl.seeding import NUMBER, first_words
from cpsrl.types import Floats, Ints
from cpsrl.variates import Words, uniform


@jit
def _step(
    successors: Successors,
    payments: Floats,
    by_place: bool,
    noise: int,
    deviations: Floats,
    states: Ints,
    actions: Ints,
    transition_words: Words,
    reward_words: Words,
    rewards: Floats,
) -> int:
    """Take a step of every copy and return -1; if an action is none, only return whose it is."""
    n_actions = deviations.shape[1]
    for i in range(len(states)):
        if not 0 <= actions[i] < n_actions:
            return i
    for i in range(len(states)):
        state, action = states[i], actions[i]
        row = state * n_actions + action
        place = draw_place(successors, row, uniform(transition_words[i]))
        reward = payments[place if by_place else row]
        if noise != NO_NOISE:
            reward = draw_reward(reward, noise, deviations[state, action], reward_words[i])
        rewards[i] = reward
        states[i] = successors.states[place]
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
        check_steady(mdp)
        words = np.stack([first_words(seed, [0])[0] for seed in seeds])
        self.mdp = mdp
        self._transition = np.ascontiguousarray(words[:, NUMBER["transition"]])
        self._reward = np.ascontiguousarray(words[:, NUMBER["reward"]])
        self.restart()

    def restart(self) -> None:
        """Put every copy in an initial state; a distribution over states takes one uniform each."""
        initial, n = self.mdp.initial, len(self._transition)
        if isinstance(initial, int):
            self.states = np.full(n, initial)
            return
        support = np.flatnonzero(initial)
        cumulative = np.cumsum(initial[support])
        places = np.searchsorted(cumulative, _uniforms(self._transition), "right")
        self.states = support[np.minimum(places, len(support) - 1)]

    def step(self, actions: Ints) -> Floats:
        """Take an action `(copies,)` in each, and return the realised rewards `(copies,)`.

        Raises, and changes nothing, if an action is none.
        """
        mdp, rewards = self.mdp, np.empty(len(self.states))
        noise, deviations = mdp.noise_code
        by_place = mdp.transition_rewards is not None
        how = (mdp.successors, mdp.payments, by_place, noise, deviations)
        wrong = _step(*how, self.states, actions, self._transition, self._reward, rewards)
        if wrong >= 0:
            checked_index(f"the action of copy {wrong}", actions[wrong], mdp.n_actions)
        return rewards
