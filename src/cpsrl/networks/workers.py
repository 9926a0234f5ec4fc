"""Processes for compiled networks, one for every core in use.

XLA's own threads gain little on networks as small as these, and two calls in one process wait for
each other; single-threaded processes scale with the cores. They also make results independent of
how many there are, since each computes a whole run by itself.

A worker is started when one is needed and none is free, and kept for the next call. It is a fresh
interpreter, not a fork, and ends when the pipe to its parent is closed. Where runs are a batch on
an accelerator (see `cpsrl.networks.devices`), there is one worker, which holds its devices.
"""

import atexit
import hashlib
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

from cpsrl._private.compile import cache_root

_CPU = f"{get_host_cpu_name()} {get_host_cpu_features().flatten()}"
CACHE = cache_root() / f"networks-{hashlib.sha256(_CPU.encode()).hexdigest()[:16]}"
"""Where compiled loops are kept from process to process, those of every kind of processor apart."""


@dataclass(frozen=True)
class Layout:
    """How runs are laid out: each in a process of its own, or as a batch on all `devices`."""

    platform: str | None = "cpu"
    """JAX's; None leaves it to JAX"""
    together: bool = False


ALONE = Layout()

_free: dict[Layout, list["Worker"]] = {}
_lock = threading.Lock()
_one_at_a_time = threading.Lock()


class Worker:
    """A process that performs the methods of a `loop.Session`."""

    def __init__(self, layout: Layout = ALONE) -> None:
        self._pipe, theirs = Pipe()
        fd = theirs.fileno()
        code = f"from cpsrl.networks.workers import serve; serve({fd})"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            pass_fds=[fd],
            stdin=subprocess.DEVNULL,
            env=_variables(layout),
            start_new_session=True,
        )
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def call(self, method: str, *arguments: Any) -> Any:
        """Perform a method in the worker and return what it returns, or raise what it raises."""
        try:
            self._pipe.send((method, arguments))
            done, answer = self._pipe.recv()
        except (EOFError, OSError):
            code = self._process.wait()
            raise RuntimeError(f"a worker process ended with code {code}") from None
        if not done:
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()


@contextmanager
def worker(layout: Layout = ALONE) -> Iterator[Worker]:
    """Lend a free worker or a new one; after an error it is ended, not used again."""
    with _one_at_a_time if layout.together else nullcontext():
        with _lock:
            free = _free.setdefault(layout, [])
            while free and not free[-1].alive:
                free.pop().close()
            one = free.pop() if free else None
        one = one or Worker(layout)
        try:
            yield one
        except BaseException:
            one.close()
            raise
        with _lock:
            free.append(one)


def check_importable(part: Any) -> None:
    """Raise a ValueError if the class of `part` is where no worker can find it."""
    kind = type(part)
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise ValueError(
            f"{kind.__name__} is defined in {kind.__module__!r} as {kind.__qualname__}, and the "
            "compiled loop runs in a worker process, which cannot import it from there: put it at "
            "the top level of a module of its own, say parts.py, and import it from that"
        )


def serve(fd: int) -> None:
    """Perform what comes through the pipe until its other end is closed (the main function)."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(CACHE))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    from cpsrl.networks.loop import Session

    pipe, session = Connection(fd), Session()
    with suppress(EOFError, OSError):
        while True:
            message = pipe.recv_bytes()
            try:
                method, arguments = pickle.loads(message)
                answer = True, getattr(session, method)(*arguments)
            except Exception as error:
                said = _sendable(error)
                said.add_note(traceback.format_exc())
                answer = False, said
            pipe.send(answer)


def _sendable(error: Exception) -> Exception:
    """Return the error, or one that says the same where it does not survive the pipe."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__} in a worker process: {error}")
    return error


def _variables(layout: Layout = ALONE) -> dict[str, str]:
    """Return the worker's environment variables.

    They are those of this process, without JAX's and XLA's own, which would change what is
    computed; a worker that holds devices keeps these. The worker finds modules where this process
    does, except in the current directory: a jax.py there is the user's.
    """
    ours_alone = () if layout.together else ("JAX_", "XLA_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours_alone)}
    if layout.platform is not None:
        kept["JAX_PLATFORMS"] = layout.platform
    path, ours = [place for place in sys.path if place], str(Path(__file__).parents[2])
    if ours not in path:
        path.insert(0, ours)
    if layout.platform == "cpu":
        kept["NPROC"] = "1"  # where XLA reads the number of its threads
    return kept | {"PYTHONPATH": os.pathsep.join(path)}


def _close_all() -> None:
    for free in _free.values():
        while free:
            free.pop().close()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free.clear)
