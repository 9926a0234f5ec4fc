"""What the planning functions are given, checked in one place.

A word means the same in all of them, so `checks_arguments` goes by the names of parameters.
"""

import inspect
import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from cpsrl.mdp import ChangingWorld, TabularMDP
from cpsrl.support.checks import WrongTypeError, checked_gamma, checked_number, checked_whole, shown
from cpsrl.support.types import Floats, Ints

P = ParamSpec("P")
R = TypeVar("R")

FINEST = 1e-15
"""About the distance of neighbouring floats below 1: a bisection can't go on for ever."""


def checks_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with those of its arguments checked whose names CHECKS has."""
    parameters = enumerate(inspect.signature(function).parameters)
    checks = [(place, name, CHECKS[name]) for place, name in parameters if name in CHECKS]
    plain: Callable[..., R] = function

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given, named = list(args), dict(kwargs)
        mdp = given[0] if given else named.get("mdp")
        for place, name, check in checks:
            if place < len(given):
                given[place] = check(given[place], mdp)
            elif name in named:
                named[name] = check(named[name], mdp)
        return plain(*given, **named)

    return call


def checked_mdp(mdp: Any) -> TabularMDP:
    """Return `mdp`, or raise if it is not one."""
    if isinstance(mdp, TabularMDP):
        return mdp
    if isinstance(mdp, ChangingWorld):
        raise ValueError(
            f"{mdp!r} changes; plan for its models one by one, such as world.models[0]"
        )
    if isinstance(mdp, Path) or (isinstance(mdp, str) and Path(mdp).suffix):
        hint = f": did you mean cpsrl.TabularMDP.load({str(mdp)!r})?"
    else:
        hint = f": did you mean cpsrl.environment({mdp!r})?" if isinstance(mdp, str) else ""
    raise WrongTypeError(
        f"mdp must be a TabularMDP, such as cpsrl.environment('riverswim'), not {shown(mdp)}{hint}"
    )


def _targets(targets: Any, mdp: TabularMDP) -> Ints | None:
    if targets is None:
        return None
    array = np.asarray(targets)
    whole = np.issubdtype(array.dtype, np.integer)
    if not whole or not array.size or array.min() < 0 or array.max() >= mdp.n_states:
        raise ValueError(
            f"targets must be one or more states, whole numbers in 0..{mdp.n_states - 1}, not "
            f"{shown(targets)}"
        )
    return array.astype(np.int64).ravel()


def _values(values: Any, _: Any) -> Floats:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros(0)
    if not array.size:
        raise ValueError(f"values must be one or more numbers, not {shown(values)}")
    return array


def _value(value: Any, mdp: TabularMDP) -> Floats:
    array = _values(value, None)
    if array.shape != (mdp.n_states,) or not np.isfinite(array).all():
        raise ValueError(
            f"value must be {mdp.n_states} finite numbers, one for each state, not {shown(value)}"
        )
    return array


CHECKS: dict[str, Callable[[Any, Any], Any]] = {
    "mdp": lambda mdp, _: checked_mdp(mdp),
    "gamma": lambda gamma, _: checked_gamma(gamma),
    "tol": lambda tol, _: (
        None if tol is None else checked_number("tol", tol, 0.0, math.inf, open=True)
    ),
    "targets": _targets,
    "most_steps": lambda n, _: checked_whole("most_steps", n, 1),
    "largest": lambda gamma, _: checked_number("largest", gamma, 0.0, 1.0 - FINEST),
    "points": lambda n, _: checked_whole("points", n, 2),
    "refined": lambda width, _: checked_number("refined", width, FINEST, 1.0),
    "values": _values,
    "value": _value,
}
