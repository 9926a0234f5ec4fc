"""What the service of durable agents bears: each line is a bound, what was measured, and how.

    explain     p99 of /decide of 8 clients at 2,000 states and 4 actions, alone and while
                explanations and the page's requests come every 2 s; then SIGTERM in their midst
    flood       /health with 2,000 half-open connections, and the size of the log
    many        1,000 agents in one server: memory, and 100 decisions a second spread over them
    long        1,000,000 decisions, 5% never answered, outcome_within set, journal="drop"

    python benchmarks/service.py [explain flood many long] [--quick]

All of it is on loopback; the machine should have nothing else to do.
"""

import argparse
import http.client
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import cpsrl
from cpsrl.live import Conflict

JSON = {"Content-Type": "application/json"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    for part in given.parts:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            for line in PARTS[part](Path(folder), 0.1 if given.quick else 1.0):
                print(f"{part:8} {line}", flush=True)


@contextmanager
def served(path: Path, log: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server in a process of its own, and its port."""
    command = [sys.executable, "-m", "cpsrl", "serve", str(path), "--port", "0", *options]
    with log.open("w") as file:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
        try:
            assert server.stdout is not None
            yield server, int(server.stdout.readline().rpartition(":")[2].strip("/\n"))
        finally:
            server.kill()
            server.wait()


class Caller:
    """A client with one connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def ask(self, place: str, body: Any = None) -> tuple[int, bytes]:
        """The status and the answer."""
        text = None if body is None else json.dumps(body)
        self.connection.request("GET" if body is None else "POST", place, text, JSON)
        answer = self.connection.getresponse()
        return answer.status, answer.read()


def deciding(port: int, seconds: float, clients: int, states: int, rate: float) -> list[float]:
    """The seconds of each decision of clients that decide and tell at a rate, in the same order."""
    times: list[list[float]] = [[] for _ in range(clients)]

    def run(number: int) -> None:
        caller, rng = Caller(port), np.random.default_rng(number)
        end, i = time.monotonic() + seconds, 0
        stamp = f"{time.time_ns()}"
        while time.monotonic() < end:
            i, state = i + 1, int(rng.integers(states))
            begun = time.perf_counter()
            status, _ = caller.ask("/decide", {"id": f"{stamp}-{number}-{i}", "state": state})
            times[number].append(time.perf_counter() - begun)
            assert status == 200
            outcome = {"id": f"{stamp}-{number}-{i}", "reward": 0.5}
            outcome["next_state"] = int(rng.integers(states))
            assert caller.ask("/outcome", outcome)[0] == 200
            time.sleep(max(0.0, 1 / rate - (time.perf_counter() - begun)))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return [second for found in times for second in found]


def explain(folder: Path, share: float) -> Iterator[str]:
    path, states = folder / "agent.db", 2000
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.99), (states, 4), background=500) as agent:
        agent.decide(0)
    with served(path, folder / "log", "--durability", "group") as (server, port):
        Caller(port).ask("/explain?state=1&draws=39")
        deciding(port, 3, 8, states, 10)
        alone = deciding(port, 60 * share, 8, states, 10)
        stop = threading.Event()
        asked: list[float] = []

        def look() -> None:
            with suppress(OSError):  # the server stops
                while not stop.is_set():
                    begun = time.perf_counter()
                    for place in ("/explain?state=1", "/status", "/rates"):
                        Caller(port).ask(place)
                    asked.append(time.perf_counter() - begun)
                    stop.wait(2.0)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        beside = deciding(port, 60 * share, 8, states, 10)
        before, after = (1000 * np.percentile(one, [50, 99]) for one in (alone, beside))
        yield f"alone p50 {before[0]:.1f} ms, p99 {before[1]:.1f} ms, {len(alone)} decisions"
        yield f"with explanations p50 {after[0]:.1f} ms, p99 {after[1]:.1f} ms (at most 50)"
        yield f"{after[1] / before[1]:.2f} times (at most 3); {len(asked)} explanations"
        stop.set()
        another = threading.Thread(target=look, daemon=True)
        stop.clear()
        another.start()
        time.sleep(0.5)
        stop.set()
        begun = time.perf_counter()
        server.send_signal(signal.SIGTERM)
        code = server.wait(30)
        yield f"SIGTERM: ended after {time.perf_counter() - begun:.2f} s (at most 2), exit {code}"


def flood(folder: Path, share: float) -> Iterator[str]:
    path, log = folder / "agent.db", folder / "log"
    cpsrl.open(path, cpsrl.ContinuingPSRL(0.99), (6, 2)).close()
    with served(path, log) as (_, port):
        half = []
        for i in range(2000):
            one = socket.create_connection(("127.0.0.1", port), timeout=10)
            one.sendall((b"", b"POST /decide HTTP/1.1\r\nHost: 127.0.0.1\r\n")[i % 2])
            half.append(one)
        slowest, end = 0.0, time.monotonic() + 30 * share
        while time.monotonic() < end:
            begun = time.perf_counter()
            status, _ = Caller(port).ask("/health")
            assert status == 200
            slowest = max(slowest, time.perf_counter() - begun)
            time.sleep(0.2)
        for one in half:
            one.close()
        size = log.stat().st_size
        yield f"slowest /health {1000 * slowest:.0f} ms (at most 1,000)"
        yield f"log {size} bytes (at most 1,000,000)"


def many(folder: Path, share: float) -> Iterator[str]:
    agents, n = folder / "agents", 1000
    agents.mkdir()
    cpsrl.open(agents / "shop-0.db", cpsrl.ContinuingPSRL(0.99), (6, 2)).close()
    for i in range(1, n):
        shutil.copy(agents / "shop-0.db", agents / f"shop-{i}.db")
    with served(agents, folder / "log") as (server, port):
        callers, refused, times = [Caller(port) for _ in range(8)], [0], []
        callers[0].ask("/agents/shop-0/decide", {"id": "first", "state": 0})  # kernels are read

        def run(number: int) -> None:
            rng, caller = np.random.default_rng(number), callers[number]
            begun = time.monotonic()
            for i in range(int(100 * 60 * share / 8)):
                time.sleep(max(0.0, begun + i * 8 / 100 - time.monotonic()))
                name, id = f"/agents/shop-{rng.integers(n)}", f"{number}-{i}"
                start = time.perf_counter()
                status, _ = caller.ask(f"{name}/decide", {"id": id, "state": i % 6})
                times.append(time.perf_counter() - start)
                outcome = {"id": id, "reward": 0.5, "next_state": (i + 1) % 6}
                refused[0] += status != 200 or caller.ask(f"{name}/outcome", outcome)[0] != 200

        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        begun = time.monotonic()
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        seconds = time.monotonic() - begun
        files = len(os.listdir(f"/proc/{server.pid}/fd"))
        memory = _memory(server.pid)
        p50, p99 = 1000 * np.percentile(times, [50, 99])
        yield f"{memory:.0f} MB (under 1,000), {files} descriptors, {len(times)} decisions"
        yield f"{len(times) / seconds:.0f} decisions/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        yield f"{refused[0]} refused"
        begun = time.perf_counter()
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
        yield f"SIGTERM: ended after {time.perf_counter() - begun:.2f} s (at most 2), exit {code}"


def long(folder: Path, share: float) -> Iterator[str]:
    path, n = folder / "agent.db", int(1_000_000 * share)
    options: dict[str, Any] = {"durability": "group", "journal": "drop", "outcome_within": 5.0}
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.99), (6, 2), remember=10_000, **options) as agent:
        for i in range(n):
            decision = agent.decide(i % 6)
            with suppress(Conflict):  # where the machine stood still for so long
                if i % 20:
                    agent.outcome(decision.id, 0.5, (i + 1) % 6)
            if (i + 1) % (n // 10) == 0:
                size = sum(one.stat().st_size for one in folder.iterdir() if "agent" in one.name)
                memory, waiting = _memory(os.getpid()), agent.status()["pending"]
                yield f"{i + 1:9,}: {memory:.0f} MB, files {size / 1e6:.1f} MB, {waiting} wait"


def _memory(process: int) -> float:
    """The megabytes that a process has in memory."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


PARTS: dict[str, Callable[[Path, float], Iterator[str]]] = {
    "explain": explain,
    "flood": flood,
    "many": many,
    "long": long,
}

if __name__ == "__main__":
    main()
