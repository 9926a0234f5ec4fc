"""What happens to a durable agent: its events, the decisions that they make, and their seals.

A seal is a CRC-32 of a row, an event's together with the seal before it: it tells damage, not
forgery. States and actions are numbers here; where observations are vectors, a state is a list.
"""

import json
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

MOST_ID = 200


class UnknownDecision(ValueError):
    """There is no decision of that id, or it was finished long ago."""


class Conflict(ValueError):
    """The id was used for something else."""


class NotOpen(ValueError):
    """The agent can't be asked: it is closed, or could not be written, or is another process's."""


class Kind(StrEnum):
    """The kinds of events, as they are called in the database."""

    DECIDE = "decide"
    OUTCOME = "outcome"
    DISCARD = "discard"
    ACT = "act"
    OBSERVE = "observe"
    LEARN = "learn"
    VERSIONS = "versions"
    LEAVE = "leave"
    EVOLVE = "evolve"
    TAKE_OVER = "take over"


@dataclass(frozen=True)
class Decision:
    """A decision: its `id`, by which its outcome is told, and the `action` to take."""

    id: str
    action: Any


@dataclass(frozen=True)
class Evolution:
    """What an agent keeps that goes on with a problem, or as an agent, that has changed.

    Attributes:
        problem: the new one, in words.
        transitions: how many transitions are kept, or their weight where evidence fades.
        seen: of how many.
        streams: how many streams go on.
        lost: in words, what can't be kept.
    """

    problem: str
    transitions: float
    seen: float
    streams: int
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        kept = f"{self.problem}; {self.transitions:,.0f} of {self.seen:,.0f} transitions are kept"
        if self.streams:
            kept += f", and {self.streams:,} streams"
        return f"{kept}; lost: {'; '.join(self.lost)}" if self.lost else kept


class Event(NamedTuple):
    """An event: its number, its time in seconds since 1970, and what it has of the rest."""

    n: int
    at: float
    kind: Kind
    id: str | None = None
    state: Any = None
    action: int | None = None
    reward: float | None = None
    next_state: Any = None
    stream: str | None = None

    def sealed(self, before: int, action: int | None) -> tuple[Any, ...]:
        """Return the row, then its seal; `before` is the seal of the event before this one."""
        n, at, kind, id, state, _, reward, next_state, stream = self
        row = n, at, kind.value, id, in_text(state), action, reward, in_text(next_state), stream
        return *row, seal_of(row, 8, before)


class Decided(NamedTuple):
    """A decision as it is remembered; `decided` and `finished` are numbers of events."""

    id: str
    decided: int
    state: Any
    action: int
    finished: int | None = None
    reward: float | None = None
    next_state: Any = None
    stream: str | None = None
    at: float | None = None

    def sealed(self) -> tuple[Any, ...]:
        """Return the row, then its seal."""
        id, decided, state, action, finished, reward, next_state, *later = self
        row = id, decided, in_text(state), action, finished, reward, in_text(next_state), *later
        return *row, seal_of(row, 7)


def seal_of(row: tuple[Any, ...], first: int, before: int = 0) -> int:
    """Return the CRC-32 of a row, without its seal, that follows one that was sealed by `before`.

    The columns after the `first` so many were added by later schemas: they count up to the last one
    that holds something.
    """
    while len(row) > first and row[-1] is None:
        row = row[:-1]
    return zlib.crc32(repr(row).encode(), before)


def in_text(value: Any) -> Any:
    """Return a state as its column holds it: a number, or a vector as JSON."""
    return json.dumps(value) if isinstance(value, list) else value


def from_text(value: Any) -> Any:
    """Return the state that `in_text` wrote."""
    return json.loads(value) if isinstance(value, str) else value


def check_line(what: str, given: Any) -> None:
    """Raise a ValueError unless an id or a name that is `given` is a short line of text."""
    if not isinstance(given, str) or not 0 < len(given) <= MOST_ID or not given.isprintable():
        raise ValueError(f"{what} must be a line of at most {MOST_ID} characters, not {given!r}")
