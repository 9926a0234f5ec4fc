"""What an agent is, the registry of agents, and what live agents check."""

import copy
import hashlib
import importlib.util
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cpsrl.checks import checked_arrays, checked_number, checked_whole, is_sparse, shown
from cpsrl.mdp import TabularMDP
from cpsrl.registry import Registry
from cpsrl.seeding import Streams, check_streams
from cpsrl.sizes import UNIT_RANGE, Sizes, width_of


class Agent:
    """An agent before it is started: a frozen dataclass of its parts, derived from this class."""

    label: str
    """What to call the agent in tables and figures."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages beyond the package's own on which the agent's numbers depend."""
    advice: ClassVar[str] = "install it"
    """What to do where one of them is missing."""

    @property
    def horizon(self) -> int | None:
        """The number of steps that the agent is tuned to, if it is to one."""
        return None

    def resolve(self, problem: Any, steps: int | None) -> Self:
        """Return the agent tuned to `problem` and, if it asks for it, to a horizon of `steps`."""
        return self

    def check(self, problem: Any) -> None:
        """Raise a ValueError if the agent is not for such a problem."""

    def check_packages(self) -> None:
        """Raise a ValueError if one of `packages` is missing here."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise ValueError(
                    f"{self.label} needs {', '.join(self.packages)}, and there is no {package} "
                    f"here: {self.advice}"
                )

    def start(self, problem: Any, streams: Streams) -> "LiveAgent":
        """Return a live agent for a TabularMDP, or for the sizes of a problem without a model."""
        raise NotImplementedError


class LiveAgent:
    """A live agent: `act`, `observe`, and a state from which another one can go on.

    Where outcomes come late, out of order or never, `decide` and `learn` are the two halves: time,
    and the rule's coin with it, moves on at `decide`, counts change at `learn`. Where every outcome
    comes before the next decision they are `act` and `observe`, bit for bit. A subclass has
    `observe`, or `learn` and `move_on` in its place.

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

    def __repr__(self) -> str:
        step = f", at step {self.step:,}" if hasattr(self, "step") else ""
        drawn = f", {self.resamples:,} resamplings" if self.resamples else ""
        return f"{type(self).__name__}({self.spec.label} in {self.problem!r}{step}{drawn})"

    def act(self, state: Any) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        raise NotImplementedError

    def observe(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        self.learn(state, action, reward, next_state)
        self.move_on()

    def decide(self, state: Any) -> int:
        """Return the action in `state` and move time on; `learn` gets its outcome, if there is one.

        An agent that does not tell the two halves apart moves time on when it learns.
        """
        action = self.act(state)
        self.move_on()
        return action

    def move_on(self) -> None:
        """Move time on by a step, where the two halves are told apart."""

    def learn(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Learn from a transition, however late; time stays where `decide` has moved it.

        Raise, and change nothing, if it cannot be.
        """
        self.observe(state, action, reward, next_state)

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here: scalars and arrays in a tree.

        Under "spec" are the settings of the agent, under "streams" where its streams stand, under
        "reward_range" the units in which it took rewards, under "available" a hash of which
        actions there are, if not all.
        """
        mine = {name: copy.copy(getattr(self, name)) for name in self.kept}
        return mine | {
            "spec": settings_of(self.spec),
            "streams": self.streams.state(),
            "reward_range": list(self._range),
            "available": self._mask,
        }

    @property
    def _range(self) -> tuple[float, float]:
        return tuple(getattr(self.problem, "reward_range", UNIT_RANGE))

    @property
    def _mask(self) -> str:
        mask = getattr(self.problem, "available", None)
        return "" if mask is None else hashlib.sha256(np.packbits(mask).tobytes()).hexdigest()[:16]

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        check_state(state, self.spec, "reward_range", "available", *self.kept)
        if state["available"] != self._mask:
            raise ValueError("the state is that of an agent with other actions available")
        if (theirs := tuple(state["reward_range"])) != self._range:
            raise ValueError(
                f"the state is that of an agent for rewards in the range {theirs}, and here it is "
                f"{self._range}"
            )
        values = {name: _like(name, state[name], getattr(self, name)) for name in self.kept}
        self.check_sound(values)
        self.restore_parts(state)
        self.streams.restore(state["streams"])
        for name, value in values.items():
            setattr(self, name, value)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file, from which `cpsrl.resume(path)` goes on."""
        from cpsrl.agents.saved import save

        save(self, path)

    def fork(self, streams: Streams) -> "LiveAgent":
        """Return another agent like this one was at its start, on its own streams."""
        return self.spec.start(self.problem, streams)

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if the values to restore, by name, are impossible."""

    def restore_parts(self, state: dict[str, Any]) -> None:
        """Restore what is not among `kept`; raise, and change nothing, if it does not fit."""


class Expected:
    """Says once, for one live agent, that a reward is far from the range that its problem states.

    Far is a full width outside; where the problem is an MDP, what it pays is expected as well.

    Args:
        problem: what the agent was started with.
        margin: how many widths outside the range a reward may be.
    """

    __slots__ = ("high", "low", "problem", "said")

    def __init__(self, problem: Any, margin: float = 1.0) -> None:
        (low, high), beyond = problem.reward_range, margin * width_of(problem.reward_range)
        self.low, self.high = low - beyond, high + beyond
        if isinstance(problem, TabularMDP):
            (low, high), models = problem.realised_range, problem.moments
            noise = NOISE * max(float(model.noise_code[1].max()) for model in models)
            self.low, self.high = min(self.low, low - noise), max(self.high, high + noise)
        self.problem, self.said = problem, False

    def look(self, reward: float) -> None:
        """Look at a reward."""
        if not self.low <= reward <= self.high and not self.said:
            self.said = True
            low, high = self.problem.reward_range
            warnings.warn(
                f"a reward of {reward:g} was observed, and mean rewards are said to be in "
                f"[{low:g}, {high:g}]: the agent learns on, but the range gives it its units, so "
                "start it with the reward_range that the rewards have",
                stacklevel=3,
            )


NOISE = 6.0
"""So many standard deviations of its own noise are expected of an MDP."""


def _like(name: str, stored: Any, mine: Any) -> Any:
    """Return what `stored` holds in the kind of `mine`, or raise."""
    what = f"the stored {name.strip('_').replace('_', ' ')}"
    if isinstance(mine, np.ndarray):
        return checked_arrays("state", {name: stored}, {name: mine})[name]
    if stored is None or mine is None:
        return stored if stored is None else checked_number(what, stored)
    return checked_whole(what, stored) if isinstance(mine, int) else checked_number(what, stored)


AGENTS: Registry[Agent] = Registry("agent", Agent, also=("cpsrl.networks",))


def start(spec: Agent, problem: TabularMDP | Sizes, seed: int = 0, run: int = 0) -> Any:
    """Return a live agent on the streams of run `run` of root `seed`.

    Args:
        spec: the agent.
        problem: the MDP, or `Sizes(n_states, n_actions, reward_range)` where there is no model.
        seed: the root seed.
        run: the number of the run.
    """
    if not isinstance(spec, Agent):
        raise ValueError(f"spec must be an agent such as cpsrl.ContinuingPSRL(), not {shown(spec)}")
    return spec.start(problem, Streams(seed, run))


def sizes_of(problem: Any, label: str) -> Sizes:
    """Return the sizes of a problem with states, or raise."""
    if not isinstance(problem, TabularMDP | Sizes):
        raise ValueError(
            f"{label} needs states: start it with a TabularMDP or Sizes(n_states, n_actions), not "
            f"{problem!r}"
        )
    return problem if isinstance(problem, Sizes) else problem.sizes


def settings_of(value: Any) -> Any:
    """Return an agent's settings as a tree of plain values, without its label.

    Arrays are represented by a hash; a function of t is only said to be one.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "label"}
        return {"kind": type(value).__name__, **{k: settings_of(v) for k, v in parts.items()}}
    if is_sparse(value):
        matrix = value.tocsr()
        value = np.concatenate([matrix.shape, matrix.indptr, matrix.indices, matrix.data])
    if isinstance(value, np.ndarray) or _is_nested(value):
        array = np.ascontiguousarray(value)
        content = repr((array.dtype.str, array.shape)).encode() + array.tobytes()
        return f"array {hashlib.sha256(content).hexdigest()[:16]}"
    if isinstance(value, list | tuple):
        return [settings_of(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): settings_of(item) for key, item in value.items()}
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
