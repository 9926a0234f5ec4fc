"""What happened so far, in bounded memory: counts, rewards over time, the last resamplings.

Rewards are summed in at most BLOCKS blocks of equal numbers of outcomes; when they are all full,
neighbours are joined and the blocks are twice as long.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cpsrl.support.checks import checked_arrays, checked_number, checked_whole
from cpsrl.support.types import Floats, Ints

BLOCKS = 256
GROUP = 8
"""How many blocks make a point of the curve, and its interval by their means."""
MARKS = 64
COUNTS = ("decisions", "outcomes", "discarded", "learned")


class Mark(NamedTuple):
    """A resampling."""

    event: int
    at: float
    decision: int
    """how many decisions were taken before"""
    why: str
    stream: str | None = None
    """whose it was, where it was not the agent's own"""


class Rate(NamedTuple):
    """The reward rate of a stretch of outcomes, and its 95% interval (NaN where there is none)."""

    outcomes: int
    """up to which outcome"""
    at: float
    """when that came"""
    mean: float
    low: float
    high: float


class Totals:
    """Counts (see COUNTS), `blocks` `(BLOCKS, 3)` of number, sum and time, `length`, `marks`.

    `visits` `(S, A)` are how often each pair was learnt from; empty where states are vectors.
    """

    def __init__(self, n_states: int | None, n_actions: int) -> None:
        self.visits: Ints = np.zeros((n_states or 0, n_actions), np.int64)
        self.counts = dict.fromkeys(COUNTS, 0)
        self.reward = 0.0
        self.blocks: Floats = np.zeros((BLOCKS, 3))
        self.length, self.place = 1, 0
        self.marks: list[Mark] = []

    def wider(self, n_states: int | None, n_actions: int) -> "Totals":
        """Return a copy with room for more states and actions."""
        new = Totals(n_states, n_actions)
        before, new.visits = self.visits, np.zeros((n_states or 0, n_actions), np.int64)
        new.restore(self.state() | {"visits": new.visits})
        new.visits[: before.shape[0], : before.shape[1]] = before
        return new

    def visit(self, state: Any, action: int) -> None:
        """Enter a transition that was learnt from."""
        if len(self.visits):
            self.visits[state, action] += 1

    def add(self, reward: float, at: float) -> None:
        """Enter the reward of an outcome."""
        self.counts["outcomes"] += 1
        self.reward += reward
        block = self.blocks[self.place]
        block[0] += 1.0
        block[1] += reward
        block[2] = at
        if block.item(0) == self.length:
            self.place += 1
            if self.place == BLOCKS:
                pairs = self.blocks.reshape(BLOCKS // 2, 2, 3)
                self.blocks = np.zeros((BLOCKS, 3))
                self.blocks[: BLOCKS // 2, :2] = pairs[:, :, :2].sum(axis=1)
                self.blocks[: BLOCKS // 2, 2] = pairs[:, 1, 2]
                self.length, self.place = 2 * self.length, BLOCKS // 2

    def mark(self, event: int, at: float, why: str, stream: str | None = None) -> None:
        """Enter a resampling."""
        new = Mark(event, at, self.counts["decisions"], why, stream)
        self.marks = [*self.marks, new][-MARKS:]

    def rates(self) -> list[Rate]:
        """Return the reward rate over time, by batch means: consecutive rewards are
        correlated, so the interval is that of the means of GROUP stretches of equal length.
        """
        from scipy import stats

        found, full = [], self.blocks[: self.place]
        for first in range(0, len(full), GROUP):
            part = full[first : first + GROUP]
            means = part[:, 1] / part[:, 0]
            mean, n = float(part[:, 1].sum() / part[:, 0].sum()), len(part)
            half = math.nan
            if n == GROUP:
                half = float(stats.t.ppf(0.975, n - 1) * means.std(ddof=1) / math.sqrt(n))
            outcomes = int((first + n) * self.length)
            found.append(Rate(outcomes, float(part[-1, 2]), mean, mean - half, mean + half))
        return found

    def state(self) -> dict[str, Any]:
        """Return all of it as a tree."""
        numbers = {"reward": self.reward, "length": self.length, "place": self.place}
        return {
            "counts": dict(self.counts),
            "blocks": self.blocks.copy(),
            "visits": self.visits.copy(),
            "marks": [list(mark) for mark in self.marks],
            **numbers,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called."""
        self.counts = {name: checked_whole(name, state["counts"][name]) for name in COUNTS}
        mine = {"blocks": self.blocks, "visits": self.visits}
        self.blocks, self.visits = checked_arrays("totals", state, mine).values()
        self.marks = [_checked(Mark(*mark)) for mark in state["marks"]]
        self.reward = checked_number("reward", state["reward"])
        self.length = checked_whole("length", state["length"], 1)
        self.place = checked_whole("place", state["place"], 0, BLOCKS - 1)


def _checked(mark: Mark) -> Mark:
    whole = all(isinstance(number, int) for number in (mark.event, mark.decision))
    text = all(isinstance(word, str) for word in (mark.why, mark.stream or ""))
    if not (whole and text and isinstance(mark.at, float)):
        raise ValueError(f"a stored resampling is damaged: {mark}")
    return mark
