"""Weighted draws of parameters: what a belief about many of them is kept as.

A particle is z `(d,)`, standard normal beforehand, and stands for the parameters at the
probabilities Phi(z) of their priors. A batch of transitions with the likelihood L_new comes in by
steps (Del Moral, Doucet and Jasra 2006): weights are multiplied by L_new^b, with b as large as
leaves an effective sample size of half the particles. If that is less than all of L_new,

    resample   systematically, so that the particles weigh the same again,
    move       each by MOVES steps of Metropolis and Hastings, with normal proposals of
               2.38^2 / d times the particles' covariance,

and the rest follows. A move leaves the posterior given all that has come in as it is, since the
counts of the transitions are the whole likelihood; that the proposals' covariance is the particles'
own is what makes it exact only as their number grows (Gilks and Berzuini 2001 on moves).

Variates come from a generator made of the seed, and of what was observed: the same transitions give
the same particles, and drawing from them changes nothing.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from cpsrl.beliefs.parameter_posteriors import (
    NEAREST,
    LiveParametric,
    Members,
    Weighted,
    effective,
    log_likelihood,
    weights_of,
)
from cpsrl.support.types import Floats

MOVES = 4
KEPT = 0.5
"""The effective sample size, as a share of the particles, that no step goes below."""
HALVINGS = 40


class Particles(Weighted):
    """The live form that keeps particles with weights.

    Args:
        names: the parameters.
        members: the models of the particles that the belief begins with.
        z: `(G, d)` these particles.
        at_normal: gives the parameter vectors `(G, d)` of particles `(G, d)`.
        seed: what later variates are drawn with.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        members: Members,
        z: Floats,
        at_normal: Callable[[Floats], Floats],
        seed: int,
    ) -> None:
        super().__init__(names, members)
        self.z, self.at_normal, self.seed = z, at_normal, seed

    @property
    def learned(self) -> dict[str, Any]:
        """The arrays that observations change, by name."""
        return {"counts": self.counts, "z": self.z, "log_weights": self.log_weights}

    def refresh(self) -> None:
        """Compute the parameters of the particles and their models."""
        self.points = self.at_normal(self.z)
        self.table = self.members.table_at(self.points)

    def sound(self, stored: dict[str, Any]) -> bool:
        """Return whether the particles stored are numbers, and one has a weight."""
        weights, z = stored["log_weights"], stored["z"]
        weighed = (weights < np.inf).all() and weights.max() > -np.inf
        return bool(LiveParametric.sound(self, stored) and np.isfinite(z).all() and weighed)

    def learn(self, new: Floats) -> None:
        """Weigh the particles by counts `(n,)` of new transitions, and renew them as needed."""
        content = zlib.crc32((self.counts + new).tobytes())
        rng = np.random.default_rng([self.seed, content])
        left = 1.0
        while left > 0:
            gain = log_likelihood(new, self.table)
            share = self._share(gain, left)
            self.log_weights = self.log_weights + share * gain
            left -= share
            if left > 0:
                self._renew(self.counts + (1.0 - left) * new, rng)
        self.log_weights = self.log_weights - self.log_weights.max()
        self.counts = self.counts + new

    def _share(self, gain: Floats, left: float) -> float:
        """Return the largest power of the new likelihood that leaves enough particles alive."""
        least, low, high = KEPT * len(gain), 0.0, left
        if effective(weights_of(self.log_weights + high * gain)) >= least:
            return left
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            enough = effective(weights_of(self.log_weights + middle * gain)) >= least
            low, high = (middle, high) if enough else (low, middle)
        return low or high  # some are ruled out by any power

    def _renew(self, counts: Floats, rng: np.random.Generator) -> None:
        """Resample the particles, and move them given `counts` `(n,)`."""
        n, d = self.z.shape
        up_to = np.cumsum(self.weights)
        chosen = np.searchsorted(up_to, (rng.random() + np.arange(n)) / n * up_to[-1], side="right")
        chosen = chosen.clip(max=n - 1)
        z, points, table = self.z[chosen], self.points[chosen], self.table[:, chosen]
        spread = np.atleast_2d(np.cov(z, rowvar=False)) + NEAREST * np.eye(d)
        factor = np.linalg.cholesky(2.38**2 / d * spread)
        log_target = log_likelihood(counts, table) - 0.5 * (z * z).sum(axis=1)
        for _ in range(MOVES):
            new_z = z + rng.standard_normal((n, d)) @ factor.T
            new_points = self.at_normal(new_z)
            new_table = self.members.table_at(new_points)
            new_target = log_likelihood(counts, new_table) - 0.5 * (new_z * new_z).sum(axis=1)
            taken = np.log(rng.random(n)) < new_target - log_target
            z[taken], points[taken] = new_z[taken], new_points[taken]
            table[:, taken], log_target[taken] = new_table[:, taken], new_target[taken]
        self.z, self.points, self.table = z, points, table
        self.log_weights = np.zeros(n)
