"""Transitions of the past: files and rows that an agent learns from.

    state, action, reward [, next_state]

as `.csv` or `.parquet`, one transition a line, labels as text. Without `next_state` the lines are
in the order of time, the next line's state is the next state, and the last line only says where the
one before it led. Where observations are vectors, a state is a JSON list.

The probabilities with which actions were chosen, the propensities, are not needed. Given the model,
the likelihood of a log is

    prod over t of  b_t(a_t | what the chooser knew)  p(r_t, s_(t+1) | s_t, a_t) ,

and the posterior of the model is that of the second factors alone as long as the first ones do not
depend on the model but through what is recorded: whoever chose saw nothing of what is to come, and
nothing that moves rewards or next states, but the recorded state. A clerk who looks at the weather,
where the weather moves demand and is not in the state, breaks this, with or without propensities.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl.live.labels import Labels
from cpsrl.mdp.transition_tables import Table, csv_table, parquet_table
from cpsrl.support.checks import check_unpacked, checked_number, count

NEEDED = ("state", "action", "reward")
COLUMNS = (*NEEDED, "next_state")
ROW_BYTES = 200.0
"""What a transition takes while it is checked and learnt from."""


@dataclass(frozen=True)
class Learned:
    """How many transitions a log has, and whether they are `new`: the same log twice is a no-op."""

    transitions: int
    new: bool

    def __str__(self) -> str:
        if self.new:
            return f"learnt from {count(self.transitions, 'transition')}"
        return f"learnt nothing: these {self.transitions:,} transitions were learnt from before"


@dataclass(frozen=True)
class Log:
    """Transitions, checked, with states and actions by their numbers."""

    states: list[Any]
    actions: list[int]
    rewards: list[float]
    next_states: list[Any]
    place: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.states)

    def __iter__(self) -> Iterator[tuple[Any, int, float, Any]]:
        return zip(self.states, self.actions, self.rewards, self.next_states, strict=True)

    def error(self, i: int, complaint: str) -> ValueError:
        """Return the error for a complaint about transition `i`."""
        return ValueError(f"{self.place(i)}: {complaint}")

    def digest(self) -> str:
        """Return the SHA-256 of the transitions, however they were written."""
        return hashlib.sha256(repr(list(self)).encode()).hexdigest()


def read_log(past: Any, labels: Labels) -> Log:
    """Return the transitions of a `.csv` or `.parquet` file, or of rows, or raise.

    Rows are mappings with the columns' names, or tuples in their order.
    """
    if not isinstance(past, str | os.PathLike):
        return _from_rows(past, labels)
    path = Path(past)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{path}: a log is a .csv or .parquet file, not {suffix!r}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        if suffix == ".parquet":
            table = parquet_table(path, NEEDED, COLUMNS)
        else:
            table = csv_table(path, NEEDED, COLUMNS)
        check_unpacked(path, ROW_BYTES * table.table.num_rows)
        log = _from_table(table, labels)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return replace(log, place=lambda i: f"{path}: {table.place(i)}")


def _from_table(table: Table, labels: Labels) -> Log:
    rewards = table.numbers("reward").tolist()
    actions = _read(table, "action", labels.read_action)

    def states(column: str) -> list[Any]:
        return _read(table, column, lambda text: labels.read_state(column, text))

    next_states = states("next_state") if "next_state" in table else None
    return _log(states("state"), actions, rewards, next_states, table.place)


def _read(table: Table, column: str, read: Callable[[str], Any]) -> list[Any]:
    """Return what the labels of a column stand for, line by line; each label is read once."""
    codes, words = table.labels(column)
    found = []
    for code, word in enumerate(words):
        try:
            found.append(read(word))
        except ValueError as error:
            raise table.error(np.argmax(codes == code), str(error)) from None
    return [found[code] for code in codes.tolist()]


def _from_rows(rows: Any, labels: Labels) -> Log:
    if isinstance(rows, dict) or not isinstance(rows, Sequence):
        raise ValueError(f"a log is a .csv or .parquet file or a list of rows, not {rows!r}")
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for i, row in enumerate(rows):
        try:
            if isinstance(row, list | tuple):
                row = dict(zip(COLUMNS, row, strict=False)) if len(row) <= 4 else {}
            if not isinstance(row, dict) or not set(NEEDED) <= set(row) <= set(COLUMNS):
                raise ValueError(f"it must have {', '.join(COLUMNS)}, the last if all have it")
            columns["state"].append(labels.state("state", row["state"]))
            columns["action"].append(labels.action(row["action"]))
            columns["reward"].append(checked_number("reward", row["reward"]))
            if "next_state" in row:
                columns["next_state"].append(labels.state("next_state", row["next_state"]))
            if len(columns["next_state"]) not in (0, i + 1):
                raise ValueError("either all rows have a next_state or none has")
        except ValueError as error:
            raise ValueError(f"row {i + 1}: {error}") from None
    next_states = columns["next_state"] or None
    parts = (columns["state"], columns["action"], columns["reward"], next_states)
    return _log(*parts, lambda i: f"row {i + 1}")


def _log(
    states: list[Any],
    actions: list[int],
    rewards: list[float],
    next_states: list[Any] | None,
    place: Callable[[int], str],
) -> Log:
    if next_states is None:
        next_states = states[1:]
        states, actions, rewards = states[:-1], actions[:-1], rewards[:-1]
    if not states:
        raise ValueError("there is no transition in it")
    checked = [checked_number("reward", reward) + 0.0 for reward in rewards]
    return Log(states, actions, checked, next_states, place)
