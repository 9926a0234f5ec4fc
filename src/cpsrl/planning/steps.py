"""Bellman steps and steps of a policy's chain, in sparse and in dense models.

A Bellman step goes through the whole model, but for actions that were eliminated (see `sweeps`); a
step of a policy, v <- r + gamma P v, through the rows of its actions. These are one in A of the
model's, so their copy is kept side by side, the chain, and follows the policy: only rows of actions
that changed are copied again. Read where they stand they would be the slower half of planning.

Sparse: the row pointers, successors and probabilities of the rows s*A + a, in a chain with 32-bit
successors and room for the longest row of every state. Dense: the chain, and for Bellman steps that
look at every action the whole model, is stored transposed, the successor first. The inner loop then
runs over states, and the compiler can use vector instructions without reordering a sum.

Every entry of a vector is a sum of its own in a fixed order, and minima and maxima do not depend on
the order: nothing depends on how many threads share a step.
"""

from typing import Any, NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, jit, specialised
from cpsrl._private.prefetch import AHEAD, prefetch, prefetch_row
from cpsrl.mdp import TabularMDP
from cpsrl.planning.kernels import dot
from cpsrl.planning.parallel import blocks, in_parallel
from cpsrl.support.types import Floats, Ints

TILE = np.uint64(8)
"""Rows of a dense model that are transposed together: as many numbers as a cache line has."""
one_step: Any = None
"""What `_steps` repeats, bound where it is compiled."""
ROOM = 1 << 13
"""Actions that are collected before a look at their rows: so many fit into a processor's cache."""


class Taken(NamedTuple):
    """What steps of a policy's chain gave, v <- r + gamma P v."""

    number: int
    first: float
    """max - min of the first change"""
    low: float
    """the smallest last change, or entry if levelling"""
    high: float
    """the largest"""


Model = tuple[Any, Any, Floats, Floats]
"""A sparse model: row pointers, successors, probabilities, and the rewards `(S, A)`. This and those
below are plain tuples: it takes a microsecond to hand over a named one."""
Chain = tuple[Ints, Ints, Any, Floats, Floats]
"""The rows of a policy's actions in a sparse model, side by side: where each starts and ends, the
successors, the probabilities, and the rewards `(S,)`."""
DenseChain = tuple[Floats, Floats]
"""The rows of a policy's actions in a dense model as columns `(S, S)`, and the rewards `(S,)`."""
Bellman = tuple[float, Floats, Ints, Floats, float, float]
"""A Bellman step that is to be taken: gamma, and what `bellman` is given."""


def steps_of(mdp: TabularMDP, gamma: float) -> "SparseSteps | DenseSteps":
    """Return how steps are taken in `mdp`."""
    return SparseSteps(mdp, gamma) if mdp.prefers_sparse else DenseSteps(mdp, gamma)


class SparseSteps:
    """Steps in a model with few successors."""

    def __init__(self, mdp: TabularMDP, gamma: float) -> None:
        csr, n = mdp.csr, mdp.n_states
        self._gamma, self._parts = gamma, blocks(mdp)
        self._model = (csr.indptr, csr.indices, csr.data, mdp.rewards)
        start, room = _rooms(csr.indptr, *mdp.rewards.shape)
        rows = (start, start.copy(), np.empty(room, np.int32), np.empty(room))
        self._chain, self._nothing = (*rows, np.empty(n)), np.zeros(n)
        self._followed = np.full(n, -1)
        self._above, self._others = np.full(mdp.rewards.shape, np.inf), np.empty(n)

    def _follow(self, policy: Ints) -> None:
        arguments = (self._model, self._chain, self._followed, self._others, policy)
        for _ in in_parallel(_copy_sparse_rows, arguments, self._parts):
            pass

    def bellman(
        self, v: Floats, policy: Ints, step: Floats, risen: float, ceiling: float
    ) -> tuple[float, float, int]:
        """Put T v into `step` `(S,)` and make `policy` greedy; return min d, max d, changes.

        What was at most u when the last step had risen by R is at most u - R + `risen`, and
        nothing is above r + `ceiling`.
        """
        self._follow(policy)
        now = (self._gamma, v, policy, step, risen, ceiling)
        arguments = (self._model, self._chain, self._above, self._others, now)
        found = list(in_parallel(_sparse_bellman, arguments, self._parts))
        low, high = min(x[0] for x in found), max(x[1] for x in found)
        return low, high, sum(x[2] for x in found)

    def policy(
        self, policy: Ints, v: Floats, step: Floats, most: int, want: float, levelling: bool = False
    ) -> Taken:
        """Step to and fro between `v` and `step` until max - min of a change is `want`.

        At most `most` times. With gamma = 1, about what the last step added everywhere is taken off
        again. If `levelling` there are no rewards, and it ends where the entries differ by at most
        `want`.
        """
        self._follow(policy)
        chain = (*self._chain[:-1], self._nothing) if levelling else self._chain
        if len(self._parts) == 1:
            return Taken(*_sparse_steps(chain, self._gamma, v, step, levelling, most, want))
        base, first, low, high, number = 0.0, np.inf, -np.inf, np.inf, 0
        while number < most and high - low > want:
            number += 1
            now = (chain, self._gamma, v, step, base, levelling)
            found = list(in_parallel(_sparse_step, now, self._parts))
            low, high = min(x[0] for x in found), max(x[1] for x in found)
            base = low if self._gamma == 1.0 and not levelling else 0.0
            first = high - low if number == 1 else first
            v, step = step, v
        return Taken(number, first, low, high)


class DenseSteps:
    """Steps in a model with many successors."""

    def __init__(self, mdp: TabularMDP, gamma: float) -> None:
        n = mdp.n_states
        self._gamma = gamma
        self._model = (mdp.dense, mdp.rewards)
        self._by_successor = mdp.by_successor
        self._chain, self._nothing = (np.empty((n, n)), np.empty(n)), np.zeros(n)
        self._followed = np.full(n, -1)
        self._above = np.full(mdp.rewards.shape, np.inf)

    def bellman(
        self, v: Floats, policy: Ints, step: Floats, risen: float, ceiling: float
    ) -> tuple[float, float, int]:
        """See `SparseSteps`."""
        _copy_dense_rows(*self._model, self._chain, self._followed, policy)
        now = (self._gamma, v, policy, step, risen, ceiling)
        return _dense_bellman(*self._model, self._by_successor, self._chain, self._above, now)

    def policy(
        self, policy: Ints, v: Floats, step: Floats, most: int, want: float, levelling: bool = False
    ) -> Taken:
        """See `SparseSteps`."""
        _copy_dense_rows(*self._model, self._chain, self._followed, policy)
        chain = (*self._chain[:-1], self._nothing) if levelling else self._chain
        return Taken(*_dense_steps(chain, self._gamma, v, step, levelling, most, want))


@inlined
def row_sum(indices: Any, data: Floats, start: Any, end: Any, v: Floats) -> float:
    """Return the sum of data v[indices] from `start` to `end`; unsigned, as `inlined` says."""
    total = 0.0
    for entry in range(np.uint64(start), np.uint64(end)):
        total += data[entry] * v[np.uint64(indices[entry])]
    return total


@jit
def _rooms(indptr: Any, n_states: int, n_actions: int) -> tuple[Ints, int]:
    """Return where each state's row begins in a chain `(S,)`, and how many entries it may have."""
    start, room = np.empty(n_states, np.int64), 0
    for s in range(n_states):
        start[s] = room
        longest = 0
        for row in range(s * n_actions, (s + 1) * n_actions):
            longest = max(longest, indptr[row + 1] - indptr[row])
        room += longest
    return start, room


@jit
def _copy_sparse_rows(
    model: Model,
    chain: Chain,
    followed: Ints,
    others: Floats,
    policy: Ints,
    begin: int,
    finish: int,
) -> None:
    """Make the rows of a chain those of `policy` where they are not; then `others` is unknown."""
    indptr, indices, data, r = model
    start, end, successor, probability, reward = chain
    n_actions, one = np.uint64(r.shape[1]), np.uint64(1)
    for s in range(np.uint64(begin), np.uint64(finish)):
        later = s + AHEAD
        if later < finish and followed[later] != policy[later]:
            row = later * n_actions + np.uint64(policy[later])
            prefetch_row(indices, data, indptr[row], indptr[row + one])
        if followed[s] != policy[s]:
            followed[s], others[s] = policy[s], np.inf
            row = s * n_actions + np.uint64(policy[s])
            reward[s] = r[s, policy[s]]
            first, place = np.uint64(indptr[row]), np.uint64(start[s])
            size = np.uint64(indptr[row + one]) - first
            for k in range(size):
                successor[place + k], probability[place + k] = indices[first + k], data[first + k]
            end[s] = place + size


@jit
def _sparse_bellman(
    model: Model, chain: Chain, above: Floats, others: Floats, now: Bellman, begin: int, finish: int
) -> tuple[float, float, int]:
    """Take the Bellman step of the states from `begin` to `finish`.

    `others` `(S,)` is the largest `above` `(S, A)` of the actions that are not the policy's. Those
    that may be better are collected for many states, without a branch, before their rows are read:
    a processor that guesses wrong at each would wait for memory at each.
    """
    indptr, indices, data, r = model
    start, end, successor, probability, reward = chain
    gamma, v, policy, step, risen, ceiling = now
    n_actions, one, two = np.uint64(r.shape[1]), np.uint64(1), np.uint64(2)
    q, rewards = above.reshape(-1), r.reshape(-1)
    rows = np.empty(max(ROOM, r.shape[1]), np.uint64)
    together = len(rows) // r.shape[1]
    low, high, changes = np.inf, -np.inf, 0
    for some in range(begin, finish, together):
        until, count = min(some + together, finish), np.uint64(0)
        for s in range(np.uint64(some), np.uint64(until)):
            best = reward[s] + gamma * row_sum(successor, probability, start[s], end[s], v)
            step[s] = best
            if not others[s] + risen < best:  # also if it is no number
                own, most = s * n_actions + np.uint64(policy[s]), -np.inf
                for row in range(s * n_actions, (s + one) * n_actions):
                    bound = min(q[row] + risen, rewards[row] + ceiling)
                    bound = bound if row != own else -np.inf
                    rows[count] = row
                    count += np.uint64(not bound < best)
                    most = max(most, bound if bound < best else -np.inf)
                others[s] = most - risen
        for k in range(count):
            if k + AHEAD < count:
                row = rows[k + AHEAD]
                prefetch_row(indices, data, indptr[row], indptr[row + one])
                prefetch(indptr, rows[min(k + two * AHEAD, count - one)])
            row = rows[k]
            total = row_sum(indices, data, indptr[row], indptr[row + one], v)
            q[row] = rewards[row] + gamma * total
        for k in range(count):
            row = rows[k]
            s, found = row // n_actions, q[row]
            q[row] = found - risen
            others[s] = max(others[s], q[row])
            if found > step[s]:
                q[s * n_actions + np.uint64(policy[s])] = step[s] - risen
                step[s], policy[s] = found, row % n_actions
                changes += 1
        for s in range(some, until):
            low = min(low, step[s] - v[s])
            high = max(high, step[s] - v[s])
    return low, high, changes


@jit
def _sparse_step(
    chain: Chain,
    gamma: float,
    v: Floats,
    step: Floats,
    base: float,
    levelling: bool,
    begin: int,
    finish: int,
) -> tuple[float, float]:
    """Put r + gamma P v - base into `step`; return the least and the largest r + gamma P v - v.

    If `levelling`, of r + gamma P v.
    """
    start, end, successor, probability, reward = chain
    low, high = np.inf, -np.inf
    for s in range(begin, finish):
        total = reward[s] + gamma * row_sum(successor, probability, start[s], end[s], v)
        step[s] = total - base
        change = total if levelling else total - v[s]
        low = min(low, change)
        high = max(high, change)
    return low, high


@jit
def _copy_dense_rows(P: Floats, r: Floats, chain: DenseChain, followed: Ints, policy: Ints) -> None:
    """Make the columns of a chain the rows of `policy` where they are not."""
    matrix, reward = chain
    n_states = np.uint64(len(r))
    for begin in range(np.uint64(0), n_states, TILE):
        finish = min(begin + TILE, n_states)
        changed = False
        for s in range(begin, finish):
            changed |= followed[s] != policy[s]
            followed[s], reward[s] = policy[s], r[s, policy[s]]
        if changed:
            for j in range(n_states):
                for s in range(begin, finish):
                    matrix[j, s] = P[s, np.uint64(policy[s]), j]


@inlined
def _dense_product(chain: DenseChain, gamma: float, v: Floats, step: Floats) -> None:
    """Put r + gamma P v into `step`, four successors at a time."""
    matrix, reward = chain
    n_states = len(v)
    whole = n_states - n_states % 4
    for s in range(n_states):
        step[s] = 0.0
    for j in range(0, whole, 4):
        a, b, c, d = v[j], v[j + 1], v[j + 2], v[j + 3]
        w, x, y, z = matrix[j], matrix[j + 1], matrix[j + 2], matrix[j + 3]
        for s in range(n_states):
            step[s] += (a * w[s] + b * x[s]) + (c * y[s] + d * z[s])
    for j in range(whole, n_states):
        for s in range(n_states):
            step[s] += v[j] * matrix[j, s]
    for s in range(n_states):
        step[s] = reward[s] + gamma * step[s]


@jit
def _dense_bellman(
    P: Floats, r: Floats, by_successor: Floats, chain: DenseChain, above: Floats, now: Bellman
) -> tuple[float, float, int]:
    """Take the Bellman step of all states."""
    gamma, v, policy, step, risen, ceiling = now
    n_states, n_actions = r.shape
    kept = 0
    _dense_product(chain, gamma, v, step)
    for s in range(n_states):
        for a in range(n_actions):
            above[s, a] = min(above[s, a] + risen, r[s, a] + ceiling)
            kept += not above[s, a] < step[s]
    everything = 4 * kept > n_states * n_actions
    if everything:
        q = above.ravel()
        q[:] = r.ravel()
        for j in range(n_states):
            scale = gamma * v[j]
            row = by_successor[j]
            for i in range(n_states * n_actions):
                q[i] += scale * row[i]
    low, high, changes = np.inf, -np.inf, 0
    for s in range(n_states):
        first = choice = policy[s]
        best = above[s, first] if everything else step[s]
        for a in range(n_actions):
            if not above[s, a] < best and a != first:
                if not everything:
                    above[s, a] = r[s, a] + gamma * dot(P[s, a], v)
                if above[s, a] > best:
                    best, choice = above[s, a], a
        if not everything:
            above[s, first] = step[s]
        for a in range(n_actions):
            above[s, a] -= risen
        changes += choice != first
        policy[s] = choice
        step[s] = best
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high, changes


@jit
def _dense_step(
    chain: DenseChain,
    gamma: float,
    v: Floats,
    step: Floats,
    base: float,
    levelling: bool,
    begin: int,
    finish: int,
) -> tuple[float, float]:
    """Do what `_sparse_step` does, for all states."""
    _dense_product(chain, gamma, v, step)
    low, high = np.inf, -np.inf
    for s in range(begin, finish):
        total = step[s]
        step[s] = total - base
        change = total if levelling else total - v[s]
        low = min(low, change)
        high = max(high, change)
    return low, high


def _steps(
    chain: Any, gamma: float, v: Floats, step: Floats, levelling: bool, most: int, want: float
) -> tuple[int, float, float, float]:
    """Return what `Taken` has, after steps that are each a `one_step`."""
    base, first, low, high, number = 0.0, np.inf, -np.inf, np.inf, 0
    while number < most and high - low > want:
        number += 1
        low, high = one_step(chain, gamma, v, step, base, levelling, 0, len(v))
        base = low if gamma == 1.0 and not levelling else 0.0
        first = high - low if number == 1 else first
        v, step = step, v
    return number, first, low, high


_sparse_steps = specialised(_steps, {}, one_step=_sparse_step)
_dense_steps = specialised(_steps, {}, one_step=_dense_step)
