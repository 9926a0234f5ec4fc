"""Exact planning in rational arithmetic, by trying every policy, and models that are hard.

Nothing here uses the package. Large models are small ones blown up: state i becomes `copies[i]`
states that can't be told apart, so that their optimal gains and values are those of state i.
"""

import itertools
import time
from fractions import Fraction

import numpy as np
import scipy.sparse


def rationals(P, normalised=True):
    """Return the stored rows as fractions, divided by their sums if `normalised`."""
    rows = [[[Fraction(float(p)) for p in row] for row in state] for state in P]
    if normalised:
        rows = [[[p / sum(row) for p in row] for row in state] for state in rows]
    return rows


def solve(A, b):
    """Solve A x = b by elimination."""
    n = len(b)
    rows = [[*A[i], b[i]] for i in range(n)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            if rows[k][i] != 0:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    x = [Fraction(0)] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return x


def limit(P):
    """Return P* of a chain of fractions."""
    n = len(P)
    reach = [{i} for i in range(n)]
    for _ in range(n):
        reach = [set().union(*(reach[j] | {j} for j in range(n) if P[i][j]), {i}) for i in range(n)]
    closed = [i for i in range(n) if all(i in reach[j] for j in reach[i])]
    star = [[Fraction(0)] * n for _ in range(n)]
    for i in closed:
        states = sorted(reach[i])
        A = [[P[k][j] - (k == j) for k in states] for j in states]
        A[-1] = [Fraction(1)] * len(states)
        weights = solve(A, [Fraction(0)] * (len(states) - 1) + [Fraction(1)])
        for j, weight in zip(states, weights, strict=True):
            star[i][j] = weight
    rest = [i for i in range(n) if i not in closed]
    if rest:
        A = [[(i == j) - P[i][j] for j in rest] for i in rest]
        for k in closed:
            into = [sum(P[i][j] * star[j][k] for j in closed) for i in rest]
            for i, x in zip(rest, solve(A, into), strict=True):
                star[i][k] = x
    return star


def times(matrix, x):
    return [sum(p * y for p, y in zip(row, x, strict=True)) for row in matrix]


def gain_and_bias(P, r):
    """Return the gain, and the bias with P* h = 0, of a chain of fractions."""
    n, star = len(P), limit(P)
    gain = times(star, r)
    A = [[(i == j) - P[i][j] + star[i][j] for j in range(n)] for i in range(n)]
    return gain, solve(A, [r[i] - gain[i] for i in range(n)])


def chains(P, r):
    """Give (policy, chain, rewards) for every deterministic policy."""
    n = len(P)
    for policy in itertools.product(range(len(P[0])), repeat=n):
        yield (
            policy,
            [P[s][policy[s]] for s in range(n)],
            [Fraction(float(r[s][policy[s]])) for s in range(n)],
        )


def largest(vectors):
    return [max(column) for column in zip(*vectors, strict=True)]


def best_gain(P, r):
    """Return the optimal gain of every state."""
    return largest(times(limit(c), x) for _, c, x in chains(P, r))


def best_bias(P, r):
    """Return the optimal gain, and the largest bias among gain-optimal policies."""
    found = [gain_and_bias(c, x) for _, c, x in chains(P, r)]
    gain = largest(g for g, _ in found)
    return gain, largest(h for g, h in found if g == gain)


def best_value(P, r, gamma):
    """Return the optimal discounted value, by policy iteration."""
    n, A, gamma = len(P), len(P[0]), Fraction(gamma)
    r = [[Fraction(float(x)) for x in row] for row in r]
    policy = [0] * n
    while True:
        chain = [[(s == j) - gamma * P[s][policy[s]][j] for j in range(n)] for s in range(n)]
        value = solve(chain, [r[s][policy[s]] for s in range(n)])
        q = [[r[s][a] + gamma * times([P[s][a]], value)[0] for a in range(A)] for s in range(n)]
        better = [max(range(A), key=lambda a, s=s: q[s][a]) for s in range(n)]
        if all(q[s][better[s]] == value[s] for s in range(n)):
            return value
        policy = [b if q[s][b] > value[s] else policy[s] for s, b in enumerate(better)]


def distance(numbers, exact):
    """Return the largest distance of floats from fractions, rounded up."""
    most = max(abs(Fraction(float(x)) - y) for x, y in zip(numbers, exact, strict=True))
    return float(most) * (1 + 2**-52)


def hard_model(rng):
    """Return (P, r, well): a small model of a nasty kind, and whether it is well-conditioned."""
    S, A = int(rng.choice([2, 3, 3, 4])), 2
    kind = rng.integers(6)
    well = True
    if kind == 0:  # any rows
        P = rng.dirichlet(np.full(S, 10 ** rng.uniform(-0.5, 0.5)), (S, A))
    elif kind == 1:  # deterministic: periodic, multichain
        P = np.eye(S)[rng.integers(S, size=(S, A))]
    elif kind == 2:  # rows over some states only
        P = rng.dirichlet(np.ones(S), (S, A)) * (rng.random((S, A, S)) < 0.5)
        P[np.arange(S), :, rng.integers(S, size=S)] += 0.1
    else:  # blocks that hardly meet, or that only some actions couple
        coupling = 10 ** -rng.uniform(3, 15)
        block = rng.integers(2, size=S)
        P = rng.dirichlet(np.ones(S), (S, A)) * np.where(block[:, None] == block, 1.0, 0.0)[:, None]
        if kind == 3:
            P = np.eye(S)[rng.permutation(S)][:, None] * np.ones((1, A, 1))
        far = coupling * rng.dirichlet(np.ones(S), (S, A))
        P = P + far * (rng.random((S, A, 1)) < 0.5) * np.where(rng.random() < 0.3, 1e3, 1)
        well = coupling > 1e-4
    P = P / P.sum(axis=2, keepdims=True)
    r = rng.random((S, A))
    if rng.random() < 0.3:
        r = np.round(r * 2) / 2
    if rng.random() < 0.2:  # rows off by up to 1e-8
        P = P * (1 + rng.uniform(-1, 1, (S, A, 1)) * 10 ** -rng.uniform(8.1, 15))
        well = False
    r = r * 10 ** rng.choice([0, 0, 0, -8, 8, rng.uniform(-8, 8)])
    if rng.random() < 0.25:
        r = r + 10 ** rng.uniform(0, 8)
    return P, r, well


def blown_up(P, r, copies, dense, rng):
    """Return the rows (dense array, or sparse matrix) and rewards of the model with copies.

    `copies` are powers of two if `dense`, so that dividing by them is exact.
    """
    S, A = r.shape
    first = np.concatenate([[0], np.cumsum(copies)])
    n = first[-1]
    state = np.repeat(np.arange(S), copies)
    if dense:
        return (P / copies)[state][:, :, state], r[state]
    rows, columns = np.divmod(np.arange(n * A * S), S)
    s, a = np.divmod(rows, A)
    target = first[columns] + (s - first[state[s]] + rng.integers(n)) % np.asarray(copies)[columns]
    data = P[state[s], a, columns]
    return scipy.sparse.csr_array((data, (rows, target)), shape=(n * A, n)), r[state]


def sparse_gain_and_bias(rows, r, deadline=np.inf):
    """Return the gain, and the bias with P* h = 0, of a chain of dictionaries of fractions.

    States are censored one by one, those with the fewest ways first.
    """
    n = len(rows)
    left = [{j: p for j, p in row.items() if j != i and p} for i, row in enumerate(rows)]
    before = [set() for _ in range(n)]
    for i, row in enumerate(left):
        for j in row:
            before[j].add(i)
    steps, alive = [], set(range(n))
    while open_states := [s for s in alive if left[s]]:
        if time.process_time() > deadline:
            raise TimeoutError
        s = min(open_states, key=lambda s: len(left[s]) * len(before[s]))
        pivot = sum(left[s].values())
        ahead, into = {j: p / pivot for j, p in left[s].items()}, {}
        for j in ahead:
            before[j].discard(s)
        for i in before[s]:
            into[i] = left[i].pop(s)
            for j, p in ahead.items():
                if j != i:
                    left[i][j] = left[i].get(j, 0) + into[i] * p
                    before[j].add(i)
        alive.discard(s)
        steps.append((s, pivot, ahead, into))

    def forward(b):
        b = list(b)
        for s, pivot, _, into in steps:
            b[s] /= pivot
            for i, p in into.items():
                b[i] += p * b[s]
        return b

    def average(b):
        total = forward(b)
        for s in alive:
            total[s] /= length[s]
        for s, _, ahead, _ in reversed(steps):
            total[s] = sum(p * total[j] for j, p in ahead.items())
        return total

    length = forward([Fraction(1)] * n)
    gain = average(r)
    bias = forward([x - g for x, g in zip(r, gain, strict=True)])
    for s in alive:
        bias[s] = Fraction(0)
    for s, _, ahead, _ in reversed(steps):
        bias[s] += sum(p * bias[j] for j, p in ahead.items())
    return gain, [h - level for h, level in zip(bias, average(bias), strict=True)]


def policies_gain(matrix, rewards, policy, seconds):
    """Return the gain of `policy` and the optimal gain, by policy iteration from there.

    `matrix` is `(S*A, S)`, sparse, and its rows are divided by their sums. None after `seconds` of
    processor time: fractions may get long.
    """
    deadline = time.process_time() + seconds
    S, A = rewards.shape
    rows = []
    for row in range(S * A):
        places = slice(matrix.indptr[row], matrix.indptr[row + 1])
        found = {int(j): Fraction(float(p)) for j, p in zip(
            matrix.indices[places], matrix.data[places], strict=True)}  # fmt: skip
        total = sum(found.values())
        rows.append({j: p / total for j, p in found.items()})
    r = [[Fraction(float(x)) for x in state] for state in rewards]
    policy, first = [int(a) for a in policy], None
    for _ in range(200):
        chain = [rows[s * A + policy[s]] for s in range(S)]
        try:
            gain, bias = sparse_gain_and_bias(chain, [r[s][policy[s]] for s in range(S)], deadline)
        except TimeoutError:
            break
        first = first or gain
        following = list(policy)
        for s in range(S):
            worth = [
                (
                    sum(p * (gain[j] - gain[s]) for j, p in rows[s * A + a].items()),
                    r[s][a] + sum(p * (bias[j] - bias[s]) for j, p in rows[s * A + a].items()),
                )
                for a in range(A)
            ]
            best = max(range(A), key=worth.__getitem__)
            if worth[best] > worth[policy[s]]:
                following[s] = best
        if following == policy:
            return first, gain
        policy = following
    return None
