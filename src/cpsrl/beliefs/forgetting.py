"""A belief for a world that changes: evidence fades by the clock, for all rows alike.

A transition that was observed `age` transitions ago counts as 2^(-age / half_life) of one, and the
prior as it is. What is believed is the power posterior

    p(M) * prod_i p(transition i | M)^(w_i),   w_i = 2^(-age_i / half_life),

so the whole evidence never weighs more than 1 / (1 - 2^(-1 / half_life)) transitions, about 1.44
half-lives, and the posterior never freezes. A row that is not visited goes back to the prior, and
so is explored again.

Conjugate beliefs stay conjugate: a Dirichlet's counts become sums of weights, and for normal-gamma
rewards so do n, the mean m = sum w x / n and M2 = sum w (x - m)^2, which take the place of n, m and
M2 in `rewards`. When k more transitions come, all weights first fade by f = 2^(-k / half_life):
counts, n and M2 by f, and m not at all. Then each is entered, by the weighted form of Welford's
recursion (West 1979):

    n <- n + w,   d = x - m,   m <- m + d w / n,   M2 <- M2 + w d (x - m).

A parameter that calls a transition impossible would be excluded for ever, since 0^w is 0 for every
w > 0, and no parameter might be left once the world has changed. Where evidence fades, "impossible"
therefore counts as the smallest probability that a floating-point number can be, 5e-324 (`RARE`):
nothing that is possible counts for less, and a parameter comes back when what spoke against it has
faded to less than a thousandth of a transition.

Fading is done where transitions are handed over, so nothing is computed at every step, and fading
costs no more than the draw that follows. An infinite half-life is the belief inside itself.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from cpsrl.beliefs.belief import BELIEFS, Belief, Plain, checked_belief
from cpsrl.beliefs.dirichlet import Dirichlet
from cpsrl.mdp import Problem
from cpsrl.support.checks import checked_positive


@BELIEFS.add("forgetting")
@dataclass(frozen=True)
class Forgetting(Belief):
    """A belief whose evidence fades with age, for a world that changes.

    Args:
        belief: what fades: a `Dirichlet`, a `Truncated` one, or one whose live form has a method
            `fade(factor)` that multiplies the weight of all its evidence.
        half_life: after how many transitions one counts half; infinite: it never fades. Where many
            streams share the belief, the transitions are those of all of them.
    """

    belief: Any = field(default_factory=Dirichlet)
    half_life: float = 10_000.0

    def __post_init__(self) -> None:
        checked_belief(self.belief)
        if self.half_life != math.inf:
            object.__setattr__(self, "half_life", checked_positive("half_life", self.half_life))

    def start(self, problem: Problem) -> Any:
        """Return the live form."""
        if self.half_life == math.inf:
            return self.belief.start(problem)
        if start_forgetting := getattr(self.belief, "start_forgetting", None):
            live = start_forgetting(problem, self.half_life)
        else:
            live = self.belief.start(problem)
            live = Plain(live, self.half_life) if callable(getattr(live, "fade", None)) else None
        if live is None:
            raise ValueError(
                f"the evidence of {self.belief!r} can't fade: Forgetting is for Dirichlet(...), "
                "Truncated(...), Parametric(...) without particles, and beliefs whose live form "
                "has fade(factor)"
            )
        return live
