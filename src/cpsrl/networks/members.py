"""Independent networks: an ensemble whose index is the number of a member.

Member k of K is a network f(x, a; theta_k) of ReLU layers with a prior function of the same shape.
Weights start as N(0, 1/fan_in), biases as 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl.networks.belief import NETWORK_BELIEFS, Weights, random_layers
from cpsrl.networks.ensemble import Ensemble


@NETWORK_BELIEFS.add("members")
@dataclass(frozen=True)
class Members(Ensemble):
    """Independent networks with prior functions, of which one acts.

    Args:
        members: K, the size of the ensemble.
        prior_scale: factor of the prior functions; 0 for none.
        mask: the probability that a member may learn from a transition.
        hidden: the sizes of the hidden layers.
    """

    @property
    def label(self) -> str:
        """What the agent over independent networks is known as."""
        return "Bootstrapped DQN"

    def initialise(
        self, rng: np.random.Generator, n_features: int, n_actions: int
    ) -> tuple[Weights, Weights]:
        """Return `w0` (K, N, H_1), `b0` (K, H_1), `w1` (K, H_1, H_2), ..., for both.

        The scale of the prior functions is worked into their last layer.
        """
        sizes = (n_features, *self.hidden, n_actions)
        trained, prior = (random_layers(rng, self.members, sizes) for _ in range(2))
        prior[f"w{len(self.hidden)}"] *= np.float32(self.prior_scale)
        return trained, prior

    def outputs(self, weights: Weights, indices: Any, x: Any) -> Any:
        """Return the outputs (J, M, A) of the members `indices`, or of all."""
        from cpsrl.networks.layers import forward

        if indices is not None:
            weights = {name: array[indices] for name, array in weights.items()}
        return forward(weights, x)
