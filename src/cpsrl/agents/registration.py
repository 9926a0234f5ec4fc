"""Entering things of one's own under a name, as the package enters its own.

    @cpsrl.register("rule", "on-the-hour")
    @dataclass(frozen=True)
    class OnTheHour(cpsrl.Rule):
        ...

From then on specifications know the name, in the process that has registered it. A package that is
installed registers for every process, the command and the workers of a cluster included, by an
entry point (see `cpsrl.support.plugins`).
"""

import re
from collections.abc import Callable
from typing import Any

import cpsrl.agents  # noqa: F401 (its registries are in the table)
from cpsrl.environments import ENVIRONMENTS, WORLDS
from cpsrl.environments.pure import Environment
from cpsrl.support.checks import checked_word
from cpsrl.support.registry import REGISTRIES, Factory, Registry

KINDS: dict[str, Registry[Any]] = {
    kind: REGISTRIES[kind][0]
    for kind in ("environment", "rule", "belief", "family", "outcomes", "objective", "agent")
}


def register(kind: str, name: str) -> Callable[[Factory], Factory]:
    """Return a decorator that enters a class, or a function of typed options, under `name`.

    Args:
        kind: "environment" (a function that returns a TabularMDP, or a class derived from
            `cpsrl.networks.Environment`), "family" (a function that returns a TabularMDP),
            "outcomes" (one that returns an array), "rule", "belief", "objective" or "agent"
            (classes, or functions that return one).
        name: what specifications call it: letters, digits, '.', '_', ':' and '-'.
    """
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.:-]*", name):
        raise ValueError(
            f"a name consists of letters, digits, '.', '_', ':' and '-': {name!r} does not; write "
            '@cpsrl.register("rule", "mine") above the class or function'
        )
    registry = KINDS[checked_word("kind", kind, KINDS)]
    registry.names()  # which enters all of the package's own, so that no name of theirs is taken

    def enter(thing: Factory) -> Factory:
        pure = isinstance(thing, type) and issubclass(thing, Environment)
        if kind == "environment" and name in (ENVIRONMENTS if pure else WORLDS):
            raise ValueError(f"environment {name!r} is registered twice")
        return (WORLDS if pure and kind == "environment" else registry).add(name)(thing)

    return enter
