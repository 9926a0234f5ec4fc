"""Dirichlet belief about the transition rows: the description, and its dense live form.

Row s*A + a of `alpha` `(S*A, S)` holds the prior plus the counts of the successors; cells with
alpha = 0 are impossible. A row is drawn as independent Gamma(alpha_j) variates over their sum.

Most cells keep the prior's small shape for ever; `gamma` says how these are drawn. A variate below
FLUSH counts as 0: where the parameters of a row sum to 1 or more, as they do once it was visited,
the variates sum to less than z with probability z at most.

Where the parameters have a smaller sum, all variates may underflow, and they are drawn as
logarithms. For shapes a < 1, Gamma(a) has the law of Gamma(1 + a) U^(1/a), and

    x_j = G_j exp(L_j),   L_j = 0 and G_j ~ Gamma(alpha_j)                  if alpha_j >= 1,
                          L_j = -E_j / alpha_j and G_j ~ Gamma(1 + alpha_j) otherwise,

is divided by exp(max L), which leaves the shares as they are: no row is ever all zeros.

A large model keeps only the successors that were observed (`sparse`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cpsrl._compile import inlined, leaf
from cpsrl.beliefs.belief import (
    BELIEFS,
    DENSE_STATES,
    Belief,
    Inside,
    LiveBelief,
    check_transitions,
    damaged,
    impossible,
)
from cpsrl.beliefs.gamma import SmallGamma, draw_gamma, draw_small, small_gamma
from cpsrl.beliefs.rewards import (
    KnownRewards,
    NormalGamma,
    RewardArrays,
    learned_rewards,
    mean_rewards,
    observe_reward,
    sample_rewards,
    sound_rewards,
)
from cpsrl.beliefs.sparse import MOST_CELLS, SparseDirichlet
from cpsrl.checks import (
    LARGEST,
    checked_arrays,
    checked_floats,
    checked_positive,
    is_sparse,
    shown,
)
from cpsrl.mdp import TabularMDP
from cpsrl.seeding import lent
from cpsrl.sizes import Sizes
from cpsrl.types import Floats, Ints
from cpsrl.variates import Words, standard_exponential, standard_gamma

FLUSH = 2e-22
ENOUGH = 1 - 1e-9  # 1 but for rounding


class DirichletArrays(NamedTuple):
    """A dense belief as compiled code reads and updates it."""

    alpha: Floats
    """`(S*A, S)` Dirichlet parameters, counts included"""
    small: SmallGamma
    """for the prior's shape of most cells"""
    rewards: RewardArrays


@inlined
def observe(belief: DirichletArrays, row: int, reward: float, next_state: int) -> None:
    """Enter a transition from `row`."""
    belief.alpha[np.uint64(row), np.uint64(next_state)] += 1.0
    observe_reward(belief.rewards, row, reward)


@leaf
def observe_all(belief: DirichletArrays, rows: Ints, rewards: Floats, next_states: Ints) -> None:
    """Enter transitions `(n,)`."""
    for i in range(len(rows)):
        observe(belief, rows[i], rewards[i], next_states[i])


@leaf
def sample(belief: DirichletArrays, words: Words, P: Floats, r: Floats) -> None:
    """Draw a model: P `(S*A, S)` and then r `(S*A,)`."""
    sample_rows(belief.alpha, belief.rewards.seen, belief.small, words, P)
    sample_rewards(belief.rewards, words, r)


@leaf
def sample_rows(alpha: Floats, visits: Ints, small: SmallGamma, words: Words, out: Floats) -> None:
    """Draw every transition row into `out` `(S*A, S)`.

    Args:
        alpha: `(S*A, S)` Dirichlet parameters; every row has a positive one.
        visits: `(S*A,)` how often each row was visited, or with what weight.
        small: the shape of most cells that were not observed.
        words: the stream that the variates come from.
        out: `(S*A, S)`.
    """
    for row in range(len(alpha)):
        shapes, cells = alpha[row], out[row]
        if visits[row] < 1:
            total = 0.0
            for j in range(len(shapes)):
                total += shapes[j]
            if total < ENOUGH:
                sample_in_logs(shapes, words, cells)
                continue
        total = 0.0
        for j in range(len(shapes)):
            if shapes[j] == small.shape:
                x = draw_small(small, words)
            else:
                x = draw_gamma(shapes[j], words)
            if x <= FLUSH:
                x = 0.0
            cells[j] = x
            total += x
        scale = 1.0 / total
        for j in range(len(shapes)):
            cells[j] *= scale


@leaf
def sample_in_logs(shapes: Floats, words: Words, cells: Floats) -> None:
    """Draw a row whose parameters `shapes` `(S,)` may all be tiny into `cells` `(S,)`."""
    top = -math.inf
    for j in range(len(shapes)):
        log = 0.0
        if shapes[j] < 1.0:
            log = -standard_exponential(words) / shapes[j] if shapes[j] > 0.0 else -math.inf
        cells[j] = log
        if log > top:
            top = log
    total = 0.0
    for j in range(len(shapes)):
        x = math.exp(cells[j] - top)
        if x > 0.0:
            x *= standard_gamma(words, shapes[j] if shapes[j] >= 1.0 else 1.0 + shapes[j])
        cells[j] = x
        total += x
    for j in range(len(shapes)):
        cells[j] /= total


class DenseDirichlet(LiveBelief):
    """The live form that keeps a parameter for every cell.

    Args:
        alpha: `(S*A, S)` the prior's parameters.
        rewards: what is believed about the rewards.
    """

    inside: ClassVar = Inside(observe, sample)
    shape: tuple[int, int]

    def __init__(self, alpha: Floats, rewards: RewardArrays) -> None:
        self.arrays = DirichletArrays(alpha, small_gamma(_usual(alpha)), rewards)
        self._all_possible = bool(alpha.all())
        self.shape = (alpha.shape[1], len(alpha) // alpha.shape[1])

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        observe_all(self.arrays, states * self.shape[1] + actions, rewards, next_states)

    def sample(self, rng: np.random.Generator | int) -> TabularMDP:
        """Draw an MDP with a generator, or with one made from a seed."""
        return self.drawn(lambda words, P, r: sample(self.arrays, words, P, r), rng)

    def drawn(self, draw: Callable[..., None], rng: np.random.Generator | int) -> TabularMDP:
        """Return the MDP that `draw(words, P, r)` puts into P `(S*A, S)` and r `(S*A,)`."""
        P, r = np.empty_like(self.arrays.alpha), np.empty(len(self.arrays.alpha))
        with lent(rng) as words:
            draw(words, P, r)
        return self._model(P, r)

    def copy(self) -> "DenseDirichlet":
        """Return another one that believes the same."""
        new, old = object.__new__(type(self)), self.arrays
        new.__dict__ |= self.__dict__
        mine = {name: getattr(old.rewards, name).copy() for name in ("seen", "mean", "m2")}
        new.arrays = old._replace(alpha=old.alpha.copy(), rewards=old.rewards._replace(**mine))
        return new

    def mean(self) -> TabularMDP:
        """Return the MDP of the posterior means."""
        alpha = self.arrays.alpha
        return self._model(
            alpha / alpha.sum(axis=1, keepdims=True), mean_rewards(self.arrays.rewards)
        )

    def state(self) -> dict[str, Any]:
        """Return copies of the arrays that observations change, by name."""
        return {name: array.copy() for name, array in self._learned.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state()` returned; raise, and change nothing, if it does not fit."""
        arrays = checked_arrays("belief", state, self._learned)
        alpha = arrays["alpha"]
        seen = alpha[arrays["seen"] > 0].max(axis=1, initial=0.0) >= 1
        same_cells = (alpha > 0) == (self.arrays.alpha > 0)
        sound = np.isfinite(alpha).all() and (alpha >= 0).all() and same_cells.all() and seen.all()
        if not sound or not sound_rewards(arrays):
            raise damaged()
        for name, array in self._learned.items():
            array[:] = arrays[name]

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the prior calls the transition impossible."""
        row = state * self.shape[1] + action
        if not self._all_possible and not self.arrays.alpha[row, next_state] > 0:
            raise impossible(state, action, next_state)

    def check_problem(self, mdp: TabularMDP) -> None:
        """Raise a ValueError if the MDP makes a transition that the prior calls impossible."""
        if not self._all_possible:
            check_transitions(mdp, lambda rows, states: self.arrays.alpha[rows, states] > 0)

    @property
    def _learned(self) -> dict[str, Any]:
        return {"alpha": self.arrays.alpha, **learned_rewards(self.arrays.rewards)}

    def _model(self, P: Floats, r: Floats) -> TabularMDP:
        return TabularMDP(P.reshape(*self.shape, -1), r.reshape(self.shape))


def _usual(alpha: Floats) -> float:
    """Return the parameter of most possible cells, if most have the same; NaN if there are none."""
    possible = alpha[alpha > 0]
    if possible.size and possible.min() == possible.max():
        return float(possible[0])
    return float(np.median(possible)) if possible.size else np.nan


@BELIEFS.add("dirichlet")
@dataclass(frozen=True)
class Dirichlet(Belief):
    """Independent Dirichlet priors on the transition rows, and a prior on the rewards.

    Models of up to 128 states, and priors with a parameter for every cell, are kept dense. What is
    said here of actions that are not available is not looked at.

    Args:
        transitions: the Dirichlet parameter of every cell: a number, or an array `(S, A, S)` (0 for
            a successor that is impossible). None spreads one pseudo-observation a row evenly over
            its possible successors: 1/S per cell where all are possible.
        support: which successors are possible: a boolean array `(S, A, S)`, or a sparse matrix
            `(S*A, S)` with row s*A + a whose stored entries are the possible ones. None: all.
        rewards: `NormalGamma(...)` or `KnownRewards()`.
    """

    transitions: ArrayLike | None = None
    support: Any = None
    rewards: NormalGamma | KnownRewards = field(default_factory=NormalGamma)

    def __post_init__(self) -> None:
        if not isinstance(self.rewards, NormalGamma | KnownRewards):
            raise ValueError(
                f"rewards must be NormalGamma(...) or KnownRewards(), not {shown(self.rewards)}"
            )
        if self.transitions is not None:
            values = checked_floats("transitions", self.transitions)
            if values.ndim == 0:
                checked_positive("transitions", values.item())
            if values.ndim and self.support is not None:
                raise ValueError(
                    "give an array of transitions or a support, not both: the array's zeros are "
                    "the impossible successors"
                )

    def start(self, problem: TabularMDP | Sizes) -> LiveBelief:
        """Return the live form, dense or sparse."""
        sizes = problem.sizes if isinstance(problem, TabularMDP) else problem
        rewards = self.rewards.arrays(problem)
        if sizes.n_states > DENSE_STATES and not self.is_array:
            cell, candidates = self.cell(sizes), self.candidates(sizes)
            return SparseDirichlet(sizes.n_states, cell, candidates, rewards)
        return DenseDirichlet(self.array(sizes), rewards)

    @property
    def is_array(self) -> bool:
        """Whether every cell has its own Dirichlet parameter."""
        return self.transitions is not None and np.ndim(self.transitions) > 0

    def array(self, sizes: Sizes) -> Floats:
        """Return the Dirichlet parameters `(S*A, S)` of all cells."""
        n_states, n_actions = sizes.n_states, sizes.n_actions
        shape = (n_states, n_actions, n_states)
        if math.prod(shape) > MOST_CELLS:
            raise ValueError(
                f"a prior with a parameter for every cell has {math.prod(shape):,} of them here, "
                f"more than {MOST_CELLS:,}; give one number for all cells, with a support if there "
                "is one"
            )
        if self.is_array:
            values = checked_floats("transitions", self.transitions)
            if values.shape != shape:
                raise ValueError(f"transitions must be (S, A, S) = {shape}, not {values.shape}")
            fits = (values >= 1 / LARGEST) & (values <= LARGEST)
            wrong = np.argwhere(~(fits | (values == 0)))
            if wrong.size:
                place = tuple(int(i) for i in wrong[0])
                raise ValueError(
                    f"transitions{list(place)} is {values[place]}; it must be 0 or a positive "
                    f"number ({1 / LARGEST:g} to {LARGEST:g})"
                )
            values = sizes.repeated(values)
            _check_rows(values.any(axis=2), "transitions are all 0", n_actions)
            return values.reshape(n_states * n_actions, n_states)
        cells, candidates = self.cell(sizes)[:, None], self.candidates(sizes)
        if candidates is None:
            return np.repeat(cells, n_states, axis=1)
        return np.asarray(candidates.toarray() * cells)

    def candidates(self, sizes: Sizes) -> Any:
        """Return the support as a sparse matrix `(S*A, S)` of ones; None: all is possible."""
        n_states, n_actions = sizes.n_states, sizes.n_actions
        if self.support is None:
            return None
        rows = n_states * n_actions
        if is_sparse(self.support):
            matrix = scipy.sparse.csr_array(self.support, copy=True)
        else:
            mask = np.asarray(self.support)
            if mask.shape != (n_states, n_actions, n_states):
                raise ValueError(
                    f"support must be (S, A, S) = {(n_states, n_actions, n_states)}, "
                    f"not {mask.shape}"
                )
            matrix = scipy.sparse.csr_array(mask.reshape(rows, n_states) != 0)
        if matrix.shape != (rows, n_states):
            raise ValueError(f"support must be (S*A, S) = {(rows, n_states)}, not {matrix.shape}")
        wrong = np.flatnonzero((matrix.indices < 0) | (matrix.indices >= n_states))
        if wrong.size:  # which SciPy lets pass
            raise ValueError(
                f"support has a successor {matrix.indices[wrong[0]]}, which is not in "
                f"0..{n_states - 1}"
            )
        matrix.sum_duplicates()
        matrix.data = np.ones(matrix.nnz)
        matrix = sizes.repeated(matrix)
        _check_rows(np.diff(matrix.indptr) > 0, "there is no possible successor", n_actions)
        return matrix

    def cell(self, sizes: Sizes) -> Floats:
        """Return the Dirichlet parameter `(S*A,)` that the possible cells of each row share."""
        rows = sizes.n_states * sizes.n_actions
        if self.transitions is not None:
            return np.full(rows, float(self.transitions))  # type: ignore[arg-type]
        candidates = self.candidates(sizes)
        if candidates is None:
            return np.full(rows, 1.0 / sizes.n_states)
        return 1.0 / np.diff(candidates.indptr)


def _check_rows(ok: Any, what: str, n_actions: int) -> None:
    wrong = np.flatnonzero(~np.asarray(ok).ravel())
    if wrong.size:
        state, action = divmod(int(wrong[0]), n_actions)
        raise ValueError(f"{what} from state {state} under action {action}")
