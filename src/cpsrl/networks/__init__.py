"""Agents whose belief is networks: the belief, the agent over it, and its compiled loop.

JAX is imported by the modules that compute with it, when they are first used.
"""

from cpsrl.environments.pure import Environment, EnvironmentSimulator
from cpsrl.networks import run as _run  # noqa: F401 (it enters the loop)
from cpsrl.networks.agent import ValueSampling
from cpsrl.networks.belief import NETWORK_BELIEFS, NetworkBelief
from cpsrl.networks.heads import Heads
from cpsrl.networks.hypermodel import Hypermodel
from cpsrl.networks.members import Members
from cpsrl.networks.presets import DQN, BootstrappedDQN
from cpsrl.networks.torso import TORSOS, Convolution, Torso

__all__ = [
    "DQN",
    "NETWORK_BELIEFS",
    "TORSOS",
    "BootstrappedDQN",
    "Convolution",
    "Environment",
    "EnvironmentSimulator",
    "Heads",
    "Hypermodel",
    "Members",
    "NetworkBelief",
    "Torso",
    "ValueSampling",
]
