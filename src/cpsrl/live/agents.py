"""The agents of a server, by name: opened when they are asked for, and opened again where possible.

A folder holds one file NAME.db for each agent. A name is letters, digits, `_` and `-`, never a
path. As many are open as there are descriptors for; the one that was asked for least recently makes
room for the next. An agent whose file could not be written, for a full disk say, is opened again
when it is next asked for: what was acknowledged is in the file.
"""

import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from cpsrl.agents import AGENTS
from cpsrl.live.access import Refused
from cpsrl.live.durable import DurableAgent
from cpsrl.live.events import NotOpen
from cpsrl.live.opening import open
from cpsrl.support.checks import count
from cpsrl.support.registry import unknown

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
DESCRIPTORS = 5
"""How many an open agent has."""
AGAIN_SECONDS = 0.5
"""How long after a failure an agent is opened again, at the earliest."""
CLOSE_SECONDS = 0.5
"""For how long agents are closed when the server stops: a thousand would take a minute."""
LEAVE_SECONDS = 1.0
"""After how long the server stops without those that are still busy."""
FILES = ("", "-wal", "-shm", "-lock")

T = TypeVar("T")


def descriptors() -> int:
    """Return how many files the process may have open, after asking for as many as it may ask."""
    try:
        import resource
    except ImportError:
        return 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 16384 if hard == resource.RLIM_INFINITY else min(hard, 16384)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return 16384 if soft == resource.RLIM_INFINITY else soft


class Agents:
    """The agents of a folder; or one agent, whose name is "".

    Args:
        folder: where their files are.
        agent: the one agent.
        options: how agents are kept on disk (`cpsrl.live.Options`), where they are opened here.
    """

    def __init__(
        self, folder: Path | None = None, agent: DurableAgent | None = None, **options: Any
    ) -> None:
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder}")
        self.folder, self.one, self.options = folder, agent, options
        self.open: dict[str, DurableAgent] = {} if agent is None else {"": agent}
        self.failed: dict[str, tuple[float, str]] = {}
        """When an agent could last not be opened, and why."""
        self.most = max(1, descriptors() // 2 // DESCRIPTORS)
        self._locks: dict[str, threading.Lock] = {}
        """By name: an agent is opened once, while others are."""
        self._used: dict[str, float] = {}

    def __str__(self) -> str:
        if self.one is not None:
            return f"{self.one.label} in {self.one.path}"
        return f"{self.folder} with {count(len(self.names()), 'agent')}"

    def names(self) -> list[str]:
        """Return the names of the agents, in order."""
        if self.folder is None:
            return [""]
        found = (one.stem for one in self.folder.iterdir() if one.suffix == ".db")
        return sorted(name for name in found if NAME.fullmatch(name))

    def run(self, name: str, work: Callable[[DurableAgent], T]) -> T:
        """Return what `work` returns for an agent, which may be closed meanwhile to make room."""
        while True:
            agent = self.open.get(name)
            if agent is None or agent.closed:
                agent = self._opened(name)
            self._used[name] = time.monotonic()
            try:
                return work(agent)
            except NotOpen:
                if agent.failed:
                    raise

    def _opened(self, name: str) -> DurableAgent:
        if self.one is None and not self._path(name).exists():
            raise FileNotFoundError(f"there is no agent {name!r}")
        with self._lock(name):
            agent = self.open.get(name)
            if agent is not None and not agent.closed:
                return agent
            at, why = self.failed.get(name, (0.0, ""))
            if time.monotonic() < at + AGAIN_SECONDS:
                raise NotOpen(why)
            while agent is None and len(self.open) >= self.most:
                oldest = min(list(self.open), key=lambda one: self._used.get(one, 0.0))
                with self._lock(oldest):  # or who asks for it now would find it in use
                    if (closing := self.open.pop(oldest, None)) is not None:
                        closing.close()
            try:
                if self.one is not None:
                    new = open(self.one.path, self.one.spec, **vars(self.one.options))
                else:
                    new = open(self._path(name), create=False, **self.options)
            except (ValueError, OSError) as error:
                self.failed[name] = time.monotonic(), str(error)
                raise NotOpen(str(error)) from None
            self.failed.pop(name, None)
            self.open[name] = new
            return new

    def why_not(self) -> str:
        """Return why some agent can't be asked, and "" if all can."""
        closed = [name for name, agent in list(self.open.items()) if agent.closed]
        for name in {*closed, *self.failed}:
            try:
                self._opened(name)
            except FileNotFoundError:  # it was taken away
                self.failed.pop(name, None)
                self.open.pop(name, None)
            except (ValueError, OSError) as error:
                return str(error)
        return ""

    def make(self, name: str, agent: str, problem: tuple[Any, ...]) -> None:
        """Make an agent, one of `cpsrl list agents` with its default settings."""
        path = self._path(name)
        if path.exists():
            raise FileExistsError(f"there is an agent {name!r} already")
        with open(path, AGENTS.make(agent), problem, **self.options):
            pass

    def delete(self, name: str) -> None:
        """Delete an agent and its files."""
        path = self._existing(name)
        with self._lock(name):
            if (agent := self.open.pop(name, None)) is not None:
                agent.close()
            for more in FILES:
                Path(f"{path}{more}").unlink(missing_ok=True)
            self.failed.pop(name, None)

    def close(self) -> None:
        """Close them all, or, where there is no time, commit what they did.

        Those in which a decision is still being made are not waited for.
        """
        end = time.monotonic() + CLOSE_SECONDS

        def let_go(agent: DurableAgent) -> None:
            (agent.close if time.monotonic() < end else agent.flush)()

        threads = ThreadPoolExecutor(8)
        done, _ = wait([threads.submit(let_go, one) for one in self.open.values()], LEAVE_SECONDS)
        threads.shutdown(wait=False)
        for one in done:
            one.result()

    def _lock(self, name: str) -> threading.Lock:
        return self._locks.setdefault(name, threading.Lock())

    def _path(self, name: str) -> Path:
        if self.folder is None:
            raise Refused(404, "here is one agent, without a name")
        if not NAME.fullmatch(name):
            raise Refused(404, f"an agent's name is letters, digits, _ and -, not {name!r}")
        return self.folder / f"{name}.db"

    def _existing(self, name: str) -> Path:
        path = self._path(name)
        if not os.path.lexists(path):
            raise unknown("agent", name, self.names())
        return path
