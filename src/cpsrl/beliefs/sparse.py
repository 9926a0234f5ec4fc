"""Dirichlet belief about the transition rows of a large model, drawn without visiting every cell.

A row has K possible successors, each with the Dirichlet parameter a, of which m have been observed,
n_j times each. Its posterior draw is

    Gamma(n_j + a)        for every observed successor,
    Gamma((K - m) a)      for the unobserved ones together, over their sum.

The unobserved share is split by breaking a stick: a symmetric Dirichlet(a, ..., a) on K - m cells,
put in size-biased order, has independent fractions W_j ~ Beta(1 + a, (K - m - j) a), j = 1, 2, ...,
(the last is 1), and its labels are uniform without replacement (Pitman 1996). Breaking stops when
what is left is below LEFT of the row's mass; that remainder goes to the last piece. For K a = 1
about 28 pieces are drawn, whatever K is.

Rows are drawn in blocks of BLOCK_ROWS. A model of one block draws from the generator it is given;
in a larger one each block has a generator of its own, seeded by the given one, so that threads can
share the blocks and the draw does not depend on how many there are.

The observed successors of a row are a linked list in a pool: `first` (S*A,) and `following` (pool,)
are positions in it (-1 ends a list), `successor` and `counts` (pool,) its entries.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy

from cpsrl._compile import jit
from cpsrl.beliefs.belief import LiveBelief, check_transitions, damaged, impossible
from cpsrl.beliefs.gamma import draw_gamma
from cpsrl.beliefs.rewards import (
    RewardArrays,
    learned_rewards,
    mean_rewards,
    observe_reward,
    sample_rewards,
    sound_rewards,
)
from cpsrl.checks import checked_arrays
from cpsrl.mdp import TabularMDP
from cpsrl.planning.parallel import in_parallel
from cpsrl.seeding import lent
from cpsrl.types import Floats, Ints
from cpsrl.variates import Words, standard_gamma, uniform
from cpsrl.waiting import interruptible

LEFT = 1e-12
PIECES = 28
"""About how many pieces a stick gives for each unit of the unobserved cells' parameter."""
MOST_CELLS, MOST_DRAWN = 50_000_000, 150_000_000
"""The largest S*A*S of a dense belief, and the largest expected size of a sparse sample."""
BLOCK_ROWS = 1 << 16
"""Rows that are drawn from one stream; fixed, since another number would give other draws."""
SHORT = 64
"""Rows with at most so many successors are put in order as they are drawn."""
POOL = ("following", "successor", "counts")


class SparseArrays(NamedTuple):
    """A sparse belief as compiled code reads and updates it."""

    cell: Floats
    """`(S*A,)` prior parameter of each possible cell of a row"""
    support_start: Ints
    """`(S*A + 1,)` where each row's possible successors begin, or `(0,)`: all are possible"""
    support_state: Ints
    """the possible successors"""
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
def observe_all(
    belief: SparseArrays, learned: RewardArrays, rows: Ints, rewards: Floats, next_states: Ints
) -> None:
    """Enter transitions `(n,)`; the pool must have room for as many more entries."""
    for i in range(len(rows)):
        _observe_successor(belief, rows[i], next_states[i])
        observe_reward(learned, rows[i], rewards[i])


@jit
def _observe_successor(belief: SparseArrays, row: int, state: int) -> None:
    entry = belief.first[row]
    while entry >= 0:
        if belief.successor[entry] == state:
            belief.counts[entry] += 1
            return
        entry = belief.following[entry]
    entry = belief.n_entries[0]
    belief.n_entries[0] += 1
    belief.successor[entry] = state
    belief.counts[entry] = 1
    belief.following[entry] = belief.first[row]
    belief.first[row] = entry


@jit
def rows_of_entries(first: Ints, following: Ints) -> Ints:
    """Return the row `(pool,)` that every entry of the pool belongs to."""
    rows = np.full(len(following), -1, np.int64)
    for row in range(len(first)):
        entry = first[row]
        while entry >= 0:
            rows[entry] = row
            entry = following[entry]
    return rows


@jit
def sample_rows(
    belief: SparseArrays, n_states: int, words: Words, begin_row: int, end_row: int
) -> tuple[Any, Any, Floats]:
    """Draw some transition rows; return where each ends, the successors and their probabilities."""
    cell, support_start, support_state = belief.cell, belief.support_start, belief.support_state
    first, following = belief.first, belief.following
    successor, counts = belief.successor, belief.counts
    n_rows = end_row - begin_row
    everything = len(support_start) == 0
    ends = np.empty(n_rows, np.int64)
    if everything:
        room = n_rows * 32 + n_states
    else:
        room = support_start[end_row] - support_start[begin_row]
    states = np.empty(room, np.int32)
    shares = np.empty(len(states))
    stamp = np.full(n_states, -1, np.int64)
    free = np.empty(n_states, np.int32)
    end = 0
    for row in range(begin_row, end_row):
        begin = 0 if everything else support_start[row]
        n_candidates = n_states if everything else support_start[row + 1] - begin
        if end + n_candidates > len(states):
            room = max(end + n_candidates, len(states) + len(states) // 2)
            states = _longer(states, room)
            shares = _longer(shares, room)
        a = cell[row]
        start = end
        total = 0.0
        entry = first[row]
        while entry >= 0:
            stamp[successor[entry]] = row
            states[end] = successor[entry]
            shares[end] = standard_gamma(words, counts[entry] + a)
            total += shares[end]
            end += 1
            entry = following[entry]
        n_free = n_candidates - (end - start)
        if n_free > 0:
            # Without observations the unobserved cells are the whole row, and their sum cancels.
            stick = draw_gamma(n_free * a, words) if total > 0.0 else 1.0
            total += stick
            # Rejection where nearly all labels are free, a list of the free ones where few are.
            listed = n_candidates < 4 * (n_candidates - n_free + PIECES * (1.0 + n_free * a))
            if listed:
                n_listed = 0
                for k in range(n_candidates):
                    state = k if everything else support_state[begin + k]
                    free[n_listed] = state
                    n_listed += stamp[state] != row
            least = LEFT * total
            while stick > least:
                n_free -= 1
                piece, rest = stick, 0.0
                if n_free > 0:
                    x = standard_gamma(words, 1.0 + a)
                    y = draw_gamma(n_free * a, words)
                    if stick * y > least * (x + y):
                        piece, rest = stick * x / (x + y), stick * y / (x + y)
                stick = rest
                if listed:
                    k = int(uniform(words) * (n_free + 1))
                    state = free[k]
                    free[k] = free[n_free]
                else:
                    while True:
                        k = int(uniform(words) * n_candidates)
                        state = k if everything else support_state[begin + k]
                        if stamp[state] != row:
                            break
                    stamp[state] = row
                states[end] = state
                shares[end] = piece
                end += 1
        total = 0.0
        for k in range(start, end):
            total += shares[k]
        for k in range(start, end):
            shares[k] /= total
        if end - start <= SHORT:
            _put_in_order(states[start:end], shares[start:end])
        ends[row - begin_row] = end
    return ends, states[:end].copy(), shares[:end].copy()


@jit
def _put_in_order(states: Any, shares: Floats) -> None:
    """Sort a row `(k,)` by insertion, the states upwards and the shares with them."""
    for i in range(1, len(states)):
        state, share, k = states[i], shares[i], i
        while k > 0 and states[k - 1] > state:
            states[k], shares[k] = states[k - 1], shares[k - 1]
            k -= 1
        states[k], shares[k] = state, share


@jit
def _longer(array: Any, room: int) -> Any:
    longer = np.empty(room, array.dtype)
    longer[: len(array)] = array
    return longer


class SparseDirichlet(LiveBelief):
    """The live form that keeps the observed successors only.

    Args:
        n_states: S.
        cell: `(S*A,)` prior parameter of each possible cell of a row.
        support: the possible successors, a sparse matrix `(S*A, S)`; None: all are possible.
        rewards: what is believed about the rewards.
    """

    def __init__(self, n_states: int, cell: Floats, support: Any, rewards: RewardArrays) -> None:
        nothing = np.zeros(0, np.int64)
        self.n_states = n_states
        self.rewards = rewards
        self.arrays = SparseArrays(
            cell=cell,
            support_start=nothing if support is None else support.indptr.astype(np.int64),
            support_state=nothing if support is None else support.indices.astype(np.int64),
            first=np.full(len(cell), -1, np.int64),
            following=nothing,
            successor=nothing,
            counts=nothing,
            n_entries=np.zeros(1, np.int64),
        )
        if support is None:
            pieces = len(cell) * min(n_states, PIECES * n_states * cell[0])
            if pieces > MOST_DRAWN:
                raise ValueError(
                    f"a sample from this prior would have about {pieces:,.0f} cells that are not "
                    f"0, more than {MOST_DRAWN:,}; take a smaller parameter per cell (1/S is "
                    "the default) or a support"
                )

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return len(self.arrays.cell) // self.n_states

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        self._reserve(len(states))
        rows = states * self.n_actions + actions
        observe_all(self.arrays, self.rewards, rows, rewards, next_states)

    @interruptible("drawing a model")
    def sample(self, rng: np.random.Generator | int) -> TabularMDP:
        """Draw an MDP with a generator, or with one made from a seed."""
        generator = np.random.default_rng(rng)
        transitions = self._drawn(generator)
        r = np.empty(len(self.arrays.cell))
        with lent(generator) as words:
            sample_rewards(self.rewards, words, r)
        return self._model(transitions, r)

    def _drawn(self, rng: np.random.Generator) -> Any:
        """Draw the transitions, a sparse matrix `(S*A, S)`."""
        n_rows = len(self.arrays.cell)
        begins = range(0, n_rows, BLOCK_ROWS)
        streams = [rng]
        if len(begins) > 1:
            seeds = rng.integers(1 << 64, size=(len(begins), 4), dtype=np.uint64)
            streams = [np.random.default_rng(seed) for seed in seeds]
        parts = [
            (stream, begin, min(begin + BLOCK_ROWS, n_rows))
            for stream, begin in zip(streams, begins, strict=True)
        ]
        starts, filled = np.zeros(n_rows + 1, np.int64), 0
        states, shares = np.empty(0, np.int32), np.empty(0)
        for (_, begin, end), block in zip(parts, in_parallel(self._block, (), parts), strict=True):
            until = filled + len(block[1])
            if until > len(states):
                # for the blocks to come as well; memory that is not written to is not taken
                room = filled + 2 * len(block[1]) * len(range(begin, n_rows, BLOCK_ROWS))
                states, shares = _longer(states, room), _longer(shares, room)
            starts[begin + 1 : end + 1] = filled + block[0]
            states[filled:until], shares[filled:until] = block[1:]
            filled = until
        drawn = self._sparse(starts, states[:filled], shares[:filled])
        for array in (drawn.data, drawn.indices, drawn.indptr):
            array.setflags(write=False)  # and so the model need not copy it
        return drawn

    def _block(self, rng: np.random.Generator, begin: int, end: int) -> tuple[Any, Any, Floats]:
        with lent(rng) as words:
            return sample_rows(self.arrays, self.n_states, words, begin, end)

    def mean(self) -> TabularMDP:
        """Return the MDP of the posterior means.

        Every possible successor has an entry in it, observed or not.
        """
        b, rows = self.arrays, len(self.arrays.cell)
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
        return self._model(weights, mean_rewards(self.rewards))

    def state(self) -> dict[str, Any]:
        """Return copies of the arrays that observations change, by name."""
        used = self.arrays.n_entries[0]
        kept = {k: v[:used] if k in POOL else v for k, v in self._learned.items()}
        return {name: array.copy() for name, array in kept.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state()` returned; raise, and change nothing, if it does not fit."""
        arrays = checked_arrays("belief", state, self._learned, POOL)
        if not sound_rewards(arrays) or not self._sound(arrays):
            raise damaged()
        for name, array in learned_rewards(self.rewards).items():
            array[:] = arrays[name]
        links = {name: arrays[name] for name in ("first", *POOL)}
        used = np.array([len(arrays["counts"])])
        self.arrays = self.arrays._replace(**links, n_entries=used)

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the prior calls the transition impossible."""
        b, row = self.arrays, state * self.n_actions + action
        if len(b.support_start):
            possible = b.support_state[b.support_start[row] : b.support_start[row + 1]]
            if next_state not in possible:
                raise impossible(state, action, next_state)

    def check_problem(self, mdp: TabularMDP) -> None:
        """Raise a ValueError if the MDP makes a transition that the prior calls impossible."""
        check_transitions(mdp, self._possible)

    @property
    def _learned(self) -> dict[str, Any]:
        links = {name: getattr(self.arrays, name) for name in ("first", *POOL)}
        return {**links, **learned_rewards(self.rewards)}

    def _reserve(self, steps: int) -> None:
        """Make room for the successors that `steps` further steps can reveal."""
        b = self.arrays
        if len(b.counts) - b.n_entries[0] < steps:
            room = max(int(b.n_entries[0]) + steps, 2 * len(b.counts))
            grown = {name: np.resize(getattr(b, name), room) for name in POOL}
            self.arrays = b._replace(**grown)

    def _possible(self, rows: Ints, states: Ints) -> Any:
        """Return for every pair of a row and a state whether the one can lead to the other."""
        b = self.arrays
        if not len(b.support_start):
            return np.ones(len(rows), np.bool_)
        supported = np.repeat(np.arange(len(b.first)), np.diff(b.support_start))
        places = supported * self.n_states + b.support_state
        return np.isin(rows * self.n_states + states, places)

    def _sound(self, stored: dict[str, Any]) -> bool:
        """Return whether compiled code, which checks no index, can go on with stored arrays."""
        first, successor, pool = stored["first"], stored["successor"], len(stored["counts"])
        if any(len(stored[name]) != pool for name in POOL) or (stored["counts"] < 1).any():
            return False
        links = np.concatenate([first, stored["following"]])
        inside = (links >= -1).all() and (links < pool).all()
        if not inside or (successor < 0).any() or (successor >= self.n_states).any():
            return False
        # Where every entry is linked once, no list runs in a circle and no two lists meet.
        if not (np.bincount(links[links >= 0], minlength=pool) == 1).all():
            return False
        rows = rows_of_entries(first, stored["following"])
        distinct = len(np.unique(rows * self.n_states + successor)) == pool
        return bool((rows >= 0).all() and distinct and self._possible(rows, successor).all())

    def _sparse(self, starts: Any, states: Any, values: Floats) -> Any:
        shape = (len(self.arrays.cell), self.n_states)
        if len(states) <= np.iinfo(np.int32).max:  # or SciPy would make the states as wide
            starts = starts.astype(np.int32)
        return scipy.sparse.csr_array((values, states, starts), shape=shape)

    def _model(self, transitions: Any, r: Floats) -> TabularMDP:
        return TabularMDP(transitions, r.reshape(self.n_states, self.n_actions))
