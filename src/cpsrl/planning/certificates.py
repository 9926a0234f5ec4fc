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

**Shifted rewards.** With r + c in place of r all values rise by c / (1 - gamma), where rows sum to
1, and by that up to gamma d |c| / ((1 - gamma)(1 - gamma')) as they are stored. So an error found
for r holds for r + c with this added, and the roundings of the quotient and of the sum. The bound
above is wider: to it a rounding of V, u |c| / (1 - gamma), could be a reward.

**Rewards of a span beyond float64's.** Very large or small rewards are planned for in a power of 2
as their unit. Dividing by it loses of a small r what lies below the smallest float; the loss l is
at most (exactly) the largest |r - r'|, so gains move by at most l and values by l / (1 - gamma').
What gain and values lose on the way back is measured just so.

**Average reward** (linear programming duality; Puterman 1994, section 9.3). If a constant g and an
h have g + delta + h >= r + P h for every action, then g + delta >= P* (r + P h - h) = P* r: no gain
exceeds g + delta, delta being the largest r + P h - h - g. The same with -r, -g and -h on the chain
of the policy bounds its gain from below. So both the optimal gain and that of the policy lie within
the larger delta of g. A gain that differs by state, and a bias that is large, have a bound of their
own (`nearly_closed`).
"""

import math
import weakref
from typing import NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, jit
from cpsrl.mdp import TabularMDP
from cpsrl.planning import kernels
from cpsrl.support.types import Floats, Ints

UNIT = float(np.finfo(np.float64).eps) / 2
TINY = float(np.finfo(np.float64).tiny)
MODERATE = 400
"""Rewards of more or less than 2 to this power are scaled."""
FAR = 8
"""Rewards are centred if their middle is more than so many times their range from 0."""


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
    power: int
    """The power of 2 to plan in where rewards are so large or small that float64 may end; or 0."""
    shift: float
    """The middle of the rewards where it is far from 0 for their range, else 0. Then r - shift is
    exact (Sterbenz), and nothing depends on how large it is."""
    share: float
    """n' u + 2 d, of which `slack` is made in a dense model."""


_measures: "weakref.WeakKeyDictionary[TabularMDP, Measures]" = weakref.WeakKeyDictionary()


def measures(mdp: TabularMDP) -> Measures:
    """Return the measures of a model, kept for further calls."""
    found = _measures.get(mdp)
    if found is None:
        if mdp.prefers_sparse:
            indptr, data = mdp.csr.indptr, mdp.csr.data
        else:
            data = mdp.dense.ravel()
            indptr = np.arange(0, data.size + 1, mdp.n_states)
        defect = float(_row_defect(indptr, data))
        low, high = float(mdp.rewards.min()), float(mdp.rewards.max())
        middle, power = low / 2 + high / 2, math.frexp(max(-low, high))[1]
        found = Measures(
            defect,
            reward=max(-low, high),
            terms=int(np.diff(indptr).max()),
            low=low,
            high=high,
            power=power if abs(power) > MODERATE else 0,
            shift=middle if abs(middle) > FAR * (high - low) else 0.0,
            share=(mdp.n_states / 4 + 16) * UNIT + 2 * defect,
        )
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
    """Put what `differences` returns into `change` and `slack`; `share` is that of `Measures`."""
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
    if mdp.prefers_sparse:
        model = (mdp.csr.indptr, mdp.csr.indices, mdp.csr.data)
        _sparse_differences(*model, x, UNIT + defect, change, slack)
    else:
        dense_differences(mdp.dense, x, measures(mdp).share, change, slack)
    return change, slack


def discounted_error(mdp: TabularMDP, gamma: float, policy: Ints, value: Floats) -> float:
    """Return the bound on |V* - V| and on |V_pi - V|, `value` and `policy` being as returned."""
    change, slack = differences(mdp, value)
    defect = measures(mdp).defect
    excess = discounted_excess(change, slack, mdp.rewards, gamma, value, policy, defect)
    return discounted_bound(mdp, gamma, excess)


def discounted_bound(mdp: TabularMDP, gamma: float, excess: float) -> float:
    """Return b / (1 - gamma'), `excess` being b."""
    least = max(excess, TINY) if excess else 0.0  # below it rounding is no share of a number
    return least * (1 + 16 * UNIT) / _leaving(mdp, gamma)


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
    most, least = 0.0, 0.0
    for s in range(len(value)):
        if value[s] != 0.0:
            least = TINY  # products may underflow
            break
    for s in range(len(value)):
        keep, stored = (1 - gamma) * value[s], defect * abs(value[s])
        for a in range(r.shape[1]):
            moved = gamma * change[s, a]
            q = (r[s, a] - keep) + moved
            rounding = 4 * UNIT * (abs(r[s, a]) + abs(keep) + abs(moved))
            e = gamma * (slack[s, a] + stored) + rounding + least
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


def shifted_error(
    mdp: TabularMDP, gamma: float, error: float, centred: Floats, value: Floats
) -> float:
    """Return the bound for a `value` of `mdp` that is `centred`, with its `error`, and shifted."""
    shift = measures(mdp).shift
    moved = shift / (1 - gamma)
    rounding = float(np.abs(centred - (value - moved)).max())  # exact (Dekker 1971)
    quotient = UNIT if gamma >= 0.5 else 2 * UNIT  # 1 - gamma is exact from 1/2 on
    apart = gamma * measures(mdp).defect / _leaving(mdp, gamma) + quotient
    return _known((error + rounding + abs(moved) * apart) * (1 + 16 * UNIT))


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
    return average_bound(average_excess(change, slack, mdp.rewards, gain, policy))


def average_bound(excess: float) -> float:
    """Return the bound for an f - g + delta of at most `excess`, which may be no number."""
    return _known(max(excess, 0.0) * (1 + 16 * UNIT))


def _known(bound: float) -> float:
    """Return `bound`, or infinity where overflow has left no number."""
    return bound if bound == bound else np.inf


@jit
def average_excess(change: Floats, slack: Floats, r: Floats, gain: Floats, policy: Ints) -> float:
    """Return delta, of all actions and, its signs turned, of the policy's; `change` is P h - h.

    Infinite where the gain is not constant.
    """
    most = -np.inf
    for s in range(len(gain)):
        for a in range(r.shape[1]):
            rest = r[s, a] - gain[s]
            e = slack[s, a] + 4 * UNIT * (abs(rest) + abs(change[s, a]))
            rest += change[s, a]
            worst = max(rest, -rest) + e if a == policy[s] else rest + e
            if not worst <= most or gain[s] != gain[0]:
                most = worst if worst > most and gain[s] == gain[0] else np.inf  # not a number
    return most
