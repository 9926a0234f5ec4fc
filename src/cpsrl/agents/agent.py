"""What an agent is, the registry of agents, and what live agents check."""

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse

from cpsrl.checks import checked_arrays, checked_number, checked_whole
from cpsrl.mdp import TabularMDP
from cpsrl.registry import Registry
from cpsrl.seeding import Streams, check_streams
from cpsrl.sizes import Sizes


class Agent:
    """An agent before it is started: a frozen dataclass of its parts, derived from this class."""

    label: str
    """What to call the agent in tables and figures."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages beyond the package's own on which the agent's numbers depend."""

    @property
    def horizon(self) -> int | None:
        """The number of steps that the agent is tuned to, if it is to one."""
        return None

    def resolve(self, problem: Any, steps: int | None) -> Self:
        """Return the agent tuned to `problem` and, if it asks for it, to a horizon of `steps`."""
        return self

    def check(self, problem: Any) -> None:
        """Raise a ValueError if the agent is not for such a problem."""

    def start(self, problem: Any, streams: Streams) -> "LiveAgent":
        """Return a live agent for a TabularMDP, or for the sizes of a problem without a model."""
        raise NotImplementedError


class LiveAgent:
    """A live agent: `act`, `observe`, and a state from which another one can go on.

    `kept` names the attributes that make up the state: arrays, whole numbers, floats, None or a
    number where that is what they hold. A subclass says in `check_sound` what else must be true of
    them.
    """

    spec: Any
    problem: Any
    streams: Streams
    resamples: int = 0
    """How often a model was drawn, or an episode begun."""
    kept: ClassVar[tuple[str, ...]] = ()

    def act(self, state: Any) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        raise NotImplementedError

    def observe(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here: scalars and arrays in a tree.

        Under "spec" are the settings of the agent, under "streams" where its streams stand.
        """
        mine = {name: copy.copy(getattr(self, name)) for name in self.kept}
        return mine | {"spec": settings_of(self.spec), "streams": self.streams.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        check_state(state, self.spec, *self.kept)
        values = {name: _like(name, state[name], getattr(self, name)) for name in self.kept}
        self.check_sound(values)
        self.restore_parts(state)
        self.streams.restore(state["streams"])
        for name, value in values.items():
            setattr(self, name, value)

    def fork(self, streams: Streams) -> "LiveAgent":
        """Return another agent like this one was at its start, on its own streams."""
        return self.spec.start(self.problem, streams)

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if the values to restore, by name, are impossible."""

    def restore_parts(self, state: dict[str, Any]) -> None:
        """Restore what is not among `kept`; raise, and change nothing, if it does not fit."""


def _like(name: str, stored: Any, mine: Any) -> Any:
    """Return what `stored` holds in the kind of `mine`, or raise."""
    what = f"the stored {name.strip('_').replace('_', ' ')}"
    if isinstance(mine, np.ndarray):
        return checked_arrays("state", {name: stored}, {name: mine})[name]
    if stored is None or mine is None:
        return stored if stored is None else checked_number(what, stored)
    return checked_whole(what, stored) if isinstance(mine, int) else checked_number(what, stored)


AGENTS: Registry[Agent] = Registry("agent")


def start(spec: Agent, problem: TabularMDP | Sizes, seed: int = 0, run: int = 0) -> Any:
    """Return a live agent on the streams of run `run` of root `seed`.

    Args:
        spec: the agent.
        problem: the MDP, or `Sizes(n_states, n_actions)` where there is no model.
        seed: the root seed.
        run: the number of the run.
    """
    if not isinstance(spec, Agent):
        raise ValueError(f"spec must be an agent such as cpsrl.ContinuingPSRL(), not {spec!r}")
    return spec.start(problem, Streams(seed, run))


def sizes_of(problem: Any, label: str) -> Sizes:
    """Return the sizes of a problem with states, or raise."""
    if not isinstance(problem, TabularMDP | Sizes):
        raise ValueError(
            f"{label} needs states: start it with a TabularMDP or Sizes(n_states, n_actions), not "
            f"{problem!r}"
        )
    return Sizes(problem.n_states, problem.n_actions)


def settings_of(value: Any) -> Any:
    """Return an agent's settings as a tree of plain values, without its label.

    Arrays are represented by a hash; a function of t is only said to be one.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "label"}
        return {"kind": type(value).__name__, **{k: settings_of(v) for k, v in parts.items()}}
    if scipy.sparse.issparse(value):
        matrix = value.tocsr()
        value = np.concatenate([matrix.shape, matrix.indptr, matrix.indices, matrix.data])
    if isinstance(value, np.ndarray) or _is_nested(value):
        array = np.ascontiguousarray(value)
        content = repr((array.dtype.str, array.shape)).encode() + array.tobytes()
        return f"array {hashlib.sha256(content).hexdigest()[:16]}"
    if isinstance(value, list | tuple):
        return [settings_of(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if callable(value):
        return "function"
    return {"kind": type(value).__name__, **{k: settings_of(v) for k, v in vars(value).items()}}


def _is_nested(value: Any) -> bool:
    """Return whether `value` is an array of more than one dimension as a list of lists."""
    try:
        return isinstance(value, list | tuple) and np.ndim(value) > 1
    except ValueError:  # its parts have different shapes
        return False


def check_state(state: dict[str, Any], spec: Any, *needed: str) -> None:
    """Raise a ValueError unless `state` is one of an agent like `spec`, with what is `needed`."""
    for place, theirs, ours in _differences("", state.get("spec"), settings_of(spec)):
        raise ValueError(
            f"the state is that of another agent: its {place} is {theirs!r}, not {ours!r}"
        )
    if missing := {"streams", *needed} - state.keys():
        raise ValueError(f"the stored state lacks {', '.join(sorted(missing))}")
    check_streams(state["streams"])


def _differences(place: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in [*ours, *(theirs.keys() - ours.keys())]:
            inner = f"{place}.{key}" if place else key
            yield from _differences(inner, theirs.get(key), ours.get(key))
    elif theirs != ours:
        yield place or "kind", theirs, ours
