"""The problems that come with the package, by name."""

from dataclasses import replace
from typing import Any

from cpsrl.environments.access_control import access_control
from cpsrl.environments.admission_queue import queue
from cpsrl.environments.features import feature_matrix
from cpsrl.environments.gridworld import gridworld
from cpsrl.environments.inventory import inventory
from cpsrl.environments.random_mdp import random_mdp
from cpsrl.environments.replacement import replacement
from cpsrl.environments.riverswim import riverswim
from cpsrl.mdp import TabularMDP
from cpsrl.registry import Registry

__all__ = ["ENVIRONMENTS", "environment", "environments"]

ENVIRONMENTS: Registry[TabularMDP] = Registry("environment")
ENVIRONMENTS.add("riverswim")(riverswim)
ENVIRONMENTS.add("random")(random_mdp)
ENVIRONMENTS.add("gridworld")(gridworld)
ENVIRONMENTS.add("queue")(queue)
ENVIRONMENTS.add("access-control")(access_control)
ENVIRONMENTS.add("inventory")(inventory)
ENVIRONMENTS.add("replacement")(replacement)


def environments() -> list[str]:
    """Return the names that `environment` knows."""
    return ENVIRONMENTS.names()


def environment(
    name: str,
    *,
    features: str | None = None,
    feature_dimension: int | None = None,
    feature_seed: int = 0,
    **options: Any,
) -> TabularMDP:
    """Return the environment called `name`, with its own `options`.

    `features` attaches a feature matrix, for agents with networks: "thermometer", "one-hot", or
    "projection" to `feature_dimension` numbers drawn from `feature_seed`.
    The result is named after the environment and its options that differ from the defaults, such
    as "riverswim (tsde, n_states=20)".
    """
    mdp = ENVIRONMENTS.make(name, **options)
    known = ENVIRONMENTS.options(name)
    changed = {key: value for key, value in options.items() if not _same(value, known[key].default)}
    given = {"feature_dimension": feature_dimension, "feature_seed": feature_seed or None}
    given = {key: value for key, value in given.items() if value is not None}
    if given and features != "projection":
        raise ValueError(f"{', '.join(given)} can be set only with features='projection'")
    if features is None:
        return replace(mdp, name=_label(name, changed))
    matrix = feature_matrix(features, mdp.n_states, feature_dimension, feature_seed)
    return replace(
        mdp, features=matrix, name=_label(name, changed | {"features": features} | given)
    )


def _same(value: Any, default: Any) -> bool:
    return bool((tuple(value) if isinstance(value, list) else value) == default)


def _label(name: str, changed: dict[str, Any]) -> str:
    """Return the name with the changed options, those that are words without their key."""
    words = [value for value in changed.values() if isinstance(value, str)]
    rest = [f"{key}={value}" for key, value in changed.items() if not isinstance(value, str)]
    return f"{name} ({', '.join(words + rest)})" if changed else name
