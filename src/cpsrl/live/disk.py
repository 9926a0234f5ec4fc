"""Writing to an agent's database: transactions of their own or of a group, until one fails."""

import atexit
import os
import signal
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from cpsrl._private.interrupts import signals
from cpsrl.live.at_path import Lock
from cpsrl.live.events import NotOpen
from cpsrl.live.schema import Database, Superseded

CHECKPOINT_SECONDS = 5.0
"""What is older than this is in the file itself, once there is a later event."""

_disks: "weakref.WeakSet[Disk]" = weakref.WeakSet()
_of_the_parent: "list[Disk]" = []
"""In a forked child: those of its parent, whose connections it may not even close."""
STOPS = int(signal.SIGINT), int(signal.SIGTERM)
FORCED_SECONDS = 1.0
"""After how long a second Ctrl-C ends what the first one waits for."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Do all of the block before a Ctrl-C, or another signal that ends the program, is heard.

    Python handles signals in the main thread, between any two bytecodes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: dict[int, Any] = {}
    before: dict[int, Any] = {
        one: handler for one in STOPS if callable(handler := signals.getsignal(one))
    }
    begun = time.monotonic()

    def hear(number: int, frame: Any) -> None:
        if heard and time.monotonic() > begun + FORCED_SECONDS:
            before[number](number, frame)
        heard[number] = frame

    try:
        for one in before:
            signals.signal(one, hear)
        yield
    finally:
        for one in reversed(before):  # Ctrl-C last, which could interrupt this
            signals.signal(one, before[one])
        for number, frame in heard.items():
            before[number](number, frame)


class Disk:
    """The right to write to a database, and its use; `lock` None: it is only looked at.

    `why_not` says why nothing can be written any more, and is empty as long as it can. After a
    write that failed memory is ahead of the disk, so nothing more is written. `commits` and
    `commit_seconds` are how often it has written, and how long that took. `in_child` says whether
    this is a child of the process that has the agent open: a copy of it, and of locks that nobody
    releases there.
    """

    def __init__(self, database: Database, lock: Lock | None, group: float | None = None) -> None:
        self.database, self.group = database, group
        self.mutex = threading.RLock()
        self.why_not, self.failed = "", False
        self.commits, self.commit_seconds = 0, 0.0
        self.process, self.in_child = os.getpid(), False
        self._lock, self.writable = lock, lock is not None
        self._timer: threading.Timer | None = None
        self._checkpoint_at = time.monotonic() + CHECKPOINT_SECONDS
        _disks.add(self)

    def refusal(self) -> ValueError:
        """Return the error for a call that can't be answered."""
        path = self.database.path
        if os.getpid() != self.process:
            return NotOpen(
                f"{path} is open in process {self.process}, and this is its child {os.getpid()}: "
                "open it in one of them alone"
            )
        if self.why_not:
            return NotOpen(f"{path} {self.why_not}: open it again")
        return ValueError(f"{path} was opened to look at only")

    def write(self, work: Callable[[], None], commit: bool | None = None) -> None:
        """Do `work` in a transaction, its own or the group's; give up if that fails.

        `commit` says whether it ends with this; None: where it is not the group's.
        """
        database = self.database
        with uninterrupted():
            try:
                if not database.in_transaction:
                    database.begin()
                    if self.group is not None:
                        self._timer = threading.Timer(self.group, self._commit_group)
                        self._timer.daemon = True
                        self._timer.start()
                work()
                if self.group is None if commit is None else commit:
                    self._commit()
            except BaseException as error:
                self._give_up(error)

    def flush(self) -> None:
        """Commit the group's transaction."""
        if self.in_child:
            raise self.refusal()
        with self.mutex:
            if self.writable and not self.why_not and self.database.in_transaction:
                self.write(lambda: None, commit=True)

    def end(self, why_not: str, failed: bool = False) -> None:
        """Close the file; what was not committed is rolled back."""
        with uninterrupted():
            self.why_not, self.failed = why_not, failed
            try:
                if self._timer is not None:
                    self._timer.cancel()
                self.database.close()
            finally:
                if self._lock is not None:
                    self._lock.release()
                _disks.discard(self)

    def _commit(self) -> None:
        if os.getpid() != self.process:  # a fork that Python was not told of
            raise self.refusal()
        begun = time.perf_counter()
        self.database.commit()
        self.commits += 1
        self.commit_seconds += time.perf_counter() - begun
        if time.monotonic() > self._checkpoint_at:
            self.database.checkpoint()
            self._checkpoint_at = time.monotonic() + CHECKPOINT_SECONDS

    def _commit_group(self) -> None:
        with suppress(OSError, ValueError):  # the next call says it
            self.flush()

    def _give_up(self, error: BaseException) -> NoReturn:
        path, why = (
            self.database.path,
            f"could not be written ({str(error) or type(error).__name__})",
        )
        if not isinstance(error, Exception):
            why = f"was being written when it was interrupted ({type(error).__name__})"
        self.end(f"{why}, and what is in memory is ahead of it", True)
        if isinstance(error, sqlite3.Error | Superseded):
            raise OSError(f"{path} could not be written: {error}") from None
        raise error


@atexit.register
def _flush_groups() -> None:
    """Commit, when this process ends, what its agents have not committed yet."""
    for disk in list(_disks):
        disk.flush()


def _in_child() -> None:
    for disk in _disks:
        disk.in_child = True
    _of_the_parent.extend(_disks)
    _disks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
