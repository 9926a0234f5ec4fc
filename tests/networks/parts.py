"""Parts that a user might write: a world that is not a table, and a belief with a vector for index.

Workers import this module by its name.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from cpsrl.networks import Environment, NetworkBelief


@dataclass(frozen=True)
class Walk(Environment):
    """A point on a line that is pushed to and fro; rewards are high far to the right."""

    drift: float = 0.25
    n_features, n_actions, reward_range = 2, 3, (-2.0, 2.5)

    def initial(self, streams):
        return {"place": np.float32(streams.transition.random()), "steps": np.int32(0)}

    def draw(self, streams, n):
        return {"push": streams.transition.standard_normal(n), "luck": streams.reward.random(n)}

    def step(self, state, action, noise):
        place = state["place"] + self.drift * (action - 1) + 0.1 * noise["push"]
        place = jnp.clip(place, -2, 2)
        return place + noise["luck"], {"place": place, "steps": state["steps"] + 1}

    def observation(self, state):
        return jnp.stack([state["place"], jnp.cos(state["place"])])


@dataclass(frozen=True)
class NotPure(Walk):
    def step(self, state, action, noise):
        return super().step(state, 0 if state["place"] > 0 else action, noise)


class Unregistered(Environment):
    n_features, n_actions = 2, 3


@dataclass(frozen=True)
class LinearIndex(NetworkBelief):
    """Q_z(x, a) = x' (W_0 + sum_d z_d W_d)_a with z ~ N(0, I), targets perturbed by z' xi_b."""

    dimension: int = 3
    functions: int = 5
    finite: ClassVar[bool] = False

    @property
    def uniforms(self):
        return self.dimension * (1 + self.functions)

    def initialise(self, rng, n_features, n_actions):
        shape = (1 + self.dimension, n_features, n_actions)
        return tuple({"w": rng.standard_normal(shape).astype(np.float32)} for _ in range(2))

    def draw_index(self, rng, n):
        return rng.standard_normal((n, self.dimension))

    def signatures(self, uniform):
        normal = ndtri(np.maximum(uniform[:, : self.dimension], 1e-12)).astype(np.float32)
        return np.ascontiguousarray(normal).view(np.int32)

    def update_indices(self, uniform):
        normal = ndtri(np.maximum(uniform[:, self.dimension :], 1e-12))
        return normal.reshape(len(uniform), self.functions, self.dimension)

    def outputs(self, weights, indices, x):
        one = jnp.ones((len(indices), 1), jnp.float32)
        return jnp.einsum("jd,dna,mn->jma", jnp.concatenate([one, indices], 1), weights["w"], x)

    def loss(self, prediction, target, signature, indices):
        xi = jax.lax.bitcast_convert_type(signature, jnp.float32)
        return super().loss(prediction, target + 0.1 * indices @ xi.T, signature, indices)
