"""Things made by their registered names: agents with their parts, and environments; and back.

Names are only ever looked up in registries, so reading a specification runs no code but the
package's own and what its user or an installed package has registered.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from cpsrl.agents import AGENTS
from cpsrl.agents.agent import Agent, settings_of
from cpsrl.beliefs import BELIEFS, FAMILIES, OUTCOMES, REWARDS
from cpsrl.environments import ENVIRONMENTS, WORLDS, environment, with_features
from cpsrl.environments.pure import Environment
from cpsrl.experiments.entry import Entry
from cpsrl.experiments.models import ModelFile
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
NAMES: dict[str, Registry[Any]] = {"family": FAMILIES, "outcomes": OUTCOMES}
"""Options that may be a name, which the belief that takes them looks up."""
USUAL = {"belief": "dirichlet"}
"""What is made where a table gives no name."""


def make_agent(entry: Entry) -> Agent:
    """Return the agent that an entry without a grid describes, its parts made by their names."""
    return AGENTS.make(entry.name, **_made(entry.options))


def make_environment(entry: Entry, run: int = 0, seed: int = 0) -> TabularMDP | Environment:
    """Return the environment of run `run` under root `seed`.

    With `per_run`, the option of that name is `seed` * 2^32 + `run`: another root draws other
    models, and root 0 gives run k the model number k.
    """
    options = dict(entry.options)
    if entry.per_run is not None:
        if entry.per_run in options:
            raise ValueError(f"option {entry.per_run!r} is set per run: it takes no other value")
        options[entry.per_run] = (seed << 32) + run
    if not isinstance(entry.name, ModelFile):
        return environment(entry.name, **options)
    reading = list(inspect.signature(TabularMDP.load).parameters)[1:]
    features = list(inspect.signature(with_features).parameters)[1:]
    for option in options:
        if option not in (*reading, *features):
            raise unknown("option", option, (*reading, *features), f"the model {entry.name}")
    mdp = entry.name.load(**{key: options.pop(key) for key in reading if key in options})
    return with_features(mdp, **options)


def written(entry: Entry, kind: str) -> Entry:
    """Return an entry whose environment or agent is given as itself as a file can hold it."""
    thing = entry.name
    if isinstance(thing, str):
        return entry
    if kind == "environment":
        if isinstance(thing, ModelFile):
            return entry
        if isinstance(thing, TabularMDP):
            return replace(entry, name=ModelFile.of(thing))
        raise ValueError(f"an environment is a name or a TabularMDP, not {thing!r}")
    if not isinstance(thing, Agent):
        raise ValueError(
            f"an agent is a name or an object of a registered class, which a file can name; not "
            f"{thing!r}: derive its class from cpsrl.agents.Agent and enter it with "
            '@cpsrl.register("agent", NAME)'
        )
    if entry.options or entry.grid:
        raise ValueError(f"{thing.label} is given as itself, so it takes no options and no grid")
    table = _table("agent", thing, (AGENTS,))
    bare = Entry(table.pop("name"), table).as_plain("agent")
    again = make_agent(bare)
    if settings_of(again) != settings_of(thing):
        raise ValueError(f"{thing.label} cannot be written as settings that make it again")
    label = entry.label or (None if again.label == thing.label else thing.label)
    return replace(bare, label=label, per_run=entry.per_run)


def packages(entry: Entry, kind: str) -> set[str]:
    """Return the installed packages that the names in an entry without a grid come from."""
    registries = (AGENTS,) if kind == "agent" else (ENVIRONMENTS, WORLDS)
    named = isinstance(entry.name, str)
    found = {r.package(entry.name) for r in registries if named and entry.name in r}
    return (found | set(_packages(entry.options))) - {""}


def _packages(options: Mapping[str, Any]) -> Iterator[str]:
    for option, names in NAMES.items():
        if isinstance(options.get(option), str):
            yield names.package(options[option])
    for part, registries in PARTS.items():
        if part in options:
            value = options[part]
            table = {"name": value} if isinstance(value, str) else value
            name = str(table.get("name", USUAL.get(part)))
            yield from (registry.package(name) for registry in registries if name in registry)
            yield from _packages(table)


def _table(place: str, thing: Any, registries: tuple[Registry[Any], ...]) -> dict[str, Any]:
    """Return the table that makes an object of a registered class again."""
    kind = type(thing)
    names = (name for r in registries for name in r.names() if r[name] is kind)
    name = next(names, None)
    if name is None or not is_dataclass(thing):
        raise ValueError(
            f"{place}: a file can name {kind.__name__} once it is registered, with "
            f'@cpsrl.register("{place.rpartition(".")[2]}", NAME) above the class'
        )
    table: dict[str, Any] = {"name": name}
    for item in fields(thing):
        value, usual = getattr(thing, item.name), item.default
        if item.default_factory is not MISSING:
            usual = item.default_factory()
        if item.name == "label" or not item.init or value is usual:
            continue
        if settings_of(value) == settings_of(usual) and not callable(value):
            continue
        where = f"{place}.{item.name}"
        if value is None:
            raise ValueError(f"{where} is None, which a file cannot hold")
        part = item.name in PARTS and not isinstance(value, str)
        table[item.name] = _table(where, value, PARTS[item.name]) if part else value
    return table


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
        registry = next((registry for registry in registries if name in registry), None)
        if registry is None:
            known = [known for registry in registries for known in registry.names()]
            raise (
                unknown(where, name, known)
                if isinstance(name, str)
                else ValueError(f"{where} needs a name, one of {', '.join(known)}")
            )
        inner = {key: inner for key, inner in value.items() if key != "name"}
        made[part] = registry.make(name, **_made(inner, f"{where}."))
    return made
