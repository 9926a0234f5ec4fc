"""The Markov chain of a policy: gain, bias, stationary distribution, discounted value.

With P the transition matrix `(S, S)` and r the rewards `(S,)` under a policy, and P* the limit of
(1/T) sum_{t<T} P^t (which exists for periodic chains and for any number of closed classes),

    gain   g = P* r
    bias   h = r - g + P h  with  P* h = 0
    value  V = r + gamma P V.

Dense chains are solved by `elimination`; sparse ones by one sparse LU factorisation of I - P over
all states but one anchor in every closed class. Cycles between visits to an anchor then give
everything: the average of x is its expected sum over a cycle divided by the cycle's expected
length. Where the LU has not kept its digits, or probabilities are tiny, a `reduction` does it.
"""

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cpsrl._private.compile import jit
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.problem import unavailable
from cpsrl.planning import elimination
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.reduction import Reduction, narrowed, widened_places
from cpsrl.planning.wide import widened
from cpsrl.support.checks import is_sparse
from cpsrl.support.interruptible import interruptible
from cpsrl.support.types import Floats, Ints

ANCHOR_STEPS = 100
TRUST = 1e-10
"""The relative error of expected times up to which an LU factorisation is used."""
RARE = 1e-100
"""A chain with a smaller probability is reduced in wide numbers: products of these would end."""


class DenseChain:
    """A chain given as an array `(S, S)`."""

    def __init__(self, matrix: Floats) -> None:
        n_states = len(matrix)
        self._factored = np.empty((n_states, n_states))
        self._order = np.empty(n_states, np.int64)
        self._anchors = np.empty(n_states, np.int64)
        self._vectors = np.empty((elimination.VECTORS, n_states))
        chain = np.array(matrix, dtype=np.float64, order="C")
        self._n = int(
            elimination.factor(chain, self._factored, self._order, self._anchors, self._vectors)
        )

    def average(self, x: Floats) -> Floats:
        """Return P* x `(S,)`."""
        result = np.empty_like(x)
        ordered, vectors = x[self._order], self._vectors
        elimination.limit(self._factored, self._anchors, self._n, ordered, vectors, result)
        return self._natural(result)

    def potential(self, x: Floats) -> Floats:
        """Return the h with h = x + P h and P* h = 0, for an x `(S,)` with P* x = 0."""
        result = x[self._order]
        elimination.potential(self._factored, self._anchors, self._n, self._vectors, result)
        return self._natural(result)

    def stationary(self) -> Floats:
        """Return the stationary distributions `(classes, S)`, one row for each closed class."""
        rows = np.empty((self._n, len(self._order)))
        for row, anchor in zip(rows, self._anchors, strict=False):
            elimination.stationary(self._factored, int(anchor), row)
        return np.stack([self._natural(row) for row in rows])

    def _natural(self, values: Floats) -> Floats:
        result = np.empty_like(values)
        result[self._order] = values
        return result


class SparseChain:
    """A chain given as a sparse matrix `(S, S)`, with an LU factorisation.

    Args:
        matrix: the chain.
        anchors: an often visited state of each closed class.
        factors: those of I - M, M the chain among the other states.
    """

    def __init__(self, matrix: Any, anchors: Ints, factors: Any) -> None:
        rest = np.setdiff1d(np.arange(matrix.shape[0]), anchors)
        self._anchors, self._rest, self._lu = anchors, rest, factors
        self._from_anchors = matrix[anchors][:, rest]
        self._to_anchors = matrix[rest][:, anchors]
        self._length = self._cycle(np.ones(matrix.shape[0]))

    def _cycle(self, x: Floats) -> Floats:
        return np.asarray(x[self._anchors] + self._from_anchors @ self._lu.solve(x[self._rest]))

    def _extend(self, at_anchors: Floats, x: Floats | None = None) -> Floats:
        b = self._to_anchors @ at_anchors
        result = np.empty(self._anchors.size + self._rest.size)
        result[self._anchors] = at_anchors
        result[self._rest] = self._lu.solve(b if x is None else b + x[self._rest])
        return result

    def average(self, x: Floats) -> Floats:
        """Return P* x `(S,)`."""
        average = self._cycle(x) / self._length
        if average.size == 1:
            return np.full_like(x, average[0])
        return self._extend(average)

    def potential(self, x: Floats) -> Floats:
        """Return the h with h = x + P h and P* h = 0, for an x `(S,)` with P* x = 0."""
        h = self._extend(np.zeros(self._anchors.size), x)
        return np.asarray(h - self.average(h))

    def stationary(self) -> Floats:
        """Return the stationary distributions `(classes, S)`, one row for each closed class."""
        rows = np.zeros((self._anchors.size, self._anchors.size + self._rest.size))
        for k, anchor in enumerate(self._anchors):
            rows[k, anchor] = 1.0
            rows[k, self._rest] = self._lu.solve(self._from_anchors[[k]].toarray()[0], "T")
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))


class ReducedChain:
    """A chain whose classes may be nearly closed, given as any matrix `(S, S)`."""

    def __init__(self, matrix: Any) -> None:
        self._chain = Reduction(matrix)

    def average(self, x: Floats) -> Floats:
        """Return P* x `(S,)`."""
        low, width = float(x.min()), float(np.ptp(x)) or 1.0
        found = self._chain.average(widened((x - low) / width))
        return low + width * narrowed(widened_places(*found))

    def potential(self, x: Floats) -> Floats:
        """Return the h with h = x + P h and P* h = 0, for an x `(S,)` with P* x = 0."""
        size = float(np.abs(x).max()) or 1.0
        return size * narrowed(widened_places(*self._chain.potential(widened(x / size))))

    def stationary(self) -> Floats:
        """Return the stationary distributions `(classes, S)`, one row for each closed class."""
        return self._chain.stationary()


def factored(matrix: Any) -> "DenseChain | SparseChain | ReducedChain":
    """Return the factored chain of a dense or sparse transition matrix `(S, S)`."""
    least = matrix.data.min() if is_sparse(matrix) else matrix[matrix > 0.0].min()
    if least >= RARE:
        if not is_sparse(matrix):
            return DenseChain(matrix)
        anchors = _anchors(matrix)
        rest = np.setdiff1d(np.arange(matrix.shape[0]), anchors)
        leave = np.asarray(matrix[rest][:, anchors].sum(axis=1)).ravel()
        factors = lu_factors(matrix[rest][:, rest], leave)
        if factors is not None:
            return SparseChain(matrix, anchors, factors)
    return ReducedChain(matrix)


def sparse_factors(matrix: Any, leave: Floats) -> Any:
    """Return an object whose `solve(b)` is the x `(n,)` with x = b + M x, for a sparse M `(n, n)`.

    `leave` `(n,)` is one minus the row sums of M.
    """
    return lu_factors(matrix, leave) or Reduction(matrix, leave)


def lu_factors(matrix: Any, leave: Floats) -> Any:
    """Return an LU factorisation of I - M, or None if it has not kept its digits.

    The expected times t until leaving, t = 1 + M t, tell what it is worth: since I - M has a
    non-negative inverse, a residual of at most e everywhere means that t is right to a relative
    error of e / (1 - e).
    """
    n = len(leave)
    if n == 0 or (matrix.size and matrix.data.min() < RARE):
        return None
    try:
        factors = scipy.sparse.linalg.splu(
            (scipy.sparse.eye_array(n) - matrix).tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.1,
        )
    except RuntimeError:  # exactly singular in float64
        return None
    times = factors.solve(np.ones(n))
    residual = _times_residual(matrix.indptr, matrix.indices, matrix.data, leave, times)
    return factors if residual <= TRUST else None


@jit
def _times_residual(
    indptr: Ints, indices: Ints, data: Floats, leave: Floats, times: Floats
) -> float:
    """Return the largest |1 + M t - t|, differences first; infinite if any is not a number."""
    most = 0.0
    for i in range(len(times)):
        total = leave[i] * times[i] - 1.0
        for entry in range(indptr[i], indptr[i + 1]):
            total += data[entry] * (times[i] - times[indices[entry]])
        if not abs(total) < np.inf:
            return np.inf
        most = max(most, abs(total))
    return most


def closed_classes(matrix: Any) -> list[Ints]:
    """Return the closed classes of a transition matrix `(S, S)`, each a sorted array of states."""
    graph = scipy.sparse.csr_array(matrix)
    graph.eliminate_zeros()
    count, label = scipy.sparse.csgraph.connected_components(graph, connection="strong")
    is_open = np.zeros(count, bool)
    source = np.repeat(label, np.diff(graph.indptr))
    is_open[source[source != label[graph.indices]]] = True
    return [np.flatnonzero(label == c) for c in np.flatnonzero(~is_open)]


def _anchors(matrix: Any) -> Ints:
    """Return an often visited state of each closed class (see `elimination.factor` for why)."""
    weights = np.full(matrix.shape[0], 1 / matrix.shape[0])
    transposed = matrix.T.tocsr()
    for _ in range(ANCHOR_STEPS):
        weights = 0.5 * weights + 0.5 * (transposed @ weights)
    return np.array([states[np.argmax(weights[states])] for states in closed_classes(matrix)])


def checked_policy(mdp: TabularMDP, policy: ArrayLike) -> Any:
    """Return `policy` as int64 `(S,)` or, if stochastic, as float64 `(S, A)`; check it."""
    array = np.asarray(policy)
    shape = (mdp.n_states, mdp.n_actions)
    if array.shape == shape[:1] and np.issubdtype(array.dtype, np.integer):
        wrong = np.flatnonzero((array < 0) | (array >= shape[1]))
        if wrong.size:
            raise ValueError(
                f"policy[{wrong[0]}] is {array[wrong[0]]}; actions are 0..{shape[1] - 1}"
            )
        chosen = array.astype(np.int64)
        wrong = np.flatnonzero(mdp.allowed(chosen) != chosen)
        if wrong.size:
            raise unavailable(int(wrong[0]), int(chosen[wrong[0]]))
        return chosen
    if array.shape == shape:
        array = array.astype(np.float64)
        bad = ~(np.abs(array.sum(axis=1) - 1) <= 1e-8) | (array < 0).any(axis=1)
        if bad.any():
            state = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"policy[{state}] must be probabilities that sum to 1, not {array[state]}"
            )
        if mdp.available is not None and array[~mdp.available].any():
            raise unavailable(*np.argwhere((array > 0) & ~mdp.available)[0].tolist())
        return array
    raise ValueError(
        f"policy must be {shape[0]} whole numbers (one action a state) or probabilities {shape}, "
        f"not an array {array.shape} of {array.dtype}"
    )


@checks_arguments
def policy_chain(mdp: TabularMDP, policy: ArrayLike) -> tuple[Any, Floats]:
    """Return the transition matrix `(S, S)` and the rewards `(S,)` of a policy.

    The matrix is sparse if `mdp.prefers_sparse`, else an array.
    """
    checked = checked_policy(mdp, policy)
    states = np.arange(mdp.n_states)
    if checked.ndim == 1:
        rewards = mdp.rewards[states, checked]
        if mdp.prefers_sparse:
            return mdp.csr[states * mdp.n_actions + checked], rewards
        return mdp.dense[states, checked], rewards
    rewards = (checked * mdp.rewards).sum(axis=1)
    if mdp.prefers_sparse:
        pairs = np.arange(mdp.n_states * mdp.n_actions)
        mix = scipy.sparse.csr_array((checked.ravel(), (np.repeat(states, mdp.n_actions), pairs)))
        return (mix @ mdp.csr).tocsr(), rewards
    return np.einsum("sa,sat->st", checked, mdp.dense), rewards


@checks_arguments
@interruptible("evaluating a policy")
def gain_and_bias(mdp: TabularMDP, policy: ArrayLike) -> tuple[Floats, Floats]:
    """Return the gain `(S,)` and the bias `(S,)` with P* h = 0 of a policy."""
    matrix, rewards = policy_chain(mdp, policy)
    chain = factored(matrix)
    gain = chain.average(rewards)
    return gain, chain.potential(rewards - gain)


@checks_arguments
@interruptible("evaluating a policy")
def stationary_distribution(mdp: TabularMDP, policy: ArrayLike) -> Floats:
    """Return the stationary distribution `(S,)` of a policy with one closed class.

    With several closed classes there are many; this is then an error that names the number.
    """
    rows = factored(policy_chain(mdp, policy)[0]).stationary()
    if len(rows) > 1:
        raise ValueError(
            f"the policy has {len(rows)} closed classes and as many stationary distributions; "
            "`cpsrl.planning.evaluation.factored(P).stationary()` gives one row for each"
        )
    return np.asarray(rows[0])


@checks_arguments
@interruptible("evaluating a policy")
def discounted_value(mdp: TabularMDP, policy: ArrayLike, gamma: float) -> Floats:
    """Return the gamma-discounted value `(S,)` of a policy."""
    matrix, rewards = policy_chain(mdp, policy)
    if mdp.prefers_sparse:
        leave = np.full(mdp.n_states, 1 - gamma)
        return np.asarray(sparse_factors(gamma * matrix, leave).solve(rewards))
    value = np.array(rewards)
    elimination.evaluate_leaving(gamma * matrix, np.full(mdp.n_states, 1 - gamma), value)
    return value


@checks_arguments
def span(values: ArrayLike) -> float:
    """Return the largest minus the smallest entry."""
    return float(np.ptp(values))
