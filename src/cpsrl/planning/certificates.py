r"""What a solution is worth: bounds on its error, computed from the returned numbers alone.

Notation: u = 2^-53; P the stored transitions, r the rewards; hats are computed numbers. Every bound
below counts every rounding of its own evaluation.

**Rows.** A stored row sums to 1 only up to d = max over rows of |1 - sum_j P_j| (at most 1e-8), and
stays as it is. A bound holds for each of these readings of the model: the row divided by its sum,
the row with what is missing (or too much) put on staying, and, if discounted, the row as stored.

**Differences first.** (P x - x)(s, a) is computed as sum_j P_j (x_j - x_s). With n terms a row, a
difference, a product and at most n additions each cost a factor 1 + u, so the sum is known within
n' u w, w(s, a) = sum_j P_j |x_j - x_s| and n' = n + 8 (which also covers the rounding of w; dense
sums go in four lanes, n' = n/4 + 16), plus what underflows. Staying adds nothing to such a sum, and
dividing a row by its sum changes it by at most d w / (1 - d). So `slack` = (n' u + 2 d) w.

**Discounted.** Let q(s, a) = r + gamma P V - V = (r - (1 - gamma) V_s) + gamma (P V - V)(s, a). The
four operations round by at most 4 u (|r| + (1 - gamma)|V_s| + gamma |P V - V|), and the row as
stored differs by gamma d |V_s|: with gamma `slack` these are the e(s, a) by which q is known. With
b >= q + e everywhere and -b <= q - e at the policy's actions, V* <= V + b / (1 - gamma') and
V* >= V_pi >= V - b / (1 - gamma'), gamma' = gamma (1 + d) (Bellman's operator is a contraction
and monotone). The bound is b / (1 - gamma'), infinite where gamma' >= 1.

**Sweeps.** `sweeps` returns w = T v and low <= T v - v <= high as computed, plainly: each entry of
r + gamma P v is a sum of n + 1 numbers of at most R = max |r| + gamma (1 + d) max |v| in all, and
rows cost d R, so both are off by at most e = ((n + 8) u + 2 d) R. MacQueen's bounds then give V*
and V_pi within the sums over k >= 1 of gamma^k (T v - v), the factor being gamma (1 - d) to
gamma (1 + d). For gamma = 1 the optimal gain is at most high + e, and the gain of any policy at
least the smallest r + P v - v of its own, less e; v is the bias returned.

**Average reward** (linear programming duality; Puterman 1994, section 9.3). Let f >= P f for every
action (f is superharmonic), and f + delta + h' >= r + P h' for some h'. Then every policy has
f >= P* f and f + delta >= P* (r + P h' - h') = P* r, so no gain exceeds f + delta. Take
h' = h + m f: where P f - f < 0 the condition holds for a large m, whatever delta is. There remains

    delta = max of r + P h - h - g over the pairs (s, a) at which f - P f > 0 is not certain.

A constant f is superharmonic, and exactly so. Where the gain g differs by state, f is g raised by
rounding errors (`majorant`): to its largest value on every end component (where it is the same in
exact arithmetic, and a difference of 0 is exact), and elsewhere until f >= P f is certain. That may
not end where states that are transient under every policy leave with tiny probabilities only; then
the constant max g serves. An action that would raise the gain by less than any slack is not left
out: it raises f. The same with -r and -g on the chain of the policy bounds its gain from below. So
both the optimal gain and that of the policy lie within the bound of g.
"""

import weakref
from typing import Any, NamedTuple

import numpy as np

from cpsrl._compile import inlined, jit
from cpsrl.mdp import TabularMDP
from cpsrl.planning import kernels
from cpsrl.types import Floats, Ints

UNIT = float(np.finfo(np.float64).eps) / 2
TINY = float(np.finfo(np.float64).tiny)
LEAST = float(np.finfo(np.float64).smallest_subnormal)
MOST_LIFTS = 200


class Measures(NamedTuple):
    """What bounds need to know of a model."""

    defect: float
    """d, a bound on |1 - sum of a row| over all rows."""
    reward: float
    """max |r|."""
    terms: int
    """The most terms of a row."""
    low: float
    """min r."""
    high: float
    """max r."""


_measures: "weakref.WeakKeyDictionary[TabularMDP, Measures]" = weakref.WeakKeyDictionary()


def measures(mdp: TabularMDP) -> Measures:
    """Return the measures of a model, kept for further calls."""
    found = _measures.get(mdp)
    if found is None:
        if mdp.is_thin:
            indptr, data = mdp.csr.indptr, mdp.csr.data
        else:
            data = mdp.dense.ravel()
            indptr = np.arange(0, data.size + 1, mdp.n_states)
        defect = float(_row_defect(indptr, data))
        low, high = float(mdp.rewards.min()), float(mdp.rewards.max())
        found = Measures(defect, max(-low, high), int(np.diff(indptr).max()), low, high)
        _measures[mdp] = found
    return found


@jit
def _row_defect(indptr: Ints, data: Floats) -> float:
    most = 0.0
    for row in range(len(indptr) - 1):
        total, lost = -1.0, 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            x = data[entry]
            sum_ = total + x
            part = sum_ - total
            lost += (total - (sum_ - part)) + (x - part)
            total = sum_
        terms = indptr[row + 1] - indptr[row]
        defect = abs(total + lost)
        if total != 0.0 or lost != 0.0:
            defect = defect * (1 + 4 * UNIT) + 4 * (terms * UNIT) ** 2
        most = max(most, defect)
    return most


@jit
def dense_differences(P: Floats, x: Floats, share: float, change: Floats, slack: Floats) -> None:
    """Put what `differences` returns into `change` and `slack`; `share` is `dense_share`."""
    n_states, n_actions = P.shape[:2]
    least = _least(x)
    shifted, size = np.empty(n_states), np.empty(n_states)
    for s in range(n_states):
        for j in range(n_states):
            shifted[j] = x[j] - x[s]
            size[j] = abs(shifted[j])
        for a in range(n_actions):
            change[s, a] = kernels.dot(P[s, a], shifted)
            slack[s, a] = share * kernels.dot(P[s, a], size) + least


@jit
def _sparse_differences(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    x: Floats,
    share: float,
    change: Floats,
    slack: Floats,
) -> None:
    n_states, n_actions = change.shape
    least = _least(x)
    for s in range(n_states):
        for a in range(n_actions):
            row = s * n_actions + a
            total = size = 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                term = data[entry] * (x[indices[entry]] - x[s])
                total += term
                size += abs(term)
            change[s, a] = total
            slack[s, a] = share * ((indptr[row + 1] - indptr[row] + 8) * size) + least


@inlined
def _least(x: Floats) -> float:
    """Return what may underflow: nothing where `x` is constant."""
    for s in range(len(x)):
        if x[s] != x[0]:
            return TINY
    return 0.0


def differences(mdp: TabularMDP, x: Floats) -> tuple[Floats, Floats]:
    """Return P x - x `(S, A)`, differences first, and how far each entry may be off `(S, A)`."""
    change, slack = np.empty(mdp.rewards.shape), np.empty(mdp.rewards.shape)
    defect = 2 * measures(mdp).defect
    if mdp.is_thin:
        model = (mdp.csr.indptr, mdp.csr.indices, mdp.csr.data)
        _sparse_differences(*model, x, UNIT + defect, change, slack)
    else:
        dense_differences(mdp.dense, x, dense_share(mdp), change, slack)
    return change, slack


def dense_share(mdp: TabularMDP) -> float:
    """Return n' u + 2 d, of which `slack` is made in a dense model."""
    return (mdp.n_states / 4 + 16) * UNIT + 2 * measures(mdp).defect


def discounted_error(mdp: TabularMDP, gamma: float, policy: Ints, value: Floats) -> float:
    """Return the bound on |V* - V| and on |V_pi - V|, `value` and `policy` being as returned."""
    change, slack = differences(mdp, value)
    defect = measures(mdp).defect
    excess = discounted_excess(change, slack, mdp.rewards, gamma, value, policy, defect)
    return discounted_bound(mdp, gamma, excess)


def discounted_bound(mdp: TabularMDP, gamma: float, excess: float) -> float:
    """Return b / (1 - gamma'), `excess` being b."""
    return excess * (1 + 16 * UNIT) / _leaving(mdp, gamma)


@jit
def discounted_excess(
    change: Floats,
    slack: Floats,
    r: Floats,
    gamma: float,
    value: Floats,
    policy: Ints,
    defect: float,
) -> float:
    """Return b: the largest q + e of all actions and e - q of the policy's; `change` is P V - V."""
    most = 0.0
    for s in range(len(value)):
        keep, stored = (1 - gamma) * value[s], defect * abs(value[s])
        for a in range(r.shape[1]):
            moved = gamma * change[s, a]
            q = (r[s, a] - keep) + moved
            rounding = 4 * UNIT * (abs(r[s, a]) + abs(keep) + abs(moved))
            e = gamma * (slack[s, a] + stored) + rounding
            worst = max(q, -q) + e if a == policy[s] else q + e
            if not worst <= most:
                most = worst if worst > most else np.inf  # not a number
    return most


def _leaving(mdp: TabularMDP, gamma: float) -> float:
    """Return 1 - gamma (1 + d), rounded down; 0 where it is not positive."""
    left = (1 - gamma) * (1 - 4 * UNIT) - gamma * measures(mdp).defect * (1 + 4 * UNIT)
    return max(left * (1 - 4 * UNIT), TINY)


def sweep_rounding(mdp: TabularMDP, gamma: float, low: float, high: float, step: Floats) -> float:
    """Return e, by which the `low`, `high` and `step` that `sweeps` returned may be off."""
    largest = float(np.abs(step).max()) + max(abs(low), abs(high))
    return row_rounding(mdp, measures(mdp).reward + gamma * largest)


def row_rounding(mdp: TabularMDP, size: float) -> float:
    """Return what an r + gamma P v may be off by where max |r| + gamma max |v| is `size`."""
    defect, _, terms, *_ = measures(mdp)
    return ((terms + 8) * UNIT + 2 * defect) * size * (1 + 1e-6) + TINY


def swept_error(
    mdp: TabularMDP, gamma: float, low: float, high: float, step: Floats, shift: float
) -> float:
    """Return the bound on |V* - V| and |V_pi - V| for V = `step` + `shift` after a sweep."""
    e = sweep_rounding(mdp, gamma, low, high, step)
    defect, largest = measures(mdp).defect, float(np.abs(step).max()) + abs(shift)
    most = gamma * (1 + defect) / _leaving(mdp, gamma)
    least = gamma * (1 - defect) / (1 - gamma * (1 - defect))
    above = max(most * (high + e), least * (high + e)) - shift
    below = shift - min(most * (low - e), least * (low - e))
    rounding = 16 * UNIT * (largest + most * (abs(low) + abs(high) + e))
    return _known(max(above, below, 0.0) + e + rounding)


def settled_error(mdp: TabularMDP, gain: float, bias: Floats, low: float, high: float) -> float:
    """Return the bound on the distance of a constant `gain` from the optimal and the policy's.

    `high` is the largest T h - h for the `bias` h `(S,)`, and `low` the smallest r + P h - h of the
    policy for a constant plus h, both as computed.
    """
    e = sweep_rounding(mdp, 1.0, low, high, bias) + 4 * UNIT * float(np.abs(bias).max())
    return _known(max(high - gain, gain - low, 0.0) * (1 + 4 * UNIT) + 2 * e)


def average_error(mdp: TabularMDP, policy: Ints, gain: Floats, bias: Floats) -> float:
    """Return the bound on the distance of `gain` from the optimal gain and the policy's."""
    change, slack = differences(mdp, bias)
    above, below = np.empty_like(change), np.empty((len(gain), 1))
    constant, excess = average_excess(change, slack, mdp.rewards, gain, policy, above, below)
    if not constant:
        states = np.arange(mdp.n_states)
        rows = states * mdp.n_actions + policy
        chain = TabularMDP(mdp.csr[rows], mdp.rewards[states, policy][:, None])
        excess = max(_excess(mdp, gain, above), _excess(chain, -gain, below))
    return average_bound(excess)


def average_bound(excess: float) -> float:
    """Return the bound for an f - g + delta of at most `excess`, which may be no number."""
    return _known(max(excess, 0.0) * (1 + 16 * UNIT))


def _known(bound: float) -> float:
    """Return `bound`, or infinity where overflow has left no number."""
    return bound if bound == bound else np.inf


@jit
def average_excess(
    change: Floats,
    slack: Floats,
    r: Floats,
    gain: Floats,
    policy: Ints,
    above: Floats,
    below: Floats,
) -> tuple[bool, float]:
    """Put r + P h - h - g, at most, into `above` `(S, A)`, less it of the policy into `below`.

    `change` is P h - h. Returns whether the gain is constant, and the largest of both.
    """
    constant, most = True, -np.inf
    for s in range(len(gain)):
        constant &= gain[s] == gain[0]
        for a in range(r.shape[1]):
            rest = r[s, a] - gain[s]
            e = slack[s, a] + 4 * UNIT * (abs(rest) + abs(change[s, a]))
            rest += change[s, a]
            above[s, a] = rest + e
            worst = above[s, a]
            if a == policy[s]:
                below[s, 0] = e - rest
                worst = max(worst, below[s, 0])
            if not worst <= most:
                most = worst if worst > most else np.inf  # not a number
    return constant, most


def _excess(mdp: TabularMDP, gain: Floats, above: Floats) -> float:
    """Return f - g + delta, at most, for the f and delta of the duality argument."""
    from cpsrl.planning.structure import classify

    f, strict = majorant(mdp, gain, classify(mdp).classes)
    delta = float(np.max(above[~strict], initial=-np.inf))
    return float((f - gain).max()) * (1 + 4 * UNIT) + max(delta, 0.0)


def majorant(
    mdp: TabularMDP, gain: Floats, components: tuple[Ints, ...]
) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return a superharmonic f >= gain `(S,)`, and where f - P f > 0 is certain `(S, A)`."""
    label = np.arange(mdp.n_states)
    for states in components:
        label[states] = states[0]
    f = gain.copy()
    np.maximum.at(f, label, gain)
    strict = np.zeros(mdp.rewards.shape, np.bool_)
    matrix = mdp.csr
    done = _lift(
        matrix.indptr, matrix.indices, matrix.data, label, 2 * measures(mdp).defect, f, strict
    )
    if not done:
        f[:] = gain.max()
        strict[:] = False
    return f[label], strict


@jit
def _lift(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    label: Ints,
    defect: float,
    f: Floats,
    strict: Any,
) -> bool:
    """Raise f (kept at the first state of each label) until f >= P f is certain; False if not."""
    n_states, n_actions = strict.shape
    for _ in range(MOST_LIFTS):
        lifted = False
        for s in range(n_states):
            own = label[s]
            for a in range(n_actions):
                row = s * n_actions + a
                change = size = away = slack = 0.0
                for entry in range(indptr[row], indptr[row + 1]):
                    other = label[indices[entry]]
                    if f[other] != f[own]:
                        term = data[entry] * (f[other] - f[own])
                        change += term
                        size += abs(term)
                        slack = LEAST
                    if other != own:
                        away += data[entry]
                terms = indptr[row + 1] - indptr[row] + 8
                slack = (terms * UNIT + defect) * size + terms * slack
                strict[s, a] = change + slack < 0.0
                if change + slack > 0.0:
                    raised = f[own] + (change + 2 * slack) / away
                    f[own] = raised if raised > f[own] else np.nextafter(f[own], np.inf)
                    lifted = True
        if not lifted:
            return True
    return False
