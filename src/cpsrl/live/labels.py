"""What a durable agent is shown and says: states and actions by label, by number, or as vectors."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl.agents import Agent
from cpsrl.agents.agent import sizes_of
from cpsrl.agents.recipe import from_tree, to_tree
from cpsrl.checks import checked_index
from cpsrl.mdp import TabularMDP
from cpsrl.networks import ValueSampling
from cpsrl.registry import nearest
from cpsrl.sizes import UNIT_RANGE, FeatureSizes, Sizes
from cpsrl.types import Floats


@dataclass(frozen=True, eq=False)
class Labels:
    """A problem and the names of its states and actions.

    A state is kept as its number, or, where there are no states, as a list of numbers.

    Args:
        sizes: what the agent is started with.
        states: the labels of the states, or None: their numbers.
        actions: likewise.
        features: `(S, N)` what an agent with networks is shown of each state, or None.
    """

    sizes: Sizes | FeatureSizes
    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    features: Floats | None = None

    def __post_init__(self) -> None:
        for what in ("state", "action"):
            names = getattr(self, f"{what}s")
            numbers = {name: i for i, name in enumerate(names or ())}
            object.__setattr__(self, f"_{what}_numbers", numbers)

    @property
    def n_states(self) -> int | None:
        """How many states there are; None where observations are vectors."""
        if self.features is not None:
            return len(self.features)
        return self.sizes.n_states if isinstance(self.sizes, Sizes) else None

    def state(self, what: str, given: Any) -> Any:
        """Return the number of a state, or a vector as a list; raise if there is no such state."""
        if self.states is not None:
            return self._number(what, given, self.states, self._state_numbers)  # type: ignore[attr-defined]
        if self.n_states is not None:
            return checked_index(what, given, self.n_states)
        return self.sizes.checked(what, given).tolist()  # type: ignore[union-attr]

    def action(self, given: Any) -> int:
        """Return the number of an action, or raise if there is no such action."""
        if self.actions is not None:
            return self._number("action", given, self.actions, self._action_numbers)  # type: ignore[attr-defined]
        return checked_index("action", given, self.sizes.n_actions)

    def shown(self, state: Any) -> Any:
        """Return what the agent is shown of a state."""
        return state if self.features is None else self.features[state]

    def state_name(self, state: Any) -> Any:
        """Return what the user calls a state."""
        return state if self.states is None else self.states[state]

    def action_name(self, action: int) -> Any:
        """Return what the user calls an action."""
        return action if self.actions is None else self.actions[action]

    def read_state(self, what: str, text: str) -> Any:
        """Return a state that is written as text, as in a CSV file or on a command line."""
        if self.states is not None:
            return self.state(what, text)
        return self.state(what, _plain(text))

    def read_action(self, text: str) -> int:
        """Return an action that is written as text."""
        return self.action(text if self.actions is not None else _plain(text))

    def _number(self, what: str, given: Any, names: Any, numbers: dict[str, int]) -> int:
        if isinstance(given, str) and given in numbers:
            return numbers[given]
        near = nearest(given, names) if isinstance(given, str) else None
        hint = f" (did you mean {near!r}?)" if near else ""
        shown = ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
        raise ValueError(f"{what} must be one of {shown}, not {given!r}{hint}")

    def to_tree(self) -> dict[str, Any]:
        """Return all of it as a tree."""
        names = {key: None if (v := getattr(self, key)) is None else list(v) for key in NAMES}
        return {"sizes": to_tree(self.sizes, "problem"), "features": self.features, **names}


NAMES = ("states", "actions")


def labels_in(tree: dict[str, Any]) -> Labels:
    """Return the labels that `to_tree` stored."""
    names = {key: None if tree[key] is None else tuple(tree[key]) for key in NAMES}
    return Labels(from_tree(tree["sizes"]), features=tree["features"], **names)


def labels_of(problem: Any, agent: Agent) -> Labels:
    """Return the labels of a problem that a user gives (see `cpsrl.open`), or raise."""
    networks = isinstance(agent, ValueSampling)
    if isinstance(problem, Labels):
        return problem
    if isinstance(problem, Sizes | FeatureSizes):
        return Labels(problem)
    if isinstance(problem, TabularMDP):
        names = (problem.state_names, problem.action_names)
        if not networks:
            return Labels(sizes_of(problem, agent.label), *names)
        agent.check(problem)
        features = np.asarray(problem.features)
        sizes = FeatureSizes(features.shape[1], problem.n_actions, problem.reward_range)
        return Labels(sizes, *names, features)
    if isinstance(problem, tuple) and len(problem) in (2, 3):
        (n_states, states), (n_actions, actions) = map(_counted, problem, NAMES)
        reward_range = problem[2] if len(problem) == 3 else UNIT_RANGE
        if not networks:
            return Labels(Sizes(n_states, n_actions, reward_range), states, actions)
        if states is not None:
            raise ValueError(
                f"{agent.label} learns from vectors: give how many features they have in place of "
                "the states, as in (4, ['left', 'right']), or an MDP with features"
            )
        return Labels(FeatureSizes(n_states, n_actions, reward_range), None, actions)
    raise ValueError(
        "problem must be (states, actions), each a number or a list of labels, with the range "
        "(low, high) of mean rewards after them if it is not (0, 1), or Sizes, FeatureSizes or a "
        f"TabularMDP, not {problem!r}"
    )


def _counted(given: Any, what: str) -> tuple[int, tuple[str, ...] | None]:
    """Return how many labels there are, and the labels unless only their number is given."""
    if isinstance(given, int | np.integer):
        return int(given), None
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ValueError(f"{what} must be a number or a list of labels, not {given!r}")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
            raise ValueError(f"{what}: a label must be text in one line, not {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what}: the label {twice!r} is there twice")
    return len(names), names


def _plain(text: str) -> Any:
    """Return a number or a list that is written as text; the text itself if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
