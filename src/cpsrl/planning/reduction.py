"""State reduction for sparse chains: `elimination` with the zeros left out.

The same subtraction-free arithmetic, for x = b + M x with M `(n, n)` sparse and leave = 1 - its row
sums, given or computed elsewhere without cancellation: states are eliminated one by one,

    M_ij <- M_ij + M_ik M_kj / e_k,   leave_i <- leave_i + M_ik leave_k / e_k,
    e_k = leave_k + sum over remaining j != k of M_kj,

and the diagonal is never looked at. A sparse LU factorisation of I - M subtracts, and loses as many
digits as the chain's classes nearly separate; here each entry keeps its relative accuracy.

States are taken in reverse Cuthill-McKee order. The fill follows from the elimination tree of the
pattern of M + M^T (Davis 2006, chapter 4): row i has entries left of the diagonal at the nodes on
the tree's paths from the entries of M_i up to i, and column i of them is row i's right-hand part.
"""

from typing import Any

import numpy as np
import scipy

from cpsrl._compile import jit
from cpsrl.types import Floats, Ints


class Reduction:
    """A factored chain: `solve` gives x = b + M x, or x = b + M^T x.

    Args:
        matrix: M `(n, n)`, sparse.
        leave: `(n,)`, the probability of leaving from each state.
    """

    def __init__(self, matrix: Any, leave: Floats) -> None:
        pattern = scipy.sparse.csr_array(matrix + matrix.T)
        self._order = scipy.sparse.csgraph.reverse_cuthill_mckee(pattern, symmetric_mode=True)
        order, n = self._order, len(leave)
        both = _sorted(pattern[order][:, order])
        parent, counts = np.full(n, -1), np.zeros(n + 1, np.int64)
        _tree(both.indptr, both.indices, parent, counts)
        self._left = np.cumsum(counts)
        self._columns = np.empty(self._left[-1], np.int64)
        _left_columns(both.indptr, both.indices, parent, self._left, self._columns)
        self._right = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(self._columns, minlength=n), out=self._right[1:])
        self._rows, place = np.empty(len(self._columns), np.int64), self._right[:-1].copy()
        _right_columns(self._left, self._columns, place, self._rows)
        self._lower, self._upper = np.empty(len(self._columns)), np.empty(len(self._columns))
        self._pivot = np.empty(n)
        M = _sorted(scipy.sparse.csr_array(matrix)[order][:, order])
        _eliminate(M.indptr, M.indices, M.data, leave[order], *self._factors)

    @property
    def _factors(self) -> tuple[Ints, Ints, Floats, Ints, Ints, Floats, Floats]:
        return (
            self._left,
            self._columns,
            self._lower,
            self._right,
            self._rows,
            self._upper,
            self._pivot,
        )

    def solve(self, b: Floats, trans: str = "N") -> Floats:
        """Return the solution x `(n,)` of x = b + M x, or with M^T if `trans` is "T"."""
        x = np.array(b[self._order], dtype=np.float64)
        (_solve if trans == "N" else _solve_transposed)(*self._factors, x)
        result = np.empty_like(x)
        result[self._order] = x
        return result


def _sorted(matrix: Any) -> Any:
    matrix.sort_indices()
    return matrix


@jit
def _tree(indptr: Ints, indices: Ints, parent: Ints, counts: Ints) -> None:
    """Find the elimination tree, and how many entries each row has left of the diagonal."""
    n = len(parent)
    ancestor = np.full(n, -1)
    for i in range(n):
        for entry in range(indptr[i], indptr[i + 1]):
            k = indices[entry]
            while k != -1 and k < i:
                above = ancestor[k]
                ancestor[k] = i
                if above == -1:
                    parent[k] = i
                k = above
    mark = np.full(n, -1)
    for i in range(n):
        mark[i] = i
        for entry in range(indptr[i], indptr[i + 1]):
            k = indices[entry]
            while k < i and mark[k] != i:
                mark[k] = i
                counts[i + 1] += 1
                k = parent[k]


@jit
def _left_columns(indptr: Ints, indices: Ints, parent: Ints, left: Ints, columns: Ints) -> None:
    mark = np.full(len(parent), -1)
    for i in range(len(parent)):
        mark[i] = i
        place = left[i]
        for entry in range(indptr[i], indptr[i + 1]):
            k = indices[entry]
            while k < i and mark[k] != i:
                mark[k] = i
                columns[place] = k
                place += 1
                k = parent[k]
        columns[left[i] : place].sort()


@jit
def _right_columns(left: Ints, columns: Ints, place: Ints, rows: Ints) -> None:
    for i in range(len(left) - 1):
        for entry in range(left[i], left[i + 1]):
            k = columns[entry]
            rows[place[k]] = i
            place[k] += 1


@jit
def _eliminate(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    leave: Floats,
    left: Ints,
    columns: Ints,
    lower: Floats,
    right: Ints,
    rows: Ints,
    upper: Floats,
    pivot: Floats,
) -> None:
    n = len(pivot)
    row = np.zeros(n)
    for i in range(n):
        for entry in range(indptr[i], indptr[i + 1]):
            row[indices[entry]] = data[entry]
        for entry in range(left[i], left[i + 1]):
            k = columns[entry]
            into = row[k] / pivot[k]
            row[k] = 0.0
            lower[entry] = into
            if into != 0.0:
                leave[i] += into * leave[k]
                for other in range(right[k], right[k + 1]):
                    row[rows[other]] += into * upper[other]
        row[i] = 0.0
        pivot[i] = leave[i]
        for entry in range(right[i], right[i + 1]):
            upper[entry] = row[rows[entry]]
            row[rows[entry]] = 0.0
            pivot[i] += upper[entry]


@jit
def _solve(
    left: Ints,
    columns: Ints,
    lower: Floats,
    right: Ints,
    rows: Ints,
    upper: Floats,
    pivot: Floats,
    x: Floats,
) -> None:
    for i in range(len(x)):
        for entry in range(left[i], left[i + 1]):
            x[i] += lower[entry] * x[columns[entry]]
    for i in range(len(x) - 1, -1, -1):
        for entry in range(right[i], right[i + 1]):
            x[i] += upper[entry] * x[rows[entry]]
        x[i] /= pivot[i]


@jit
def _solve_transposed(
    left: Ints,
    columns: Ints,
    lower: Floats,
    right: Ints,
    rows: Ints,
    upper: Floats,
    pivot: Floats,
    x: Floats,
) -> None:
    for i in range(len(x)):
        x[i] /= pivot[i]
        for entry in range(right[i], right[i + 1]):
            x[rows[entry]] += upper[entry] * x[i]
    for i in range(len(x) - 1, -1, -1):
        for entry in range(left[i], left[i + 1]):
            x[columns[entry]] += lower[entry] * x[i]
