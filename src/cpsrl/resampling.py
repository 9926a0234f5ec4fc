"""When to draw a new model: the resampling rules.

Time is counted in steps t = 1, 2, ... A rule decides, at the start of step t, whether the agent
resamples, that is, begins a new pseudo-episode. Step 1 always resamples.

Rules that do not look at the data are known in advance. They give, for a chunk of steps, two plain
arrays: `resample`, and `gamma`, the discount factor of each step (NaN where the rule has none).

    Bernoulli       X_t = 0, with X_t ~ Bernoulli(gamma_t), independent; X_1 = 0 is not drawn
                    (Xu, Dong and Van Roy 2024, Algorithms 1 and 2). gamma_t is a number, or
                    1 - sqrt(S A / T) for a known horizon T, or, for an unknown one,
                    1 - sqrt(S A / 2^(k+1)) for t in [2^k, 2^(k+1)); clipped to [0, 1)
    DoublingTimes   t in {1, 2, 4, 8, ...} (DS-PSRL, Theocharous et al. 2018)
    FixedLength     t in {1, 1 + L, 1 + 2 L, ...}
    EveryStep       every t
    Never           t = 1 only

Three rules look at N_t(s, a), the visits of (s, a) before step t, and so live where counts live:

    TSDEStops       t > t_k + T_(k-1), or N_t(s, a) > 2 N_(t_k)(s, a) for some (s, a); t_k is the
                    current pseudo-episode's first step, T_(k-1) the length of the one before it,
                    T_0 = 1 (Ouyang et al. 2017)
    CountDoubling   N_t(s, a) - N_(t_k)(s, a) >= max(1, N_(t_k)(s, a)) for some (s, a)
                    (Osband, Russo and Van Roy 2013)
    Discoveries     N_t(s, a) > 2 N_(t_k)(s, a) for some (s, a), or t - t_k >= sqrt(t)

The pair visited last is the only one whose count has changed since the test of step t - 1, so each
of these tests looks at that pair alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from cpsrl.support.checks import LARGEST, WrongTypeError, checked_gamma, checked_kind, checked_whole
from cpsrl.support.registry import Registry, unknown
from cpsrl.support.types import Bools, Floats

SCHEDULES = ("horizon", "doubling")
MOST_GAMMA = math.nextafter(1.0, 0.0)

Arrays = tuple[Bools, Floats | float]


class Rule:
    """When to resample; a rule of one's own is a subclass.

    One that is known in advance gives `arrays`. One that looks at the data gives `stops`, a
    function of

        t          the step about to be taken,
        began      t_k, the first step of the current pseudo-episode,
        previous   T_(k-1), the length of the pseudo-episode before it (T_0 = 1),
        visits     N_t of the pair visited at step t - 1,
        before     N_(t_k) of the same pair,
        memory     what `memory` returned at the start of the run, to read and to write,

    that says whether step t begins a new pseudo-episode. It is asked once at every step t >= 2, and
    compiled if Numba can compile it.
    """

    has_gamma: ClassVar[bool] = False
    """Whether the rule gives a discount factor."""
    stops: ClassVar[Callable[..., bool] | None] = None
    """The test of a rule that looks at the data."""
    words: ClassVar[str] = ""
    """The label; braces take the value of an option."""
    horizon: int | None = None
    """The number of steps that the rule is tuned to, if it is to one."""

    @property
    def label(self) -> str:
        """The rule in a word or two, for tables and figures."""
        return self.words.format(**vars(self)) or type(self).__name__

    @property
    def needs_counts(self) -> bool:
        """Whether the rule looks at the data."""
        return self.stops is not None

    def resolve(self, pairs: int | None, steps: int | None) -> "Rule":
        """Return the rule with everything that depends on S*A and the horizon filled in."""
        return self

    def arrays(self, first: int, n: int, rng: np.random.Generator) -> Arrays:
        """Return `resample` (n,) and `gamma` of the steps first, ..., first + n - 1.

        gamma is (n,), or a number where it is the same for all steps, NaN where there is none.
        """
        raise ValueError(
            f"the rule {self.label!r} is decided by the visit counts of state-action pairs, which "
            "only a table has; choose a rule that does not look at the data, such as bernoulli"
        )

    def memory(self) -> Floats:
        """Return the rule's own state at the start of a run, for `stops`."""
        return np.zeros(0)


RULES: Registry[Rule] = Registry("rule", Rule)


@RULES.add("bernoulli")
@dataclass(frozen=True)
class Bernoulli(Rule):
    """Resample with probability 1 - gamma_t at every step, whatever the data.

    Args:
        gamma: the same discount factor for every step (.99 where nothing else is given).
        schedule: "horizon", "doubling", or a function of the step t that returns gamma_t.
        horizon: T of the "horizon" schedule; None takes the number of steps of the simulation.
        pairs: S*A of the "horizon" and "doubling" schedules; None takes that of the problem.
    """

    gamma: float | None = None
    schedule: str | Callable[[int], float] | None = None
    horizon: int | None = None
    pairs: int | None = None

    has_gamma: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.gamma, str) or callable(self.gamma):
            said = repr(self.gamma) if isinstance(self.gamma, str) else "a function"
            schedule = callable(self.gamma) or self.gamma in SCHEDULES
            raise WrongTypeError(
                f"gamma must be a number in [0, 1), not {said}"
                + (f"; a schedule is given as schedule={said}" if schedule else "")
            )
        if self.schedule is None:
            gamma = 0.99 if self.gamma is None else self.gamma
            object.__setattr__(self, "gamma", checked_gamma(gamma))
        elif self.gamma is not None:
            raise ValueError("a Bernoulli rule takes gamma or a schedule, not both")
        elif isinstance(self.schedule, str) and self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        elif not callable(self.schedule):
            checked_kind("schedule", self.schedule, str, "'horizon', 'doubling' or a function of t")
        if self.horizon is not None and self.schedule != "horizon":
            raise ValueError("horizon goes with schedule='horizon' only")
        for name in ("horizon", "pairs"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_whole(name, getattr(self, name), 1, LARGEST))

    @property
    def label(self) -> str:
        """The gamma or the schedule."""
        if self.schedule is None:
            return f"gamma={self.gamma:.12g}"
        if self.schedule == "horizon":
            return "horizon" if self.horizon is None else f"horizon T={self.horizon}"
        return "doubling" if self.schedule == "doubling" else "schedule"

    def resolve(self, pairs: int | None, steps: int | None) -> "Bernoulli":
        """Return the rule with the horizon and S*A filled in, where it uses them."""
        if not isinstance(self.schedule, str):
            return self
        if self.pairs is None and pairs is None:
            raise ValueError(
                f"the {self.schedule!r} schedule is a matter of S*A, and vectors have no "
                "number of states: give the rule pairs=S*A"
            )
        rule = replace(self, pairs=self.pairs or pairs)
        if self.schedule == "horizon" and self.horizon is None:
            if steps is None:
                raise ValueError(
                    "the 'horizon' schedule needs to know for how many steps it is tuned: "
                    "give horizon=T"
                )
            rule = replace(rule, horizon=steps)
        return rule

    def gammas(self, first: int, n: int) -> Floats | float:
        """Return gamma_t `(n,)` for t = first, ..., first + n - 1; a number if it is constant."""
        if self.gamma is not None:
            return self.gamma
        if callable(self.schedule):
            return np.array([self._scheduled(t) for t in range(first, first + n)])
        if self.pairs is None or (self.schedule == "horizon" and self.horizon is None):
            raise ValueError(f"the {self.schedule!r} schedule is not resolved: call resolve first")
        if self.schedule == "horizon":
            assert self.horizon is not None
            return min(MOST_GAMMA, max(0.0, 1.0 - math.sqrt(self.pairs / self.horizon)))
        # frexp gives the exponent e with 2^(e-1) <= t < 2^e.
        exponent = np.frexp(np.arange(first, first + n, dtype=np.float64))[1]
        return np.clip(1.0 - np.sqrt(self.pairs / np.ldexp(1.0, exponent)), 0.0, MOST_GAMMA)

    def _scheduled(self, t: int) -> float:
        assert callable(self.schedule)
        try:
            gamma = self.schedule(t)
        except Exception as error:
            raise ValueError(
                f"the schedule has no gamma for step {t} ({error!r}): a schedule is a function of "
                "every step, and asked for some that are never taken"
            ) from error
        return checked_gamma(gamma, t)

    def arrays(self, first: int, n: int, rng: np.random.Generator) -> Arrays:
        """Return the coins and gammas of a chunk; one uniform from `rng` for every step t >= 2."""
        gamma = self.gammas(first, n)
        if first > 1:
            return rng.random(n) >= gamma, gamma
        resample = np.ones(n, np.bool_)
        resample[1:] = rng.random(n - 1) >= (gamma if isinstance(gamma, float) else gamma[1:])
        return resample, gamma


@RULES.add("doubling-times")
@dataclass(frozen=True)
class DoublingTimes(Rule):
    """Resample at steps 1, 2, 4, 8, ..."""

    words: ClassVar[str] = "doubling times"

    def arrays(self, first: int, n: int, rng: np.random.Generator) -> Arrays:
        """Return the powers of two among the steps of a chunk; `rng` is not used."""
        t = np.arange(first, first + n)
        return t & (t - 1) == 0, math.nan


@RULES.add("fixed-length")
@dataclass(frozen=True)
class FixedLength(Rule):
    """Resample every `length` steps: at 1, 1 + length, 1 + 2 length, ..."""

    length: int = 100

    words: ClassVar[str] = "length={length}"

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", checked_whole("length", self.length, 1))

    def arrays(self, first: int, n: int, rng: np.random.Generator) -> Arrays:
        """Return the first steps of the stretches; `rng` is not used."""
        return np.arange(first - 1, first - 1 + n) % self.length == 0, math.nan


@RULES.add("every-step")
@dataclass(frozen=True)
class EveryStep(Rule):
    """Resample at every step."""

    words: ClassVar[str] = "every step"

    def arrays(self, first: int, n: int, rng: np.random.Generator) -> Arrays:
        """Return True for every step; `rng` is not used."""
        return np.ones(n, np.bool_), math.nan


@RULES.add("never")
@dataclass(frozen=True)
class Never(Rule):
    """Resample at step 1 and never again."""

    words: ClassVar[str] = "never"

    def arrays(self, first: int, n: int, rng: np.random.Generator) -> Arrays:
        """Return True for step 1 alone; `rng` is not used."""
        return np.arange(first, first + n) == 1, math.nan


@RULES.add("tsde")
@dataclass(frozen=True)
class TSDEStops(Rule):
    """Resample when the pseudo-episode outlasts the one before it, or a visit count doubles."""

    words: ClassVar[str] = "TSDE"

    @staticmethod
    def stops(t: int, began: int, previous: int, visits: int, before: int, memory: Floats) -> bool:
        """Return whether step t begins a new pseudo-episode."""
        return t > began + previous or visits > 2 * before


@RULES.add("discoveries")
@dataclass(frozen=True)
class Discoveries(Rule):
    """Resample when a visit count has more than doubled, or after sqrt(t) steps.

    The former ends what is new or useless: after the first visit to a pair, and the third, ... The
    latter is as often as a coin of the rate 1 / sqrt(t) falls, in about 2 sqrt(T) of T steps.
    """

    words: ClassVar[str] = "discoveries"

    @staticmethod
    def stops(t: int, began: int, previous: int, visits: int, before: int, memory: Floats) -> bool:
        """Return whether step t begins a new pseudo-episode."""
        return visits > 2 * before or t - began >= math.sqrt(t)


@RULES.add("count-doubling")
@dataclass(frozen=True)
class CountDoubling(Rule):
    """Resample when the visits of a pair in this pseudo-episode reach those before it."""

    words: ClassVar[str] = "count doubling"

    @staticmethod
    def stops(t: int, began: int, previous: int, visits: int, before: int, memory: Floats) -> bool:
        """Return whether step t begins a new pseudo-episode."""
        return visits - before >= max(1, before)


def rule_arrays(rule: Rule, first: int, n: int, rng: np.random.Generator) -> Arrays:
    """Return what `rule.arrays` gives, or raise if that is not what it should be."""
    resample, gamma = rule.arrays(first, n, rng)
    coins = np.asarray(resample)
    gammas = gamma if isinstance(gamma, float) else np.asarray(gamma)
    right = coins.dtype == np.bool_ and coins.shape == (n,)
    if not right or (not isinstance(gammas, float) and gammas.shape != (n,)):
        raise ValueError(
            f"the rule {rule.label!r} must give {n} booleans and {n} floats or one, not "
            f"{coins.dtype} {coins.shape} and {gamma!r}"
        )
    if first == 1 and not coins[0]:
        raise ValueError(f"the rule {rule.label!r} must resample at step 1: there is no policy yet")
    least, most = (gammas,) * 2 if isinstance(gammas, float) else (gammas.min(), gammas.max())
    if rule.has_gamma and not 0 <= least <= most < 1:
        raise ValueError(f"the rule {rule.label!r} must give gammas in [0, 1), not {gammas}")
    return coins, gammas


def checked_rule(rule: Any) -> Rule:
    """Return `rule`, or raise if it is not one."""
    checked_kind("rule", rule, Rule, "one such as Bernoulli(0.99), or of a subclass of cpsrl.Rule")
    if rule.stops is not None and hasattr(rule.stops, "__self__"):
        raise ValueError(f"the test `stops` of the rule {rule.label!r} must be a static method")
    if (type(rule).arrays is Rule.arrays) == (rule.stops is None):
        raise ValueError(
            f"the rule {rule.label!r} must have `arrays`, if it is known in advance, or else a "
            "test `stops`, and not both"
        )
    return rule
