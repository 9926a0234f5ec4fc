"""Tabular MDPs: the model, the environment that it describes, its files, a problem's sizes."""

from cpsrl.mdp.changes import ChangingWorld
from cpsrl.mdp.model import DENSE_STATES, TabularMDP
from cpsrl.mdp.problem import FeatureSizes, Sizes, models_of
from cpsrl.mdp.simulator import Simulator

__all__ = ["DENSE_STATES", "ChangingWorld", "FeatureSizes", "Problem", "Simulator", "Sizes"]
__all__ += ["Tabular", "TabularMDP", "models_of"]

Tabular = TabularMDP | ChangingWorld
"""A problem of which the models are known."""
Problem = Tabular | Sizes
"""What agents with tables are started for."""
