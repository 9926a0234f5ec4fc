"""Damaged databases, saved agents and logs: an error or the right answer, never another agent."""

import sqlite3

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.live import durable, schema

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
    return agent.agent.state(), agent.tally.state(), agent.event, decisions, logs, agent.pending()


@pytest.mark.parametrize("mutations", [MUTATIONS, ALL])
@pytest.mark.parametrize("closed", [True, False])
def test_databases(folder, mutations, closed):
    path, rng, refused = folder / "agent.db", np.random.default_rng(4), 0
    agent = used(path)
    if closed:
        agent.close()
    else:
        agent._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        agent._end("was let go without a word")
    whole = path.read_bytes()
    with durable.view(path) as agent:
        right = facts(agent)
    for _ in range(mutations):
        for rest in folder.iterdir():
            rest.unlink()
        path.write_bytes(mutated(whole, rng))
        try:
            with durable.view(path) as agent:
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
        schema.reading(tmp_path / "agent.db"),
    ):
        raise sqlite3.OperationalError("unable to open database file")
