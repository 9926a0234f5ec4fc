"""Small models planned and certified in one compiled call.

Six states take policy iteration a microsecond, and every further call from Python as long.
"""

import numpy as np

from cpsrl._private.compile import jit, leaf
from cpsrl.mdp import TabularMDP
from cpsrl.planning.certificates import (
    average_bound,
    average_excess,
    dense_differences,
    discounted_bound,
    discounted_excess,
    measures,
)
from cpsrl.planning.kernels import (
    FAR_SIGHTED,
    ROUNDING,
    Workspace,
    dot,
    iterate,
    largest,
    plan_average,
    plan_discounted,
    workspace,
)
from cpsrl.support.types import Floats, Ints


def small_discounted(mdp: TabularMDP, gamma: float, policy: Ints) -> tuple[Floats, float, int]:
    """Make `policy` `(S,)` gamma-discounted optimal; return its value, the error, the iterations.

    The error is `certificates.discounted_error` of it.
    """
    facts = measures(mdp)
    value, excess, number = _discounted(
        mdp.dense, mdp.rewards, gamma, policy, facts.share, facts.defect
    )
    return value, discounted_bound(mdp, gamma, excess), number


def small_average(mdp: TabularMDP, policy: Ints) -> tuple[Floats, Floats, float, int]:
    """Make `policy` `(S,)` gain-optimal; return its gain, its bias, the error, the iterations.

    The error is `certificates.average_error` of it.
    """
    gain, bias, excess, number = _average(mdp.dense, mdp.rewards, policy, measures(mdp).share)
    return gain, bias, average_bound(excess), number


@jit
def _discounted(
    P: Floats, r: Floats, gamma: float, policy: Ints, share: float, defect: float
) -> tuple[Floats, float, int]:
    work, model = workspace(len(r)), (P.copy(), r.copy())
    number = plan_in_place(*model, gamma, policy, work)
    number += plan_discounted(*model, gamma, policy, work)
    change, slack = np.empty(r.shape), np.empty(r.shape)
    dense_differences(P, work.value, share, change, slack)
    excess = discounted_excess(change, slack, r, gamma, work.value, policy, defect)
    return work.value, excess, number


@jit
def _average(P: Floats, r: Floats, policy: Ints, share: float) -> tuple[Floats, Floats, float, int]:
    work, model = workspace(len(r)), (P.copy(), r.copy())
    number = plan_in_place(*model, FAR_SIGHTED, policy, work)
    number += plan_average(*model, 1.0, policy, work)
    change, slack = np.empty(r.shape), np.empty(r.shape)
    dense_differences(P, work.value, share, change, slack)
    excess = average_excess(change, slack, r, work.gain, policy)
    return work.gain, work.value, excess, number


@leaf
def plan_in_place(P: Floats, r: Floats, gamma: float, policy: Ints, work: Workspace) -> int:
    """Make `policy` gamma-discounted optimal if just one is, else leave it; return the iterations.

    Which of several optimal policies is found in place may differ from that of `plan_discounted`.
    """
    value, first, n_states = work.value, work.order, len(r)
    for s in range(n_states):
        first[s] = policy[s]
    iterations = iterate(P, r, gamma, policy, work, True)
    slack = ROUNDING * largest(value)
    if not is_alone(P, r, gamma, policy, value, 2 * slack / (1 - gamma)):
        for s in range(n_states):
            policy[s] = first[s]
    return iterations


@leaf
def is_alone(
    P: Floats, r: Floats, gamma: float, policy: Ints, value: Floats, margin: float
) -> bool:
    """Return whether every other action is worse than the policy's by more than `margin`.

    V* - V_pi is at most 1 / (1 - gamma) of what a Bellman step adds to V_pi: where other actions
    are worse by so many roundings, policy iteration can't end with one of them.
    """
    for s in range(len(r)):
        for a in range(r.shape[1]):
            if a != policy[s]:
                worth = r[s, a] + gamma * dot(P[s, a], value)
                if not worth + margin < value[s]:
                    return False
    return True
