"""Heads on a shared trunk: an ensemble whose members share all layers but the last.

With phi(x; theta) in R^H the last hidden layer of one network, head k of K is

    f_k(x, a) = phi(x; theta)' w_ka + b_ka ,

and its prior function the same on another trunk, never trained (Osband, Blundell, Pritzel and Van
Roy 2016; Osband, Aslanides and Cassirer 2018). So all heads are the outputs of one network, and an
update costs about what that of one network costs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl.networks.belief import NETWORK_BELIEFS, Weights
from cpsrl.networks.members import Ensemble


@NETWORK_BELIEFS.add("heads")
@dataclass(frozen=True)
class Heads(Ensemble):
    """Heads with prior functions on a shared trunk, of which one acts.

    Args:
        members: K, the number of heads.
        prior_scale: factor of the prior functions; 0 for none.
        mask: the probability that a head may learn from a transition.
        hidden: the sizes of the hidden layers, which all heads share.
        torso: what stands before them (see `cpsrl.networks.torso`).
    """

    members: int = 20
    prior_scale: float = 5.0

    def initialise(
        self, rng: np.random.Generator, n_features: int, n_actions: int
    ) -> tuple[Weights, Weights]:
        """Return the weights of one network with K*A outputs, for both."""
        return self.two_networks(rng, 1, n_features, self.members * n_actions)

    def outputs(self, weights: Weights, indices: Any, x: Any) -> Any:
        """Return the outputs (J, M, A) of the heads `indices`, or of all."""
        from cpsrl.networks.layers import branches

        every = branches(weights, x, self.members, self.torso)
        return every if indices is None else every[indices]
