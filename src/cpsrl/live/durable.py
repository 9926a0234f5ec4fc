"""The durable agent: a live agent, and the database from which it can always be rebuilt.

A call checks what it is given, applies it to the agent in memory, and writes the event; when it
returns, the event is on disk (durability "full"), or will be within `commit_every` seconds
("group"). If the disk fails in between, memory is ahead of it and the agent refuses to go on.
"""

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl.agents import Agent
from cpsrl.agents.checkpoint import recipe_in, stored_recipe
from cpsrl.live.apprentice import LEAST, Verdict, check_can_be_one, verdict
from cpsrl.live.at_path import Lock, reading
from cpsrl.live.disk import Disk, uninterrupted
from cpsrl.live.events import (
    Conflict,
    Decided,
    Decision,
    Event,
    Evolution,
    Kind,
    UnknownDecision,
    check_line,
)
from cpsrl.live.explain import Explanation, check_chooses, explain
from cpsrl.live.labels import labels_in, labels_of
from cpsrl.live.logs import Learned, read_log
from cpsrl.live.memory import Memory, check_settings, checked_agent, in_words
from cpsrl.live.options import REMEMBER, Options
from cpsrl.live.schema import Database
from cpsrl.live.totals import Rate, Totals
from cpsrl.support.checks import checked_number
from cpsrl.support.renamed import moved
from cpsrl.support.serialise import DamagedError, canonical, decoding, sealed

log = logging.getLogger("cpsrl")
OWN = "#"
"""The prefix of the ids that the agent chooses itself."""
FIRST_LOOK = 64
"""The number of outcomes after which an apprentice first asks whether it is better."""
MOST_RECENT = 1000
"""The most decisions without an outcome that are kept in memory as well."""
MOST_EXPIRED = 20
"""The most decisions, and streams, that one call ends because their time is up."""


def __getattr__(name: str) -> Any:
    return moved(__name__, name)


class _Call:
    """The context of a call: holds the agent's lock, and checks that the agent can be used."""

    def __init__(self, agent: "DurableAgent", writes: bool) -> None:
        self.agent, self.writes = agent, writes

    def __enter__(self) -> None:
        agent = self.agent
        disk = agent._disk
        if disk.in_child:
            raise disk.refusal()
        if not disk.mutex.acquire(blocking=False):
            begun = time.perf_counter()
            disk.mutex.acquire()
            agent.lock_wait_seconds += time.perf_counter() - begun
        try:
            if disk.why_not or (self.writes and not disk.writable):
                raise disk.refusal()
            if agent._ahead:  # of the disk: what changed it failed before it was written
                agent._load()
        except BaseException:
            disk.mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        self.agent._disk.mutex.release()


class DurableAgent:
    """An agent on disk (see `cpsrl.open`). Its calls may come from any thread of its process.

    To look at: `agent`, the live agent; `labels`; `totals`; `event`, the number of events so far.
    """

    lock_wait_seconds = 0.0
    """For how long its calls have waited for each other."""

    def __init__(
        self,
        database: Database,
        lock: Lock | None,
        spec: Agent | None = None,
        problem: Any = None,
        options: Options | None = None,
    ) -> None:
        self.path, self._database = database.path, database
        options = options or Options()
        about = database.read("about")
        with decoding(self.path):
            self.labels = labels_in(about["problem"])
            self.spec = spec or recipe_in(about["agent"])
            self.options = options.over(about)
        if problem is not None:
            given, here = labels_of(problem, self.spec), self.labels.left()
            if sealed(given.to_tree())[2] != sealed(here.to_tree())[2]:
                raise ValueError(
                    f"{self.path} is the agent of another problem: it has {in_words(self.labels)}"
                )
        self._about = about
        self._load()
        check_settings(self.agent, self.options)
        settings = about | options.stored()
        self._expire_at = 0.0
        self._opened_at = self._clock = time.time()
        group = options.commit_every if options.durability == "group" else None
        self._disk = Disk(database, lock, group)
        self._writing, self._looking = _Call(self, True), _Call(self, False)
        if lock is not None:
            if settings != about:
                with reading(self.path), database.transaction():
                    database.write("about", settings)
                    self._about = settings
                    if settings.get("background") != about.get("background"):
                        self._write_snapshot()  # what is repeated was done under the old one
                        self._load()
            if self._memory.changed:
                self._record(self._event(Kind.VERSIONS, self._memory.changed), snapshot=True)
                self.flush()

    def _load(self) -> None:
        """Rebuild the agent from the snapshot and the events since then.

        A Ctrl-C waits: NumPy makes an error of its own of one that it meets, as if of damage.
        """
        self._ahead = True  # until all of them are in it
        with uninterrupted(), decoding(self.path):
            stored = self._database.read("snapshot")
            before = Options(background=self._about.get("background"))
            self._memory = Memory(self.spec, self.labels, 0, before, stored)
            for event, seal in self._database.events(self.event + 1, self._memory.seal):
                try:
                    self._memory.repeat(event, seal)
                except ValueError as error:
                    why = f"event {event.n} can't be repeated: {error}"
                    raise DamagedError(self.path, why) from None
        self._recent: dict[str, Decided] = {}
        self._since = self.event - stored["event"]
        self._finished = self._database.counted(finished=True)
        self._waiting = self._database.counted(finished=False)
        self._snapshot_at = time.time()
        self._ahead = False

    @property
    def agent(self) -> Any:
        """The live agent."""
        return self._memory.live

    @property
    def totals(self) -> Totals:
        """What happened so far, in numbers."""
        return self._memory.totals

    @property
    def tally(self) -> Totals:
        """The name of `totals` before version 0.3.0."""
        warnings.warn("DurableAgent.tally is now totals", DeprecationWarning, stacklevel=2)
        return self.totals

    @property
    def event(self) -> int:
        """The number of events so far."""
        return self._memory.event

    @property
    def label(self) -> str:
        """What the agent is called."""
        return str(self.agent.spec.label)

    @property
    def resamples(self) -> int:
        """How many models were drawn, by the agent and by its streams."""
        return self._memory.resamples

    @property
    def closed(self) -> bool:
        """Whether the agent was closed, or had to give up."""
        return self._disk.in_child or bool(self._disk.why_not)

    @property
    def drawing(self) -> bool:
        """Whether a policy is being drawn in the background."""
        return bool(getattr(self.agent, "drawing", False))

    @property
    def failed(self) -> bool:
        """Whether it had to give up, since its file could not be written."""
        return self._disk.failed

    def decide(
        self,
        state: Any,
        id: str | None = None,
        stream: str | None = None,
        actions: Sequence[Any] | None = None,
        proposed: Any = None,
    ) -> Decision:
        """Return a decision in `state`: what to do, and the id by which to tell how it went.

        With an `id` of one's own the call may be repeated: it gives the same decision again. With
        the name of a `stream`, such as "shop-3", it is that stream's decision: each has a clock, a
        coin and a drawn model of its own, and all learn as one. A stream begins with its first
        decision.

        `actions` are those that are allowed this time. Where what the agent would do is not one of
        them, a model is drawn for this decision, which takes as long as a resampling, and the best
        of them in it is taken. Agents with a belief and those with networks can do this.

        `proposed` is what somebody else would do; an apprentice does it (`cpsrl.live.Options`).
        """
        with self._writing:
            self._expire()
            number = self.labels.state("state", state)
            allowed = None if actions is None else self._allowed(number, actions)
            if self.options.apprentice and proposed is None:
                raise ValueError("an apprentice does as somebody else: say what, as proposed=")
            taken = self._allowed(number, [proposed]) if self.options.apprentice else allowed
            if allowed is not None and not set(taken or ()) <= set(allowed):
                raise ValueError(f"proposed must be one of actions, not {proposed!r}")
            if id is not None and (known := self._find(id)) is not None:
                if known.state != number:
                    theirs = self.labels.state_name(known.state)
                    raise Conflict(f"decision {id!r} was taken in state {theirs!r}")
                if known.stream != stream:
                    raise Conflict(f"decision {id!r} was taken in the stream {known.stream!r}")
                if allowed is not None and known.action not in allowed:
                    theirs = self.labels.action_name(known.action)
                    raise Conflict(f"decision {id!r} was {theirs!r}, which is not allowed now")
                return Decision(id, self.labels.action_name(known.action))
            if id is not None and id.startswith(OWN):
                raise UnknownDecision(
                    f"there is no decision {id!r}: ids that begin with {OWN} are the agent's"
                )
            self._memory.check_stream(stream, self.options.most_streams)
            if self._waiting >= self.options.most_pending:
                raise ValueError(
                    f"{self._waiting:,} decisions wait for their outcome already: tell or discard "
                    "some, or open the agent with outcome_within= or most_pending="
                )
            id = f"{OWN}{self.event + 1}" if id is None else id
            event = self._event(Kind.DECIDE, id, number, None, None, taken, stream)
            action = self._record(event, self._begin_decision)
            return Decision(id, self.labels.action_name(action))

    def outcome(self, id: str, reward: float, next_state: Any) -> None:
        """Tell how a decision went: the reward, and the state that it led to."""
        with self._writing:
            self._expire()
            known = self._found(id)
            reward = checked_number("reward", reward) + 0.0  # which has no -0.0
            number = self.labels.state("next_state", next_state)
            if known.finished is None:
                event = self._event(Kind.OUTCOME, id, known.state, known.action, reward, number)
                self._record(event, self._end_decision(known))
                n = self.totals.counts["outcomes"]
                if self.options.apprentice and n >= FIRST_LOOK and n & (n - 1) == 0:
                    threading.Thread(target=self._consider, daemon=True).start()
            elif known.reward is None:
                within = self.options.outcome_within
                late = f", as it had no outcome within {within:g} s" if within else ""
                raise Conflict(f"decision {id!r} was discarded{late}")
            elif (known.reward, known.next_state) != (reward, number):
                theirs = self.labels.state_name(known.next_state)
                raise Conflict(
                    f"decision {id!r} had another outcome: reward {known.reward}, next state "
                    f"{theirs!r}"
                )

    def discard(self, id: str) -> None:
        """End a decision that will have no outcome; nothing is undone."""
        with self._writing:
            known = self._found(id)
            if known.finished is None:
                event = self._event(Kind.DISCARD, id, known.state, known.action)
                self._record(event, self._end_decision(known))
            elif known.reward is not None:
                raise Conflict(f"decision {id!r} had an outcome and can't be discarded")

    def act(self, state: Any) -> Any:
        """Return the action in `state`; the same one until `observe` moves time on."""
        with self._writing:
            number, acted = self.labels.state("state", state), self._memory.acted
            if acted is None:
                action = self._record(self._event(Kind.ACT, None, number))
            elif acted[0] == number:
                action = acted[1]
            else:
                action = self.labels.action_number(self.agent.act(self.labels.shown(number)))
            return self.labels.action_name(action)

    def observe(self, state: Any, action: Any, reward: float, next_state: Any) -> None:
        """Learn from a transition and move time on."""
        with self._writing:
            transition = (
                self.labels.state("state", state),
                self.labels.action(action),
                checked_number("reward", reward) + 0.0,
                self.labels.state("next_state", next_state),
            )
            self._record(self._event(Kind.OBSERVE, None, *transition))

    def learn(self, past: Any) -> Learned:
        """Learn from transitions of the past: a `.csv` or `.parquet` file, or rows of them.

        All of them or, if one is wrong, none; and once: the same again is a no-op. The clock stands
        still, so a draw that takes them into account is made when the rule says so. A posterior
        needs to know no propensities as long as the one who chose the actions saw no more than
        the recorded state: see `cpsrl.live.logs`.
        """
        rows = read_log(past, self.labels)
        digest = rows.digest()
        with self._writing:
            if self._database.has_log(digest):
                return Learned(len(rows), False)
            self._ahead = True
            for i, transition in enumerate(rows):
                try:
                    self._memory.learn(*transition)
                except ValueError as error:
                    raise rows.error(i, str(error)) from None
            event = self._event(Kind.LEARN, digest)

            def add_log(event: Event, _: Any) -> None:
                self._database.add_log(digest, event.n, event.at, len(rows))

            self._record(event, add_log, snapshot=True)
            return Learned(len(rows), True)

    def evolve(
        self,
        agent: Agent | None = None,
        *,
        add_states: Any = (),
        retire_states: Sequence[Any] = (),
        add_actions: Any = (),
        retire_actions: Sequence[Any] = (),
        reward_range: tuple[float, float] | None = None,
        forget: bool = False,
        dry_run: bool = False,
    ) -> Evolution:
        """Go on with a problem, or as an agent, that has changed; return what is kept.

        What was seen is kept as counts, by beliefs that are made of them (`Dirichlet`): another
        rule, objective, prior or range takes them over, and labels come and go. Time, coins and
        streams go on, and the next decision draws a model of the new problem. It is one event: all
        of it is on disk, or nothing. A decision that waits and whose state or action was retired
        can be discarded, and nothing else.

        Args:
            agent: what it is from now on; None: as before.
            add_states: labels, also of retired ones that come back; or where states have no
                labels, how many more.
            retire_states: labels, or numbers, of states that will not be met any more.
            add_actions: as `add_states`; where some actions are not available, new ones are.
            retire_actions: those that will not be taken any more.
            reward_range: the new range of the mean rewards.
            forget: whether it may be done where nothing that was learnt can be kept.
            dry_run: return what would be kept, and change nothing.
        """
        changes = {
            **{"add_states": add_states, "retire_states": retire_states},
            **{"add_actions": add_actions, "retire_actions": retire_actions},
            "reward_range": reward_range,
        }
        with self._writing:
            labels, states, actions = self.labels.evolved(changes)
            spec = checked_agent(agent) or self.agent.spec
            as_it_is = sealed(labels.to_tree())[2] == sealed(self.labels.to_tree())[2]
            if as_it_is and spec == self.agent.spec:
                raise ValueError("nothing would change")
            memory, kept = self._memory.evolved(spec, labels, states, actions, self.options)
            found = Evolution(in_words(labels), *kept)
            if dry_run:
                return found
            if kept.seen and not kept.transitions and not forget:
                raise ValueError(f"{found}: to begin anew all the same, give forget=True")
            about = self._about | {
                "agent": stored_recipe(memory.live.spec),
                "problem": labels.to_tree(),
            }
            said = {
                key: list(map(str, value)) if hasattr(value, "__iter__") else value
                for key, value in changes.items()
            }
            event = self._event(Kind.EVOLVE, canonical(said | {"agent": spec.label}).decode())
            row = event.sealed(self._memory.seal, None)

            def write() -> None:
                self._database.add_event(row)
                self._database.write("about", about)
                memory.event, memory.seal = event.n, row[-1]
                self._memory, self._about = memory, about
                self.spec, self.labels = memory.live.spec, labels
                self._write_snapshot()

            self._disk.write(write, commit=True)
            return found

    def verdict(self) -> Verdict:
        """Return how the agent compares with the policy that has acted, from a copy of it."""
        with self._looking:
            check_can_be_one(self.agent)
            rows, columns = self.labels.kept
            visits = self.totals.visits[np.ix_(rows, columns)].copy()
            agent, seed = self.agent.snapshot(), self.event
        return verdict(agent, visits, seed)

    def take_over(self, force: bool = False) -> Verdict:
        """Let an apprentice act by itself, if it is better or by `force`; return how it compares.

        If it is better it keeps to actions that were tried (`cpsrl.live.apprentice`); by `force`,
        also later, it takes any.

        An apprentice asks itself at 64, 128, 256, ... outcomes, in a thread of its own.
        """
        found = self.verdict()
        with self._writing:
            before = self.options.apprentice
            if (before and (found.better or force)) or (force and self._memory.tried is not None):
                about = self._about | {"apprentice": False}
                words = f"better with probability {found.probability}"
                least = None if force else float(LEAST)
                event = self._event(Kind.TAKE_OVER, words, None, None, least)

                def write(*_: object) -> None:
                    self._database.write("about", about)
                    self._about, self.options = about, replace(self.options, apprentice=False)

                self._record(event, write)
                log.warning("the apprentice in %s acts by itself now: %s", self.path, found)
        return found

    def _consider(self) -> None:
        with suppress(ValueError, OSError):  # it was closed meanwhile
            self.take_over()

    def explain(
        self,
        state: Any,
        draws: int | None = None,
        stream: str | None = None,
        stop: threading.Event | None = None,
    ) -> Explanation:
        """Return what the agent believes about `state`, and why it, or a stream of it, acts so.

        `draws` models are drawn from its belief for this, by default 999 and 199 large ones, from a
        copy of it: decisions do not wait. Setting `stop` ends it with a `Stopped`.
        """
        with self._looking:
            memory, number = self._memory, self.labels.state("state", state)
            about = (memory.live, self.labels, memory.totals, number, memory.event)
            explained = explain(*about, draws, stream)
        return explained(stop)

    def pending(self) -> list[str]:
        """Return the ids of the decisions that wait for their outcome, the oldest first."""
        with self._looking:
            return self._database.pending()

    def status(self) -> dict[str, Any]:
        """Return where the agent stands, as a tree of plain values."""
        with self._looking:
            facts = self._memory.facts()
            facts |= {"pending": self._waiting, "apprentice": bool(self.options.apprentice)}
            return {"path": str(self.path), **facts}

    def metrics(self) -> dict[str, Any]:
        """Return where the agent stands, and numbers by which it is watched.

        `cpsrl.live.metrics` says what they are.
        """
        with self._looking:
            now, oldest = time.time(), self._database.oldest(1)
            since = self._since_when(oldest[0].at, now) if oldest else now
            return self._memory.facts() | {
                "pending": self._waiting,
                "oldest_pending_seconds": max(0.0, now - since),
                "resample_seconds": self._memory.resample_seconds,
                "lock_wait_seconds": self.lock_wait_seconds,
                "commits": self._disk.commits,
                "commit_seconds": self._disk.commit_seconds,
                "snapshot_age_seconds": max(0.0, now - self._snapshot_at),
            }

    def rates(self) -> list[Rate]:
        """Return the reward rate over time, in at most 32 stretches."""
        with self._looking:
            return self.totals.rates()

    def check(self) -> None:
        """Raise a `DamagedError` unless every row of the file is what was written.

        Opening looks at what it needs; this reads all of it.
        """
        with self._looking:
            self._database.check()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the file to `path`, where there must be nothing."""
        with self._looking:
            self.flush()
            self._database.backup(Path(path))

    def snapshot(self) -> None:
        """Write a snapshot, so that no event before it need be repeated."""
        with self._writing:
            self._disk.write(self._write_snapshot)

    def flush(self) -> None:
        """Commit everything to disk; with durability "full" it is there already."""
        self._disk.flush()

    def close(self) -> None:
        """Write a snapshot and close the file.

        A call that was cut short has left half of its work in memory, and a snapshot would wait for
        what is being drawn: then what is on disk is enough, and is repeated on opening.
        """
        if self.closed:
            return
        with uninterrupted(), self._disk.mutex:
            if self._disk.why_not:
                return
            current = not self._ahead and not self.drawing
            if self._disk.writable and self._since and current:
                self._disk.write(self._write_snapshot, commit=True)
            self.flush()
            self._disk.end("is closed")

    def __enter__(self) -> "DurableAgent":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.label} in {self.path}, {self.event:,} events>"

    def _allowed(self, state: Any, actions: Any) -> list[int]:
        """Return the numbers of the actions among `actions` that there are in a state."""
        check_chooses(self.agent)
        if isinstance(actions, str) or not isinstance(actions, Sequence):
            raise ValueError(f"actions must be a list of actions, not {actions!r}")
        numbers = sorted({self.labels.action(action) for action in actions})
        there = self.labels.available(state)
        numbers = [n for n in numbers if there is None or there[self.labels.shown_action(n)]]
        if not numbers:
            raise ValueError(f"none of actions is available in {self.labels.state_name(state)!r}")
        return numbers

    def _find(self, id: Any) -> Decided | None:
        """Return the decision `id` if it is known."""
        check_line("id", id)
        return self._recent.get(id) or self._database.decision(id)

    def _found(self, id: Any) -> Decided:
        if (known := self._find(id)) is None:
            raise UnknownDecision(f"decision {id!r} is unknown or long finished")
        return known

    def _event(self, kind: Kind, id: str | None = None, *rest: Any) -> Event:
        """Return an event that is about to happen."""
        return Event(self._memory.event + 1, time.time(), kind, id, *rest)

    def _expire(self) -> None:
        """End the decisions, and forget the streams, whose time is up: some with each call."""
        within, stream_within = self.options.outcome_within, self.options.stream_within
        if within is None and stream_within is None:
            return
        now = time.time()
        if now < self._clock:  # it was set back
            self._opened_at, self._expire_at = now, 0.0
        self._clock = now
        if within is not None and now >= self._expire_at:
            for known in self._database.oldest(MOST_EXPIRED):
                due = self._since_when(known.at, now) + within
                if now < due:
                    self._expire_at = due
                    break
                self._end_late(known)
            else:
                self._expire_at = now + (0.0 if self._waiting else within)
        if stream_within is not None:
            for name, at in list(self._memory.used.items())[:MOST_EXPIRED]:
                if now < self._since_when(at, now) + stream_within:
                    break
                self._record(self._event(Kind.LEAVE)._replace(stream=name), commit=False)
        if self._disk.group is None and self._database.in_transaction:
            self._disk.write(lambda: None, commit=True)

    def _since_when(self, at: float | None, now: float) -> float:
        """Return since when something waits that began at `at`, by a clock that was set back."""
        return at if at is not None and at <= now else self._opened_at

    def _end_late(self, known: Decided) -> None:
        """End a decision that had no outcome in time."""
        taken, end = (known.id, known.state, known.action), self._end_decision(known)
        if self.options.otherwise is not None:
            event = self._event(Kind.OUTCOME, *taken, self.options.otherwise, known.state)
            try:
                self._record(event, end, commit=False)
                return
            except ValueError:  # the agent calls it impossible to stay
                if self.closed:
                    raise
        self._record(self._event(Kind.DISCARD, *taken), end, commit=False)

    def _record(
        self,
        event: Event,
        more: Callable[[Event, Any], None] | None = None,
        snapshot: bool = False,
        commit: bool | None = None,
    ) -> Any:
        """Apply an event and write it, in one transaction with `more`; return its action.

        An outcome that the agent refuses by a ValueError has changed nothing.
        """
        memory, self._ahead = self._memory, True
        try:
            action = memory.apply(event)
        except ValueError:
            self._ahead = event.kind in (Kind.DECIDE, Kind.ACT)
            raise
        row = event.sealed(memory.seal, action)

        def write() -> None:
            self._database.add_event(row)
            if more is not None:
                more(event, action)
            memory.event, memory.seal = event.n, row[-1]
            self._since += 1
            late = self._since - self.options.snapshot_every
            # It would wait for what is being drawn.
            if snapshot or (late >= 0 and (late > self.options.snapshot_every or not self.drawing)):
                self._write_snapshot()

        self._disk.write(write, commit)
        self._ahead = False
        return action

    def _begin_decision(self, event: Event, action: int) -> None:
        """Write the decision that an event is."""
        id: Any = event.id
        new = Decided(id, event.n, event.state, action, stream=event.stream, at=event.at)
        self._database.add_decision(new)
        if len(self._recent) == MOST_RECENT:
            self._recent.clear()
        self._recent[id] = new
        self._waiting += 1

    def _end_decision(self, known: Decided) -> Callable[[Event, Any], None]:
        """Write what has become of a decision, and forget what is too old to be remembered."""

        def end(event: Event, _: Any) -> None:
            id, decided, state, action, *_, stream, at = known
            became = event.n, event.reward, event.next_state
            self._recent.pop(known.id, None)
            self._waiting -= 1
            self._database.finish(Decided(id, decided, state, action, *became, stream, at))
            self._finished += 1
            while self._finished > (self.options.remember or REMEMBER):
                self._database.forget_oldest()
                self._finished -= 1

        return end

    def _write_snapshot(self) -> None:
        self._database.write("snapshot", self._memory.snapshot())
        self._database.end_journal(self.options.journal == "keep")
        self._since, self._snapshot_at = 0, time.time()
