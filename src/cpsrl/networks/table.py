"""A table with features as an environment of pure functions, in whole numbers.

A uniform u decides between successors by comparison with cumulative probabilities. Its rank is how
many of all those of the MDP are at most u; a cumulative probability's level is how many of them are
below it. Then u is at least the cumulative probability if its rank is above the level. So the next
states and Bernoulli rewards are those of `mdp.draw_next` and `mdp.draw_reward`, though the compiled
loop computes in 32 bits.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.mdp.simulator import BERNOULLI, GAUSSIAN
from cpsrl.networks.environment import Environment
from cpsrl.seeding import Streams
from cpsrl.types import Floats, Ints


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows(Environment):
    """A table in arrays of float32 and int32, row s*A + a for action a in state s."""

    features: Any
    """(S, N)"""
    successors: Any
    """(S*A, W), the possible next states, padded"""
    levels: Any
    """(S*A, W - 1): successor j is passed over if its level is below the variate's rank"""
    rewards: Any
    """(S*A,) mean rewards; where rewards are Bernoulli, levels for the variate's rank"""
    deviations: Any
    """(S*A,) standard deviations of Gaussian rewards; None where rewards are Bernoulli"""

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Return the reward and the next state; the noise is a rank and a variate."""
        rank, variate = noise
        row = state * (self.rewards.shape[0] // self.features.shape[0]) + action
        passed = jnp.sum(self.levels[row] < rank)
        if self.deviations is None:
            reward = (variate <= self.rewards[row]).astype(jnp.float32)
        else:
            reward = self.rewards[row] + self.deviations[row] * variate
        return reward, self.successors[row, passed]

    def table(self) -> Any:
        """Return the features (S, N)."""
        return self.features


class Table(Environment):
    """A table with features."""

    def __init__(self, mdp: TabularMDP) -> None:
        self._mdp = mdp
        self._kind, self._deviations = mdp.noise_code
        self._cumulative = np.unique(mdp.cdf[2])
        self._means = np.unique(mdp.rewards)

    def draw(self, streams: Streams, n: int) -> tuple[Ints, Floats]:
        """Return ranks (n,) for the next states and variates (n,) for the rewards of n steps."""
        ranks = np.searchsorted(self._cumulative, streams.transition.random(n), side="right")
        variates = np.zeros(n)
        if self._kind == GAUSSIAN:
            variates = streams.reward.standard_normal(n)
        elif self._kind == BERNOULLI:
            uniform = streams.reward.random(n)
            variates += np.searchsorted(self._means, uniform, side="right")
        return ranks, variates

    def table(self) -> Any:
        """Return the features (S, N)."""
        return self._mdp.features

    def pure(self) -> Rows:
        """Return the table as the compiled loop takes it."""
        assert self._mdp.features is not None  # by the agent's `check`
        indptr, indices, cumulative = self._mdp.cdf
        lengths = np.diff(indptr)
        j = np.arange(lengths.max())
        place = indptr[:-1, None] + np.minimum(j, lengths[:, None] - 1)
        levels = np.searchsorted(self._cumulative, cumulative[place])
        levels[j >= lengths[:, None] - 1] = len(self._cumulative)
        means = self._mdp.rewards.ravel()
        bernoulli = self._kind == BERNOULLI
        rewards = np.searchsorted(self._means, means) if bernoulli else means
        return Rows(
            features=self._mdp.features.astype(np.float32),
            successors=indices[place].astype(np.int32),
            levels=levels[:, :-1].astype(np.int32),
            rewards=rewards.astype(np.float32),
            deviations=None if bernoulli else self._deviations.ravel().astype(np.float32),
        )

    def realised(self, taken: Any, noise: Any) -> Floats:
        """Return the realised rewards (n,) in float64."""
        pairs, variates = (taken.states, taken.actions), noise[1]
        means = self._mdp.rewards[pairs]
        if self._kind == GAUSSIAN:
            return means + self._deviations[pairs] * variates
        if self._kind == BERNOULLI:
            return (variates <= np.searchsorted(self._means, means)).astype(np.float64)
        return means
