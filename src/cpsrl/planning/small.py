"""Small models planned and certified in one compiled call.

Six states take policy iteration a microsecond, and every further call from Python as long.
"""

import numpy as np

from cpsrl._compile import jit
from cpsrl.mdp import TabularMDP
from cpsrl.planning.certificates import (
    average_bound,
    average_error,
    average_excess,
    dense_differences,
    dense_share,
    discounted_bound,
    discounted_excess,
    measures,
)
from cpsrl.planning.kernels import plan_average, plan_discounted, workspace
from cpsrl.types import Floats, Ints


def small_discounted(mdp: TabularMDP, gamma: float, policy: Ints) -> tuple[Floats, float, int]:
    """Make `policy` `(S,)` gamma-discounted optimal; return its value, the error, the iterations.

    The error is `certificates.discounted_error` of it.
    """
    share, defect = dense_share(mdp), measures(mdp).defect
    value, excess, number = _discounted(mdp.dense, mdp.rewards, gamma, policy, share, defect)
    return value, discounted_bound(mdp, gamma, excess), number


def small_average(mdp: TabularMDP, policy: Ints) -> tuple[Floats, Floats, float, int]:
    """Make `policy` `(S,)` gain-optimal; return its gain, its bias, the error, the iterations.

    The error is `certificates.average_error` of it.
    """
    found = _average(mdp.dense, mdp.rewards, policy, dense_share(mdp))
    gain, bias, constant, excess, number = found
    error = average_bound(excess) if constant else average_error(mdp, policy, gain, bias)
    return gain, bias, error, number


@jit
def _discounted(
    P: Floats, r: Floats, gamma: float, policy: Ints, share: float, defect: float
) -> tuple[Floats, float, int]:
    work = workspace(len(r))
    number = plan_discounted(P.copy(), r.copy(), gamma, policy, work)
    change, slack = np.empty(r.shape), np.empty(r.shape)
    dense_differences(P, work.value, share, change, slack)
    excess = discounted_excess(change, slack, r, gamma, work.value, policy, defect)
    return work.value, excess, number


@jit
def _average(
    P: Floats, r: Floats, policy: Ints, share: float
) -> tuple[Floats, Floats, bool, float, int]:
    work = workspace(len(r))
    number = plan_average(P.copy(), r.copy(), 1.0, policy, work)
    change, slack = np.empty(r.shape), np.empty(r.shape)
    dense_differences(P, work.value, share, change, slack)
    below = np.empty((len(r), 1))
    constant, excess = average_excess(change, slack, r, work.gain, policy, change, below)
    return work.gain, work.value, constant, excess, number
