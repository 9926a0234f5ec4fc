"""`cpsrl list`: what can be named in an experiment, on the command line, or in `cpsrl.register`."""

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any

from tyro.conf import Positional, arg

from cpsrl.agents.codec import NAMES, PARTS, as_call, registries
from cpsrl.cli.output import facts, show
from cpsrl.environments.gymnax import SOURCES
from cpsrl.environments.toy_text import PREFIX
from cpsrl.experiments import Experiment, shipped
from cpsrl.support.checks import checked_word
from cpsrl.support.plugins import load_plugins
from cpsrl.support.registry import Registry

KINDS: dict[str, tuple[str, ...]] = {
    "agents": ("agent",),
    "environments": ("environment",),
    "rules": PARTS["rule"],
    "objectives": PARTS["objective"],
    "beliefs": PARTS["belief"],
    "rewards": PARTS["rewards"],
    "torsos": PARTS["torso"],
    "families": (NAMES["family"],),
    "outcomes": (NAMES["outcomes"],),
}
"""The registries of every kind of name."""
ALL = (*KINDS, "experiments")
Kind = Annotated[Positional[str | None], arg(metavar="|".join(ALL), help_behavior_hint="")]


def list_(kind: Kind = None) -> None:
    """List the names that experiments can use, with their options and a line about each.

    For example, `cpsrl list agents`; `cpsrl list` alone gives all the names. Families are models
    for parametric beliefs, outcomes those for tied ones; torsos are for networks.

    Args:
        kind: what to list; by default all names, without a line about each.
    """
    load_plugins()
    rows: dict[str, Any]
    if kind is None:
        rows = {one: ", ".join(name for _, name in _named(one)) for one in KINDS}
        rows["experiments"] = ", ".join(shipped())
    elif checked_word("kind", kind, ALL) == "experiments":
        rows = {name: Experiment.read(path).description for name, path in shipped().items()}
    else:
        rows = {name: _about(registry, name) for registry, name in _named(kind)}
    if kind == "environments":
        rows[f"{PREFIX}NAME"] = (
            f"An environment of Gymnasium that is a table, such as {PREFIX}Taxi-v4."
        )
        for source in SOURCES:
            rows[f"{source}NAME"] = (
                f"An environment of the package {source[:-1]}, for agents with networks."
            )
    show(facts(rows))


def _named(kind: str) -> list[tuple[Registry[Any], str]]:
    """Return the names of a kind, each with its registry."""
    return [(one, name) for one in registries(*KINDS[kind]) for name in one.names()]


def _about(registry: Registry[Any], name: str) -> Any:
    """Return what there is to say about a name: a sentence, its options, its package."""
    from rich.text import Text

    about = Text(registry.summary(name))
    if options := ", ".join(_options(registry[name])):
        about.append(f"\n{options}", style="dim")
    if (package := registry.package(name)) not in ("", __name__.partition(".")[0]):
        about.append(f"\nfrom the package {package}", style="dim")
    return about


def _options(factory: Any) -> Iterator[str]:
    """Give the options of a factory, with their defaults."""
    made = {
        item.name: item.default_factory
        for item in (fields(factory) if is_dataclass(factory) else ())
        if item.default_factory is not MISSING
    }
    for name, parameter in inspect.signature(factory).parameters.items():
        default = made[name]() if name in made else parameter.default
        if default is parameter.empty:
            yield name
        else:
            yield f"{name}={as_call(default) if is_dataclass(default) else repr(default)}"
