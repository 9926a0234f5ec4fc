"""What is at an agent's path: whether there is an agent, who may write to it, what is wrong."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cpsrl.support.serialise import DamagedError

READ_ONLY = ": its folder is read-only, and SQLite writes there even to read; copy it elsewhere"


class reading:
    """Turns what SQLite says about a broken file into an error of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        path, said = self.path, str(error)
        if not isinstance(error, sqlite3.Error | UnicodeDecodeError | OverflowError):
            return
        if isinstance(error, sqlite3.OperationalError):
            if "locked" in said or "busy" in said:
                raise ValueError(f"{path} is locked by another program that writes to it") from None
            if any(word in said for word in ("disk", "full", "readonly", "unable to open")):
                read_only = path.parent.is_dir() and not os.access(path.parent, os.W_OK)
                where = READ_ONLY if read_only else ""
                raise OSError(f"{path}: {error}{where}") from None
        raise DamagedError(path, f"SQLite says: {error}") from None


def is_new(path: Path) -> bool:
    """Return whether there is nothing at `path`, or what a kill left of a database being made."""
    wal = Path(f"{path}-wal")
    if not path.exists() and wal.exists() and wal.stat().st_size:
        raise ValueError(
            f"there is {wal} and no {path}: it holds the last events of an agent whose file was "
            "moved or deleted. Move it to where the file is, or delete it to begin anew"
        )
    if not path.exists() or path.stat().st_size == 0:
        return True
    with reading(path), closing(sqlite3.connect(path)) as db:
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return empty and not db.execute("PRAGMA application_id").fetchone()[0]


def identity(path: str) -> tuple[int, int]:
    """Return what tells a file from another one that has its name; zeros if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class Lock:
    """The right to write to `path`, which one process has at a time, and which ends with it.

    It is a lock of SQLite's: a file lock as in `cpsrl.support.atomic` would live on in forks of a
    process that is killed. Whoever deletes its file can open the agent twice: then the epoch
    in the database tells (`cpsrl.live.schema`).
    """

    def __init__(self, path: Path) -> None:
        try:
            self._db = sqlite3.connect(
                f"{os.path.realpath(path)}-lock",  # the same one by whatever link it is called
                timeout=0.0,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise _unwritable(path, error) from None
        try:
            self._db.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            self._db.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise _unwritable(path, error) from None
            raise ValueError(f"{path} is in use: {_holder(path)} has it open") from None

    def release(self) -> None:
        """Release the lock."""
        self._db.close()


@contextmanager
def making(path: Path) -> Iterator[None]:
    """Hold the lock of a file that is made in the block; raise where there is something already.

    What the block leaves half made is removed.
    """
    _check_nothing(path)  # or there would be a lock beside what is no agent
    lock = Lock(path)
    try:
        _check_nothing(path)
        with or_nothing(path):
            yield
    finally:
        lock.release()


@contextmanager
def or_nothing(path: Path) -> Iterator[None]:
    """Make a database in the block, or leave nothing at `path`, where there was none."""
    try:
        yield
    except BaseException:
        for more in ("", "-wal", "-shm", "-journal"):
            Path(f"{path}{more}").unlink(missing_ok=True)
        raise


def _check_nothing(path: Path) -> None:
    """Raise unless there is a folder for `path`, and nothing there, nor a WAL of another file."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    is_new(path)


def _unwritable(path: Path, error: sqlite3.Error) -> OSError:
    return OSError(f"{path}-lock cannot be written, which says who has the agent open: {error}")


def _holder(path: Path) -> str:
    try:
        with closing(sqlite3.connect(path, timeout=0.0)) as db:
            return f"process {db.execute('SELECT process FROM writer').fetchone()[0]}"
    except (sqlite3.Error, TypeError):
        return "another process"
