"""What is believed about an MDP, and drawn from: one file each, by name in a registry."""

from cpsrl.beliefs.belief import BATCH, BELIEFS, Belief, Inside, LiveBelief
from cpsrl.beliefs.dirichlet import Dirichlet
from cpsrl.beliefs.families import FAMILIES
from cpsrl.beliefs.forgetting import Forgetting
from cpsrl.beliefs.parametric import Parametric
from cpsrl.beliefs.rewards import REWARDS, InRange, KnownRewards, NormalGamma
from cpsrl.beliefs.tied import OUTCOMES, Tied
from cpsrl.beliefs.truncated import Truncated

__all__ = [
    "BATCH", "BELIEFS", "FAMILIES", "OUTCOMES", "REWARDS", "Belief", "Dirichlet", "Forgetting",
    "InRange", "Inside", "KnownRewards", "LiveBelief", "NormalGamma", "Parametric", "Tied",
    "Truncated",
]  # fmt: skip
