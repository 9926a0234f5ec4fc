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

The observed successors of a row are a linked list in a pool: `first` (S*A,) and `following` (pool,)
are positions in it (-1 ends a list), `successor` and `count` (pool,) its entries.
"""

from typing import Any

import numpy as np

from cpsrl._compile import jit
from cpsrl.beliefs.gamma import draw_gamma
from cpsrl.types import Floats, Ints

LEFT = 1e-12
PIECES = 28
"""About how many pieces a stick gives for each unit of the unobserved cells' parameter."""


@jit
def observe_successor(
    row: int,
    state: int,
    first: Ints,
    following: Ints,
    successor: Ints,
    count: Ints,
    n_entries: Ints,
) -> None:
    """Enter a transition from `row` to `state`; the pool must have room for one more entry."""
    entry = first[row]
    while entry >= 0:
        if successor[entry] == state:
            count[entry] += 1
            return
        entry = following[entry]
    entry = n_entries[0]
    n_entries[0] += 1
    successor[entry] = state
    count[entry] = 1
    following[entry] = first[row]
    first[row] = entry


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
def sample_sparse(
    n_states: int,
    cell: Floats,
    support_start: Ints,
    support_state: Ints,
    first: Ints,
    following: Ints,
    successor: Ints,
    count: Ints,
    rng: np.random.Generator,
) -> tuple[Any, Any, Floats]:
    """Draw every transition row; return row pointers, successors and probabilities.

    Args:
        n_states: S.
        cell: `(S*A,)` prior parameter of each possible cell of a row.
        support_start: `(S*A + 1,)` where each row's possible successors begin, or `(0,)`: all.
        support_state: the possible successors.
        first: `(S*A,)`, with the three that follow: the observed successors.
        following: `(pool,)`.
        successor: `(pool,)`.
        count: `(pool,)`.
        rng: where the variates come from.
    """
    n_rows = len(first)
    everything = len(support_start) == 0
    starts = np.zeros(n_rows + 1, np.int64)
    states = np.empty(n_rows * 32 + n_states if everything else len(support_state), np.int32)
    shares = np.empty(len(states))
    stamp = np.full(n_states, -1, np.int64)
    free = np.empty(n_states, np.int32)
    end = 0
    for row in range(n_rows):
        begin = 0 if everything else support_start[row]
        n_candidates = n_states if everything else support_start[row + 1] - begin
        if end + n_candidates > len(states):
            states = _longer(states)
            shares = _longer(shares)
        a = cell[row]
        start = end
        total = 0.0
        entry = first[row]
        while entry >= 0:
            stamp[successor[entry]] = row
            states[end] = successor[entry]
            shares[end] = rng.standard_gamma(count[entry] + a)
            total += shares[end]
            end += 1
            entry = following[entry]
        n_free = n_candidates - (end - start)
        if n_free > 0:
            # Without observations the unobserved cells are the whole row, and their sum cancels.
            stick = draw_gamma(n_free * a, rng) if total > 0.0 else 1.0
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
                    x = rng.standard_gamma(1.0 + a)
                    y = draw_gamma(n_free * a, rng)
                    if stick * y > least * (x + y):
                        piece, rest = stick * x / (x + y), stick * y / (x + y)
                stick = rest
                if listed:
                    k = int(rng.random() * (n_free + 1))
                    state = free[k]
                    free[k] = free[n_free]
                else:
                    while True:
                        k = int(rng.random() * n_candidates)
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
        starts[row + 1] = end
    return starts, states[:end], shares[:end]


@jit
def _longer(array: Any) -> Any:
    longer = np.empty(len(array) + len(array) // 2, array.dtype)
    longer[: len(array)] = array
    return longer
