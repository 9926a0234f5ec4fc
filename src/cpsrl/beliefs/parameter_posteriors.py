"""The posteriors of a parameter vector: on a grid, and by conjugacy (see `parametric`)."""

import copy
import math
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from cpsrl.beliefs.belief import LiveBelief, impossible, place_drawn
from cpsrl.beliefs.families import quantile
from cpsrl.beliefs.rewards import FORGOTTEN
from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import check_room
from cpsrl.support.types import Bools, Floats, Ints

TRIED = np.array([0.15, 0.35, 0.6, 0.85])
"""The parameters at which it is decided whether a family is conjugate."""
FITS = 1e-9
NEAREST = 1e-12
"""Probabilities are not drawn nearer to 0 or 1 than this, where a model may be no model."""
OUTSIDE = 0.025
RARE = float(np.log(5e-324))
"""The logarithm of what an impossible transition's probability counts as where evidence fades."""
KEPT_MODELS = 64
"""Draws from a posterior that knows much are often the same."""


class Members:
    """A family's models at some points, shared by all live beliefs about it.

    Args:
        model: gives the model of a parameter vector `(d,)`.
        points: `(G, d)` parameter vectors.
    """

    def __init__(self, model: Callable[[Floats], TabularMDP], points: Floats) -> None:
        self.model, self.points = model, points
        self.model_of = lru_cache(KEPT_MODELS)(lambda *point: model(np.array(point)))
        rewards = model(points[0]).rewards
        self.shape = rewards.shape[0], rewards.shape[1]
        """S and A"""
        models = [self._entries(point) for point in points]
        self.keys = np.unique(np.concatenate([keys for keys, _ in models]))
        """`(n,)` the transitions (s*A + a) S + s' that some point makes possible, sorted"""
        self.table = self._filled(models)
        """`(n, G)` logarithms of their probabilities at each point"""

    def _entries(self, point: Floats) -> tuple[Ints, Floats]:
        """Return the keys and probabilities of the possible transitions at a point."""
        model = self.model(point)
        if model.rewards.shape != self.shape:
            raise ValueError(
                f"the family's models must be of one size: (S, A) is {self.shape} at "
                f"{self.points[0].tolist()} and {model.rewards.shape} at {point.tolist()}"
            )
        matrix = model.csr
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        there = matrix.data > 0
        return (rows * matrix.shape[1] + matrix.indices)[there], matrix.data[there]

    def _filled(self, models: Iterable[tuple[Ints, Floats]]) -> Floats:
        models = list(models)
        check_room("the table of the family's probabilities", len(self.keys), len(models))
        table = np.full((len(self.keys), len(models)), -np.inf)
        for i, (keys, chances) in enumerate(models):
            places = self._places(keys)
            table[places[places >= 0], i] = np.log(chances[places >= 0])
        return table

    @cached_property
    def excluding(self) -> bool:
        """Whether what is possible at one point is impossible at another."""
        return bool(np.isneginf(self.table).any())

    def table_at(self, points: Floats) -> Floats:
        """Return the logarithms `(n, G)` at other points `(G, d)`."""
        return self._filled(self._entries(point) for point in points)

    def places(self, rows: Ints, next_states: Ints) -> Ints:
        """Return where the transitions are in `keys`; -1 for those that no point explains."""
        return self._places(np.asarray(rows) * self.shape[0] + next_states)

    def _places(self, keys: Ints) -> Ints:
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, -1)


def log_likelihood(counts: Floats, table: Floats) -> Floats:
    """Return log L `(G,)` of the counts `(n,)`, where `table` `(n, G)` has the probabilities."""
    seen = np.flatnonzero(counts)
    return np.asarray(counts[seen] @ table[seen])


def weights_of(log_weights: Floats) -> Floats:
    """Return weights `(G,)` that sum to 1."""
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def effective(weights: Floats) -> float:
    """Return the effective sample size of weights that sum to 1: G if alike, 1 if one has all."""
    return float(1.0 / (weights @ weights))


class LiveParametric(LiveBelief):
    """What the live forms share: the counts of the transitions, and what is impossible.

    Args:
        names: the parameters.
        members: the models at the points that the belief compares.
    """

    half_life = math.inf
    """after how many transitions one counts half"""

    def __init__(self, names: tuple[str, ...], members: Members) -> None:
        self.names, self.members = names, members
        self.counts = np.zeros(len(members.keys))

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`; raise, and learn nothing, if no parameter explains one."""
        places, n = self.explained(states, actions, next_states), len(states)
        if self.half_life < math.inf:
            faded = self.counts * 2.0 ** (-n / self.half_life)
            self.counts = np.where(faded > FORGOTTEN, faded, 0.0)
        weights = 2.0 ** (np.arange(1 - n, 1) / self.half_life)
        self.learn(np.bincount(places, weights, len(self.counts)).astype(np.float64))

    def explained(self, states: Ints, actions: Ints, next_states: Ints) -> Ints:
        """Return the places of transitions `(n,)`; raise if no parameter that is left explains all.

        The error names the first of them that rules out the last parameter.
        """
        places = self.members.places(states * self.members.shape[1] + actions, next_states)
        dead = np.flatnonzero(places < 0)
        first = int(dead[0]) if dead.size else self.first_unexplained(places)
        if first is not None:
            raise impossible(int(states[first]), int(actions[first]), int(next_states[first]))
        return places

    def learn(self, new: Floats) -> None:
        """Add counts `(n,)` of new transitions."""
        self.counts = self.counts + new

    def forget(self, half_life: float) -> None:
        """Let evidence fade: counts are then sums of weights (see `forgetting`)."""
        self.half_life = half_life

    def first_unexplained(self, places: Ints) -> int | None:
        """Return the first of some transitions that rules out every parameter left, if any does."""
        return None

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw a parameter vector `(d,)`."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> TabularMDP:
        """Draw the model of a parameter vector."""
        return self.members.model_of(*self.draw(np.random.default_rng(rng)).tolist())

    def copy(self) -> Any:
        """Return another one that believes the same: arrays are replaced, never written to."""
        return copy.copy(self)

    @property
    def learned(self) -> dict[str, Any]:
        """The arrays that observations change, by name."""
        return {"counts": self.counts}

    def sound(self, stored: dict[str, Any]) -> bool:
        """Return whether the counts stored are counts."""
        return bool(np.isfinite(stored["counts"]).all() and (stored["counts"] >= 0).all())

    def take(self, stored: dict[str, Any]) -> None:
        """Go on from arrays that are sound."""
        self.__dict__ |= stored
        self.refresh()

    def refresh(self) -> None:
        """Compute what follows from the arrays learned."""

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if no parameter that is left makes the transition possible."""
        self.explained(np.array([state]), np.array([action]), np.array([next_state]))

    def possible(self, rows: Ints, next_states: Ints) -> Bools:
        """Return whether some parameter makes each transition `(n,)`."""
        return self.members.places(rows, next_states) >= 0


class Weighted(LiveParametric):
    """Points with weights: the exact posterior of a prior on a grid."""

    def __init__(self, names: tuple[str, ...], members: Members) -> None:
        super().__init__(names, members)
        self.points, self.table = members.points, members.table
        self.log_weights = np.zeros(len(self.points))

    def forget(self, half_life: float) -> None:
        """Let evidence fade; no point is then excluded for ever."""
        super().forget(half_life)
        if self.members.excluding:
            self.table = np.maximum(self.table, RARE)

    def learn(self, new: Floats) -> None:
        """Add counts `(n,)` of new transitions."""
        super().learn(new)
        self.refresh()

    def refresh(self) -> None:
        """Weigh the points by the likelihood of the counts."""
        self.log_weights = log_likelihood(self.counts, self.table)

    def first_unexplained(self, places: Ints) -> int | None:
        """Return the first of some transitions that rules out every point left, if any does."""
        alive: Bools = self.log_weights > -np.inf
        met = np.sort(np.unique(places, return_index=True)[1])
        alive = alive & np.logical_and.accumulate(self.table[places[met]] > -np.inf)
        gone = np.flatnonzero(~alive.any(axis=1))
        return int(met[gone[0]]) if gone.size else None

    @property
    def check_together(self) -> Any:
        """`explained`, where a transition may rule out points; else None."""
        return self.explained if self.members.excluding else None

    def sound(self, stored: dict[str, Any]) -> bool:
        """Return whether some point explains the counts stored."""
        counts = stored["counts"]
        return super().sound(stored) and bool(log_likelihood(counts, self.table).max() > -np.inf)

    @property
    def weights(self) -> Floats:
        """`(G,)` the posterior weights of `points`."""
        return weights_of(self.log_weights)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw one of the points."""
        return np.asarray(self.points[place_drawn(self.weights, rng)])

    def facts(self) -> dict[str, Any]:
        """Return the parameters' means and 95% intervals, and the effective sample size."""
        weights, found = self.weights, {}
        for i, name in enumerate(self.names):
            order = np.argsort(self.points[:, i], kind="stable")
            values, up_to = self.points[order, i], np.cumsum(weights[order])
            ends = np.searchsorted(up_to, [OUTSIDE, 1 - OUTSIDE]).clip(max=len(values) - 1)
            low, high = values[ends].tolist()
            found[name] = {"mean": float(weights @ self.points[:, i]), "low": low, "high": high}
        return {
            "parameters": found,
            "points": len(weights),
            "effective_sample_size": effective(weights),
        }


class Conjugate(LiveParametric):
    """A probability with a beta posterior, exactly.

    Args:
        exponents: `(n, 2)` h and m of every transition in the members' `keys`.
        prior: `(2,)` a and b.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        members: Members,
        exponents: Floats,
        prior: Floats,
    ) -> None:
        super().__init__(names, members)
        self.exponents, self.prior = exponents, prior

    @property
    def posterior(self) -> Floats:
        """`(2,)` the parameters of the beta posterior."""
        return np.asarray(self.prior + self.counts @ self.exponents)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw the probability."""
        return np.array([rng.beta(*self.posterior)]).clip(NEAREST, 1 - NEAREST)

    def facts(self) -> dict[str, Any]:
        """Return the parameter's mean and 95% interval."""
        posterior = self.posterior
        low, high = quantile(("beta", *posterior), np.array([OUTSIDE, 1 - OUTSIDE])).tolist()
        mean = float(posterior[0] / posterior.sum())
        return {"parameters": {self.names[0]: {"mean": mean, "low": low, "high": high}}}


def exponents_of(members: Members) -> Floats | None:
    """Return h and m `(n, 2)` if members at TRIED are all c theta^h (1 - theta)^m, else None."""
    logs = members.table.T
    if not np.isfinite(logs).all():
        return None
    terms = np.stack([np.ones(len(TRIED)), np.log(TRIED), np.log1p(-TRIED)], axis=1)
    found = np.linalg.lstsq(terms, logs, rcond=None)[0]
    found[1:] = np.round(found[1:])
    found[0] = (logs - terms[:, 1:] @ found[1:]).mean(axis=0)
    fits = np.abs(logs - terms @ found).max() < FITS
    return np.ascontiguousarray(found[1:].T) if fits else None
