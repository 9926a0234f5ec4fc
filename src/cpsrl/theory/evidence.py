"""What a claim is, and the statistics by which the random ones are judged.

A claim is a statement with a check that computes both of its sides. Its `ratio` says how close it
came: left side over right side for an inequality, distance over the distance allowed for an
equality, so that up to 1 it holds, and a success with a ratio of 1e-4 shows itself as a vacuous
one. A claim that is random says so by giving its confidence level: with it as a probability (over
seeds), a true statement is not reported as failing. Several tests in one claim share the level
(Bonferroni).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from cpsrl.types import Floats

LEVEL = 0.99
Details = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much to compute for a claim.

    Attributes:
        quick: whether to keep it short.
        seed: the root seed of everything random.
        progress: is told the share of the claim that is done.
    """

    quick: bool = False
    seed: int = 0
    progress: Callable[[float], None] = lambda share: None

    def choose(self, quick: Any, full: Any) -> Any:
        """Return the first in a quick run and the second in a full one."""
        return quick if self.quick else full

    def counter(self, total: float) -> Callable[[float], None]:
        """Return a function to be told how much of `total` has just been done."""
        done = 0.0

        def count(amount: float) -> None:
            nonlocal done
            done += amount
            self.progress(min(1.0, done / total))

        return count


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Attributes:
        holds: whether the statement held.
        ratio: how close it came: at most 1 where it holds.
        details: what was computed, as numbers, words and lists of them.
        level: the confidence level of a random check; None where nothing is random.
    """

    holds: bool
    ratio: float
    details: Details
    level: float | None = None


@dataclass(frozen=True)
class Claim:
    """A statement that can be checked.

    Attributes:
        name: what `cpsrl verify --only` calls it.
        reference: where it stands in the paper, or that it is ours.
        statement: what it says.
        check: computes both sides.
        true: whether the statement is known to be true; False where a counterexample is known.
        instead: what is true, where the statement is not.
        counterexample: its name in `cpsrl.theory.counterexamples`, if there is one.
    """

    name: str
    reference: str
    statement: str
    check: Callable[[Effort], Verdict]
    true: bool = True
    instead: str = ""
    counterexample: str = ""


@dataclass(frozen=True)
class Finding:
    """A claim with what its check found."""

    claim: Claim
    verdict: Verdict
    seconds: float

    @property
    def as_expected(self) -> bool:
        """Whether the claim came out as it is known to."""
        return self.verdict.holds == self.claim.true

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as a tree of plain values."""
        return {
            "name": self.claim.name,
            "reference": self.claim.reference,
            "statement": self.claim.statement,
            "holds": self.verdict.holds,
            "expected": self.claim.true,
            "ratio": self.verdict.ratio,
            "level": self.verdict.level,
            "instead": self.claim.instead,
            "counterexample": self.claim.counterexample,
            "seconds": round(self.seconds, 3),
            "details": self.verdict.details,
        }


def claim(
    name: str, reference: str, statement: str, **rest: Any
) -> Callable[[Callable[[Effort], Verdict]], Claim]:
    """Return a decorator that makes a claim of a check."""
    return lambda check: Claim(name, reference, statement, check, **rest)


def z_score(values: ArrayLike) -> float:
    """Return the mean of `values` `(n,)` over its standard error; 0 if all of them are 0."""
    x = np.asarray(values, np.float64)
    error = x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean() / error) if error > 0 else float(np.inf if x.any() else 0.0)


def critical_z(tests: int, level: float = LEVEL) -> float:
    """Return what none of `tests` two-sided z-scores exceeds with probability `level`, at least."""
    return float(scipy.stats.norm.isf((1 - level) / (2 * tests)))


def upper_mean(values: ArrayLike, level: float = LEVEL) -> float:
    """Return an upper confidence limit of the mean of `values` `(n,)` (Student's t)."""
    x = np.asarray(values, np.float64)
    error = x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean() + scipy.stats.t.isf(1 - level, len(x) - 1) * error)


def upper_probability(events: int, trials: int, level: float = LEVEL) -> float:
    """Return an upper confidence limit of a probability (Clopper and Pearson 1934)."""
    if events >= trials:
        return 1.0
    return float(scipy.stats.beta.isf(1 - level, events + 1, trials - events))


def exponent(
    times: ArrayLike, values: ArrayLike, level: float = LEVEL, draws: int = 2_000
) -> tuple[float, float, float]:
    """Return b of mean value ~ t^b, by least squares in logarithms, with a bootstrap interval.

    Args:
        times: `(points,)`.
        values: `(runs, points)`; the bootstrap draws runs.
        level: of the two-sided interval.
        draws: of the bootstrap.
    """
    x, curves = np.log(np.asarray(times, np.float64)), np.asarray(values, np.float64)
    x -= x.mean()
    slope = x / (x @ x)
    weights = np.random.default_rng(0).multinomial(
        len(curves), np.full(len(curves), 1 / len(curves)), size=draws
    )
    means: Floats = weights @ curves / len(curves)
    drawn = np.log(np.maximum(means, 1e-12)) @ slope
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(np.log(curves.mean(axis=0)) @ slope), float(low), float(high)
