"""A table with features as an environment of pure functions, in whole numbers.

A uniform u decides between successors by comparison with cumulative probabilities. Its rank is how
many of all those of the MDP are at most u; a cumulative probability's level is how many of them are
below it. Then u is at least the cumulative probability if its rank is above the level. So the next
states and Bernoulli rewards are those of `mdp.simulator`, though the compiled loop computes in 32
bits.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cpsrl.environments.pure import Environment
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.problem import width_of
from cpsrl.mdp.simulator import BERNOULLI, GAUSSIAN
from cpsrl.seeding import Streams
from cpsrl.support.types import Floats, Ints


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows(Environment):
    """A table in arrays of float32 and int32, row s*A + a for action a in state s.

    Rewards are in units of the range.
    """

    features: Any
    """(S, N)"""
    successors: Any
    """(S*A, W), the possible next states, padded"""
    levels: Any
    """(S*A, W - 1): successor j is passed over if its level is below the variate's rank"""
    rewards: Any
    """(S*A,) mean rewards, or (S*A, W) if they depend on the successor; where rewards are
    Bernoulli, levels for the variate's rank"""
    deviations: Any
    """(S*A,) standard deviations of Gaussian rewards; None where rewards are Bernoulli"""
    outcomes: Any
    """(2,) what Bernoulli rewards of 0 and 1 count as; None where rewards are not Bernoulli"""
    available: Any = None
    """(S, A)"""

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Return the reward and the next state; the noise is a rank and a variate."""
        rank, variate = noise
        row = state * (self.rewards.shape[0] // self.features.shape[0]) + action
        passed = jnp.sum(self.levels[row] < rank)
        mean = self.rewards[row] if self.rewards.ndim == 1 else self.rewards[row, passed]
        if self.deviations is None:
            reward = self.outcomes[(variate <= mean).astype(jnp.int32)]
        else:
            reward = mean + self.deviations[row] * variate
        return reward, self.successors[row, passed]

    def table(self) -> Any:
        """Return the features (S, N)."""
        return self.features


class Table(Environment):
    """A table with features.

    Args:
        mdp: the table.
        origin: the reward that counts as 0; None takes the lowest that is thought possible.
    """

    def __init__(self, mdp: TabularMDP, origin: float | None = None) -> None:
        self._mdp = mdp
        self._origin = mdp.reward_range[0] if origin is None else origin
        self._kind, self._deviations = mdp.noise_code
        indptr, indices, cumulative = mdp.cdf
        lengths = np.diff(indptr)
        j = np.arange(lengths.max())
        entry = indptr[:-1, None] + np.minimum(j, lengths[:, None] - 1)
        self._cumulative = np.unique(cumulative)
        self._successors = indices[entry]
        levels = np.searchsorted(self._cumulative, cumulative[entry])
        levels[j >= lengths[:, None] - 1] = len(self._cumulative)
        self._levels = levels[:, :-1]
        each = mdp.transition_rewards
        self._rewards = mdp.rewards.ravel() if each is None else each[entry]
        self._means = np.unique(self._rewards)

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
        low, width = self._origin, width_of(self._mdp.reward_range)
        bernoulli, rewards = self._kind == BERNOULLI, (self._rewards - low) / width
        if bernoulli:
            rewards = np.searchsorted(self._means, self._rewards)
        outcomes = (np.array([0.0, 1.0]) - low) / width
        return Rows(
            features=self._mdp.features.astype(np.float32),
            successors=self._successors.astype(np.int32),
            levels=self._levels.astype(np.int32),
            rewards=rewards.astype(np.float32),
            deviations=None if bernoulli else (self._deviations.ravel() / width).astype(np.float32),
            outcomes=outcomes.astype(np.float32) if bernoulli else None,
            available=self._mdp.available,
        )

    def realised(self, taken: Any, noise: Any) -> Floats:
        """Return the realised rewards (n,) in float64."""
        pairs, (ranks, variates) = (taken.states, taken.actions), noise
        rows = taken.states * self._mdp.n_actions + taken.actions
        means = self._rewards[rows]
        if means.ndim == 2:
            passed = (self._levels[rows] < ranks[:, None]).sum(axis=1)
            means = means[np.arange(len(rows)), passed]
        if self._kind == GAUSSIAN:
            return means + self._deviations[pairs] * variates
        if self._kind == BERNOULLI:
            return (variates <= np.searchsorted(self._means, means)).astype(np.float64)
        return means
