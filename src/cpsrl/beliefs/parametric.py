"""A belief about a few parameters of which the model is a known function.

A family gives P_theta and r_theta for every theta. With N(s, a, s') the number of transitions seen,
the likelihood is

    L(theta) = prod P_theta(s' | s, a)^N(s, a, s'),

so the counts N are all that must be kept, and the posterior is

    conjugate   where every P_theta(s' | s, a) = c theta^h (1 - theta)^m and the prior is
                Beta(a, b): Beta(a + sum N h, b + sum N m). The exponents h and m are found from
                the models at four parameters and checked there, so no family has to give them.
    grid        exact, for the prior on the midpoints of cells that are equally likely beforehand.
    particles   draws that are weighted, resampled and moved (`particles`).

Where an outcome hides what happened, P_theta says so: the empty shelf of `inventory` has the
probability of all demands that empty it, so that a sold-out day is not taken for its sales.

Rewards are no evidence: a model's reward is an expectation, which a day's business does not show,
and what it does show is in the transition. They are taken as r_theta of the parameters drawn.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import scipy

from cpsrl.beliefs.belief import BELIEFS, Belief
from cpsrl.beliefs.families import FAMILIES, USUAL, checked_names, checked_prior, quantile
from cpsrl.beliefs.parameter_posteriors import (
    NEAREST,
    TRIED,
    Conjugate,
    LiveParametric,
    Members,
    Weighted,
    exponents_of,
)
from cpsrl.beliefs.particles import Particles
from cpsrl.mdp import Problem, TabularMDP
from cpsrl.support.checks import checked_whole, checked_word, shown
from cpsrl.support.types import Floats

METHODS = ("auto", "conjugate", "grid", "particles")


@BELIEFS.add("parametric")
@dataclass(frozen=True)
class Parametric(Belief):
    """A family of models with unknown parameters.

    Args:
        family: the name of a registered family (`cpsrl.register("family", NAME)`), or a function
            from parameters to a TabularMDP, or to P `(S, A, S)` and r `(S, A)`.
        prior: of each unknown parameter, by name: ("gamma", shape, rate), ("beta", a, b),
            ("normal", mean, deviation), ("uniform", low, high), or a list of values, equally
            likely. None: what the package's own families have.
        options: what the family is given besides, by name: all that is known.
        method: "conjugate", "grid" or "particles"; "auto" takes the first that is possible, and
            particles where there are more than two parameters.
        points: how many points the grid has, or how many particles there are.
        seed: what the particles are drawn with.
    """

    family: str | Callable[..., Any]
    prior: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    method: str = "auto"
    points: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        function = self.function
        checked_word("method", self.method, METHODS)
        checked_whole("points", self.points, 2)
        checked_whole("seed", self.seed)
        for what, given in (("options", self.options), ("prior", self.prior)):
            if given is not None and not isinstance(given, Mapping):
                raise ValueError(f"{what} must be a table by name, not {shown(given)}")
        if not self.priors:
            raise ValueError(
                f"the family {self.family!r} needs a prior: the unknown parameters, by name"
            )
        checked_names(function, self.options, "option")
        checked_names(function, self.priors, "parameter")
        if both := sorted(self.options.keys() & self.priors.keys()):
            raise ValueError(f"{both[0]!r} is either an option or unknown, with a prior: not both")

    @property
    def function(self) -> Callable[..., Any]:
        """The function from parameters and options to a model."""
        if isinstance(self.family, str):
            return FAMILIES[self.family]
        if not callable(self.family):
            raise ValueError(f"family must be a name or a function, not {shown(self.family)}")
        return self.family

    @cached_property
    def priors(self) -> dict[str, tuple[Any, ...]]:
        """The prior of every unknown parameter."""
        usual = USUAL.get(self.family, {}) if isinstance(self.family, str) else {}
        given = usual if self.prior is None else self.prior
        return {name: checked_prior(name, prior) for name, prior in given.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The unknown parameters, in the order of a parameter vector."""
        return tuple(self.priors)

    def model(self, point: Floats) -> TabularMDP:
        """Return the model of a parameter vector `(d,)`."""
        parameters = dict(zip(self.names, point.tolist(), strict=True))
        try:
            made = self.function(**self.options, **parameters)
            return made if isinstance(made, TabularMDP) else TabularMDP(*made)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the family makes no model of {parameters}: {error}") from error

    def at(self, u: Floats) -> Floats:
        """Return the parameter vectors `(G, d)` at probabilities `(G, d)` of the priors."""
        columns = [quantile(prior, u[:, i]) for i, prior in enumerate(self.priors.values())]
        return np.stack(columns, axis=1)

    @cached_property
    def grid(self) -> Members:
        """The members at the midpoints of cells that are equally likely."""
        axes = []
        for prior in self.priors.values():
            each = max(2, int(self.points ** (1 / len(self.names)) + 1e-9))
            each = each if isinstance(prior[0], str) else len(prior)
            axes.append((np.arange(each) + 0.5) / each)
        return Members(self.model, self.at(np.array(list(product(*axes)))))

    @cached_property
    def conjugate(self) -> tuple[Members, Floats, Floats] | None:
        """Members, their exponents, and the parameters of a beta prior, if that is conjugate."""
        prior = next(iter(self.priors.values()))
        uniform = prior == ("uniform", 0.0, 1.0)
        if len(self.names) > 1 or not (uniform or prior[0] == "beta"):
            return None
        members = Members(self.model, TRIED[:, None])
        exponents = exponents_of(members)
        numbers = np.array([1.0, 1.0] if uniform else prior[1:])
        return None if exponents is None else (members, exponents, numbers)

    def start(self, problem: Problem) -> LiveParametric:
        """Return the live form."""
        live: LiveParametric
        if self._by_particles:
            live = Particles(self.names, self.particles, self.normals, self.at_normal, self.seed)
        elif self.method in ("auto", "conjugate") and self.conjugate is not None:
            live = Conjugate(self.names, *self.conjugate)
        elif self.method == "conjugate":
            raise ValueError(
                "the family is not conjugate: that takes one parameter with a beta prior, and "
                "probabilities of the form c theta^h (1 - theta)^m; take the method 'grid'"
            )
        else:
            live = Weighted(self.names, self.grid)
        shape = (problem.n_states, problem.n_actions)
        if live.members.shape != shape:
            raise ValueError(
                f"the family's models have (S, A) = {live.members.shape}, and the problem has "
                f"{shape}: give the family the problem's options"
            )
        return live

    def start_forgetting(self, problem: Problem, half_life: float) -> LiveParametric | None:
        """Return the live form whose evidence fades.

        None by particles: those that have died out would not come back.
        """
        live = None if self._by_particles else self.start(problem)
        if live is not None:
            live.forget(half_life)
        return live

    @property
    def _by_particles(self) -> bool:
        return self.method == "particles" or (self.method == "auto" and len(self.names) > 2)

    @cached_property
    def normals(self) -> Floats:
        """`(G, d)` standard normal variates that particles begin with."""
        rng = np.random.default_rng(self.seed)
        return rng.standard_normal((self.points, len(self.names)))

    def at_normal(self, z: Floats) -> Floats:
        """Return the parameter vectors `(G, d)` of particles z `(G, d)`."""
        return self.at(np.asarray(scipy.special.ndtr(z)).clip(NEAREST, 1 - NEAREST))

    @cached_property
    def particles(self) -> Members:
        """The members at independent draws from the prior."""
        return Members(self.model, self.at_normal(self.normals))
