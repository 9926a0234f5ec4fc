"""Rows that share their noise: each transition teaches all rows of its class.

The next state is f(s, a, k), where f is known and the outcome k = 0..K - 1 is drawn with the
probabilities w_c of the pair's class c = c(s, a); beforehand, w_c ~ Dirichlet(alpha). Seeing s'
says that k was one of B = {k : f(s, a, k) = s'}:

    |B| = 1     the outcome is seen: a Dirichlet count
    |B| = K     it could not have been another: nothing is learnt
    otherwise   the likelihood is the sum of w_k over B, as in a corner, where the way ahead and the
                slip to one side both end at the wall

So the likelihood of all that came is prod w_k^n_k times a polynomial in w, the product of those
sums, and the posterior is a mixture of Dirichlets with a component for each of its terms
c_e prod w_k^e_k,

    Dirichlet(alpha + n + e)   with a weight proportional to   c_e prod_k Gamma(alpha_k + n_k + e_k)

(e sums to the polynomial's degree in every term). That is exact, and terms are added up where they
are alike: M sums of two outcomes of three are at most (M + 1)(M + 2) / 2 of them.

Once a class has MOST_TERMS terms, its pairs with such sets B are passed over, whatever comes of
them. What is passed over is then decided before it is seen, and depends on nothing but the past: so
the posterior given the rest is not biased, and is still exact. It has only less to go by.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cpsrl.beliefs.belief import BELIEFS, Belief, LiveBelief, impossible, place_drawn
from cpsrl.beliefs.families import checked_names
from cpsrl.beliefs.rewards import (
    NormalGamma,
    RewardArrays,
    RewardPrior,
    checked_rewards,
    observe_rewards,
    sample_rewards,
    sound_rewards,
)
from cpsrl.environments.gridworld import grid_outcomes
from cpsrl.mdp import DENSE_STATES, Problem, TabularMDP
from cpsrl.seeding import words_of
from cpsrl.support.checks import LARGEST, checked_floats, checked_kind
from cpsrl.support.registry import Registry
from cpsrl.support.types import Floats, Ints

OUTCOMES: Registry[Any] = Registry("outcomes")
"""Functions that return f `(S, A, K)`, by name."""
OUTCOMES.add("gridworld")(grid_outcomes)
MOST_TERMS = 1024


class TiedRows(LiveBelief):
    """The live form: counts and a polynomial for each class.

    Args:
        outcomes: `(S*A, K)` where each outcome leads.
        classes: `(S*A,)` the class of each row.
        alpha: `(C, K)` the prior's parameters.
        rewards: what is believed about the rewards.
        n_states: S.
    """

    any_length: ClassVar = ("terms", "logs")
    shape: tuple[int, int]

    def __init__(
        self, outcomes: Ints, classes: Ints, alpha: Floats, rewards: RewardArrays, n_states: int
    ) -> None:
        self.outcomes, self.classes, self.alpha, self.rewards = outcomes, classes, alpha, rewards
        self.n_states, self.shape = n_states, (n_states, len(outcomes) // n_states)
        self.counts = np.zeros_like(alpha)
        self.terms = [np.zeros((1, alpha.shape[1]), np.int64) for _ in alpha]
        """for each class, the exponents `(T, K)` of its polynomial"""
        self.logs = [np.zeros(1) for _ in alpha]
        """and the logarithms `(T,)` of the coefficients"""
        alike = outcomes[:, :, None] == outcomes[:, None, :]
        number = alike.sum(axis=2)
        self.merged = ((number > 1) & (number < alpha.shape[1])).any(axis=1)
        """`(S*A,)` whether a row has outcomes that can't be distinguished, and others"""
        keys = np.arange(len(outcomes))[:, None] * n_states + outcomes
        places, self.place = np.unique(keys, return_inverse=True)
        rows, self.indices = np.divmod(places, n_states)
        self.indptr = np.searchsorted(rows, np.arange(len(outcomes) + 1))

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`; raise, and learn nothing, if one of them cannot be."""
        rows = states * self.shape[1] + actions
        which = self.outcomes[rows] == next_states[:, None]
        number = which.sum(axis=1)
        if (number == 0).any():
            first = int(np.argmin(number))
            raise impossible(int(states[first]), int(actions[first]), int(next_states[first]))
        seen = (number == 1) & ~self.merged[rows]
        np.add.at(self.counts, (self.classes[rows[seen]], which[seen].argmax(axis=1)), 1.0)
        for i in np.flatnonzero(self.merged[rows]).tolist():
            self._observe_merged(int(self.classes[rows[i]]), which[i])
        observe_rewards(self.rewards, rows, rewards)

    def _observe_merged(self, c: int, which: Any) -> None:
        """Enter that the outcome of class c was one of `which` `(K,)`, if there is room for it."""
        if len(self.terms[c]) >= MOST_TERMS:
            return
        if which.sum() == 1:
            self.counts[c] += which
            return
        steps = np.eye(len(which), dtype=np.int64)[which]
        grown = (self.terms[c] + steps[:, None]).reshape(-1, len(which))
        logs = np.tile(self.logs[c], len(steps))
        self.terms[c], place = np.unique(grown, axis=0, return_inverse=True)
        self.logs[c] = np.full(len(self.terms[c]), -np.inf)
        np.logaddexp.at(self.logs[c], place.ravel(), logs)
        self.logs[c] -= self.logs[c].max()  # a common factor does not matter

    def mixture(self, c: int) -> tuple[Floats, Floats]:
        """Return the weights `(T,)` and Dirichlet parameters `(T, K)` of class c's posterior."""
        alpha = self.alpha[c] + self.counts[c] + self.terms[c]
        logs = self.logs[c] + scipy.special.gammaln(alpha).sum(axis=1)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum(), alpha

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw the outcomes' probabilities `(C, K)`."""
        drawn = np.empty_like(self.alpha)
        for c in range(len(drawn)):
            weights, alpha = self.mixture(c)
            one = place_drawn(weights, rng) if len(weights) > 1 else 0
            drawn[c] = rng.dirichlet(alpha[one])
        return drawn

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a model: P `(S, A, S)` and r `(S, A)`, or a large one as a TabularMDP."""
        rng = np.random.default_rng(rng)
        shares = self.draw(rng)[self.classes].ravel()
        data = np.bincount(self.place.ravel(), shares, len(self.indices))
        shape = (len(self.outcomes), self.n_states)
        matrix = scipy.sparse.csr_array((data, self.indices, self.indptr), shape=shape)
        r = np.empty(self.shape)
        with words_of(rng) as words:
            sample_rewards(self.rewards, words, r.ravel())
        if self.n_states > DENSE_STATES:
            return TabularMDP(matrix, r)
        return matrix.toarray().reshape(*r.shape, self.n_states), r

    def copy(self) -> "TiedRows":
        """Return another one that believes the same."""
        new = copy.copy(self)
        new.counts, new.terms, new.logs = self.counts.copy(), [*self.terms], [*self.logs]
        new.rewards = self.rewards.copy()
        return new

    def facts(self) -> dict[str, Any]:
        """Return the posterior means `(C, K)`, and of how many terms the polynomials are."""
        means = []
        for c in range(len(self.alpha)):
            weights, alpha = self.mixture(c)
            means.append((weights @ (alpha / alpha.sum(axis=1, keepdims=True))).tolist())
        return {"outcomes": means, "terms": [len(terms) for terms in self.terms]}

    @property
    def learned(self) -> dict[str, Any]:
        """The arrays that observations change, by name."""
        return {
            "counts": self.counts,
            "terms": np.concatenate(self.terms).ravel(),
            "logs": np.concatenate(self.logs),
            "sizes": np.array([len(terms) for terms in self.terms]),
            **self.rewards.learned,
        }

    def sound(self, stored: dict[str, Any]) -> bool:
        """Return whether the counts and polynomials stored are possible."""
        sizes, counts, terms, logs = (stored[name] for name in ("sizes", "counts", "terms", "logs"))
        fit = (sizes > 0).all() and sizes.sum() == len(logs) == len(terms) / self.alpha.shape[1]
        fit = fit and np.isfinite(counts).all() and (counts >= 0).all() and sound_rewards(stored)
        return bool(fit and (terms >= 0).all() and np.isfinite(logs).all())

    def take(self, stored: dict[str, Any]) -> None:
        """Go on from arrays that are sound."""
        ends = np.cumsum(stored["sizes"])[:-1]
        self.terms = np.split(stored["terms"].reshape(-1, self.alpha.shape[1]), ends)
        self.logs = np.split(stored["logs"], ends)
        self.counts = stored["counts"]
        for name, array in self.rewards.learned.items():
            array[:] = stored[name]

    def possible(self, rows: Ints, next_states: Ints) -> Any:
        """Return whether some outcome makes each transition `(n,)`."""
        return (self.outcomes[rows] == next_states[:, None]).any(axis=1)


@BELIEFS.add("tied")
@dataclass(frozen=True)
class Tied(Belief):
    """Noise of a few outcomes that many pairs share.

    Args:
        outcomes: `(S, A, K)`, the state that each outcome leads to; or the name of a registered
            function that returns it (`cpsrl.register("outcomes", NAME)`).
        classes: `(S, A)` whole numbers from 0 on: pairs of one class have the same probabilities of
            the outcomes. None: all pairs have.
        options: what the function is given, by name.
        prior: the Dirichlet parameters of the outcomes: a number for all, `(K,)` or `(C, K)`.
        rewards: `NormalGamma(...)`, `InRange()` or `KnownRewards()`.
    """

    outcomes: str | ArrayLike
    classes: ArrayLike | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    prior: ArrayLike = 1.0
    rewards: RewardPrior = field(default_factory=NormalGamma)

    def __post_init__(self) -> None:
        checked_rewards(self.rewards)
        checked_kind("options", self.options, Mapping, "a table by name")
        if isinstance(self.outcomes, str):
            checked_names(OUTCOMES[self.outcomes], self.options, "option")
        elif self.options:
            raise ValueError("options are for a registered function, and outcomes is an array")

    def start(self, problem: Problem) -> TiedRows:
        """Return the live form."""
        n_states, n_actions = problem.n_states, problem.n_actions
        given: Any = self.outcomes
        if isinstance(given, str):
            function: Callable[..., Any] = OUTCOMES[given]
            given = function(**self.options)
        outcomes = _whole("outcomes", given)
        if outcomes.ndim != 3 or outcomes.shape[:2] != (n_states, n_actions) or not outcomes.size:
            raise ValueError(
                f"outcomes must be, for a K of at least 1, (S, A, K) = ({n_states}, {n_actions}, K)"
                f", not {outcomes.shape}"
            )
        if ((outcomes < 0) | (outcomes >= n_states)).any():
            raise ValueError(f"outcomes must be states, whole numbers in 0..{n_states - 1}")
        classes = np.zeros((n_states, n_actions), np.int64)
        if self.classes is not None:
            classes = _whole("classes", self.classes)
        if (
            classes.shape != (n_states, n_actions)
            or not np.isin(np.arange(classes.max(initial=0) + 1), classes).all()
            or classes.min() < 0
        ):
            raise ValueError(
                f"classes must be (S, A) = {(n_states, n_actions)} of whole numbers from 0 on, of "
                "which none is left out"
            )
        alpha = checked_floats("prior", self.prior, 0, 1, 2)
        shape = (int(classes.max()) + 1, outcomes.shape[2])
        try:
            alpha = np.array(np.broadcast_to(alpha, shape))
        except ValueError:
            raise ValueError(f"prior must fit (C, K) = {shape}, not {alpha.shape}") from None
        if not ((alpha >= 1 / LARGEST) & (alpha <= LARGEST)).all():
            raise ValueError(f"prior must be positive numbers ({1 / LARGEST:g} to {LARGEST:g})")
        rewards = self.rewards.arrays(problem)
        flat = outcomes.reshape(-1, shape[1])
        return TiedRows(flat, classes.ravel(), alpha, rewards, n_states)


def _whole(what: str, values: Any) -> Ints:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{what} must be an array of whole numbers, not of {array.dtype}")
    return array.astype(np.int64)
