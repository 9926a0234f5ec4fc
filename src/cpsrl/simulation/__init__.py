"""Running agents in environments."""

from cpsrl.simulation.runs import Runs, record_steps
from cpsrl.simulation.simulate import simulate

__all__ = ["Runs", "record_steps", "simulate"]
