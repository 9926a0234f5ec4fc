"""RiverSwim, in the variants that carry its name (Strehl and Littman 2008)."""

from dataclasses import dataclass

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import check_room, checked_number, checked_whole, checked_word

LEFT, RIGHT = 0, 1
STRONGEST = 100.0


@dataclass(frozen=True)
class River:
    """What swimming right does at the start, in the middle and at the end, and the two rewards."""

    start: tuple[float, float]
    """Probabilities of staying and of moving up at the left end."""
    middle: tuple[float, float, float]
    """Probabilities of moving down, staying and moving up in between."""
    end: tuple[float, float]
    """Probabilities of moving down and of staying at the right end."""
    left_reward: float
    """Reward of 'left' in the leftmost state."""
    right_reward: float
    """Reward of 'right' in the rightmost state."""


VARIANTS = {
    "osband": River((0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6), 0.005, 1.0),
    "tsde": River((0.7, 0.3), (0.1, 0.6, 0.3), (0.7, 0.3), 0.2, 1.0),
    "statrl": River((0.4, 0.6), (0.05, 0.35, 0.6), (0.05, 0.95), 0.1, 0.99),
    "srl": River((0.6, 0.4), (0.05, 0.55, 0.4), (0.05, 0.95), 0.005, 1.0),
    "gym-riverswim": River((0.3, 0.7), (0.1, 0.6, 0.3), (0.1, 0.9), 0.005, 1.0),
}


def riverswim(n_states: int = 6, variant: str = "osband", current: float = 0.0) -> TabularMDP:
    """A chain against the current: a small reward at the near end, a large one at the far end.

    A swimmer starts in the leftmost of `n_states` states. 'left' always moves one state down (or
    stays, at the left end); 'right' moves up, stays or is carried down with the probabilities of
    the variant. 'left' in the leftmost state pays little, 'right' in the rightmost state much, all
    else nothing. From Strehl and Littman (2008), "An analysis of model-based interval estimation
    for Markov decision processes".

    A `current` other than 0 tilts what 'right' does: an outcome k states up becomes exp(-k current)
    times as likely, before its probabilities are made to sum to 1 again.

    Variants, with the optimal gain of six states:

    - `osband` (Osband, Russo and Van Roy 2013; Xu, Dong and Van Roy 2024): 7203/16805
    - `tsde` (Ouyang et al. 2017): 243/1090. The policy that is optimal for gamma = .99 swims left
      at the left end and gains only .2: gamma must exceed .993474 here.
    - `statrl` (the statisticalRL library): .9075003039. Its rewards are up to .99, and its range
      is declared as [0, 1].
    - `srl` (the SRL library): .8750033379
    - `gym-riverswim` (the gym-riverswim package): .6686320755

    Args:
        n_states: the length of the river.
        variant: whose probabilities and rewards.
        current: how much stronger the current is; 0 for the variant's.
    """
    n = checked_whole("n_states", n_states, 2)
    river = VARIANTS[checked_word("variant", variant, VARIANTS, "riverswim")]
    check_room("the transitions", n, 2, n)
    transitions = np.zeros((n, 2, n))
    transitions[np.arange(n), LEFT, np.maximum(np.arange(n) - 1, 0)] = 1.0
    transitions[0, RIGHT, [0, 1]] = river.start
    for s in range(1, n - 1):
        transitions[s, RIGHT, s - 1 : s + 2] = river.middle
    transitions[-1, RIGHT, [-2, -1]] = river.end
    if drift := checked_number("current", current, -STRONGEST, STRONGEST):
        there, reached = np.arange(n)[:, None], np.arange(n)[None, :]
        tilted = transitions[:, RIGHT] * np.exp(-drift * (reached - there).clip(-1, 1))
        transitions[:, RIGHT] = tilted / tilted.sum(axis=1, keepdims=True)
    rewards = np.zeros((n, 2))
    rewards[0, LEFT] = river.left_reward
    rewards[-1, RIGHT] = river.right_reward
    declared = (0.0, 1.0) if variant == "statrl" else None
    return TabularMDP(transitions, rewards, action_names=("left", "right"), reward_range=declared)
