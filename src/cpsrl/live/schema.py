"""The database of a durable agent: its tables, and the checks that they are what was written.

A SQLite file in WAL mode with `application_id` 0x63707372 ("cpsr") and the version of the schema in
`user_version`. Other programs may read it at any time; only the agent's own process may write.

    documents   two trees (`cpsrl.support.serialise`): "about", the agent's recipe, its problem with
                the labels, and its settings; "snapshot", the number `event` of the last event it
                contains, the state of the agent then, and a tally of rewards and resamplings
    journal     the events since the snapshot: number, time (seconds since 1970), kind
                (`cpsrl.live.events.Kind`), the decision's id, the state, the action, the reward and
                the next state where it has them, and the stream, if the decision is that of one.
                The next state of a decision is the list of the actions that were allowed, if
                somebody said which
                The id of a learn event is the SHA-256 of its rows; that of a versions event says
                what has changed, that of an evolve event is it as JSON
    history     with journal="keep", the events before those, in the same form; else empty
    events      a view of both
    decisions   those that wait for their outcome (`finished` is null), and the last `remember` that
                do not; `decided` and `finished` are numbers of events, `at` is when it was
                decided, a discarded one has no reward
    logs        the files that were learnt from, by the SHA-256 of their rows
    writer      the process that has the agent open, or had it last, and its epoch: how often the
                agent was opened to be written to

States and actions are their numbers, from 0, in the order of the labels; where observations are
vectors, JSON lists. `seal` is a CRC-32 of the row, in the journal together with the seal before it:
it tells damage, not forgery. Schema 1 had no streams; a row without one has the seal it had there.
Schema 2 had no epoch, schema 3 no time of decisions.

An event is one transaction with all that it changes. A snapshot is a transaction of its own, or of
the event that asked for it, which empties the journal. Events are therefore never half there, and a
process that is killed leaves those that were committed. When a transaction begins the writer
checks that the epoch is still its own, and when it ends, that the file is still the one it opened.

A file is opened after a quick look: its tables, the documents, and the events that are repeated. A
decision is checked when it is asked for, everything by `Database.check`.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cpsrl.live.at_path import identity, making, or_nothing, reading
from cpsrl.live.events import Decided, Event, Kind, from_text, seal_of
from cpsrl.support.serialise import DamagedError, sealed, unsealed

APPLICATION = 0x63707372
SCHEMA = 4
EVENT = "n INTEGER PRIMARY KEY, at REAL, kind TEXT, id TEXT, state, action INTEGER, reward REAL, next_state, seal INTEGER, stream TEXT"  # noqa: E501
DECISION = "id TEXT PRIMARY KEY, decided INTEGER, state, action INTEGER, finished INTEGER, reward REAL, next_state, seal INTEGER, stream TEXT, at REAL"  # noqa: E501
TABLES = (
    "CREATE TABLE documents (name TEXT PRIMARY KEY, tree TEXT, arrays BLOB, sha256 TEXT) "
    "WITHOUT ROWID",
    f"CREATE TABLE journal ({EVENT})",
    f"CREATE TABLE history ({EVENT})",
    "CREATE VIEW events AS SELECT * FROM history UNION ALL SELECT * FROM journal",
    f"CREATE TABLE decisions ({DECISION}) WITHOUT ROWID",
    "CREATE INDEX pending ON decisions (decided) WHERE finished IS NULL",
    "CREATE INDEX finished ON decisions (finished) WHERE finished IS NOT NULL",
    "CREATE TABLE logs (sha256 TEXT PRIMARY KEY, event INTEGER, at REAL, lines INTEGER, "
    "seal INTEGER) WITHOUT ROWID",
    "CREATE TABLE writer (process INTEGER, epoch INTEGER)",
)
EVENTS = "n, at, kind, id, state, action, reward, next_state, stream, seal"
DECISIONS = "id, decided, state, action, finished, reward, next_state, stream, at, seal"
ADD_EVENT = f"INSERT INTO journal ({EVENTS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
ADD_DECISION = f"INSERT INTO decisions ({DECISIONS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
FIND = f"SELECT {DECISIONS} FROM decisions WHERE id = ?"
FINISH = "UPDATE decisions SET finished = ?, reward = ?, next_state = ?, seal = ? WHERE id = ?"
OLDEST = "(SELECT min(finished) FROM decisions WHERE finished IS NOT NULL)"
LAST = (
    "SELECT max(ifnull((SELECT max(decided) FROM decisions WHERE finished IS NULL), 0), "
    "ifnull((SELECT max(finished) FROM decisions WHERE finished IS NOT NULL), 0))"
)


class Superseded(OSError):
    """The file is another process's now, or it has gone: what is written would be lost."""


MIGRATIONS = {
    1: [f"ALTER TABLE {of} ADD COLUMN stream TEXT" for of in ("journal", "history", "decisions")],
    2: ["ALTER TABLE writer ADD COLUMN epoch INTEGER", "UPDATE writer SET epoch = 0"],
    3: ["ALTER TABLE decisions ADD COLUMN at REAL"],
}
"""What brings the tables from one version of the schema to the next."""


class Database:
    """The tables of one agent. A row that is not what was written is a DamagedError."""

    def __init__(self, path: Path) -> None:
        """Connect to `path` in WAL mode; every commit reaches the disk."""
        self.path, self._place, self._epoch, self._file = path, str(path), 0, (0, 0)
        self._db = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("cell_size_check = ON", "trusted_schema = OFF", "journal_mode = WAL"):
                self._db.execute(f"PRAGMA {setting}").fetchall()
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA journal_size_limit = {1 << 24}").fetchall()
        except BaseException:
            self._db.close()
            raise

    @classmethod
    def create(cls, path: Path, documents: dict[str, Any]) -> "Database":
        """Make the database of a new agent, all of it or nothing, in the file itself."""
        with reading(path), or_nothing(path):
            new = cls(path)
            try:
                with new.transaction():
                    for statement in TABLES:
                        new._db.execute(statement)
                    new._db.execute("INSERT INTO writer VALUES (NULL, 0)")
                    for name, tree in documents.items():
                        new.write(name, tree)
                    new._db.execute(f"PRAGMA application_id = {APPLICATION}")
                    new._db.execute(f"PRAGMA user_version = {SCHEMA}")
                new._claim()
                new.checkpoint()
            except BaseException:
                new.close()
                raise
        return new

    @classmethod
    def reopen(cls, path: Path, write: bool = True) -> "Database":
        """Return the database of an agent, brought up to date, or else a fixed view of it."""
        with reading(path):
            with closing(sqlite3.connect(path)) as db:  # before a setting is made that would stay
                if db.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
                    raise DamagedError(path, "it is not the database of a cpsrl agent")
            found = cls(path)
        try:
            with reading(path):
                found._bring_up_to_date(write)
                stated = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
                if {sql for (sql,) in found._db.execute(stated)} != set(TABLES):
                    raise DamagedError(path, "its tables are not those of an agent")
                if write:
                    found._claim()
                else:
                    found._db.execute("BEGIN")
        except BaseException:
            found.close()
            raise
        return found

    def _bring_up_to_date(self, write: bool) -> None:
        """Bring an older schema up to this one, in one transaction, after a copy was put aside."""
        path = self.path
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA:
            raise ValueError(
                f"{path} has schema {version}, and this version of cpsrl knows those up to "
                f"{SCHEMA}: a newer one wrote it"
            )
        if version == SCHEMA:
            return
        if not write:
            raise ValueError(f"{path} has an older schema: open it to bring it up to date")
        if any(step not in MIGRATIONS for step in range(version, SCHEMA)):
            raise DamagedError(path, f"there never was a schema {version}")
        # Not by reading the file: closing it would drop the locks that SQLite has on it here, and
        # the next one to look at the agent would take the WAL away from under it.
        with closing(sqlite3.connect(f"{path}.schema-{version}")) as copy:
            self._db.backup(copy)
        with self.transaction():
            for step in range(version, SCHEMA):
                for statement in MIGRATIONS[step]:
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _claim(self) -> None:
        """Begin an epoch of this process, the only one that may write from now on."""
        self._file = identity(self._place)
        with self.transaction():
            claim = "UPDATE writer SET process = ?, epoch = epoch + 1"
            if self._db.execute(claim, (os.getpid(),)).rowcount != 1:
                raise DamagedError(self.path, "it does not say who writes to it")
            (self._epoch,) = self._db.execute("SELECT epoch FROM writer").fetchone()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._db.in_transaction

    def begin(self) -> None:
        """Begin a transaction; raise a Superseded if another process has opened the agent since."""
        self._db.execute("BEGIN IMMEDIATE")
        if self._epoch:
            writer = self._db.execute("SELECT process, epoch FROM writer").fetchone()
            if writer is None or writer[1] != self._epoch:
                raise Superseded(f"process {writer[0] if writer else '?'} has opened it since")

    def commit(self) -> None:
        """Commit the transaction; raise a Superseded if the file was replaced or removed."""
        if self._epoch and identity(self._place) != self._file:
            raise Superseded("it was moved or deleted while it was open")
        self._db.execute("COMMIT")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all of the block, on disk, or nothing of it."""
        self.begin()
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self.commit()

    def checkpoint(self) -> None:
        """Bring what is in the WAL into the file itself, as far as nobody is reading there."""
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the file; what was not committed is rolled back."""
        self._db.close()

    def backup(self, path: Path, check: bool = False) -> None:
        """Write a copy to `path`, where there must be nothing: what is in the WAL is in it.

        With `check` every row is checked before.
        """
        with making(path):
            if check:
                self.check()
            with reading(path), closing(sqlite3.connect(path)) as copy:
                self._db.backup(copy)

    def write(self, name: str, tree: Any) -> None:
        """Put a tree in the place of the document `name`."""
        add = "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)"
        self._db.execute(add, (name, *sealed(tree)))

    def read(self, name: str) -> Any:
        """Return the document `name`, checked."""
        query = "SELECT tree, arrays, sha256 FROM documents WHERE name = ?"
        with reading(self.path):
            row = self._db.execute(query, (name,)).fetchone()
        if row is None or not all(map(isinstance, row, (str, bytes, str))):
            raise DamagedError(self.path, f"its {name} is missing")
        try:
            return unsealed(*row)
        except ValueError as error:
            raise DamagedError(self.path, f"its {name}: {error}") from None

    def add_event(self, sealed_row: tuple[Any, ...]) -> None:
        """Write an event."""
        self._db.execute(ADD_EVENT, sealed_row)

    def events(self, first: int, before: int) -> Iterator[tuple[Event, int]]:
        """Yield the events from number `first` on, and their seals; `before` is the one before."""
        with reading(self.path):
            for event, seal in self._chain("journal", first, before):
                yield event, seal
                first += 1
            if self._db.execute(LAST).fetchone()[0] >= first:
                raise DamagedError(self.path, f"event {first} of its journal is missing")

    def _chain(self, table: str, first: int, seal: int | None) -> Iterator[tuple[Event, int]]:
        """Yield events and seals; with `seal` None, whatever the first of them follows."""
        for *row, stored in self._db.execute(f"SELECT {EVENTS} FROM {table} ORDER BY n"):
            seal = stored if seal is None else seal_of(tuple(row), 8, seal)
            if row[0] != first or seal != stored:
                raise DamagedError(
                    self.path, f"event {first} of its {table} is not what was written"
                )
            n, at, kind, id, state, action, reward, next_state, stream = row
            states = from_text(state), from_text(next_state)
            yield Event(n, at, Kind(kind), id, states[0], action, reward, states[1], stream), stored
            first += 1

    def end_journal(self, keep: bool) -> None:
        """Forget the events so far, which a snapshot contains, or `keep` them elsewhere."""
        if keep:
            self._db.execute("INSERT INTO history SELECT * FROM journal")
        self._db.execute("DELETE FROM journal")

    def add_decision(self, decision: Decided) -> None:
        """Write a decision."""
        self._db.execute(ADD_DECISION, decision.sealed())

    def finish(self, decision: Decided) -> None:
        """Write what has become of a decision."""
        id, _, _, _, finished, reward, next_state, _, _, seal = decision.sealed()
        row = finished, reward, next_state, seal, id
        if self._db.execute(FINISH, row).rowcount != 1:
            raise DamagedError(self.path, f"decision {id!r} is missing")

    def decision(self, id: str) -> Decided | None:
        """Return the decision `id` if it is known."""
        with reading(self.path):
            row = self._db.execute(FIND, (id,)).fetchone()
        return None if row is None else self._decided(row)

    def _decided(self, row: tuple[Any, ...]) -> Decided:
        id, decided, state, action, finished, reward, next_state, stream, at, seal = row
        if seal_of(row[:-1], 7) != seal:
            raise DamagedError(self.path, f"decision {id!r} is not what was written")
        states = from_text(state), from_text(next_state)
        return Decided(id, decided, states[0], action, finished, reward, states[1], stream, at)

    def forget_oldest(self) -> None:
        """Forget the decision that was finished first."""
        self._db.execute(f"DELETE FROM decisions WHERE finished = {OLDEST}")

    def pending(self) -> list[str]:
        """Return the ids of the decisions that wait for their outcome, the oldest first."""
        query = "SELECT id FROM decisions WHERE finished IS NULL ORDER BY decided"
        with reading(self.path):
            return [id for (id,) in self._db.execute(query)]

    def oldest(self, n: int) -> list[Decided]:
        """Return the n oldest of the decisions that wait."""
        waiting = "FROM decisions WHERE finished IS NULL ORDER BY decided LIMIT ?"
        query = f"SELECT {DECISIONS} {waiting}"
        with reading(self.path):
            return [self._decided(row) for row in self._db.execute(query, (n,))]

    def counted(self, finished: bool) -> int:
        """Return how many decisions are finished, or how many wait."""
        query = f"SELECT count(*) FROM decisions WHERE finished IS {'NOT ' * finished}NULL"
        with reading(self.path):
            return int(self._db.execute(query).fetchone()[0])

    def has_log(self, sha256: str) -> bool:
        """Return whether the log with that hash was learnt from."""
        with reading(self.path):
            query = "SELECT lines FROM logs WHERE sha256 = ?"
            return self._db.execute(query, (sha256,)).fetchone() is not None

    def add_log(self, sha256: str, event: int, at: float, lines: int) -> None:
        """Write that a log was learnt from."""
        row = (sha256, event, at, lines)
        self._db.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", (*row, seal_of(row, 4)))

    def check(self) -> None:
        """Raise a DamagedError unless every page and every row is what was written."""
        with reading(self.path):
            for (finding,) in self._db.execute("PRAGMA integrity_check"):
                if finding != "ok":
                    raise DamagedError(self.path, f"SQLite says: {finding}")
            for row in self._db.execute(f"SELECT {DECISIONS} FROM decisions"):
                self._decided(row)
            for *row, seal in self._db.execute("SELECT * FROM logs"):
                if seal_of(tuple(row), 4) != seal:
                    raise DamagedError(self.path, f"logs has a row that was not written so: {row}")
            (first,) = self._db.execute("SELECT min(n) FROM history").fetchone()
            for _ in self._chain("history", first, 0 if first == 1 else None):
                pass
        stored = self.read("snapshot")
        for _ in self.events(stored["event"] + 1, stored["seal"]):
            pass
