"""The belief about an MDP: Dirichlet transition rows and normal-gamma (or known) rewards.

`Belief` is the plain data that compiled code reads and updates in place; `Posterior` is its face in
Python. A row is s*A + a. Small models keep the Dirichlet parameter of every cell (`dirichlet`),
large ones only the observed successors (`sparse`); which, is a function of the sizes and the prior:
dense up to DENSE_STATES states, and for a prior with a parameter for every cell.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from cpsrl._compile import jit
from cpsrl.beliefs.dirichlet import mean_dense, sample_dense
from cpsrl.beliefs.gamma import SmallGamma, small_gamma
from cpsrl.beliefs.normal_gamma import mean_rewards, observe_reward, sample_rewards
from cpsrl.beliefs.prior import KnownRewards, Prior
from cpsrl.beliefs.sparse import (
    PIECES,
    observe_successor,
    rows_of_entries,
    sample_sparse,
)
from cpsrl.mdp import TabularMDP
from cpsrl.sizes import Sizes, checked_transition
from cpsrl.types import Floats, Ints

DENSE_STATES = 128
POOL = ("following", "successor", "counts")
MOST_CELLS = 50_000_000
"""The largest S*A*S of a dense belief, and the largest expected size of a sparse sample."""


class Belief(NamedTuple):
    """The arrays of a belief; those of the other kind, dense or sparse, are empty."""

    dense: bool
    learn_rewards: bool
    visits: Ints
    """`(S*A,)`"""
    reward_prior: Floats
    """mu0, lambda0, alpha0, beta0"""
    reward_mean: Floats
    """`(S*A,)` mean of the rewards seen, or the known mean rewards"""
    reward_m2: Floats
    """`(S*A,)` sum of squared deviations from that mean"""
    alpha: Floats
    """`(S*A, S)` Dirichlet parameters, counts included (dense)"""
    small: SmallGamma
    """for the prior's shape of most cells (dense)"""
    cell: Floats
    """`(S*A,)` prior parameter of each possible cell (sparse, as all that follow)"""
    support_start: Ints
    """`(S*A + 1,)`, or `(0,)` where everything is possible"""
    support_state: Ints
    first: Ints
    """`(S*A,)` each row's first entry in the pool of observed successors, or -1"""
    following: Ints
    """`(pool,)` the next entry of the same row, or -1"""
    successor: Ints
    """`(pool,)`"""
    counts: Ints
    """`(pool,)`"""
    n_entries: Ints
    """`(1,)` how many entries of the pool are in use"""


@jit
def observe_dense(
    row: int,
    reward: float,
    next_state: int,
    alpha: Floats,
    visits: Ints,
    learn_rewards: bool,
    reward_mean: Floats,
    reward_m2: Floats,
) -> None:
    """Enter one transition into a dense belief."""
    visits[row] += 1
    alpha[row, next_state] += 1.0
    if learn_rewards:
        observe_reward(reward, visits[row], reward_mean, reward_m2, row)


@jit
def observe_sparse(
    row: int,
    reward: float,
    next_state: int,
    first: Ints,
    following: Ints,
    successor: Ints,
    count: Ints,
    n_entries: Ints,
    visits: Ints,
    learn_rewards: bool,
    reward_mean: Floats,
    reward_m2: Floats,
) -> None:
    """Enter one transition into a sparse belief whose pool has room for it."""
    visits[row] += 1
    observe_successor(row, next_state, first, following, successor, count, n_entries)
    if learn_rewards:
        observe_reward(reward, visits[row], reward_mean, reward_m2, row)


@jit
def sample_mean_rewards(belief: Belief, rng: np.random.Generator, out: Floats) -> None:
    """Draw the mean rewards into `out` `(S*A,)`; known ones are copied."""
    if belief.learn_rewards:
        sample_rewards(
            belief.visits, belief.reward_mean, belief.reward_m2, belief.reward_prior, rng, out
        )
    else:
        for row in range(len(out)):
            out[row] = belief.reward_mean[row]


class Posterior:
    """What is believed about an MDP after what was observed.

    Args:
        prior: the belief at the start.
        problem: the MDP, or its sizes.
    """

    def __init__(self, prior: Prior, problem: TabularMDP | Sizes) -> None:
        self.n_states, self.n_actions = problem.n_states, problem.n_actions
        self.arrays = _initial(prior, problem)

    @property
    def is_dense(self) -> bool:
        """Whether the belief keeps a parameter for every cell."""
        return self.arrays.dense

    def observe(self, state: int, action: int, reward: float, next_state: int) -> int:
        """Enter one transition and return its row; raise, and change nothing, if it cannot be."""
        row, reward, next_state = self.checked(state, action, reward, next_state)
        self.reserve(1)
        b = self.arrays
        learn, mean, m2 = b.learn_rewards, b.reward_mean, b.reward_m2
        if self.is_dense:
            observe_dense(row, reward, next_state, b.alpha, b.visits, learn, mean, m2)
        else:
            observe_sparse(
                row,
                reward,
                next_state,
                b.first,
                b.following,
                b.successor,
                b.counts,
                b.n_entries,
                b.visits,
                learn,
                mean,
                m2,
            )
        return row

    def sample(self, rng: np.random.Generator | int) -> TabularMDP:
        """Draw an MDP with a generator, or with one made from a seed."""
        rng = np.random.default_rng(rng)
        rows = self.n_states * self.n_actions
        rewards = np.empty(rows)
        if self.is_dense:
            transitions: Any = np.empty((rows, self.n_states))
            b = self.arrays
            sample_dense(b.alpha, b.visits, b.small, rng, transitions)
            transitions = transitions.reshape(self.n_states, self.n_actions, self.n_states)
        else:
            transitions = self._sparse(*self.sample_rows(rng))
        sample_mean_rewards(self.arrays, rng, rewards)
        return self._model(transitions, rewards)

    def sample_rows(self, rng: np.random.Generator) -> tuple[Any, Any, Floats]:
        """Draw the rows of a sparse belief: row pointers, successors, probabilities."""
        b = self.arrays
        return sample_sparse(
            self.n_states,
            b.cell,
            b.support_start,
            b.support_state,
            b.first,
            b.following,
            b.successor,
            b.counts,
            rng,
        )

    def mean(self) -> TabularMDP:
        """Return the MDP of the posterior means.

        Every possible successor has an entry in it, observed or not.
        """
        rows = self.n_states * self.n_actions
        rewards = np.array(self.arrays.reward_mean)
        if self.arrays.learn_rewards:
            prior = self.arrays.reward_prior
            mean_rewards(self.arrays.visits, self.arrays.reward_mean, prior, rewards)
        if self.is_dense:
            transitions: Any = np.empty((rows, self.n_states))
            mean_dense(self.arrays.alpha, transitions)
            transitions = transitions.reshape(self.n_states, self.n_actions, self.n_states)
        else:
            transitions = self._sparse_mean()
        return self._model(transitions, rewards)

    def checked(
        self, state: int, action: int, reward: float, next_state: int
    ) -> tuple[int, float, int]:
        """Return the row, reward and next state of a transition that can be entered, or raise."""
        state, action, reward, next_state = checked_transition(
            Sizes(self.n_states, self.n_actions), state, action, reward, next_state
        )
        row = state * self.n_actions + action
        if not self._is_possible(row, next_state):
            raise ValueError(
                f"the prior says that state {state} under action {action} cannot lead to state "
                f"{next_state}"
            )
        return row, reward, next_state

    def reserve(self, steps: int) -> None:
        """Make room for the successors that `steps` further steps can reveal."""
        b = self.arrays
        if b.dense or len(b.counts) - b.n_entries[0] >= steps:
            return
        room = max(int(b.n_entries[0]) + steps, 2 * len(b.counts))
        grown: dict[str, Any] = {name: _grown(getattr(b, name), room) for name in POOL}
        self.arrays = b._replace(**grown)

    def state(self) -> dict[str, Any]:
        """Return copies of the arrays that observations change, by name."""
        used = self.arrays.n_entries[0]
        state = {name: getattr(self.arrays, name).copy() for name in self._learned}
        return {k: v[:used] if k in POOL else v for k, v in state.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state()` returned; raise, and change nothing, if it does not fit."""
        arrays: dict[str, Any] = {name: np.array(state.get(name)) for name in self._learned}
        for name, array in arrays.items():
            mine = getattr(self.arrays, name)
            fits = array.ndim == 1 if name in POOL else array.shape == mine.shape
            if array.dtype != mine.dtype or not fits:
                raise ValueError(
                    f"the stored belief does not fit: {name} is {array.dtype} {array.shape}, "
                    f"not {mine.dtype} {mine.shape}"
                )
        if not _sound(self.arrays, arrays, self.n_states):
            raise ValueError("the stored belief is damaged: it has impossible numbers or links")
        self.arrays = self.arrays._replace(**arrays)
        if not self.is_dense:
            self.arrays.n_entries[0] = len(self.arrays.counts)

    @property
    def _learned(self) -> tuple[str, ...]:
        kind = ("alpha",) if self.is_dense else ("first", *POOL)
        return ("visits", "reward_mean", "reward_m2", *kind)

    def _is_possible(self, row: int, next_state: int) -> bool:
        b = self.arrays
        if b.dense:
            return bool(b.alpha[row, next_state] > 0)
        if not len(b.support_start):
            return True
        return next_state in b.support_state[b.support_start[row] : b.support_start[row + 1]]

    def _sparse(self, starts: Any, states: Any, values: Floats) -> Any:
        shape = (self.n_states * self.n_actions, self.n_states)
        return scipy.sparse.csr_array((values, states, starts), shape=shape)

    def _sparse_mean(self) -> Any:
        b = self.arrays
        rows = len(b.visits)
        if len(b.support_start):
            starts, states = b.support_start, b.support_state
        elif rows * self.n_states <= MOST_CELLS:
            starts = np.arange(0, rows * self.n_states + 1, self.n_states)
            states = np.tile(np.arange(self.n_states), rows)
        else:
            raise ValueError(
                f"the posterior mean has {rows * self.n_states:,} cells that are not 0, more than "
                f"{MOST_CELLS:,}; a prior with a support would have fewer"
            )
        weights = self._sparse(starts, states, np.repeat(b.cell, np.diff(starts)))
        used = int(b.n_entries[0])
        entries = (rows_of_entries(b.first, b.following[:used]), b.successor[:used])
        weights += scipy.sparse.csr_array((b.counts[:used], entries), shape=weights.shape)
        weights.data /= np.repeat(weights.sum(axis=1), np.diff(weights.indptr))
        return weights

    def _model(self, transitions: Any, rewards: Floats) -> TabularMDP:
        return TabularMDP(transitions, rewards.reshape(self.n_states, self.n_actions))


def _sound(belief: Belief, stored: dict[str, Any], n_states: int) -> bool:
    """Return whether compiled code, which checks no index, can go on with stored arrays."""
    visits, mean, m2 = stored["visits"], stored["reward_mean"], stored["reward_m2"]
    if (visits < 0).any() or not np.isfinite([mean, m2]).all() or (m2 < 0).any():
        return False
    if belief.dense:
        alpha = stored["alpha"]
        seen = alpha[visits > 0].max(axis=1, initial=0.0) >= 1
        same_cells = (alpha > 0) == (belief.alpha > 0)
        return bool(np.isfinite(alpha).all() and same_cells.all() and seen.all())
    first, successor, pool = stored["first"], stored["successor"], len(stored["counts"])
    if any(len(stored[name]) != pool for name in POOL) or (stored["counts"] < 1).any():
        return False
    links = np.concatenate([first, stored["following"]])
    if (links < -1).any() or (links >= pool).any() or not np.isin(successor, range(n_states)).all():
        return False
    # Where every entry is linked once, no list runs in a circle and no two lists meet.
    if not (np.bincount(links[links >= 0], minlength=pool) == 1).all():
        return False
    rows = rows_of_entries(first, stored["following"])
    distinct = len(np.unique(rows * n_states + successor)) == pool
    return bool((rows >= 0).all() and distinct and _possible(belief, rows, successor).all())


def _possible(belief: Belief, rows: Ints, states: Ints) -> Any:
    """Return for every pair of a row and a state whether the one can lead to the other."""
    if belief.dense:
        return belief.alpha[rows, states] > 0
    if not len(belief.support_start):
        return np.ones(len(rows), np.bool_)
    n_states = 1 + max(belief.support_state.max(), states.max(initial=0))
    supported = np.repeat(np.arange(len(belief.first)), np.diff(belief.support_start))
    return np.isin(rows * n_states + states, supported * n_states + belief.support_state)


def _grown(array: Ints, room: int) -> Ints:
    grown = np.empty(room, array.dtype)
    grown[: len(array)] = array
    return grown


def _initial(prior: Prior, problem: TabularMDP | Sizes) -> Belief:
    n_states, n_actions = problem.n_states, problem.n_actions
    rows = n_states * n_actions
    known = isinstance(prior.rewards, KnownRewards)
    dense = n_states <= DENSE_STATES or prior.is_array
    if dense and rows * n_states > MOST_CELLS:
        raise ValueError(
            f"a prior with a parameter for every cell has {rows * n_states:,} of them here, more "
            f"than {MOST_CELLS:,}; give one number for all cells, with a support if there is one"
        )
    nothing = np.zeros(0, np.int64)
    alpha = prior.array(n_states, n_actions) if dense else np.zeros((0, 0))
    belief = Belief(
        dense=dense,
        learn_rewards=not known,
        visits=np.zeros(rows, np.int64),
        reward_prior=_reward_prior(prior),
        reward_mean=_known_means(prior, problem) if known else np.zeros(rows),
        reward_m2=np.zeros(rows),
        alpha=alpha,
        small=small_gamma(_usual(alpha)),
        cell=np.zeros(0),
        support_start=nothing,
        support_state=nothing,
        first=nothing,
        following=nothing,
        successor=nothing,
        counts=nothing,
        n_entries=np.zeros(1, np.int64),
    )
    if not dense:
        candidates = prior.candidates(n_states, n_actions)
        cell = prior.cell(n_states, n_actions)
        belief = belief._replace(cell=cell, first=np.full(rows, -1, np.int64))
        if candidates is not None:
            belief = belief._replace(
                support_start=candidates.indptr.astype(np.int64),
                support_state=candidates.indices.astype(np.int64),
            )
        else:
            pieces = rows * min(n_states, PIECES * n_states * cell[0])
            if pieces > MOST_CELLS:
                raise ValueError(
                    f"a sample from this prior would have about {pieces:,.0f} cells that are not "
                    f"0, more than {MOST_CELLS:,}; take a smaller parameter per cell (1/S is "
                    "the default) or a support"
                )
    if isinstance(problem, TabularMDP):
        _check_possible(belief, problem)
    return belief


def _usual(alpha: Floats) -> float:
    """Return the parameter of most possible cells, if most have the same; NaN if there are none."""
    possible = alpha[alpha > 0]
    return float(np.median(possible)) if possible.size else np.nan


def _reward_prior(prior: Prior) -> Floats:
    if isinstance(prior.rewards, KnownRewards):
        return np.zeros(4)
    p = prior.rewards
    return np.array([p.mu0, p.n_mu, p.n_tau / 2, p.n_tau / 2 / p.tau0])


def _known_means(prior: Prior, problem: TabularMDP | Sizes) -> Floats:
    assert isinstance(prior.rewards, KnownRewards)
    shape = (problem.n_states, problem.n_actions)
    if prior.rewards.means is not None:
        means = np.array(prior.rewards.means, dtype=np.float64)
        if means.shape != shape or not np.isfinite(means).all():
            raise ValueError(f"known rewards must be finite numbers (S, A) = {shape}")
    elif isinstance(problem, TabularMDP):
        means = np.array(problem.rewards)
    else:
        raise ValueError(
            "KnownRewards() takes the rewards of the problem, and Sizes have none: give "
            "KnownRewards(means) or a TabularMDP"
        )
    return means.ravel()


def _check_possible(belief: Belief, mdp: TabularMDP) -> None:
    """Raise a ValueError if the MDP makes a transition that the prior calls impossible."""
    real = mdp.csr
    rows = np.repeat(np.arange(real.shape[0]), np.diff(real.indptr))
    wrong = np.flatnonzero(~_possible(belief, rows, real.indices))
    if wrong.size:
        state, action = divmod(int(rows[wrong[0]]), mdp.n_actions)
        raise ValueError(
            f"the prior says that state {state} under action {action} cannot lead to state "
            f"{int(real.indices[wrong[0]])}, but in {mdp!r} it can"
        )
