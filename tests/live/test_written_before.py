"""Databases that an earlier version wrote (`written.py`): they are kept, and go on as they did."""

import json
import shutil
import sqlite3
from importlib.util import find_spec

import pytest

import cpsrl
from cpsrl.experiments.provenance import provenance
from cpsrl.live import schema
from live import written

STORED = json.loads((written.FIXTURES / "facts.json").read_text())
CASES = [name for name in written.CASES if name != "networks" or find_spec("jax")]


def copied(name, folder):
    return shutil.copy(written.FIXTURES / f"{name}.db", folder / f"{name}.db")


def facts(agent, events):
    """The facts, without the event that says that the versions have changed."""
    found = written.facts(agent, events)
    found["status"]["events"] = min(found["status"]["events"], events)
    assert not found["status"].pop("apprentice")
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("name", CASES)
def test_everything_is_kept(folder, name):
    then = STORED["agents"][name]["facts"]
    with cpsrl.open(copied(name, folder)) as agent:
        found = facts(agent, then["status"]["events"])
        agent.check()
    for key in ("status", "pending", "visits", "marks", "rates"):
        assert found[key] == then[key], key
    if name in ("keep", "doubling"):
        assert found["events"] == then["events"]
    for table in ("decisions", "logs"):
        assert found["tables"][table] == then["tables"][table]
    with sqlite3.connect(folder / f"{name}.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA,)
    db.close()


@pytest.mark.skipif(
    provenance().cpu not in STORED["cpus"], reason="bits are those of a processor family"
)
@pytest.mark.parametrize("name", CASES)
def test_it_goes_on_bit_for_bit(folder, name):
    with cpsrl.open(copied(name, folder)) as agent:
        assert written.go(agent, name, 70, 110) == STORED["agents"][name]["actions"]


@pytest.mark.parametrize("name", CASES)
def test_it_is_opened_with_the_agent_and_its_problem(folder, name):
    spec, problem, _ = written.CASES[name]
    cpsrl.open(copied(name, folder), spec, problem).close()
