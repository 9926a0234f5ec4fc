"""Average-reward planning: a policy that maximises the gain in a known MDP.

Right for any finite model: weakly communicating or not, periodic or not, and however nearly its
classes of states are closed. Small models are solved by Howard's policy iteration with exact
evaluation (`kernels.plan_average`). Larger ones are first swept (`sweeps` with gamma = 1), which
finishes models whose policies have one closed class that is not too hard to leave parts of. Those
of some hundred states that have many successors are then solved as small ones are. What none of
these finishes is solved by policy iteration in numbers without a range (`nearly_closed`), which
takes hundreds of times as long where there are many successors.

The bound on the gain's error is computed from the gain and the bias that are returned, with every
rounding counted (`certificates`, `nearly_closed`).

A bias-optimal policy also maximises the bias among the gain-optimal ones. It is found by adding a
third level to the comparison of actions (Veinott 1966): among those that tie on gain and on
r + P h, the larger P w, where w = -h + P w, P* w = 0.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cpsrl.mdp import DENSE_STATES, TabularMDP
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.certificates import average_error, measures, settled_error
from cpsrl.planning.ladder import (
    COARSE,
    POLICY_ITERATION,
    QUICK_ENTRIES,
    Solution,
    Task,
    climb,
    first_policy,
    in_rewards,
    n_entries,
    of_magnitude,
    tolerance,
    with_rewards,
)
from cpsrl.planning.nearly_closed import Scaled
from cpsrl.planning.small import small_average
from cpsrl.planning.sweeps import Sweeps
from cpsrl.support.interruptible import interruptible, stage
from cpsrl.support.types import Floats, Ints

TRIAL_SWEEPS, MORE_SWEEPS = 12, 30
MOST_ELIMINATED = 1024
SHARE_OF_SUCCESSORS = 1 / 32
"""A model that sweeps don't finish is solved as a small one if it has at most so many states, and
if of all its transitions at least this share is possible."""
MOST_ITERATIONS = 1000
LARGEST = float(np.finfo(np.float64).max)
CONDENSED = "policy iteration, condensed chains"


@dataclass(frozen=True, repr=False)
class AverageSolution(Solution):
    """A gain-optimal policy.

    Attributes:
        policy: `(S,)` actions.
        gain: `(S,)`, the gain of the policy; the optimal gain up to `error`.
        bias: `(S,)`, the bias of the policy, with P* h = 0; the largest float where it is larger.
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
    facts, tol = measures(mdp), tolerance(mdp, tol)
    choice = first_policy(mdp, policy)
    if power := facts.power:
        scaled, tolerated, lost = of_magnitude(mdp, tol, power)
        found = solve_average(scaled, tolerated, bias_optimal, choice)
        with np.errstate(over="ignore"):
            bias = np.clip(np.ldexp(found.bias, power), -LARGEST, LARGEST)
        return replace(in_rewards(found, power, tol, lost, "gain"), bias=bias)
    if shift := facts.shift:
        centred = with_rewards(mdp, mdp.rewards - shift)
        found = solve_average(centred, tol, bias_optimal, choice)
        gain = found.gain + shift
        rounding = float(np.abs(found.gain - (gain - shift)).max())  # exact (Dekker 1971)
        return replace(found, gain=gain, error=found.error + rounding)
    task = Task(mdp, tol, choice)
    if bias_optimal:
        _small(task)
        return _nearly_closed(task, bias_optimal)
    return climb(task, _small, _swept, _many_successors, _nearly_closed)


def _small(task: Task) -> AverageSolution | None:
    """Solve a small model with dense arithmetic."""
    return _eliminated(task) if task.mdp.n_states <= DENSE_STATES else None


@interruptible("planning for the average reward")
def _many_successors(task: Task) -> AverageSolution | None:
    """Solve a model of some hundred states with dense arithmetic."""
    mdp = task.mdp
    transitions = mdp.n_states**2 * mdp.n_actions
    if not DENSE_STATES < mdp.n_states <= MOST_ELIMINATED:
        return None
    return _eliminated(task) if n_entries(mdp) >= SHARE_OF_SUCCESSORS * transitions else None


def _eliminated(task: Task) -> AverageSolution:
    mdp = task.mdp
    gain, bias, error, number = small_average(mdp, task.policy)
    task.policy = mdp.allowed(task.policy)
    return AverageSolution(task.policy, gain, bias, error, task.tol, POLICY_ITERATION, number)


def _swept(task: Task) -> AverageSolution | None:
    """Solve a model by Bellman steps, at first in the caller's own thread."""
    mdp = task.mdp
    if mdp.n_states <= DENSE_STATES:
        return None
    sweeps = Sweeps(mdp, 1.0, np.zeros(mdp.n_states), task.policy)
    if n_entries(mdp) <= QUICK_ENTRIES and sweeps.run(_sharp(task), TRIAL_SWEEPS):
        found = _settled(task, sweeps)
        if found is not None:
            return found
    return _swept_on(task, sweeps)


@interruptible("planning for the average reward")
def _swept_on(task: Task, sweeps: Sweeps) -> AverageSolution | None:
    found = _settled(task, sweeps) if _sweep_on(sweeps, _sharp(task)) else None
    task.policy = sweeps.policy.copy()
    return found


@interruptible("planning for the average reward")
def _nearly_closed(task: Task, bias_optimal: bool = False) -> AverageSolution:
    """Solve any model by policy iteration in numbers without a range."""
    scaled, policy = Scaled(task.mdp, task.tol), task.policy
    best, seen = None, set[bytes]()
    for number in range(MOST_ITERATIONS):
        stage(f"policy {number + 1}")
        worth = scaled.evaluate(policy, bias_optimal)
        how = (task.tol, CONDENSED, number + 1)
        found = AverageSolution(policy, worth.gain, worth.bias, worth.error, *how)
        if best is None or bias_optimal or found.error < best.error:
            best = found
        if not bias_optimal and found.reached:
            break
        following = scaled.improve(worth, policy)
        if following.tobytes() in seen and (bias_optimal or not scaled.tell_apart()):
            break
        policy = following
        seen.add(policy.tobytes())
    assert best is not None
    return best


@interruptible("planning for the average reward")
def average_policy(mdp: TabularMDP) -> Ints:
    """Return the policy `(S,)` of `solve_average`, not evaluated where sweeps have found it."""
    if mdp.n_states > DENSE_STATES and not measures(mdp).shift:
        task = Task(mdp, tolerance(mdp, None), first_policy(mdp, None))
        sweeps = Sweeps(mdp, 1.0, np.zeros(mdp.n_states), task.policy)
        if _sweep_on(sweeps, _sharp(task)):
            return sweeps.policy
    return solve_average(mdp).policy


def _sharp(task: Task) -> float:
    return min(task.tol, COARSE * float(np.ptp(task.mdp.rewards)))


def _sweep_on(sweeps: Sweeps, target: float) -> bool:
    """Sweep while it pays; return whether max d - min d <= `target` was reached."""
    while not sweeps.width <= target:
        before = sweeps.width
        if not sweeps.run(target, MORE_SWEEPS) and not sweeps.width < 0.1 * before:
            return False
    return True


def _settled(task: Task, sweeps: Sweeps) -> AverageSolution | None:
    """Return the solution that has the policy and, nearly, the value of sweeps.

    None if its bias was not found so, and policy iteration is to go on from it: a policy with
    several closed classes of one gain is greedy for a value with any levels there, and with those
    of its bias it need not be.
    """
    found = sweeps.settle()
    if found is None:
        return None
    level, bias, low = found
    mdp, policy, gain = task.mdp, sweeps.policy.copy(), np.full(task.mdp.n_states, level)
    error = settled_error(mdp, level, bias, low, sweeps.largest(bias))
    if error > task.tol:
        error = min(error, average_error(mdp, policy, gain, bias))
    how = (task.tol, sweeps.method, sweeps.sweeps)
    return AverageSolution(policy, gain, bias, error, *how)
