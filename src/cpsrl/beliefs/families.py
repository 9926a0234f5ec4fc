"""Families of models: functions from a few parameters to an MDP, by name, and priors on them.

An environment's own function is a family once some of its options are unknown. A prior on one
parameter is its inverse distribution function, by name, or a list of values that are equally
likely; parameters are independent of each other beforehand.

The queue is uniformised: a step is an arrival with probability p = l / (l + m), else a service, and
nobody sees how long it took. With gamma priors of one rate b on both, l ~ Gamma(a, b) and
m ~ Gamma(c, b), the share p is Beta(a, c) and independent of l + m; steps teach p alone, by Beta's
conjugate update, and l + m keeps its prior for ever. So p is the parameter, and l + m is given, as
the rate `event_rate` of all events, which a clock and a few of them tell.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from cpsrl.environments.access_control import access_control
from cpsrl.environments.admission_queue import queue
from cpsrl.environments.inventory import inventory
from cpsrl.environments.replacement import replacement
from cpsrl.environments.riverswim import riverswim
from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import checked_number, checked_positive, checked_word, shown
from cpsrl.support.registry import Registry, unknown
from cpsrl.support.types import Floats

FAMILIES: Registry[Any] = Registry("family")
FAMILIES.add("inventory")(inventory)
FAMILIES.add("replacement")(replacement)
FAMILIES.add("access-control")(access_control)
FAMILIES.add("riverswim")(riverswim)


@FAMILIES.add("queue")
def queue_by_share(
    arrival_share: float,
    event_rate: float = 1.8,
    capacity: int = 20,
    admission_reward: float = 1.0,
    holding_cost: float = 0.2,
) -> TabularMDP:
    """The queue of which events are arrivals with probability `arrival_share`."""
    rate, share = checked_positive("event_rate", event_rate), arrival_share
    return queue(capacity, rate * share, rate * (1.0 - share), admission_reward, holding_cost)


USUAL: dict[str, dict[str, Any]] = {
    "inventory": {"demand": ("gamma", 1.0, 0.1)},
    "replacement": {"wear": ("beta", 1.0, 1.0)},
    "access-control": {"free_probability": ("beta", 1.0, 1.0)},
    "riverswim": {"current": ("normal", 0.0, 1.0)},
    "queue": {"arrival_share": ("beta", 1.0, 1.0)},
}
"""The priors of the parameters where none is given."""

PRIORS: dict[str, Callable[[Any, float, float], Any]] = {
    "uniform": lambda u, low, high: low + (high - low) * u,
    "normal": lambda u, mean, deviation: mean + deviation * scipy.special.ndtri(u),
    "gamma": lambda u, shape, rate: scipy.special.gammaincinv(shape, u) / rate,
    "beta": lambda u, a, b: scipy.special.betaincinv(a, b, u),
}
"""Inverse distribution functions, of u in (0, 1) and two numbers."""
POSITIVE = {"uniform": (False, False), "normal": (False, True)}
"""Which of the two numbers must be positive, where not both must."""


def checked_prior(name: str, prior: Any) -> tuple[Any, ...]:
    """Return the prior of the parameter `name` as a tuple, or raise if it is not one."""
    what = f"the prior of {name!r}"
    if isinstance(prior, str) or not isinstance(prior, Sequence | np.ndarray) or not len(prior):
        raise ValueError(
            f'{what} must be such as ("gamma", 2.0, 0.4), or a list of values, not {shown(prior)}'
        )
    kind, *numbers = prior
    if not isinstance(kind, str):
        return tuple(checked_number(f"{what}[{i}]", value) for i, value in enumerate(prior))
    checked_word(what, kind, PRIORS)
    if len(numbers) != 2:
        raise ValueError(f"{what}, {kind}, needs two numbers, not {numbers}")
    for number, positive in zip(numbers, POSITIVE.get(kind, (True, True)), strict=True):
        (checked_positive if positive else checked_number)(f"a number of {what}", number)
    if kind == "uniform" and not numbers[0] < numbers[1]:
        raise ValueError(f"{what} must be uniform from low to high, not {numbers}")
    return kind, *map(float, numbers)


def quantile(prior: tuple[Any, ...], u: Floats) -> Floats:
    """Return the parameters at the probabilities u in (0, 1) of a checked prior."""
    if isinstance(prior[0], str):
        return np.asarray(PRIORS[prior[0]](u, *prior[1:]))
    return np.array(prior)[np.minimum((u * len(prior)).astype(np.int64), len(prior) - 1)]


def checked_names(function: Callable[..., Any], given: Mapping[str, Any], what: str) -> None:
    """Raise a ValueError if `function` takes no such parameters as are `given`."""
    known = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for name in given:
        if name not in known:
            raise unknown(what, name, known, getattr(function, "__name__", "the family"))
