"""Machine replacement."""

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import check_room, checked_number, checked_whole

KEEP, REPLACE = 0, 1


def replacement(n_states: int = 10, wear: float = 0.3, replacement_cost: float = 1.0) -> TabularMDP:
    """A machine that wears out and earns less and less: keep it, or replace it by a new one.

    State i is the machine's condition, from 0, new and the start, to n - 1, worn out. 'keep' earns
    1 - i/(n - 1), and with probability `wear` the condition is one worse at the next step.
    'replace' takes one step, costs `replacement_cost`, and leads to a new machine. Derman (1963),
    "On optimal replacement rules when changes of state are Markovian".

    The optimal policy replaces from some condition j on, so the exact optimal gain is the largest,
    over j = 1..n - 1, of (sum over i < j of (1 - i/(n - 1)) / wear - cost) / (j/wear + 1), or 0,
    from never replacing, if that is larger. With the defaults that is 71/99, from j = 3.

    Args:
        n_states: how many conditions the machine can be in.
        wear: the probability that it becomes one worse in a step.
        replacement_cost: of a new machine.
    """
    n = checked_whole("n_states", n_states, 2)
    wear = checked_number("wear", wear, 0.0, 1.0)
    cost = checked_number("replacement_cost", replacement_cost, 0.0)
    check_room("the transitions", n, 2, n)
    condition = np.arange(n)
    transitions = np.zeros((n, 2, n))
    transitions[condition, KEEP, condition] = 1.0 - wear
    transitions[condition, KEEP, np.minimum(condition + 1, n - 1)] += wear
    transitions[:, REPLACE, 0] = 1.0
    rewards = np.empty((n, 2))
    rewards[:, KEEP] = 1.0 - condition / (n - 1)
    rewards[:, REPLACE] = -cost
    return TabularMDP(transitions, rewards, action_names=("keep", "replace"))
