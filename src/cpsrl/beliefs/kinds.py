"""Pairs of two kinds, one of them plain, and the share of it that is learned across pairs.

With a chance w, the same for all pairs of a group, a pair is plain: what comes of it is the same
every time. Otherwise it is noisy, and then what came first comes again n - 1 times with a chance q
of its own (`reward_kinds` and `row_kinds` say which). Beforehand w is equally likely to have each
of the odds ODDS. So

    p(w | data) ~ p(w) prod_(pairs with n equal) (w + (1 - w) q) prod_(pairs with others) (1 - w),
    P(plain | w, n equal) = w / (w + (1 - w) q).

A pair seen once has q = 1 and says nothing of w, but is plain with the chance w.
"""

import math
from typing import Any

import numpy as np

from cpsrl._private.compile import leaf
from cpsrl._private.variates import Words, standard_exponential
from cpsrl.support.types import Floats

ODDS = tuple(math.exp(power) for power in range(-7, 8, 2))
"""Odds of a pair's being plain."""
VARIED = -1.0
"""In place of q where something else came; where nothing is said of the kind it is 0."""
OUTSIDE = 0.025
LEAST = 1e-200


@leaf
def draw_share(repeated: Floats, first: int, step: int, words: Words) -> float:
    """Draw w from the q `(n,)` of the pairs first, first + step, ...

    It is the one with the largest of log p(w | data) + G, with standard Gumbel variates G.
    """
    best, chosen = -math.inf, 0.0
    for odds in ODDS:
        noisy = 1.0 / (1.0 + odds)
        product, log = 1.0, 0.0
        for pair in range(first, len(repeated), step):
            q = repeated[pair]
            if q != 0.0 and q != 1.0:
                product *= noisy if q < 0.0 else noisy * (odds + q)
                if product < LEAST:
                    log += math.log(product)
                    product = 1.0
        log += math.log(product) - math.log(max(standard_exponential(words), LEAST))
        if log > best:
            best, chosen = log, odds * noisy
    return chosen


def share_weights(repeated: Floats) -> tuple[Floats, Floats]:
    """Return the values `(K,)` that w may have, and their posterior probabilities `(K,)`."""
    odds = np.array(ODDS)
    w, q = odds / (1.0 + odds), repeated[repeated > 0.0]
    values, times = np.unique(q, return_counts=True)
    logs = np.log(w[:, None] + (1.0 - w[:, None]) * values) @ times
    logs = logs + np.log1p(-w) * (repeated < 0.0).sum()
    weights = np.exp(logs - logs.max())
    return w, weights / weights.sum()


def share_facts(repeated: Floats) -> dict[str, float]:
    """Return the mean and the 95% interval of w."""
    w, weights = share_weights(repeated)
    ends = np.searchsorted(np.cumsum(weights), (OUTSIDE, 1.0 - OUTSIDE)).clip(max=len(w) - 1)
    return {"mean": float(w @ weights), "low": float(w[ends[0]]), "high": float(w[ends[1]])}


def plain_chances(repeated: Floats) -> Any:
    """Return the probability `(n,)` that each pair is plain."""
    w, weights = share_weights(repeated)
    q = np.where(repeated > 0.0, repeated, 1.0)[:, None]
    return np.where(repeated < 0.0, 0.0, (w / (w + (1.0 - w) * q)) @ weights)
