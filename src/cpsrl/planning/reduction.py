r"""State reduction for sparse chains, however nearly their classes are closed.

The same subtraction-free arithmetic as in `elimination`, with the zeros left out, and in wide
numbers (`wide`), for x = b + M x with M `(n, n)` and leave = 1 - its row sums: states are
eliminated one by one,

    M_ij <- M_ij + M_ik J_kj,   leave_i <- leave_i + M_ik leave_k / e_k,   J_kj = M_kj / e_k,
    e_k = leave_k + sum over remaining j != k of M_kj,

and the diagonal is never looked at. A state with e_k = 0 is closed and stays, an *anchor*. So
probabilities of any size count, and only one of exactly 0 separates.

**Order.** The mean time t_k / e_k in a state before it is left for one that remains grows as states
around it are eliminated (t_i <- t_i + M_ik t_k / e_k, at first 1). Those with the shortest go
first, counted in steps of a factor 2^8, and of these the one with the least fill (Markowitz 1957).
So a class that is nearly closed falls to one state that stands for it while the classes around it
still stand.

**Back substitution.** x_k = b_k / e_k + sum_j J_kj x_j would lose what differs within a class,
where x is as large as the time until the class is left. With p the likeliest successor,

    x_k = x_p + b_k / e_k + sum_j J_kj (x_j - x_p),

and x is kept as `wide.Places`: the differences are as exact as the sum is. Each of its rounding
errors is as if one J or b had been off by a factor 1 + u, which changes no gain by more than 2 n u
of the rewards' range (`certificates`), and a bias of 1e300 hides nothing.
"""

import heapq
from typing import Any, NamedTuple

import numpy as np
import scipy

from cpsrl._private.compile import inlined, jit, leaf
from cpsrl.planning.wide import (
    BITS,
    STEP,
    Places,
    Wide,
    above,
    apart,
    exponent,
    finer,
    less,
    normal,
    over,
    plus,
    put,
    times,
    wide,
    widened,
)
from cpsrl.support.types import Floats, Ints

OCTAVES = 8
LIMBS, MOST_LIMBS = 48, 2048
MORE_REFINEMENTS, ROUNDED = 12, 2.0**-47
"""Refinements beyond one for each integer of a place: each of them settles about 50 bits."""
EXTENSIONS = 2
"""How often places get more integers below where refinements don't end: what they round may have
been multiplied by a probability of 1e-300."""
BELOW, UNITS = -128, 64
"""The power of 2 that a bias is known to, rewards being in [0, 1]; bits before the point of one."""


class Lists(NamedTuple):
    """A list of entries for each state, other state and wide value, in long arrays that can
    grow."""

    start: Ints
    size: Ints
    room: Ints
    other: Ints
    m: Floats
    k: Ints
    end: Ints
    """`(1,)` how much of the arrays is taken"""


class Chain(NamedTuple):
    """What is left of a chain, and how it came about."""

    rows: Lists
    """M; of an eliminated state J, among what remained"""
    columns: Lists
    """by state, those whose rows lead to it; of an eliminated one with their M_ik"""
    out: Wide
    """e"""
    time: Wide
    """t; of an anchor in the end the length of its cycle"""
    leave: Wide
    alive: Ints
    """how many rows of states that remain lead to each"""
    order: Ints
    """the states in the order of their elimination, anchors behind"""


class Level(NamedTuple):
    """What rows P do to an x: rest + P x - x_s and |rest| + P |x - x_s|, each `(S*A,)`."""

    value: Wide
    size: Wide


class Reduction:
    """A reduced chain: `solve` gives x = b + M x.

    Args:
        matrix: M `(n, n)`, sparse.
        leave: `(n,)`, the probability of leaving from each state; none if it is not given.
    """

    def __init__(self, matrix: Any, leave: Floats | None = None) -> None:
        csr = scipy.sparse.csr_array(matrix)
        leave = np.zeros(csr.shape[0]) if leave is None else leave
        self._model = (csr.indptr, csr.indices, csr.data)
        self._chain, self._n = _reduced(*self._model, leave)
        self.anchors = self._chain.order[self._n :]

    def solve(self, b: Floats) -> Floats:
        """Return the solution x `(n,)` of x = b + M x; infinite where float64 ends."""
        x = widened(b)
        _forward(self._chain, self._n, x)
        _backward(self._chain, self._n, x)
        return narrowed(x)

    def stationary(self) -> Floats:
        """Return the stationary distributions `(anchors, n)`, one row for each closed class."""
        return np.stack([narrowed(_stationary(self._chain, self._n, x)) for x in self.anchors])

    def average(self, x: Wide) -> Places:
        """Return P* x `(n,)` for an x in [0, 1], differences to full precision; uses x up."""
        _forward(self._chain, self._n, x)
        return self._refined(self._placed(x, True, None), widened(np.zeros(len(x.m))), 0.0)

    def potential(self, x: Wide) -> Places:
        """Return the h with h = x + P h and P* h = 0, for an x with P* x = 0."""
        b = Wide(x.m.copy(), x.k.copy())
        _forward(self._chain, self._n, b)
        found = self._placed(b, False, BELOW)
        levels = widened_places(*found)
        _forward(self._chain, self._n, levels)
        return self._refined(less(found, self._placed(levels, True, BELOW)), x, 1.0)

    def _refined(self, x: Places, b: Wide, least: float) -> Places:
        """Return an x that is b + P x up to ROUNDED of what is summed, and of `least`.

        Where two large differences of classes balance, states that hardly differ may have got
        different roundings of them.
        """
        for _ in range(EXTENSIONS + 1):
            for _ in range(x.digits.shape[1] + MORE_REFINEMENTS):
                missing = _missing(advantages(*self._model, *x, b), ROUNDED, least)
                missing.m[self.anchors] = 0.0
                if not missing.m.any():
                    return x
                _forward(self._chain, self._n, missing)
                x = less(x, self._placed(missing, False, x.lowest))
            x = finer(x, LIMBS)
        return x

    def _placed(self, x: Wide, averaging: bool, lowest: int | None) -> Places:
        limbs = LIMBS
        while True:
            least = UNITS - BITS * limbs if lowest is None else lowest
            places = Places(np.zeros((len(x.m) + 1, limbs), np.int64), least)
            fits, fine = _place(self._chain, self._n, x, averaging, *places)
            if (fits and (fine or lowest is not None)) or limbs >= MOST_LIMBS:
                return places
            limbs *= 2


@jit
def advantages(
    indptr: Any, indices: Any, data: Floats, digits: Any, lowest: int, rest: Wide
) -> Level:
    """Return the level of an x in places, for `rest` and a row for each state and action."""
    many = len(rest.m)
    n_actions = many // (len(digits) - 1)
    value, size = Wide(rest.m.copy(), rest.k.copy()), Wide(np.abs(rest.m), rest.k.copy())
    for row in range(many):
        m, k, size_m, size_k = value.m[row], value.k[row], size.m[row], size.k[row]
        for entry in range(indptr[row], indptr[row + 1]):
            far_m, far_k = apart(digits, lowest, indices[entry], row // n_actions)
            if far_m != 0.0:
                p_m, p_k = wide(data[entry])
                part_m, part_k = times(p_m, p_k, far_m, far_k)
                m, k = plus(m, k, part_m, part_k)
                size_m, size_k = plus(size_m, size_k, abs(part_m), part_k)
        value.m[row], value.k[row], size.m[row], size.k[row] = m, k, size_m, size_k
    return Level(value, size)


@inlined
def beyond(level: Level, row: int, sign: float, e: float) -> tuple[float, int]:
    """Return `sign` times the value, less e times the size."""
    value, size = level.value, level.size
    m, k = normal(-e * size.m[row], size.k[row])
    return plus(sign * value.m[row], value.k[row], m, k)


@jit
def _missing(level: Level, e: float, least: float) -> Wide:
    """Return the negative value of each row where it is more than e times the size and `least`."""
    missing = Wide(np.zeros(len(level.value.m)), np.zeros(len(level.value.m), np.int64))
    for row in range(len(level.value.m)):
        m, k = level.value.m[row], level.value.k[row]
        for sign in (1.0, -1.0):
            rest, power = beyond(level, row, sign, e)
            rest, power = plus(rest, power, -e * least, 0)
            if rest > 0.0:
                missing.m[row], missing.k[row] = -m, k
    return missing


@jit
def _reduced(indptr: Any, indices: Any, data: Floats, leave: Floats) -> tuple[Chain, int]:
    """Return the reduced chain and how many states were eliminated."""
    n = len(leave)
    out_of, into = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        for entry in range(indptr[i], indptr[i + 1]):
            out_of[i] += 1
            into[indices[entry]] += 1
    rows, columns = _lists(out_of), _lists(into)
    time = Wide(np.ones(n), np.zeros(n, np.int64))
    chain = Chain(rows, columns, widened(leave), time, widened(leave), into, np.empty(n, np.int64))
    into[:] = 0
    for i in range(n):
        for entry in range(indptr[i], indptr[i + 1]):
            if indices[entry] != i and data[entry] != 0.0:
                m, k = wide(data[entry])
                _enter(chain, i, indices[entry], m, k)
                chain.out.m[i], chain.out.k[i] = plus(chain.out.m[i], chain.out.k[i], m, k)
    stamp, gone = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    where, fresh = np.zeros(n, np.int64), np.empty(n, np.int64)
    heap = [(0, 0, 0, 0)]
    heap.clear()
    for i in range(n):
        if chain.out.m[i] != 0.0:
            heapq.heappush(heap, _turn(chain, i, stamp))
    number = 0
    while heap:
        _, _, s, when = heapq.heappop(heap)
        if gone[s] or when != stamp[s]:
            continue
        gone[s] = True
        chain.order[number] = s
        number += 1
        chain = _eliminate(chain, s, gone, where, fresh)
        for place in range(chain.columns.start[s], chain.columns.start[s] + chain.columns.size[s]):
            i = chain.columns.other[place]
            stamp[i] += 1
            if chain.out.m[i] != 0.0:
                heapq.heappush(heap, _turn(chain, i, stamp))
    place = number
    for i in range(n):
        if not gone[i]:
            chain.order[place] = i
            place += 1
    return chain, number


@jit
def _lists(sizes: Ints) -> Lists:
    """Return empty lists with room for more than `sizes` `(n,)` entries."""
    n = len(sizes)
    start, room = np.empty(n, np.int64), 2 * sizes + 4
    end = 0
    for i in range(n):
        start[i] = end
        end += room[i]
    taken, size = np.full(1, end), np.zeros(n, np.int64)
    index, m, k = np.empty(end, np.int64), np.empty(end), np.empty(end, np.int64)
    return Lists(start, size, room, index, m, k, taken)


@jit
def _with_room(lists: Lists, i: int, more: int) -> Lists:
    """Return lists in which that of `i` has room for `more` entries."""
    size, begin, end = lists.size[i], lists.start[i], lists.end[0]
    if size + more <= lists.room[i]:
        return lists
    room = 2 * (size + more)
    if end + room > len(lists.other):
        extra = len(lists.other) + room
        lists = Lists(
            lists.start,
            lists.size,
            lists.room,
            np.concatenate((lists.other, np.empty(extra, np.int64))),
            np.concatenate((lists.m, np.empty(extra))),
            np.concatenate((lists.k, np.empty(extra, np.int64))),
            lists.end,
        )
    for other in range(size):
        lists.other[end + other] = lists.other[begin + other]
        lists.m[end + other], lists.k[end + other] = lists.m[begin + other], lists.k[begin + other]
    lists.start[i], lists.room[i], lists.end[0] = end, room, end + room
    return lists


@inlined
def _enter(chain: Chain, i: int, j: int, m: float, k: int) -> None:
    """Add the entry M_ij, where there is room."""
    rows, columns = chain.rows, chain.columns
    place = rows.start[i] + rows.size[i]
    rows.other[place], rows.m[place], rows.k[place] = j, m, k
    rows.size[i] += 1
    columns.other[columns.start[j] + columns.size[j]] = i
    columns.size[j] += 1
    chain.alive[j] += 1


@inlined
def _turn(chain: Chain, i: int, stamp: Ints) -> tuple[int, int, int, int]:
    """Return when a state is to be eliminated: by its mean time, then by the fill."""
    m, k = over(chain.time.m[i], chain.time.k[i], chain.out.m[i], chain.out.k[i])
    return exponent(m, k) // OCTAVES, chain.rows.size[i] * chain.alive[i], i, stamp[i]


@jit
def _eliminate(chain: Chain, s: int, gone: Any, where: Ints, fresh: Ints) -> Chain:
    """Eliminate a state; `where` and `fresh` `(n,)` are scratch."""
    rows, columns, out = chain.rows, chain.columns, chain.out
    n_successors = rows.size[s]
    for place in range(rows.start[s], rows.start[s] + n_successors):
        rows.m[place], rows.k[place] = over(rows.m[place], rows.k[place], out.m[s], out.k[s])
        chain.alive[rows.other[place]] -= 1
    stay_m, stay_k = over(chain.time.m[s], chain.time.k[s], out.m[s], out.k[s])
    leave_m, leave_k = over(chain.leave.m[s], chain.leave.k[s], out.m[s], out.k[s])
    kept, many = 0, columns.size[s]
    for number in range(many):
        i = chain.columns.other[chain.columns.start[s] + number]
        if gone[i]:
            continue
        m, k, n_fresh = _merge(chain, i, s, where, fresh)
        if n_fresh:
            chain = _with_entries(chain, i, m, k, fresh[:n_fresh])
        columns = chain.columns
        place = columns.start[s] + kept
        columns.other[place], columns.m[place], columns.k[place] = i, m, k
        kept += 1
        added = times(m, k, stay_m, stay_k)
        chain.time.m[i], chain.time.k[i] = plus(chain.time.m[i], chain.time.k[i], *added)
        added = times(m, k, leave_m, leave_k)
        total_m, total_k = plus(chain.leave.m[i], chain.leave.k[i], *added)
        chain.leave.m[i], chain.leave.k[i] = total_m, total_k
        _sum_up(chain, i)
    chain.columns.size[s] = kept
    return chain


@jit
def _with_entries(chain: Chain, i: int, m: float, k: int, places: Ints) -> Chain:
    """Return the chain with (m, k) times the entries at `places` put into the row of i."""
    rows, columns = _with_room(chain.rows, i, len(places)), chain.columns
    for place in places:
        columns = _with_room(columns, rows.other[place], 1)
    chain = Chain(rows, columns, chain.out, chain.time, chain.leave, chain.alive, chain.order)
    for place in places:
        _enter(chain, i, rows.other[place], *times(m, k, rows.m[place], rows.k[place]))
    return chain


@leaf
def _sum_up(chain: Chain, i: int) -> None:
    """Make e_i the sum of what the row of a state that remains holds."""
    rows, total_m, total_k = chain.rows, chain.leave.m[i], chain.leave.k[i]
    for place in range(rows.start[i], rows.start[i] + rows.size[i]):
        total_m, total_k = plus(total_m, total_k, rows.m[place], rows.k[place])
    chain.out.m[i], chain.out.k[i] = total_m, total_k


@leaf
def _merge(chain: Chain, i: int, s: int, where: Ints, fresh: Ints) -> tuple[float, int, int]:
    """Replace the entry M_is by steps through s, but for those to states that are new to the row.

    Return the entry and how many these are; their places in the row of s are put into `fresh`.
    """
    rows = chain.rows
    base = rows.start[i]
    for other in range(rows.size[i]):
        where[rows.other[base + other]] = other
    hole, final = base + where[s], base + rows.size[i] - 1
    m, k = rows.m[hole], rows.k[hole]
    rows.other[hole], rows.m[hole], rows.k[hole] = rows.other[final], rows.m[final], rows.k[final]
    where[rows.other[hole]] = where[s]
    rows.size[i] -= 1
    n_fresh = 0
    for place in range(rows.start[s], rows.start[s] + rows.size[s]):
        j = rows.other[place]
        if j == i:
            continue
        there = base + where[j]
        if where[j] < rows.size[i] and rows.other[there] == j:
            part_m, part_k = times(m, k, rows.m[place], rows.k[place])
            rows.m[there], rows.k[there] = plus(rows.m[there], rows.k[there], part_m, part_k)
        else:
            fresh[n_fresh] = place
            n_fresh += 1
    return m, k, n_fresh


@leaf
def _forward(chain: Chain, n_eliminated: int, x: Wide) -> None:
    """Carry x through the elimination: b / e of an eliminated state, of an anchor its cycle's."""
    columns = chain.columns
    for s in chain.order[:n_eliminated]:
        m, k = over(x.m[s], x.k[s], chain.out.m[s], chain.out.k[s])
        x.m[s], x.k[s] = m, k
        for place in range(columns.start[s], columns.start[s] + columns.size[s]):
            i = columns.other[place]
            added = times(columns.m[place], columns.k[place], m, k)
            x.m[i], x.k[i] = plus(x.m[i], x.k[i], *added)


@leaf
def _backward(chain: Chain, n_eliminated: int, x: Wide) -> None:
    rows = chain.rows
    for number in range(n_eliminated - 1, -1, -1):
        s = chain.order[number]
        for place in range(rows.start[s], rows.start[s] + rows.size[s]):
            j = rows.other[place]
            added = times(rows.m[place], rows.k[place], x.m[j], x.k[j])
            x.m[s], x.k[s] = plus(x.m[s], x.k[s], *added)


@jit
def _place(
    chain: Chain, n_eliminated: int, x: Wide, averaging: bool, digits: Any, lowest: int
) -> tuple[bool, bool]:
    """Put the solution for a forwarded x into `digits`, or P* x; return whether it fits, finely."""
    rows, order = chain.rows, chain.order
    fits = fine = True
    if averaging:
        for a in order[n_eliminated:]:
            m, k = over(x.m[a], x.k[a], chain.time.m[a], chain.time.k[a])
            fitting, exact = put(digits, lowest, a, m, k)
            fits, fine = fits and fitting, fine and exact
    for number in range(n_eliminated - 1, -1, -1):
        s = order[number]
        best = rows.start[s]
        for place in range(rows.start[s], rows.start[s] + rows.size[s]):
            if above(rows.m[place], rows.k[place], rows.m[best], rows.k[best]):
                best = place
        likeliest = rows.other[best]
        m, k = (0.0, 0) if averaging else (x.m[s], x.k[s])
        for place in range(rows.start[s], rows.start[s] + rows.size[s]):
            far_m, far_k = apart(digits, lowest, rows.other[place], likeliest)
            added = times(rows.m[place], rows.k[place], far_m, far_k)
            m, k = plus(m, k, *added)
        digits[s] = digits[likeliest]
        fitting, exact = put(digits, lowest, s, m, k)
        fits, fine = fits and fitting, fine and exact
    return fits, fine


@jit
def _stationary(chain: Chain, n_eliminated: int, anchor: int) -> Wide:
    n = len(chain.order)
    weights, columns = Wide(np.zeros(n), np.zeros(n, np.int64)), chain.columns
    weights.m[anchor] = 1.0
    total_m, total_k = 1.0, 0
    for number in range(n_eliminated - 1, -1, -1):
        s = chain.order[number]
        m, k = 0.0, 0
        for place in range(columns.start[s], columns.start[s] + columns.size[s]):
            i = columns.other[place]
            added = times(columns.m[place], columns.k[place], weights.m[i], weights.k[i])
            m, k = plus(m, k, *added)
        m, k = over(m, k, chain.out.m[s], chain.out.k[s])
        weights.m[s], weights.k[s] = m, k
        total_m, total_k = plus(total_m, total_k, m, k)
    for s in range(n):
        m, k = over(weights.m[s], weights.k[s], total_m, total_k)
        weights.m[s], weights.k[s] = m, k
    return weights


def narrowed(x: Wide) -> Floats:
    """Return wide numbers `(n,)` as floats, infinite where these end."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(x.m, np.clip(STEP * x.k, -8 * STEP, 8 * STEP)))


@jit
def widened_places(digits: Any, lowest: int) -> Wide:
    """Return the numbers of places `(n + 1, L)` but for the last as wide ones `(n,)`."""
    n = len(digits) - 1
    x = Wide(np.empty(n), np.empty(n, np.int64))
    for i in range(n):
        x.m[i], x.k[i] = apart(digits, lowest, i, n)
    return x
