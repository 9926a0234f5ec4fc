"""Tabular MDPs: the model, the environment that it describes, and its files."""

from cpsrl.mdp.model import DENSE_PLANNING, TabularMDP
from cpsrl.mdp.simulator import Simulator

__all__ = ["DENSE_PLANNING", "Simulator", "TabularMDP"]
