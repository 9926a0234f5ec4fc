r"""The regret of real runs: eq. 2, eq. 6, and the decomposition of appendix C between them.

With lambda the optimal gain, V* the optimal and V_k the pseudo-episode's gamma-discounted value in
the true MDP, s_k its first state and E_k its steps, the regret of a run is, exactly,

    sum over t of lambda - R_t                        regret, eq. 2
      = sum over k of |E_k| lambda - V*(s_k)          (a), averaging
      + sum over k of V*(s_k) - V_k(s_k)              (b), discounted regret, eq. 6
      + sum over k of V_k(s_k) - sum of R_t in E_k    chance,

where chance has mean 0 but for the last pseudo-episode, which the end of the run cuts short: it
adds what that one would still have earned, at most gamma / (1 - gamma) in the mean.

The expected regret replaces realised rewards by their expectation through the optimal bias h,

    sum over t of lambda + h(S_t) - r(S_t, A_t) - (P h)(S_t, A_t),  plus  h(S_{T+1}) - h(S_1):

what the actions chosen give away, never negative, and two ends. It has the same mean as the regret
(the difference is a martingale) and, once the agent acts well, hardly any variance.
"""

from dataclasses import dataclass

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.planning import solve_average, solve_discounted
from cpsrl.planning.average import AverageSolution
from cpsrl.planning.certificates import differences
from cpsrl.simulation import Runs
from cpsrl.support.checks import checked_gamma
from cpsrl.support.types import Floats


@dataclass(frozen=True)
class Decomposition:
    """The regret of runs and its parts, each `(runs,)`; regret = averaging + discounted + chance.

    Attributes:
        regret: eq. 2.
        averaging: (a).
        discounted: (b), eq. 6.
        chance: the rest.
        expected: the low-variance estimate, with the mean of `regret`.
    """

    regret: Floats
    averaging: Floats
    discounted: Floats
    chance: Floats
    expected: Floats


def decompose(runs: Runs, mdp: TabularMDP, gamma: float) -> Decomposition:
    """Take the regret of runs apart, at their last step.

    Args:
        runs: of `simulate(agent, mdp, ..., trajectory=True, resample_times=True,
            discounted_regret=True)`, from step 1 on, the agent planning with `gamma` throughout.
        mdp: the environment, weakly communicating.
        gamma: the discount factor.
    """
    gamma = checked_gamma(gamma)
    if runs.trajectory is None or runs.resample_times is None or runs.discounted_regret is None:
        raise ValueError(
            "decompose needs runs of simulate(..., trajectory=True, resample_times=True, "
            "discounted_regret=True)"
        )
    steps = int(runs.times[-1])
    if any(len(path["actions"]) != steps for path in runs.trajectory):
        raise ValueError("decompose needs runs from step 1 on, not those of a continuation")
    value = solve_discounted(mdp, gamma).value
    pairs = zip(runs.trajectory, runs.resample_times, strict=True)
    optimal = np.array([value[path["states"][times - 1]].sum() for path, times in pairs])
    regret, discounted = runs.regret[:, -1], runs.discounted_regret[:, -1]
    averaging = steps * runs.gain - optimal
    chance = regret - averaging - discounted
    return Decomposition(regret, averaging, discounted, chance, expected_regret(runs, mdp))


def expected_regret(runs: Runs, mdp: TabularMDP) -> Floats:
    """Return the low-variance estimate of the regret of runs with a trajectory, `(runs,)`."""
    if runs.trajectory is None:
        raise ValueError("the expected regret needs runs of simulate(..., trajectory=True)")
    best = solve_average(mdp)
    loss, regret = given_away(mdp, best), []
    for path in runs.trajectory:
        states = path["states"]
        lost = loss[states[:-1], path["actions"]].sum()
        regret.append(lost + best.bias[states[-1]] - best.bias[states[0]])
    return np.array(regret)


def given_away(mdp: TabularMDP, best: AverageSolution) -> Floats:
    """Return what an action gives away in a state, lambda + h - r - P h, `(S, A)`."""
    return best.gain[:, None] - mdp.rewards - differences(mdp, best.bias)[0]
