"""The problems that come with the package, by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from cpsrl.environments.access_control import access_control
from cpsrl.environments.admission_queue import queue
from cpsrl.environments.catch import catch, pixel_catch, pixel_windy_catch, windy_catch
from cpsrl.environments.changing import changing
from cpsrl.environments.deep_sea import deep_sea, pixel_deep_sea
from cpsrl.environments.features import feature_matrix
from cpsrl.environments.frozen_lake import frozen_lake
from cpsrl.environments.gridworld import gridworld
from cpsrl.environments.inventory import inventory
from cpsrl.environments.pendulum import pendulum
from cpsrl.environments.pure import Environment
from cpsrl.environments.random_mdp import random_mdp
from cpsrl.environments.registry import ENVIRONMENTS, WORLDS
from cpsrl.environments.replacement import replacement
from cpsrl.environments.riverswim import riverswim
from cpsrl.environments.rooms import rooms
from cpsrl.environments.taxi import taxi
from cpsrl.mdp import ChangingWorld, TabularMDP
from cpsrl.mdp.files import FILES
from cpsrl.support.checks import checked_kind
from cpsrl.support.registry import Registry, unknown

__all__ = ["ENVIRONMENTS", "WORLDS", "environment", "environments", "with_features"]


ENVIRONMENTS.add("riverswim")(riverswim)
ENVIRONMENTS.add("random")(random_mdp)
ENVIRONMENTS.add("gridworld")(gridworld)
ENVIRONMENTS.add("queue")(queue)
ENVIRONMENTS.add("access-control")(access_control)
ENVIRONMENTS.add("inventory")(inventory)
ENVIRONMENTS.add("replacement")(replacement)
ENVIRONMENTS.add("deep-sea")(deep_sea)
ENVIRONMENTS.add("frozen-lake")(frozen_lake)
ENVIRONMENTS.add("taxi")(taxi)
ENVIRONMENTS.add("catch")(catch)
ENVIRONMENTS.add("windy-catch")(windy_catch)
ENVIRONMENTS.add("rooms")(rooms)
ENVIRONMENTS.add("changing")(changing)

WORLDS.add("pixel-catch")(pixel_catch)
WORLDS.add("pixel-windy-catch")(pixel_windy_catch)
WORLDS.add("pixel-deep-sea")(pixel_deep_sea)
WORLDS.add("pendulum")(pendulum)

T = TypeVar("T", TabularMDP, ChangingWorld)
World = Literal["pixel-catch", "pixel-windy-catch", "pixel-deep-sea", "pendulum"]


def environments() -> list[str]:
    """Return the names of the tables that `environment` knows."""
    return ENVIRONMENTS.names()


@overload
def environment(name: World, **options: Any) -> Environment: ...
@overload
def environment(name: Literal["changing"], **options: Any) -> ChangingWorld: ...
@overload
def environment(
    name: str,
    *,
    features: str | None = None,
    feature_dimension: int | None = None,
    feature_seed: int = 0,
    **options: Any,
) -> TabularMDP: ...
def environment(
    name: str,
    *,
    features: str | None = None,
    feature_dimension: int | None = None,
    feature_seed: int = 0,
    **options: Any,
) -> Any:
    """Return the environment called `name`, with its own `options`.

    It is a table, a TabularMDP or a ChangingWorld, or for agents with networks an `Environment` of
    pure functions.

    `features` attaches a feature matrix, for agents with networks: "thermometer", "one-hot", or
    "projection" to `feature_dimension` numbers drawn from `feature_seed`.
    A name such as "gym:FrozenLake-v1" is an environment of Gymnasium that has a table of transition
    probabilities (see `cpsrl.environments.toy_text`), and one such as "gymnax:Breakout-MinAtar" an
    environment with gymnax's interface (see `cpsrl.environments.gymnax`).
    The result is named after the environment and its options that differ from the defaults, such
    as "riverswim (tsde, n_states=20)".
    """
    checked_kind("name", name, str, "that of an environment, such as 'riverswim'")
    attached = _without_defaults(features, feature_dimension, feature_seed)
    if name not in ENVIRONMENTS and name in WORLDS:
        made = WORLDS.make(name, **options, **attached)
        object.__setattr__(made, "name", _label(name, _changed(WORLDS, name, options)))
        return made
    if name not in ENVIRONMENTS and Path(name).suffix in FILES:
        raise ValueError(f"{name} is a file: cpsrl.TabularMDP.load({name!r}) reads it")
    if name not in ENVIRONMENTS:
        raise unknown(ENVIRONMENTS.kind, name, ENVIRONMENTS.names() + WORLDS.names())
    mdp = with_features(ENVIRONMENTS.make(name, **options), **attached)
    return replace(mdp, name=_label(name, _changed(ENVIRONMENTS, name, options) | attached))


def with_features(
    mdp: T,
    features: str | None = None,
    feature_dimension: int | None = None,
    feature_seed: int = 0,
) -> T:
    """Return `mdp` with a feature matrix, as `environment` attaches one."""
    given = _without_defaults(None, feature_dimension, feature_seed)
    if given and features != "projection":
        raise ValueError(f"{', '.join(given)} can be set only with features='projection'")
    if features is None:
        return mdp
    matrix = feature_matrix(features, mdp.n_states, feature_dimension, feature_seed)
    return replace(mdp, features=matrix)


def _without_defaults(
    features: str | None, feature_dimension: int | None, feature_seed: int
) -> dict[str, Any]:
    """Return the options of features that are not as by default."""
    given = {"features": features, "feature_dimension": feature_dimension}
    given["feature_seed"] = feature_seed or None
    return {key: value for key, value in given.items() if value is not None}


def _changed(registry: Registry[Any], name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are not as by default."""
    known = registry.options(name)
    return {key: value for key, value in options.items() if not _same(value, known[key].default)}


def _same(value: Any, default: Any) -> bool:
    return bool((tuple(value) if isinstance(value, list) else value) == default)


def _label(name: str, changed: dict[str, Any]) -> str:
    """Return the name with the changed options, those that are words without their key."""
    words = [value for value in changed.values() if isinstance(value, str)]
    rest = [f"{key}={value}" for key, value in changed.items() if not isinstance(value, str)]
    return f"{name} ({', '.join(words + rest)})" if changed else name
