"""Policy iteration for small dense models, as plain array functions.

These are called from Python by `solve_discounted` and `solve_average` and from inside the compiled
loop of the tabular agents. Every evaluation is exact (`elimination`). An action is exchanged only
for one that is better by more than the rounding error of the comparison, so the iteration ends; a
cap on the iterations guards against a cycle among actions that rounding cannot tell apart.

Arrays: `P` (S, A, S), `r` (S, A), `policy` (S,) int64 (the start, and on return the result), and a
`Workspace`, which on return holds the policy's value, or its gain and bias.
"""

from typing import NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, jit, leaf
from cpsrl.planning.elimination import LEAVE, VECTORS, evaluate_average, evaluate_leaving
from cpsrl.support.types import Floats, Ints

MOST_ITERATIONS = 1000
ROUNDING = 4e-15
FAR_SIGHTED = 1 - 1e-5


class Workspace(NamedTuple):
    """What planning writes into."""

    value: Floats
    """`(S,)` the discounted value, or the bias"""
    gain: Floats
    """`(S,)`"""
    matrix: Floats
    """`(S, S)` scratch, as all that follow"""
    chain: Floats
    """`(S, S)`"""
    vectors: Floats
    """`(VECTORS + 2, S)`"""
    order: Ints
    """`(S,)`"""
    anchors: Ints
    """`(S,)`"""


@jit
def workspace(n_states: int) -> Workspace:
    """Return the workspace for models of `n_states` states."""
    square = (n_states, n_states)
    return Workspace(
        np.empty(n_states),
        np.empty(n_states),
        np.empty(square),
        np.empty(square),
        np.empty((VECTORS + 2, n_states)),
        np.empty(n_states, np.int64),
        np.empty(n_states, np.int64),
    )


@leaf
def repeat_rows(P: Floats, r: Floats, stand_in: Ints) -> None:
    """Make the rows of P `(S*A, S)` and r `(S*A,)` of unavailable actions those of `stand_in`."""
    n_states, n_actions = stand_in.shape
    for s in range(n_states):
        for a in range(n_actions):
            row, other = s * n_actions + a, s * n_actions + stand_in[s, a]
            if other != row:
                r[row] = r[other]
                for j in range(n_states):
                    P[row, j] = P[other, j]


def thawed(P: Floats, r: Floats) -> tuple[Floats, Floats]:
    """Return copies that can be written to: for frozen arrays all would be compiled once more."""
    return np.array(P), np.array(r)


@inlined
def dot(x: Floats, y: Floats) -> float:
    """Return the inner product, summed in four lanes (a fixed order that the compiler can use)."""
    a = b = c = d = 0.0
    n = len(x)
    whole = n - n % 4
    for i in range(0, whole, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(whole, n):
        a += x[i] * y[i]
    return (a + b) + (c + d)


@inlined
def largest(x: Floats) -> float:
    """Return the largest magnitude in `x` `(n,)`."""
    most = 0.0
    for i in range(len(x)):
        most = max(most, abs(x[i]))
    return most


@inlined
def improve(
    P: Floats, r: Floats, gamma: float, value: Floats, s: int, policy: Ints, best: float
) -> float:
    """Give state s the action worth most, if one is worth more than `best`; return its worth."""
    for a in range(r.shape[1]):
        if a != policy[s]:
            candidate = r[s, a] + gamma * dot(P[s, a], value)
            if candidate > best:
                best = candidate
                policy[s] = a
    return best


@leaf
def discounted_policy_value(
    P: Floats, r: Floats, gamma: float, policy: Ints, work: Workspace
) -> None:
    """Put the gamma-discounted value of `policy` into `work.value` `(S,)`."""
    value, matrix, leave = work.value, work.matrix, work.vectors[LEAVE]
    n_states = len(r)
    for s in range(n_states):
        row = P[s, policy[s]]
        value[s] = r[s, policy[s]]
        leave[s] = 1.0 - gamma
        for j in range(n_states):
            matrix[s, j] = gamma * row[j]
    evaluate_leaving(matrix, leave, value)


@leaf
def plan_discounted(P: Floats, r: Floats, gamma: float, policy: Ints, work: Workspace) -> int:
    """Make `policy` gamma-discounted optimal and `work.value` its value; return the iterations."""
    return iterate(P, r, gamma, policy, work, False)


@leaf
def iterate(
    P: Floats, r: Floats, gamma: float, policy: Ints, work: Workspace, in_place: bool
) -> int:
    """Do what `plan_discounted` does; `in_place`, states see at once which values have risen.

    They are then gone through from the last to the first and back: what is worth a long way is
    found in one iteration, not in one for each step of the way. Values still rise to those of a
    policy, so that no policy comes twice.
    """
    value, n_states = work.value, len(r)
    iterations = 0
    changed = True
    while changed and iterations < MOST_ITERATIONS:
        iterations += 1
        discounted_policy_value(P, r, gamma, policy, work)
        slack = ROUNDING * largest(value)
        changed = False
        for turn in range(2 * n_states if in_place else n_states):
            s = turn - n_states if turn >= n_states else n_states - 1 - turn
            least = value[s] + slack
            best = improve(P, r, gamma, value, s, policy, least)
            if best > least:
                changed = True
                if in_place:
                    value[s] = best
    return iterations


@leaf
def plan_average(P: Floats, r: Floats, gamma: float, policy: Ints, work: Workspace) -> int:
    """Make `policy` gain-optimal, `work.gain` and `work.value` its gain and bias.

    Howard's policy iteration for models with any number of closed classes: first actions that lead
    to a larger gain, then, where the gain cannot be raised, those with a larger r + P h among the
    actions that keep it (Puterman 1994, section 9.2). It starts from a discounted optimal policy:
    from a bad one it would pass through policies that all but never leave a part of the states,
    whose bias is too large for float64 to tell actions apart. `gamma` is not used. Returns the
    iterations.
    """
    n_states, n_actions = r.shape
    plan_discounted(P, r, FAR_SIGHTED, policy, work)
    chain, gain, bias = work.chain, work.gain, work.value
    reward, shifted = work.vectors[VECTORS], work.vectors[VECTORS + 1]
    largest_reward = 0.0
    for s in range(n_states):
        largest_reward = max(largest_reward, largest(r[s]))
    best_gain, stalled, iterations = -np.inf, 0, 0
    changed = True
    while changed and iterations < MOST_ITERATIONS:
        iterations += 1
        for s in range(n_states):
            row = P[s, policy[s]]
            reward[s] = r[s, policy[s]]
            for j in range(n_states):
                chain[s, j] = row[j]
        n_anchors = evaluate_average(
            chain, reward, work.matrix, work.order, work.anchors, work.vectors, gain, bias
        )
        total = 0.0
        for s in range(n_states):
            total += gain[s]
        stalled = 0 if total > best_gain else stalled + 1
        best_gain = max(best_gain, total)
        if stalled > n_states:
            break
        slack_gain = ROUNDING * largest(gain) if n_anchors > 1 else 0.0
        changed = False
        for s in range(n_states):
            current = policy[s]
            if n_anchors > 1:
                best = gain[s] + slack_gain
                for a in range(n_actions):
                    candidate = dot(P[s, a], gain)
                    if candidate > best:
                        best = candidate
                        policy[s] = a
                if policy[s] != current:
                    changed = True
                    continue
            local = largest_reward
            for j in range(n_states):
                shifted[j] = bias[j] - bias[s]
            for a in range(n_actions):
                local = max(local, absolute_dot(P[s, a], shifted))
            best = gain[s] + ROUNDING * local
            for a in range(n_actions):
                if a == current or (n_anchors > 1 and dot(P[s, a], gain) < gain[s] - slack_gain):
                    continue
                candidate = r[s, a] + dot(P[s, a], shifted)
                if candidate > best:
                    best = candidate
                    policy[s] = a
                    changed = True
    return iterations


@inlined
def absolute_dot(x: Floats, y: Floats) -> float:
    """Return the sum of |x_i y_i|, the scale of the rounding error of `dot`."""
    total = 0.0
    for i in range(len(x)):
        total += abs(x[i] * y[i])
    return total
