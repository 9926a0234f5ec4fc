"""How much of its networks an agent still uses: the rank of the features, and dormant units.

Networks that learn for long may lose their plasticity. Of the last hidden layer's outputs
H (M, units) on the M observations that the replay got last, two signs of it:

- the rank is the least k whose singular values add up to 99% of all of them (Kumar et al. 2021);
- a unit is dormant if its mean |output| is at most 2.5% of the mean of all (Sokar et al. 2023).

Of an ensemble of networks both are means over its members.
"""

from typing import NamedTuple

import numpy as np

from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.networks.belief import LayeredBelief
from cpsrl.support.types import Floats

OBSERVATIONS, KEPT, DORMANT = 512, 0.99, 0.025


class Plasticity(NamedTuple):
    """What is used of the last hidden layer of an agent's networks."""

    units: int
    rank: float
    dormant: float
    """the share of its units"""


def plasticity(agent: ValueSamplingAgent) -> Plasticity | None:
    """Return what an agent uses of its networks; None before it has learned, or without layers."""
    belief = agent.spec.belief
    if not isinstance(belief, LayeredBelief) or not belief.hidden or not agent.held:
        return None
    from cpsrl.networks.layers import trunk

    last = (agent.learned - 1 - np.arange(min(agent.held, OBSERVATIONS))) % agent.spec.capacity
    x = agent.vectors(agent.replay["observation"][last])
    hidden = np.asarray(trunk(agent.learner.online, x, belief.torso, len(belief.hidden)))
    used = np.array([of_features(features) for features in hidden.astype(np.float64)])
    return Plasticity(hidden.shape[2], *map(float, used.mean(axis=0)))


def of_features(features: Floats) -> tuple[int, float]:
    """Return the rank of features `(M, units)`, and the share of units that are dormant."""
    values = np.linalg.svd(features, compute_uv=False)
    total, active = values.sum(), np.abs(features).mean(axis=0)
    rank = 1 + int(np.searchsorted(np.cumsum(values), KEPT * total)) if total else 0
    return rank, float((active <= DORMANT * active.mean()).mean())
