"""A pendulum that is to be swung up and held, for networks."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cpsrl.environments.pure import UPPER, Environment, Reference
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_number, checked_whole
from cpsrl.support.types import Floats

GRAVITY, SECONDS = 10.0, 0.05
FASTEST, STRONGEST = 8.0, 2.0
"""The largest speed and torque."""


@dataclass(frozen=True)
class Pendulum(Environment):
    """A rod of length and mass 1 on a motor; made by `pendulum`.

    State: the angle from upright, in (-pi, pi], and its speed.
    """

    torques: int = field(metadata={"static": True})
    noise: float

    n_features = 3
    reward_range = (-(np.pi**2 + 0.1 * FASTEST**2 + 0.001 * STRONGEST**2), 0.0)

    @property
    def n_actions(self) -> int:  # type: ignore[override]
        """The torques to choose from."""
        return self.torques

    def initial(self, streams: Streams) -> Any:
        """Return hanging down, at rest."""
        return np.float32(np.pi), np.float32(0.0)

    def draw(self, streams: Streams, n: int) -> Floats:
        """Return what chance adds to the torques."""
        return self.noise * streams.transition.standard_normal(n)

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Pay for where the pendulum is, and turn the motor for a moment."""
        import jax.numpy as jnp

        angle, speed = state
        torque = STRONGEST * (2.0 * action / (self.torques - 1) - 1.0)
        reward = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        pull = 1.5 * GRAVITY * jnp.sin(angle) + 3.0 * (torque + noise)
        speed = jnp.clip(speed + SECONDS * pull, -FASTEST, FASTEST)
        turned = angle + SECONDS * speed
        return reward, (jnp.pi - (jnp.pi - turned) % (2 * jnp.pi), speed)

    def observation(self, state: Any) -> Any:
        """Return the rod's end and its speed."""
        import jax.numpy as jnp

        angle, speed = state
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed / FASTEST])

    def reference(self) -> Reference:
        """Return 0: at best nothing is lost, and upright at rest nothing is."""
        return Reference(0.0, UPPER, "no reward is above 0, that of standing upright at rest")


def pendulum(torques: int = 3, noise: float = 0.0) -> Pendulum:
    """A pendulum with discrete torques that never stops: swing it up and hold it, for networks.

    The dynamics and the rewards are those of Gymnasium's Pendulum (after Sutton, and Doya 2000),
    -(angle^2 + .1 speed^2 + .001 torque^2) with the angle from upright, in steps of .05 s, without
    episodes. There are `torques` torques from -2 to 2, too weak to lift the pendulum at once;
    chance adds `noise` times a normal variate to each. Starts hanging down, at rest.

    Args:
        torques: how many torques there are to choose from.
        noise: the standard deviation of what chance adds to a torque.
    """
    torques = checked_whole("torques", torques, 2)
    return Pendulum(torques, checked_number("noise", noise, 0.0))
