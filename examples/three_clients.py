"""Three machines, one agent behind HTTP: outcomes come late, and what one learns the others know.

A server process has the agent. Three clients, each with a machine that wears out, ask it every day
whether to keep or to replace theirs, and tell what came of it some days later. The picture has the
reward rate with its interval and the resamplings, as the server's own page at / shows them live.

    python examples/three_clients.py            # writes clients.png, in well under a minute
"""

import http.client
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cpsrl
from cpsrl.documents.figures import COLOURS, style

MACHINE = cpsrl.environment("replacement")
LATE = 5
"""Most days from a decision to its outcome."""


class Client(threading.Thread):
    """Asks about its machine every day, and tells what came of it when that is known."""

    def __init__(self, number, port, days):
        super().__init__()
        self.number, self.days = number, days
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def send(self, place, **body):
        """Send a request, again if the connection was closed meanwhile, and return the answer."""
        headers = {"Content-Type": "application/json"}
        while True:
            try:
                self.connection.request("POST", f"/{place}", json.dumps(body), headers)
                answer = self.connection.getresponse()
                break
            except ConnectionError:  # ids make it safe to ask twice
                self.connection.close()
        found = json.loads(answer.read())
        assert answer.status == 200, found
        return found

    def run(self):
        """Live through the days."""
        world, rng = MACHINE.simulator(seed=self.number), np.random.default_rng(self.number)
        waiting = []
        for day in range(self.days):
            id = f"machine {self.number}, day {day}"
            action = self.send("decide", id=id, state=world.state)["action"]
            reward, after = world.step(ACTIONS.index(action))
            told = {"id": id, "reward": float(reward), "next_state": after}
            waiting.append((day + int(rng.integers(LATE + 1)), told))
            for _, told in [one for one in waiting if one[0] <= day]:
                self.send("outcome", **told)
            waiting = [one for one in waiting if one[0] > day]
        for _, told in waiting:
            self.send("outcome", **told)


ACTIONS = list(MACHINE.action_names or range(MACHINE.n_actions))


def get(port, place):
    """Return what the server says at `place`."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"/{place}")
    return json.loads(connection.getresponse().read())


def main(days=500, out="clients.png"):
    """Run three clients for `days` and draw the picture."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        cpsrl.open(path, cpsrl.ContinuingPSRL(0.99), MACHINE, seed=2).close()
        command = [sys.executable, "-m", "cpsrl.cli.main", "serve", str(path), "--port", "0"]
        command += ["--durability", "group"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                port = int(server.stdout.readline().rpartition(":")[2].strip("/\n"))
                clients = [Client(number, port, days) for number in range(3)]
                for client in clients:
                    client.start()
                for client in clients:
                    client.join()
                status, drawn = get(port, "status"), get(port, "rates")
                said = get(port, f"explain?state={MACHINE.n_states // 2}&draws=199")
            finally:
                server.terminate()
    assert status["outcomes"] == 3 * days
    gain = cpsrl.solve_average(MACHINE).gain[0]
    rates = [rate for rate in drawn["rates"] if rate["low"] is not None]
    when = [rate["outcomes"] for rate in rates]
    with style():
        figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
        low, high = ([rate[key] for rate in rates] for key in ("low", "high"))
        ax.fill_between(when, low, high, color=COLOURS[0], alpha=0.18, linewidth=0)
        ax.plot(when, [rate["mean"] for rate in rates], color=COLOURS[0], label="reward rate")
        ax.axhline(gain, color=COLOURS[2], linewidth=1, label=f"optimal gain, {gain:.3f}")
        marks = [mark["decision"] for mark in drawn["marks"]]
        ax.plot(marks, [ax.get_ylim()[0]] * len(marks), "|", color=COLOURS[1], label="resampled")
        ax.set(
            xlabel="outcomes, of all three",
            ylabel="reward a day",
            title="One agent, three machines",
        )
        ax.legend(loc="center right")
        figure.savefig(out, dpi=150)
        plt.close(figure)
    print(f"{status['outcomes']} outcomes, {status['resamples']} resamplings, reward rate "
          f"{status['reward_rate']:.3f}, optimal {gain:.3f}")  # fmt: skip
    return status, said


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
