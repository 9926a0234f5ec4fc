"""The registries of environments: those that are tables, and those of pure functions."""

from cpsrl.environments.gymnax import SOURCES, gymnax_factory
from cpsrl.environments.pure import Environment
from cpsrl.environments.toy_text import PREFIX, gymnasium_factory
from cpsrl.mdp import ChangingWorld, TabularMDP
from cpsrl.support.registry import Registry

ENVIRONMENTS = Registry[TabularMDP](
    "environment", (TabularMDP, ChangingWorld), prefixes={PREFIX: gymnasium_factory}
)
"""The registered environments, and those of Gymnasium that are tables, as "gym:Taxi-v4"."""
WORLDS = Registry[Environment](
    "environment", Environment, prefixes=dict.fromkeys(SOURCES, gymnax_factory)
)
"""Those that are not tables, for agents with networks, as "gymnax:Breakout-MinAtar", too."""
