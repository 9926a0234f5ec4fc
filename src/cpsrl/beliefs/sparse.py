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

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy

from cpsrl._private.compile import jit, leaf
from cpsrl._private.variates import Words, standard_gamma, uniform
from cpsrl.beliefs.belief import LiveBelief
from cpsrl.beliefs.gamma_variates import draw_gamma
from cpsrl.beliefs.kinds import VARIED
from cpsrl.beliefs.rewards import RewardArrays, observe_reward, sample_rewards, sound_rewards
from cpsrl.beliefs.row_kinds import (
    NEW,
    NOISY,
    UNLEARNED,
    RowKinds,
    draw_kind,
    draw_shares,
    mean_kinds,
    noisy_chance,
    repeated_chance,
    with_rows,
)
from cpsrl.beliefs.sharpness import EXACT, draw_never_left, likelier, never_left, weight_of
from cpsrl.mdp import TabularMDP
from cpsrl.planning.parallel import in_parallel
from cpsrl.seeding import words_of
from cpsrl.support.interruptible import interruptible
from cpsrl.support.types import Floats, Ints

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
    sharp: Floats
    """`(2,)` how much draws are sharpened (see `sharpness`)"""
    kinds: RowKinds
    """what is drawn of them, where they are learned; else empty"""


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


class Scratch(NamedTuple):
    """What drawing writes into."""

    stamp: Ints
    """`(S,)` the last row in which a state was drawn"""
    free: Any
    """`(S,)` the states that were not"""


@jit
def sample_rows(
    belief: SparseArrays,
    n_states: int,
    entry: tuple[int, int],
    words: Words,
    begin_row: int,
    end_row: int,
) -> tuple[Any, Any, Floats]:
    """Draw some transition rows; return where each ends, the successors and their probabilities.

    `entry` is what `draw_entry` gives.
    """
    support_start, support_state = belief.support_start, belief.support_state
    n_rows = end_row - begin_row
    everything = len(support_start) == 0
    ends = np.empty(n_rows, np.int64)
    if everything:
        room = n_rows * 32 + n_states
    else:
        room = support_start[end_row] - support_start[begin_row]
    states = np.empty(room, np.int32)
    shares = np.empty(len(states))
    scratch = Scratch(np.full(n_states, -1, np.int64), np.empty(n_states, np.int32))
    end = 0
    for row in range(begin_row, end_row):
        begin = 0 if everything else support_start[row]
        n_candidates = n_states if everything else support_start[row + 1] - begin
        if end + n_candidates > len(states):
            room = max(end + n_candidates, len(states) + len(states) // 2)
            states = _longer(states, room)
            shares = _longer(shares, room)
        start = end
        if len(belief.kinds.repeated) > 0:
            visits = 1.0 if belief.first[row] >= 0 else 0.0
            kind = draw_kind(belief.kinds, row, visits, belief.sharp[0] == 1.0, words)
            if kind != NOISY:
                state = belief.kinds.only[row]
                if kind == NEW:
                    k = int(uniform(words) * n_candidates)
                    state = k if everything else support_state[begin + k]
                states[end], shares[end] = state, 1.0
                end += 1
                ends[row - begin_row] = end
                continue
        into = entry[1] if row == entry[0] else -1
        end, total = _draw_observed(belief, row, into, words, scratch, states, shares, start)
        if end - start < n_candidates:
            candidates = begin, n_candidates, n_candidates - (end - start)
            out, observed = (states, shares), (total, belief.cell[row])
            end = _break_stick(belief, row, words, scratch, candidates, observed, out, end)
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
def find_kinds(belief: SparseArrays, n_states: int) -> None:
    """Find which rows had one successor so far, and how often that would come by chance."""
    kinds, support_start = belief.kinds, belief.support_start
    for row in range(len(kinds.repeated)):
        entry = belief.first[row]
        if entry < 0:
            kinds.repeated[row] = 0.0
        elif belief.following[entry] >= 0:
            kinds.repeated[row] = VARIED
        else:
            cells, cell = n_states, belief.cell[row]
            if len(support_start) > 0:
                cells = support_start[row + 1] - support_start[row]
            kinds.only[row] = belief.successor[entry]
            kinds.repeated[row] = repeated_chance(belief.counts[entry], cell, cells * cell)


@leaf
def _draw_observed(
    belief: SparseArrays,
    row: int,
    into: int,
    words: Words,
    scratch: Scratch,
    states: Any,
    shares: Floats,
    end: int,
) -> tuple[int, float]:
    """Draw the observed successors into states and shares from `end` on; return end and sum.

    `into`, if it is a state, has more visits than were observed (see `sharpness`).
    """
    a, entry, total, visits = belief.cell[row], belief.first[row], 0.0, 0
    if belief.sharp[0] != 1.0:
        while entry >= 0:
            visits += belief.counts[entry]
            entry = belief.following[entry]
        entry = belief.first[row]
    weight = weight_of(visits, belief.sharp)
    while entry >= 0:
        scratch.stamp[belief.successor[entry]] = row
        states[end] = belief.successor[entry]
        shape = weight * belief.counts[entry] + a
        if belief.successor[entry] == into:
            shape, into = shape + belief.sharp[1], -1
        shares[end] = standard_gamma(words, shape)
        total += shares[end]
        end += 1
        entry = belief.following[entry]
    if into >= 0:
        scratch.stamp[into] = row
        states[end], shares[end] = into, standard_gamma(words, belief.sharp[1] + a)
        total += shares[end]
        end += 1
    return end, total


@jit
def draw_entry(belief: SparseArrays, n_states: int, visits: Ints, words: Words) -> tuple[int, int]:
    """Draw a row and a state never left to be reached from it (see `sharpness`), or -1."""
    n_actions, support_start = len(belief.first) // n_states, belief.support_start
    into = -1 if belief.sharp[0] == 1.0 else draw_never_left(visits, n_actions, words)
    best, cells = (0.0, -1, 0), n_states
    if into < 0:
        return -1, into
    for row in range(len(belief.first)):
        if never_left(visits, row // n_actions, n_actions):
            continue
        if len(support_start) > 0:
            start, end = support_start[row], support_start[row + 1]
            if not (belief.support_state[start:end] == into).any():
                continue
            cells = end - start
        n, a = float(visits[row]), belief.cell[row]
        share = noisy_chance(belief.kinds, row, n) * a
        share /= a * cells + weight_of(n, belief.sharp) * n
        best = likelier(best, share, row, words)
    return best[1], into


@leaf
def _break_stick(
    belief: SparseArrays,
    row: int,
    words: Words,
    scratch: Scratch,
    candidates: tuple[int, int, int],
    observed: tuple[float, float],
    out: tuple[Any, Floats],
    end: int,
) -> int:
    """Split the share of the unobserved successors by breaking a stick; return the new end.

    `candidates` is where the possible ones begin, how many there are, and how many are unobserved,
    `observed` the sum of the others' shares and the parameter of a cell.
    """
    support_state, stamp, free = belief.support_state, scratch.stamp, scratch.free
    states, shares = out
    everything = len(belief.support_start) == 0
    (begin, n_candidates, n_free), (total, a) = candidates, observed
    # Without observations the unobserved cells are the whole row, and their sum cancels.
    stick = draw_gamma(n_free * a, words) if total > 0.0 else 1.0
    # Rejection where nearly all labels are free, a list of the free ones where few are.
    listed = n_candidates < 4 * (n_candidates - n_free + PIECES * (1.0 + n_free * a))
    if listed:
        n_listed = 0
        for k in range(n_candidates):
            state = k if everything else support_state[begin + k]
            free[n_listed] = state
            n_listed += stamp[state] != row
    least = LEFT * (total + stick)
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
    return end


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
        sharp: how much draws are sharpened (see `sharpness`).
        kinds: room for the kinds of rows, where they are learned.
    """

    any_length: ClassVar = POOL
    shape: tuple[int, int]

    def __init__(
        self,
        n_states: int,
        cell: Floats,
        support: Any,
        rewards: RewardArrays,
        sharp: tuple[float, float] = EXACT,
        kinds: RowKinds = UNLEARNED,
    ) -> None:
        nothing = np.zeros(0, np.int64)
        self.n_states, self.shape = n_states, (n_states, len(cell) // n_states)
        self.rewards = rewards
        self.possible = None if support is None else self._supported
        self.arrays = SparseArrays(
            cell=cell,
            support_start=nothing if support is None else support.indptr.astype(np.int64),
            support_state=nothing if support is None else support.indices.astype(np.int64),
            first=np.full(len(cell), -1, np.int64),
            following=nothing,
            successor=nothing,
            counts=nothing,
            n_entries=np.zeros(1, np.int64),
            sharp=np.array(sharp),
            kinds=kinds,
        )
        if support is None:
            pieces = len(cell) * min(n_states, PIECES * n_states * cell[0])
            if pieces > MOST_DRAWN:
                raise ValueError(
                    f"a sample from this prior would have about {pieces:,.0f} cells that are not "
                    f"0, more than {MOST_DRAWN:,}; take a smaller parameter per cell (1/S is "
                    "the default) or a support"
                )

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        self._reserve(len(states))
        rows = states * self.shape[1] + actions
        observe_all(self.arrays, self.rewards, rows, rewards, next_states)

    @interruptible("drawing a model")
    def sample(self, rng: np.random.Generator | int) -> TabularMDP:
        """Draw an MDP with a generator, or with one made from a seed."""
        generator = np.random.default_rng(rng)
        transitions = self._drawn(generator)
        r = np.empty(len(self.arrays.cell))
        with words_of(generator) as words:
            sample_rewards(self.rewards, words, r)
        return self._model(transitions, r)

    def _drawn(self, rng: np.random.Generator) -> Any:
        """Draw the transitions, a sparse matrix `(S*A, S)`."""
        n_rows = len(self.arrays.cell)
        kinds, entry = self.kinds, (-1, -1)
        if kinds is not None or self.sharp[0] != 1.0:
            with words_of(rng) as words:
                if kinds is not None:
                    draw_shares(kinds, words)
                entry = draw_entry(self.arrays, self.n_states, self.rewards.seen, words)
        begins = range(0, n_rows, BLOCK_ROWS)
        streams = [rng]
        if len(begins) > 1:
            seeds = rng.integers(1 << 64, size=(len(begins), 4), dtype=np.uint64)
            streams = [np.random.default_rng(seed) for seed in seeds]
        parts = [
            (stream, entry, begin, min(begin + BLOCK_ROWS, n_rows))
            for stream, begin in zip(streams, begins, strict=True)
        ]
        starts, filled = np.zeros(n_rows + 1, np.int64), 0
        states, shares = np.empty(0, np.int32), np.empty(0)
        for (_, _, begin, end), block in zip(
            parts, in_parallel(self._block, (), parts), strict=True
        ):
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

    def _block(
        self, rng: np.random.Generator, entry: tuple[int, int], begin: int, end: int
    ) -> tuple[Any, Any, Floats]:
        with words_of(rng) as words:
            return sample_rows(self.arrays, self.n_states, entry, words, begin, end)

    @property
    def sharp(self) -> Floats:
        """`(2,)` how much draws are sharpened (see `sharpness`)."""
        return self.arrays.sharp

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
        if self.kinds is not None:
            known, _ = mean_kinds(self.kinds, b.first >= 0)
            weights.data *= np.repeat(1.0 - known, np.diff(weights.indptr))
            places = np.arange(rows), self.kinds.only
            weights += scipy.sparse.csr_array((known, places), shape=weights.shape)
        return self._model(weights, self.rewards.posterior_means())

    def facts(self) -> dict[str, Any]:
        """Return what was learned about the kinds of rewards and of rows, where that is open."""
        return with_rows(self.rewards.facts(), self.kinds)

    @property
    def kinds(self) -> RowKinds | None:
        """The kinds of rows as they are now, or None where they are not learned."""
        if not len(self.arrays.kinds.repeated):
            return None
        find_kinds(self.arrays, self.n_states)
        return self.arrays.kinds

    @property
    def learned(self) -> dict[str, Any]:
        """The arrays that observations change, by name."""
        used = self.arrays.n_entries[0]
        pool = {name: getattr(self.arrays, name)[:used] for name in POOL}
        return {"first": self.arrays.first, **pool, **self.rewards.learned}

    def take(self, stored: dict[str, Any]) -> None:
        """Go on from arrays that are sound."""
        for name, array in self.rewards.learned.items():
            array[:] = stored[name]
        links = {name: stored[name] for name in ("first", *POOL)}
        self.arrays = self.arrays._replace(**links, n_entries=np.array([len(stored["counts"])]))

    def _reserve(self, steps: int) -> None:
        """Make room for the successors that `steps` further steps can reveal."""
        b = self.arrays
        if len(b.counts) - b.n_entries[0] < steps:
            room = max(int(b.n_entries[0]) + steps, 2 * len(b.counts))
            grown = {name: np.resize(getattr(b, name), room) for name in POOL}
            self.arrays = b._replace(**grown)

    @cached_property
    def _support(self) -> Ints:
        """The possible cells s*A*S + a*S + s', sorted."""
        b = self.arrays
        rows = np.repeat(np.arange(len(b.first)), np.diff(b.support_start))
        return np.sort(rows * self.n_states + b.support_state)

    def _supported(self, rows: Ints, next_states: Ints) -> Any:
        cells = rows * self.n_states + next_states
        places = np.searchsorted(self._support, cells).clip(max=len(self._support) - 1)
        return self._support[places] == cells

    def sound(self, stored: dict[str, Any]) -> bool:
        """Return whether compiled code, which checks no index, can go on with stored arrays."""
        first, successor, pool = stored["first"], stored["successor"], len(stored["counts"])
        if any(len(stored[name]) != pool for name in POOL) or (stored["counts"] < 1).any():
            return False
        if not sound_rewards(stored):
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
        if not (rows >= 0).all() or not distinct:
            return False
        return self.possible is None or bool(self.possible(rows, successor).all())

    def _sparse(self, starts: Any, states: Any, values: Floats) -> Any:
        shape = (len(self.arrays.cell), self.n_states)
        if len(states) <= np.iinfo(np.int32).max:  # or SciPy would make the states as wide
            starts = starts.astype(np.int32)
        return scipy.sparse.csr_array((values, states, starts), shape=shape)

    def _model(self, transitions: Any, r: Floats) -> TabularMDP:
        return TabularMDP(transitions, r.reshape(self.shape))
