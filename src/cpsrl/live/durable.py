"""The durable agent: a live agent, and the database that it can always be had from again.

A call checks what it is given, applies it to the live agent in memory, and writes the event; when
it returns, the event is on disk (durability "full"), or will be within `commit_every` seconds
("group"). If the disk fails in between, memory is ahead of it and the agent refuses to go on.
"""

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from cpsrl.agents import Agent, Fleet
from cpsrl.agents.saved import recipe_in, stored_recipe
from cpsrl.checks import checked_number, checked_whole, checked_word, count
from cpsrl.experiments.provenance import PACKAGES, Provenance, provenance
from cpsrl.live import schema
from cpsrl.live.labels import Labels, labels_in, labels_of
from cpsrl.live.logs import Learned, read_log
from cpsrl.live.tally import Rate, Tally
from cpsrl.seeding import Streams
from cpsrl.trees import DamagedError, sealed

if TYPE_CHECKING:
    from cpsrl.live.explain import Explanation

DURABILITIES = ("full", "group")
JOURNALS = ("drop", "keep")
REMEMBER = 100_000
OWN = "#"
"""What the ids begin with that the agent gives itself."""
MOST_ID = 200

INSERT_EVENT = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_DECISION = "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
FINISH = "UPDATE decisions SET finished = ?, reward = ?, next_state = ?, seal = ? WHERE id = ?"
FORGET = (
    "DELETE FROM decisions WHERE finished = "
    "(SELECT min(finished) FROM decisions WHERE finished IS NOT NULL)"
)


class UnknownDecision(ValueError):
    """There is no decision of that id, or it was finished long ago."""


class Conflict(ValueError):
    """The id was used for something else."""


@dataclass(frozen=True)
class Decision:
    """A decision: its `id`, by which its outcome is told, and the `action` to take."""

    id: str
    action: Any


@dataclass(frozen=True)
class _Known:
    """A row of the table of decisions."""

    id: str
    decided: int
    state: Any
    action: int
    finished: int | None
    reward: float | None
    next_state: Any
    stream: str | None

    def row(self) -> tuple[Any, ...]:
        """Return the columns before the seal."""
        return tuple(vars(self).values())[:-1]

    @property
    def seal(self) -> int:
        return schema.seal_of(self.row(), stream=self.stream)


def open(
    path: str | os.PathLike[str],
    agent: Agent | None = None,
    problem: Any = None,
    *,
    seed: int = 0,
    durability: str = "full",
    commit_every: float = 0.05,
    journal: str | None = None,
    remember: int | None = None,
    snapshot_every: int = 2000,
) -> "DurableAgent":
    """Make a durable agent, or open the one that is there; one process at a time may have it.

    Args:
        path: the SQLite file.
        agent: what it is, such as `cpsrl.ContinuingPSRL()`; None takes that of the file.
        problem: `(states, actions)`, each a list of labels or a number, and after them the range
            `(low, high)` of the mean rewards where it is not (0, 1); or `Sizes`, `FeatureSizes`, or
            a `TabularMDP`, of which it gets labels, sizes and range and not the model. None takes
            that of the file.
        seed: the root seed of a new agent.
        durability: "full": a call returns when what it did is on disk. "group": it may be lost if
            the process is killed within `commit_every` seconds; a program that ends loses nothing.
        commit_every: how often "group" writes to the disk.
        journal: "drop" (as a new agent does) forgets the events before the last snapshot, "keep"
            keeps them all.
        remember: how many finished decisions to recognise when they are told of again (100,000).
        snapshot_every: the number of events from one snapshot to the next, which bounds what is
            repeated when the agent is opened.
    """
    path = Path(path)
    if str(path) == ":memory:":
        raise ValueError("a durable agent is a file; cpsrl.start gives one in memory")
    checked_word("durability", durability, DURABILITIES)
    seconds = checked_number("commit_every", commit_every, 0.001, 3600)
    every = checked_whole("snapshot_every", snapshot_every, 1)
    if journal is not None:
        checked_word("journal", journal, JOURNALS)
    if remember is not None:
        remember = checked_whole("remember", remember, 1)
    if agent is not None and not isinstance(agent, Agent):
        raise ValueError(f"agent must be one such as cpsrl.ContinuingPSRL(), not {agent!r}")
    if isinstance(agent, Fleet) and agent.n > 1:
        raise ValueError(
            "a durable agent has streams by name, as many as there are: open it as "
            f"{agent.one.label} and give decide(state, stream=...) their names"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    if not path.exists() and (agent is None or problem is None):
        raise FileNotFoundError(
            f"there is no agent at {path}: give the agent and its problem to make one, or make it "
            "with `cpsrl agent new`"
        )
    beginning = None
    if not path.exists() and agent is not None:
        beginning = _beginning(agent, problem, seed)  # mistakes are found before there is a file
    writer = schema.Writer(path)
    try:
        if schema.is_new(path):
            if agent is None or problem is None:
                raise ValueError(f"{path} is empty: give the agent and its problem")
            settings = {"journal": journal or "drop", "remember": remember or REMEMBER}
            db = _create(path, beginning or _beginning(agent, problem, seed), settings)
        else:
            db = schema.reopen(path)
        try:
            return DurableAgent(
                *(path, db, writer, agent, problem),
                settings={"journal": journal, "remember": remember},
                group=seconds if durability == "group" else None,
                snapshot_every=every,
            )
        except BaseException:
            db.close()
            raise
    except BaseException:
        writer.release()
        raise


def view(path: str | os.PathLike[str], agent: Agent | None = None) -> "DurableAgent":
    """Return the agent in `path` as it stands, to look at: it changes nothing and needs no lock."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no agent at {path}")
    if schema.is_new(path):
        raise ValueError(f"{path} is empty: there is no agent in it")
    db = schema.reopen(path, write=False)
    try:
        with schema.reading(path):
            db.execute("BEGIN")
        return DurableAgent(path, db, None, agent, None)
    except BaseException:
        db.close()
        raise


def _beginning(agent: Agent, problem: Any, seed: int) -> dict[str, Any]:
    """Return the documents of a new agent."""
    labels = labels_of(problem, agent)
    live = agent.start(labels.sizes, Streams(seed))
    about = {"agent": stored_recipe(live.spec), "problem": labels.to_tree()}
    snapshot = _snapshot(0, 0, live, Tally(labels.n_states, labels.sizes.n_actions))
    return {"about": about, "snapshot": snapshot}


def _create(path: Path, beginning: dict[str, Any], settings: dict[str, Any]) -> sqlite3.Connection:
    about = {**beginning["about"], **settings}
    with schema.reading(path):
        return schema.create(path, {**beginning, "about": about})


def _snapshot(event: int, seal: int, live: Any, tally: Tally) -> dict[str, Any]:
    return {
        "event": event,
        "seal": seal,
        "agent": live.state(),
        "tally": tally.state(),
        "provenance": vars(_provenance(live.spec)),
    }


def _provenance(spec: Any) -> Provenance:
    return provenance((*PACKAGES, *spec.packages))


_grouped: "weakref.WeakSet[DurableAgent]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_grouped.clear)  # whose connections are the parent's


@atexit.register
def _flush_groups() -> None:
    """Have on disk what agents of this process, when it ends, have not committed yet."""
    for agent in list(_grouped):
        agent.flush()


class DurableAgent:
    """An agent on disk (see `cpsrl.open`). Its calls may come from any thread.

    To look at: `agent`, the live agent; `labels`; `tally`; `event`, the number of events so far.
    """

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        writer: schema.Writer | None,
        spec: Agent | None,
        problem: Any,
        settings: dict[str, Any] | None = None,
        group: float | None = None,
        snapshot_every: int = 2000,
    ) -> None:
        self.path, self._db, self._writer = path, db, writer
        self._lock = threading.RLock()
        self._why_not = ""
        self._group = group
        if group is not None:
            _grouped.add(self)
        self._timer: threading.Timer | None = None
        self._snapshot_every = snapshot_every
        about = schema.read_document(db, path, "about")
        try:
            self.labels = labels_in(about["problem"])
            self.spec = spec or recipe_in(about["agent"])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if problem is not None:
            given = labels_of(problem, self.spec).to_tree()
            if sealed(given)[2] != sealed(about["problem"])[2]:
                raise ValueError(
                    f"{path} is the agent of another problem: it has {_in_words(self.labels)}"
                )
        given = {key: value for key, value in (settings or {}).items() if value is not None}
        self._keep = (about | given)["journal"] == "keep"
        self._remember = (about | given)["remember"]
        self._load()
        if writer is not None:
            if about | given != about:
                with schema.reading(path), schema.transaction(db):
                    schema.write_document(db, "about", about | given)
            if self._changed:
                self._commit(time.time(), "versions", self._changed)
                self.snapshot()

    def _load(self) -> None:
        """Have the live agent again from the snapshot and the events since then."""
        stored = schema.read_document(self._db, self.path, "snapshot")
        self.event, self._seal = stored["event"], stored["seal"]
        self.tally = Tally(self.labels.n_states, self.labels.sizes.n_actions)
        try:
            self.agent: Any = self.spec.start(self.labels.sizes, Streams())
            self.agent.restore(stored["agent"])
            self.tally.restore(stored["tally"])
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        self._changed = Provenance(**stored["provenance"]).difference()
        self._acted, self._ahead, self._since = False, False, 0
        for n, at, kind, _, state, action, reward, next_state, seal, stream in schema.read_events(
            self._db, self.path, self.event + 1, self._seal
        ):
            state, next_state = schema.from_text(state), schema.from_text(next_state)
            self._replay(kind, state, action, reward, next_state, n, at, stream)
            self.event, self._seal, self._since = n, seal, self._since + 1
        with schema.reading(self.path):
            counted = "SELECT count(*) FROM decisions WHERE finished IS NOT NULL"
            (self._finished,) = self._db.execute(counted).fetchone()

    def _replay(
        self,
        kind: str,
        state: Any,
        action: int,
        reward: Any,
        next_state: Any,
        n: int,
        at: float,
        stream: str | None,
    ) -> None:
        """Apply an event that was written; under the same versions it must do what it did then."""
        try:
            if kind in ("decide", "act"):
                again = self._choose(kind, state, n, at, stream)
                if again != action and not self._changed:
                    raise ValueError(f"the action is {again} and was {action}")
            elif kind in ("outcome", "observe"):
                self._take_in(kind, state, action, reward, next_state, at)
            elif kind == "discard":
                self.tally.counts["discarded"] += 1
        except ValueError as error:
            raise DamagedError(self.path, f"event {n} can't be repeated: {error}") from None

    def _choose(self, kind: str, state: Any, n: int, at: float, stream: str | None = None) -> int:
        """Let the live agent, or a stream of it, decide or act, and note a resampling."""
        agent = self.agent if stream is None else self.agent.stream(stream)
        before = agent.resamples
        action = int(getattr(agent, kind)(self.labels.shown(state)))
        if agent.resamples > before:
            self.tally.mark(n, at, _why(agent, before), stream)
        self.tally.counts["decisions"] += kind == "decide"
        return action

    def _take_in(
        self, kind: str, state: Any, action: int, reward: float, next_state: Any, at: float
    ) -> None:
        """Let the live agent learn from an outcome."""
        learn = self.agent.observe if kind == "observe" else self.agent.learn
        learn(self.labels.shown(state), action, reward, self.labels.shown(next_state))
        self.tally.counts["decisions"] += kind == "observe"
        self.tally.visit(state, action)
        self.tally.add(reward, at)

    def decide(self, state: Any, id: str | None = None, stream: str | None = None) -> Decision:
        """Return a decision in `state`: what to do, and the id by which to tell how it went.

        With an `id` of one's own the call may be repeated: it gives the same decision again. With
        the name of a `stream`, such as "shop-3", it is that stream's decision: each has a clock, a
        coin and a drawn model of its own, and all learn as one. A stream begins with its first
        decision.
        """
        with self._lock:
            self._check_open()
            number = self.labels.state("state", state)
            self._check_stream(stream)
            if id is not None:
                known = self._find(id)
                if known is not None:
                    if known.state != number:
                        theirs = self.labels.state_name(known.state)
                        raise Conflict(f"decision {id!r} was taken in state {theirs!r}")
                    if known.stream != stream:
                        raise Conflict(f"decision {id!r} was taken in the stream {known.stream!r}")
                    return Decision(id, self.labels.action_name(known.action))
                if id.startswith(OWN):
                    raise UnknownDecision(
                        f"there is no decision {id!r}: ids that begin with {OWN} are the agent's"
                    )
            n, at = self.event + 1, time.time()
            id = f"{OWN}{n}" if id is None else id
            self._ahead = True
            action = self._choose("decide", number, n, at, stream)
            new = _Known(id, n, schema.in_text(number), action, None, None, None, stream)
            insert = (INSERT_DECISION, (*new.row(), new.seal, stream))
            self._commit(at, "decide", id, number, action, None, None, insert, stream=stream)
            return Decision(id, self.labels.action_name(action))

    def outcome(self, id: str, reward: float, next_state: Any) -> None:
        """Tell how a decision went: the reward, and the state that it led to."""
        with self._lock:
            self._check_open()
            known = self._found(id)
            reward = checked_number("reward", reward) + 0.0  # which has no -0.0
            number = self.labels.state("next_state", next_state)
            if known.finished is not None:
                if known.reward is None:
                    raise Conflict(f"decision {id!r} was discarded")
                if (known.reward, known.next_state) != (reward, number):
                    theirs = self.labels.state_name(known.next_state)
                    raise Conflict(
                        f"decision {id!r} had another outcome: reward {known.reward}, next state "
                        f"{theirs!r}"
                    )
                return
            at = time.time()
            self._taken("outcome", known.state, known.action, reward, number, at)
            self._finish(at, "outcome", known, reward, number)

    def discard(self, id: str) -> None:
        """End a decision that will have no outcome; it turns nothing back."""
        with self._lock:
            self._check_open()
            known = self._found(id)
            if known.finished is not None:
                if known.reward is not None:
                    raise Conflict(f"decision {id!r} had an outcome and can't be discarded")
                return
            self._ahead = True
            self.tally.counts["discarded"] += 1
            self._finish(time.time(), "discard", known, None, None)

    def act(self, state: Any) -> Any:
        """Return the action in `state`; the same one until `observe` moves time on."""
        with self._lock:
            self._check_open()
            number = self.labels.state("state", state)
            n, at = self.event + 1, time.time()
            if self._acted:
                return self.labels.action_name(int(self.agent.act(self.labels.shown(number))))
            self._ahead = True
            action = self._choose("act", number, n, at)
            self._commit(at, "act", None, number, action)
            self._acted = True
            return self.labels.action_name(action)

    def observe(self, state: Any, action: Any, reward: float, next_state: Any) -> None:
        """Learn from a transition and move time on."""
        with self._lock:
            self._check_open()
            number, next_number = (
                self.labels.state("state", state),
                self.labels.state("next_state", next_state),
            )
            chosen, at = self.labels.action(action), time.time()
            reward = checked_number("reward", reward) + 0.0
            self._taken("observe", number, chosen, reward, next_number, at)
            self._commit(at, "observe", None, number, chosen, reward, next_number)

    def learn(self, past: Any) -> Learned:
        """Learn from transitions of the past: a `.csv` or `.parquet` file, or rows of them.

        All of them or, if one is wrong, none; and once: the same again is a no-op. The clock stands
        still, so a draw that takes them into account is made when the rule says so. A posterior
        needs to know no propensities as long as the one who chose the actions saw no more than
        the recorded state: see `cpsrl.live.logs`.
        """
        rows = read_log(past, self.labels)
        digest, at = rows.digest(), time.time()
        with self._lock:
            self._check_open()
            with schema.reading(self.path):
                query = "SELECT lines FROM logs WHERE sha256 = ?"
                if self._db.execute(query, (digest,)).fetchone():
                    return Learned(len(rows), False)
            self._ahead, shown = True, self.labels.shown
            for i, (state, action, reward, next_state) in enumerate(rows):
                try:
                    self.agent.learn(shown(state), action, reward, shown(next_state))
                except ValueError as error:
                    raise rows.error(i, str(error)) from None
                self.tally.visit(state, action)
            self.tally.counts["learned"] += len(rows)
            row = (digest, self.event + 1, at, len(rows))
            insert = ("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", (*row, schema.seal_of(row)))
            self._commit(at, "learn", digest, None, None, None, None, insert, snapshot=True)
            return Learned(len(rows), True)

    def explain(
        self, state: Any, draws: int | None = None, stream: str | None = None
    ) -> "Explanation":
        """Return what the agent believes about `state`, and why it, or a stream of it, acts so.

        `draws` models are drawn from its belief for this, by default 999, and 199 large ones.
        """
        from cpsrl.live.explain import explain

        with self._lock:
            self._check_open(writing=False)
            return explain(self, self.labels.state("state", state), draws, stream)

    @property
    def label(self) -> str:
        """What the agent is called."""
        return str(self.agent.spec.label)

    @property
    def resamples(self) -> int:
        """How many models were drawn, by the agent and by its streams."""
        streams = getattr(self.agent, "members", {}).values()
        return sum(one.resamples for one in (self.agent, *streams))

    @property
    def closed(self) -> bool:
        """Whether the agent was closed, or had to give up."""
        return bool(self._why_not)

    def pending(self) -> list[str]:
        """Return the ids of the decisions that wait for their outcome, the oldest first."""
        with self._lock:
            self._check_open(writing=False)
            query = "SELECT id FROM decisions WHERE finished IS NULL ORDER BY decided"
            with schema.reading(self.path):
                return [id for (id,) in self._db.execute(query)]

    def status(self) -> dict[str, Any]:
        """Return where the agent stands, as a tree of plain values."""
        with self._lock:
            self._check_open(writing=False)
            with schema.reading(self.path):
                counted = "SELECT count(*) FROM decisions WHERE finished IS NULL"
                (pending,) = self._db.execute(counted).fetchone()
            counts, marks = self.tally.counts, self.tally.marks
            rate = self.tally.reward / counts["outcomes"] if counts["outcomes"] else None
            return {
                "path": str(self.path),
                "agent": self.label,
                "problem": _in_words(self.labels),
                "events": self.event,
                **counts,
                "pending": pending,
                "reward": self.tally.reward,
                "reward_rate": rate,
                "streams": len(getattr(self.agent, "members", ())),
                "resamples": self.resamples,
                "last_resample": marks[-1]._asdict() if marks else None,
            }

    def rates(self) -> list[Rate]:
        """Return the reward rate over time, in at most 32 stretches."""
        with self._lock:
            self._check_open(writing=False)
            return self.tally.rates()

    def snapshot(self) -> None:
        """Write down where the agent stands, so that no event before it need be repeated."""
        with self._lock:
            self._check_open()
            self._guarded(self._write_snapshot)

    def flush(self) -> None:
        """Have everything on disk; with durability "full" it is there already."""
        with self._lock:
            if self._writer is not None and not self._why_not and self._db.in_transaction:
                self._guarded(lambda: None, commit=True)

    def close(self) -> None:
        """Write a snapshot and let the file go.

        A call that was cut short has left half of its work in memory: then nothing is written.
        """
        with self._lock:
            if self._why_not:
                return
            if self._writer is not None and self._since and not self._ahead:
                self._guarded(self._write_snapshot, commit=True)
            self.flush()
            self._end("is closed")

    def __enter__(self) -> "DurableAgent":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.label} in {self.path}, {self.event:,} events>"

    def _check_open(self, writing: bool = True) -> None:
        if self._why_not:
            raise ValueError(f"{self.path} {self._why_not}: open it again")
        if writing and self._writer is None:
            raise ValueError(f"{self.path} was opened to look at only")
        if self._ahead:  # of the disk: what changed the agent failed before it was written
            self._load()

    def _check_stream(self, stream: Any) -> None:
        """Raise a ValueError unless the agent can have a stream of that name."""
        if stream is None:
            return
        _check_line("stream", stream)
        rule = getattr(self.agent.spec, "rule", None)
        if not hasattr(self.agent, "members") or rule is None or rule.needs_counts:
            raise ValueError(
                f"{self.label} has no streams that share its belief: those of a table "
                "have, with a rule that does not look at the data, such as ContinuingPSRL()"
            )

    def _find(self, id: Any) -> _Known | None:
        """Return the decision `id` if it is known."""
        _check_line("id", id)
        with schema.reading(self.path):
            query = "SELECT * FROM decisions WHERE id = ?"
            row = self._db.execute(query, (id,)).fetchone()
        if row is None:
            return None
        known = _Known(*row[:-2], *row[-1:])
        if known.seal != row[-2]:
            raise DamagedError(self.path, f"decision {id!r} is not what was written")
        numbers = (schema.from_text(known.state), schema.from_text(known.next_state))
        return _Known(**vars(known) | {"state": numbers[0], "next_state": numbers[1]})

    def _found(self, id: Any) -> _Known:
        known = self._find(id)
        if known is None:
            raise UnknownDecision(f"decision {id!r} is unknown or long finished")
        return known

    def _taken(self, *event: Any) -> None:
        """Let the live agent learn, which it refuses by a ValueError that changes nothing."""
        self._ahead = True
        try:
            self._take_in(*event)
        except ValueError:
            self._ahead = False
            raise

    def _finish(
        self, at: float, kind: str, known: _Known, reward: float | None, next_state: Any
    ) -> None:
        """Write the event that ends a decision, and forget what is too old to be remembered."""
        done = vars(known) | {"finished": self.event + 1, "reward": reward}
        done |= {"state": schema.in_text(known.state), "next_state": schema.in_text(next_state)}
        values = (self.event + 1, reward, done["next_state"], _Known(**done).seal, known.id)
        statements: list[tuple[str, tuple[Any, ...]]] = [(FINISH, values)]
        surplus = self._finished + 1 - self._remember
        statements += [(FORGET, ())] * max(0, surplus)
        self._finished += 1 - max(0, surplus)
        self._commit(at, kind, known.id, known.state, known.action, reward, next_state, *statements)

    def _commit(
        self,
        at: float,
        kind: str,
        id: str | None = None,
        state: Any = None,
        action: int | None = None,
        reward: float | None = None,
        next_state: Any = None,
        *statements: tuple[str, tuple[Any, ...]],
        stream: str | None = None,
        snapshot: bool = False,
    ) -> None:
        """Write an event and what it changes, in one transaction."""
        states = schema.in_text(state), schema.in_text(next_state)
        row = (self.event + 1, at, kind, id, states[0], action, reward, states[1])
        seal = schema.seal_of(row, self._seal, stream)

        def write() -> None:
            self._db.execute(INSERT_EVENT, (*row, seal, stream))
            for statement, values in statements:
                self._db.execute(statement, values)
            self.event, self._seal, self._acted = row[0], seal, False
            self._since += 1
            if snapshot or self._since >= self._snapshot_every:
                self._write_snapshot()

        self._guarded(write)
        self._ahead = False

    def _write_snapshot(self) -> None:
        tree = _snapshot(self.event, self._seal, self.agent, self.tally)
        schema.write_document(self._db, "snapshot", tree)
        if self._keep:
            self._db.execute("INSERT INTO history SELECT * FROM journal")
        self._db.execute("DELETE FROM journal")
        self._since = 0

    def _guarded(self, write: Callable[[], None], commit: bool = False) -> None:
        """Write in a transaction, of its own or of the group; give up if that fails."""
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
                if self._group is not None:
                    self._timer = threading.Timer(self._group, self._commit_group)
                    self._timer.daemon = True
                    self._timer.start()
            write()
            if commit or self._group is None:
                self._db.execute("COMMIT")
        except BaseException as error:
            self._give_up(error)

    def _commit_group(self) -> None:
        with self._lock:
            if not self._why_not and self._db.in_transaction:
                try:
                    self._db.execute("COMMIT")
                except sqlite3.Error as error:
                    self._end(f"could not be written ({error}), and what is in memory is ahead")

    def _give_up(self, error: BaseException) -> NoReturn:
        self._end(f"could not be written ({error}), and what is in memory is ahead of it")
        if isinstance(error, sqlite3.Error):
            raise OSError(f"{self.path} could not be written: {error}") from None
        raise error

    def _end(self, why_not: str) -> None:
        self._why_not = why_not
        if self._timer is not None:
            self._timer.cancel()
        self._db.close()  # which rolls back what was not committed
        if self._writer is not None:
            self._writer.release()


def _check_line(what: str, given: Any) -> None:
    if not isinstance(given, str) or not 0 < len(given) <= MOST_ID or not given.isprintable():
        raise ValueError(f"{what} must be a line of at most {MOST_ID} characters, not {given!r}")


def _why(agent: Any, before: int) -> str:
    """Return in words why an agent has resampled."""
    rule = getattr(agent.spec, "rule", None)
    if before == 0:
        return "the first step"
    if rule is None:
        return "a new episode"
    if rule.needs_counts:
        return f"the counts, by the rule {rule.label}"
    if rule.has_gamma:
        return f"the coin, {rule.label}"
    return f"the rule {rule.label}"


def _in_words(labels: Labels) -> str:
    actions = count(labels.sizes.n_actions, "action")
    if labels.n_states is None:
        return f"{count(labels.sizes.n_features, 'feature')} and {actions}"  # type: ignore[union-attr]
    return f"{count(labels.n_states, 'state')} and {actions}"
