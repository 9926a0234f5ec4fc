"""Models of 101 to 2,000 states as posterior sampling draws them early on, and worse.

Most rows have one or two successors, probabilities go down to the smallest number that float64 has,
classes of states are left once in 1e300 steps or never, rewards go to 1e300.
"""

import numpy as np
import scipy.sparse

import cpsrl
from planning import exact

SMALLEST = 5e-324


def couplings(rng, shape, gentle):
    """Return numbers `shape` that are log-uniform from 5e-324, or from 1e-12, to 1."""
    least = -12.0 if gentle else np.log10(SMALLEST)
    return np.maximum(10 ** rng.uniform(least, 0.0, shape), SMALLEST)


def rewards(rng, shape):
    """Return rewards `shape`: with ties, rare, huge, tiny or far from 0."""
    r = rng.random(shape)
    kind = rng.integers(4)
    if kind == 0:
        r = np.round(2 * r) / 2
    elif kind == 1:
        r = r * (rng.random(shape) < 0.02)
    if rng.random() < 0.3:
        r = r * 10 ** rng.uniform(-300, 300)
    elif rng.random() < 0.3:
        r = r + rng.choice([-1, 1]) * 10 ** rng.uniform(0, 12)
    return r


def model(number, largest=2_000):
    """Return model `number` and whether all its couplings are above 1e-12."""
    rng = np.random.default_rng((25, number))
    S = int(101 * (largest / 101) ** (rng.random() ** 3))
    A = int(rng.integers(1, 5))
    gentle = bool(rng.random() < 0.5)
    kind = rng.integers(6)
    n = S * A
    if kind == 0:  # random maps, some of whose rows have a second successor
        first = rng.integers(S, size=n)
        second = np.where(rng.random(n) < rng.choice([0.1, 0.5, 1.0]), rng.integers(S, size=n), -1)
    elif kind == 1:  # blocks of states, left by few rows or by none
        block = rng.integers(int(rng.integers(2, 20)), size=S)
        own = np.repeat(block, A)
        first = _inside(rng, block, own)
        far = rng.integers(S, size=n)
        second = np.where(rng.random(n) < rng.choice([0.02, 0.3, 1.0]), far, -1)
        closed = np.isin(own, np.flatnonzero(rng.random(20) < 0.3))
        second = np.where(closed & (own != block[far]), -1, second)
    elif kind == 2:  # periodic: circles, left at random
        first = np.repeat(rng.permutation(S), A)
        second = np.where(rng.random(n) < rng.choice([0.05, 0.5]), rng.integers(S, size=n), -1)
    elif kind == 3:  # a line along which one drifts
        state = np.repeat(np.arange(S), A)
        first = np.maximum(state - rng.integers(0, 2, size=n), 0)
        second = np.minimum(state + 1, S - 1)
    elif kind == 4:  # states that are hardly left at all
        first = np.repeat(np.arange(S), A)
        second = rng.integers(S, size=n)
    else:  # several likely successors each, and one that is unlikely
        return _mixed(rng, S, A, gentle), gentle
    p = couplings(rng, n, gentle)
    turned = rng.random(n) < 0.1
    p = np.where(second < 0, 0.0, np.where(turned, np.minimum(p, 0.5), p))
    second = np.maximum(second, 0)
    rows = np.repeat(np.arange(n), 2)
    columns = np.stack([first, second], 1).ravel()
    data = np.stack([1.0 - p, p], 1).ravel()
    return cpsrl.TabularMDP(_rows(rows, columns, data, n, S), rewards(rng, (S, A))), gentle


def _inside(rng, block, own):
    """Return a random state of each row's `own` block."""
    order = np.argsort(block, kind="stable")
    starts = np.searchsorted(block[order], np.arange(block.max() + 2))
    begin, end = starts[own], starts[own + 1]
    return order[begin + (rng.random(len(own)) * (end - begin)).astype(int)]


def _mixed(rng, S, A, gentle):
    block = rng.integers(int(rng.integers(1, 12)), size=S)
    n, k = S * A, int(rng.integers(2, 5))
    own = np.repeat(block, A)
    columns = np.stack([*(_inside(rng, block, own) for _ in range(k)), rng.integers(S, size=n)], 1)
    weights = rng.dirichlet(np.full(k, rng.choice([0.05, 1.0])), n)
    p = couplings(rng, (n, 1), gentle) * (rng.random((n, 1)) < rng.choice([0.02, 0.5]))
    data = np.concatenate([weights * (1 - p), p], 1)
    rows = np.repeat(np.arange(n), k + 1)
    return cpsrl.TabularMDP(_rows(rows, columns.ravel(), data.ravel(), n, S), rewards(rng, (S, A)))


def _rows(rows, columns, data, n, S):
    matrix = scipy.sparse.coo_array((data, (rows, columns)), shape=(n, S)).tocsr()
    matrix.eliminate_zeros()
    matrix.data = np.minimum(matrix.data, 1.0)
    return matrix


def lumped(number):
    """Return a model of 101 to 2,000 states, and the small one that it is with copies.

    That is its rows `(S, A, S)`, its rewards `(S, A)`, and which of its states each state is.
    """
    rng = np.random.default_rng((26, number))
    S, A = int(rng.integers(2, 5)), 2
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            p = min(float(couplings(rng, (), False)), 0.5)
            P[s, a, rng.integers(S)] += 1.0 - p
            P[s, a, rng.integers(S)] += p
    r = rewards(rng, (S, A))
    copies = rng.integers(1, 2_000 // S, size=S)
    copies[0] = max(copies[0], 102 - copies[1:].sum())
    mdp = cpsrl.TabularMDP(*exact.blown_up(P, r, copies, False, rng))
    return mdp, P, r, np.repeat(np.arange(S), copies)
