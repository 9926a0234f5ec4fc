"""Exact planning: discounted and average reward, chains, structure, and whether gamma suffices."""

from cpsrl.planning.average import AverageSolution, solve_average
from cpsrl.planning.bellman import bellman_operator, greedy_policy
from cpsrl.planning.discounted import DiscountedSolution, solve_discounted
from cpsrl.planning.evaluation import (
    discounted_value,
    gain_and_bias,
    policy_chain,
    span,
    stationary_distribution,
)
from cpsrl.planning.structure import (
    AveragingTime,
    Classification,
    classify,
    diameter,
    is_unichain,
    reward_averaging_time,
)
from cpsrl.planning.sufficiency import (
    PlanningGap,
    SufficientGamma,
    planning_gap,
    sufficient_gamma,
)

__all__ = [
    "AverageSolution",
    "AveragingTime",
    "Classification",
    "DiscountedSolution",
    "PlanningGap",
    "SufficientGamma",
    "bellman_operator",
    "classify",
    "diameter",
    "discounted_value",
    "gain_and_bias",
    "greedy_policy",
    "is_unichain",
    "planning_gap",
    "policy_chain",
    "reward_averaging_time",
    "solve_average",
    "solve_discounted",
    "span",
    "stationary_distribution",
    "sufficient_gamma",
]
