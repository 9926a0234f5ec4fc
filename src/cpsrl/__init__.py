"""Posterior sampling for environments that never reset."""

from cpsrl.environments import environment, environments
from cpsrl.mdp import Sizes, TabularMDP
from cpsrl.planning import (
    classify,
    diameter,
    discounted_value,
    gain_and_bias,
    planning_gap,
    reward_averaging_time,
    solve_average,
    solve_discounted,
    span,
    stationary_distribution,
    sufficient_gamma,
)

__all__ = [
    "Sizes",
    "TabularMDP",
    "classify",
    "diameter",
    "discounted_value",
    "environment",
    "environments",
    "gain_and_bias",
    "planning_gap",
    "reward_averaging_time",
    "solve_average",
    "solve_discounted",
    "span",
    "stationary_distribution",
    "sufficient_gamma",
]
