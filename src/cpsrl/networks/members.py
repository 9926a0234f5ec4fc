"""Ensembles, whose index is the number of a function, and the one of independent networks.

With masks m_bk in {0, 1}, drawn once for every transition b and function k (Osband et al. 2016),
the loss is

    sum_k (1/B) sum_b m_bk (Q_k(x_b, a_b) - y_bk)^2 ,

y_bk being function k's own target. A signature is the K masks, as the bits of 32-bit words.

Member k of K is a network f(x, a; theta_k) of ReLU layers with a prior function of the same shape.
Weights start as N(0, 1/fan_in), biases as 0.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.networks.belief import NETWORK_BELIEFS, LayeredBelief, Weights
from cpsrl.networks.torso import Torso
from cpsrl.support.checks import checked_number, checked_whole
from cpsrl.support.types import Floats


@dataclass(frozen=True)
class Ensemble(LayeredBelief):
    """K functions with masks, of which one acts; how they are computed is a subclass's."""

    members: int = 10
    prior_scale: float = 10.0
    mask: float = 1.0
    hidden: tuple[int, ...] = (50, 50)
    torso: Torso = field(default_factory=Torso)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "members", checked_whole("members", self.members, 1))
        checked_number("mask", self.mask, 0, 1)

    @property
    def uniforms(self) -> int:  # type: ignore[override]
        """One for every mask, none if all masks are 1."""
        return self.members if self.mask < 1 else 0

    def draw_index(self, rng: np.random.Generator, n: int) -> NDArray[Any]:
        """Return the numbers `(n,)` of members, each as likely as any other."""
        return (rng.random(n) * self.members).astype(np.int64)

    def is_index(self, index: NDArray[Any]) -> bool:
        """Return whether there is such a member."""
        return bool(((index >= 0) & (index < self.members)).all())

    def signatures(self, uniform: Floats) -> NDArray[np.int32]:
        """Return masks, member k in bit k % 32 of word k // 32."""
        n, masks = uniform.shape
        bits = np.zeros((n, -(-masks // 32) * 32), np.bool_)
        bits[:, :masks] = uniform < self.mask
        return np.packbits(bits, axis=1, bitorder="little").view(np.int32)

    def loss(self, prediction: Any, target: Any, signature: Any, indices: Any) -> Any:
        """Return the squared error of every member where its mask is 1."""
        if not self.uniforms:
            return super().loss(prediction, target, signature, indices)
        k = np.arange(self.members)
        mask = (signature[:, k // 32] >> (k % 32)) & 1
        return (mask.T * (prediction - target) ** 2).sum() / prediction.shape[1]


@NETWORK_BELIEFS.add("members")
@dataclass(frozen=True)
class Members(Ensemble):
    """Independent networks with prior functions, of which one acts.

    Args:
        members: K, the size of the ensemble.
        prior_scale: factor of the prior functions; 0 for none.
        mask: the probability that a member may learn from a transition.
        hidden: the sizes of the hidden layers.
        torso: what stands before them (see `cpsrl.networks.torso`).
    """

    @property
    def label(self) -> str:
        """What the agent over independent networks is known as."""
        return "Bootstrapped DQN"

    def initialise(
        self, rng: np.random.Generator, n_features: int, n_actions: int
    ) -> tuple[Weights, Weights]:
        """Return the weights of K networks with A outputs each, for both."""
        return self.two_networks(rng, self.members, n_features, n_actions)

    def outputs(self, weights: Weights, indices: Any, x: Any) -> Any:
        """Return the outputs (J, M, A) of the members `indices`, or of all."""
        from cpsrl.networks.layers import forward

        if indices is not None:
            weights = {name: array[indices] for name, array in weights.items()}
        return forward(weights, x, self.torso)
