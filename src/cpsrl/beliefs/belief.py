"""What is believed about an MDP, and drawn from: the second of an agent's three parts.

A belief is a description, such as `Dirichlet()`, whose `start(problem)` returns its live form for a
`TabularMDP`, or for `Sizes`. Nobody reads a belief between two resamplings, so it is told of the
transitions in batches: where a resampling is due, and when BATCH of them have gathered. All that a
live form must have is

    observe_many(states, actions, rewards, next_states)     arrays `(n,)`, in the order of time
    sample(rng)          a TabularMDP, or P `(S, A, S)` and r `(S, A)`, drawn with a NumPy generator
    state(), restore(state)                                 a tree of scalars and arrays

in plain NumPy; `rng` is only lent. A live form derived from `LiveBelief` may bring compiled
functions as well (`Inside`, with `arrays` and `shape`). Then the compiled loop updates it step by
step and samples from it without a pause.
"""

import copy
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._compile import leaf
from cpsrl.checks import shown
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.long_form import ROW_SUM_TOLERANCE
from cpsrl.planning.kernels import repeat_rows, thawed
from cpsrl.registry import Registry
from cpsrl.sizes import Sizes
from cpsrl.types import Floats, Ints

BATCH = 1 << 16
"""The most transitions that a belief is not yet told of."""
DENSE_STATES = 128
"""Models with more states are kept, drawn and planned for sparsely."""


class Inside(NamedTuple):
    """What a belief brings to be used inside the compiled loop: two leaves (see `_compile`).

    `arrays`, the first argument of both, is the live form's attribute of that name: a NamedTuple of
    arrays that the functions read and update in place.
    """

    observe: Any
    """`observe(arrays, row, reward, next_state)` enters a transition from row s*A + a"""
    sample: Any
    """`sample(arrays, words, P, r)` draws P `(S*A, S)` and r `(S*A,)` from the stream `words`"""


class Belief:
    """A description of a belief: a frozen dataclass of its options, derived from this class."""

    def start(self, problem: Any) -> Any:
        """Return the live form for a TabularMDP, or for Sizes where there is no model."""
        raise NotImplementedError


class LiveBelief:
    """A live belief; a plain one needs the first four methods alone."""

    inside: ClassVar[Inside | None] = None
    arrays: Any = None
    shape: tuple[int, int] | None = None
    """S and A, for compiled functions, which look at no bounds"""

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a model: a TabularMDP, or P `(S, A, S)` and r `(S, A)`."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return all that a new one needs to go on from here."""
        raise NotImplementedError

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        raise NotImplementedError

    def copy(self) -> "LiveBelief":
        """Return another one that believes the same."""
        return copy.deepcopy(self)

    def facts(self) -> dict[str, Any]:
        """Return what there is to tell of the belief, in plain values by name."""
        return {}

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the belief calls the transition impossible."""

    @property
    def check_together(self) -> Any:
        """`check_together(states, actions, next_states)`, which raises if transitions `(n,)` are
        impossible together; None where it is enough that each of them is possible."""
        return None

    def check_problem(self, mdp: TabularMDP) -> None:
        """Raise a ValueError if the MDP makes a transition that the belief calls impossible."""


class Plain(LiveBelief):
    """The defaults, around a live belief that has the four methods and nothing else."""

    def __init__(self, belief: Any) -> None:
        for name in ("observe_many", "sample", "state", "restore"):
            if not callable(getattr(belief, name, None)):
                raise ValueError(f"a live belief must have {name}(...), and {belief!r} has not")
        self.belief = belief

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        self.belief.observe_many(states, actions, rewards, next_states)

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a model."""
        return self.belief.sample(rng)

    def state(self) -> Any:
        """Return a copy of the state, which may be the belief's own arrays."""
        return copy.deepcopy(self.belief.state())

    def restore(self, state: Any) -> None:
        """Go on from a copy of `state`, which the belief may keep and change."""
        self.belief.restore(copy.deepcopy(state))

    def copy(self) -> "Plain":
        """Return another one that believes the same."""
        return Plain(copy.deepcopy(self.belief))

    def fade(self, factor: float) -> None:
        """Multiply the weight of all evidence, where the belief can (see `forgetting`)."""
        self.belief.fade(factor)


BELIEFS: Registry[Belief] = Registry("belief", Belief)


def checked_belief(belief: Any) -> Any:
    """Return `belief`, or raise if it is not one."""
    if isinstance(belief, type) or not callable(getattr(belief, "start", None)):
        raise ValueError(
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
    if isinstance(problem, TabularMDP):
        for model in problem.moments:
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


def damaged() -> ValueError:
    """Return the error for a stored belief with impossible numbers."""
    return ValueError("the stored belief is damaged: it has impossible numbers or links")


def check_transitions(mdp: TabularMDP, possible: Any) -> None:
    """Raise a ValueError if `possible(rows, states)` is False for a transition of `mdp`."""
    real = mdp.csr
    rows = np.repeat(np.arange(real.shape[0]), np.diff(real.indptr))
    there = np.ones(len(rows), bool) if mdp.available is None else mdp.available.ravel()[rows]
    wrong = np.flatnonzero(there & ~possible(rows, real.indices))
    if wrong.size:
        state, action = divmod(int(rows[wrong[0]]), mdp.n_actions)
        raise ValueError(
            f"the prior says that state {state} under action {action} cannot lead to state "
            f"{int(real.indices[wrong[0]])}, but in {mdp!r} it can"
        )


def impossible(state: int, action: int, next_state: int) -> ValueError:
    """Return the error for a transition that a belief calls impossible."""
    return ValueError(
        f"the prior says that state {state} under action {action} cannot lead to state {next_state}"
    )
