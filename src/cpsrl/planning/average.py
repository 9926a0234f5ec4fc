"""Average-reward planning: a policy that maximises the gain in a known MDP.

Right for any finite model: weakly communicating or not, periodic or not. Small models are solved by
Howard's policy iteration with exact evaluation (`kernels.plan_average`). Larger ones are first
swept (`sweeps` with gamma = 1), which finishes models whose policies have one closed class that is
not too hard to leave parts of; the others go to policy iteration with a factorisation of each
policy's chain, started from a discounted policy (why: see `kernels.plan_average`).

The bound on the gain's error is computed from the gain and the bias that are returned, with every
rounding counted (`certificates`). Where it is above the tolerance asked for, policy iteration goes
on, and exchanges every action whose advantage is more than the rounding of its own comparison.

A bias-optimal policy also maximises the bias among the gain-optimal ones. It is found by adding a
third level to the comparison of actions (Veinott 1966): among those that tie on gain and on
r + P h, the larger P w, where w = -h + P w, P* w = 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.mdp import DENSE_PLANNING, TabularMDP
from cpsrl.pages.notebook import by_state
from cpsrl.planning import kernels
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.certificates import UNIT, average_error, differences, settled_error
from cpsrl.planning.discounted import (
    COARSE,
    EPS,
    FACTORED,
    MOST_DENSE,
    POLICY_ITERATION,
    QUICK_ENTRIES,
    first_policy,
    iterate,
    n_entries,
    reward_shift,
    tolerance,
    with_rewards,
)
from cpsrl.planning.evaluation import factored, policy_chain
from cpsrl.planning.small import small_average
from cpsrl.planning.sweeps import Sweeps, looking_ahead
from cpsrl.types import Floats, Ints, brief
from cpsrl.waiting import interruptible, stage

TRIAL_SWEEPS, MORE_SWEEPS = 12, 30
TIE = 1e-11
MOST_ITERATIONS, PATIENCE = 1000, 10
NOISE = 16
"""In the finest comparison an advantage counts if it is so many times what rounding can do."""


@dataclass(frozen=True, repr=False)
class AverageSolution:
    """A gain-optimal policy.

    Attributes:
        policy: `(S,)` actions.
        gain: `(S,)`, the gain of the policy; the optimal gain up to `error`.
        bias: `(S,)`, the bias of the policy, with P* h = 0.
        error: a bound on the distance of `gain` from the optimal gain and from the policy's.
        tol: the tolerance asked for.
        method: how it was found.
        sweeps: how often every state's action was chosen anew.
    """

    policy: Ints
    gain: Floats
    bias: Floats
    error: float
    tol: float
    method: str
    sweeps: int

    __repr__ = brief
    _repr_html_ = by_state

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance asked for."""
        return self.error <= self.tol


@checks_arguments
def solve_average(
    mdp: TabularMDP,
    tol: float | None = None,
    bias_optimal: bool = False,
    policy: ArrayLike | None = None,
) -> AverageSolution:
    """Return a gain-optimal policy of `mdp`, its gain and its bias.

    Args:
        mdp: the model.
        tol: the error of the gain that is wanted, by default 1e-8 of the width of the range of
            rewards; `solution.reached` says whether it was reached.
        bias_optimal: return a policy that also maximises the bias.
        policy: `(S,)`, a policy to start from.
    """
    tol = tolerance(mdp, tol)
    choice = first_policy(mdp, policy)
    if shift := reward_shift(mdp):
        centred = with_rewards(mdp, mdp.rewards - shift)
        found = solve_average(centred, tol, bias_optimal, choice)
        how = (found.method, found.sweeps)
        return _certified(mdp, tol, found.policy, found.gain + shift, found.bias, *how)
    if mdp.n_states <= DENSE_PLANNING:
        return _small(mdp, tol, bias_optimal, choice)
    sweeps = None
    if not bias_optimal:
        sweeps = Sweeps(mdp, 1.0, np.zeros(mdp.n_states), choice)
        if n_entries(mdp) <= QUICK_ENTRIES and sweeps.run(_sharp(mdp, tol), TRIAL_SWEEPS):
            settled = _settled(mdp, tol, sweeps)
            if settled is not None:
                return settled
    return _patiently(mdp, tol, bias_optimal, choice, sweeps)


@interruptible("planning for the average reward")
def _patiently(
    mdp: TabularMDP, tol: float, bias_optimal: bool, choice: Ints, sweeps: Sweeps | None
) -> AverageSolution:
    """Return the solution by further sweeps, or by policy iteration where these would not do."""
    if sweeps is not None and _sweep_on(sweeps, _sharp(mdp, tol)):
        settled = _settled(mdp, tol, sweeps)
        if settled is not None:
            return settled
        choice = sweeps.policy
    else:
        start = looking_ahead(mdp, choice).policy
        within = float(np.abs(mdp.rewards).max())
        choice = iterate(mdp, kernels.FAR_SIGHTED, within, start).policy
    try:
        return _iterate(mdp, tol, bias_optimal, choice)
    except ZeroDivisionError:  # a pivot underflowed in a chain that drifts far
        if mdp.n_states > MOST_DENSE:
            raise ValueError(
                f"{mdp!r} has states that are visited too rarely for float64 to plan"
            ) from None
    return _small(mdp, tol, bias_optimal, choice)


def _small(mdp: TabularMDP, tol: float, bias_optimal: bool, choice: Ints) -> AverageSolution:
    """Return the solution by policy iteration with dense arithmetic."""
    gain, bias, error, number = small_average(mdp, choice)
    choice = mdp.allowed(choice)
    if bias_optimal:
        return _iterate(mdp, tol, bias_optimal, choice)
    found = AverageSolution(choice, gain, bias, error, tol, POLICY_ITERATION, number)
    if not found.reached and mdp.n_states <= DENSE_PLANNING:
        found = min(found, _iterate(mdp, tol, bias_optimal, choice), key=lambda x: x.error)
    return found


def _certified(
    mdp: TabularMDP, tol: float, policy: Ints, gain: Floats, bias: Floats, method: str, sweeps: int
) -> AverageSolution:
    error = average_error(mdp, policy, gain, bias)
    return AverageSolution(policy, gain, bias, error, tol, method, sweeps)


@interruptible("planning for the average reward")
def average_policy(mdp: TabularMDP) -> Ints:
    """Return the policy `(S,)` of `solve_average`, not evaluated where sweeps have found it."""
    if mdp.n_states > DENSE_PLANNING and not reward_shift(mdp):
        sweeps = Sweeps(mdp, 1.0, np.zeros(mdp.n_states), first_policy(mdp, None))
        if _sweep_on(sweeps, _sharp(mdp, tolerance(mdp, None))):
            return sweeps.policy
    return solve_average(mdp).policy


def _sharp(mdp: TabularMDP, tol: float) -> float:
    return min(tol, COARSE * float(np.ptp(mdp.rewards)))


def _sweep_on(sweeps: Sweeps, target: float) -> bool:
    """Sweep while it pays; return whether max d - min d <= `target` was reached."""
    while not sweeps.width <= target:
        before = sweeps.width
        if not sweeps.run(target, MORE_SWEEPS) and not sweeps.width < 0.1 * before:
            return False
    return True


def _settled(mdp: TabularMDP, tol: float, sweeps: Sweeps) -> AverageSolution | None:
    """Return the solution that has the policy and, nearly, the value of sweeps.

    None if its bias was not found so, and policy iteration is to go on from it: a policy with
    several closed classes of one gain is greedy for a value with any levels there, and with those
    of its bias it need not be.
    """
    found = sweeps.settle()
    if found is None:
        return None
    how = (sweeps.method, sweeps.sweeps)
    level, bias, low = found
    policy, gain = sweeps.policy.copy(), np.full(mdp.n_states, level)
    error = settled_error(mdp, level, bias, low, sweeps.largest(bias))
    if error > tol:
        error = min(error, average_error(mdp, policy, gain, bias))
    return AverageSolution(policy, gain, bias, error, tol, *how)


def _iterate(mdp: TabularMDP, tol: float, bias_optimal: bool, policy: Ints) -> AverageSolution:
    best, best_total, stalled, fine = None, -np.inf, 0, bias_optimal
    for number in range(MOST_ITERATIONS):
        stage(f"policy {number + 1}")
        matrix, rewards = policy_chain(mdp, policy)
        chain = factored(matrix)
        gain = chain.average(rewards)
        bias = chain.potential(rewards - gain)
        second = chain.potential(-bias) if bias_optimal else None
        found = _certified(mdp, tol, policy, gain, bias, FACTORED, number + 1)
        total = float(gain.sum())
        stalled = 0 if total > best_total + TIE * abs(total) else stalled + 1
        if best is None or (
            total >= best_total - TIE * abs(total) if bias_optimal else found.error < best.error
        ):
            best = found
        best_total = max(total, best_total)
        if not bias_optimal and found.reached:
            break
        following = _improved(mdp, policy, gain, bias, second, fine)
        if not fine and (np.array_equal(following, policy) or stalled > mdp.n_states):
            fine, stalled = True, 0
            following = _improved(mdp, policy, gain, bias, second, fine)
        most = mdp.n_states if bias_optimal else PATIENCE
        if np.array_equal(following, policy) or (fine and stalled > most):
            break
        policy = following
    assert best is not None
    return best


def _improved(
    mdp: TabularMDP, policy: Ints, gain: Floats, bias: Floats, second: Floats | None, fine: bool
) -> Ints:
    """Return the policy with every action exchanged for a lexicographically better one.

    At each level the policy's own actions would all have 0 in exact arithmetic. How far they are
    from it, and the rounding of the comparison, are the slack of a `fine` comparison.
    """
    states = np.arange(mdp.n_states)
    levels = [differences(mdp, gain)]
    change, slack = differences(mdp, bias)
    rest = mdp.rewards - gain[:, None]
    levels.append((rest + change, slack + 4 * UNIT * (np.abs(rest) + np.abs(change))))
    if second is not None:
        change, slack = differences(mdp, second)
        away = bias[:, None]
        levels.append((change - away, slack + 4 * UNIT * (np.abs(away) + np.abs(change))))
    scale = (np.abs(gain).max(), np.abs(mdp.rewards).max() + np.abs(bias).max())
    following = policy.copy()
    tied = np.ones(mdp.rewards.shape, bool)
    settled = np.zeros(mdp.n_states, bool)
    for number, (level, rounding) in enumerate(levels):
        own = level[states, policy]
        if fine:
            noise = np.abs(own) if number == 0 else np.abs(own).max()
            slack = NOISE * rounding + (2 * noise)[..., None]
        else:
            slack = np.full_like(level, 16 * EPS * scale[number])
        candidates = np.where(tied & (level > own[:, None] + slack), level, -np.inf)
        choice = np.argmax(candidates, axis=1)
        better = ~settled & (candidates[states, choice] > -np.inf)
        following[better] = choice[better]
        settled |= better
        tied &= level >= own[:, None] - slack
    return mdp.allowed(following)
