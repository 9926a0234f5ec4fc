"""A server to be killed, and clients that send requests twice, late, and until it answers."""

import contextlib
import http.client
import json
import socket
import threading
import time

import numpy as np

import cpsrl
from cpsrl.live import service

SPEC, SIZES = cpsrl.ContinuingPSRL(0.95), cpsrl.Sizes(6, 2)


def serve(path, port, options=None):
    """Serve the agent at `path` for as long as the process lives."""
    options = {"journal": "keep", "snapshot_every": 200} | (options or {})
    given = (None, None) if path.exists() and "background" in options else (SPEC, SIZES)
    with cpsrl.open(path, *given, seed=4, **options) as agent:
        service.serve(agent, port=port)


def send(port, place, body):
    """Send a request until it is answered; return the status and the answer."""
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/{place}", json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.005)
        finally:
            connection.close()


class Client(threading.Thread):
    """Decides and tells; `acknowledged` are its requests and their answers."""

    def __init__(self, number, port, decisions, late, streams=0):
        super().__init__()
        self.streams = streams
        self.number, self.port, self.decisions, self.late = number, port, decisions, late
        self.acknowledged, self.wrong = [], []

    def run(self):
        rng, state, waiting = np.random.default_rng(self.number), self.number % 6, []
        for i in range(self.decisions):
            id = f"{self.number}-{i}"
            asked = {"id": id, "state": state}
            if self.streams:
                asked["stream"] = f"{self.number}-{i % self.streams}"
            action = self.sent(rng, "decide", asked)["action"]
            after = min(state + 1, 5) if rng.random() < 0.3 + 0.4 * action else 0
            outcome = {"id": id, "reward": float(rng.random()), "next_state": after}
            if rng.random() < 0.1:
                waiting.append((i + self.late, outcome))
            else:
                self.sent(rng, "outcome", outcome)
            while waiting and waiting[0][0] <= i:
                self.sent(rng, "outcome", waiting.pop(0)[1])
            state = after
        for _, outcome in waiting:
            self.sent(rng, "outcome", outcome)

    def sent(self, rng, place, body):
        status, answer = send(self.port, place, body)
        if rng.random() < 0.2 and send(self.port, place, body) != (status, answer):
            self.wrong.append((place, body, answer))
        if status != 200 and not (self.streams and status == 409):
            self.wrong.append((place, body, answer))
        self.acknowledged.append((place, body, answer))
        return answer


def free_port():
    """A port that the system gives to no connection: while the server is dead, a client would have
    a connection from that port to itself some day, and the server could not come back."""
    rng = np.random.default_rng()
    while True:
        port = int(rng.integers(10_000, 30_000))
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            return port


def wait_for_requests(talking, share, server):
    """Wait until a share of what clients will ask was answered, or the server has ended."""
    wanted = share * sum(2 * client.decisions for client in talking)
    while server.is_alive() and sum(len(client.acknowledged) for client in talking) < wanted:
        time.sleep(0.001)


def wait_for(port, server):
    """Wait until a server answers, or has ended."""
    while server.is_alive():
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)
        finally:
            connection.close()
