r"""Numbers from runs: means, differences, ratios and growth with intervals that keep their level.

Every function takes plain arrays with one row per run, such as `regret` of shape (runs, points) at
`times` of shape (points,), and returns numbers; drawing is elsewhere.

Intervals are studentised bootstraps over runs (Efron 1979; Hall 1988). For a smooth function theta
of the means m of n runs x_i, with gradient G, the standard error is that of the mean of G . x_i:

    s^2 = sum_i (G . (x_i - m))^2 / (n (n - 1)).

The runs are drawn anew with replacement, `draws` times; each draw gives theta* and s*, and the
quantiles of t* = (theta* - theta) / s* take the place of Student's, so that skewness, which regret
has, moves the interval: [theta - t*_high s, theta - t*_low s]. Its error is of order 1/n where a
percentile bootstrap's is of order 1/sqrt(n). Ratios and exponents are taken in logarithms. At both
ends Student's quantile is used where it is farther out, which keeps the level for a dozen runs of a
symmetric distribution with heavy tails, such as a difference has; and where t* is infinite, as for
2 or 3 runs, many draws of which are all alike.

One run, or runs that are all alike, tell nothing of their spread: their interval is NaN. And no
method sees a rare failure that did not occur: with fewer than `FEW` runs a failure of one run in
twenty is more likely missed than not. docs/statistics.md has the coverage of every kind of
interval.

Draws are seeded: the same runs give the same interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from cpsrl.support.checks import LARGEST_WHOLE, checked_floats
from cpsrl.support.types import Bools, Ints

Floats = NDArray[np.float64]

LEVEL = 0.95
DRAWS = 2_000
FEW = 20


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval, NaN where the runs don't tell."""

    value: float
    low: float
    high: float
    level: float = LEVEL

    def __str__(self) -> str:
        return f"{self.value:,.4g} [{self.low:,.4g}, {self.high:,.4g}]"


@dataclass(frozen=True)
class Band:
    """A curve with a confidence interval at every point, each of shape (points,)."""

    value: Floats
    low: Floats
    high: Floats
    level: float = LEVEL

    def at(self, place: int) -> Interval:
        """Return the estimate and its interval at one point."""
        value, low, high = (float(curve[place]) for curve in (self.value, self.low, self.high))
        return Interval(value, low, high, self.level)


def mean_band(regret: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Band:
    """Return the mean over runs at every point with its interval, point by point."""
    curves = _curves(regret)
    value = curves.mean(axis=0)
    shares = _limits(level)
    if len(curves) < 2:
        return Band(value, np.full_like(value, np.nan), np.full_like(value, np.nan), level)
    t = _student_draws(curves - value, draws, seed)
    error = curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
    error[np.ptp(curves, axis=0) == 0] = np.nan
    high, low = (value - _quantile(t, share, len(curves)) * error for share in shares)
    return Band(value, low, high, level)


def quantile_band(regret: ArrayLike, low: float = 0.1, high: float = 0.9) -> Band:
    """Return the median run at every point between the `low` and `high` quantiles of the runs."""
    bottom, middle, top = np.quantile(_curves(regret), [low, 0.5, high], axis=0)
    return Band(middle, bottom, top, high - low)


def mean(values: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Interval:
    """Return the mean of one number per run, `values` of shape (runs,), with its interval."""
    return mean_band(checked_floats("values", values, 1)[:, None], level, draws, seed).at(0)


def upper_mean(values: ArrayLike, level: float = LEVEL, draws: int = DRAWS) -> float:
    """Return an upper confidence limit of the mean of `values` (runs,)."""
    return mean(values, 2 * level - 1, draws).high


def standard_error(values: ArrayLike) -> float:
    """Return the standard error of the mean of `values` (runs,); NaN for a single run."""
    numbers = checked_floats("values", values, 1)
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else np.nan


def paired_difference(
    first: ArrayLike, second: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Return the mean of `first` minus `second` over the same runs, each of shape (runs,).

    Run k of two agents meets the same environment noise, so the difference run by run has less
    variance than the difference of two independent means. With `a` and `b` from `simulate`, on the
    same MDP, seeds and root seed, `paired_difference(a.regret[:, -1], b.regret[:, -1])` says by how
    much the first agent's regret is larger: below 0, the first is better.

    Args:
        first: `(runs,)`, one number per run.
        second: `(runs,)`, those of the other agent, in the same order of runs.
        level: of the interval.
        draws: of the bootstrap.
        seed: of the draws.
    """
    a, b = checked_floats("first", first), checked_floats("second", second)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"a paired difference needs one number for each of the same runs, (runs,), not "
            f"{a.shape} against {b.shape}; of curves take one point, such as runs.regret[:, -1]"
        )
    return mean(a - b, level, draws, seed)


def ratio_of_means(
    first: ArrayLike, second: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Return mean(first) / mean(second) over the same runs, each of shape (runs,).

    NaN where a mean, or that of a draw, is not positive.
    """
    pair = np.stack([checked_floats("first", first, 1), checked_floats("second", second, 1)], 1)
    found = _of_logarithms(pair, np.array([1.0, -1.0]), level, draws, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(pair[:, 0].mean() / pair[:, 1].mean())
    with np.errstate(over="ignore"):  # of a few runs, the upper limit may be infinite
        return Interval(value, float(np.exp(found.low)), float(np.exp(found.high)), level)


def exponent(
    times: ArrayLike, values: ArrayLike, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Return b of mean value ~ t^b, by least squares in logarithms; `values` (runs, points)."""
    x = np.log(checked_floats("times", times, 1))
    x -= x.mean()
    return _of_logarithms(_curves(values), x / (x @ x), level, draws, seed)


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
    return exponent(t[chosen], curves[:, chosen], level, draws, seed)


@dataclass(frozen=True)
class Comparison:
    """Two agents on the same runs.

    Attributes:
        first, second: their labels.
        difference: the mean of the first less the second, run by run.
        p: the two-sided p-value, adjusted for all comparisons made.
        floor: the least value of `p` that so many draws and comparisons can tell from smaller ones.
    """

    first: str
    second: str
    difference: Interval
    p: float
    floor: float = 0.0

    @property
    def p_words(self) -> str:
        """The p-value as text, such as "p = .03", and "p <= .004" at the floor."""
        if np.isnan(self.p):
            return "p unknown"
        sign, shown = ("<=", self.floor) if self.p <= self.floor else ("=", self.p)
        return f"p {sign} " + f"{shown:.2g}".replace("0.", ".")


def comparisons(
    values: Mapping[str, ArrayLike], level: float = LEVEL, draws: int = 5_000, seed: int = 0
) -> list[Comparison]:
    """Compare all pairs of agents, `values` by label, each of shape (runs,) on the same runs.

    The probability that any p-value falls to a or below where no pair differs is at most a,
    whatever their number (`holm`). The intervals are for one comparison at a time.

    A bootstrap of `draws` gives no p-value below 2 / (draws + 1), times the number of comparisons:
    what is smaller is given as that (`Comparison.floor`).
    """
    pairs = list(combinations(values, 2))
    if not pairs:
        return []
    each = {label: checked_floats("values", given, 1) for label, given in values.items()}
    gaps = np.stack([each[first] - each[second] for first, second in pairs], axis=1)
    band, adjusted = mean_band(gaps, level, draws, seed), holm(p_values(gaps, draws, seed))
    floor = min(1.0, len(pairs) * least_p(draws))
    return [
        Comparison(*pair, band.at(i), float(adjusted[i]), floor) for i, pair in enumerate(pairs)
    ]


def least_p(draws: int) -> float:
    """Return the least p-value that `draws` of a bootstrap can give."""
    return 2 / (draws + 1)


def p_values(values: ArrayLike, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Return the two-sided p-values `(tests,)` of means of 0 for the columns of (runs, tests).

    Each is the larger of the studentised bootstrap's and Student's, as intervals have the quantile
    that is farther out: where it is at most a, the interval of level 1 - a does not contain 0. NaN
    where the runs don't tell.
    """
    x = _curves(values)
    means, found = x.mean(axis=0), np.where(x.any(axis=0) | (len(x) < 2), np.nan, 1.0)
    spread = np.ptp(x, axis=0) > 0
    if len(x) < 2 or not spread.any():
        return found
    own = means[spread] / (x[:, spread].std(axis=0, ddof=1) / np.sqrt(len(x)))
    t = _student_draws(x[:, spread] - means[spread], draws, seed)
    beyond = np.minimum((t >= own).sum(axis=0), (t <= own).sum(axis=0))
    student = 2 * scipy.stats.t.sf(np.abs(own), len(x) - 1)
    found[spread] = np.minimum(1.0, np.maximum((beyond + 1) * least_p(draws), student))
    return found


def holm(p: ArrayLike) -> Floats:
    """Return p-values `(tests,)` adjusted for their number (Holm 1979); NaN stays and counts."""
    raw = checked_floats("p", p, 1)
    order = np.argsort(raw, kind="stable")
    adjusted = raw[order] * (len(raw) - np.arange(len(raw)))
    result = np.empty_like(raw)
    result[order] = np.minimum(np.maximum.accumulate(adjusted), 1.0)
    return result


def z_score(values: ArrayLike) -> float:
    """Return the mean of `values` `(n,)` over its standard error; 0 if all of them are 0."""
    x = checked_floats("values", values, 1)
    error = standard_error(x)
    return float(x.mean() / error) if error > 0 else float(np.inf if x.any() else 0.0)


def critical_z(tests: int, level: float) -> float:
    """Return what none of `tests` two-sided z-scores exceeds with probability `level`, at least."""
    return float(scipy.stats.norm.isf((1 - level) / (2 * tests)))


def upper_probability(events: int, trials: int, level: float = LEVEL) -> float:
    """Return an upper confidence limit of a probability (Clopper and Pearson 1934)."""
    if events >= trials:
        return 1.0
    return float(scipy.stats.beta.isf(1 - level, events + 1, trials - events))


def probability(events: int, trials: int, level: float = LEVEL) -> Interval:
    """Return a share with lower and upper confidence limits, each of which keeps `level`."""
    low = 1 - upper_probability(trials - events, trials, level)
    return Interval(events / trials, low, upper_probability(events, trials, level), level)


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
) -> Bools:
    """Return which runs still have linear regret, of shape (runs,).

    A run counts when it loses more than `threshold` times `gain` (a number, or one per run: the
    optimal gain, or better what the random policy loses a step, since one low reward that nobody
    meets makes the gain above it large) at every step, both over the last tenth and from T/10 on:
    the first alone would be swayed by the noise of a short window, the second alone by a lump of
    early regret.
    """
    limit = threshold * np.abs(checked_floats("gain", gain))
    return np.asarray((last_tenth(times, regret) > limit) & (slope(times, regret, 0.1) > limit))


def _curves(regret: ArrayLike) -> Floats:
    curves = checked_floats("regret", regret)
    if curves.ndim != 2 or 0 in curves.shape:
        raise ValueError(f"regret must be (runs, points) with at least one each: {curves.shape}")
    return curves


def _times(times: ArrayLike) -> Ints:
    t = checked_floats("times", times, 1)
    if len(t) == 0 or not 1 <= t[0] <= t[-1] < LARGEST_WHOLE or not np.all(np.diff(t) > 0):
        raise ValueError("times must be steps of at least 1 in increasing order")
    return t.astype(np.int64)


def _weights(runs: int, draws: int, seed: int) -> Floats:
    """Return the bootstrap's weights (draws, runs): every row sums to one."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=draws) / runs


def _limits(level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")
    return (1 - level) / 2, (1 + level) / 2


def _student_draws(centred: Floats, draws: int, seed: int) -> Floats:
    """Return t* (draws, points) of runs less their mean, `centred` (runs, points)."""
    weights = _weights(len(centred), draws, seed)
    means = weights @ centred
    variances = weights @ centred**2 - means**2
    return _studentised(means, variances, len(centred))


def _studentised(distances: Floats, variances: Floats, runs: int) -> Floats:
    """Return distances over standard errors; what rounding leaves of a variance of 0 is 0."""
    noise = 1e-13 * np.max(variances, axis=0, initial=0.0)
    errors = np.sqrt(np.where(variances > noise, variances, 0.0) / max(runs - 1, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distances == 0, 0.0, distances / errors)


def _quantile(t: Floats, share: float, runs: int) -> Floats:
    """Return a quantile of t* (draws, ...) or Student's, whichever is farther out and finite."""
    place = int(np.clip(np.rint(share * (len(t) + 1)) - 1, 0, len(t) - 1))
    found, student = np.partition(t, place, axis=0)[place], scipy.stats.t.ppf(share, runs - 1)
    outer = np.maximum(found, student) if share > 0.5 else np.minimum(found, student)
    return np.where(np.isfinite(found), outer, student)


def _of_logarithms(
    curves: Floats, weights: Floats, level: float, draws: int, seed: int
) -> Interval:
    """Return sum_k weights_k log(mean of column k), `curves` (runs, points), with its interval."""
    low, high = _limits(level)
    runs, means = len(curves), curves.mean(axis=0)
    if not (means > 0).all():
        return Interval(np.nan, np.nan, np.nan, level)
    value = float(np.log(means) @ weights)
    influence = (curves / means - 1) @ weights
    taken = _weights(runs, draws, seed)
    drawn = taken @ curves
    if runs < 2 or np.ptp(influence) <= 1e-12 or not (drawn > 0).all():
        return Interval(value, np.nan, np.nan, level)
    each = (weights / drawn) @ curves.T
    centre = (taken * each).sum(axis=1)
    variances = (taken * (each - centre[:, None]) ** 2).sum(axis=1)
    t = _studentised(np.log(drawn) @ weights - value, variances, runs)
    error = float(influence.std(ddof=1) / np.sqrt(runs))
    bottom, top = (value - float(_quantile(t, share, runs)) * error for share in (high, low))
    return Interval(value, bottom, top, level)
