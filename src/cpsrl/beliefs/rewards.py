"""What is believed about the mean rewards: a normal-gamma distribution, or that they are known.

A reward of (s, a) is taken as normal with unknown mean and precision. The prior is

    precision ~ Gamma(alpha0, rate beta0),   mean | precision ~ N(mu0, 1 / (lambda0 precision)),
    lambda0 = n_mu,   alpha0 = n_tau / 2,   beta0 = alpha0 / tau0

(pseudo-counts n_mu and n_tau for the prior guesses mu0 of the mean and tau0 of the precision; the
convention of Osband, Russo and Van Roy 2013). After n rewards with mean m and sum of squared
deviations M2,

    mu = (lambda0 mu0 + n m) / (lambda0 + n),   lambda = lambda0 + n,   alpha = alpha0 + n / 2,
    beta = beta0 + (M2 + lambda0 n (m - mu0)^2 / (lambda0 + n)) / 2.

m and M2 are kept by Welford's recursion (1962), which does not cancel.

Drawn means are Student's with 2 alpha degrees of freedom, except that the gamma variate is taken as
at least 1e-200, or means would overflow. That changes a share of 10^(-200 alpha) of the draws: of
pairs without a reward 1e-100 at n_tau = 1, 1% at .02 and 79% at .001.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cpsrl._compile import inlined, leaf
from cpsrl.beliefs.gamma import draw_gamma
from cpsrl.checks import checked_number, checked_positive
from cpsrl.mdp import TabularMDP
from cpsrl.registry import Registry
from cpsrl.sizes import Sizes
from cpsrl.types import Bools, Floats, Ints
from cpsrl.variates import Words, standard_normal

LEAST_PRECISION = 1e-200


class RewardArrays(NamedTuple):
    """What is believed about the rewards, as compiled code reads and updates it."""

    seen: Ints
    """`(S*A,)` how many rewards of each row were seen"""
    mean: Floats
    """`(S*A,)` their mean, or the known mean rewards"""
    m2: Floats
    """`(S*A,)` their sum of squared deviations from it"""
    prior: Floats
    """mu0, lambda0, alpha0, beta0"""
    learned: Bools
    """`(1,)` whether the rewards are learned"""


REWARDS: Registry["NormalGamma | KnownRewards"] = Registry("reward prior")


@REWARDS.add("normal-gamma")
@dataclass(frozen=True)
class NormalGamma:
    """Normal-gamma prior on every mean reward.

    Args:
        mu0: prior guess of the mean reward.
        n_mu: how many rewards that guess is worth.
        tau0: prior guess of the precision, one over the variance, of a reward.
        n_tau: how many rewards that guess is worth.
    """

    mu0: float = 1.0
    n_mu: float = 1.0
    tau0: float = 1.0
    n_tau: float = 1.0

    def __post_init__(self) -> None:
        checked_number("mu0", self.mu0)
        for name in ("n_mu", "tau0", "n_tau"):
            checked_positive(name, getattr(self, name))

    def arrays(self, problem: TabularMDP | Sizes) -> RewardArrays:
        """Return the belief at the start."""
        prior = [self.mu0, self.n_mu, self.n_tau / 2, self.n_tau / 2 / self.tau0]
        return _arrays(np.zeros(problem.n_states * problem.n_actions), prior, True)


@REWARDS.add("known")
@dataclass(frozen=True)
class KnownRewards:
    """The mean rewards are known.

    Args:
        means: `(S, A)`; None takes those of the problem.
    """

    means: ArrayLike | None = None

    def arrays(self, problem: TabularMDP | Sizes) -> RewardArrays:
        """Return the belief, which stays as it is."""
        shape = (problem.n_states, problem.n_actions)
        if self.means is not None:
            means = np.array(self.means, dtype=np.float64)
            if means.shape != shape or not np.isfinite(means).all():
                raise ValueError(f"known rewards must be finite numbers (S, A) = {shape}")
        elif isinstance(problem, TabularMDP):
            means = np.array(problem.rewards)
        else:
            raise ValueError(
                "KnownRewards() takes the rewards of the problem, and Sizes have none: give "
                "KnownRewards(means) or a TabularMDP"
            )
        return _arrays(means.ravel(), [0.0] * 4, False)


def _arrays(mean: Floats, prior: list[float], learned: bool) -> RewardArrays:
    rows = len(mean)
    known = np.array([learned])
    return RewardArrays(np.zeros(rows, np.int64), mean, np.zeros(rows), np.array(prior), known)


@inlined
def observe_reward(rewards: RewardArrays, row: int, reward: float) -> None:
    """Enter a reward of `row`."""
    place, mean = np.uint64(row), rewards.mean
    rewards.seen[place] += 1
    if rewards.learned[0]:
        deviation = reward - mean[place]
        if deviation != 0.0:  # spares a deterministic reward the division
            mean[place] += deviation / rewards.seen[place]
            rewards.m2[place] += deviation * (reward - mean[place])


@leaf
def sample_rewards(rewards: RewardArrays, words: Words, out: Floats) -> None:
    """Draw a mean reward for every row into `out` `(S*A,)`, or copy the known ones.

    A row takes a gamma and a normal variate from the stream `words`.
    """
    seen, mean, m2, prior = rewards.seen, rewards.mean, rewards.m2, rewards.prior
    if not rewards.learned[0]:
        for row in range(len(out)):
            out[row] = mean[row]
        return
    mu0, lambda0, alpha0, beta0 = prior[0], prior[1], prior[2], prior[3]
    for row in range(len(out)):
        n = seen[row]
        share = 1.0 / (lambda0 + n)
        gap = mean[row] - mu0
        beta = beta0 + 0.5 * (m2[row] + lambda0 * n * gap * gap * share)
        # A tiny n_tau can underflow to precision 0, and an infinite mean would break the planner.
        scaled_precision = max(draw_gamma(alpha0 + 0.5 * n, words), LEAST_PRECISION)
        mu = (lambda0 * mu0 + n * mean[row]) * share
        out[row] = mu + standard_normal(words) * math.sqrt(beta * share / scaled_precision)


def mean_rewards(rewards: RewardArrays) -> Floats:
    """Return the posterior mean `(S*A,)` of every row's mean reward."""
    if not rewards.learned[0]:
        return rewards.mean.copy()
    mu0, lambda0 = rewards.prior[:2]
    return np.asarray((lambda0 * mu0 + rewards.seen * rewards.mean) / (lambda0 + rewards.seen))


def learned_rewards(rewards: RewardArrays) -> dict[str, Any]:
    """Return the arrays that rewards change, by name."""
    return {"seen": rewards.seen, "reward_mean": rewards.mean, "reward_m2": rewards.m2}


def sound_rewards(stored: dict[str, Any]) -> bool:
    """Return whether what `learned_rewards` gave is possible."""
    finite = np.isfinite([stored["reward_mean"], stored["reward_m2"]]).all()
    return bool(finite and (stored["seen"] >= 0).all() and (stored["reward_m2"] >= 0).all())
