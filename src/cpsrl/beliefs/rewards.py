"""What is believed about the mean rewards: normal-gamma, within a range, or that they are known.

The mathematics of `InRange` is in `reward_kinds`. With `NormalGamma` a reward of (s, a) is taken as
normal with unknown mean and precision. The prior is

    precision ~ Gamma(alpha0, rate beta0),   mean | precision ~ N(mu0, 1 / (lambda0 precision)),
    lambda0 = n_mu,   alpha0 = n_tau / 2,   beta0 = alpha0 / tau0

(pseudo-counts n_mu and n_tau for the prior guesses mu0 of the mean and tau0 of the precision; the
convention of Osband, Russo and Van Roy 2013). After n rewards with mean m and sum of squared
deviations M2,

    mu = (lambda0 mu0 + n m) / (lambda0 + n),   lambda = lambda0 + n,   alpha = alpha0 + n / 2,
    beta = beta0 + (M2 + lambda0 n (m - mu0)^2 / (lambda0 + n)) / 2.

m and M2 are kept by Welford's recursion (1962), which does not cancel.

The paper's prior is mu0 = tau0 = n_mu = n_tau = 1, for rewards in [0, 1]. For rewards c r + d it is
that of c mu + d, mu having this prior: mu0 -> c mu0 + d, tau0 -> tau0 / c^2, and so beta0 ->
c^2 beta0. In a problem with rewards from low to high, of the width w = high - low, the default is
therefore

    mu0 = low + w,   tau0 = 1 / w^2 .

Rewards stay in their units, and draws of c r + d are c times those of r, plus d, but for rounding.

Drawn means are Student's with 2 alpha degrees of freedom, except that the gamma variate is taken as
at least 1e-200, or means would overflow. That changes a share of 10^(-200 alpha) of the draws: of
pairs without a reward 1e-100 at n_tau = 1, 1% at .02 and 79% at .001.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cpsrl._private.compile import inlined, leaf
from cpsrl._private.variates import Words, standard_normal
from cpsrl.beliefs.gamma_variates import draw_gamma
from cpsrl.beliefs.reward_kinds import facts_of_kinds, means_in_range, sample_in_range
from cpsrl.mdp import Problem, models_of
from cpsrl.mdp.problem import width_of
from cpsrl.support.checks import checked_floats, checked_kind, checked_number, checked_positive
from cpsrl.support.registry import Registry
from cpsrl.support.types import Floats, Ints

LEAST_PRECISION = 1e-200
FORGOTTEN = 1e-200
"""Where evidence fades, a smaller weight counts as none."""
WIDEST = 1e50
"""The widest range, and one over the narrowest, for which a draw can be computed."""
WIDE, NARROW = 10.0, 0.01
"""A guess of a reward's standard deviation that is not between these, in widths of the range, was
made in other units. Ten widths cost four times the regret on RiverSwim, 100 widths 25 times; a
hundredth of the width costs four times, if mu0 is at the low end, and a thousandth 100 times."""


class RewardArrays(NamedTuple):
    """What is believed about the rewards, as compiled code reads and updates it."""

    seen: Any
    """`(S*A,)` how many rewards of each row were seen; floats where they have weights"""
    mean: Floats
    """`(S*A,)` their mean, or the known mean rewards"""
    m2: Floats
    """`(S*A,)` their sum of squared deviations from it"""
    prior: Floats
    """mu0, lambda0, alpha0, beta0; of `InRange` low, high, alpha0, beta0"""
    kind: Ints
    """`(1,)` KNOWN, NORMAL_GAMMA or IN_RANGE"""

    def copy(self) -> "RewardArrays":
        """Return a copy of what rewards change, with the same prior."""
        mine = self.seen.copy(), self.mean.copy(), self.m2.copy()
        return RewardArrays(*mine, self.prior, self.kind)

    @property
    def learned(self) -> dict[str, Any]:
        """The arrays that rewards change, by name."""
        return {"seen": self.seen, "reward_mean": self.mean, "reward_m2": self.m2}

    def posterior_means(self) -> Floats:
        """Return the posterior mean `(S*A,)` of every row's mean reward."""
        if self.kind[0] == KNOWN:
            return self.mean.copy()
        if self.kind[0] == IN_RANGE:
            return means_in_range(self.seen, self.mean, self.m2, self.prior)
        mu0, lambda0 = self.prior[:2]
        return np.asarray((lambda0 * mu0 + self.seen * self.mean) / (lambda0 + self.seen))

    def facts(self) -> dict[str, Any]:
        """Return what was learned about the kind of rewards, where that is open."""
        return facts_of_kinds(self.seen, self.m2) if self.kind[0] == IN_RANGE else {}


class RewardPrior:
    """What is believed of the rewards beforehand: a frozen dataclass derived from this class."""

    def arrays(self, problem: Problem) -> RewardArrays:
        """Return the belief at the start."""
        raise NotImplementedError


KNOWN, NORMAL_GAMMA, IN_RANGE = range(3)
REWARDS: Registry[RewardPrior] = Registry("reward prior")


def checked_rewards(rewards: Any) -> None:
    """Raise a ValueError if `rewards` is not a belief about rewards."""
    wanted = "NormalGamma(...), InRange() or KnownRewards()"
    checked_kind("rewards", rewards, RewardPrior, wanted)


@REWARDS.add("normal-gamma")
@dataclass(frozen=True)
class NormalGamma(RewardPrior):
    """Normal-gamma prior on every mean reward.

    What is given is in the units of the rewards. What is not is taken from the problem's range of
    rewards, `problem.reward_range`: that is the paper's prior where the range is [0, 1].

    Args:
        mu0: prior guess of the mean reward; None for the top of the range.
        n_mu: how many rewards that guess is worth.
        tau0: prior guess of the precision, one over the variance, of a reward; None for one over
            the square of the range's width.
        n_tau: how many rewards that guess is worth.
    """

    mu0: float | None = None
    n_mu: float = 1.0
    tau0: float | None = None
    n_tau: float = 1.0

    def __post_init__(self) -> None:
        if self.mu0 is not None:
            checked_number("mu0", self.mu0)
        if self.tau0 is not None:
            checked_positive("tau0", self.tau0)
        for name in ("n_mu", "n_tau"):
            checked_positive(name, getattr(self, name))

    def arrays(self, problem: Problem) -> RewardArrays:
        """Return the belief at the start."""
        alpha0 = self.n_tau / 2
        low, high, width = _range_of(problem, self.tau0 is None)
        self._warn_of_other_units(low, high, width)
        mu0 = low + width if self.mu0 is None else self.mu0
        beta0 = alpha0 * width * width if self.tau0 is None else alpha0 / self.tau0
        rows = problem.n_states * problem.n_actions
        return _arrays(np.zeros(rows), [mu0, self.n_mu, alpha0, beta0], NORMAL_GAMMA)

    def _warn_of_other_units(self, low: float, high: float, width: float) -> None:
        """Warn if what was given by hand was made for rewards in other units."""
        unfit = []
        if self.mu0 is not None and not low - width <= self.mu0 <= high + width:
            unfit.append(f"mu0 = {self.mu0:g} is not near it")
        if self.tau0 is not None and not NARROW <= self.tau0**-0.5 / width <= WIDE:
            unfit.append(f"tau0 = {self.tau0:g} is a standard deviation of {self.tau0**-0.5:g}")
        if unfit:
            warnings.warn(
                f"the prior does not fit rewards in the range {low:g} to {high:g}: "
                f"{' and '.join(unfit)}. What is left out of NormalGamma is taken from the range",
                stacklevel=2,
            )


@REWARDS.add("in-range")
@dataclass(frozen=True)
class InRange(RewardPrior):
    """Mean rewards anywhere in the problem's range, and noise of a kind that is learned.

    Whether the rewards of a pair are constant is learned from all pairs (see `reward_kinds`).

    Args:
        n_tau: how many rewards the prior guess of a noisy pair's variance, the square of the
            range's width, is worth: at least 1.
    """

    n_tau: float = 1.0

    def __post_init__(self) -> None:
        checked_number("n_tau", self.n_tau, 1.0)

    def arrays(self, problem: Problem) -> RewardArrays:
        """Return the belief at the start."""
        low, _, width = _range_of(problem, True)
        rows, alpha0 = problem.n_states * problem.n_actions, self.n_tau / 2
        prior = [low, low + width, alpha0, alpha0 * width * width]
        return _arrays(np.zeros(rows), prior, IN_RANGE)


@REWARDS.add("known")
@dataclass(frozen=True)
class KnownRewards(RewardPrior):
    """The mean rewards are known.

    Args:
        means: `(S, A)`; None takes those of the problem.
    """

    means: ArrayLike | None = None

    def arrays(self, problem: Problem) -> RewardArrays:
        """Return the belief, which stays as it is."""
        shape = (problem.n_states, problem.n_actions)
        if self.means is not None:
            means = checked_floats("known rewards", self.means)
            if means.shape != shape or not np.isfinite(means).all():
                raise ValueError(f"known rewards must be finite numbers (S, A) = {shape}")
        elif models := models_of(problem):
            means = np.array(models[0].rewards)
            if any((model.rewards != means).any() for model in models):
                raise ValueError(
                    f"KnownRewards() are those of one model, and those of {problem!r} change"
                )
        else:
            raise ValueError(
                "KnownRewards() takes the rewards of the problem, and Sizes have none: give "
                "KnownRewards(means) or a TabularMDP"
            )
        return _arrays(means.ravel(), [0.0] * 4, KNOWN)


def _range_of(problem: Problem, needed: bool) -> tuple[float, float, float]:
    """Return the ends of the range of rewards and its width; raise if draws could not be computed.

    `needed`: whether the prior takes the width.
    """
    width = width_of(problem.reward_range)
    if needed and not 1 / WIDEST <= width <= WIDEST:
        raise ValueError(
            f"the rewards of {problem!r} have a range of the width {width:g}, and a prior can "
            f"be for widths of {1 / WIDEST:g} to {WIDEST:g}: scale the rewards"
        )
    return *problem.reward_range, width


def _arrays(mean: Floats, prior: list[float], kind: int) -> RewardArrays:
    rows = len(mean)
    kinds = np.array([kind])
    return RewardArrays(np.zeros(rows, np.int64), mean, np.zeros(rows), np.array(prior), kinds)


@inlined
def observe_reward(rewards: RewardArrays, row: int, reward: float) -> None:
    """Enter a reward of `row`."""
    place, mean = np.uint64(row), rewards.mean
    rewards.seen[place] += 1
    if rewards.kind[0] != KNOWN:
        deviation = reward - mean[place]
        if deviation != 0.0:  # spares a deterministic reward the division
            mean[place] += deviation / rewards.seen[place]
            rewards.m2[place] += deviation * (reward - mean[place])


@leaf
def observe_rewards(rewards: RewardArrays, rows: Ints, values: Floats) -> None:
    """Enter rewards `(n,)` of `rows` `(n,)`."""
    for i in range(len(rows)):
        observe_reward(rewards, rows[i], values[i])


@leaf
def sample_rewards(rewards: RewardArrays, words: Words, out: Floats) -> None:
    """Draw a mean reward for every row into `out` `(S*A,)`, or copy the known ones.

    With normal-gamma rewards a row takes a gamma and a normal variate from the stream `words`.
    """
    seen, mean, m2, prior = rewards.seen, rewards.mean, rewards.m2, rewards.prior
    if rewards.kind[0] == KNOWN:
        for row in range(len(out)):
            out[row] = mean[row]
        return
    if rewards.kind[0] == IN_RANGE:
        sample_in_range(seen, mean, m2, prior, words, out)
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


@leaf
def fade_rewards(rewards: RewardArrays, left: float) -> None:
    """Multiply the weights of all rewards by `left` (see `forgetting`)."""
    seen, m2 = rewards.seen, rewards.m2
    for row in range(len(seen)):
        seen[row] = seen[row] * left if seen[row] * left > FORGOTTEN else 0.0
        m2[row] = m2[row] * left if seen[row] > 0.0 else 0.0


@inlined
def weigh_reward(rewards: RewardArrays, row: int, reward: float, weight: float) -> None:
    """Enter a reward of `row` with a weight."""
    rewards.seen[row] += weight
    if rewards.kind[0] != KNOWN:
        deviation = reward - rewards.mean[row]
        rewards.mean[row] += deviation * (weight / rewards.seen[row])
        rewards.m2[row] += weight * deviation * (reward - rewards.mean[row])


def sound_rewards(stored: dict[str, Any]) -> bool:
    """Return whether what `RewardArrays.learned` gave is possible."""
    finite = np.isfinite([stored["reward_mean"], stored["reward_m2"]]).all()
    return bool(finite and (stored["seen"] >= 0).all() and (stored["reward_m2"] >= 0).all())
