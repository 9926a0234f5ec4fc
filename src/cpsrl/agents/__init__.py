"""Agents: frozen dataclasses that start live agents with `act` and `observe`."""

from cpsrl.agents.agent import AGENTS, Agent, LiveAgent, start
from cpsrl.agents.baselines import OptimalAgent, RandomAgent
from cpsrl.agents.differential_q import DifferentialQLearning
from cpsrl.agents.known import (
    DSPSRL,
    TSDE,
    ContinuingPSRL,
    CountDoublingPSRL,
    EveryStepPSRL,
    FixedLengthPSRL,
)
from cpsrl.agents.psrl import PSRL
from cpsrl.agents.ucrl2 import UCRL2

__all__ = [
    "AGENTS",
    "DSPSRL",
    "PSRL",
    "TSDE",
    "UCRL2",
    "Agent",
    "ContinuingPSRL",
    "CountDoublingPSRL",
    "DifferentialQLearning",
    "EveryStepPSRL",
    "FixedLengthPSRL",
    "LiveAgent",
    "OptimalAgent",
    "RandomAgent",
    "start",
]
