"""Things made by their registered names: agents with their parts, and environments.

Names are only ever looked up in registries, so reading a specification runs no code but the
package's own and what its user has registered.
"""

from collections.abc import Mapping
from typing import Any

from cpsrl.agents import AGENTS
from cpsrl.agents.agent import Agent
from cpsrl.beliefs import BELIEFS, REWARDS
from cpsrl.environments import environment
from cpsrl.experiments.entry import Entry
from cpsrl.mdp import TabularMDP
from cpsrl.networks import NETWORK_BELIEFS
from cpsrl.objectives import OBJECTIVES
from cpsrl.registry import Registry, unknown
from cpsrl.resampling import RULES

PARTS: dict[str, tuple[Registry[Any], ...]] = {
    "rule": (RULES,),
    "objective": (OBJECTIVES,),
    "belief": (BELIEFS, NETWORK_BELIEFS),
    "rewards": (REWARDS,),
}
"""Options that are themselves made by name, from a table or from the name alone."""
USUAL = {"belief": "dirichlet"}
"""What is made where a table gives no name."""


def make_agent(entry: Entry) -> Agent:
    """Return the agent that an entry without a grid describes, its parts made by their names."""
    agent = AGENTS.make(entry.name, **_made(entry.options))
    if not isinstance(agent, Agent):
        raise ValueError(f"an agent must be of a subclass of Agent, not {agent!r}")
    return agent


def make_environment(entry: Entry, run: int = 0, seed: int = 0) -> TabularMDP:
    """Return the environment of run `run` under root `seed`.

    With `per_run`, the option of that name is `seed` * 2^32 + `run`: another root draws other
    models, and root 0 gives run k the model number k.
    """
    options = dict(entry.options)
    if entry.per_run is not None:
        if entry.per_run in options:
            raise ValueError(f"option {entry.per_run!r} is set per run: it takes no other value")
        options[entry.per_run] = (seed << 32) + run
    return environment(entry.name, **options)


def _made(options: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return `options` with every part made; `place` is what errors write before its key."""
    made = dict(options)
    for part, registries in PARTS.items():
        if part not in made:
            continue
        value, where = made[part], f"{place}{part}"
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} must be a name or a table, not {value!r}")
        name = value.get("name", USUAL.get(part))
        known = [known for registry in registries for known in registry.names()]
        if name not in known:
            raise (
                unknown(where, name, known)
                if isinstance(name, str)
                else ValueError(f"{where} needs a name, one of {', '.join(known)}")
            )
        registry = next(registry for registry in registries if name in registry)
        inner = {key: inner for key, inner in value.items() if key != "name"}
        made[part] = registry.make(name, **_made(inner, f"{where}."))
    return made
