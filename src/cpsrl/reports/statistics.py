"""Numbers from regret curves: bands, paired differences, growth, and what is still linear.

Every function takes plain arrays with one row per run, `regret` of shape (runs, points) at `times`
of shape (points,), and returns numbers; drawing is elsewhere.

Intervals are percentile bootstraps over runs (Efron and Tibshirani 1993): the runs are drawn anew
with replacement, `draws` times, and the interval spans the central `level` of the statistic. A draw
is a vector of weights (how often each run was taken), so the means of all draws at all points are
one matrix product. Draws are seeded: the same curves give the same interval.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEVEL = 0.95
DRAWS = 2_000


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval."""

    value: float
    low: float
    high: float
    level: float = LEVEL

    def __str__(self) -> str:
        return f"{self.value:,.4g} [{self.low:,.4g}, {self.high:,.4g}]"


@dataclass(frozen=True)
class Band:
    """A curve with a confidence band, each of shape (points,)."""

    value: Floats
    low: Floats
    high: Floats
    level: float = LEVEL


def mean_band(regret: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Band:
    """Return the mean over runs at every point with a bootstrap confidence band."""
    curves = _curves(regret)
    means = _weights(len(curves), draws, seed) @ curves
    low, high = _central(means, level)
    return Band(curves.mean(axis=0), low, high, level)


def quantile_band(regret: ArrayLike, low: float = 0.1, high: float = 0.9) -> Band:
    """Return the median run at every point between the `low` and `high` quantiles of the runs."""
    curves = _curves(regret)
    bottom, middle, top = np.quantile(curves, [low, 0.5, high], axis=0)
    return Band(middle, bottom, top, high - low)


def mean(values: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Interval:
    """Return the mean of one number per run, `values` of shape (runs,), with its interval."""
    band = mean_band(np.asarray(values, dtype=np.float64)[:, None], level, draws, seed)
    return Interval(float(band.value[0]), float(band.low[0]), float(band.high[0]), level)


def standard_error(values: ArrayLike) -> float:
    """Return the standard error of the mean of `values` (runs,); NaN for a single run."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else np.nan


def paired_difference(
    first: ArrayLike, second: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Return the mean of `first` minus `second` over the same runs, each of shape (runs,).

    Run k of two agents meets the same environment noise, so the difference run by run has less
    variance than the difference of two independent means.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"a paired difference needs the same runs: {len(a)} against {len(b)}")
    return mean(a - b, level, draws, seed)


def ratio_of_means(
    first: ArrayLike, second: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Return mean(first) / mean(second) over the same runs, each of shape (runs,)."""
    pair = np.stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)], 1)
    means = _weights(len(pair), draws, seed) @ pair
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = _central(means[:, 0] / means[:, 1], level)
        value = pair[:, 0].mean() / pair[:, 1].mean()
    return Interval(float(value), float(low), float(high), level)


def growth_exponent(
    times: ArrayLike,
    regret: ArrayLike,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
    points: int = 16,
) -> Interval:
    """Return the exponent b of mean regret ~ t^b over the last decade, [T/10, T].

    Least squares of log mean regret on log t over at most `points` recorded steps, spread evenly
    in log t so that a dense record does not weigh the end of the decade more than its beginning.
    It is 1 for linear regret, .5 for the square root, near 0 for logarithmic. NaN where the mean
    regret is not positive throughout or fewer than two steps were recorded.
    """
    t, curves = _times(times), _curves(regret)
    wanted = np.geomspace(t[-1] / 10, t[-1], points)
    chosen = np.unique(np.searchsorted(t, wanted * (1 - 1e-12)))
    chosen = chosen[chosen < len(t)]
    if len(chosen) < 2:
        return Interval(np.nan, np.nan, np.nan, level)
    x = np.log(t[chosen].astype(np.float64))
    x -= x.mean()
    slope = x / (x @ x)
    curves = curves[:, chosen]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(curves.mean(axis=0)) @ slope
        drawn = np.log(_weights(len(curves), draws, seed) @ curves) @ slope
    low, high = _central(drawn, level)
    return Interval(float(value), float(low), float(high), level)


def slope(times: ArrayLike, regret: ArrayLike, since: float) -> Floats:
    """Return every run's regret per step from step `since` * T to the end T, of shape (runs,).

    The regret at `since` * T is interpolated between recorded steps, and is 0 at step 0.
    """
    t, curves = _times(times), _curves(regret)
    start = since * t[-1]
    known = np.concatenate([[0.0], t.astype(np.float64)])
    right = int(np.clip(np.searchsorted(known, start), 1, len(t)))
    share = (start - known[right - 1]) / (known[right] - known[right - 1])
    before = curves[:, right - 2] if right > 1 else 0.0
    at_start = (1 - share) * before + share * curves[:, right - 1]
    return np.asarray((curves[:, -1] - at_start) / (t[-1] - start))


def last_tenth(times: ArrayLike, regret: ArrayLike) -> Floats:
    """Return every run's regret per step over the last tenth of its steps, of shape (runs,)."""
    return slope(times, regret, 0.9)


def still_linear(
    times: ArrayLike, regret: ArrayLike, gain: ArrayLike, threshold: float = 0.05
) -> NDArray[np.bool_]:
    """Return which runs still have linear regret, of shape (runs,).

    A run counts when it loses more than `threshold` times the optimal `gain` (a number, or one per
    run) at every step, both over the last tenth and from T/10 on: the first alone would be swayed
    by the noise of a short window, the second alone by a lump of early regret.
    """
    limit = threshold * np.abs(np.asarray(gain, dtype=np.float64))
    return np.asarray((slope(times, regret, 0.9) > limit) & (slope(times, regret, 0.1) > limit))


def _curves(regret: ArrayLike) -> Floats:
    curves = np.asarray(regret, dtype=np.float64)
    if curves.ndim != 2 or 0 in curves.shape:
        raise ValueError(f"regret must be (runs, points) with at least one each: {curves.shape}")
    return curves


def _times(times: ArrayLike) -> NDArray[np.int64]:
    t = np.asarray(times, dtype=np.int64)
    if t.ndim != 1 or len(t) == 0 or t[0] < 1 or np.any(np.diff(t) <= 0):
        raise ValueError("times must be steps of at least 1 in increasing order")
    return t


def _weights(runs: int, draws: int, seed: int) -> Floats:
    """Return the bootstrap's weights (draws, runs): every row sums to one."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=draws) / runs


def _central(draws: Floats, level: float) -> tuple[Floats, Floats]:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return low, high
