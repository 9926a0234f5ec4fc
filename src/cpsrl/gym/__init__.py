"""Gymnasium, both ways: our problems as its environments, and its environments as ours.

    import gymnasium
    import cpsrl.gym

    env = gymnasium.make("cpsrl/RiverSwim-v0", n_states=20)
    envs = gymnasium.make_vec("cpsrl/RiverSwim-v0", num_envs=1000)
    endless = cpsrl.gym.Continuing(gymnasium.make("CartPole-v1"), terminal_reward=-1)
    taxi = cpsrl.gym.tabular("Taxi-v4")

Importing this module registers every environment of `cpsrl` (see `register_environments`).
"""

try:
    import gymnasium  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "cpsrl.gym needs Gymnasium, which is not installed: pip install 'cpsrl[gym]'",
        name=error.name,
    ) from error

from cpsrl.environments.toy_text import tabular
from cpsrl.gym.continuing import Continuing
from cpsrl.gym.env import TabularEnv
from cpsrl.gym.register import gymnasium_id, register_environments
from cpsrl.gym.vector import TabularVectorEnv

__all__ = [
    "Continuing", "TabularEnv", "TabularVectorEnv", "gymnasium_id", "register_environments",
    "tabular",
]  # fmt: skip

register_environments()
