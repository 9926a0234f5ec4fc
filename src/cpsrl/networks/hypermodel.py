"""A hypermodel: one network whose last layer is linear in an index z ~ N(0, I) in R^D.

With phi(x; theta) in R^H the last hidden layer of one network,

    f_z(x, a) = phi(x; theta)' (w_0a + sum_d z_d w_da / sqrt(D)) + b_0a + sum_d z_d b_da / sqrt(D) ,

and the prior function is the same on another trunk, without the part that z does not enter
(Dwaracherla, Lu, Ibrahimi, Osband, Wen and Van Roy 2020, "Hypermodels for exploration"; Li et al.
2022, "HyperDQN"). At the beginning f_z(x, a) and the prior function are spread over z as networks
are over their random weights. To draw an index is to draw a vector, so there are as many functions
as draws. An update is of J of them, drawn anew for each.

A transition b is stored with a direction xi_b, uniform on the unit sphere, and the targets of z are
those of rewards perturbed by `noise` z' xi_b: what keeps functions apart that learn from the same
noisy outcomes.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from cpsrl.networks.belief import NETWORK_BELIEFS, LayeredBelief, Weights
from cpsrl.networks.torso import Torso
from cpsrl.support.checks import checked_number, checked_whole
from cpsrl.support.types import Floats


@NETWORK_BELIEFS.add("hypermodel")
@dataclass(frozen=True)
class Hypermodel(LayeredBelief):
    """A network whose last layer is linear in a normal vector, which is what is drawn.

    Args:
        dimension: D, that of the index.
        functions: J, the indices of an update.
        prior_scale: factor of the prior functions; 0 for none.
        noise: the standard deviation by which an index perturbs rewards, in units of their range.
        hidden: the sizes of the hidden layers.
        torso: what stands before them (see `cpsrl.networks.torso`).
    """

    dimension: int = 8
    functions: int = 20
    prior_scale: float = 5.0
    noise: float = 0.0
    hidden: tuple[int, ...] = (50, 50)
    torso: Torso = field(default_factory=Torso)

    finite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("dimension", "functions"):
            object.__setattr__(self, name, checked_whole(name, getattr(self, name), 1))
        checked_number("noise", self.noise, 0)

    @property
    def uniforms(self) -> int:  # type: ignore[override]
        """One for every coordinate of a transition's direction and of an update's indices."""
        return self.dimension * (self.functions + (self.noise > 0))

    def initialise(
        self, rng: np.random.Generator, n_features: int, n_actions: int
    ) -> tuple[Weights, Weights]:
        """Return the weights of one network with (1 + D)*A outputs, for both."""
        trained, prior = self.two_networks(rng, 1, n_features, (1 + self.dimension) * n_actions)
        prior[f"w{len(self.hidden)}"][..., :n_actions] = 0
        return trained, prior

    def draw_index(self, rng: np.random.Generator, n: int) -> NDArray[Any]:
        """Return standard normal vectors `(n, D)`."""
        return rng.standard_normal((n, self.dimension))

    def signatures(self, uniform: Floats) -> NDArray[np.int32]:
        """Return directions `(n, D)` on the unit sphere as float32's bits; none without noise."""
        if not self.noise:
            return super().signatures(uniform)
        normal = _normal(uniform[:, -self.dimension :])
        length = np.sqrt((normal**2).sum(axis=1, keepdims=True))
        return (normal / length).astype(np.float32).view(np.int32)

    def update_indices(self, uniform: Floats) -> NDArray[Any]:
        """Return standard normal vectors `(n, J, D)`."""
        drawn = uniform[:, : self.functions * self.dimension]
        return _normal(drawn).reshape(-1, self.functions, self.dimension)

    def outputs(self, weights: Weights, indices: Any, x: Any) -> Any:
        """Return the outputs (J, M, A) of the functions `indices` (J, D)."""
        import jax.numpy as jnp

        from cpsrl.networks.layers import branches

        every = branches(weights, x, 1 + self.dimension, self.torso)
        spread = jnp.tensordot(indices, every[1:], 1) / np.float32(np.sqrt(self.dimension))
        return every[0] + spread

    def loss(self, prediction: Any, target: Any, signature: Any, indices: Any) -> Any:
        """Return the squared error of every function to its own perturbed targets."""
        if self.noise:
            import jax.numpy as jnp
            from jax import lax

            xi = lax.bitcast_convert_type(signature, jnp.float32)
            target = target + np.float32(self.noise) * indices @ xi.T
        return super().loss(prediction, target, signature, indices)


def _normal(uniform: Floats) -> Floats:
    """Return standard normal variates, given uniform ones in [0, 1)."""
    return np.asarray(ndtri(np.maximum(uniform, 2.0**-54)))
