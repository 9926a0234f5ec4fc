"""State reduction: the one linear solver under every exact quantity of a Markov chain.

Eliminating a state n of a chain censors the chain to the remaining states: paths through n become
direct steps,

    P_ij <- P_ij + P_in P_nj / e_n,      e_n = sum over remaining j != n of P_nj (+ leave_n),

where the pivot e_n = 1 - P_nn is summed, never subtracted (Grassmann, Taksar and Heyman 1985).
Nothing cancels, so every entry keeps its relative accuracy however nearly the chain falls apart
(O'Cinneide 1993). `leave_n` is the probability of leaving for good, 1 - gamma in a discounted
problem, 0 in an average-reward one.

A state with pivot 0 cannot go to a remaining state and does not leave: it represents a closed class
of its own and stays. After the elimination there is one such *anchor* for every closed class, so
that chains with several classes need no separate treatment.

The factored matrix holds, for each eliminated n, the multipliers P_in / e_n in column n above the
diagonal, the row P_nj left of the diagonal (and in the columns of anchors), and e_n on the
diagonal; an anchor has 0 there.
"""

from cpsrl._private.compile import leaf
from cpsrl.support.types import Floats, Ints

RARE, HUGE = 1e-3, 1e200
LEAVE, VISITS, WEIGHTS, RIGHT_SIDE, LEVELS = range(5)
VECTORS = 5
"""Rows of the scratch `vectors` `(VECTORS, S)`: nothing here makes an array, for a reason given in
`_private.compile.leaf`. `x` and `average` may be rows of it as named, and no others."""


@leaf
def eliminate(matrix: Floats, leave: Floats, anchors: Ints) -> int:
    """Factor the transition matrix `(S, S)` in place; return the number of anchors.

    `leave` `(S,)` is used up; `anchors` `(S,)` receives the anchors, largest state first.
    """
    n_anchors = 0
    for n in range(len(matrix) - 1, -1, -1):
        row = matrix[n]
        pivot = leave[n]
        for j in range(n):
            pivot += row[j]
        for k in range(n_anchors):
            pivot += row[anchors[k]]
        row[n] = pivot
        if pivot == 0.0:
            anchors[n_anchors] = n
            n_anchors += 1
            continue
        for i in range(n):
            into = matrix[i, n]
            if into != 0.0:
                into /= pivot
                matrix[i, n] = into
                leave[i] += into * leave[n]
                target = matrix[i]
                for j in range(n):
                    target[j] += into * row[j]
                for k in range(n_anchors):
                    target[anchors[k]] += into * row[anchors[k]]
    return n_anchors


@leaf
def forward(matrix: Floats, b: Floats) -> None:
    """Carry the right-hand side `b` `(S,)` through the elimination, in place."""
    for n in range(len(matrix) - 1, -1, -1):
        if matrix[n, n] != 0.0:
            for i in range(n):
                b[i] += matrix[i, n] * b[n]


@leaf
def backward(matrix: Floats, anchors: Ints, n_anchors: int, b: Floats, x: Floats) -> None:
    """Solve for `x` `(S,)` given its values at the anchors and the forwarded `b`.

    Afterwards x = b0 + P x holds at every state that is not an anchor, b0 being `b` before
    `forward`. `x` and `b` may be the same array if its anchors already hold x.
    """
    for n in range(len(matrix)):
        row = matrix[n]
        if row[n] != 0.0:
            total = b[n]
            for j in range(n):
                total += row[j] * x[j]
            for k in range(n_anchors):
                if anchors[k] < n:
                    break
                total += row[anchors[k]] * x[anchors[k]]
            x[n] = total / row[n]


@leaf
def stationary(matrix: Floats, anchor: int, weights: Floats) -> None:
    """Put the stationary distribution of the anchor's closed class into `weights` `(S,)`."""
    total = 0.0
    for n in range(len(matrix)):
        weights[n] = 1.0 if n == anchor else 0.0
        if matrix[n, n] != 0.0:
            for i in range(n):
                weights[n] += weights[i] * matrix[i, n]
        if weights[n] > HUGE:  # only their ratios count
            for i in range(n + 1):
                weights[i] /= HUGE
            total /= HUGE
        total += weights[n]
    for n in range(len(matrix)):
        weights[n] /= total


@leaf
def evaluate_leaving(matrix: Floats, leave: Floats, x: Floats) -> bool:
    """Replace `x` `(S,)` by the solution V of V = x + matrix V, where every state leaves at last.

    `eliminate`, `forward` and `backward` in one, without anchors, because agents plan with it at
    every resampling. `matrix` `(S, S)`, gamma times the transition matrix in a discounted problem,
    and `leave` `(S,)`, one minus its row sums, are used up. Returns whether all can leave: the
    probability of it may underflow.
    """
    for n in range(len(matrix) - 1, -1, -1):
        row = matrix[n]
        pivot = leave[n]
        for j in range(n):
            pivot += row[j]
        if pivot == 0.0:
            return False
        row[n] = pivot
        inverse = 1.0 / pivot
        for i in range(n):
            target = matrix[i]
            into = target[n] * inverse
            if into != 0.0:
                leave[i] += into * leave[n]
                x[i] += into * x[n]
                for j in range(n):
                    target[j] += into * row[j]
    for n in range(len(matrix)):
        row = matrix[n]
        total = x[n]
        for j in range(n):
            total += row[j] * x[j]
        x[n] = total / row[n]
    return True


@leaf
def factor(chain: Floats, matrix: Floats, order: Ints, anchors: Ints, vectors: Floats) -> int:
    """Factor the chain `(S, S)` into `matrix`, its states taken in `order`; return the anchors.

    The gain of a closed class is accurate whichever of its states is the anchor, but the bias
    relative to a state that is hardly ever visited is a small difference of huge numbers. So the
    states are put in order of their stationary weight if the first order chose such an anchor.
    `matrix`, `anchors` and `vectors[WEIGHTS]`, the stationary distribution of the last anchor's
    class, speak of positions in `order`, which is chosen here.
    """
    n_states = len(chain)
    leave, visits, weights = vectors[LEAVE], vectors[VISITS], vectors[WEIGHTS]
    for i in range(n_states):
        leave[i] = 0.0
        visits[i] = 0.0
        order[i] = i
        for j in range(n_states):
            matrix[i, j] = chain[i, j]
    n_anchors = eliminate(matrix, leave, anchors)
    poor = False
    for k in range(n_anchors):
        stationary(matrix, anchors[k], weights)
        most = 0.0
        for s in range(n_states):
            visits[s] += weights[s]
            most = max(most, weights[s])
        poor |= weights[anchors[k]] < RARE * most
    if poor:
        sort_descending(visits, order)
        for i in range(n_states):
            leave[i] = 0.0
            for j in range(n_states):
                matrix[i, j] = chain[order[i], order[j]]
        n_anchors = eliminate(matrix, leave, anchors)
        stationary(matrix, anchors[n_anchors - 1], weights)
    return n_anchors


@leaf
def sort_descending(keys: Floats, order: Ints) -> None:
    """Put the places of `keys` `(S,)`, largest key first, into `order` `(S,)`, ties in order.

    By insertion: S^2 steps, few beside an elimination's S^3, and no array is made.
    """
    for i in range(len(keys)):
        k = i
        while k > 0 and keys[order[k - 1]] < keys[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i


@leaf
def evaluate_average(
    chain: Floats,
    reward: Floats,
    matrix: Floats,
    order: Ints,
    anchors: Ints,
    vectors: Floats,
    gain: Floats,
    bias: Floats,
) -> int:
    """Put the gain and the bias (with P* h = 0) of a chain into `gain` and `bias` `(S,)`.

    `chain` is the transition matrix `(S, S)`; returns the number of closed classes and leaves the
    factored chain in `matrix`, `order` and `anchors`.
    """
    n_states = len(chain)
    weights, x = vectors[WEIGHTS], vectors[RIGHT_SIDE]
    n_anchors = factor(chain, matrix, order, anchors, vectors)
    if n_anchors == 1:
        level = 0.0
        for i in range(n_states):
            level += weights[i] * reward[order[i]]
        for i in range(n_states):
            gain[i] = level
            x[i] = reward[order[i]] - level
        relative_to_anchors(matrix, anchors, n_anchors, x)
        mean = 0.0
        for i in range(n_states):
            mean += weights[i] * x[i]
        for i in range(n_states):
            bias[order[i]] = x[i] - mean
        return n_anchors
    for i in range(n_states):
        x[i] = reward[order[i]]
    level_of = vectors[LEVELS]
    limit(matrix, anchors, n_anchors, x, vectors, level_of)
    for i in range(n_states):
        gain[order[i]] = level_of[i]
        x[i] -= level_of[i]
    potential(matrix, anchors, n_anchors, vectors, x)
    for i in range(n_states):
        bias[order[i]] = x[i]
    return n_anchors


@leaf
def relative_to_anchors(matrix: Floats, anchors: Ints, n_anchors: int, x: Floats) -> None:
    """Replace `x` `(S,)`, with P* x = 0, by the h with h = x + P h that is 0 at every anchor."""
    forward(matrix, x)
    for k in range(n_anchors):
        x[anchors[k]] = 0.0
    backward(matrix, anchors, n_anchors, x, x)


@leaf
def potential(matrix: Floats, anchors: Ints, n_anchors: int, vectors: Floats, x: Floats) -> None:
    """Replace `x` `(S,)`, with P* x = 0, by the h with h = x + P h and P* h = 0, in place."""
    relative_to_anchors(matrix, anchors, n_anchors, x)
    average = vectors[LEVELS]
    limit(matrix, anchors, n_anchors, x, vectors, average)
    for i in range(len(matrix)):
        x[i] -= average[i]


@leaf
def limit(
    matrix: Floats, anchors: Ints, n_anchors: int, x: Floats, vectors: Floats, average: Floats
) -> None:
    """Put P* x into `average` `(S,)`: the long-run average of x from every state."""
    weights, nothing = vectors[LEAVE], vectors[VISITS]
    for s in range(len(matrix)):
        average[s] = 0.0
        nothing[s] = 0.0
    for k in range(n_anchors):
        stationary(matrix, anchors[k], weights)
        for s in range(len(matrix)):
            average[anchors[k]] += weights[s] * x[s]
    if n_anchors == 1:
        for s in range(len(matrix)):
            average[s] = average[anchors[0]]
    else:
        backward(matrix, anchors, n_anchors, nothing, average)
