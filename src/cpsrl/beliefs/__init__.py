"""What is believed about an MDP, and drawn from: one file each, by name in a registry."""

from cpsrl.beliefs.belief import BATCH, BELIEFS, Belief, Inside, LiveBelief
from cpsrl.beliefs.dirichlet import Dirichlet
from cpsrl.beliefs.rewards import REWARDS, KnownRewards, NormalGamma
from cpsrl.beliefs.truncated import Truncated

__all__ = [
    "BATCH",
    "BELIEFS",
    "REWARDS",
    "Belief",
    "Dirichlet",
    "Inside",
    "KnownRewards",
    "LiveBelief",
    "NormalGamma",
    "Truncated",
]
