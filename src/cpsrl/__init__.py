"""Posterior sampling for environments that never reset.

The names that most programs need. The rest is in the folders: `cpsrl.planning`, `cpsrl.beliefs`,
`cpsrl.agents`, `cpsrl.networks`, `cpsrl.simulation`, `cpsrl.experiments`, `cpsrl.theory`,
`cpsrl.reports`.
"""

from cpsrl.agents import DSPSRL, PSRL, TSDE, UCRL2, ContinuingPSRL, RandomAgent, start
from cpsrl.beliefs import Belief, Dirichlet, KnownRewards, NormalGamma
from cpsrl.environments import environment
from cpsrl.experiments import Entry, Experiment, load, run_experiment
from cpsrl.mdp import TabularMDP
from cpsrl.networks import DQN, BootstrappedDQN
from cpsrl.objectives import Average, Discounted
from cpsrl.planning import planning_gap, solve_average, solve_discounted, span
from cpsrl.registration import register
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
from cpsrl.simulation import simulate
from cpsrl.sizes import Sizes

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
    "Dirichlet",
    "Discounted",
    "DoublingTimes",
    "Entry",
    "EveryStep",
    "Experiment",
    "FixedLength",
    "KnownRewards",
    "Never",
    "NormalGamma",
    "RandomAgent",
    "Rule",
    "Sizes",
    "TSDEStops",
    "TabularMDP",
    "environment",
    "load",
    "planning_gap",
    "register",
    "run_experiment",
    "simulate",
    "solve_average",
    "solve_discounted",
    "span",
    "start",
]
