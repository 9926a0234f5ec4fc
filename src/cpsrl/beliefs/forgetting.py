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

That is done where transitions are handed over, so nothing is computed at every step, and fading
costs no more than the draw that follows. An infinite half-life is the belief inside itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cpsrl._compile import leaf
from cpsrl.beliefs.belief import BELIEFS, Belief, LiveBelief, Plain, checked_belief, damaged
from cpsrl.beliefs.dirichlet import DenseDirichlet, Dirichlet
from cpsrl.beliefs.rewards import RewardArrays, learned_rewards, sound_rewards
from cpsrl.beliefs.truncated import Truncated
from cpsrl.checks import checked_arrays, checked_positive
from cpsrl.mdp import TabularMDP
from cpsrl.seeding import lent
from cpsrl.sizes import Sizes
from cpsrl.types import Floats, Ints

FORGOTTEN = 1e-200
"""A smaller weight counts as none."""


@leaf
def enter(
    counts: Floats,
    learned: RewardArrays,
    rows: Ints,
    rewards: Floats,
    next_states: Ints,
    half_life: float,
) -> None:
    """Let evidence fade by n transitions, and enter these `(n,)`, the last with the weight 1."""
    seen, mean, m2, n = learned.seen, learned.mean, learned.m2, len(rows)
    left = 2.0 ** (-n / half_life)
    for row in range(len(seen)):
        seen[row] = seen[row] * left if seen[row] * left > FORGOTTEN else 0.0
        m2[row] = m2[row] * left if seen[row] > 0.0 else 0.0
        for j in range(counts.shape[1]):
            weight = counts[row, j] * left
            counts[row, j] = weight if weight > FORGOTTEN else 0.0
    for i in range(n):
        weight, row = 2.0 ** ((i + 1 - n) / half_life), rows[i]
        if weight <= FORGOTTEN:
            continue
        counts[row, next_states[i]] += weight
        seen[row] += weight
        if learned.learned[0]:
            deviation = rewards[i] - mean[row]
            mean[row] += deviation * (weight / seen[row])
            m2[row] += weight * deviation * (rewards[i] - mean[row])


class FadingDirichlet(LiveBelief):
    """The live form over a Dirichlet belief, truncated or not.

    Args:
        dense: the Dirichlet belief, whose numbers of rewards are weights.
        drawn: the belief that is drawn from, `dense` or one around it.
        around: what makes such a one.
        half_life: in transitions.
    """

    def __init__(
        self,
        dense: DenseDirichlet,
        around: Callable[[DenseDirichlet], LiveBelief],
        half_life: float,
    ) -> None:
        self.dense, self.around, self.half_life = dense, around, half_life
        self.drawn = around(dense)
        self.prior = dense.arrays.alpha.copy()
        self.counts = np.zeros_like(self.prior)

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        rows, learned = states * self.dense.shape[1] + actions, self.dense.arrays.rewards
        enter(self.counts, learned, rows, rewards, next_states, self.half_life)
        np.add(self.prior, self.counts, out=self.dense.arrays.alpha)

    def sample(self, rng: np.random.Generator | int) -> tuple[Floats, Floats]:
        """Draw P `(S, A, S)` and r `(S, A)` with a generator, or with one made from a seed."""
        P, r = np.empty_like(self.prior), np.empty(len(self.prior))
        assert self.drawn.inside is not None
        with lent(rng) as words:
            self.drawn.inside.sample(self.drawn.arrays, words, P, r)
        return P.reshape(*self.dense.shape, -1), r.reshape(self.dense.shape)

    def mean(self) -> TabularMDP:
        """Return the MDP of the posterior means, of a belief that is not truncated."""
        return self.dense.mean()

    def copy(self) -> "FadingDirichlet":
        """Return another one that believes the same."""
        new = FadingDirichlet(self.dense.copy(), self.around, self.half_life)
        new.prior, new.counts = self.prior, self.counts.copy()
        return new

    def state(self) -> dict[str, Any]:
        """Return copies of the arrays that observations change, by name."""
        return {name: array.copy() for name, array in self._learned.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state()` returned; raise, and change nothing, if it does not fit."""
        arrays = checked_arrays("belief", state, self._learned)
        counts, seen = arrays["counts"], arrays["seen"]
        sound = (
            np.isfinite(counts).all() and (counts >= 0).all() and not counts[self.prior == 0].any()
        )
        if not sound or not np.allclose(counts.sum(axis=1), seen) or not sound_rewards(arrays):
            raise damaged()
        for name, array in self._learned.items():
            array[:] = arrays[name]
        np.add(self.prior, self.counts, out=self.dense.arrays.alpha)

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the prior calls the transition impossible."""
        self.dense.check_possible(state, action, next_state)

    def check_problem(self, mdp: TabularMDP) -> None:
        """Raise a ValueError if the MDP makes a transition that the prior calls impossible."""
        self.dense.check_problem(mdp)

    @property
    def _learned(self) -> dict[str, Any]:
        return {"counts": self.counts, **learned_rewards(self.dense.arrays.rewards)}


class Fading(LiveBelief):
    """The live form over any live belief with a method `fade(factor)`, step by step."""

    def __init__(self, inner: LiveBelief, half_life: float) -> None:
        self.inner, self.half_life = inner, half_life

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time; raise, and learn nothing, if one of
        them cannot be."""
        left, before = 2.0 ** (-1.0 / self.half_life), self.inner.state()
        try:
            for i in range(len(states)):
                self.inner.fade(left)  # type: ignore[attr-defined]
                at = slice(i, i + 1)
                self.inner.observe_many(states[at], actions[at], rewards[at], next_states[at])
        except ValueError:
            self.inner.restore(before)
            raise

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a model."""
        return self.inner.sample(rng)

    def copy(self) -> "Fading":
        """Return another one that believes the same."""
        return Fading(self.inner.copy(), self.half_life)

    def facts(self) -> dict[str, Any]:
        """Return what there is to tell of the belief inside."""
        return self.inner.facts()

    def state(self) -> dict[str, Any]:
        """Return the state of the belief inside."""
        return self.inner.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state()` returned."""
        self.inner.restore(state)

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the belief inside calls the transition impossible."""
        self.inner.check_possible(state, action, next_state)

    @property
    def check_together(self) -> Any:
        """That of the belief inside."""
        return self.inner.check_together

    def check_problem(self, mdp: TabularMDP) -> None:
        """Raise a ValueError if the MDP makes a transition that the belief calls impossible."""
        self.inner.check_problem(mdp)


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

    def start(self, problem: TabularMDP | Sizes) -> Any:
        """Return the live form."""
        if self.half_life == math.inf:
            return self.belief.start(problem)
        dirichlet = self.belief.belief if isinstance(self.belief, Truncated) else self.belief
        if isinstance(dirichlet, Dirichlet):
            sizes = problem.sizes if isinstance(problem, TabularMDP) else problem
            rewards = dirichlet.rewards.arrays(problem)
            weights = rewards._replace(seen=np.zeros(len(rewards.seen)))
            dense = DenseDirichlet(dirichlet.array(sizes), weights)

            def around(inner: DenseDirichlet) -> LiveBelief:
                truncated = isinstance(self.belief, Truncated)
                return self.belief.around(inner, problem) if truncated else inner

            return FadingDirichlet(dense, around, self.half_life)
        inner = self.belief.start(problem)
        if not callable(getattr(inner, "fade", None)):
            raise ValueError(
                f"the evidence of {self.belief!r} can't fade: Forgetting is for Dirichlet(...), "
                "Truncated(...), and beliefs whose live form has fade(factor)"
            )
        return Fading(inner if isinstance(inner, LiveBelief) else Plain(inner), self.half_life)
