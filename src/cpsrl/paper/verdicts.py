"""What a claim is.

A claim is a statement with a check that computes both of its sides. Its `ratio` says how close it
came: left side over right side for an inequality, distance over the distance allowed for an
equality, so that up to 1 it holds, and a success with a ratio of 1e-4 shows itself as a vacuous
one. A claim that is random says so by giving its confidence level: with it as a probability (over
seeds), a true statement is not reported as failing. Several tests in one claim share the level
(Bonferroni).

A check that can't fail teaches nothing. So each has a control, which the same check is put to: a
wrong constant, prior or rule, which must fail; or, where the statement itself is false, what is
true instead, which must hold. A statement that would hold whatever was measured, such as a bound
above the trivial one, is not said to hold: it is vacuous.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

LEVEL = 0.99
Details = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much to compute for a claim.

    Attributes:
        quick: whether to keep it short.
        seed: the root seed of everything random.
        progress: called with the share of the claim that is done.
    """

    quick: bool = False
    seed: int = 0
    progress: Callable[[float], None] = field(default=lambda share: None, compare=False)

    def choose(self, quick: Any, full: Any) -> Any:
        """Return the first in a quick run and the second in a full one."""
        return quick if self.quick else full

    def counter(self, total: float) -> Callable[[float], None]:
        """Return a function that takes how much of `total` has just been done."""
        done = 0.0

        def count(amount: float) -> None:
            nonlocal done
            done += amount
            self.progress(min(1.0, done / total))

        return count


@dataclass(frozen=True)
class Control:
    """What else the check of a claim was put to.

    Attributes:
        what: the wrong constant, prior or rule, or the statement that is true instead.
        ratio: as that of a verdict.
        must_hold: whether it is known to hold; a control of a true statement must fail.
    """

    what: str
    ratio: float
    must_hold: bool = False

    @property
    def as_expected(self) -> bool:
        """Whether the check told right from wrong."""
        return (self.ratio <= 1) == self.must_hold


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Attributes:
        holds: whether the statement held.
        ratio: how close it came: at most 1 where it holds.
        control: what else the check was put to.
        details: what was computed, as numbers, words and lists of them.
        level: the confidence level of a random check; None where nothing is random.
        vacuous: whether it would have held whatever was measured.
    """

    holds: bool
    ratio: float
    control: Control
    details: Details
    level: float | None = None
    vacuous: bool = False

    @property
    def word(self) -> str:
        """The verdict: "holds", "fails" or "vacuous"."""
        return "fails" if not self.holds else "vacuous" if self.vacuous else "holds"


Check = Callable[[Effort], Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement that can be checked.

    Attributes:
        name: what `cpsrl verify --only` calls it.
        reference: where it stands in the paper, or that it is ours.
        statement: what it says.
        check: computes both sides.
        true: whether the statement is known to be true; False where a counterexample is known.
        vacuous: whether it is known to say nothing at the sizes that can be computed.
        instead: what is true, where the statement is not.
        counterexample: its name in `cpsrl.paper.counterexamples`, if there is one.
    """

    name: str
    reference: str
    statement: str
    check: Check
    true: bool = True
    vacuous: bool = False
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
        """Whether the claim and its control both had the expected outcome."""
        known = "fails" if not self.claim.true else "vacuous" if self.claim.vacuous else "holds"
        return self.verdict.word == known and self.verdict.control.as_expected

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as a tree of plain values."""
        return {
            "name": self.claim.name,
            "reference": self.claim.reference,
            "statement": self.claim.statement,
            "verdict": self.verdict.word,
            "holds": self.verdict.holds,
            "as_expected": self.as_expected,
            "ratio": self.verdict.ratio,
            "level": self.verdict.level,
            "control": asdict(self.verdict.control),
            "instead": self.claim.instead,
            "counterexample": self.claim.counterexample,
            "seconds": round(self.seconds, 3),
            "details": self.verdict.details,
        }


def claim(name: str, reference: str, statement: str, **rest: Any) -> Callable[[Check], Claim]:
    """Return a decorator that makes a claim of a check."""
    return lambda check: Claim(name, reference, statement, check, **rest)
