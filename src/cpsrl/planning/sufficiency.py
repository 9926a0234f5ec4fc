"""Is gamma large enough? What planning with a discount factor costs in gain.

An agent that plans for the gamma-discounted return settles on a gamma-discounted optimal policy. If
the gain of that policy is below the optimal gain, by the *planning gap*, its regret grows linearly,
however well it learns. For all gammas close enough to 1 the gap is 0 (Blackwell 1962), but the set
of such gammas need not be an interval: staying for .5 beats a cycle through .45, 1, 0, 0 at
gamma = 0 and at .9, not at .5.
"""

from dataclasses import dataclass, replace

import numpy as np

from cpsrl.documents import by_state
from cpsrl.mdp import TabularMDP
from cpsrl.planning.arguments import checks_arguments
from cpsrl.planning.average import AverageSolution, solve_average
from cpsrl.planning.certificates import differences, measures
from cpsrl.planning.discounted import DiscountedSolution, solve_discounted
from cpsrl.planning.ladder import with_rewards
from cpsrl.support.checks import shown
from cpsrl.support.interruptible import interruptible, stage
from cpsrl.support.types import Floats, Ints, brief

TIE = 1e-11
GAP = 1e-9


@dataclass(frozen=True, repr=False)
class PlanningGap:
    """What planning with `gamma` costs.

    Attributes:
        gamma: the discount factor.
        policy: `(S,)`, of the gamma-discounted optimal policies one with the largest gain.
        gain: `(S,)`, its gain.
        gap: the largest over states of the optimal gain minus this gain; up to 1e-9 of the rewards'
            range it counts as none.
        error: a bound on the error of the gap, as far as it comes from those of the two gains.
    """

    gamma: float
    policy: Ints
    gain: Floats
    gap: float
    error: float

    __repr__ = brief
    _repr_html_ = by_state


@checks_arguments
@interruptible("judging a discount factor")
def planning_gap(
    mdp: TabularMDP, gamma: float, optimal: AverageSolution | None = None
) -> PlanningGap:
    """Return the planning gap of `gamma`; `optimal` is `solve_average(mdp)` if already known.

    All is computed with the optimal gain taken off the rewards: policies stay what they are, and
    values are then about as large as the span of the bias, however large gamma and the rewards.
    """
    given = isinstance(optimal, AverageSolution) and len(optimal.gain) == mdp.n_states
    if optimal is not None and not given:
        raise ValueError(f"optimal must be solve_average(mdp), not {shown(optimal)}")
    if far := measures(mdp).shift:
        found = planning_gap(with_rewards(mdp, mdp.rewards - far), gamma)
        return replace(found, gain=found.gain + far)
    optimal = optimal or solve_average(mdp)
    scale = float(np.ptp(mdp.rewards))
    if scale == 0.0:
        policy = mdp.stand_in[:, 0].copy()
        return PlanningGap(gamma, policy, optimal.gain, 0.0, optimal.error)
    shift = float(optimal.gain.min() / 2 + optimal.gain.max() / 2)
    centred = with_rewards(mdp, mdp.rewards - shift)
    discounted = solve_discounted(centred, gamma, tol=1e-10 * scale)
    action = _optimal_actions(centred, gamma, discounted)
    best = solve_average(_with_actions(centred, action), policy=discounted.policy)
    gap = float(np.max((optimal.gain - shift) - best.gain))
    gap = gap if gap > GAP * scale else 0.0
    policy = action[np.arange(mdp.n_states), best.policy]
    return PlanningGap(gamma, policy, best.gain + shift, gap, optimal.error + best.error)


def _optimal_actions(mdp: TabularMDP, gamma: float, solution: DiscountedSolution) -> Ints:
    """Return `(S, A)` the actions, those that are not gamma-optimal replaced by one that is."""
    n_actions, value = mdp.n_actions, solution.value
    q = mdp.rewards - (1 - gamma) * value[:, None] + gamma * differences(mdp, value)[0]
    slack = TIE * np.abs(value).max() + 2 * solution.error
    allowed = q >= q.max(axis=1, keepdims=True) - slack
    actions = np.where(allowed, np.arange(n_actions), np.argmax(q, axis=1)[:, None])
    return np.take_along_axis(mdp.stand_in, actions, axis=1)


def _with_actions(mdp: TabularMDP, action: Ints) -> TabularMDP:
    """Return the MDP in which action a of state s is what action[s, a] is in `mdp`."""
    n_states, n_actions = action.shape
    rows = (np.arange(n_states)[:, None] * n_actions + action).ravel()
    rewards = np.take_along_axis(mdp.rewards, action, axis=1)
    if mdp.is_sparse:
        return TabularMDP(mdp.csr[rows], rewards)
    return TabularMDP(mdp.dense.reshape(-1, n_states)[rows].reshape(mdp.dense.shape), rewards)


@dataclass(frozen=True, repr=False)
class SufficientGamma:
    """The smallest gamma above which every gamma (of a scan) has a gain-optimal policy.

    Attributes:
        gamma: the threshold; 0 when no gamma of the scan falls short, NaN when the largest does.
        largest: the largest gamma of the scan.
        points: how many gammas were scanned, evenly in log(1 - gamma).
        refined: the width to which the threshold was bisected between two scanned gammas.
    """

    gamma: float
    largest: float
    points: int
    refined: float

    __repr__ = brief


@checks_arguments
@interruptible("scanning discount factors")
def sufficient_gamma(
    mdp: TabularMDP, largest: float = 1 - 1e-6, points: int = 300, refined: float = 1e-10
) -> SufficientGamma:
    """Scan gammas from `largest` down to 0 for the first that falls short, then bisect.

    A gap that opens and closes between two neighbouring gammas of the scan is not seen.
    """
    mdp = with_rewards(mdp, mdp.rewards - measures(mdp).shift)
    optimal = solve_average(mdp)
    grid = 1 - np.geomspace(1 - largest, 1.0, points)
    enough, short = np.nan, np.nan
    for number, gamma in enumerate(grid):
        stage(f"{number} of {points}")
        if planning_gap(mdp, float(gamma), optimal).gap > 0:
            short = float(gamma)
            break
        enough = float(gamma)
    if np.isnan(enough) or np.isnan(short):
        return SufficientGamma(0.0 if np.isnan(short) else np.nan, largest, points, refined)
    while enough - short > refined:
        middle = (enough + short) / 2
        if planning_gap(mdp, middle, optimal).gap > 0:
            short = middle
        else:
            enough = middle
    return SufficientGamma(enough, largest, points, refined)
