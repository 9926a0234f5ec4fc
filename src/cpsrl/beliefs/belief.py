"""What is believed about an MDP, and drawn from: the second of an agent's three parts.

A belief is a description, such as `Dirichlet()`, whose `start(problem)` returns its live form for a
`TabularMDP`, or for `Sizes`. Nobody reads a belief between two resamplings, so it receives the
transitions in batches: where a resampling is due, and when BATCH of them have gathered. All that a
live form must have is

    observe_many(states, actions, rewards, next_states)     arrays `(n,)`, in the order of time
    sample(rng)          a TabularMDP, or P `(S, A, S)` and r `(S, A)`, drawn with a NumPy generator
    state(), restore(state)                                 a tree of scalars and arrays

in plain NumPy; `rng` is used during the call only. A live form derived from `LiveBelief` may bring
compiled functions as well (`Inside`, with `arrays` and `shape`). Then the compiled loop updates it
step by step and samples from it without a pause.
"""

import copy
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._private.compile import leaf
from cpsrl.mdp import DENSE_STATES, TabularMDP, models_of
from cpsrl.mdp.problem import Sizes
from cpsrl.mdp.transition_tables import ROW_SUM_TOLERANCE
from cpsrl.planning.kernels import repeat_rows, thawed
from cpsrl.support.checks import WrongTypeError, checked_arrays, shown
from cpsrl.support.registry import Registry
from cpsrl.support.types import Floats, Ints

BATCH = 1 << 16
"""The most transitions that may wait for a belief."""


class Inside(NamedTuple):
    """What a belief brings to be used inside the compiled loop: two leaves (`_private.compile`).

    `arrays`, the first argument of both, is the live form's attribute of that name: a NamedTuple of
    arrays that the functions read and update in place.
    """

    observe: Any
    """`observe(arrays, row, reward, next_state)` enters a transition from row s*A + a"""
    sample: Any
    """`sample(arrays, words, P, r)` draws P `(S*A, S)` and r `(S*A,)` from the stream `words`"""


class Belief:
    """A description of a belief: a frozen dataclass of its options, derived from this class."""

    start_forgetting: Any = None
    """`start_forgetting(problem, half_life)`, where evidence can fade (see `forgetting`)"""

    def start(self, problem: Any) -> Any:
        """Return the live form for a TabularMDP, or for Sizes where there is no model."""
        raise NotImplementedError


class LiveBelief:
    """A live belief; a plain one needs `observe_many`, `sample`, `state` and `restore` alone.

    One that keeps arrays says which in `learned`, and has `state` and `restore` from here.
    """

    inside: Inside | None = None
    arrays: Any = None
    shape: tuple[int, int] | None = None
    """S and A, for compiled functions, which look at no bounds"""
    any_length: ClassVar[tuple[str, ...]] = ()
    """the arrays among those learned that may be of any length"""
    possible: Any = None
    """`possible(rows, next_states)`, whether transitions `(n,)` can be; None: all can"""
    check_together: Any = None
    """`check_together(states, actions, next_states)`, which raises if transitions `(n,)` are
    impossible together; None where it is enough that each of them is possible"""

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a model: a TabularMDP, or P `(S, A, S)` and r `(S, A)`."""
        raise NotImplementedError

    @property
    def learned(self) -> dict[str, Any]:
        """The arrays that observations change, by name."""
        raise NotImplementedError

    def sound(self, stored: dict[str, Any]) -> bool:
        """Return whether arrays like those learned are possible."""
        return True

    def take(self, stored: dict[str, Any]) -> None:
        """Go on from arrays that are sound."""
        for name, array in self.learned.items():
            array[:] = stored[name]

    def state(self) -> dict[str, Any]:
        """Return all that a new one needs to go on from here: copies of the arrays learned."""
        return {name: array.copy() for name, array in self.learned.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        stored = checked_arrays("belief", state, self.learned, self.any_length)
        if not self.sound(stored):
            raise ValueError("the stored belief is damaged: it has impossible numbers or links")
        self.take(stored)

    def copy(self) -> Any:
        """Return another one that believes the same."""
        return copy.deepcopy(self)

    def exact(self) -> Any:
        """Return one that draws from the posterior, where this one's draws are sharpened."""
        sharp = getattr(self, "sharp", None)
        if sharp is None or sharp[0] == 1.0:
            return self
        new = self.copy()
        new.sharp[0] = 1.0
        return new

    def facts(self) -> dict[str, Any]:
        """Return a summary of what is believed, in plain values by name."""
        return {}

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the belief calls the transition impossible."""
        if self.possible is not None:
            assert self.shape is not None
            row = np.array([state * self.shape[1] + action])
            if not self.possible(row, np.array([next_state]))[0]:
                raise impossible(state, action, next_state)

    def check_problem(self, mdp: TabularMDP) -> None:
        """Raise a ValueError if the MDP makes a transition that the belief calls impossible."""
        if self.possible is None:
            return
        real = mdp.csr
        rows = np.repeat(np.arange(real.shape[0]), np.diff(real.indptr))
        there = np.ones(len(rows), bool) if mdp.available is None else mdp.available.ravel()[rows]
        wrong = np.flatnonzero(there & ~self.possible(rows, real.indices))
        if wrong.size:
            state, action = divmod(int(rows[wrong[0]]), mdp.n_actions)
            error = impossible(state, action, int(real.indices[wrong[0]]))
            raise ValueError(f"{error}, but in {mdp!r} it can")


class Plain(LiveBelief):
    """The defaults, around a live belief that has the four methods and perhaps nothing else.

    Args:
        belief: the live belief.
        half_life: where its evidence fades: it then has `fade(factor)`, which multiplies the weight
            of all of it.
    """

    def __init__(self, belief: Any, half_life: float = math.inf) -> None:
        for name in ("observe_many", "sample", "state", "restore"):
            if not callable(getattr(belief, name, None)):
                raise ValueError(f"a live belief must have {name}(...), and {belief!r} has not")
        self.belief, self.half_life = belief, half_life
        for name in ("facts", "check_possible", "check_problem", "check_together"):
            if hasattr(belief, name):
                setattr(self, name, getattr(belief, name))

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time; where evidence fades, one by one."""
        if self.half_life == math.inf:
            self.belief.observe_many(states, actions, rewards, next_states)
            return
        before = self.state()
        try:
            for one in zip(states, actions, rewards, next_states, strict=True):
                self.belief.fade(2.0 ** (-1.0 / self.half_life))
                self.belief.observe_many(*(np.array([value]) for value in one))
        except ValueError:
            self.restore(before)
            raise

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a model."""
        return self.belief.sample(rng)

    def state(self) -> Any:
        """Return a copy of the state, which may be the belief's own arrays."""
        return copy.deepcopy(self.belief.state())

    def restore(self, state: Any) -> None:
        """Go on from a copy of `state`, which the belief may keep and change."""
        self.belief.restore(copy.deepcopy(state))


BELIEFS: Registry[Belief] = Registry("belief", Belief)


def checked_belief(belief: Any) -> Any:
    """Return `belief`, or raise if it is not one."""
    if isinstance(belief, type) or not callable(getattr(belief, "start", None)):
        raise WrongTypeError(
            f"belief must be one such as Dirichlet(), with start(problem), not {shown(belief)}"
        )
    return belief


def started(belief: Any, problem: Any) -> LiveBelief:
    """Return the live form of `belief` for `problem`."""
    live = belief.start(problem)
    live = live if isinstance(live, LiveBelief) else Plain(live)
    shape = (problem.n_states, problem.n_actions)
    if live.inside is not None and live.shape != shape:
        raise ValueError(
            f"{belief!r} started a belief of (S, A) = {live.shape} for a problem of {shape}"
        )
    for model in models_of(problem):
        live.check_problem(model)
    return live


def small_model(drawn: Any, sizes: Sizes) -> tuple[Floats, Floats] | TabularMDP:
    """Return P `(S, A, S)` and r `(S, A)` of a small model drawn, a large one as a TabularMDP.

    The rows of unavailable actions are made those of their stand-ins.
    """
    n_states, n_actions = sizes.n_states, sizes.n_actions
    if not isinstance(drawn, TabularMDP) and n_states <= DENSE_STATES:
        try:
            P, r = drawn
            P, r = np.array(P, np.float64, order="C"), np.array(r, np.float64, order="C")
        except (TypeError, ValueError):
            P, r = np.zeros(0), np.zeros(0)
        right = P.shape == (n_states, n_actions, n_states) and r.shape == (n_states, n_actions)
        if right and is_model(P, r):
            if sizes.available is not None:
                repeat_rows(P.reshape(-1, n_states), r.ravel(), sizes.stand_in)
            return P, r
    model = checked_model(drawn, n_states, n_actions)
    if sizes.available is not None:
        model = TabularMDP(model.transitions, model.rewards, available=sizes.available)
    return thawed(model.dense, model.rewards) if n_states <= DENSE_STATES else model


@leaf
def is_model(P: Floats, r: Floats) -> bool:
    """Return whether the rows of P `(S, A, S)` are distributions and r `(S, A)` is finite."""
    for s in range(r.shape[0]):
        for a in range(r.shape[1]):
            total = 0.0
            for j in range(P.shape[2]):
                if not P[s, a, j] >= 0.0:
                    return False
                total += P[s, a, j]
            if not abs(total - 1.0) <= ROW_SUM_TOLERANCE or not math.isfinite(r[s, a]):
                return False
    return True


def checked_model(drawn: Any, n_states: int, n_actions: int) -> TabularMDP:
    """Return a model that a belief has drawn as a TabularMDP, or raise if it is not one."""
    try:
        model = drawn if isinstance(drawn, TabularMDP) else TabularMDP(*drawn)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the belief's sample is not a model: {error}") from None
    if model.rewards.shape != (n_states, n_actions):
        raise ValueError(
            f"the belief's sample has {model.rewards.shape} states and actions, not "
            f"{(n_states, n_actions)}"
        )
    return model


def impossible(state: int, action: int, next_state: int) -> ValueError:
    """Return the error for a transition that a belief calls impossible."""
    return ValueError(
        f"the prior says that state {state} under action {action} cannot lead to state {next_state}"
    )


def place_drawn(weights: Floats, rng: np.random.Generator) -> int:
    """Return a place in `weights` `(n,)`, drawn with the probability that each has."""
    up_to = np.cumsum(weights)
    place = np.searchsorted(up_to, rng.random() * up_to[-1], side="right")
    return min(int(place), len(weights) - 1)
