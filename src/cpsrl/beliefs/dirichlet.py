"""Dirichlet belief about the transition rows: the description, and its dense live form.

Row s*A + a of `alpha` `(S*A, S)` holds the prior plus the counts of the successors; cells with
alpha = 0 are impossible. A row is drawn as independent Gamma(alpha_j) variates over their sum.

Most cells keep the prior's small shape for ever; `gamma_variates` says how these are drawn. A
variate below FLUSH counts as 0: where the parameters of a row sum to 1 or more, as they do once it
was visited, the variates sum to less than z with probability z at most.

Where the parameters have a smaller sum, all variates may underflow, and they are drawn as
logarithms. For shapes a < 1, Gamma(a) has the law of Gamma(1 + a) U^(1/a), and

    x_j = G_j exp(L_j),   L_j = 0 and G_j ~ Gamma(alpha_j)                  if alpha_j >= 1,
                          L_j = -E_j / alpha_j and G_j ~ Gamma(1 + alpha_j) otherwise,

is divided by exp(max L), which leaves the shares as they are: no row is ever all zeros.

A large model keeps only the successors that were observed (`sparse`).
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cpsrl._private.compile import inlined, leaf
from cpsrl._private.variates import Words, standard_exponential, standard_gamma, uniform
from cpsrl.beliefs.belief import BELIEFS, Belief, Inside, LiveBelief
from cpsrl.beliefs.gamma_variates import SmallGamma, draw_gamma, draw_small, small_gamma
from cpsrl.beliefs.kinds import VARIED
from cpsrl.beliefs.rewards import (
    FORGOTTEN,
    NormalGamma,
    RewardArrays,
    RewardPrior,
    checked_rewards,
    fade_rewards,
    observe_reward,
    sample_rewards,
    sound_rewards,
    weigh_reward,
)
from cpsrl.beliefs.row_kinds import (
    KNOWN,
    NOISY,
    RARE,
    UNLEARNED,
    RowKinds,
    copied,
    draw_kind,
    draw_shares,
    mean_kinds,
    noisy_chance,
    repeated_chance,
    row_kinds,
    with_rows,
)
from cpsrl.beliefs.sharpness import EXACT, draw_never_left, likelier, never_left, weight_of
from cpsrl.beliefs.sparse import MOST_CELLS, SparseDirichlet
from cpsrl.mdp import DENSE_STATES, Problem, TabularMDP
from cpsrl.mdp.problem import Sizes
from cpsrl.seeding import words_of
from cpsrl.support.checks import (
    LARGEST,
    checked_floats,
    checked_number,
    checked_positive,
    is_sparse,
)
from cpsrl.support.types import Floats, Ints

FLUSH = 2e-22
ENOUGH = 1 - 1e-9  # 1 but for rounding


class DirichletArrays(NamedTuple):
    """A dense belief as compiled code reads and updates it."""

    alpha: Floats
    """`(S*A, S)` Dirichlet parameters, counts included"""
    small: SmallGamma
    """the pieces of the ziggurat for the shape that most cells have in the prior"""
    rewards: RewardArrays
    prior: Floats
    """`(S*A, S)` parameters without counts, where draws are sharpened; else empty"""
    sharp: Floats
    """`(2,)` how much (see `sharpness`)"""
    kinds: RowKinds
    """what is drawn of them, where they are learned; else empty"""


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
    sample_rows(belief, belief.rewards.seen, words, P)
    sample_rewards(belief.rewards, words, r)


@leaf
def sample_rows(belief: DirichletArrays, visits: Ints, words: Words, out: Floats) -> None:
    """Draw every transition row into `out` `(S*A, S)`.

    Args:
        belief: every row has a positive parameter.
        visits: `(S*A,)` how often each row was visited, or with what weight.
        words: the stream that the variates come from.
        out: `(S*A, S)`.
    """
    small, kinds = belief.small, belief.kinds
    learned = len(kinds.repeated) > 0
    if learned:
        find_kinds(belief, visits)
        draw_shares(kinds, words)
    entered, into = draw_entry(belief, visits, words)
    for row in range(len(belief.alpha)):
        shapes, cells = belief.alpha[row], out[row]
        if learned:
            kind = draw_kind(kinds, row, float(visits[row]), belief.sharp[0] == 1.0, words)
            if kind != NOISY:
                only = kinds.only[row] if kind == KNOWN else draw_cell(belief.prior[row], words)
                for j in range(len(cells)):
                    cells[j] = 0.0
                cells[only] = 1.0
                continue
        more = belief.sharp[1] if row == entered else 0.0
        if visits[row] + more < 1:
            total = 0.0
            for j in range(len(shapes)):
                total += shapes[j]
            if total < ENOUGH:
                sample_in_logs(shapes, words, cells)
                continue
        total, weight = 0.0, weight_of(visits[row], belief.sharp)
        for j in range(len(shapes)):
            shape = shapes[j]
            if weight != 1.0:
                shape += (weight - 1.0) * (shape - belief.prior[row, j])
            if more > 0.0 and j == into:
                shape += more
            if shape == small.shape:
                x = draw_small(small, words)
            else:
                x = draw_gamma(shape, words)
            if x <= FLUSH:
                x = 0.0
            cells[j] = x
            total += x
        scale = 1.0 / total
        for j in range(len(shapes)):
            cells[j] *= scale


@leaf
def draw_entry(belief: DirichletArrays, visits: Ints, words: Words) -> tuple[int, int]:
    """Draw a row and a state never left to be reached from it (see `sharpness`), or -1."""
    n_states, best = belief.alpha.shape[1], (0.0, -1, 0)
    n_actions = len(belief.alpha) // n_states
    into = -1 if belief.sharp[0] == 1.0 else draw_never_left(visits, n_actions, words)
    if into < 0:
        return -1, into
    for row in range(len(belief.alpha)):
        if never_left(visits, row // n_actions, n_actions):
            continue
        n, total = float(visits[row]), 0.0
        for j in range(n_states):
            total += belief.prior[row, j]
        share = noisy_chance(belief.kinds, row, n) * belief.prior[row, into]
        share /= total + weight_of(n, belief.sharp) * n
        best = likelier(best, share, row, words)
    return best[1], into


@leaf
def find_kinds(belief: DirichletArrays, visits: Ints) -> None:
    """Find which rows had one successor so far, and how often that would come by chance."""
    repeated, only = belief.kinds.repeated, belief.kinds.only
    for row in range(len(repeated)):
        n, repeated[row] = float(visits[row]), 0.0
        if n <= 0.0:
            continue
        shapes, prior, most = belief.alpha[row], belief.prior[row], -1.0
        for j in range(len(shapes)):
            if shapes[j] - prior[j] > most:
                most, only[row] = shapes[j] - prior[j], j
        repeated[row] = VARIED
        if most >= n * (1.0 - RARE):
            total = 0.0
            for j in range(len(prior)):
                total += prior[j]
            repeated[row] = repeated_chance(n, prior[only[row]], total)


@leaf
def draw_cell(weights: Floats, words: Words) -> int:
    """Draw a place with probabilities in proportion to `weights` `(n,)`."""
    total, last = 0.0, 0
    for weight in weights:
        total += weight
    left = total * uniform(words)
    for j in range(len(weights)):
        if weights[j] > 0.0:
            last = j
            left -= weights[j]
            if left < 0.0:
                break
    return last


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


@leaf
def fade_and_observe(
    belief: DirichletArrays,
    counts: Floats,
    rows: Ints,
    rewards: Floats,
    next_states: Ints,
    half_life: float,
) -> None:
    """Let evidence fade by n transitions, and enter these `(n,)`, the last with the weight 1.

    `counts` `(S*A, S)` are the weights of what was seen; `alpha` is brought up to date by others.
    """
    n = len(rows)
    left = 2.0 ** (-n / half_life)
    fade_rewards(belief.rewards, left)
    for row in range(len(counts)):
        for j in range(counts.shape[1]):
            weight = counts[row, j] * left
            counts[row, j] = weight if weight > FORGOTTEN else 0.0
    for i in range(n):
        weight = 2.0 ** ((i + 1 - n) / half_life)
        if weight > FORGOTTEN:
            counts[rows[i], next_states[i]] += weight
            weigh_reward(belief.rewards, rows[i], rewards[i], weight)


class DenseDirichlet(LiveBelief):
    """The live form that keeps a parameter for every cell.

    Args:
        alpha: `(S*A, S)` the prior's parameters.
        rewards: what is believed about the rewards.
        half_life: after how many transitions one counts half. Where that is finite, `counts` are
            the weights of what was seen, and `alpha` is `prior` and `counts` together.
        sharp: how much draws are sharpened (see `sharpness`).
        kinds: room for the kinds of rows, where they are learned.
    """

    compiled: ClassVar = Inside(observe, sample)
    shape: tuple[int, int]

    def __init__(
        self,
        alpha: Floats,
        rewards: RewardArrays,
        half_life: float = math.inf,
        sharp: tuple[float, float] = EXACT,
        kinds: RowKinds = UNLEARNED,
    ) -> None:
        self.half_life, self.fades = half_life, half_life < math.inf
        apart = self.fades or sharp[0] != 1.0 or len(kinds.repeated)
        self.prior = alpha.copy() if apart else np.zeros((0, 0))
        if self.fades:
            rewards = rewards._replace(seen=np.zeros(len(rewards.seen)))
            self.counts = np.zeros_like(alpha)
        self.inside = None if self.fades else self.compiled
        small = small_gamma(_commonest(alpha))
        self.dense = DirichletArrays(alpha, small, rewards, self.prior, np.array(sharp), kinds)
        self.arrays: Any = self.dense
        if not alpha.all():
            supported = alpha > 0
            self.possible = lambda rows, next_states: supported[rows, next_states]
        self.shape = (alpha.shape[1], len(alpha) // alpha.shape[1])

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        rows = states * self.shape[1] + actions
        if not self.fades:
            observe_all(self.dense, rows, rewards, next_states)
            return
        fade_and_observe(self.dense, self.counts, rows, rewards, next_states, self.half_life)
        np.add(self.prior, self.counts, out=self.dense.alpha)

    def sample(self, rng: np.random.Generator | int) -> Any:
        """Draw an MDP with a generator, or with one made from a seed; P and r where it fades."""
        P, r = np.empty_like(self.dense.alpha), np.empty(len(self.dense.alpha))
        with words_of(rng) as words:
            self.compiled.sample(self.arrays, words, P, r)
        P, r = P.reshape(*self.shape, -1), r.reshape(self.shape)
        return (P, r) if self.fades else TabularMDP(P, r)

    def copy(self) -> Any:
        """Return another one that believes the same."""
        new, old = object.__new__(type(self)), self.dense
        new.__dict__ |= self.__dict__
        changed = {name: getattr(old, name).copy() for name in ("alpha", "rewards", "sharp")}
        new.dense = old._replace(**changed, kinds=copied(old.kinds))
        new.arrays = new.dense
        if self.fades:
            new.counts = self.counts.copy()
        return new

    @property
    def sharp(self) -> Floats:
        """`(2,)` how much draws are sharpened (see `sharpness`)."""
        return self.dense.sharp

    def mean(self) -> TabularMDP:
        """Return the MDP of the posterior means, of a belief that is not truncated."""
        alpha, r = self.dense.alpha, self.dense.rewards.posterior_means()
        P = alpha / alpha.sum(axis=1, keepdims=True)
        if self.kinds is not None:
            known, new = mean_kinds(self.kinds, self.dense.rewards.seen)
            P *= 1.0 - (known + new)[:, None]
            P += new[:, None] * self.prior / self.prior.sum(axis=1, keepdims=True)
            P[np.arange(len(P)), self.kinds.only] += known
        return TabularMDP(P.reshape(*self.shape, -1), r.reshape(self.shape))

    def facts(self) -> dict[str, Any]:
        """Return what was learned about the kinds of rewards and of rows, where that is open."""
        return with_rows(self.dense.rewards.facts(), self.kinds)

    @property
    def kinds(self) -> RowKinds | None:
        """The kinds of rows as they are now, or None where they are not learned."""
        if not len(self.dense.kinds.repeated):
            return None
        find_kinds(self.dense, self.dense.rewards.seen)
        return self.dense.kinds

    @property
    def learned(self) -> dict[str, Any]:
        """The arrays that observations change, by name."""
        cells = {"counts": self.counts} if self.fades else {"alpha": self.dense.alpha}
        return {**cells, **self.dense.rewards.learned}

    def sound(self, stored: dict[str, Any]) -> bool:
        """Return whether what was stored fits the prior's cells, and rewards the transitions."""
        cells, seen = stored["counts" if self.fades else "alpha"], stored["seen"]
        if not np.isfinite(cells).all() or (cells < 0).any() or not sound_rewards(stored):
            return False
        if self.fades:
            return not cells[self.prior == 0].any() and np.allclose(cells.sum(axis=1), seen)
        same_cells = (cells > 0) == (self.dense.alpha > 0)
        return bool(same_cells.all() and (cells[seen > 0].max(axis=1, initial=0.0) >= 1).all())

    def take(self, stored: dict[str, Any]) -> None:
        """Go on from arrays that are sound."""
        super().take(stored)
        if self.fades:
            np.add(self.prior, self.counts, out=self.dense.alpha)


def _commonest(alpha: Floats) -> float:
    """Return the parameter of most possible cells, if most have the same, else NaN."""
    possible = alpha[alpha > 0]
    if possible.size and possible.min() == possible.max():
        return float(possible[0])
    return float(np.median(possible)) if possible.size else np.nan


@BELIEFS.add("dirichlet")
@dataclass(frozen=True)
class Dirichlet(Belief):
    """Independent Dirichlet priors on the transition rows, and a prior on the rewards.

    Models of up to 128 states, and priors with a parameter for every cell, are kept dense. The rows
    of actions that are not available are ignored.

    Args:
        transitions: the Dirichlet parameter of every cell: a number, or an array `(S, A, S)` (0 for
            a successor that is impossible). None spreads one pseudo-observation a row evenly over
            its possible successors: 1/S per cell where all are possible.
        support: which successors are possible: a boolean array `(S, A, S)`, or a sparse matrix
            `(S*A, S)` with row s*A + a whose stored entries are the possible ones. None: all.
        rewards: `NormalGamma(...)`, `InRange()` or `KnownRewards()`.
        sharpness: how often a visit to a pair counts where models are drawn (see `sharpness`), from
            the one after the first `sharp_after` on: 1 for draws from the posterior.
        sharp_after: how many visits to a pair count once.
        kinds: whether pairs may be deterministic, which is learned for each action (see
            `row_kinds`).
    """

    transitions: ArrayLike | None = None
    support: Any = None
    rewards: RewardPrior = field(default_factory=NormalGamma)
    sharpness: float = 1.0
    sharp_after: float = 3.0
    kinds: bool = False

    def __post_init__(self) -> None:
        checked_number("sharpness", self.sharpness, 1.0, LARGEST)
        checked_number("sharp_after", self.sharp_after, 0.0, LARGEST)
        checked_rewards(self.rewards)
        if self.transitions is not None:
            values = checked_floats("transitions", self.transitions)
            if values.ndim == 0:
                checked_positive("transitions", values.item())
            if values.ndim and self.support is not None:
                raise ValueError(
                    "give an array of transitions or a support, not both: the array's zeros are "
                    "the impossible successors"
                )

    def start(self, problem: Problem) -> LiveBelief:
        """Return the live form, dense or sparse."""
        sizes = problem.sizes
        if sizes.n_states <= DENSE_STATES or self.is_array:
            return self.start_forgetting(problem, math.inf)
        candidates, rewards = self.candidates(sizes), self.rewards.arrays(problem)
        cell, kinds = self.cell(sizes, candidates), self.row_kinds(sizes)
        return SparseDirichlet(sizes.n_states, cell, candidates, rewards, self.sharp, kinds)

    def start_forgetting(self, problem: Problem, half_life: float) -> DenseDirichlet:
        """Return the dense live form, whose evidence fades if the half-life is finite."""
        rewards = self.rewards.arrays(problem)
        sizes = problem.sizes
        parts = self.sharp, self.row_kinds(sizes)
        return DenseDirichlet(self.array(sizes), rewards, half_life, *parts)

    def row_kinds(self, sizes: Sizes) -> RowKinds:
        """Return room for the kinds of rows, where they are learned."""
        rows = sizes.n_states * sizes.n_actions
        return row_kinds(rows, sizes.n_actions) if self.kinds else UNLEARNED

    @property
    def sharp(self) -> tuple[float, float]:
        """How much draws are sharpened (see `sharpness`)."""
        return float(self.sharpness), float(self.sharp_after)

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
        candidates = self.candidates(sizes)
        cells = self.cell(sizes, candidates)[:, None]
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

    def cell(self, sizes: Sizes, candidates: Any) -> Floats:
        """Return the Dirichlet parameter `(S*A,)` that the `candidates` of each row share."""
        rows = sizes.n_states * sizes.n_actions
        if self.transitions is not None:
            return np.full(rows, float(self.transitions))  # type: ignore[arg-type]
        if candidates is None:
            return np.full(rows, 1.0 / sizes.n_states)
        return 1.0 / np.diff(candidates.indptr)


def _check_rows(ok: Any, what: str, n_actions: int) -> None:
    wrong = np.flatnonzero(~np.asarray(ok).ravel())
    if wrong.size:
        state, action = divmod(int(wrong[0]), n_actions)
        raise ValueError(f"{what} from state {state} under action {action}")
