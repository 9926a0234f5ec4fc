"""Entering things of one's own under a name, as the package enters its own.

    @cpsrl.register("rule", "on-the-hour")
    @dataclass(frozen=True)
    class OnTheHour(cpsrl.Rule):
        ...

From then on specifications and the command know the name, in the process that has registered it.
"""

from collections.abc import Callable
from typing import Any

from cpsrl.agents import AGENTS
from cpsrl.beliefs import BELIEFS
from cpsrl.checks import checked_word
from cpsrl.environments import ENVIRONMENTS
from cpsrl.objectives import OBJECTIVES
from cpsrl.registry import Factory, Registry
from cpsrl.resampling import RULES

KINDS: dict[str, Registry[Any]] = {
    "environment": ENVIRONMENTS,
    "rule": RULES,
    "belief": BELIEFS,
    "objective": OBJECTIVES,
    "agent": AGENTS,
}


def register(kind: str, name: str) -> Callable[[Factory], Factory]:
    """Return a decorator that enters a class, or a function of typed options, under `name`.

    Args:
        kind: "environment" (a function that returns a TabularMDP), "rule", "belief", "objective" or
            "agent" (classes, or functions that return one).
        name: what specifications call it.
    """
    return KINDS[checked_word("kind", kind, KINDS)].add(name)
