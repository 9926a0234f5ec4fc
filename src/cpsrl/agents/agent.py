"""What an agent is, the registry of agents, and what live agents check."""

import copy
import hashlib
import importlib.util
import os
import warnings
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cpsrl.agents.checkpoint import save
from cpsrl.agents.codec import given, settings_of
from cpsrl.mdp import Problem, models_of
from cpsrl.mdp.problem import UNIT_RANGE, FeatureSizes, Sizes, checked_transition, width_of
from cpsrl.seeding import Streams, check_streams
from cpsrl.support.checks import (
    WrongTypeError,
    checked_arrays,
    checked_number,
    checked_whole,
    shown,
)
from cpsrl.support.registry import Registry, nearest


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
    sizes: Any
    streams: Streams
    expected: "Expected"
    resamples: int = 0
    """How often a model was drawn, or an episode begun."""
    at_once: ClassVar[int] = 1 << 16
    """How many steps a compiled loop may take between two looks at whether to stop."""
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

    def repeat(self, state: Any, action: int) -> None:
        """Move time on as `decide` did when it gave `action`; it need not give it again.

        Other versions may round differently and decide otherwise; what was done then was `action`.
        """
        self.decide(state)

    def move_on(self) -> None:
        """Advance time by one step, for agents that decide and learn at different times."""

    def make_room(self, steps: int) -> None:
        """Make room for what `steps` further steps can reveal, for compiled loops."""

    def learn(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Learn from a transition, however late; time stays where `decide` has moved it.

        Raise, and change nothing, if it cannot be.
        """
        self.observe(state, action, reward, next_state)

    def checked(
        self, state: Any, action: Any, reward: Any, next_state: Any
    ) -> tuple[Any, int, float, Any]:
        """Return a transition as plain numbers, or raise; warn of a reward far from the range."""
        found = checked_transition(self.sizes, state, action, reward, next_state)
        self.expected.look(found[2])
        return found

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
        same = state.get("spec") == settings_of(self.spec)
        for place, theirs, mine in () if same else _differences("", state.get("spec"), self.spec):
            raise ValueError(
                f"the state is that of another agent: its {place} is {theirs!r}, not {mine!r}"
            )
        needed = {"streams", "reward_range", "available", *self.kept}
        if missing := needed - state.keys():
            raise ValueError(f"the stored state lacks {', '.join(sorted(missing))}")
        check_streams(state["streams"])
        if state["available"] != self._mask:
            raise ValueError("the state is that of an agent with other actions available")
        if (stored := tuple(state["reward_range"])) != self._range:
            raise ValueError(
                f"the state is that of an agent for rewards in the range {stored}, and here it is "
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
        save(self, path)

    def fork(self, streams: Streams) -> "LiveAgent":
        """Return a new agent of the same parts at its first step, on other streams."""
        return self.spec.start(self.problem, streams)

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if the values to restore, by name, are impossible."""

    def restore_parts(self, state: dict[str, Any]) -> None:
        """Restore what is not among `kept`; raise, and change nothing, if it does not fit."""


class Expected:
    """Warns once, for one live agent, of a reward far from the range that its problem states.

    Far is a full width outside; where the problem is an MDP, what it pays is expected as well.

    Args:
        problem: what the agent was started with.
        margin: how many widths outside the range a reward may be.
    """

    __slots__ = ("high", "low", "problem", "warned")

    def __init__(self, problem: Any, margin: float = 1.0) -> None:
        (low, high), beyond = problem.reward_range, margin * width_of(problem.reward_range)
        self.low, self.high = low - beyond, high + beyond
        if models := models_of(problem):
            noise = NOISE * max(float(model.noise_code[1].max()) for model in models)
            low, high = problem.realised_range
            self.low, self.high = min(self.low, low - noise), max(self.high, high + noise)
        self.problem, self.warned = problem, False

    def again(self) -> "Expected":
        """Return one for another agent in the same problem, which has not warned yet."""
        new = object.__new__(Expected)  # `copy.copy` takes ten times as long
        new.low, new.high, new.problem, new.warned = self.low, self.high, self.problem, False
        return new

    def look(self, reward: float) -> None:
        """Look at a reward."""
        if not self.low <= reward <= self.high and not self.warned:
            self.warned = True
            low, high = self.problem.reward_range
            warnings.warn(
                f"a reward of {reward:g} is outside [{low:g}, {high:g}], the range of mean rewards "
                "that the agent scales by ((0, 1) by default): it goes on learning, but "
                "start it with the reward_range of your rewards",
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


def usual(problem: Any) -> Agent:
    """Return the agent for a problem where none is chosen; observations are states, or vectors."""
    vectors = isinstance(problem, FeatureSizes) and problem.n_states is None
    return AGENTS.make("bootstrapped-dqn" if vectors else "adaptive-psrl")


def shown_agent(value: Any) -> str:
    """Return what errors write for what is no agent; for a name, the class of that name."""
    if not isinstance(value, str):
        return shown(value)
    name = value if value in AGENTS else nearest(value, AGENTS.names())
    hint = f": did you mean {getattr(AGENTS[name], '__name__', '')}()?" if name else ""
    return f"the text {value!r}{hint}"


def start(spec: Any, problem: Any = None, seed: int = 0, run: int = 0) -> Any:
    """Return a live agent on the streams of run `run` of root `seed`.

    Args:
        spec: the agent; `start(problem)` takes `AdaptivePSRL()`, or `BootstrappedDQN()` where
            observations are vectors.
        problem: the MDP, or `Sizes(n_states, n_actions, reward_range)` where there is no model.
        seed: the root seed.
        run: the number of the run.
    """
    if problem is None and isinstance(spec, Problem | FeatureSizes):
        spec, problem = usual(spec), spec
    if not isinstance(spec, Agent) or problem is None:
        raise WrongTypeError(
            "start takes a problem, such as a TabularMDP, or an agent such as "
            f"cpsrl.ContinuingPSRL() and its problem, not {shown_agent(spec)}"
            + ("" if problem is None else f" and {shown(problem)}")
        )
    return spec.start(problem, Streams(seed, run))


def sizes_of(problem: Any, label: str) -> Sizes:
    """Return the sizes of a problem with states, or raise."""
    if not isinstance(problem, Problem):
        raise WrongTypeError(
            f"{label} needs states, numbered ones: a TabularMDP, Sizes(n_states, n_actions) or "
            f"observations that are Discrete, not {problem!r}; for vectors there are agents with "
            "networks, such as cpsrl.BootstrappedDQN()"
        )
    return problem.sizes


def _differences(place: str, theirs: Any, mine: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield where stored settings are not those of `mine`, a part of an agent, and both values.

    An option that is not stored came later: its default does what was done before.
    """
    ours = settings_of(mine)
    if isinstance(theirs, dict) and isinstance(ours, dict):
        later = ours.keys() - theirs.keys() - (given(mine) if is_dataclass(mine) else ours).keys()
        for key in [*(key for key in ours if key not in later), *(theirs.keys() - ours.keys())]:
            inner = f"{place}.{key}" if place else key
            own = mine.get(key) if isinstance(mine, dict) else getattr(mine, key, ours.get(key))
            yield from _differences(inner, theirs.get(key), own)
    elif theirs != ours:
        yield place or "kind", theirs, ours
