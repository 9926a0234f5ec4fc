"""How a durable agent is kept on disk."""

import math
from dataclasses import dataclass, replace
from typing import Any

from cpsrl.support.checks import checked_number, checked_whole, checked_word

DURABILITIES = ("full", "group")
JOURNALS = ("drop", "keep")
REMEMBER = 100_000
KEPT = ("journal", "remember", "background", "stream_within", "apprentice")
"""What is kept in the file as it is given."""


@dataclass(frozen=True)
class Options:
    """How an agent is kept on disk.

    Args:
        durability: "full": a call returns when what it did is on disk. "group": it may be lost if
            the process is killed within `commit_every` seconds; a program that ends loses nothing.
        commit_every: how often "group" writes to the disk.
        journal: "drop" (as a new agent does) forgets the events before the last snapshot, "keep"
            keeps them all; None leaves it as it is.
        remember: how many finished decisions to recognise when they are reported again (of a new
            agent 100,000); None leaves it as it is.
        snapshot_every: the number of events from one snapshot to the next, which bounds what is
            repeated when the agent is opened; at most twice as many while a policy is drawn.
        outcome_within: after so many seconds a decision without an outcome is ended, with the next
            call: it is discarded, or has the reward `otherwise` and no change of state. None
            leaves it as it is (of a new agent, decisions wait for ever); math.inf is for ever.
        otherwise: the reward of a decision that had no outcome in time; None discards it.
        stream_within: a stream that has not decided for so many seconds is forgotten, with the next
            decision of a stream; it begins anew if it comes back. None: it is kept.
        most_streams: how many streams there may be.
        most_pending: how many decisions may wait for their outcome.
        background: after how many steps a new policy begins. 0: the step that draws it waits for
            it. Otherwise it is drawn meanwhile, from the belief of the step at which the rule asked
            for it, and the policy before goes on acting; where it is not ready in time, that step
            waits. The first one is drawn at once. For tables and rules that do not look at the
            data. None leaves it as it is (of a new agent, 0).
        apprentice: whether the agent does what is `proposed` with each decision, and learns from
            it, until it is better (`cpsrl.live.apprentice`). None leaves it as it is (of a new
            agent, False).
    """

    durability: str = "full"
    commit_every: float = 0.05
    journal: str | None = None
    remember: int | None = None
    snapshot_every: int = 2000
    outcome_within: float | None = None
    otherwise: float | None = None
    stream_within: float | None = None
    most_streams: int = 1000
    most_pending: int = 1_000_000
    background: int | None = None
    apprentice: bool | None = None

    def __post_init__(self) -> None:
        checked_word("durability", self.durability, DURABILITIES)
        checked_number("commit_every", self.commit_every, 0.001, 3600)
        checked_whole("snapshot_every", self.snapshot_every, 1)
        if self.journal is not None:
            checked_word("journal", self.journal, JOURNALS)
        if self.remember is not None:
            checked_whole("remember", self.remember, 1)
        for name in ("outcome_within", "stream_within"):
            if (seconds := getattr(self, name)) is not None and seconds != math.inf:
                checked_number(name, seconds, 0.001)
        if self.otherwise is not None:
            checked_number("otherwise", self.otherwise)
            if self.outcome_within is None:
                raise ValueError("otherwise is the reward after outcome_within: give that as well")
        checked_whole("most_streams", self.most_streams, 1)
        checked_whole("most_pending", self.most_pending, 1)
        if self.background is not None:
            checked_whole("background", self.background, 0, 1_000_000)

    def over(self, stored: dict[str, Any]) -> "Options":
        """Return these options with those of a file where they leave it as it is."""
        kept: dict[str, Any]
        kept = {name: stored.get(name) for name in KEPT if getattr(self, name) is None}
        if self.outcome_within is None and stored.get("deadline") is not None:
            kept["outcome_within"], kept["otherwise"] = stored["deadline"]
        new = replace(self, **kept)
        return replace(new, outcome_within=None) if new.outcome_within == math.inf else new

    def stored(self) -> dict[str, Any]:
        """Return what is kept in the file, where it is given."""
        given = {name: getattr(self, name) for name in KEPT}
        if self.outcome_within is not None:
            given["deadline"] = [self.outcome_within, self.otherwise]
        return {key: value for key, value in given.items() if value is not None}
