"""The service: its answers, what it refuses, and eight clients while it is killed."""

import asyncio
import base64
import json
import logging
import re
import socket
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.live import access, app, service

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx")

from live import clients  # noqa: E402
from live.forks import forked  # noqa: E402

STATES, ACTIONS = ["idle", "busy"], ["wait", "go"]
TOKEN = "a-long-secret"


@pytest.fixture
def agent(folder):
    with cpsrl.open(folder / "agent.db", cpsrl.ContinuingPSRL(0.9), (STATES, ACTIONS)) as agent:
        yield agent


def asked(agent, *requests, token=None, names=(), host="localhost:8000"):
    """Send requests, as keyword arguments of httpx, and return the answers."""

    async def ask():
        served = (
            app.app(agent, token, names) if isinstance(agent, cpsrl.live.DurableAgent) else agent
        )
        transport = httpx.ASGITransport(served, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return [await client.request(**request) for request in requests]

    return asyncio.run(ask())


def post(place, **body):
    return {"method": "POST", "url": f"/{place}", "json": body}


def get(place, **more):
    return {"method": "GET", "url": f"/{place}", **more}


def test_the_three_calls_and_their_repetition(agent):
    decide = post("decide", id="a", state="idle")
    outcome = post("outcome", id="a", reward=1, next_state="busy")
    first, again, told, twice = asked(agent, decide, decide, outcome, outcome)
    assert first.status_code == 200
    assert first.json()["action"] in ACTIONS
    assert first.json() == again.json()
    assert told.json() == twice.json() == {"id": "a"}
    answers = asked(
        agent,
        post("decide", id="a", state="busy"),
        post("outcome", id="a", reward=2, next_state="busy"),
        post("outcome", id="b", reward=2, next_state="busy"),
        post("decide", id="c", state="idle"),
        post("discard", id="c"),
        post("discard", id="a"),
    )
    assert [answer.status_code for answer in answers] == [409, 409, 404, 200, 200, 409]
    assert agent.event == 4


def test_learn_explain_status_and_the_rest(agent):
    rows = [{"state": "idle", "action": "go", "reward": 1.0, "next_state": "busy"}] * 30
    learn = post("learn", rows=rows)
    first, again, said, status, rates, health, described, page = asked(
        agent, learn, learn, get("explain?state=idle&draws=99"), get("status"), get("rates"),
        get("health"), get("openapi.json"), get(""),
    )  # fmt: skip
    assert first.json() == {"transitions": 30, "new": True}
    assert again.json() == {"transitions": 30, "new": False}
    assert said.json() == json.loads(agent.explain("idle", 99).to_json())
    assert status.json() == agent.status()
    assert rates.json()["states"] == STATES
    assert health.json() == {"ok": True}
    paths = described.json()["paths"]
    assert set(paths) == {f"/{name}" for name in [*app.CHANGES, *app.LOOKS, *app.SERVER]}
    assert paths["/outcome"]["post"]["requestBody"]["required"]
    parameters = paths["/explain"]["get"]["parameters"]
    assert {one["name"]: one["required"] for one in parameters} == {
        "state": True,
        "draws": False,
        "stream": False,
    }
    assert page.status_code == 200
    assert "Reward rate" in page.text
    assert "default-src 'none'" in page.text, "the page loads nothing"
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
    for t in range(40):
        agent.observe("idle", "go", float(t % 3), "busy")
    (rates,) = asked(agent, get("rates"))
    assert len(rates.json()["rates"]) == 5


@pytest.mark.parametrize("state", ["[" * 5000, "NaN", "1e999", "3", "-1", "left"])
def test_a_state_in_an_address_that_is_none_is_refused(folder, state):
    with cpsrl.open(folder / "numbers.db", cpsrl.ContinuingPSRL(0.9), (3, 2)) as agent:
        (answer,) = asked(agent, get(f"explain?state={state}"))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("state must be a whole number in 0..2")


@pytest.mark.parametrize("begun", ["[", '{"a":'])
def test_what_is_nested_deeply_is_refused_however_deep(agent, begun, caplog):
    sent = {"method": "POST", "url": "/decide", "headers": {"Content-Type": "application/json"}}
    ended = "]" if begun == "[" else "}"
    for depth in (10, *range(900, 1010, 3), 100_000):
        state = f"{begun * depth}1{ended * depth}"
        (answer,) = asked(agent, sent | {"content": f'{{"id": "a", "state": {state}}}'})
        assert answer.status_code == 400, depth
    assert answer.json()["error"] == "the body is nested too deeply"
    assert not caplog.records, "what clients do wrong is no line of the log"


def test_nothing_is_told_without_the_token(agent):
    asked_for = [
        get("status"), get(""), get("ready"), get("nowhere"), get("openapi.json"),
        post("decide", id="a", state="idle"),
    ]  # fmt: skip
    basic = base64.b64encode(f"me:{TOKEN}x".encode()).decode()
    wrong = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {TOKEN} "},
             {"Authorization": f"Basic {basic}"}, {"Authorization": "Basic ?"},
             {"Authorization": TOKEN}, {"Authorization": "Bearer é".encode("latin-1")}]  # fmt: skip
    for headers in wrong:
        if headers.get("Authorization") == f"Bearer {TOKEN} ":
            continue  # HTTP strips spaces
        for answer in asked(agent, *(r | {"headers": headers} for r in asked_for), token=TOKEN):
            assert answer.status_code == 401
            assert answer.json() == {"error": "show the token"}
    assert agent.event == 0
    assert [answer.json() for answer in asked(agent, get("health"), token=TOKEN)] == [{"ok": True}]
    right = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    for shown in (f"Bearer {TOKEN}", f"Basic {right}"):
        (answer,) = asked(agent, get("status", headers={"Authorization": shown}), token=TOKEN)
        assert answer.status_code == 200


def test_a_web_page_cannot_reach_it(agent):
    decide = post("decide", id="a", state="idle")
    for host in ("evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "x y"):
        (answer,) = asked(agent, decide | {"headers": {"Host": host}})
        assert answer.status_code == 421
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        body = json.dumps({"id": "a", "state": "idle"}).encode()
        headers = {"Content-Type": kind}
        (answer,) = asked(
            agent, {"method": "POST", "url": "/decide", "content": body, "headers": headers}
        )
        assert answer.status_code == 415
    for site, status in {"cross-site": 403, "same-site": 403, "same-origin": 200}.items():
        sent = {"headers": {"Sec-Fetch-Site": site}}
        answers = asked(agent, get("explain?state=idle&draws=99") | sent, get("") | sent)
        assert [answer.status_code for answer in answers] == [status, 200]
    (preflight,) = asked(agent, {"method": "OPTIONS", "url": "/decide"})
    assert preflight.status_code == 405
    assert not any("access-control" in name for name in preflight.headers)
    assert agent.event == 0
    for host in ("127.0.0.1", "[::1]:8000", "LOCALHOST", "10.0.0.7:80", "mine.example"):
        sent = {"headers": {"Host": host}}
        (answer,) = asked(agent, get("status") | sent, names=["mine.example"])
        assert answer.status_code == 200


def test_others_need_a_token(agent):
    with pytest.raises(ValueError, match=r"others can reach 0\.0\.0\.0: put a token"):
        service.serve(agent, "0.0.0.0")
    with pytest.raises(ValueError, match="at least 8"):
        access.needed_tokens("0.0.0.0", "short")
    assert not access.needed_tokens("::1", None)
    assert access.needed_tokens("0.0.0.0", TOKEN)


NUMBERS = (-1, 1.5, 2**70)
"""Junk, but as a reward in order."""


def malformed(rng):
    """A request that is wrong in some way."""
    good = {
        "decide": {"id": "x", "state": "idle"},
        "outcome": {"id": "known", "reward": 1.0, "next_state": "busy"},
        "discard": {"id": "known"},
        "learn": {"rows": [{"state": "idle", "action": "go", "reward": 1, "next_state": "busy"}]},
    }
    place = list(good)[rng.integers(4)]
    body = good[place]
    junk = [None, True, [], {}, "", "idel", -1, 1.5, 2**70, "x" * 300, "a\nb", [1], {"a": 1}, 1e999]
    wrong, kind = junk[rng.integers(len(junk))], rng.integers(6)
    content = json.dumps(body).encode()
    if kind == 0:
        key = list(body)[rng.integers(len(body))]
        changed = body | {key: wrong}
        if key == "id" and isinstance(wrong, str) and place == "decide" and wrong == "idel":
            changed = body | {"state": wrong}
        if key == "reward" and wrong in NUMBERS:
            changed = body | {"id": "unknown"}
        content = json.dumps(changed).encode()
    elif kind == 1:
        content = json.dumps({k: v for k, v in body.items() if k != next(iter(body))}).encode()
    elif kind == 2:
        content = json.dumps(body | {"more": wrong}).encode()
    elif kind == 3:
        content = content[: rng.integers(len(content))]
    elif kind == 4:
        content = rng.bytes(int(rng.integers(1, 200)))
    else:
        row = {"state": "idle", "action": "go", "reward": 1.0, "next_state": "busy"}
        key = list(row)[rng.integers(4)]
        rows = [row, row | {key: "nothing" if key != "reward" else wrong}]
        if key == "reward" and wrong in NUMBERS:
            rows = [row, 7]
        place, content = "learn", json.dumps({"rows": rows}).encode()
    headers = {"Content-Type": "application/json"}
    return {"method": "POST", "url": f"/{place}", "content": content, "headers": headers}


def test_a_thousand_malformed_requests_change_nothing(agent):
    agent.decide("idle", id="known")
    before, rng = agent.agent.state(), np.random.default_rng(7)
    requests = [malformed(rng) for _ in range(1000)]
    big = {"method": "POST", "url": "/learn", "headers": {"Content-Type": "application/json"}}
    nested = big | {"content": b"[" * 100_000}
    big |= {"content": b'{"rows": [' + b"1," * app.MOST_BYTES}
    for request, answer in zip(requests, asked(agent, *requests), strict=True):
        assert 400 <= answer.status_code < 500, request
        assert answer.json()["error"]
    large, deep, *others = asked(
        agent, big, nested, get("explain"), get("explain?state=idel"), get("nowhere"),
        get("explain?state=idle&draws=0x"), get("decide"), {"method": "POST", "url": "/status"},
    )  # fmt: skip
    assert (large.status_code, deep.status_code) == (413, 400)
    assert [answer.status_code for answer in others] == [400, 400, 404, 400, 405, 405]
    assert agent.event == 1
    assert equal(agent.agent.state(), before)


def killed_while_serving(path, number, decisions, late, kills):
    """Let clients talk to a server that is killed; return them when they are through."""
    port, rng = clients.free_port(), np.random.default_rng(3)
    talking = [clients.Client(i, port, decisions, late) for i in range(number)]
    for client in talking:
        client.start()
    done, server = 0, None
    while any(client.is_alive() for client in talking):
        if server is None or not server.is_alive():
            server = forked(clients.serve, path, port)
            clients.wait_for(port, server)
        if done < kills:
            clients.wait_for_requests(talking, (done + 0.5) / kills, server)
            server.join(float(0.02 * rng.random()))
            server.kill()
            server.join()
            done += 1
        else:
            server.join(0.1)
    server.kill()
    server.join()
    assert done == kills, "the clients were through before the last kill"
    return talking


def check_replay(path, talking):
    """The agent is the one that the acknowledged requests make, in the order of their arrival."""
    acknowledged = {}
    for client in talking:
        assert not client.wrong
        for place, body, answer in client.acknowledged:
            acknowledged[place, body["id"]] = body | answer
    with sqlite3.connect(path) as db:
        events = db.execute("SELECT kind, id FROM events ORDER BY n").fetchall()
    db.close()
    assert len(set(events)) == len(events), "nothing is there twice"
    assert set(events) == set(acknowledged), "everything acknowledged is there, and nothing else"
    twin = cpsrl.start(clients.SPEC, clients.SIZES, seed=4)
    for kind, id in events:
        decided = acknowledged["decide", id]
        if kind == "decide":
            assert twin.decide(decided["state"]) == decided["action"]
        else:
            told = acknowledged["outcome", id]
            twin.learn(decided["state"], decided["action"], told["reward"], told["next_state"])
    with cpsrl.open(path) as agent:
        assert equal(agent.agent.state(), twin.state())


def test_clients_go_on_while_the_server_is_killed(folder):
    path = folder / "agent.db"
    check_replay(path, killed_while_serving(path, 4, 60, 20, 2))


@pytest.mark.slow
def test_eight_clients_and_twenty_kills(folder):
    path = folder / "agent.db"
    check_replay(path, killed_while_serving(path, 8, 500, 100, 20))


@pytest.mark.slow
def test_the_command_serves(folder, tmp_path):
    path = folder / "agent.db"
    cpsrl.open(path, cpsrl.TSDE(), (STATES, ACTIONS)).close()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    command = [sys.executable, "-m", "cpsrl.cli.main", "serve", str(path), "--port", "0"]
    with subprocess.Popen(
        [*command, "--token-file", str(tmp_path / "token")], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            url = re.search(r"http://\S+", server.stdout.readline())[0]
            assert httpx.get(f"{url}status").status_code == 401
            shown = {"Authorization": f"Bearer {TOKEN}"}
            assert httpx.get(f"{url}status", headers=shown).json()["events"] == 0
        finally:
            server.terminate()


def test_a_program_that_serves_keeps_its_own_log(agent, tmp_path):
    log = logging.FileHandler(tmp_path / "own.log", mode="w")
    logger = logging.getLogger("test.own")
    logger.addHandler(log)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        service.serve(agent, port=taken.getsockname()[1])
    logger.warning("after")
    logger.removeHandler(log)
    log.close()
    assert (tmp_path / "own.log").read_text() == "after\n"
