"""Normal-gamma belief about the mean rewards.

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

import numpy as np

from cpsrl._compile import jit
from cpsrl.mdp import Floats, Ints
from cpsrl.posterior.gamma import draw_gamma

LEAST_PRECISION = 1e-200


@jit
def observe_reward(reward: float, n: int, mean: Floats, m2: Floats, row: int) -> None:
    """Enter the n-th reward of `row` into `mean` and `m2` `(S*A,)`."""
    deviation = reward - mean[row]
    if deviation != 0.0:  # spares a deterministic reward the division
        mean[row] += deviation / n
        m2[row] += deviation * (reward - mean[row])


@jit
def sample_rewards(
    visits: Ints, mean: Floats, m2: Floats, prior: Floats, rng: np.random.Generator, out: Floats
) -> None:
    """Draw a mean reward for every row into `out` `(S*A,)`.

    Args:
        visits: `(S*A,)` number of rewards seen.
        mean: `(S*A,)` their mean.
        m2: `(S*A,)` their sum of squared deviations.
        prior: mu0, lambda0, alpha0, beta0.
        rng: takes a gamma and a normal variate for every row.
        out: `(S*A,)`.
    """
    mu0, lambda0, alpha0, beta0 = prior[0], prior[1], prior[2], prior[3]
    for row in range(len(out)):
        n = visits[row]
        share = 1.0 / (lambda0 + n)
        gap = mean[row] - mu0
        beta = beta0 + 0.5 * (m2[row] + lambda0 * n * gap * gap * share)
        # A tiny n_tau can underflow to precision 0, and an infinite mean would break the planner.
        scaled_precision = max(draw_gamma(alpha0 + 0.5 * n, rng), LEAST_PRECISION)
        mu = (lambda0 * mu0 + n * mean[row]) * share
        out[row] = mu + rng.standard_normal() * math.sqrt(beta * share / scaled_precision)


@jit
def mean_rewards(visits: Ints, mean: Floats, prior: Floats, out: Floats) -> None:
    """Put the posterior mean of every row's mean reward into `out` `(S*A,)`."""
    mu0, lambda0 = prior[0], prior[1]
    for row in range(len(out)):
        out[row] = (lambda0 * mu0 + visits[row] * mean[row]) / (lambda0 + visits[row])
