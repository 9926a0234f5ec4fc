r"""The paper's bounds as numbers: Theorem 4.2, Theorem 4.1, and the quantities they are made of.

Two versions of each, term by term. "paper" is what Xu, Dong and Van Roy (2024) print. "corrected"
is what the following proof gives. A third, "sharp", is the same proof with the narrowest
confidence set for which it works. Time is t = 1, ..., T; pseudo-episode k begins at t_k; K of
them begin up to T; N_t(s, a) counts visits strictly before t; rewards are in [0, 1].

Lemma (Lemma 3.3 and eq. 5, corrected). Let h be the bias of a bias-optimal policy of a weakly
communicating MDP, lambda the optimal gain, H >= span(h), tau >= tau_* (Definition 3.1). Then

    -tau <= V*_gamma(s) - lambda / (1 - gamma) <= H,   so   span(V*_gamma) <= H + tau,

with span(h)/2 <= tau_* <= span(h), so that tau alone gives 3 tau and H alone 2 H. Proof: h solves
the optimality equation lambda + h = max over a of r_a + P_a h. Summing r <= lambda + h - P h with
weights gamma^t along the discounted optimal policy gives the upper side, h(s) - (1 - gamma) sum_t
gamma^t E h(S_{t+1}) <= h(s) - min h. Along the average optimal policy r = lambda + h - P h, so
V*_gamma - lambda/(1 - gamma) is at least (1 - gamma) sum_{n >= 1} gamma^{n-1} (h - P^n h)(s), an
average of numbers >= -tau. W below is the smaller of H + tau and 1/(1 - gamma).

Theorem 4.2, corrected. Let M_t be the MDPs with |P_as - empirical|_1 <= beta_t(s, a) for all
visited pairs, beta_t(s, a)^2 = 14 S log(2 S A T t) / max(N_t(s, a), 1).

1. The last pseudo-episode is completed: the coins go on until the next resampling. This adds
   gamma/(1 - gamma) expected steps; T+ = T + gamma/(1 - gamma) is the expected total.
2. Outside M. Given all the coins, the successors of a pair are an i.i.d. sequence. By Weissman et
   al. (2003), applied to each of its first t - 1 lengths, and a union over lengths and pairs,
   P(E not in M_t) <= S A t 2^S (2 S A T t)^(-7 S) <= 1 / (2 T). The sampled E^k is as likely to be
   outside (Lemma 5.1), each costs at most 1/(1 - gamma), and E[K] = 1 + (T - 1)(1 - gamma):
   together at most E[K] / (T (1 - gamma)) = 1 + gamma / (T (1 - gamma)).
3. Inside M, Lemma 5.3 holds up to a stopping time: with sigma_k the first step of pseudo-episode k
   whose pair has N_t >= 2 max(N_{t_k}, 1) (never, if there is none),

       D(s_k) = E[ sum over t in E_k, t < sigma_k of gamma <P^k - P, V_{pi_k, E^k}>
                   + 1{sigma_k in E_k} D(s_sigma_k) ],   D = V_{pi_k, E^k} - V_{pi_k, E},

   by the strong Markov property, the coin being without memory. (The paper multiplies the value
   difference by the indicator of what happens later in the pseudo-episode, and keeps the product
   under the sum of Bellman errors; that step needs this stopping time.)
4. The last term is at most 1/(1 - gamma). Each sigma_k more than doubles the count of a pair,
   from at least 1, so a pair with N visits in all has at most log2(1 + N/2) of them, and all pairs
   together, by concavity, at most S A log2(1 + T+ / (2 S A)).
5. Before sigma_k, |<P^k - P, V>| <= |P^k - P|_1 span(V) / 2 <= beta_k W, and N_t + 1 <=
   2 max(N_{t_k}, 1), so that the sum over all steps of 1/sqrt(max(N_{t_k}, 1)) is at most
   sqrt(2) sum over pairs of sum_{j <= N} j^(-1/2) <= sqrt(8 S A T+) in expectation (the paper has
   sqrt(2 S A T) here). With t_k <= T this is 2 gamma W S sqrt(28 A T+ log(2 S A T^2)).

The sum of 2, 4 and 5 bounds E[Regret_gamma]. "sharp" takes beta^2 = 2 log(2^S S A T^2) / max(N, 1),
for which P(E not in M_t for some t <= T) <= 1/T, so that 2 doubles.

Theorem 4.1, corrected. Over completed pseudo-episodes E[regret] = (a) + (b) of appendix C
exactly, (b) is Theorem 4.2, and (a) = E[sum of lambda/(1 - gamma) - V*_gamma(s_k)] <= tau E[K] by
the lower side of the lemma. Taking the completion away again adds at most E[sum over T < t <= T+
of R_t - lambda] <= min(H, gamma/(1 - gamma)).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.resampling import Bernoulli
from cpsrl.support.checks import (
    LARGEST,
    checked_floats,
    checked_gamma,
    checked_number,
    checked_whole,
)
from cpsrl.support.registry import unknown
from cpsrl.support.types import Floats

VERSIONS = ("paper", "corrected", "sharp")


@dataclass(frozen=True)
class Bound:
    """A bound on expected regret.

    Attributes:
        version: "paper", "corrected" or "sharp".
        terms: the terms by name.
        steps: T. The trivial bound is T itself: rewards are in [0, 1].
    """

    version: str
    terms: dict[str, float]
    steps: int

    @property
    def total(self) -> float:
        """The sum of the terms."""
        return sum(self.terms.values())

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound says no more than that regret is at most T."""
        return self.total >= self.steps


def theorem_4_2(
    n_states: int,
    n_actions: int,
    steps: int,
    gamma: float,
    tau: float | None = None,
    span: float | None = None,
    version: str = "corrected",
) -> Bound:
    """Return the bound of Theorem 4.2 on the expected gamma-discounted regret (eq. 6).

    Args:
        n_states: S.
        n_actions: A.
        steps: T.
        gamma: the discount factor, also of the coin.
        tau: a bound on the reward averaging time tau_* of every MDP that the prior allows.
        span: a bound on the span of their optimal bias; one of the two is enough, but the paper's
            version is in terms of tau.
        version: "paper", "corrected" or "sharp".
    """
    S, A, T = _sizes(n_states, n_actions, steps)
    gamma = checked_gamma(gamma)
    if version not in VERSIONS:
        raise unknown("version", version, VERSIONS)
    tau, span = _lengths(tau, span, version)
    horizon = 1 / (1 - gamma)
    if version == "paper":
        m = horizon * math.log(2 * T * horizon)
        root = math.sqrt(28 * A * T * math.log(2 * S * A * T))
        terms = {
            "confidence widths": (4 * tau + 2) * S * root,
            "doubled counts": S * A * horizon * math.log(m),
            "long pseudo-episodes": 0.5,
            "outside the confidence set": 2 * horizon,
        }
        return Bound(version, terms, T)
    completed = T + gamma * horizon
    outside = expected_pseudo_episodes(T, gamma) * horizon / T
    log = 14 * S * math.log(2 * S * A * T**2)
    if version == "sharp":
        outside *= 2
        log = 2 * (S * math.log(2) + math.log(S * A * T**2))
    width = gamma * min(span + tau, horizon)
    terms = {
        "confidence widths": width * math.sqrt(8 * S * A * completed * log),
        "doubled counts": S * A * horizon * math.log2(1 + completed / (2 * S * A)),
        "outside the confidence set": outside,
    }
    return Bound(version, terms, T)


def theorem_4_1(
    n_states: int,
    n_actions: int,
    steps: int,
    gamma: float | None = None,
    tau: float | None = None,
    span: float | None = None,
    version: str = "corrected",
) -> Bound:
    """Return the bound on the expected average-reward regret (eq. 2) that appendix C arrives at.

    Args:
        n_states, n_actions, steps, tau, span, version: as in `theorem_4_2`.
        gamma: the discount factor; None takes 1 - sqrt(S A / T), as the theorem does.
    """
    if gamma is None:
        gamma = horizon_gamma(n_states, n_actions, steps)
    inner = theorem_4_2(n_states, n_actions, steps, gamma, tau, span, version)
    tau, span = _lengths(tau, span, version)
    if version == "paper":
        terms = {"averaging (a)": ((1 - gamma) * steps + 1) * tau, **inner.terms}
    else:
        terms = {
            "averaging (a)": expected_pseudo_episodes(steps, gamma) * tau,
            **inner.terms,
            "last pseudo-episode": min(span, gamma / (1 - gamma)),
        }
    return Bound(version, terms, steps)


def useful_from(bound: Callable[[int], Bound]) -> int | None:
    """Return the smallest T from which on `bound(T)` is below T; None if there is none to 1e30.

    Found by bisection above the last power of two at which the bound is vacuous.
    """
    powers = [2**i for i in range(100)]
    vacuous = [T for T in powers if bound(T).is_vacuous]
    if not vacuous:
        return 1
    low, high = vacuous[-1], 2 * vacuous[-1]
    if low == powers[-1]:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle).is_vacuous else (low, middle)
    return high


def horizon_gamma(n_states: int, n_actions: int, steps: int) -> float:
    """Return the gamma of Theorem 4.1, 1 - sqrt(S A / T), or 0 where that is negative."""
    S, A, T = _sizes(n_states, n_actions, steps)
    gamma = Bernoulli(schedule="horizon", horizon=T, pairs=S * A).gammas(1, 1)
    return float(np.ravel(gamma)[0])


def expected_pseudo_episodes(steps: int, gamma: float) -> float:
    """Return E[K] = 1 + (T - 1)(1 - gamma), exactly: one at t = 1, and a coin at every other t."""
    return 1 + (checked_whole("steps", steps, 1, LARGEST) - 1) * (1 - checked_gamma(gamma))


def high_probability_length(steps: int, gamma: float) -> int:
    """Return m = log(2 T / (1 - gamma)) / (1 - gamma) of section 5, rounded up.

    With T for the paper's K, which is not known in advance. The probability that a pseudo-episode
    is longer is gamma^m <= exp(-(1 - gamma) m) <= (1 - gamma) / (2 T).
    """
    horizon = 1 / (1 - checked_gamma(gamma))
    return math.ceil(horizon * math.log(2 * checked_whole("steps", steps, 1, LARGEST) * horizon))


def confidence_width(
    visits: ArrayLike, n_states: int, n_actions: int, step: int, steps: int
) -> Floats:
    """Return the width beta_k(s, a) of section 5, with T = `steps` for the paper's K.

    `visits` are N_{t_k}(s, a) before t_k = `step`, an array of any shape.
    """
    S, A, T = _sizes(n_states, n_actions, steps)
    log = math.log(2 * S * A * T * checked_whole("step", step, 1, LARGEST))
    return np.sqrt(14 * S * log / np.maximum(checked_floats("visits", visits), 1.0))


def confidence_ratio(counts: ArrayLike, transitions: ArrayLike, step: int, steps: int) -> Floats:
    """Return |P_as - empirical|_1 / beta_k(s, a), `(S, A)`; 0 for pairs that were not visited.

    The MDP with these `transitions` is in the confidence set M_k if no ratio is above 1; `counts`
    say how often each was seen before t_k = `step`, both `(S, A, S)`.
    """
    seen = checked_floats("counts", counts, 3)
    visits = seen.sum(axis=2)
    empirical = seen / np.maximum(visits, 1.0)[:, :, None]
    deviation = np.abs(empirical - np.asarray(transitions)).sum(axis=2)
    width = confidence_width(visits, len(visits), visits.shape[1], step, steps)
    return np.where(visits > 0, deviation / width, 0.0)


def _sizes(n_states: int, n_actions: int, steps: int) -> tuple[int, int, int]:
    S, A = checked_whole("n_states", n_states, 1), checked_whole("n_actions", n_actions, 1)
    return S, A, checked_whole("steps", steps, 1, LARGEST)


def _lengths(tau: float | None, span: float | None, version: str) -> tuple[float, float]:
    """Return bounds on tau_* and on the span, each from the other where it is not given."""
    for name, value in (("tau", tau), ("span", span)):
        if value is not None:
            checked_number(name, value, 0.0)
    if tau is None and span is None:
        raise ValueError("give tau or span: a bound for every MDP that the prior allows")
    if tau is None:
        if version == "paper":
            raise ValueError("the paper's version is in terms of tau: give tau")
        return span, span  # type: ignore[return-value]
    return (tau, 2 * tau) if span is None else (min(tau, span), min(2 * tau, span))
