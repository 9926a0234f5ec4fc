"""Value sweeps for large models: one Bellman step with its bounds, then steps of a fixed policy.

For any v let T v = max over a of r_a + gamma P_a v, d = T v - v, and pi greedy for v. Then

    gamma < 1:  T v + gamma/(1-gamma) min d  <=  V_pi  <=  V*  <=  T v + gamma/(1-gamma) max d
    gamma = 1:  min d  <=  gain of pi  <=  optimal gain  <=  max d

(MacQueen 1966; Odoni 1969), whatever v is: the bounds certify the result, and v may be moved by any
means in between. Here steps with the greedy policy follow each Bellman step (modified policy
iteration, Puterman and Shin 1978), since they cost A times less: a few, and more and more of them
where the bounds close slowly. In a slow sparse model the steps also go in place, state by state
in alternating directions, so that a reward far away is felt after a sweep and not after a sweep for
every state on the way.

Dense models are stored transposed, `(S, S*A)` with the successor first, so that the inner loop runs
over state-action pairs and the compiler can use vector instructions without reordering a sum.
Sparse models are the row pointers, successors and probabilities of the rows s*A + a.
"""

from typing import Any

import numpy as np

from cpsrl._compile import jit
from cpsrl.planning.kernels import dot
from cpsrl.types import Floats, Ints

PROGRESS, PATIENCE = 0.8, 8
"""A Bellman step that leaves more than this share of max d - min d is idle; after so many idle
steps a model counts as slow."""


@jit
def dense_sweeps(
    by_successor: Floats,
    P: Floats,
    r: Floats,
    gamma: float,
    tol: float,
    most: int,
    v: Floats,
    policy: Ints,
) -> tuple[float, float, int]:
    """Sweep until max d - min d <= `tol` or `most` Bellman steps; return min d, max d, steps.

    On return `v` `(S,)` is T v of the last Bellman step and `policy` `(S,)` is greedy.
    """
    n_states, n_actions = r.shape
    q = np.empty(n_states * n_actions)
    reward = r.ravel()
    step = np.empty(n_states)
    low, high, idle = 0.0, np.inf, 0
    for sweep in range(1, most + 1):
        before = high - low
        q[:] = reward
        for j in range(n_states):
            scale = gamma * v[j]
            row = by_successor[j]
            for i in range(n_states * n_actions):
                q[i] += scale * row[i]
        low, high = _greedy(q, n_actions, v, step, policy)
        v[:] = step
        if high - low <= tol or sweep == most:
            break
        idle += high - low > PROGRESS * before
        for _ in range(_inner_steps(idle)):
            for s in range(n_states):
                step[s] = r[s, policy[s]] + gamma * dot(P[s, policy[s]], v)
            base = step[0] - v[0] if gamma == 1.0 else 0.0
            for s in range(n_states):
                v[s] = step[s] - base
    return low, high, sweep


@jit
def sparse_sweeps(
    indptr: Any,
    indices: Any,
    data: Floats,
    r: Floats,
    gamma: float,
    tol: float,
    most: int,
    v: Floats,
    policy: Ints,
) -> tuple[float, float, int]:
    """As `dense_sweeps`, for a sparse model."""
    n_states, n_actions = r.shape
    q = np.empty(n_states * n_actions)
    reward = r.ravel()
    step = np.empty(n_states)
    low, high, idle = 0.0, np.inf, 0
    for sweep in range(1, most + 1):
        before = high - low
        for row in range(n_states * n_actions):
            total = _sparse_dot(indices, data, indptr[row], indptr[row + 1], v)
            q[row] = reward[row] + gamma * total
        low, high = _greedy(q, n_actions, v, step, policy)
        v[:] = step
        if high - low <= tol or sweep == most:
            break
        idle += high - low > PROGRESS * before
        slow = gamma < 1.0 and idle >= PATIENCE
        if slow:
            for direction in (-1, 1):
                _relax(indptr, indices, data, r, gamma, v, policy, direction, True)
        for i in range(_inner_steps(idle)):
            if slow:
                direction = 1 if i % 2 else -1
                _relax(indptr, indices, data, r, gamma, v, policy, direction, False)
                continue
            for s in range(n_states):
                row = s * n_actions + policy[s]
                total = _sparse_dot(indices, data, indptr[row], indptr[row + 1], v)
                step[s] = reward[row] + gamma * total
            base = step[0] - v[0] if gamma == 1.0 else 0.0
            for s in range(n_states):
                v[s] = step[s] - base
    return low, high, sweep


@jit
def _relax(
    indptr: Any,
    indices: Any,
    data: Floats,
    r: Floats,
    gamma: float,
    v: Floats,
    policy: Ints,
    direction: int,
    improve: bool,
) -> None:
    """Update v in place, state by state in one direction; choose actions anew if `improve`."""
    n_states, n_actions = r.shape
    for k in range(n_states):
        s = k if direction > 0 else n_states - 1 - k
        best = -np.inf
        for a in range(n_actions):
            if improve or a == policy[s]:
                row = s * n_actions + a
                total = _sparse_dot(indices, data, indptr[row], indptr[row + 1], v)
                if r[s, a] + gamma * total > best:
                    best = r[s, a] + gamma * total
                    choice = a
        v[s] = best
        policy[s] = choice


@jit
def _inner_steps(idle: int) -> int:
    return 4 << min(idle // PATIENCE, 5)


@jit
def _sparse_dot(indices: Any, data: Floats, start: int, end: int, v: Floats) -> float:
    total = 0.0
    for entry in range(start, end):
        total += data[entry] * v[indices[entry]]
    return total


@jit
def _greedy(
    q: Floats, n_actions: int, v: Floats, step: Floats, policy: Ints
) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for s in range(len(v)):
        first = s * n_actions
        best = q[first]
        choice = 0
        for a in range(1, n_actions):
            if q[first + a] > best:
                best = q[first + a]
                choice = a
        policy[s] = choice
        step[s] = best
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


@jit
def sparse_change(indptr: Any, indices: Any, data: Floats, x: Floats, n_actions: int) -> Floats:
    """Return P x - x `(S, A)`; differences of x are taken before they are weighted."""
    change = np.empty((len(x), n_actions))
    for s in range(len(x)):
        for a in range(n_actions):
            row = s * n_actions + a
            total = 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                total += data[entry] * (x[indices[entry]] - x[s])
            change[s, a] = total
    return change
