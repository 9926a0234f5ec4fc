"""Posterior sampling for environments that never reset."""

from cpsrl.agents import (
    DSPSRL,
    PSRL,
    TSDE,
    UCRL2,
    ContinuingPSRL,
    CountDoublingPSRL,
    DifferentialQLearning,
    EveryStepPSRL,
    FixedLengthPSRL,
    OptimalAgent,
    RandomAgent,
    start,
)
from cpsrl.beliefs import Belief, Dirichlet, KnownRewards, NormalGamma, Truncated
from cpsrl.environments import environment, environments
from cpsrl.experiments import Experiment, load
from cpsrl.mdp import TabularMDP
from cpsrl.networks import DQN, BootstrappedDQN
from cpsrl.objectives import Average, Discounted
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
from cpsrl.resampling import (
    Bernoulli,
    CountDoubling,
    DoublingTimes,
    EveryStep,
    FixedLength,
    Never,
    Rule,
    TSDEStops,
)
from cpsrl.simulation import Runs, simulate
from cpsrl.sizes import FeatureSizes, Sizes

__all__ = [
    "DQN",
    "DSPSRL",
    "PSRL",
    "TSDE",
    "UCRL2",
    "Average",
    "Belief",
    "Bernoulli",
    "BootstrappedDQN",
    "ContinuingPSRL",
    "CountDoubling",
    "CountDoublingPSRL",
    "DifferentialQLearning",
    "Dirichlet",
    "Discounted",
    "DoublingTimes",
    "EveryStep",
    "EveryStepPSRL",
    "Experiment",
    "FeatureSizes",
    "FixedLength",
    "FixedLengthPSRL",
    "KnownRewards",
    "Never",
    "NormalGamma",
    "OptimalAgent",
    "RandomAgent",
    "Rule",
    "Runs",
    "Sizes",
    "TSDEStops",
    "TabularMDP",
    "Truncated",
    "classify",
    "diameter",
    "discounted_value",
    "environment",
    "environments",
    "gain_and_bias",
    "load",
    "planning_gap",
    "reward_averaging_time",
    "simulate",
    "solve_average",
    "solve_discounted",
    "span",
    "start",
    "stationary_distribution",
    "sufficient_gamma",
]
