"""The Markov chain of a policy: gain, bias, stationary distribution, discounted value.

With P the transition matrix `(S, S)` and r the rewards `(S,)` under a policy, and P* the limit of
(1/T) sum_{t<T} P^t (which exists for periodic chains and for any number of closed classes),

    gain   g = P* r
    bias   h = r - g + P h  with  P* h = 0
    value  V = r + gamma P V.

Dense chains are solved by `elimination`; sparse ones by one sparse factorisation of I - P over
all states but one anchor in every closed class. Cycles between visits to an anchor then give
everything: the average of x is its expected sum over a cycle divided by the cycle's expected
length. The factorisation is an LU where that has kept its digits, and else a `reduction`.
"""

from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cpsrl._compile import jit
from cpsrl.checks import is_sparse
from cpsrl.mdp import TabularMDP
from cpsrl.planning import elimination
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.reduction import Reduction
from cpsrl.sizes import unavailable
from cpsrl.types import Floats, Ints
from cpsrl.waiting import interruptible

ANCHOR_STEPS = 100
TRUST = 1e-10
"""The relative error of expected times up to which an LU factorisation is used."""


class Chain(Protocol):
    """A factored Markov chain."""

    def average(self, x: Floats) -> Floats:
        """Return P* x `(S,)`."""

    def potential(self, x: Floats) -> Floats:
        """Return the h with h = x + P h and P* h = 0, for an x `(S,)` with P* x = 0."""

    def stationary(self) -> Floats:
        """Return the stationary distributions `(classes, S)`, one row for each closed class."""


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
    """A chain given as a sparse matrix `(S, S)`."""

    def __init__(self, matrix: Any) -> None:
        n_states = matrix.shape[0]
        anchors = _anchors(matrix)
        rest = np.setdiff1d(np.arange(n_states), anchors)
        self._anchors, self._rest = anchors, rest
        self._from_anchors = matrix[anchors][:, rest]
        self._to_anchors = matrix[rest][:, anchors]
        self._lu = None
        if rest.size:
            leave = np.asarray(self._to_anchors.sum(axis=1)).ravel()
            self._lu = sparse_factors(matrix[rest][:, rest], leave)
        self._length = self._cycle(np.ones(n_states))

    def _solve(self, b: Floats, transposed: bool = False) -> Floats:
        return self._lu.solve(b, "T" if transposed else "N") if self._lu is not None else b

    def _cycle(self, x: Floats) -> Floats:
        return np.asarray(x[self._anchors] + self._from_anchors @ self._solve(x[self._rest]))

    def _extend(self, at_anchors: Floats, x: Floats | None = None) -> Floats:
        b = self._to_anchors @ at_anchors
        result = np.empty(self._anchors.size + self._rest.size)
        result[self._anchors] = at_anchors
        result[self._rest] = self._solve(b if x is None else b + x[self._rest])
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
            rows[k, self._rest] = self._solve(self._from_anchors[[k]].toarray()[0], transposed=True)
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def factored(matrix: Any) -> Chain:
    """Return the factored chain of a dense or sparse transition matrix `(S, S)`."""
    return SparseChain(matrix) if is_sparse(matrix) else DenseChain(matrix)


def sparse_factors(matrix: Any, leave: Floats) -> Any:
    """Return an object whose `solve(b)` is the x `(n,)` with x = b + M x, for a sparse M `(n, n)`.

    `leave` `(n,)` is one minus the row sums of M. The expected times t until leaving, t = 1 + M t,
    tell what an LU factorisation of I - M is worth: since I - M has a non-negative inverse, a
    residual of at most e everywhere means that t is right to a relative error of e / (1 - e).
    """
    n = len(leave)
    try:
        factors = scipy.sparse.linalg.splu(
            (scipy.sparse.eye_array(n) - matrix).tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.1,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # exactly singular in float64
        return Reduction(matrix, leave)
    times = factors.solve(np.ones(n))
    residual = _times_residual(matrix.indptr, matrix.indices, matrix.data, leave, times)
    return factors if residual <= TRUST else Reduction(matrix, leave)


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

    The matrix is sparse if `mdp.is_thin`, else an array.
    """
    checked = checked_policy(mdp, policy)
    states = np.arange(mdp.n_states)
    if checked.ndim == 1:
        rewards = mdp.rewards[states, checked]
        if mdp.is_thin:
            return mdp.csr[states * mdp.n_actions + checked], rewards
        return mdp.dense[states, checked], rewards
    rewards = (checked * mdp.rewards).sum(axis=1)
    if mdp.is_thin:
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
    if mdp.is_thin:
        leave = np.full(mdp.n_states, 1 - gamma)
        return np.asarray(sparse_factors(gamma * matrix, leave).solve(rewards))
    value = np.array(rewards)
    elimination.evaluate_leaving(gamma * matrix, np.full(mdp.n_states, 1 - gamma), value)
    return value


@checks_arguments
def span(values: ArrayLike) -> float:
    """Return the largest minus the smallest entry."""
    return float(np.ptp(values))
