"""Independent networks: an ensemble whose index is the number of a member.

Member k of K is a network f(x, a; theta_k) of ReLU layers with a prior function of the same shape.
With masks m_bk in {0, 1}, drawn once for every transition b and member k (Osband et al. 2016), the
loss is

    sum_k (1/B) sum_b m_bk (Q_k(x_b, a_b) - y_bk)^2 ,

y_bk being member k's own target. A signature is the K masks, as the bits of 32-bit words. Weights
start as N(0, 1/fan_in), biases as 0.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.checks import checked_number, checked_whole
from cpsrl.networks.belief import NETWORK_BELIEFS, NetworkBelief, Weights
from cpsrl.types import Floats


@NETWORK_BELIEFS.add("members")
@dataclass(frozen=True)
class Members(NetworkBelief):
    """Independent networks with prior functions, of which one acts.

    Args:
        members: K, the size of the ensemble.
        prior_scale: factor of the prior functions; 0 for none.
        mask: the probability that a member may learn from a transition.
        hidden: the sizes of the hidden layers.
    """

    members: int = 10
    prior_scale: float = 10.0
    mask: float = 1.0
    hidden: tuple[int, ...] = (50, 50)

    def __post_init__(self) -> None:
        hidden = self.hidden if isinstance(self.hidden, list | tuple) else (self.hidden,)
        hidden = tuple(checked_whole("a hidden layer's size", size, 1) for size in hidden)
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "members", checked_whole("members", self.members, 1))
        checked_number("prior_scale", self.prior_scale, 0)
        checked_number("mask", self.mask, 0, 1)

    @property
    def label(self) -> str:
        """What the agent over independent networks is known as."""
        return "Bootstrapped DQN"

    @property
    def uniforms(self) -> int:  # type: ignore[override]
        """One for every mask, none if all masks are 1."""
        return self.members if self.mask < 1 else 0

    def initialise(
        self, rng: np.random.Generator, n_features: int, n_actions: int
    ) -> tuple[Weights, Weights]:
        """Return `w0` (K, N, H_1), `b0` (K, H_1), `w1` (K, H_1, H_2), ..., for both.

        The scale of the prior functions is worked into their last layer.
        """
        sizes = (n_features, *self.hidden, n_actions)

        def random() -> dict[str, NDArray[np.float32]]:
            weights = {}
            for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
                normal = rng.standard_normal((self.members, n_in, n_out)) / np.sqrt(n_in)
                weights[f"w{layer}"] = normal.astype(np.float32)
                weights[f"b{layer}"] = np.zeros((self.members, n_out), np.float32)
            return weights

        trained, prior = random(), random()
        prior[f"w{len(self.hidden)}"] *= np.float32(self.prior_scale)
        return trained, prior

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

    def outputs(self, weights: Weights, indices: Any, x: Any) -> Any:
        """Return the outputs (J, M, A) of the members `indices`, or of all."""
        from cpsrl.networks.layers import forward

        if indices is not None:
            weights = {name: array[indices] for name, array in weights.items()}
        return forward(weights, x)

    def loss(self, prediction: Any, target: Any, signature: Any, indices: Any) -> Any:
        """Return the squared error of every member where its mask is 1."""
        if not self.uniforms:
            return super().loss(prediction, target, signature, indices)
        k = np.arange(self.members)
        mask = (signature[:, k // 32] >> (k % 32)) & 1
        return (mask.T * (prediction - target) ** 2).sum() / prediction.shape[1]
