"""Streams of a durable agent: one belief, a clock, a coin and a drawn model for each."""

import asyncio
import shutil
import sqlite3

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.agents import Fleet
from cpsrl.beliefs import Forgetting
from cpsrl.cli.main import main
from cpsrl.live import Conflict, schema
from cpsrl.live.events import seal_of
from cpsrl.seeding import Streams
from cpsrl.support.serialise import DamagedError

STATES, ACTIONS = ["idle", "busy", "down"], ["wait", "go"]
SHOPS = (None, "shop-1", "shop-2", "$array")


@pytest.fixture
def path(folder):
    return folder / "agent.db"


def opened(path, spec=None, **options):
    return cpsrl.open(path, spec or cpsrl.ContinuingPSRL(0.8), (STATES, ACTIONS), **options)


def go(agent, first, last):
    """Decide in the shops by chance, with outcomes that come late; return the actions."""
    rng, done = np.random.default_rng(first), []
    for i in range(first, last):
        state, stream = STATES[rng.integers(3)], SHOPS[rng.integers(len(SHOPS))]
        done.append(agent.decide(state, f"d{i}", stream).action)
        if i >= first + 3 and rng.random() < 0.9:
            agent.outcome(f"d{i - 3}", float(rng.random()), STATES[rng.integers(3)])
    return done


def test_a_stream_decides_as_the_live_agents_own(path):
    """What the durable agent does, with the live agent in its place."""
    live = cpsrl.start(cpsrl.ContinuingPSRL(0.8), cpsrl.Sizes(3, 2))
    with opened(path) as agent:
        for i in range(60):
            shop = SHOPS[i % 3]
            mine = live if shop is None else live.stream(shop)
            action = ACTIONS[mine.decide(i % 3)]
            assert agent.decide(STATES[i % 3], f"{i}", shop).action == action
            agent.outcome(f"{i}", 0.1 * (i % 3), STATES[(i + 1) % 3])
            live.learn(i % 3, ACTIONS.index(action), 0.1 * (i % 3), (i + 1) % 3)
        assert equal(agent.agent.state()["members"], live.state()["members"])
        assert equal(agent.agent.state()["belief"], live.state()["belief"])
        assert [one.step for one in (live, *live.members.values())] == [21] * 3
        status = agent.status()
        assert status["streams"] == 2
        assert status["resamples"] == sum(one.resamples for one in (live, *live.members.values()))


@pytest.mark.parametrize(
    "spec", [None, cpsrl.PSRL(cpsrl.Bernoulli(0.8), belief=Forgetting(half_life=20.0))]
)
def test_reopened_it_is_the_same_agent_bit_for_bit(path, spec):
    """From the journal alone, from a snapshot and the journal, and from a snapshot alone."""
    agent = opened(path, spec, snapshot_every=1000)
    whole = go(agent, 0, 40)
    copies = [path.with_name(f"copy-{k}.db") for k in range(3)]
    shutil.copy(path, copies[0])
    shutil.copy(f"{path}-wal", f"{copies[0]}-wal")
    agent.snapshot()
    whole += go(agent, 40, 60)
    state = agent.agent.state()
    shutil.copy(path, copies[1])
    shutil.copy(f"{path}-wal", f"{copies[1]}-wal")
    agent.close()
    shutil.copy(path, copies[2])
    with cpsrl.open(copies[0], snapshot_every=1000) as again:
        assert len(again.agent.members) == 3
        assert go(again, 40, 60) == whole[40:]
        assert equal(again.agent.state(), state)
    for copy in copies[1:]:
        with cpsrl.open(copy) as again:
            assert equal(again.agent.state(), state)


def test_the_journal_says_whose_a_decision_was_and_its_seal_covers_it(path):
    agent = opened(path)
    agent.decide("idle", "a")
    agent.decide("idle", "b", "shop-1")
    with sqlite3.connect(path) as db:
        query = "SELECT id, stream FROM events ORDER BY n"
        assert db.execute(query).fetchall() == [("a", None), ("b", "shop-1")]
        db.execute("UPDATE journal SET stream = 'shop-2' WHERE id = 'b'")
    db.close()
    agent._disk.end("is killed")
    with pytest.raises(DamagedError, match="event 2 of its journal is not what was written"):
        cpsrl.open(path)


def test_a_repeated_decision_is_that_of_its_stream(path):
    with opened(path) as agent:
        first = agent.decide("idle", "a", "shop-1")
        assert agent.decide("idle", "a", "shop-1") == first
        for other in (None, "shop-2"):
            with pytest.raises(Conflict, match="'a' was taken in the stream 'shop-1'"):
                agent.decide("idle", "a", other)
        assert agent.status()["streams"] == 1
        assert agent.event == 1


def test_an_explanation_is_that_of_the_stream(path):
    with opened(path) as agent:
        go(agent, 0, 60)
        for shop in SHOPS:
            found = agent.explain("busy", 99, shop)
            own = agent.agent if shop is None else agent.agent.members[shop]
            assert found.action == ACTIONS[own.policy[1]]
            assert found.drawn["stream"] == shop
        with pytest.raises(ValueError, match=r"unknown stream 'shop-9'.*'shop-"):
            agent.explain("busy", 99, "shop-9")


def test_a_file_of_the_schema_before_streams_opens_and_goes_on(path):
    """A row without a stream is sealed as it was: without the column, the file is an old one."""
    agent, plain = opened(path, snapshot_every=1000), opened(path.with_name("plain.db"))
    for one in (agent, plain):
        for i in range(20):
            one.decide(STATES[i % 3], f"{i}")
    agent._disk.end("is killed")
    with sqlite3.connect(path) as db:
        ((events,),) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'events'").fetchall()
        db.execute("DROP VIEW events")
        for table in ("journal", "history", "decisions"):
            db.execute(f"ALTER TABLE {table} DROP COLUMN stream")
        db.execute("ALTER TABLE decisions DROP COLUMN at")
        for row in db.execute("SELECT * FROM decisions").fetchall():
            db.execute("UPDATE decisions SET seal = ? WHERE id = ?", (seal_of(row[:-1], 7), row[0]))
        db.execute(events)
        db.execute("ALTER TABLE writer DROP COLUMN epoch")
        db.execute("PRAGMA user_version = 1")
        old = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    db.close()
    assert old["journal"] == (
        "CREATE TABLE journal (n INTEGER PRIMARY KEY, at REAL, kind TEXT, id TEXT, state, action "
        "INTEGER, reward REAL, next_state, seal INTEGER)"
    )
    with cpsrl.open(path) as again:
        assert again.event == 20
        assert equal(again.agent.state(), plain.agent.state())
        again.decide("idle", "new", "shop-1")
    plain.close()
    with cpsrl.open(path) as again:
        assert list(again.agent.members) == ["shop-1"]
    with sqlite3.connect(f"{path}.schema-1") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()
    assert schema.SCHEMA == 4


@pytest.mark.parametrize(
    ("spec", "stream", "message"),
    [
        (None, "", "stream must be a line of at most 200 characters, not ''"),
        (None, "a\nb", "stream must be a line"),
        (None, 3, "stream must be a line"),
        (cpsrl.TSDE(), "shop-1", "TSDE has no streams that share its belief"),
        (cpsrl.UCRL2(), "shop-1", "has no streams that share its belief"),
    ],
)
def test_what_can_be_no_stream_changes_nothing(path, spec, stream, message):
    with opened(path, spec) as agent:
        before = agent.agent.state()
        with pytest.raises(ValueError, match=message):
            agent.decide("idle", stream=stream)
        assert agent.event == 0
        assert equal(agent.agent.state(), before)


def test_a_fleet_is_not_opened_but_made_of_streams(path):
    with pytest.raises(ValueError, match="a durable agent has streams by name"):
        opened(path, Fleet(3))
    assert not path.exists()


def test_a_saved_agent_keeps_its_streams(folder):
    agent = cpsrl.start(cpsrl.ContinuingPSRL(0.8), cpsrl.Sizes(3, 2))
    agent.stream("shop-1").decide(2)
    agent.save(folder / "agent.cpsrl")
    again = cpsrl.resume(folder / "agent.cpsrl")
    assert equal(again.state(), agent.state())
    assert again.members["shop-1"].streams.state() != Streams().state()


def test_over_http(path):
    pytest.importorskip("starlette")
    httpx = pytest.importorskip("httpx")
    from cpsrl.live import app

    async def ask(agent, *bodies):
        transport = httpx.ASGITransport(app.app(agent))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            posts = [await client.post("/decide", json=body) for body in bodies]
            return [*posts, await client.get("/explain?state=idle&draws=99&stream=shop-1")]

    with opened(path) as agent:
        body = {"id": "a", "state": "idle", "stream": "shop-1"}
        first, again, other, wrong, why = asyncio.run(
            ask(agent, body, body, body | {"stream": "shop-2"}, body | {"id": "b", "stream": ""})
        )
        assert first.json() == again.json()
        assert [one.status_code for one in (first, other, wrong, why)] == [200, 409, 400, 200]
        assert why.json()["drawn"]["stream"] == "shop-1"
        decide = app.openapi()["paths"]["/decide"]["post"]["requestBody"]["content"]
        needed = decide["application/json"]["schema"]
        assert needed["required"] == ["id", "state"]
        assert "stream" in needed["properties"]


def test_from_the_shell(path, capsys):
    opened(path).close()
    assert main(["agent", "decide", str(path), "idle", "--id", "1", "--stream", "shop-1"]) == 0
    assert main(["agent", "explain", str(path), "idle", "--draws", "99", "--stream", "shop-1"]) == 0
    assert "it would take" in capsys.readouterr().out
