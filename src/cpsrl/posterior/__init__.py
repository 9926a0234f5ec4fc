"""What is believed about an MDP: a prior, and the posterior after what was observed."""

from cpsrl.posterior.belief import Posterior
from cpsrl.posterior.prior import KnownRewards, NormalGamma, Prior

__all__ = ["KnownRewards", "NormalGamma", "Posterior", "Prior"]
