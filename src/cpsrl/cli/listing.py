"""`cpsrl list`: what can be named in an experiment, on the command line, or in `cpsrl.register`."""

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from cpsrl.agents import AGENTS
from cpsrl.cli.output import facts, show
from cpsrl.environments import ENVIRONMENTS, WORLDS
from cpsrl.environments.toy_text import PREFIX
from cpsrl.experiments import Experiment, shipped
from cpsrl.experiments.entry import as_call
from cpsrl.experiments.parts import NAMES, PARTS
from cpsrl.plugins import load_plugins
from cpsrl.registry import Registry

KINDS: dict[str, tuple[Registry[Any], ...]] = {
    "agents": (AGENTS,),
    "environments": (ENVIRONMENTS, WORLDS),
    "rules": PARTS["rule"],
    "objectives": PARTS["objective"],
    "beliefs": PARTS["belief"],
    "rewards": PARTS["rewards"],
    "families": (NAMES["family"],),
    "outcomes": (NAMES["outcomes"],),
}
Kind = Literal[
    "agents",
    "environments",
    "rules",
    "objectives",
    "beliefs",
    "rewards",
    "families",
    "outcomes",
    "experiments",
]


def list_(
    kind: Annotated[Positional[Kind | None], arg(metavar=f"{'|'.join(KINDS)}|experiments")] = None,
) -> None:
    """List what can be named in an experiment, with its options and a line about each.

    For example, `cpsrl list agents`; `cpsrl list` alone gives all the names.

    Args:
        kind: what to list.
    """
    from rich.text import Text

    load_plugins()
    if kind == "experiments":
        show(facts({n: Experiment.read(path).description for n, path in shipped().items()}))
    elif kind is None:
        names = {k: [n for registry in KINDS[k] for n in registry.names()] for k in KINDS}
        names["experiments"] = list(shipped())
        show(facts({k: ", ".join(some) for k, some in names.items()}))
    else:
        rows = {}
        for registry in KINDS[kind]:
            for name in registry.names():
                about = Text(registry.summary(name))
                if options := ", ".join(_options(registry[name])):
                    about.append(f"\n{options}", style="dim")
                if (package := registry.package(name)) not in ("", __name__.partition(".")[0]):
                    about.append(f"\nfrom the package {package}", style="dim")
                rows[name] = about
        if kind == "environments":
            rows[f"{PREFIX}NAME"] = Text(
                f"An environment of Gymnasium that is a table, such as {PREFIX}Taxi-v4."
            )
        show(facts(rows))


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
