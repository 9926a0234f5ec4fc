"""Agents: frozen dataclasses that start live agents with `act` and `observe`."""

from cpsrl.agents.baselines import OptimalAgent, RandomAgent
from cpsrl.agents.differential_q import DifferentialQLearning
from cpsrl.agents.ensemble import DQN, BootstrappedDQN
from cpsrl.agents.psrl import (
    DSPSRL,
    PSRL,
    TSDE,
    ContinuingPSRL,
    CountDoublingPSRL,
    EveryStepPSRL,
    FixedLengthPSRL,
)
from cpsrl.agents.registry import AGENTS, start
from cpsrl.agents.ucrl2 import UCRL2

__all__ = [
    "AGENTS",
    "DQN",
    "DSPSRL",
    "PSRL",
    "TSDE",
    "UCRL2",
    "BootstrappedDQN",
    "ContinuingPSRL",
    "CountDoublingPSRL",
    "DifferentialQLearning",
    "EveryStepPSRL",
    "FixedLengthPSRL",
    "OptimalAgent",
    "RandomAgent",
    "start",
]
