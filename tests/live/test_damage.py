"""Damaged databases, saved agents and logs: an error or the right answer, never another agent."""

import io
import json
import os
import sqlite3
import zipfile

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl import live
from cpsrl.live import at_path
from cpsrl.support.serialise import sha256, unsealed

MUTATIONS = 150
ALL = pytest.param(1000, marks=pytest.mark.slow)
RIVER = cpsrl.Sizes(6, 2)


def mutated(data, rng):
    """Return bytes with some flipped, cut out, doubled, zeroed or cut off."""
    data, kind = bytearray(data), rng.integers(6)
    place = int(rng.integers(len(data)))
    length = int(rng.integers(1, 64))
    if kind <= 1:
        data[place] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        data[place : place + length] = rng.bytes(len(data[place : place + length]))
    elif kind == 3:
        data[place : place + length] = bytes(len(data[place : place + length]))
    elif kind == 4:
        del data[place : place + length]
    else:
        del data[place:]
    return bytes(data)


def says(error, path):
    """An error says in which file."""
    assert str(path) in str(error)
    return 1


def used(path, **options):
    """An agent with a journal, waiting and finished decisions, let go without being closed."""
    agent = cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), RIVER, **options)
    for t in range(60):
        decision = agent.decide(t % 6, id=f"d{t}")
        if t % 3:
            agent.outcome(decision.id, t / 7, (t + 1) % 6)
    agent.learn([(0, 1, 0.5, 1), (1, 1, 0.5, 2)])
    for t in range(60, 90):
        decision = agent.decide(t % 6, id=f"d{t}")
        if t % 3:
            agent.outcome(decision.id, t / 7, (t + 1) % 6)
    return agent


def facts(agent):
    """All that can be asked of an agent without changing it."""
    with sqlite3.connect(agent.path) as db:
        decisions = db.execute("SELECT * FROM decisions").fetchall()
        logs = db.execute("SELECT * FROM logs").fetchall()
    db.close()
    return agent.agent.state(), agent.totals.state(), agent.event, decisions, logs, agent.pending()


@pytest.mark.parametrize("mutations", [MUTATIONS, ALL])
@pytest.mark.parametrize("closed", [True, False])
def test_databases(folder, mutations, closed):
    path, rng, refused = folder / "agent.db", np.random.default_rng(4), 0
    agent = used(path)
    if closed:
        agent.close()
    else:
        agent._database._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        agent._disk.end("was let go without a word")
    whole = path.read_bytes()
    with live.view(path) as agent:
        right = facts(agent)
    for _ in range(mutations):
        for rest in folder.iterdir():
            rest.unlink()
        path.write_bytes(mutated(whole, rng))
        try:
            with live.view(path) as agent:
                agent.check()
                assert all(map(equal, facts(agent), right))
        except (ValueError, OSError) as error:
            refused += says(error, path)
    assert refused > mutations / 4


@pytest.mark.parametrize("mutations", [MUTATIONS, ALL])
def test_saved_agents(folder, mutations):
    path, rng, refused = folder / "agent.saved", np.random.default_rng(5), 0
    agent = cpsrl.start(cpsrl.TSDE(), cpsrl.environment("riverswim"), seed=1)
    for t in range(50):
        agent.observe(t % 6, 1, 0.5, (t + 1) % 6)
    agent.save(path)
    whole, right = path.read_bytes(), agent.state()
    for _ in range(mutations):
        path.write_bytes(mutated(whole, rng))
        try:
            assert equal(cpsrl.resume(path).state(), right)
        except (ValueError, OSError) as error:
            refused += says(error, path)
    assert refused > 0.9 * mutations


LOG = b"state,action,reward,next_state\n" + b"".join(
    f"{'ab'[t % 2]},{'xy'[t % 3 == 0]},{t / 8},{'ab'[(t + 1) % 2]}\n".encode() for t in range(60)
)


@pytest.mark.parametrize("mutations", [MUTATIONS, ALL])
def test_logs(folder, mutations):
    """A log with an error in it changes nothing; one that is read is read as it stands."""
    path, rng, refused = folder / "past.csv", np.random.default_rng(6), 0
    problem = (["a", "b"], ["x", "y"])
    with cpsrl.open(folder / "agent.db", cpsrl.ContinuingPSRL(0.9), problem) as agent:
        agent.decide("a")
        for _ in range(mutations):
            text = mutated(LOG, rng)
            path.write_bytes(text)
            before, event = agent.agent.state(), agent.event
            try:
                learned = agent.learn(path)
            except ValueError as error:
                refused += says(error, path)
                assert agent.status()["events"] == event
                assert equal(agent.agent.state(), before)
                continue
            lines = [line for line in text.decode().splitlines() if line.strip()]
            assert learned.transitions <= len(lines)
            if learned.new:
                seen = before["belief"]["seen"].sum() + len(before["backlog"]["rows"])
                after = agent.agent.state()
                total = after["belief"]["seen"].sum() + len(after["backlog"]["rows"])
                assert total - seen == learned.transitions
    assert refused > mutations / 4


def test_a_folder_that_is_read_only_is_named_as_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with (
        pytest.raises(OSError, match=r"agent.db: unable to open.*read-only.*copy it elsewhere"),
        at_path.reading(tmp_path / "agent.db"),
    ):
        raise sqlite3.OperationalError("unable to open database file")


WRONG = (
    *(None, True, -1, 3.5, 2**70, float("nan"), "x", [], {}, [1], {"a": 1}, [["a", 2]]),
    *({"$array": ["<f8", 0, [10**9]]}, {"$array": [1]}, {"$part": ["agent", "no"]}, {"$part": 1}),
)


def places(tree, above=()):
    """The places in a tree, as keys from its top."""
    for key, inner in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*above, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*above, key))


def changed(tree, place, value):
    """A copy of a tree with another value in a place."""
    tree = json.loads(json.dumps(tree))
    inner = tree
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return json.dumps(tree)


def sealed_anew(path, name, text, arrays):
    """Put a document into a database as somebody would who knows how it is sealed."""
    checksum = sha256(text.encode() + b"\0" + arrays)
    with sqlite3.connect(path) as db:
        row = (text, arrays, checksum, name)
        db.execute("UPDATE documents SET tree = ?, arrays = ?, sha256 = ? WHERE name = ?", row)
    db.close()


@pytest.mark.parametrize("mutations", [MUTATIONS, ALL])
@pytest.mark.parametrize("name", ["about", "snapshot"])
def test_documents_that_are_sealed_and_wrong(folder, name, mutations):
    path, rng, refused = folder / "agent.db", np.random.default_rng(7), 0
    options = {"background": 3, "outcome_within": 60.0, "otherwise": 0.0}
    problem = (["a", "b"], ["x", "y"])
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), problem, **options) as agent:
        for t in range(30):
            agent.outcome(agent.decide("a", stream=f"s{t % 2}").id, 0.5, "b")
    whole = path.read_bytes()
    with sqlite3.connect(path) as db:
        query = "SELECT tree, arrays FROM documents WHERE name = ?"
        text, arrays = db.execute(query, (name,)).fetchone()
    db.close()
    found = list(places(json.loads(text)))
    for _ in range(mutations):
        for rest in folder.iterdir():
            rest.unlink()
        path.write_bytes(whole)
        place, wrong = found[rng.integers(len(found))], WRONG[rng.integers(len(WRONG))]
        sealed_anew(path, name, changed(json.loads(text), place, wrong), arrays)
        try:
            with live.open(path, create=False) as agent:
                agent.decide("a")
                agent.explain("a", draws=39)
                assert agent.status()["events"] > 0
                assert agent.metrics()["pending"] >= 0
        except (ValueError, OSError):
            refused += 1
    assert refused > mutations / 4


def archive(method, n=1 << 20):
    """An archive of NumPy's with n zeros in it, as it is compressed by a method."""
    file, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(n))
    with zipfile.ZipFile(file, "w", method) as one:
        one.writestr("<f8.npy", array.getvalue())
    return file.getvalue()


@pytest.mark.parametrize(
    ("arrays", "text", "complaint"),
    [
        (archive(zipfile.ZIP_DEFLATED), "{}", "are compressed"),
        (archive(zipfile.ZIP_LZMA), "{}", "are compressed"),
        (
            archive(zipfile.ZIP_STORED, 8),
            json.dumps([{"$array": ["<f8", 0, [8]]}] * 2),
            "more arrays than it has",
        ),
        (archive(zipfile.ZIP_STORED, 8), "[" * 10_000 + "]" * 10_000, "recursion"),
    ],
)
def test_a_small_file_does_not_become_a_large_one(folder, arrays, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        unsealed(text, arrays, sha256(text.encode() + b"\0" + arrays))


def test_what_would_be_waited_for_is_no_file(folder):
    os.mkfifo(folder / "agent.saved")
    with pytest.raises(ValueError, match="not a file but"):
        cpsrl.resume(folder / "agent.saved")
