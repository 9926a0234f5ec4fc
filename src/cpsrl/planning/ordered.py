r"""Policy evaluation for sparse chains that forget slowly: in a good order, by a Krylov method.

The value of a policy solves (I - gamma P) v = r. Number the states so that the chain mostly leads
from later ones to earlier ones; then I - gamma P = (D - L) - U, with D its diagonal and L, U what
lies below and above it, has a small U, and (D - L)^-1 is applied by one pass in place (Gauss and
Seidel). Few directions are left in which such passes converge slowly, and BiCGSTAB (van der Vorst
1992), preconditioned by them on the right, finds these. Since (I - gamma P)(D - L)^-1 y = y - U z
with (D - L) z = y, an application costs one look at every entry (Eisenstat 1981).

The order is that of a breadth-first search from the largest reward against the direction of the
transitions, whatever the action: good policies go the other way.

For the average reward, (I - P) h + g = r with g = h_0, the first state of the order: the system has
one more column of ones, and is regular if the chain has a single closed class, periodic or not.

What is found is only where the next Bellman step begins, whose bounds do not ask how it was found;
a solution that is no better than its start is not taken.
"""

import math
from typing import Any

import numpy as np

from cpsrl._private.compile import jit
from cpsrl.mdp import TabularMDP
from cpsrl.planning.steps import Model
from cpsrl.support.types import Floats, Ints

MOST_ITERATIONS, LARGEST_EXPONENT = 200, 1000


Triangles = tuple[Ints, Any, Floats, Ints, Any, Floats, Floats, Floats]
"""A chain in order, I - gamma P = (D - L) - U: row starts, columns and entries of L, the same of U,
1/D (1 where D is 0), and the rewards."""


class Order:
    """A sparse model with its states in order."""

    def __init__(self, mdp: TabularMDP) -> None:
        csr = mdp.csr
        self._model = (csr.indptr, csr.indices, csr.data, mdp.rewards)
        self._order, self._rank = _backwards(csr.indptr, csr.indices, mdp.rewards)
        self._chain: Triangles | None = None

    def improve(self, gamma: float, base: float, value: Floats, policy: Ints) -> None:
        """Make each state's value that of its best action, in place, in order and back.

        `base` is taken from the rewards.
        """
        _improve(self._model, gamma, base, value, policy, self._order)
        _improve(self._model, gamma, base, value, policy, self._order[::-1].copy())

    def evaluate(
        self, gamma: float, base: float, value: Floats, policy: Ints, want: float
    ) -> tuple[bool, int]:
        """Move `value` `(S,)` towards the policy's, until its steps differ by at most `want`.

        Returns whether it moved, and how often the policy's transitions were gone through. With
        `gamma` = 1 the value becomes the bias, up to a constant; `base` is then what the gain is
        about.
        """
        chain = self._extract(gamma, policy)
        x = value[self._order]
        if gamma == 1.0:
            x += base - x[0]
        better, passes, _ = _bicgstab(chain, x, gamma == 1.0, want)
        if better:
            value[self._order] = x
        return bool(better), int(passes)

    def gain(self, rewards: Floats, policy: Ints, want: float) -> float | None:
        """Return the gain of a policy for other `rewards` `(S,)`; None if it was not found."""
        chain = self._extract(1.0, policy)
        chain[-1][:] = rewards[self._order]
        x = np.zeros_like(rewards)
        _, _, width = _bicgstab(chain, x, True, want)
        return float(x[0]) if width <= want else None

    def _extract(self, gamma: float, policy: Ints) -> Triangles:
        indptr, indices, _, r = self._model
        n, rows = len(policy), np.arange(len(policy)) * r.shape[1] + policy
        size = int((indptr[rows + 1] - indptr[rows]).sum())
        if self._chain is None or size > len(self._chain[2]):
            starts, kind = np.empty((2, n + 1), np.int64), indices.dtype
            below, above = ((np.empty(size, kind), np.empty(size)) for _ in range(2))
            rows = (starts[0], *below, starts[1], *above)
            self._chain = (*rows, np.empty(n), np.empty(n))
        _extract(self._model, gamma, policy, self._order, self._rank, self._chain)
        return self._chain


@jit
def _backwards(indptr: Any, indices: Any, r: Floats) -> tuple[Ints, Ints]:
    """Return the states in order, and the place of each."""
    n_states, n_actions = r.shape
    start = np.zeros(n_states + 1, np.int64)
    for entry in range(len(indices)):
        start[indices[entry] + 1] += 1
    for s in range(n_states):
        start[s + 1] += start[s]
    before, place = np.empty(len(indices), np.int32), start.copy()
    for s in range(n_states):
        for entry in range(indptr[s * n_actions], indptr[(s + 1) * n_actions]):
            j = indices[entry]
            before[place[j]] = s
            place[j] += 1
    loss = np.empty(n_states)
    for s in range(n_states):
        loss[s] = -r[s].max()
    order, rank = np.empty(n_states, np.int64), np.full(n_states, -1)
    head = tail = 0
    for root in np.argsort(loss, kind="mergesort"):
        if rank[root] < 0:
            order[tail], rank[root] = root, tail
            tail += 1
        while head < tail:
            j = order[head]
            head += 1
            for entry in range(start[j], start[j + 1]):
                i = before[entry]
                if rank[i] < 0:
                    order[tail], rank[i] = i, tail
                    tail += 1
    return order, rank


@jit
def _improve(model: Model, gamma: float, base: float, v: Floats, policy: Ints, order: Ints) -> None:
    indptr, indices, data, r = model
    n_actions = r.shape[1]
    for s in order:
        best = -np.inf
        choice = policy[s]
        for a in range(n_actions):
            row = np.uint64(s * n_actions + a)
            total, stay = r[s, a] - base, 0.0
            for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                j = np.uint64(indices[entry])
                if j == np.uint64(s) and gamma < 1.0:
                    stay = gamma * data[entry]
                else:
                    total += gamma * data[entry] * v[j]
            total /= 1.0 - stay
            if total > best:
                best, choice = total, a
        v[s], policy[s] = best, choice


@jit
def _extract(
    model: Model, gamma: float, policy: Ints, order: Ints, rank: Ints, chain: Triangles
) -> None:
    """Put the chain of a policy in order."""
    indptr, indices, data, r = model
    lower_start, lower_index, lower, upper_start, upper_index, upper, inverse, reward = chain
    n_actions = r.shape[1]
    below = above = 0
    lower_start[0] = upper_start[0] = 0
    for k in range(len(order)):
        s = order[k]
        row = s * n_actions + policy[s]
        diagonal = 1.0
        for entry in range(indptr[row], indptr[row + 1]):
            j = rank[indices[entry]]
            if j < k:
                lower_index[below], lower[below] = j, gamma * data[entry]
                below += 1
            elif j > k:
                upper_index[above], upper[above] = j, gamma * data[entry]
                above += 1
            else:
                diagonal -= gamma * data[entry]
        if gamma == 1.0 and k == 0:
            diagonal += 1.0
        lower_start[k + 1], upper_start[k + 1] = below, above
        inverse[k] = 1.0 / diagonal if diagonal > 0.0 else 1.0
        reward[k] = r[s, policy[s]]


@jit
def _bicgstab(chain: Triangles, x: Floats, anchored: bool, want: float) -> tuple[bool, int, float]:
    """Improve x until the largest minus the smallest residual is at most `want`.

    Returns whether it is better than it was, how often entries were gone through, and that width.
    Residuals are kept in units of `size`, a power of 2, or their squares might leave float64.
    """
    n = len(x)
    residual, shadow = np.empty(n), np.empty(n)
    low, high = _residual(chain, x, anchored, residual)
    begin = width = high - low
    exponent = math.frexp(max(abs(low), abs(high)))[1]
    size = math.ldexp(1.0, min(max(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT))
    for k in range(n):
        residual[k] /= size
        shadow[k] = residual[k]
    best, best_width = x.copy(), width
    direction, image = np.zeros(n), np.zeros(n)
    half, half_image = np.empty(n), np.empty(n)
    z, half_z = np.empty(n), np.empty(n)
    rho = alpha = omega = 1.0
    number = 0
    while number < MOST_ITERATIONS and width > want:
        number += 1
        dot = 0.0
        for k in range(n):
            dot += shadow[k] * residual[k]
        if dot == 0.0 or rho == 0.0 or omega == 0.0:
            break
        beta = (dot / rho) * (alpha / omega)
        rho = dot
        for k in range(n):
            direction[k] = residual[k] + beta * (direction[k] - omega * image[k])
        _apply(chain, anchored, direction, z, image)
        dot = 0.0
        for k in range(n):
            dot += shadow[k] * image[k]
        if dot == 0.0:
            break
        alpha = rho / dot
        for k in range(n):
            half[k] = residual[k] - alpha * image[k]
        _apply(chain, anchored, half, half_z, half_image)
        both = square = 0.0
        for k in range(n):
            both += half_image[k] * half[k]
            square += half_image[k] * half_image[k]
        omega = both / square if square > 0.0 else 0.0
        low, high, total = np.inf, -np.inf, 0.0
        for k in range(n):
            x[k] += size * (alpha * z[k] + omega * half_z[k])
            residual[k] = half[k] - omega * half_image[k]
            low, high = min(low, residual[k]), max(high, residual[k])
            total += abs(x[k]) + abs(residual[k])
        width = size * (high - low)
        if not total < np.inf:
            break
        if width < 0.5 * best_width or width <= want:
            best[:], best_width = x, width
    x[:] = best
    return best_width < begin or begin <= want, 1 + 2 * number, best_width


@jit
def _residual(chain: Triangles, x: Floats, anchored: bool, residual: Floats) -> tuple[float, float]:
    """Put r - (I - gamma P) x into `residual`; return its smallest and its largest entry."""
    lower_start, lower_index, lower, upper_start, upper_index, upper, inverse, reward = chain
    down, up, one = np.uint64(0), np.uint64(0), np.uint64(1)
    low, high = np.inf, -np.inf
    for k in range(len(x)):
        total = reward[k] - x[k] / inverse[k]
        if anchored and k > 0:
            total -= x[0]
        for _ in range(lower_start[k], lower_start[k + 1]):
            total += lower[down] * x[np.uint64(lower_index[down])]
            down += one
        for _ in range(upper_start[k], upper_start[k + 1]):
            total += upper[up] * x[np.uint64(upper_index[up])]
            up += one
        residual[k] = total
        low, high = min(low, total), max(high, total)
    return low, high


@jit
def _apply(chain: Triangles, anchored: bool, y: Floats, z: Floats, image: Floats) -> None:
    """Put (D - L)^-1 y into z and y - U z into `image`."""
    lower_start, lower_index, lower, upper_start, upper_index, upper, inverse, _ = chain
    one, entry = np.uint64(1), np.uint64(0)
    for k in range(len(y)):
        total = y[k]
        if anchored and k > 0:
            total -= z[0]
        for _ in range(lower_start[k], lower_start[k + 1]):
            total += lower[entry] * z[np.uint64(lower_index[entry])]
            entry += one
        z[k] = total * inverse[k]
    entry = np.uint64(0)
    for k in range(len(y)):
        total = y[k]
        for _ in range(upper_start[k], upper_start[k + 1]):
            total -= upper[entry] * z[np.uint64(upper_index[entry])]
            entry += one
        image[k] = total
