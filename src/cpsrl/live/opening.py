"""Making durable agents, opening them, and copies of them."""

import logging
import os
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

from cpsrl.agents import Agent
from cpsrl.agents.agent import usual
from cpsrl.agents.checkpoint import stored_recipe
from cpsrl.live.at_path import Lock, is_new
from cpsrl.live.durable import DurableAgent
from cpsrl.live.labels import labels_of
from cpsrl.live.memory import Memory, checked_agent
from cpsrl.live.options import REMEMBER, Options
from cpsrl.live.schema import Database
from cpsrl.support.registry import unknown

log = logging.getLogger("cpsrl")


def open(
    path: str | os.PathLike[str],
    agent: Agent | None = None,
    problem: Any = None,
    *,
    seed: int = 0,
    create: bool = True,
    **options: Any,
) -> DurableAgent:
    """Make a durable agent, or open the one that is there; one process at a time may have it.

    Args:
        path: the SQLite file.
        agent: what it is, such as `cpsrl.ContinuingPSRL()`; None takes that of the file, and for a
            new one `AdaptivePSRL()`, or `BootstrappedDQN()` where observations are vectors.
        problem: `(states, actions)`, each a list of labels or a number, and after them the range
            `(low, high)` of the mean rewards where it is not (0, 1); or `Sizes`, `FeatureSizes`, or
            a `TabularMDP`, of which it gets all but the transitions and the rewards. None takes
            that of the file.
        seed: the root seed of a new agent.
        create: whether to make an agent where there is none; if not, that is an error.
        options: how it is kept on disk, such as durability="group": see `cpsrl.live.Options`.
    """
    path, names = Path(path), [field.name for field in fields(Options)]
    for name in options:
        if name not in names:
            raise unknown("option", name, names, "cpsrl.open")
    if str(path) == ":memory:":
        raise ValueError("a durable agent is a file; cpsrl.start gives one in memory")
    how = Options(**options)
    agent = checked_agent(agent)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    beginning = None
    if not path.exists():
        if not create:
            raise FileNotFoundError(f"there is no agent at {path}, and create is False")
        if problem is None:
            raise FileNotFoundError(
                f"there is no agent at {path}: give its problem, and perhaps an agent, to make one,"
                " or make it with `cpsrl agent new`"
            )
        agent = agent or usual(problem)
        beginning = _beginning(agent, problem, seed, how)  # before there is a file
    lock = Lock(path)
    try:
        if is_new(path):
            if problem is None or not create:
                raise ValueError(f"{path} is empty: give the agent and its problem")
            agent = agent or usual(problem)
            about, snapshot = beginning or _beginning(agent, problem, seed, how)
            about = {"journal": "drop", "remember": REMEMBER} | about
            database = Database.create(path, {"about": about, "snapshot": snapshot})
            log.warning("made a new agent, %s, in %s", agent.label, path)
        else:
            database = Database.reopen(path)
        return _with(database, lock, agent, problem, how)
    except BaseException:
        lock.release()
        raise


def view(path: str | os.PathLike[str], agent: Agent | None = None) -> DurableAgent:
    """Return the agent in `path` as it stands, to look at: it changes nothing and needs no lock.

    While it is open the WAL of a process that writes can only grow: close it.
    """
    path, agent = Path(path), checked_agent(agent)
    if not path.is_file():
        raise FileNotFoundError(f"there is no agent at {path}")
    if is_new(path):
        raise ValueError(f"{path} is empty: there is no agent in it")
    return _with(Database.reopen(path, write=False), None, agent)


def backup(path: str | os.PathLike[str], to: str | os.PathLike[str]) -> None:
    """Copy an agent's file, also while a process has it open: what is in its WAL is in the copy.

    `restore` is the same the other way: the copy is checked, row by row, and there must be nothing
    at `to` yet.
    """
    path = Path(path)
    if not path.is_file() or is_new(path):
        raise FileNotFoundError(f"there is no agent at {path}")
    with closing(Database.reopen(path, write=False)) as database:
        database.backup(Path(to), check=True)


def _with(database: Database, *given: Any) -> DurableAgent:
    try:
        return DurableAgent(database, *given)
    except BaseException:
        database.close()
        raise


def _beginning(
    agent: Agent, problem: Any, seed: int, how: Options
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the documents of a new agent: about it, and where it stands."""
    labels = labels_of(problem, agent)
    memory = Memory(agent, labels, seed, how)
    about = {"agent": stored_recipe(memory.live.spec), "problem": labels.to_tree()}
    about |= how.stored()
    return about, memory.snapshot()
