"""The server in a process of its own: floods, stops, hang-ups, full disks, and several agents."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import cpsrl

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx")

from cpsrl.live import access, agents, app, service, shared  # noqa: E402
from cpsrl.live.durable import DurableAgent  # noqa: E402
from live.test_service import ACTIONS, STATES, TOKEN, asked, get, post  # noqa: E402

COIN = cpsrl.ContinuingPSRL(0.9)
START = """
import sys, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from cpsrl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def served(folder):
    """A server of the command line with 1,024 descriptors: its process, address and log."""
    stack = contextlib.ExitStack()

    def start(path, *more):
        log = stack.enter_context((folder / "log").open("w+"))
        command = [sys.executable, "-c", START, "serve", str(path), "--port", "0", *more]
        server = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        )
        stack.callback(server.kill)
        url = re.search(r"http://\S+", server.stdout.readline())[0]
        return server, url, log

    with stack:
        yield start


def made(folder, n_states=6, **options):
    path = folder / "agent.db"
    with cpsrl.open(path, COIN, cpsrl.Sizes(n_states, 2), **options) as agent:
        agent.decide(0, "first")
    return path


def connected(url):
    host, port = url.removeprefix("http://").strip("/").split(":")
    return socket.create_connection((host, int(port)), timeout=600)


def test_a_stop_that_was_asked_for_is_a_success_also_in_the_midst_of_an_explanation(folder, served):
    path = made(folder, 400)
    with cpsrl.live.view(path) as agent:
        agent.explain(0, 39)  # or the server would compile this, and say so
    server, url, log = served(path)
    httpx.post(f"{url}decide", json={"id": "a", "state": 3}, timeout=600)
    asking = threading.Thread(
        target=lambda: (
            contextlib.suppress(httpx.HTTPError).__enter__()
            or httpx.get(f"{url}explain?state=0&draws=99999", timeout=600)
        ),
        daemon=True,
    )
    for request in (
        b"POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{",
        b"GET /explain?state=0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01 nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ):
        for _ in range(5):  # and hang up
            with connected(url) as one:
                one.sendall(request)
    half = connected(url)
    half.sendall(b"POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    half.sendall(b"Content-Length: 100\r\n\r\n{")
    asking.start()
    time.sleep(0.5)
    assert httpx.get(f"{url}health", timeout=600).json() == {"ok": True}
    server.send_signal(signal.SIGTERM)
    assert server.wait(600) == 0, "half a body, and an explanation, end with it"
    half.close()
    log.seek(0)
    assert not log.read(), "what clients do wrong is no line of the log"
    with cpsrl.open(folder / "agent.db") as agent:
        assert agent.pending() == ["first", "a"]


@pytest.mark.slow
def test_two_thousand_half_open_connections_stop_nobody(folder, served):
    number = 2000
    server, url, log = served(made(folder))
    halves = []
    for i in range(number):
        halves.append(connected(url))
        with contextlib.suppress(OSError):
            halves[-1].sendall(b"GET /status HTTP/1.1\r\nHost: loc" if i % 2 else b"")
    for _ in range(3):
        begun = time.monotonic()
        assert httpx.get(f"{url}health", timeout=600).status_code == 200
        took = time.monotonic() - begun
    assert httpx.post(f"{url}decide", json={"id": "a", "state": 3}, timeout=600).status_code == 200
    assert len(os.listdir(f"/proc/{server.pid}/fd")) < 1024
    server.terminate()
    assert server.wait(600) == 0
    log.seek(0, 2)
    assert log.tell() < 10_000
    print(f"{number} half-open connections: /health in {took:.3f} s, log {log.tell()} bytes")
    for half in halves:
        half.close()


CHUNKED = (
    b"POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
ENDLESS = {
    "headers": (b"GET /health HTTP/1.1\r\n", b"X-a: bbbbbbbb\r\n" * 4000),
    "a header": (b"GET /health HTTP/1.1\r\nX: ", b"a" * 60_000),
    "an address": (b"GET /", b"a" * 60_000),
    "what follows a body": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-a: bbbbbbbb\r\n" * 4000),
    "requests": (b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000),
}


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="it reads /proc")
def test_who_sends_without_end_is_cut_off(folder, served):
    server, url, log = served(made(folder))
    httpx.get(f"{url}health", timeout=600)
    before = memory_of(server.pid)
    for what, (first, more) in ENDLESS.items():
        with connected(url) as one:
            one.sendall(first)
            with pytest.raises(OSError, match=r"reset|pipe"):
                send_again_and_again(one, more)
            assert httpx.get(f"{url}health", timeout=600).status_code == 200, what
    assert memory_of(server.pid) < before + 50
    log.seek(0)
    assert not log.read()


def send_again_and_again(connection, more):
    for _ in range(2000):
        connection.sendall(more)


def memory_of(process):
    """The megabytes that a process has in memory."""
    with open(f"/proc/{process}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1000


def test_a_request_has_a_time_limit(monkeypatch, folder):
    monkeypatch.setattr(service, "REQUEST_SECONDS", 0.2)
    path = made(folder)
    with cpsrl.open(path) as agent, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        thread = threading.Thread(
            target=service.serve, args=(agent, "127.0.0.1", port), daemon=True
        )
        servers = []
        uvicorn = pytest.importorskip("uvicorn")
        main_loop = uvicorn.Server.main_loop

        async def kept(self):
            servers.append(self)
            await main_loop(self)

        monkeypatch.setattr(uvicorn.Server, "main_loop", kept)
        thread.start()
        while not servers:
            time.sleep(0.01)
        with connected(f"http://127.0.0.1:{port}/") as slow:
            slow.sendall(b"GET /sta")
            assert slow.recv(10) == b"", "it is closed without a word"
        monkeypatch.setattr(service, "REQUEST_SECONDS", 3600.0)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
            until = []
            for _ in range(4):  # a whole request begins the time anew, on the same connection
                assert client.get("/health").status_code == 200
                (connection,) = servers[0].server_state.connections
                while connection.deadline.cancelled():  # the answer is here before its end is seen
                    time.sleep(0.001)
                until.append(connection.deadline.when())
                time.sleep(0.01)  # the event loop's clock counts milliseconds
            assert until == sorted(set(until))
            assert servers[0].server_state.total_requests == 4
        servers[0].should_exit = True
        thread.join(600)
        assert not thread.is_alive()


def test_it_is_alive_and_not_ready_while_the_disk_is_full_and_then_goes_on(folder, monkeypatch):
    monkeypatch.setattr(agents, "AGAIN_SECONDS", 0.0)
    path = made(folder)
    agent = cpsrl.open(path)
    commit, full = type(agent._database).commit, [False]

    def fails(self):
        if full[0]:
            raise sqlite_full()
        commit(self)

    monkeypatch.setattr(type(agent._database), "commit", fails)
    served = agents.Agents(agent=agent)
    one = app.Service(served, access.Tokens(None))
    decide = post("decide", id="a", state=1)
    full[0] = True
    first, again, alive, ready = asked(one, decide, decide, get("health"), get("ready"))
    assert (first.status_code, again.status_code) == (503, 503)
    assert (alive.status_code, ready.status_code) == (200, 503)
    assert "could not be written" in first.json()["error"]
    full[0] = False
    ready, first = asked(one, get("ready"), decide)
    assert (ready.status_code, first.status_code) == (200, 200)
    served.close()
    with cpsrl.open(path) as agent:
        assert agent.pending() == ["first", "a"]


def sqlite_full():
    import sqlite3

    return sqlite3.OperationalError("database or disk is full")


def test_those_who_ask_the_same_share_one_explanation_and_who_hangs_up_ends_it(monkeypatch):
    runs, stopped = [], []

    def work(stop):
        runs.append(1)
        while not stop.wait(0.01):
            if len(runs) == 1 and gate.is_set():
                return "found"
        stopped.append(1)
        raise RuntimeError("stopped")

    async def here():
        return False

    async def left():
        return True

    async def go():
        monkeypatch.setattr(shared, "AGAIN", 1e6)
        one = shared.Shared()
        asking = [asyncio.create_task(one.answer("key", work, here)) for _ in range(8)]
        await asyncio.sleep(0.05)
        gate.set()
        assert await asyncio.gather(*asking) == ["found"] * 8
        assert await one.answer("key", work, here) == "found", "it is given again for a while"
        assert len(runs) == 1
        with pytest.raises(access.Refused, match="gone"):
            await one.answer("other", work, left)
        while not stopped:
            await asyncio.sleep(0.01)

    gate = threading.Event()
    asyncio.run(go())
    assert len(runs) == 2


def test_pages_of_another_origin_are_refused_by_origin_alone(folder):
    with cpsrl.open(made(folder)) as agent:
        for origin, status in {
            "http://localhost:8000": 200,
            "http://localhost:8001": 403,
            "http://evil.example": 403,
            "null": 403,
        }.items():
            sent = {"headers": {"Origin": origin}}
            answers = asked(agent, get("status") | sent, get("status/") | sent)
            assert [answer.status_code for answer in answers] == [
                status,
                403 if status == 403 else 404,
            ]
        (answer,) = asked(
            agent, get("status/") | {"headers": {"Host": "evil.example"}}, token=TOKEN
        )
        assert answer.status_code == 401
        assert "location" not in answer.headers


def test_metrics_say_what_happened(folder, caplog):
    caplog.set_level("INFO", "cpsrl.requests")
    with cpsrl.open(made(folder)) as agent:
        requests = [post("decide", id=f"{i}", state=1) for i in range(10)]
        told = [post("outcome", id=f"{i}", reward=0.5, next_state=0) for i in range(4)]
        wrong = [post("outcome", id="no", reward=1, next_state=0), get("nowhere")]
        one = app.app(agent)
        *_, shown = asked(one, *requests, *told, *wrong, get("metrics"))
    values = dict(re.findall(r"^(cpsrl_\S+) (\S+)$", shown.text, re.M))
    assert values['cpsrl_decisions_total{agent=""}'] == "11"
    assert values['cpsrl_outcomes_total{agent=""}'] == "4"
    assert values['cpsrl_pending{agent=""}'] == "7"
    assert values['cpsrl_reward_rate{agent=""}'] == "0.5"
    assert values['cpsrl_requests_total{place="decide",status="200"}'] == "10"
    assert values['cpsrl_requests_total{place="outcome",status="404"}'] == "1"
    assert values['cpsrl_requests_total{place="other",status="404"}'] == "1"
    assert float(values['cpsrl_commit_seconds_total{agent=""}']) > 0
    assert float(values['cpsrl_oldest_pending_seconds{agent=""}']) > 0
    for line in shown.text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+\{(\w+="[^"]*",?)+\} \S+', line), line
    lines = [
        json.loads(record.message) for record in caplog.records if record.name[-8:] == "requests"
    ]
    assert len(lines) == 17
    assert lines[0]["place"] == "decide"
    assert lines[0]["status"] == 200


@pytest.fixture
def several(folder):
    for name in ("one", "two"):
        cpsrl.open(folder / f"{name}.db", COIN, (STATES, ACTIONS), seed=len(name)).close()
    return folder


def test_a_folder_of_agents(several, monkeypatch):
    monkeypatch.setattr(agents, "descriptors", lambda: 2 * agents.DESCRIPTORS)
    served = agents.Agents(several)
    assert served.most == 1, "one at a time, so that they make room for each other"
    one = app.Service(served, access.Tokens(None))
    requests = [
        post(f"agents/{name}/decide", id=f"{i}", state="idle")
        for i in range(6)
        for name in ("one", "two")
    ]
    for answer in asked(one, *requests):
        assert answer.status_code == 200
    new = post("agents", name="three", agent="tsde", states=["x", "y"], actions=["u", "v"])
    names = ("../one", "a/b", "", "x" * 65, "..", "one.db")
    wrong = [post("agents", name=name, agent="tsde", states=2, actions=2) for name in names]
    large = post("agents", name="large", agent="continuing-psrl", states=2**40, actions=2**20)
    listed, first, again, too_large, *refused = asked(one, get("agents"), new, new, large, *wrong)
    assert too_large.status_code == 400
    assert "take a smaller problem" in too_large.json()["error"]
    assert listed.json() == {"agents": ["one", "two"]}
    assert (first.status_code, again.status_code) == (200, 409)
    assert {answer.status_code for answer in refused} == {404}
    found = asked(
        one,
        post("agents/three/decide", id="a", state="x"),
        post("agents/four/decide", id="a", state="x"),
        post("agents/..%2fone/decide", id="a", state="x"),
        post("decide", id="a", state="x"),
        get("agents/two/status"),
        get("agents/two/"),
        {"method": "DELETE", "url": "/agents/three"},
        get("agents/three/status"),
    )
    assert [answer.status_code for answer in found] == [200, 404, 404, 404, 200, 200, 200, 404]
    assert found[4].json()["decisions"] == 6
    assert sorted(path.name for path in several.iterdir() if path.suffix == ".db") == [
        "one.db",
        "two.db",
    ]
    served.close()


def test_many_threads_make_room_for_each_other_and_nobody_is_refused(several):
    for i in range(4):
        cpsrl.open(several / f"more-{i}.db", COIN, (STATES, ACTIONS)).close()
    served = agents.Agents(several)
    served.most, names = 2, served.names()

    def work(thread):
        for i in range(40):
            name = names[(thread + i * (1 + thread % 5)) % len(names)]
            served.run(name, lambda agent: agent.decide("idle", f"{thread}-{i}"))  # noqa: B023

    with ThreadPoolExecutor(8) as threads:
        for one in [threads.submit(work, i) for i in range(8)]:
            one.result()
    assert sum(served.run(name, lambda agent: agent.event) for name in names) == 8 * 40
    served.close()


def test_an_agent_that_takes_long_lets_others_decide(several, monkeypatch):
    one = app.Service(agents.Agents(several), access.Tokens(None))
    gate, number, decide = threading.Event(), 60, DurableAgent.decide

    def slowly(self, *given):
        assert self.path.stem == "two" or gate.wait(600)
        return decide(self, *given)

    monkeypatch.setattr(DurableAgent, "decide", slowly)

    async def go():
        transport = httpx.ASGITransport(one)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            def deciding(name, i):
                body = {"id": f"{i}", "state": "idle"}
                return asyncio.create_task(client.post(f"/agents/{name}/decide", json=body))

            slow = [deciding("one", i) for i in range(number)]
            await asyncio.sleep(0.1)  # they have the threads that they can have
            done, _ = await asyncio.wait([deciding("two", 0)], timeout=60)
            gate.set()
            await asyncio.wait(slow)
            return [asked.result().status_code for asked in [*done, *slow]]

    assert asyncio.run(go()) == [200] * (number + 1)
    one.agents.close()


def test_it_is_ready_again_without_being_asked_once_an_agent_can_be_opened(several, monkeypatch):
    monkeypatch.setattr(agents, "AGAIN_SECONDS", 0.0)
    one = app.Service(agents.Agents(several), access.Tokens(None))
    with cpsrl.open(several / "one.db"):  # another program has it
        asking, ready = asked(one, get("agents/one/status"), get("ready"))
        assert (asking.status_code, ready.status_code) == (503, 503)
        assert "in use" in ready.json()["error"]
    ready, status = asked(one, get("ready"), get("agents/one/status"))
    assert (ready.status_code, status.status_code) == (200, 200)
    (several / "one.db").unlink()  # while it is open
    (several / "two.db").write_bytes(b"x" * 5000)
    gone, damaged, ready = asked(
        one, post("agents/one/decide", id="a", state="idle"), get("agents/two/status"), get("ready")
    )
    assert [answer.status_code for answer in (gone, damaged, ready)] == [503] * 3
    assert "two.db is damaged" in ready.json()["error"]
    (several / "two.db").unlink()
    assert asked(one, get("ready"))[0].status_code == 200
    one.agents.close()


def test_tokens_read_write_and_of_an_agent_are_told_apart_and_replaced(several):
    file = several / "tokens"
    file.write_text(
        "# of the shop\nread reader-secret\nwrite writer-secret\nwrite only-one-1 one\n"
    )
    served = agents.Agents(several)
    one = app.Service(served, access.Tokens(file))

    def status(token, *request):
        shown = {"headers": {"Authorization": f"Bearer {token}"}}
        return [answer.status_code for answer in asked(one, *[r | shown for r in request])]

    calls = (
        get("agents/one/status"),
        get("agents/two/status"),
        post("agents/one/decide", id="a", state="idle"),
        post("agents/two/decide", id="a", state="idle"),
        get("agents"),
        {"method": "DELETE", "url": "/agents/two"},
    )
    assert status("reader-secret", *calls) == [200, 200, 403, 403, 200, 403]
    assert status("only-one-1", *calls) == [200, 403, 200, 403, 403, 403]
    assert status("writer-secrex", *calls) == [401] * 6
    file.write_text("write another-secret\n")
    os.utime(file, ns=(1, 1))
    assert status("writer-secret", get("agents")) == [401]
    file.write_text("")  # being written: those of before stay
    assert status("another-secret", *calls) == [200] * 6
    served.close()
    with pytest.raises(ValueError, match="line 2: the token must be"):
        access.rights_in("write good-enough\nshort\n")
