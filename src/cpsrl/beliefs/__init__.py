"""What is believed about an MDP: a prior, and the posterior after what was observed."""

from cpsrl.beliefs.belief import Posterior
from cpsrl.beliefs.prior import KnownRewards, NormalGamma, Prior

__all__ = ["KnownRewards", "NormalGamma", "Posterior", "Prior"]
