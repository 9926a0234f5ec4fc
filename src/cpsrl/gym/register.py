"""The ids under which Gymnasium knows the package's environments."""

import gymnasium

from cpsrl.environments import ENVIRONMENTS
from cpsrl.support.plugins import load_plugins

SPELLED = {"riverswim": "RiverSwim", "gridworld": "GridWorld"}
"""Names whose id is not their words with capitals put together."""


def gymnasium_id(name: str) -> str:
    """Return the id of the environment called `name`: "cpsrl/AccessControl-v0"."""
    words = name.replace("_", "-").split("-")
    return f"cpsrl/{SPELLED.get(name) or ''.join(word.capitalize() for word in words)}-v0"


def register_environments() -> None:
    """Register with Gymnasium every environment that is not registered yet.

    Those of installed packages are loaded (see `cpsrl.support.plugins`). To be called again for
    environments that were added with `cpsrl.register`. Any other MDP is
    `gymnasium.make("cpsrl/Tabular-v0", mdp=...)`.
    """
    load_plugins()
    known: dict[str, dict[str, str]] = {"cpsrl/Tabular-v0": {}}
    known |= {gymnasium_id(name): {"mdp": name} for name in ENVIRONMENTS.names()}
    for environment_id, given in known.items():
        if environment_id not in gymnasium.registry:
            gymnasium.register(
                environment_id,
                entry_point="cpsrl.gym.env:TabularEnv",
                vector_entry_point="cpsrl.gym.vector:TabularVectorEnv",
                max_episode_steps=None,
                kwargs=given,
            )
