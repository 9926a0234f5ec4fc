"""The database of a durable agent: its tables, and the checks that they are what was written.

A SQLite file in WAL mode with `application_id` 0x63707372 ("cpsr") and the version of the schema in
`user_version`. Other programs may read it at any time; only the agent's own process may write.

    documents   two trees (see `cpsrl.trees`): "about", the agent's recipe, its problem with the
                labels, and its settings; "snapshot", the number `event` of the last event it
                contains, the state of the agent then, and a tally of rewards and resamplings
    journal     the events since the snapshot: number, time (seconds since 1970), kind (decide,
                outcome, discard, act, observe, learn, versions), the decision's id, the state, the
                action, the reward and the next state where it has them, and the stream, if the
                decision is that of one. The id of a learn event is the SHA-256 of its rows; that of
                a versions event says what has changed
    history     with journal="keep", the events before those, in the same form; else empty
    events      a view of both
    decisions   those that wait for their outcome (`finished` is null), and the last `remember` that
                do not; `decided` and `finished` are numbers of events, a discarded one has no
                reward
    logs        the files that were learnt from, by the SHA-256 of their rows

States and actions are their numbers, from 0, in the order of the labels; where observations are
vectors, JSON lists. `seal` is a CRC-32 of the row, in the journal together with the seal before it:
it tells damage, not forgery. Schema 1 had no streams; a row without one has the seal it had there.

An event is one transaction with all that it changes. A snapshot is a transaction of its own, or of
the event that asked for it, which empties the journal. Events are therefore never half there, and a
process that is killed leaves those that were committed.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cpsrl.trees import DamagedError, sealed, unsealed

APPLICATION = 0x63707372
SCHEMA = 2
EVENT = "n INTEGER PRIMARY KEY, at REAL, kind TEXT, id TEXT, state, action INTEGER, reward REAL, next_state, seal INTEGER, stream TEXT"  # noqa: E501
DECISION = "id TEXT PRIMARY KEY, decided INTEGER, state, action INTEGER, finished INTEGER, reward REAL, next_state, seal INTEGER, stream TEXT"  # noqa: E501
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
    "CREATE TABLE writer (process INTEGER)",
)
READ_ONLY = ": its folder is read-only, and SQLite writes there even to read; copy it elsewhere"
CHECKED = ("documents", "journal", "decisions", "logs")


def _add_streams(db: sqlite3.Connection) -> None:
    for table in ("journal", "history", "decisions"):
        db.execute(f"ALTER TABLE {table} ADD COLUMN stream TEXT")


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _add_streams}
"""By the version that each one starts from: it brings the tables to the next."""


def seal_of(row: tuple[Any, ...], before: int = 0, stream: str | None = None) -> int:
    """Return the CRC-32 of a row and its stream, which follows a row that was sealed by `before`.

    The row is without its seal and its stream.
    """
    return zlib.crc32(repr(row if stream is None else (*row, stream)).encode(), before)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to `path`, in WAL mode, every commit of which reaches the disk."""
    db = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("cell_size_check = ON", "trusted_schema = OFF", "journal_mode = WAL"):
            db.execute(f"PRAGMA {setting}").fetchall()
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA journal_size_limit = {1 << 24}").fetchall()
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what SQLite says about a broken file into an error of ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise ValueError(f"{path} is locked by another program that writes to it") from None
        if any(word in str(error) for word in ("disk", "full", "readonly", "unable to open")):
            where = "" if os.access(path.parent, os.W_OK) else READ_ONLY
            raise OSError(f"{path}: {error}{where}") from None
        raise DamagedError(path, f"SQLite says: {error}") from None
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise DamagedError(path, f"SQLite says: {error}") from None


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Do all of the block, on disk, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


class Writer:
    """The right to write to `path`, which one process has at a time, and which ends with it.

    It is a lock of SQLite's: a file lock as in `cpsrl.atomic` would live on in forks of a process
    that is killed.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.lock = sqlite3.connect(
                f"{os.path.realpath(path)}-lock",  # the same one by whatever link it is called
                timeout=0.0,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise _unwritable(path, error) from None
        try:
            self.lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            self.lock.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise _unwritable(path, error) from None
            raise ValueError(f"{path} is in use: {_holder(path)} has it open") from None

    def release(self) -> None:
        """Let another process have it."""
        self.lock.close()


def _unwritable(path: Path, error: sqlite3.Error) -> OSError:
    return OSError(f"{path}-lock cannot be written, which says who has the agent open: {error}")


def _holder(path: Path) -> str:
    try:
        db = sqlite3.connect(path, timeout=0.0)
        try:
            return f"process {db.execute('SELECT process FROM writer').fetchone()[0]}"
        finally:
            db.close()
    except (sqlite3.Error, TypeError):
        return "another process"


def create(path: Path, documents: dict[str, Any]) -> sqlite3.Connection:
    """Make the database of a new agent, all of it or nothing."""
    db = connect(path)
    with transaction(db):
        for statement in TABLES:
            db.execute(statement)
        for name, tree in documents.items():
            write_document(db, name, tree)
        db.execute("INSERT INTO writer VALUES (?)", (os.getpid(),))
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    return db


def is_new(path: Path) -> bool:
    """Return whether there is nothing at `path`, or what a kill left of a database being made."""
    if not path.exists() or path.stat().st_size == 0:
        return True
    with reading(path):
        db = sqlite3.connect(path)
        try:
            empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            return empty and not db.execute("PRAGMA application_id").fetchone()[0]
        finally:
            db.close()


def reopen(path: Path, write: bool = True) -> sqlite3.Connection:
    """Return a connection to the database of an agent, once it is sure to be a whole one."""
    with reading(path):
        _check_ours(path)
        db = connect(path)
    try:
        with reading(path):
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA:
                raise ValueError(
                    f"{path} has schema {version}, and this version of cpsrl knows those up to "
                    f"{SCHEMA}: a newer one wrote it"
                )
            if version < SCHEMA and not write:
                raise ValueError(f"{path} has an older schema: open it to bring it up to date")
            if version < SCHEMA:
                _migrate(db, path, version)
            _check(db, path)
            if write:
                db.execute("UPDATE writer SET process = ?", (os.getpid(),))
    except BaseException:
        db.close()
        raise
    return db


def _check_ours(path: Path) -> None:
    """Raise unless `path` is an agent's, before a setting is made that would stay in the file."""
    db = sqlite3.connect(path)
    try:
        if db.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
            raise DamagedError(path, "it is not the database of a cpsrl agent")
    finally:
        db.close()


def _migrate(db: sqlite3.Connection, path: Path, version: int) -> None:
    """Bring an older schema up to this one, in one transaction, after a copy was put aside."""
    if any(step not in MIGRATIONS for step in range(version, SCHEMA)):
        raise DamagedError(path, f"there never was a schema {version}")
    # Not by reading the file: closing it would drop the locks that SQLite has on it here, and the
    # next one to look at the agent would take the WAL away from under it.
    with closing(sqlite3.connect(f"{path}.schema-{version}")) as copy:
        db.backup(copy)
    with transaction(db):
        for step in range(version, SCHEMA):
            MIGRATIONS[step](db)
        db.execute(f"PRAGMA user_version = {SCHEMA}")


def _check(db: sqlite3.Connection, path: Path) -> None:
    """Raise unless tables and rows are what was written."""
    stated = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if stated != set(TABLES):
        raise DamagedError(path, "its tables are not those of an agent")
    for table in CHECKED:
        for (finding,) in db.execute(f"PRAGMA integrity_check({table})"):
            if finding != "ok":
                raise DamagedError(path, f"SQLite says of {table}: {finding}")
    for table in ("decisions", "logs"):
        for columns in db.execute(f"SELECT * FROM {table}"):
            *row, seal, stream = columns if table == "decisions" else (*columns, None)
            if seal_of(tuple(row), stream=stream) != seal:
                raise DamagedError(path, f"{table} has a row that was not written so: {row}")


def write_document(db: sqlite3.Connection, name: str, tree: Any) -> None:
    """Put a tree in the place of the document `name`."""
    text, arrays, checksum = sealed(tree)
    row = (name, text, arrays, checksum)
    db.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)", row)


def read_document(db: sqlite3.Connection, path: Path, name: str) -> Any:
    """Return the document `name`, checked."""
    query = "SELECT tree, arrays, sha256 FROM documents WHERE name = ?"
    with reading(path):
        row = db.execute(query, (name,)).fetchone()
    kinds = (str, bytes, str)
    if row is None or not all(map(isinstance, row, kinds)):
        raise DamagedError(path, f"its {name} is missing")
    try:
        return unsealed(*row)
    except ValueError as error:
        raise DamagedError(path, f"its {name}: {error}") from None


def read_events(
    db: sqlite3.Connection, path: Path, first: int, seal: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the events from number `first` on, checked; `seal` is that of the one before."""
    with reading(path):
        for *row, stored, stream in db.execute("SELECT * FROM journal ORDER BY n"):
            seal = seal_of(tuple(row), seal, stream)
            if row[0] != first or seal != stored:
                raise DamagedError(path, f"event {first} of its journal is not what was written")
            yield (*row, seal, stream)
            first += 1
        last = "SELECT max(ifnull(max(decided), 0), ifnull(max(finished), 0)) FROM decisions"
        if db.execute(last).fetchone()[0] >= first:
            raise DamagedError(path, f"event {first} of its journal is missing")


def in_text(value: Any) -> Any:
    """Return a state as its column holds it: a number, or a vector as JSON."""
    return json.dumps(value) if isinstance(value, list) else value


def from_text(value: Any) -> Any:
    """Return the state that `in_text` wrote."""
    return json.loads(value) if isinstance(value, str) else value
