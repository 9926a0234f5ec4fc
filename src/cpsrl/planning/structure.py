"""What kind of MDP is it: classes, diameter, reward averaging time.

Maximal end components are the largest sets of states in which a policy can stay for ever and go
from each state to each other (de Alfaro 1997). A state in none of them is transient under every
policy. So an MDP is communicating when all states are one component, weakly communicating when
there is exactly one, and otherwise optimal gains may differ by state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cpsrl.mdp import DENSE_STATES, TabularMDP
from cpsrl.planning import elimination
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.certificates import UNIT, differences
from cpsrl.planning.evaluation import closed_classes, factored, policy_chain, span, sparse_factors
from cpsrl.support.checks import is_sparse
from cpsrl.support.interruptible import interruptible, stage
from cpsrl.support.types import Floats, Ints, brief

EXACT_DIAMETER_STATES = 2000
MOST_ITERATIONS = 1000


@dataclass(frozen=True, repr=False)
class Classification:
    """The class of an MDP.

    Attributes:
        kind: "communicating", "weakly communicating" or "multichain".
        classes: the maximal end components, each a sorted array of states.
        transient: the states that are transient under every policy.
    """

    kind: str
    classes: tuple[Ints, ...]
    transient: Ints

    __repr__ = brief


@checks_arguments
@interruptible("looking for classes of states")
def classify(mdp: TabularMDP) -> Classification:
    """Return the class of `mdp`, from which transitions are possible, not from how probable."""
    n_states, n_actions = mdp.n_states, mdp.n_actions
    matrix = mdp.csr
    row: Ints = np.repeat(np.arange(n_states * n_actions), np.diff(matrix.indptr))
    source, target = row // n_actions, matrix.indices
    allowed = np.ones(n_states * n_actions, np.bool_)
    while True:
        keep = allowed[row]
        edges = (np.ones(keep.sum(), bool), (source[keep], target[keep]))
        graph = scipy.sparse.csr_array(edges, shape=(n_states, n_states))
        _, label = scipy.sparse.csgraph.connected_components(graph, connection="strong")
        alive = np.any(allowed.reshape(n_states, n_actions), axis=1)
        leaves = keep & ((label[source] != label[target]) | ~alive[target])
        if not leaves.any():
            break
        allowed[row[leaves]] = False
    order = np.argsort(label[alive], kind="stable")
    states = np.flatnonzero(alive)[order]
    cuts = np.flatnonzero(np.diff(label[states])) + 1
    classes = sorted(np.split(states, cuts), key=lambda c: int(c[0]))
    kind = "multichain"
    if len(classes) == 1:
        kind = "communicating" if classes[0].size == n_states else "weakly communicating"
    return Classification(kind, tuple(classes), np.flatnonzero(~alive))


@checks_arguments
def is_unichain(mdp: TabularMDP, policy: ArrayLike) -> bool:
    """Return whether the chain of a policy has exactly one closed class."""
    return len(closed_classes(policy_chain(mdp, policy)[0])) == 1


@checks_arguments
@interruptible("computing the diameter")
def diameter(mdp: TabularMDP, targets: ArrayLike | None = None) -> float:
    """Return the diameter: the largest over s != s' of the least expected time from s to s'.

    Exact up to rounding (relative, also where it is huge), by policy iteration for the fastest way
    to every state, for up to 2,000 states. For
    larger models give some `targets`: the result is then the largest over these targets alone, a
    lower bound. Infinite when some state cannot be reached from some other under any policy.
    """
    if targets is None:
        if mdp.n_states > EXACT_DIAMETER_STATES:
            raise ValueError(
                f"the exact diameter of {mdp.n_states} states would take too long (it is computed "
                f"up to {EXACT_DIAMETER_STATES}); diameter(mdp, targets=[...]) is a lower bound"
            )
        targets = np.arange(mdp.n_states)
    if mdp.n_states == 1:
        return 0.0
    row = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.csr.indptr))
    edges = (np.ones(row.size), (mdp.csr.indices, row // mdp.n_actions))
    reach = scipy.sparse.csr_array(edges, shape=(mdp.n_states, mdp.n_states))
    longest = 0.0
    given = np.asarray(targets).tolist()
    for number, target in enumerate(given):
        stage(f"{number} of {len(given)} targets")
        times = hitting_times(mdp, target, reach)
        longest = max(longest, float(times.max()))
        if np.isinf(longest):
            break
    return longest


def hitting_times(mdp: TabularMDP, target: int, reach: Any) -> Floats:
    """Return the least expected times `(S,)` from every state to `target` (0 at the target).

    `reach` is the sparse graph `(S, S)` of possible transitions under any action, reversed.
    """
    n_states, n_actions = mdp.n_states, mdp.n_actions
    steps = scipy.sparse.csgraph.shortest_path(reach, unweighted=True, indices=target)
    if np.isinf(steps).any():
        return np.full(n_states, np.inf)
    matrix = mdp.csr
    row = np.repeat(np.arange(n_states * n_actions), np.diff(matrix.indptr))
    nearer = steps[matrix.indices] < steps[row // n_actions]
    weight = np.bincount(row[nearer], matrix.data[nearer], n_states * n_actions)
    policy = np.argmax(weight.reshape(n_states, n_actions), axis=1)
    evaluate = _sparse_times if mdp.prefers_sparse and n_states > 2 * DENSE_STATES else _dense_times
    states, times = np.arange(n_states), evaluate(mdp, policy, target)
    for _ in range(MOST_ITERATIONS):
        if not np.isfinite(times).all():
            break
        change, slack = differences(mdp, times)
        change += 1
        change[target], slack[target] = 0, 0
        slack += 4 * UNIT * (1 + np.abs(change))
        choice = np.argmin(change + slack, axis=1)
        better = (change + slack)[states, choice] < (change - slack)[states, policy]
        following = evaluate(mdp, np.where(better, choice, policy), target)
        if not (following < times).any():
            break
        policy, times = np.where(better, choice, policy), np.minimum(following, times)
    return times


def _dense_times(mdp: TabularMDP, policy: Ints, target: int) -> Floats:
    chain = mdp.dense[np.arange(mdp.n_states), policy].copy()
    chain[target] = 0.0
    leave = chain[:, target].copy()
    leave[target] = 1.0
    chain[:, target] = 0.0
    times = np.ones(mdp.n_states)
    times[target] = 0.0
    if elimination.evaluate_leaving(chain, leave, times) and np.isfinite(times).all():
        return times
    return _sparse_times(mdp, policy, target)  # a probability of getting there underflowed


def _sparse_times(mdp: TabularMDP, policy: Ints, target: int) -> Floats:
    rest = np.delete(np.arange(mdp.n_states), target)
    rows = mdp.csr[rest * mdp.n_actions + policy[rest]]
    leave = rows[:, [target]].toarray().ravel()
    times = np.zeros(mdp.n_states)
    times[rest] = sparse_factors(rows[:, rest], leave).solve(np.ones(rest.size))
    return times


@dataclass(frozen=True, repr=False)
class AveragingTime:
    """A bracket of the reward averaging time: low <= tau <= high.

    Attributes:
        low: attained, at some time or in the limit.
        high: certified.
        closed: whether the bracket is as narrow as the tolerance asked for.
    """

    low: float
    high: float
    closed: bool

    __repr__ = brief

    def __float__(self) -> float:
        return self.high


@checks_arguments
@interruptible("computing the reward averaging time")
def reward_averaging_time(
    mdp: TabularMDP, policy: ArrayLike, tol: float = 1e-9, most_steps: int = 100_000
) -> AveragingTime:
    """Return the reward averaging time of a policy (Definition 3.1 of the paper), bracketed.

    The expected total of T rewards from s is T g(s) + h(s) - (P^T h)(s), so

        tau = sup over T >= 0 and s of |h(s) - (P^T h)(s)|,

    the limit of large T included. Let d be the period of the chain and L the limit of P^{nd} h (0
    if d = 1, since P* h = 0). At time T = nd, all later terms are within e = max |P^T h - L| of
    |h - P^j L|, 0 <= j < d, because P is a contraction: that closes the bracket from above, as the
    terms up to T and the limits do from below. tau is never above the span of h.

    A chain that mixes too slowly for `most_steps` steps, or whose period is too long, leaves the
    bracket wider than `tol` (relative to the span), and `closed` is False.
    """
    matrix, rewards = policy_chain(mdp, policy)
    chain = factored(matrix)
    gain = chain.average(rewards)
    bias = chain.potential(rewards - gain)
    ceiling = span(bias)
    width = tol * max(ceiling, float(np.finfo(np.float64).tiny))
    low, high = float(np.abs(bias).max()), ceiling
    period = _period(matrix)
    if period > most_steps:
        return AveragingTime(low, high, high - low <= width)
    limits = _cyclic_limits(matrix, bias, period)
    low = max(low, max(float(np.abs(bias - x).max()) for x in limits))
    ahead, step = bias, 0
    while step < most_steps:
        distance = float(np.abs(ahead - limits[0]).max())
        high = min(ceiling, max(low, max_distance(bias, limits) + distance))
        if high - low <= width:
            break
        for _ in range(period):
            ahead = matrix @ ahead
            low = max(low, float(np.abs(bias - ahead).max()))
        step += period
    low = min(low, ceiling)
    return AveragingTime(low, high, high - low <= width)


def max_distance(x: Floats, others: list[Floats]) -> float:
    """Return the largest distance, in the largest coordinate, of `x` `(S,)` from `others`."""
    return max(float(np.abs(x - other).max()) for other in others)


def _period(matrix: Any) -> int:
    """Return the period of a chain: the least common multiple over its closed classes."""
    graph = scipy.sparse.csr_array(matrix)
    period = 1
    for states in closed_classes(graph):
        inside = graph[states][:, states].tocoo()
        depth = scipy.sparse.csgraph.shortest_path(inside.tocsr(), unweighted=True, indices=0)
        excess = (depth[inside.row] + 1 - depth[inside.col]).astype(np.int64)
        period = int(np.lcm(period, max(1, int(np.gcd.reduce(np.abs(excess))))))
    return period


def _cyclic_limits(matrix: Any, bias: Floats, period: int) -> list[Floats]:
    """Return P^j L, 0 <= j < period, where L is the limit of P^{n period} h."""
    if period == 1:
        return [np.zeros_like(bias)]
    power: Callable[[Any, int], Any] = (
        scipy.sparse.linalg.matrix_power if is_sparse(matrix) else np.linalg.matrix_power
    )
    limits = [factored(power(matrix, period)).average(bias)]
    for _ in range(period - 1):
        limits.append(np.asarray(matrix @ limits[-1]))
    return limits
