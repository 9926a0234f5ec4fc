"""Agents whose belief is networks: the belief, the agent over it, and its compiled loop.

JAX is imported by the modules that compute with it, when they are first used.
"""

from cpsrl.environments.pure import Environment, EnvironmentSimulator
from cpsrl.networks import run as _run  # noqa: F401 (it enters the loop)
from cpsrl.networks.agent import DQN, BootstrappedDQN, ValueSampling
from cpsrl.networks.belief import NETWORK_BELIEFS, NetworkBelief
from cpsrl.networks.heads import Heads
from cpsrl.networks.hypermodel import Hypermodel
from cpsrl.networks.members import Members

__all__ = [
    "DQN",
    "NETWORK_BELIEFS",
    "BootstrappedDQN",
    "Environment",
    "EnvironmentSimulator",
    "Heads",
    "Hypermodel",
    "Members",
    "NetworkBelief",
    "ValueSampling",
]
