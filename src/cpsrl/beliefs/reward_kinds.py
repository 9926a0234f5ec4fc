"""Mean rewards within a range, and noise of a kind that is learned across pairs.

The model. The mean theta of each pair (s, a) is uniform on the range [low, high] of the problem, of
the width W. The pairs are of two kinds (`kinds`), and all are one group. With the chance w a pair's
rewards are constant: each is theta. Otherwise they are noisy: normal with the mean theta and a
precision of the pair's own, which is Gamma(alpha0, rate beta0) with alpha0 = n_tau / 2 and
beta0 = alpha0 W^2.

The kind is judged by repetition alone, and not by the density of the values: noise may be rounded,
or of few values, as a coin's is. The first of a pair's noisy rewards comes again, each time, with a
chance of the pair's own, uniform on (0, 1): n equal ones have the chance q = 1/n. After n rewards
with the mean m and the sum M2 of squared deviations,

    p(theta | noisy) ~ (1 + n (theta - m)^2 / (2 B))^-(alpha0 + n/2) on the range, B = beta0 + M2/2,

a Student's t with nu = 2 alpha0 + n - 1 degrees of freedom around m, of the squared scale
2 B / (n nu), truncated. Given what each part of the data is used for, that is exact Bayes (a cut
posterior: Plummer 2015), and draws are exact, by rejection: from the t where its scale is below
the range's width, else uniform.

The range is that of the means, and may be declared wrongly. A pair's constant reward is believed
wherever it is. The range of all pairs is widened to what the rewards leave no doubt about: to each
constant reward that came twice, and to where each noisy pair's likelihood of theta has risen to a
share UNLIKELY of its largest value, on the way from the range to m. A single reward does that from
ten widths away, and many of them wherever their mean is. It is an exception to Bayes' rule, and
there is none where nothing speaks against the range.

Where evidence fades (`forgetting`), n and M2 are sums of weights. An n below 1 counts as one reward
with the chance n, and as none otherwise.
"""

import math
from typing import Any

import numpy as np
import scipy

from cpsrl._private.compile import leaf
from cpsrl._private.variates import Words, standard_normal, uniform
from cpsrl.beliefs.gamma_variates import draw_gamma
from cpsrl.beliefs.kinds import LEAST, VARIED, draw_share, plain_chances, share_facts
from cpsrl.support.types import Floats

UNLIKELY = 0.01


@leaf
def widened(seen: Any, mean: Floats, m2: Floats, prior: Floats) -> tuple[float, float]:
    """Return the range of all pairs: `prior` is low, high, alpha0 and beta0."""
    low, high = prior[0], prior[1]
    for row in range(len(seen)):
        if seen[row] > 0 and not prior[0] <= mean[row] <= prior[1]:
            n, doubt = max(seen[row], 1.0), 0.0
            if m2[row] > 0.0 or n < 2.0:
                risen = UNLIKELY ** (-1.0 / (prior[2] + 0.5 * n)) - 1.0
                doubt = math.sqrt((2.0 * prior[3] + m2[row]) / n * risen)
            low, high = min(low, mean[row] + doubt), max(high, mean[row] - doubt)
    return low, high


@leaf
def repeated_chance(n: float, m2: float) -> float:
    """Return q of a pair (see `kinds`)."""
    if m2 > 0.0:
        return VARIED if n > 1.0 else 0.0
    return 1.0 / max(n, 1.0) if n > 0.0 else 0.0


@leaf
def sample_in_range(
    seen: Any, mean: Floats, m2: Floats, prior: Floats, words: Words, out: Floats
) -> None:
    """Draw a mean reward for every row into `out` `(S*A,)`; `prior` as in `widened`."""
    low, high = widened(seen, mean, m2, prior)
    for row in range(len(out)):
        out[row] = repeated_chance(float(seen[row]), m2[row])
    share = draw_share(out, 0, 1, words)
    for row in range(len(out)):
        n, q = float(seen[row]), out[row]
        if n <= 0.0 or (n < 1.0 and uniform(words) >= n):
            out[row] = low + (high - low) * uniform(words)
            continue
        n = max(n, 1.0)
        if q > 0.0 and uniform(words) * (share + (1.0 - share) * q) < share:
            out[row] = mean[row]
            continue
        out[row] = draw_truncated(
            n, mean[row], prior[3] + 0.5 * m2[row], prior[2], low, high, words
        )


@leaf
def draw_truncated(
    n: float, mean: float, B: float, alpha0: float, low: float, high: float, words: Words
) -> float:
    """Draw theta of a noisy pair, n rewards of which have the mean `mean`."""
    nu, power, width = 2.0 * alpha0 + n - 1.0, alpha0 + 0.5 * n, high - low
    if width * width * n * nu < 2.0 * B:
        nearest = min(max(mean, low), high) - mean
        top = 2.0 * B + n * nearest * nearest
        while True:
            theta = low + width * uniform(words)
            gap = theta - mean
            if uniform(words) < (top / (2.0 * B + n * gap * gap)) ** power:
                return theta
    while True:
        scaled_precision = max(draw_gamma(0.5 * nu, words), LEAST)
        theta = mean + standard_normal(words) * math.sqrt(B / (n * scaled_precision))
        if low <= theta <= high:
            return theta


def repeated_chances(seen: Any, m2: Floats) -> Any:
    """Return q `(S*A,)` of all pairs."""
    q = np.where(seen > 0, 1.0 / np.maximum(seen, 1.0), 0.0)
    return np.where(m2 > 0, np.where(seen > 1, VARIED, 0.0), q)


def facts_of_kinds(seen: Any, m2: Floats) -> dict[str, Any]:
    """Return the mean and 95% interval of w, and how many pairs' rewards are of which kind."""
    told, w = seen > 1, share_facts(repeated_chances(seen, m2))
    return {
        "parameters": {"share of pairs with constant rewards": w},
        "equal_rewards": int((told & (m2 == 0)).sum()),
        "noisy_rewards": int((told & (m2 > 0)).sum()),
        "pairs": len(seen),
    }


def constant_chances(seen: Any, m2: Floats) -> Floats:
    """Return the probability `(S*A,)` that each row's rewards are constant."""
    chances = plain_chances(repeated_chances(seen, m2))
    return np.where((m2 > 0) & (seen > 0), 0.0, chances)


def means_in_range(seen: Any, mean: Floats, m2: Floats, prior: Floats) -> Floats:
    """Return the posterior mean `(S*A,)` of every row's theta; `prior` as in `widened`."""
    low, high = widened(seen, mean, m2, prior)
    n, alpha0 = np.maximum(seen, 1.0), prior[2]
    B, nu = prior[3] + 0.5 * m2, 2.0 * alpha0 + n - 1.0
    gaps = np.array([low - mean, high - mean])
    scale = np.sqrt(2.0 * B / (n * nu))
    # z = theta - m in scales; z (1 + z^2/nu)^-(nu+1)/2 integrates to the difference of `edges`.
    z = gaps / scale
    grown = np.log1p(z * z / nu)
    at_one = np.abs(nu - 1.0) < 1e-9
    factor = nu / np.where(at_one, 1.0, 1.0 - nu)
    edges = np.where(at_one, 0.5 * grown, factor * np.expm1(0.5 * (1.0 - nu) * grown))
    mass = scipy.special.stdtr(nu, z)
    density = np.exp(
        scipy.special.gammaln(0.5 * (nu + 1.0))
        - scipy.special.gammaln(0.5 * nu)
        - 0.5 * np.log(nu * np.pi)
    )
    noisy = mean + scale * density * (edges[1] - edges[0]) / (mass[1] - mass[0])
    constant = constant_chances(seen, m2)
    known = constant * mean + (1.0 - constant) * noisy
    held = np.minimum(seen, 1.0)
    return np.asarray(held * known + (1.0 - held) * 0.5 * (low + high))
