"""Running agents in environments."""

from cpsrl.simulation.group import Group
from cpsrl.simulation.runs import Runs, record_steps
from cpsrl.simulation.simulate import simulate

__all__ = ["Group", "Runs", "record_steps", "simulate"]
