"""Modified policy iteration for large models: Bellman steps with bounds, policy steps between.

For any v let T v = max over a of r_a + gamma P_a v, d = T v - v, and pi greedy for v. Then

    gamma < 1:  T v + gamma/(1-gamma) min d  <=  V_pi  <=  V*  <=  T v + gamma/(1-gamma) max d
    gamma = 1:  min d  <=  gain of pi  <=  optimal gain  <=  max d

(MacQueen 1966; Odoni 1969), whatever v is: the bounds certify the result, and v may be moved by any
means in between. Here it is moved towards the value of the greedy policy (Puterman and Shin 1978),
by steps of its chain, v <- r_pi + gamma P_pi v, until max d - min d has fallen to SHARE of itself.
Where the chain forgets too slowly for that, a sparse model is put in order and solved by a Krylov
method (`ordered`); a dense one takes more and more steps.

**Elimination** (after MacQueen 1967). Most actions need not be looked at again. Let u(s, a) be at
least q(s, a) = r + gamma P v at an earlier v. At the present one q is at most u + gamma (m + d|m|),
m being the largest rise of v since, and d the most by which a row's sum differs from 1. An action
for which this is below the q of the state's present one is passed over, without a look at its row.
The rounding e of a computed q (`certificates`) is added twice a step, so that the largest T v - v
is known within e as if all actions had been computed.

Dense models are stored transposed, `(S, S*A)` with the successor first, for the steps that look at
every action: the inner loop runs over state-action pairs, and the compiler can use vector
instructions without reordering a sum. Sparse models are the row pointers, successors and
probabilities of the rows s*A + a. Every entry of a vector is a sum of its own in a fixed order, and
minima and maxima do not depend on the order: nothing depends on how many threads share a step.
"""

from typing import Any, NamedTuple

import numpy as np

from cpsrl._compile import inlined, jit
from cpsrl.mdp import TabularMDP
from cpsrl.planning import ordered
from cpsrl.planning.certificates import measures, row_rounding
from cpsrl.planning.kernels import FAR_SIGHTED, dot, four_dots
from cpsrl.planning.parallel import blocks, in_parallel
from cpsrl.types import Floats, Ints
from cpsrl.waiting import stage

SHARE = 0.1
"""What share of max d - min d policy steps leave before the next Bellman step."""
TRIAL_STEPS, MOST_STEPS = 6, 40
"""Policy steps after which a chain's pace is known, and the most that it may need for SHARE."""
AT_ONCE = 4
"""How often SHARE is taken at once where the last Bellman step has kept the policy, if discounted:
an average is settled afterwards."""
PROGRESS, PATIENCE = 0.8, 4
"""A Bellman step that leaves more than this share of max d - min d is idle; after so many idle
steps a model counts as slow."""
ROUNDS, DOUBLINGS = 8, 5
"""A slow dense model takes twice the policy steps after so many Bellman steps, so many times."""
SETTLED = 16 * float(np.finfo(np.float64).eps)
"""Relative width at which a bias counts as exact."""
SETTLING_STEPS, STATES_PER_STEP = 300, 10
"""Steps to get there before a chain is factored: at least so many, and one for so many states,
since what a factorisation costs grows faster than that."""
START, START_SWEEPS = ((0.999, 1e-3), (FAR_SIGHTED, 1e-6)), 40
"""How average-reward planning begins in a slow model: discount factors, how well each is planned
for as a share of the range of rewards, and the most Bellman steps. Without the second, sampled
models of 20,000 states fail; without the first, grids do."""
STUCK = 3
"""How often the Krylov method may find nothing better."""
FIRST_PASSES, QUICK_ROUNDS = 2, 3
"""Passes to and fro that choose actions in place when a model turns out to be slow; after how many
Bellman steps one more goes with each that changed the policy."""


class Sweeps:
    """Modified policy iteration under way.

    Args:
        mdp: the model.
        gamma: the discount factor, or 1 for the average reward.
        value: `(S,)` where to start.
        policy: `(S,)` the policy to begin with.

    Attributes:
        value: `(S,)` T v of the last Bellman step.
        policy: `(S,)` greedy for v.
        low: min d.
        high: max d.
        sweeps: Bellman steps.
        steps: policy steps.
        slow: whether the chains of the model's policies forget slowly.
        stuck: how often the Krylov method found nothing better.
    """

    def __init__(self, mdp: TabularMDP, gamma: float, value: Floats, policy: Ints) -> None:
        self.value, self.policy = value.copy(), policy.copy()
        self.low, self.high = -np.inf, np.inf
        self.sweeps = self.steps = 0
        self.slow = False
        self.stuck = 0
        self._mdp, self._gamma = mdp, gamma
        self._other, self._reference = np.empty_like(value), np.zeros_like(value)
        self._above = np.zeros(mdp.rewards.shape)
        self._rise, self._rounding = np.inf, 0.0
        self._order: ordered.Order | None = None
        self._changed, self._idle = 1, 0

    @property
    def width(self) -> float:
        """What max d - min d is."""
        return self.high - self.low

    @property
    def method(self) -> str:
        """What was done, in words."""
        krylov = ", BiCGSTAB" if self._order is not None else ""
        return f"modified policy iteration{krylov}"

    def run(self, target: float, most: int) -> bool:
        """Go on until max d - min d <= `target`, or for `most` Bellman steps; return which."""
        for number in range(most):
            before = self.width
            if number or self.sweeps:
                kept = self._gamma < 1 and self.sweeps > 1 and not (self._changed or self.slow)
                rounds = AT_ONCE if kept else 1
                self.evaluate(max(SHARE**rounds * before, 0.5 * target), rounds * MOST_STEPS)
            self.improve()
            self._idle += self.width > PROGRESS * before
            self.slow |= self._idle >= PATIENCE
            if self.width <= target or self.stuck >= STUCK:
                break
            stage(f"sweep {self.sweeps}, known up to {self.width:.0e}")
        self.policy = self._mdp.allowed(self.policy)
        return self.width <= target

    def improve(self) -> None:
        """Take a Bellman step."""
        mdp, gamma = self._mdp, self._gamma
        rise, largest = _moved(self.value, self._reference)
        defect, reward, *_ = measures(mdp)
        rounding = row_rounding(mdp, reward + gamma * (1 + defect) * largest)
        if self.sweeps:
            self._rise = gamma * (rise + defect * abs(rise)) + rounding + self._rounding
        elif not largest:
            self._above[:], self._rise = mdp.rewards, 2 * rounding
        self._rounding = rounding
        now = (self.value, self._above, self._rise, self.policy, self._other)
        if mdp.is_thin:
            model = (mdp.csr.indptr, mdp.csr.indices, mdp.csr.data, mdp.rewards, gamma, *now)
            found = list(in_parallel(_sparse_bellman, model, blocks(mdp)))
        else:
            found = [_dense_bellman(mdp.by_successor, mdp.dense, mdp.rewards, gamma, *now)]
        self.low, self.high = min(x[0] for x in found), max(x[1] for x in found)
        if not np.isfinite(largest) or not self.low <= self.high:
            self.low, self.high = -np.inf, np.inf
        self._changed = sum(x[2] for x in found)
        self.value, self._other = self._other, self.value
        self.sweeps += 1

    def largest(self, value: Floats) -> float:
        """Return max d for v = `value` `(S,)`, of which the next Bellman step begins."""
        self.value[:] = value
        self.improve()
        return self.high

    def evaluate(self, want: float, most: int = MOST_STEPS) -> None:
        """Move the value towards that of the policy, until max d - min d <= `want` for it.

        A chain that would need more than `most` steps is slow.
        """
        if not self.slow:
            found = self._policy_steps(TRIAL_STEPS, want)
            width = found.high - found.low
            if width <= want:
                return
            pace = (width / found.first) ** (1 / (found.number - 1))
            needed = np.log(want / width) / np.log(pace) if 0 < pace < 1 else np.inf
            if needed <= most:
                self._policy_steps(int(needed) + 1, want)
                return
            self.slow = True
        if not self._mdp.is_thin:
            self._policy_steps(4 << min(self.sweeps // ROUNDS, DOUBLINGS), want)
            return
        base = 0.0 if self._gamma < 1 else (self.low + self.high) / 2
        passes = int(self._changed > 0 and self.sweeps > QUICK_ROUNDS)
        if self._order is None:
            self._order, passes = ordered.Order(self._mdp), FIRST_PASSES
            if self._gamma == 1.0:
                start = looking_ahead(self._mdp, self.policy, self._order)
                self.value, self.policy = start.value, start.policy
                self.sweeps += start.sweeps
                self.steps += start.steps
                return
        for _ in range(passes):
            self._order.improve(self._gamma, base, self.value, self.policy)
        arguments = (self._gamma, base, self.value, self.policy, want)
        moved, looks = self._order.evaluate(*arguments)
        self.steps += 2 * passes * self._mdp.n_actions + looks
        self.stuck += not moved

    def settle(self) -> tuple[float, Floats, float] | None:
        """Return gain and bias of the policy, for the average reward; None if it mixes too slowly.

        Also the smallest r + P h - h of the bias h, as computed. The bias is as exact as float64
        has it, with P* h = 0: P^n h has become constant, or P* h was solved for as a gain is.
        """
        rewards = self._mdp.rewards
        self.value -= self.value[0]
        scale = float(np.abs(rewards).max() + np.ptp(self.value)) + np.finfo(np.float64).tiny
        want = SETTLED * scale
        most = max(SETTLING_STEPS, len(rewards) // STATES_PER_STEP)
        solved = None
        if self._order is not None:
            self._order.evaluate(1.0, (self.low + self.high) / 2, self.value, self.policy, want)
            solved = self._order.gain(self.value, self.policy, want)
        found = self._policy_steps(most, want)
        if found.high - found.low > want:
            return None
        gain, bias = (found.low + found.high) / 2, self._other.copy()
        if solved is not None and found.number == 1:
            return gain, bias - solved, found.low
        self.value[:] = bias
        number = 0
        while number < most and np.ptp(self.value) > want:
            number += self._policy_steps(TRIAL_STEPS, want, np.zeros_like(rewards)).number
        return (gain, bias - self.value[0], found.low) if number < most else None

    def _policy_steps(self, most: int, want: float, rewards: Floats | None = None) -> "Steps":
        """Take steps of the policy's chain, with `rewards` `(S, A)` if not those of the model."""
        mdp, gamma = self._mdp, self._gamma
        relative = gamma == 1.0 and rewards is None
        r = mdp.rewards if rewards is None else rewards
        arguments = (r, gamma, self.policy, self.value, self._other)
        if mdp.is_thin:
            csr, parts = mdp.csr, blocks(mdp)
            model = (csr.indptr, csr.indices, csr.data, *arguments)
            steps = _steps_in_parallel if len(parts) > 1 else _sparse_steps
            found = steps(*model, relative, most, want, *([parts] if len(parts) > 1 else ()))
        else:
            found = _dense_steps(mdp.dense, *arguments, relative, most, want)
        if found[0] % 2:
            self.value, self._other = self._other, self.value
        self.steps += found[0]
        return Steps(*found)


class Steps(NamedTuple):
    """What steps of a policy's chain gave: v <- r + gamma P v."""

    number: int
    first: float
    """max - min of the first change"""
    low: float
    """the smallest last change"""
    high: float
    """the largest last change"""


def _steps_in_parallel(
    *arguments: Any,
) -> tuple[int, float, float, float]:
    """As `_sparse_steps`, by threads that share every step."""
    *model, v, other, relative, most, want, parts = arguments
    base, first, low, high, number = 0.0, np.inf, -np.inf, np.inf, 0
    while number < most and high - low > want:
        number += 1
        found = list(in_parallel(_sparse_step, (*model, v, other, base), parts))
        low, high = min(x[0] for x in found), max(x[1] for x in found)
        base = low if relative else 0.0
        first = high - low if number == 1 else first
        v, other = other, v
    return number, first, low, high


def looking_ahead(mdp: TabularMDP, policy: Ints, order: ordered.Order | None = None) -> Sweeps:
    """Return sweeps for a discount factor near 1, where average-optimal policies are near.

    From a policy with several closed classes, for which the Krylov method has no solution, one
    would have to leave by and by; discounted, bad ones fall apart. With an `order` the model counts
    as slow.
    """
    value, sweeps, steps = np.zeros(mdp.n_states), 0, 0
    for gamma, width in START:
        start = Sweeps(mdp, gamma, value, policy)
        start.slow, start._order = order is not None, order
        start.run(width * float(np.ptp(mdp.rewards)), START_SWEEPS)
        value, policy = start.value, start.policy
        sweeps, steps = sweeps + start.sweeps, steps + start.steps
    start.sweeps, start.steps = sweeps, steps
    return start


def bellman_step(
    mdp: TabularMDP, gamma: float, value: Floats, policy: Ints
) -> tuple[float, float, Ints]:
    """Return min d and max d for v = `value` `(S,)`, and the greedy policy; ties keep `policy`."""
    sweeps = Sweeps(mdp, gamma, value, policy)
    sweeps.improve()
    return sweeps.low, sweeps.high, mdp.allowed(sweeps.policy)


@jit
def _moved(v: Floats, reference: Floats) -> tuple[float, float]:
    """Return the largest v - reference and the largest |v|, and put v into `reference`."""
    rise, largest, total = -np.inf, 0.0, 0.0
    for s in range(len(v)):
        rise = max(rise, v[s] - reference[s])
        largest = max(largest, abs(v[s]))
        total += 0.0 * v[s]  # not 0 if there is a NaN, which a maximum passes over
        reference[s] = v[s]
    return rise, largest + total


@inlined
def row_sum(indices: Any, data: Floats, start: Any, end: Any, v: Floats) -> float:
    """Return the sum of data v[indices] from `start` to `end`; unsigned, as `inlined` says."""
    total = 0.0
    for entry in range(np.uint64(start), np.uint64(end)):
        total += data[entry] * v[np.uint64(indices[entry])]
    return total


@jit
def _sparse_bellman(
    indptr: Any,
    indices: Any,
    data: Floats,
    r: Floats,
    gamma: float,
    v: Floats,
    above: Floats,
    rise: float,
    policy: Ints,
    step: Floats,
    begin: int,
    end: int,
) -> tuple[float, float, int]:
    """Put T v into `step` for the states from `begin` to `end`; return min d, max d, changes.

    `above` is raised by `rise` and holds u; an infinite one has all actions computed.
    """
    n_actions = r.shape[1]
    low, high, changes = np.inf, -np.inf, 0
    for s in range(begin, end):
        first = policy[s]
        row = s * n_actions + first
        best = r[s, first] + gamma * row_sum(indices, data, indptr[row], indptr[row + 1], v)
        above[s, first] = best
        choice = first
        for a in range(n_actions):
            if a != first:
                above[s, a] += rise
                if above[s, a] >= best:
                    row = s * n_actions + a
                    total = row_sum(indices, data, indptr[row], indptr[row + 1], v)
                    above[s, a] = r[s, a] + gamma * total
                    if above[s, a] > best:
                        best, choice = above[s, a], a
        changes += choice != first
        policy[s] = choice
        step[s] = best
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high, changes


@jit
def _dense_bellman(
    by_successor: Floats,
    P: Floats,
    r: Floats,
    gamma: float,
    v: Floats,
    above: Floats,
    rise: float,
    policy: Ints,
    step: Floats,
) -> tuple[float, float, int]:
    """As `_sparse_bellman`, for all states of a dense model."""
    n_states, n_actions = r.shape
    kept = 0
    _dense_step(P, r, gamma, policy, v, step)
    for s in range(n_states):
        for a in range(n_actions):
            above[s, a] += rise
            kept += above[s, a] >= step[s]
    everything = 4 * kept > n_states * n_actions
    if everything:
        q = above.ravel()
        q[:] = r.ravel()
        for j in range(n_states):
            scale = gamma * v[j]
            row = by_successor[j]
            for i in range(n_states * n_actions):
                q[i] += scale * row[i]
    low, high, changes = np.inf, -np.inf, 0
    for s in range(n_states):
        first = choice = policy[s]
        best = above[s, first] if everything else step[s]
        for a in range(n_actions):
            if above[s, a] >= best and a != first:
                if not everything:
                    above[s, a] = r[s, a] + gamma * dot(P[s, a], v)
                if above[s, a] > best:
                    best, choice = above[s, a], a
        if not everything:
            above[s, first] = step[s]
        changes += choice != first
        policy[s] = choice
        step[s] = best
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high, changes


@jit
def _sparse_step(
    indptr: Any,
    indices: Any,
    data: Floats,
    r: Floats,
    gamma: float,
    policy: Ints,
    v: Floats,
    step: Floats,
    base: float,
    begin: int,
    end: int,
) -> tuple[float, float]:
    """Put r + gamma P v - base of the policy into `step`; return min and max r + gamma P v - v."""
    n_actions = r.shape[1]
    low, high = np.inf, -np.inf
    for s in range(begin, end):
        row = s * n_actions + policy[s]
        total = row_sum(indices, data, indptr[row], indptr[row + 1], v)
        total = r[s, policy[s]] + gamma * total
        step[s] = total - base
        low = min(low, total - v[s])
        high = max(high, total - v[s])
    return low, high


@jit
def _sparse_steps(
    indptr: Any,
    indices: Any,
    data: Floats,
    r: Floats,
    gamma: float,
    policy: Ints,
    v: Floats,
    step: Floats,
    relative: bool,
    most: int,
    want: float,
) -> tuple[int, float, float, float]:
    """Step to and fro between `v` and `step` until max - min <= `want`, at most `most` times.

    If `relative`, about what the last step added everywhere is taken off again. Returns what
    `Steps` has.
    """
    base, first, low, high, number = 0.0, np.inf, -np.inf, np.inf, 0
    while number < most and high - low > want:
        number += 1
        low, high = _sparse_step(indptr, indices, data, r, gamma, policy, v, step, base, 0, len(v))
        base = low if relative else 0.0
        first = high - low if number == 1 else first
        v, step = step, v
    return number, first, low, high


@inlined
def _dense_step(P: Floats, r: Floats, gamma: float, policy: Ints, v: Floats, step: Floats) -> None:
    """Put r + gamma P v of the policy into `step`."""
    whole = len(v) - len(v) % 4
    for s in range(0, whole, 4):
        a, b, c, d = policy[s], policy[s + 1], policy[s + 2], policy[s + 3]
        w, x, y, z = four_dots(P[s, a], P[s + 1, b], P[s + 2, c], P[s + 3, d], v)
        step[s], step[s + 1] = r[s, a] + gamma * w, r[s + 1, b] + gamma * x
        step[s + 2], step[s + 3] = r[s + 2, c] + gamma * y, r[s + 3, d] + gamma * z
    for s in range(whole, len(v)):
        step[s] = r[s, policy[s]] + gamma * dot(P[s, policy[s]], v)


@jit
def _dense_steps(
    P: Floats,
    r: Floats,
    gamma: float,
    policy: Ints,
    v: Floats,
    step: Floats,
    relative: bool,
    most: int,
    want: float,
) -> tuple[int, float, float, float]:
    """As `_sparse_steps`, for a dense model."""
    base, first, low, high, number = 0.0, np.inf, -np.inf, np.inf, 0
    while number < most and high - low > want:
        number += 1
        _dense_step(P, r, gamma, policy, v, step)
        low, high = np.inf, -np.inf
        for s in range(len(v)):
            total = step[s]
            step[s] = total - base
            low = min(low, total - v[s])
            high = max(high, total - v[s])
        base = low if relative else 0.0
        first = high - low if number == 1 else first
        v, step = step, v
    return number, first, low, high


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
