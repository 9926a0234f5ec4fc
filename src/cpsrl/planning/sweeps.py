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
Nor can q be above r + gamma (M + d|M|), M being the largest v. The rounding e of a computed q
(`certificates`) is added twice a step, so that the largest T v - v is known within e as if all
actions had been computed. Rises are summed up, so that u need not be written again where no action
is looked at; their sum is raised by what it may be rounded by.

How steps are taken in sparse and in dense models is in `steps`.
"""

import numpy as np

from cpsrl._private.compile import jit
from cpsrl.mdp import TabularMDP
from cpsrl.planning import ordered
from cpsrl.planning.certificates import UNIT, measures, row_rounding
from cpsrl.planning.kernels import FAR_SIGHTED
from cpsrl.planning.steps import Taken, steps_of
from cpsrl.support.interruptible import stage
from cpsrl.support.types import Floats, Ints

SHARE = 0.1
"""What share of max d - min d policy steps leave before the next Bellman step."""
TRIAL_STEPS, MOST_STEPS = 6, 40
"""Policy steps after which a chain's pace is known, and the most that it may need for SHARE."""
AT_ONCE = 4
"""How often SHARE is taken at once where the last Bellman step has kept the policy, if discounted:
an average is settled afterwards."""
PROGRESS, PATIENCE = 0.95, 4
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
        self._steps = steps_of(mdp, gamma)
        self._other, self._reference = np.empty_like(value), np.zeros_like(value)
        self._risen = self._rounding = 0.0
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
        rise, top, largest = _moved(self.value, self._reference)
        defect, reward, *_ = measures(mdp)
        rounding = row_rounding(mdp, reward + gamma * (1 + defect) * largest)
        before = self._risen
        self._risen += gamma * (rise + defect * abs(rise)) + rounding + self._rounding
        self._risen += 8 * UNIT * (abs(before) + abs(self._risen) + largest)
        self._rounding = rounding
        ceiling = gamma * (top + defect * abs(top)) + 2 * rounding
        now = (self.value, self.policy, self._other, self._risen, ceiling)
        self.low, self.high, self._changed = self._steps.bellman(*now)
        if not np.isfinite(largest) or not self.low <= self.high:
            self.low, self.high = -np.inf, np.inf
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
        if not self._mdp.prefers_sparse:
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
        gain, bias, low = (found.low + found.high) / 2, self._other.copy(), found.low
        if solved is not None and found.number == 1:
            return gain, bias - solved, low
        self.value[:] = bias
        found = self._policy_steps(most, want, levelling=True)
        if found.high - found.low > want:
            return None
        return gain, bias - self.value[0], low

    def _policy_steps(self, most: int, want: float, levelling: bool = False) -> Taken:
        """Take steps of the policy's chain, without rewards if `levelling`."""
        now = (self.policy, self.value, self._other)
        found = self._steps.policy(*now, most, want, levelling)
        if found.number % 2:
            self.value, self._other = self._other, self.value
        self.steps += found.number
        return found


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
def _moved(v: Floats, reference: Floats) -> tuple[float, float, float]:
    """Return the largest v - reference, v and |v|, and put v into `reference`."""
    rise, top, largest, total = -np.inf, -np.inf, 0.0, 0.0
    for s in range(len(v)):
        rise, top = max(rise, v[s] - reference[s]), max(top, v[s])
        largest = max(largest, abs(v[s]))
        total += 0.0 * v[s]  # not 0 if there is a NaN, which a maximum passes over
        reference[s] = v[s]
    return rise, top, largest + total
