"""The service under Ray Serve: owners by name, and kills of their processes."""

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

import cpsrl
from cpsrl.live.on_ray import Ingress
from live.clients import free_port

pytestmark = pytest.mark.skipif(
    find_spec("ray") is None or find_spec("fastapi") is None, reason="needs ray[serve]"
)
PROGRAM = """
import sys, time, ray
from ray import serve
from cpsrl.live.on_ray import application
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
serve.run(application({"folder": sys.argv[1], "owners": 2}))
print("serving", flush=True)
sys.stdin.read()
serve.shutdown()
ray.shutdown()
"""


def test_every_agent_has_one_owner():
    ingress = Ingress(*range(4))
    owners = {name: ingress._owner(f"/agents/{name}/decide") for name in map(str, range(100))}
    assert {number for number, _ in owners.values()} == set(range(4))
    for name, found in owners.items():
        assert ingress._owner(f"/agents/{name}/explain")[0] == found[0]
    assert ingress._owner("/owners/3/metrics") == (3, "/metrics")
    assert ingress._owner("/health") == (0, "/health")


@pytest.mark.slow
def test_owners_are_killed_and_nothing_is_lost(folder, tmp_path):
    port, names = free_port(), [f"shop-{i}" for i in range(6)]
    for name in names:
        spec = cpsrl.ContinuingPSRL(0.9)
        cpsrl.open(folder / f"{name}.db", spec, (4, 2), journal="keep", seed=1).close()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def ask(place, body):
        end = time.monotonic() + 300
        while True:
            try:
                one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                one.request("POST", place, json.dumps(body), {"Content-Type": "application/json"})
                answer = one.getresponse()
                text = answer.read()
                if answer.status < 500:
                    return answer.status, json.loads(text)
            except (OSError, http.client.HTTPException):
                pass
            assert time.monotonic() < end
            time.sleep(0.1)

    def holder(name):
        with sqlite3.connect(folder / f"{name}.db") as db:
            return db.execute("SELECT process FROM writer").fetchone()[0]

    try:
        assert "serving" in program.stdout.readline()
        told, killed = {}, set()
        for i in range(60):
            name = names[i % len(names)]
            status, decided = ask(f"/agents/{name}/decide", {"id": f"d{i}", "state": i % 4})
            assert status == 200
            outcome = {"id": f"d{i}", "reward": i / 60, "next_state": (i + 1) % 4}
            if i % 15 == 7:  # between a decision and its outcome
                killed.add(holder(name))
                os.kill(holder(name), signal.SIGKILL)
            assert ask(f"/agents/{name}/outcome", outcome)[0] == 200
            assert ask(f"/agents/{name}/outcome", outcome)[0] == 200
            told[name, f"d{i}"] = decided["action"], i / 60
        assert len(killed) == 4, "each time another process had it"
        assert len({holder(name) for name in names}) == 2
    finally:
        program.stdin.close()
        program.wait(60)
    for name in names:
        with cpsrl.live.view(folder / f"{name}.db") as agent:
            agent.check()
            events = [event for event, _ in agent._database._chain("history", 1, 0)]
            for event, _ in agent._database._chain("journal", len(events) + 1, None):
                events.append(event)
        found = {(name, event.id): event for event in events if event.kind == "outcome"}
        for key in (key for key in told if key[0] == name):
            assert (found[key].action, found[key].reward) == told[key]
