"""MDPs in the explicit format of the model checker Storm, `.drn`: in and out.

A file has a head, and then every state with its actions and every action with its transitions:

    @type: MDP
    @reward_models
    cost profit
    @nr_states
    2
    @nr_choices
    3
    @model
    state 0 [0, 5] init
            action go [1, 0]
                    0 : 0.5
                    1 : 0.5
            action wait [0, 0]
                    ...

The numbers in brackets are rewards, one of each reward model: the state's are paid whatever the
action, the action's beside them. Files with several need the name of one. Types are MDP and DTMC,
which has one action in every state. Numbers may be fractions.

- Where all actions of the file are numbers or names, each at most once in a state, these are the
  actions of the model, and a state that does not have one of them has it not available. Where some
  state has a name twice, or choices without one, actions are numbered within each state.
- Where every state has one label of its own, beside `init` and `deadlock`, these are the states'
  names.
- Several initial states count as equally likely.

DRN has means of rewards alone, one initial state, and no place for features: an MDP with noise,
rewards that differ by successor, features, a range that its rewards do not fill, or random first
states is refused. So are names of actions that would be read as numbers. Spaces in the names
of actions are written as `_`, numbers with as many digits as bring back the same float. Storm
itself writes ten, and to read such a file may need `normalise`.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy

from cpsrl.mdp.transition_tables import (
    ROW_SUM_TOLERANCE,
    check_no_numbers,
    check_pairs,
    dense_if_small,
    numbered,
    wrong_sum,
)
from cpsrl.support.checks import shortened, shown
from cpsrl.support.registry import unknown
from cpsrl.support.types import Ints

REWARDS = "reward"
"""What the reward model is called in files that are written here."""
DIGITS = 19
"""Numbers of states and choices have fewer."""
UNNAMED = "__NOLABEL__"
TYPES = ("MDP", "DTMC")
_HEAD = ("@parameters", "@reward_models", "@nr_states", "@nr_choices")
_LABEL = re.compile(r'"([^"]+)"|([^\s"]+)')


def write_drn(mdp: Any, file: IO[bytes]) -> None:
    """Write `mdp` to an open `.drn` file."""
    own_range = (float(mdp.rewards.min()), float(mdp.rewards.max()))
    for what, found in [
        ("features", mdp.features is not None),
        ("rewards that differ by successor", mdp.transition_rewards is not None),
        ("noisy rewards", mdp.noise != 0.0),
        ("random first states", isinstance(mdp.initial, np.ndarray)),
        ("a range that is not that of the rewards", mdp.reward_range != own_range),
    ]:
        if found:
            raise ValueError(f"a .drn file has no room for {what}; write a .npz file instead")
    available = np.ones(mdp.rewards.shape, np.bool_) if mdp.available is None else mdp.available
    states = _writable("state", mdp.state_names, r'["\r\n]|^init$|^deadlock$')
    names = mdp.action_names and tuple("_".join(name.split()) for name in mdp.action_names)
    if names and len(set(names)) < len(names):
        raise ValueError("without spaces, actions have the same name; write a .npz file instead")
    actions = _writable("action", names, r"\[|^__NOLABEL__$")
    used = np.flatnonzero(available.any(axis=0))
    check_no_numbers("action", [actions[a] for a in used if actions], "a .drn file")
    actions = actions or [str(a) for a in range(mdp.n_actions)]
    head = ["@type: MDP", "@value_type: double", "@parameters", "", "@reward_models", REWARDS]
    head += ["@nr_states", str(mdp.n_states), "@nr_choices", str(available.sum()), "@model"]
    file.write(("\n".join(head) + "\n").encode())
    matrix = mdp.csr
    for s in range(mdp.n_states):
        labels = ["init"] * (s == mdp.initial) + [f'"{name}"' for name in states[s : s + 1]]
        lines = [" ".join([f"state {s} [0]", *labels])]
        for a in np.flatnonzero(available[s]):
            lines.append(f"\taction {actions[a]} [{float(mdp.rewards[s, a])!r}]")
            entries = slice(*matrix.indptr[s * mdp.n_actions + a :][:2])
            both = zip(matrix.indices[entries], matrix.data[entries], strict=True)
            lines += [f"\t\t{after} : {float(chance)!r}" for after, chance in both if chance]
        file.write(("\n".join(lines) + "\n").encode())


def _writable(what: str, names: tuple[str, ...] | None, refused: str) -> list[str]:
    """Return names that can stand in a file; raise for one that cannot."""
    for name in names or ():
        if not name or re.search(refused, name):
            raise ValueError(
                f"the {what} name {name!r} can't stand in a .drn file; write a .npz file instead"
            )
    return list(names or ())


@dataclass
class _Choice:
    """An action of a state, as the lines of a model have it."""

    state: int
    action: str
    reward: float
    line: int
    successors: list[int] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)


def read_drn(
    path: Path, normalise: bool, missing_unavailable: bool, reward_model: str | None = None
) -> dict[str, Any]:
    """Return the arguments of the MDP of a `.drn` file.

    Actions that a state does not have are not available there, whatever is said of missing ones.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = enumerate((line.strip() for line in file), start=1)
        used = ((i, line) for i, line in lines if not line.startswith("//"))
        head = _head_of(used)
        names = head["@reward_models"].split()
        which = _reward_model(names, reward_model)
        labels, choices = _choices_of(used, which, len(names), int(head["@nr_states"] or 0))
    found = (len(labels), len(choices))
    for key, n in zip(("@nr_states", "@nr_choices"), found, strict=True):
        if head[key] and int(head[key]) != n and (key == "@nr_states" or head["@type:"] != "DTMC"):
            raise ValueError(f"{key} is {head[key]}, and the file has {n}")
    return _arguments_of(labels, choices, path, normalise)


def _head_of(lines: Iterator[tuple[int, str]]) -> dict[str, str]:
    """Return what stands before `@model`, by its key."""
    head = dict.fromkeys(("@type:", *_HEAD), "")
    for number, line in lines:
        key, _, rest = line.partition(" ")
        if line == "@model":
            if head["@type:"] not in TYPES:
                raise ValueError(
                    f"the model is of type {shortened(head['@type:']) or 'none'}, and only "
                    f"{' and '.join(TYPES)} can be read"
                )
            if head["@parameters"]:
                raise ValueError(f"the model has parameters: {shortened(head['@parameters'])}")
            return head
        if key == "@type:":
            head[key] = rest.strip().upper()
        elif key == "@value_type:":
            if rest.strip() not in ("double", "rational"):
                raise ValueError(
                    f"line {number}: values of the type {shortened(rest)} cannot be read"
                )
        elif line in _HEAD:
            number, head[line] = next(lines, (number, ""))
            if line.startswith("@nr") and _whole(head[line]) is None:
                raise ValueError(f"line {number}: {line} must be a number, not {shown(head[line])}")
        elif line:
            raise ValueError(f"line {number}: {shown(line)} is not part of the head of a .drn file")
    raise ValueError("there is no line '@model' in it")


def _reward_model(names: list[str], asked: str | None) -> int:
    """Return which of the reward models is meant."""
    if not names:
        raise ValueError("it has no reward model, and so there is nothing to plan for")
    if asked is None and len(names) > 1:
        raise ValueError(
            f"it has the reward models {shortened(', '.join(names))}: choose one with "
            "reward_model=NAME (--reward-model NAME)"
        )
    if asked is not None and asked not in names:
        raise unknown("reward model", asked, names)
    return 0 if asked is None else names.index(asked)


def _choices_of(
    lines: Iterator[tuple[int, str]], which: int, n_rewards: int, n_states: int
) -> tuple[list[list[str]], list[_Choice]]:
    """Return the labels of all states, and their choices with rewards of the model `which`."""
    labels: list[list[str]] = []
    choices: list[_Choice] = []
    state_reward, open_ = 0.0, False
    for number, line in lines:
        try:
            if line.startswith("state "):
                own, _, rest = line[6:].partition(" ")
                if own != str(len(labels)):
                    raise ValueError(f"state {len(labels)} should stand here")
                state_reward, rest = _reward(rest, which, n_rewards)
                labels.append([a or b for a, b in _LABEL.findall(rest)])
                open_ = False
            elif line.startswith("action ") and labels:
                name, _, rest = line[7:].partition(" ")
                reward = state_reward + _reward(rest, which, n_rewards)[0]
                choices.append(_Choice(len(labels) - 1, name, reward, number))
                open_ = True
            elif line:
                target, colon, chance = (part.strip() for part in line.partition(":"))
                if not colon or not labels:
                    raise ValueError("this is no state, action or transition")
                if not open_:  # the only choice of a state of a chain
                    choices.append(_Choice(len(labels) - 1, UNNAMED, state_reward, number))
                    open_ = True
                chances = choices[-1].chances
                choices[-1].successors.append(_state(target, n_states))
                chances.append(_number(chance))
                if not 0 <= chances[-1] <= 1 + ROW_SUM_TOLERANCE:
                    raise ValueError(f"the probability {chances[-1]!r} is not in [0, 1]")
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return labels, choices


def _reward(text: str, which: int, n_rewards: int) -> tuple[float, str]:
    """Return one of the rewards in brackets, 0 if there are none, and the text behind them."""
    text = text.strip()
    if not text.startswith("["):
        return 0.0, text
    inside, closed, rest = text[1:].partition("]")
    values = inside.split(",")
    if not closed or len(values) != n_rewards:
        raise ValueError(f"[{shortened(inside)}] is not a reward for each reward model")
    return _number(values[which]), rest


def _whole(text: str) -> int | None:
    """Return a whole number of at least 0, None for what is none or as large as no size is."""
    return int(text) if text.isdecimal() and len(text) < DIGITS else None


def _state(text: str, n_states: int) -> int:
    """Return a state by its number."""
    if (state := _whole(text)) is None or state >= n_states:
        raise ValueError(f"there is no state {shortened(text)}")
    return state


def _number(text: str) -> float:
    """Return a finite number, which may be a fraction."""
    try:
        value = float(Fraction(text.strip())) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{shown(text.strip())} is not a number that can be read here")
    return value


def _arguments_of(
    labels: list[list[str]], choices: list[_Choice], path: Path, normalise: bool
) -> dict[str, Any]:
    """Return the arguments of the MDP."""
    state, n_states = np.array([one.state for one in choices], np.int64), len(labels)
    without = np.setdiff1d(np.arange(n_states), state)
    if not n_states or without.size:
        where = f"state {without[0]} has" if without.size else "it has no state, and so"
        raise ValueError(f"{where} no action: a process that never ends needs one everywhere")
    action, names = _actions_of(choices, state)
    n_actions = int(action.max()) + 1
    check_pairs(path, n_states, n_actions)
    sums = np.array([math.fsum(one.chances) for one in choices])
    if wrong := wrong_sum(sums, normalise):
        i, said = wrong
        raise ValueError(f"line {choices[i].line}: the probabilities {said}")
    rows = np.repeat(state * n_actions + action, [len(one.chances) for one in choices])
    successors = np.array([s for one in choices for s in one.successors], np.int64)
    chances = np.array([chance for one in choices for chance in one.chances])
    shape = (n_states * n_actions, n_states)
    matrix = scipy.sparse.csr_array((chances, (rows, successors)), shape=shape)
    rewards, available = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions), np.bool_)
    rewards[state, action], available[state, action] = [one.reward for one in choices], True
    first = [s for s, own in enumerate(labels) if "init" in own] or [0]
    return {
        "transitions": dense_if_small(matrix),
        "rewards": rewards,
        "available": None if available.all() else available,
        "initial": first[0] if len(first) == 1 else np.isin(range(n_states), first) / len(first),
        "state_names": _state_names(labels),
        "action_names": names,
        "name": path.stem,
    }


def _actions_of(choices: list[_Choice], state: Ints) -> tuple[Ints, tuple[str, ...] | None]:
    """Return the number of every choice's action, and the actions' names if they have some."""
    words = list(dict.fromkeys(one.action for one in choices))
    if UNNAMED in words or len({(one.state, one.action) for one in choices}) < len(choices):
        return np.arange(len(state)) - np.searchsorted(state, state), None
    numbers, names = numbered(tuple(words))
    number = dict(zip(words, numbers, strict=True))
    return np.array([number[one.action] for one in choices]), names


def _state_names(labels: list[list[str]]) -> tuple[str, ...] | None:
    """Return the states' labels if each has one of its own, or None."""
    own = [[word for word in some if word not in ("init", "deadlock")] for some in labels]
    if any(len(some) != 1 for some in own):
        return None
    names = tuple(some[0] for some in own)
    return names if len(set(names)) == len(names) else None
