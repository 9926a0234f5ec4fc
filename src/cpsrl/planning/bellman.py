"""The textbook's verbs: a Bellman step and the greedy policy.

    T v = max over a of r_a + gamma P_a v,        greedy: an action that attains it.

The value of a policy is `evaluation.discounted_value`, or `gain_and_bias` for the average reward.
`sweeps` takes the same steps with bounds, and without a look at every action.
"""

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.mdp import TabularMDP
from cpsrl.planning.arguments import checks_arguments
from cpsrl.support.types import Floats, Ints


@checks_arguments
def bellman_operator(mdp: TabularMDP, value: ArrayLike, gamma: float) -> Floats:
    """Return T v `(S,)` of a `value` v `(S,)`."""
    return np.asarray(_action_values(mdp, value, gamma).max(axis=1))


@checks_arguments
def greedy_policy(mdp: TabularMDP, value: ArrayLike, gamma: float) -> Ints:
    """Return the policy `(S,)` that is greedy for a `value` `(S,)`, first actions among equals."""
    return mdp.allowed(_action_values(mdp, value, gamma).argmax(axis=1))


def _action_values(mdp: TabularMDP, value: ArrayLike, gamma: float) -> Floats:
    ahead = mdp.csr @ np.asarray(value) if mdp.prefers_sparse else mdp.dense @ np.asarray(value)
    return np.asarray(mdp.rewards + gamma * ahead.reshape(mdp.rewards.shape))
