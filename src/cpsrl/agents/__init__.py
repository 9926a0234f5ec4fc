"""Agents: frozen dataclasses that start live agents with `act` and `observe`."""

from cpsrl.agents.agent import AGENTS, Agent, LiveAgent, start
from cpsrl.agents.baselines import OptimalAgent, RandomAgent
from cpsrl.agents.checkpoint import resume
from cpsrl.agents.differential_q import DifferentialQLearning
from cpsrl.agents.fleet import Fleet
from cpsrl.agents.imed import IMEDRL
from cpsrl.agents.presets import (
    DSPSRL,
    TSDE,
    AdaptivePSRL,
    ContinuingPSRL,
    CountDoublingPSRL,
    EveryStepPSRL,
    FixedLengthPSRL,
)
from cpsrl.agents.psrl import PSRL
from cpsrl.agents.ucrl2 import UCRL2
from cpsrl.agents.ucrl2b import UCRL2B

__all__ = [
    "AGENTS", "DSPSRL", "IMEDRL", "PSRL", "TSDE", "UCRL2", "UCRL2B", "AdaptivePSRL", "Agent",
    "ContinuingPSRL", "CountDoublingPSRL", "DifferentialQLearning", "EveryStepPSRL",
    "FixedLengthPSRL", "Fleet", "LiveAgent", "OptimalAgent", "RandomAgent", "resume", "start",
]  # fmt: skip
