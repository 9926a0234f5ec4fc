"""Long calls, made in threads of their own: Ctrl-C interrupts them, a terminal shows progress.

A kernel or a factorisation cannot be interrupted, and Python handles Ctrl-C only between two
bytecodes of its main thread. So long work is done in another thread, while the main one waits. All
these threads are daemons: a program that is interrupted ends at once (`_leave`). In one that goes
on (a notebook) the next long call waits until the thread that was left behind has stopped, so that
two never work on the same arrays.
"""

import atexit
import contextvars
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from cpsrl._private.interrupts import end_process, raise_in

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

POLL_SECONDS = 0.1
QUIET_SECONDS = 2.0
"""A terminal shows a call that takes longer than this."""
SMALL = 128
"""Calls for models of at most so many states are short."""
ERASE = "\r\x1b[K"

NAME = "cpsrl"
_left_behind: list["_Job"] = []
_exit_code: int | None = None


class Abandoned(BaseException):
    """Raised in a thread whose result nobody waits for any more."""


class _Job(threading.Thread):
    """A call in a thread of its own, in the context of the caller."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(name=NAME, daemon=True)
        self._call, self._context = call, contextvars.copy_context()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._context.run(self._call)
        except BaseException as error:
            self.error = error

    def abandon(self) -> None:
        """Make the thread stop soon, between two bytecodes."""
        _left_behind.append(self)
        raise_in(self, Abandoned)


def in_thread(call: Callable[[], T], waiting: Callable[[], None], abandon: bool = True) -> T:
    """Return `call()`, made in a thread of its own; `waiting` is called again and again meanwhile.

    Args:
        call: what to do.
        waiting: is called every tenth of a second.
        abandon: whether an interrupted call stops; if not, it runs to its end unused.
    """
    job = _Job(call)
    job.start()
    try:
        while job.is_alive():
            job.join(POLL_SECONDS)
            waiting()
    except BaseException:
        if abandon:
            job.abandon()
        raise
    if job.error is not None:
        raise job.error
    return cast(T, job.result)


def interruptible(what: str) -> Callable[[F], F]:
    """Return a decorator for functions whose first argument has `n_states`, and that can be long.

    Called from the main thread for a large model, the function runs elsewhere, and `what` it does
    is said on a terminal; called otherwise, it is as it was.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            first = next(iter((*arguments, *named.values())), None)
            n_states = getattr(first, "n_states", 0)
            if n_states <= SMALL or threading.current_thread() is not threading.main_thread():
                return function(*arguments, **named)
            with Status(f"{what}, {n_states:,} states") as status:
                while _left_behind:
                    _left_behind[-1].join(POLL_SECONDS)
                    if not _left_behind[-1].is_alive():
                        _left_behind.pop()
                return in_thread(lambda: function(*arguments, **named), status.show)

        return cast(F, call)

    return decorate


class Status:
    """A line on a terminal that says what takes so long, and goes away when it is done."""

    stage = ""
    """how far the call has come"""

    def __init__(self, what: str) -> None:
        self._what, self._began, self._shown = what, time.monotonic(), ""

    def __enter__(self) -> "Status":
        Status.stage = ""
        return self

    def show(self, stage: str = "") -> None:
        """Show the line, once it takes long, with the time and the `stage`."""
        seconds = time.monotonic() - self._began
        if seconds > QUIET_SECONDS and sys.stderr.isatty():
            words = ", ".join(filter(None, (self._what, stage or Status.stage, f"{seconds:.0f} s")))
            if words != self._shown:
                self._shown = words
                print(f"{ERASE}cpsrl: {words}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print(ERASE, end="", file=sys.stderr, flush=True)


def stage(words: str) -> None:
    """Say how far the long call under way has come, such as 'policy 3'."""
    Status.stage = words


def once_a_process(make: Callable[[], T]) -> Callable[[], T]:
    """Return `make` as a function that makes threads once, and again in a forked child.

    A child has none of its parent's threads: what they were given there would never be done.
    """
    made = functools.cache(make)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.cache_clear)
    return made


class Threads:
    """Some daemon threads that perform calls, one after the other."""

    def __init__(self, n: int) -> None:
        self._n, self._calls = n, SimpleQueue[Any]()
        for _ in range(n):
            threading.Thread(target=self._work, name=NAME, daemon=True).start()

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have a thread call `function(*arguments)`."""
        future: Future[T] = Future()
        self._calls.put((future, function, arguments))
        return future

    def close(self) -> None:
        """Cancel what is not begun, and let the threads end when they are done."""
        with suppress(Empty):
            while True:
                if (call := self._calls.get_nowait()) is not None:
                    call[0].cancel()
        for _ in range(self._n):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*arguments))
                except BaseException as error:
                    future.set_exception(error)
            del call, future, function, arguments


@atexit.register
def _leave() -> None:
    """End an interrupted program here, as Python would after taking itself apart.

    That would take the ground from under the threads left behind, which are in the middle of a
    kernel or a compilation.
    """
    unheard = getattr(sys, "last_type", None) is KeyboardInterrupt
    busy = any(thread.name == NAME for thread in threading.enumerate())
    if busy and (unheard or _exit_code is not None):
        end_process(_exit_code)


def interrupted(exit_code: int) -> int:
    """Return the exit code of a program that was interrupted and is about to end."""
    global _exit_code
    _exit_code = exit_code
    return exit_code
