r"""Average-reward planning in models whose classes of states are nearly closed.

Everything is computed in wide numbers and kept as places (`wide`, `reduction`), because such a
model has biases of 1e300 with differences that count. Rewards are scaled to [0, 1], n is the number
of states, u = 2^-53.

**The bound.** Let Q = P - I have its entries off the diagonal replaced by any within a factor 1 +-
e. The long-run average of any policy from any state is a ratio of sums of positive products of at
most n - 1 of these (one for each spanning forest, Freidlin and Wentzell 1984, chapter 6), times
rewards: it moves by at most

    c = ((1 + e) / (1 - e))^(n-1) - 1,

however small the entries are. Now let Q f <= 0 for every action, and r + Q h <= f + delta wherever
Q f = 0. With h + m f for h, m large, the second holds everywhere, and no gain exceeds f + delta
(`certificates`). It is enough that this holds for a Q of our choice, one for each row. Let change
and size be sum_j P_j (x_j - x_s) and sum_j P_j |x_j - x_s|; then Q x can be anything in
change +- e size. With f the gain and h the bias of a policy:

- where the f of all successors are equal, bit for bit, Q f = 0, and delta is the largest of
  r - f + change(h) - e size(h);
- elsewhere change(f) < e size(f) lets Q f be negative, and no more is asked.

The same with the signs turned bounds the gain of the policy from below. If both hold, both gains
are within delta + c of f. Nothing in it depends on how large h is. Each computed sum is that of
another such Q, with an e of (terms + 8) u, and rows that do not sum to 1 are within d of those that
do: these are added to e. If they do not hold, all gains are in [0, 1] still.

**Improvement.** An action is exchanged for one that raises the first of the levels gain, r + P h
and (for the bias) -h + P w at which they differ, each by more than e of its size.
"""

import math
from typing import NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, jit
from cpsrl.mdp import TabularMDP
from cpsrl.planning.certificates import UNIT, measures
from cpsrl.planning.reduction import Level, Reduction, advantages, beyond, narrowed, widened_places
from cpsrl.planning.wide import STEP, Wide, above, widened
from cpsrl.support.types import Floats, Ints

FINEST, COARSEST = (8 * UNIT, 64 * UNIT), 1e-10
"""Between which e is chosen."""
NOISE = 1e-7


class Evaluated(NamedTuple):
    """What a policy is worth, and what actions would change."""

    gain: Floats
    bias: Floats
    error: float
    levels: tuple[Level, ...]


class Scaled:
    """A model with its rewards scaled to [0, 1].

    Args:
        mdp: the model.
        tol: the error of the gain that is wanted.
    """

    def __init__(self, mdp: TabularMDP, tol: float) -> None:
        defect, largest, terms, low, high, *_ = measures(mdp)
        self._mdp, self._rows = mdp, np.arange(mdp.n_states) * mdp.n_actions
        self._model = (mdp.csr.indptr, mdp.csr.indices, mdp.csr.data)
        power = math.frexp(largest)[1]
        self._low = math.ldexp(low, -power)
        self._range = math.ldexp(high, -power) - self._low
        self._scale = (self._range or 1.0, power)
        self._rewards = ((np.ldexp(mdp.rewards, -power) - self._low) / self._scale[0]).ravel()
        wanted = math.ldexp(tol, -power) / self._range if self._range else 1.0
        self._e = min(max(wanted / (16 * mdp.n_states), FINEST[-1]), COARSEST)
        self._noise, self._most_noise = 0.0, min(wanted / 8, NOISE)
        self._rounding = (terms + 8) * UNIT + 2 * defect

    def evaluate(self, policy: Ints, bias_optimal: bool) -> Evaluated:
        """Return what a policy is worth, and what actions would change."""
        rows = self._rows + policy
        chain, rewards = Reduction(self._mdp.csr[rows]), self._rewards[rows]
        gain = chain.average(widened(rewards))
        gains = narrowed(widened_places(*gain))
        bias = chain.potential(widened(rewards - gains))
        biases = widened_places(*bias)
        nothing = widened(np.zeros(self._rewards.size))
        rest = widened(self._rewards - np.repeat(gains, self._mdp.n_actions))
        levels = [advantages(*self._model, *gain, nothing), advantages(*self._model, *bias, rest)]
        if bias_optimal:
            away = Wide(-biases.m, biases.k)
            second = chain.potential(Wide(-biases.m, biases.k.copy()))
            many = self._mdp.n_actions
            rest = Wide(np.repeat(away.m, many), np.repeat(away.k, many))
            levels.append(advantages(*self._model, *second, rest))
        error = min(self._bound(levels, policy, e) for e in (*FINEST, self._e))
        unit, power = self._scale
        with np.errstate(over="ignore", under="ignore"):
            rounding = 8 * UNIT if self._range else 0.0
            error = float(np.ldexp(error * self._range + rounding, power))
            gains = np.ldexp(self._low + unit * gains, power)
            large = np.ldexp(unit * biases.m, np.clip(512 * biases.k, -9999, 9999) + power)
        most = np.finfo(np.float64).max
        return Evaluated(gains, np.clip(large, -most, most), error, tuple(levels))

    def _bound(self, levels: list[Level], policy: Ints, e: float) -> float:
        """Return the bound in units of the rewards' range."""
        whole = e + self._rounding
        moved = (len(policy) - 1) * (math.log1p(whole) - math.log1p(-whole))
        c = math.expm1(min(moved, 1.0))
        delta = _excess(levels[0], levels[1], policy, e)
        return min(delta + c + e + 64 * UNIT, 1.0) + self._noise

    def tell_apart(self) -> bool:
        """Change rewards by as little as the tolerance allows; return whether that is new.

        Classes of one gain up to rounding would otherwise be exchanged for each other for ever.
        """
        if self._noise:
            return False
        self._noise = self._most_noise
        noise = np.random.default_rng(0).random(self._mdp.rewards.shape)
        noise = np.take_along_axis(noise, self._mdp.stand_in, axis=1)
        self._rewards = self._rewards + self._noise * noise.ravel()
        return True

    def improve(self, found: Evaluated, policy: Ints) -> Ints:
        """Return the policy with every action exchanged for a better one."""
        following = _improved(found.levels, policy, self._mdp.n_actions, self._e)
        return self._mdp.allowed(following)


@inlined
def _at(x: Wide, row: int) -> tuple[float, int]:
    return x.m[row], x.k[row]


@jit
def _excess(gain: Level, bias: Level, policy: Ints, e: float) -> float:
    """Return delta; 1 or more where the conditions do not hold."""
    n_actions = len(gain.value.m) // len(policy)
    delta = 0.0
    for row in range(len(gain.value.m)):
        for sign in (1.0, -1.0):
            if sign < 0.0 and policy[row // n_actions] != row % n_actions:
                continue
            if gain.size.m[row] != 0.0:
                m, _ = beyond(gain, row, sign, e)
                delta = delta if m < 0.0 else 1.0
            else:
                m, k = beyond(bias, row, sign, e)
                if m > 0.0:
                    delta = max(delta, 1.0 if k > 0 else math.ldexp(m, max(STEP * k, -1200)))
    return delta


@jit
def _improved(levels: tuple[Level, ...], policy: Ints, n_actions: int, e: float) -> Ints:
    following, tied = policy.copy(), np.empty(n_actions, np.bool_)
    for s in range(len(policy)):
        tied[:] = True
        for level in levels:
            best_m, best_k = 0.0, 0
            for a in range(n_actions):
                row = s * n_actions + a
                m, _ = beyond(level, row, 1.0, e)
                if tied[a] and a != policy[s] and m > 0.0:
                    m, k = _at(level.value, row)
                    if above(m, k, best_m, best_k):
                        best_m, best_k, following[s] = m, k, a
                less, _ = beyond(level, row, -1.0, e)
                tied[a] &= not less > 0.0
            if best_m > 0.0:
                break
    return following
