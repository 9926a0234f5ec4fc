"""What a durable agent is shown and says: states and actions by label, by number, or as vectors."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from cpsrl.agents import Agent
from cpsrl.agents.agent import sizes_of
from cpsrl.agents.codec import from_tree, to_tree
from cpsrl.mdp import Tabular
from cpsrl.mdp.problem import UNIT_RANGE, FeatureSizes, Sizes, checked_range
from cpsrl.networks import ValueSampling
from cpsrl.support.checks import checked_index, checked_whole
from cpsrl.support.registry import nearest
from cpsrl.support.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Labels:
    """A problem and the names of its states and actions.

    A state is kept as its number, or, where there are no states, as a list of numbers. A label
    keeps its number when others are added or retired; the agent knows those that are left, in
    their order.

    Args:
        sizes: what the agent is started with.
        states: the labels of the states, or None: their numbers.
        actions: likewise.
        features: `(S, N)` what an agent with networks is shown of each state; None where it is
            shown the state itself, and where there are no states.
        gone: the numbers of the states, and of the actions, that were retired.
    """

    sizes: Sizes | FeatureSizes
    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    features: Floats | None = None
    gone: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    n_states: ClassVar[int | None]
    """How many states there are or were; None where observations are vectors."""
    n_actions: ClassVar[int]
    """How many actions there are or were."""
    kept: ClassVar[tuple[Ints, Ints]]
    """The numbers of the agent's states and of its actions."""
    _numbers: ClassVar[tuple[dict[str, int], dict[str, int]]]
    """The numbers of the labels of states, and of actions."""

    def __post_init__(self) -> None:
        n_states, n_actions = self.sizes.n_states, self.sizes.n_actions + len(self.gone[1])
        if self.features is not None:
            n_states = len(self.features)
        elif n_states is not None:
            n_states += len(self.gone[0])
        names = (self.states or (), self.actions or ())
        vars(self).update(
            n_states=n_states,
            n_actions=n_actions,
            kept=(_left(n_states or 0, self.gone[0]), _left(n_actions, self.gone[1])),
            _numbers=tuple({name: i for i, name in enumerate(labels)} for labels in names),
        )

    def state(self, what: str, given: Any) -> Any:
        """Return the number of a state, or a vector as a list; raise if there is no such state."""
        if self.states is not None:
            number = self._number(what, given, self.states, self._numbers[0])
        elif self.n_states is not None:
            number = checked_index(what, given, self.n_states)
        else:
            return self.sizes.checked(what, given).tolist()  # type: ignore[union-attr]
        if self.gone[0]:
            self.shown(number)
        return number

    def action(self, given: Any) -> int:
        """Return the number of an action, or raise if there is no such action."""
        if self.actions is not None:
            number = self._number("action", given, self.actions, self._numbers[1])
        else:
            number = checked_index("action", given, self.n_actions)
        self.shown_action(number)
        return number

    def shown(self, state: Any) -> Any:
        """Return what the agent is shown of a state; raise if it was retired."""
        if self.gone[0]:
            return self._place("state", 0, state, self.state_name)
        return state if self.features is None else self.features[state]

    def shown_action(self, action: int) -> int:
        """Return what the agent calls an action; raise if it was retired."""
        return self._place("action", 1, action, self.action_name) if self.gone[1] else action

    def action_number(self, action: int) -> int:
        """Return the number of what the agent calls an action."""
        return int(self.kept[1][action]) if self.gone[1] else action

    def _place(self, what: str, axis: int, number: int, name: Callable[[int], Any]) -> int:
        if number in self.gone[axis]:
            raise ValueError(f"the {what} {name(number)!r} was retired")
        return int(np.searchsorted(self.kept[axis], number))

    def available(self, state: Any) -> Any:
        """Return which of the agent's actions there are in a state, `(A,)`; None: all."""
        mask = self.sizes.available
        return None if mask is None else mask[self.shown(state) if self.gone[0] else state]

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
        gone = {"gone": [list(numbers) for numbers in self.gone]} if any(self.gone) else {}
        return {"sizes": to_tree(self.sizes, "problem"), "features": self.features, **names, **gone}

    def left(self) -> "Labels":
        """Return the labels without those that were retired."""
        names: dict[str, Any] = {
            key: (v := getattr(self, key)) and tuple(v[i] for i in kept)
            for key, kept in zip(NAMES, self.kept, strict=True)
        }
        return replace(self, gone=((), ()), **names)

    def evolved(self, changes: dict[str, Any]) -> tuple["Labels", Ints, Ints]:
        """Return the labels of a problem that has changed (see `DurableAgent.evolve`).

        And which of the agent's states and of its actions each one was, -1 for what is new.
        """
        names: dict[str, Any]
        sizes, names, gone, were, numbers = self.sizes, {}, [], [], []
        given = any(changes[f"{do}_{what}"] for do in ("add", "retire") for what in NAMES)
        if given and not isinstance(sizes, Sizes):
            raise ValueError("states and actions are added and retired of tables alone")
        for axis, what in enumerate(NAMES):
            known, n = getattr(self, what), (self.n_states or 0, self.n_actions)[axis]
            add, read = changes[f"add_{what}"], (partial(self.state, "state"), self.action)[axis]
            retire = {read(one) for one in changes[f"retire_{what}"]}
            back: set[int] = set()
            if known is None:
                n += checked_whole(f"add_{what}", add or 0)
            elif add:
                if not isinstance(add, tuple | list):
                    raise ValueError(f"add_{what} must be a list of labels, not {add!r}")
                back = {known.index(name) for name in add if name in known} & {*self.gone[axis]}
                fresh = [name for name in add if name not in known or known.index(name) not in back]
                known, n = _counted([*known, *fresh], what)[1], n + len(fresh)
            names[what] = known
            gone.append(tuple(sorted(({*self.gone[axis]} - back) | retire)))
            numbers.append(n)
        if given:
            Sizes(numbers[0], numbers[1])  # raises where there is no room for so many
        for what, n, out, before in zip(NAMES, numbers, gone, self.kept, strict=True):
            left = _left(n, out)
            if not len(left) and (what == "actions" or self.n_states is not None):
                raise ValueError(f"there would be no {what} left")
            place = {number: i for i, number in enumerate(before.tolist())}
            were.append(np.array([place.get(number, -1) for number in left.tolist()], np.int64))
        reward_range = changes["reward_range"] or sizes.reward_range
        if isinstance(sizes, Sizes):
            mask = np.ones((len(were[0]), len(were[1])), np.bool_)
            if sizes.available is not None:
                old = np.ix_(were[0] >= 0, were[1] >= 0)
                mask[old] = sizes.available[np.ix_(were[0][were[0] >= 0], were[1][were[1] >= 0])]
            new: Any = Sizes(*mask.shape, reward_range, mask)
        else:
            new = replace(sizes, reward_range=checked_range(reward_range))
        return replace(self, sizes=new, gone=(gone[0], gone[1]), **names), were[0], were[1]


NAMES = ("states", "actions")


def _left(n: int, gone: tuple[int, ...]) -> Ints:
    """Return the numbers below n that are not gone."""
    if wrong := [i for i in gone if not 0 <= i < n]:
        raise ValueError(f"{wrong[0]} of {n} was retired")
    return np.delete(np.arange(n), list(gone))


def labels_in(tree: dict[str, Any]) -> Labels:
    """Return the labels that `to_tree` stored."""
    names = {key: None if tree[key] is None else _counted(tree[key], key)[1] for key in NAMES}
    states, actions = tree.get("gone", ((), ()))
    sizes, gone = from_tree(tree["sizes"]), (tuple(states), tuple(actions))
    found = Labels(sizes, features=tree["features"], gone=gone, **names)
    for given, n in ((found.states, found.n_states), (found.actions, found.n_actions)):
        if given is not None and len(given) != n:
            raise ValueError(f"there are {len(given)} labels for {n}")
    return found


def labels_of(problem: Any, agent: Agent) -> Labels:
    """Return the labels of a problem that a user gives (see `cpsrl.open`), or raise."""
    networks = isinstance(agent, ValueSampling)
    if isinstance(problem, Labels):
        return problem
    if isinstance(problem, Sizes | FeatureSizes):
        return Labels(problem)
    if isinstance(problem, Tabular):
        names = (problem.state_names, problem.action_names)
        if not networks:
            return Labels(sizes_of(problem, agent.label), *names)
        agent.check(problem)
        features = np.asarray(problem.features)
        known = (features.shape[1], problem.n_actions, problem.reward_range)
        if problem.available is not None:
            return Labels(FeatureSizes(*known, features, problem.available), *names)
        return Labels(FeatureSizes(*known), *names, features)
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
        raise ValueError(f"{what}: the label {twice!r} occurs twice")
    return len(names), names


def _plain(text: str) -> Any:
    """Return a number or a list that is written as text; the text itself if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
