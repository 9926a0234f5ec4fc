"""A queue that never closes: who is admitted, learnt while the controller is killed and resumed.

The queue is the world outside: it goes on, and asks a controller in a process of its own what to do
with the next arrival. The controller knows neither the rates nor the rewards. It is killed a few
times at a random moment; the next one opens the same file, the queue repeats the question that was
not answered, and nothing is lost. The picture has the regret against the exact optimum, and what
the agent believes in the end: it is sure of those to admit, and not yet of those to reject, which
costs little where the queue is seldom that long.

    python examples/queue_control.py            # writes queue.png, in well under a minute
"""

import multiprocessing
import signal
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cpsrl
from cpsrl.documents.figures import COLOURS, style

CAPACITY, THRESHOLD = 8, 2
QUEUE = cpsrl.environment("queue", capacity=CAPACITY)
STATES = [f"{n} waiting" for n in range(CAPACITY + 1)]
ACTIONS = ["reject", "admit"]
PROBLEM = (STATES, ACTIONS, QUEUE.reward_range)
GAIN = 128 / 549
REWARDS = cpsrl.NormalGamma(mu0=0.5, tau0=16.0, n_tau=10.0)
"""What is believed of rewards before any came, in units of their range: hardly any noise."""
SPEC = cpsrl.ContinuingPSRL(0.99, belief=cpsrl.Dirichlet(rewards=REWARDS))


def controller(path, calls):
    """Answer questions for as long as the process lives."""
    with cpsrl.open(path, SPEC, PROBLEM, seed=1) as agent:
        while True:
            kind, *values = calls.recv()
            if kind == "decide":
                calls.send(agent.decide(*values).action)
            else:
                agent.outcome(*values)
                calls.send("thank you")


class Controller:
    """A controller in a process of its own, started again when it has died."""

    def __init__(self, path):
        self.path, self.processes = path, multiprocessing.get_context("spawn")
        self.process = None

    def ask(self, *question):
        """Ask until there is an answer: ids make it safe to ask twice."""
        while True:
            try:
                if self.process is None:
                    self.calls, theirs = self.processes.Pipe()
                    self.process = self.processes.Process(
                        target=controller, args=(self.path, theirs), daemon=True
                    )
                    self.process.start()
                    theirs.close()
                self.calls.send(question)
                return self.calls.recv()
            except (EOFError, BrokenPipeError, ConnectionResetError):
                self.process.join()
                if self.process.exitcode != -signal.SIGKILL:
                    raise RuntimeError("the controller has failed") from None
                self.process = None

    def kill(self):
        """Kill the process, whatever it is doing."""
        self.process.kill()


def main(steps=1500, kills=3, out="queue.png"):
    """Run the queue for `steps` and draw the picture."""
    world, rng = QUEUE.simulator(seed=2), np.random.default_rng(3)
    moments = set(rng.choice(np.arange(steps // 4, steps), kills, replace=False).tolist())
    rewards = np.zeros(steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        running = Controller(path)
        for t in range(steps):
            state, id = STATES[world.state], f"arrival {t}"
            if t in moments:
                running.kill()
            action = running.ask("decide", state, id)
            rewards[t], after = world.step(ACTIONS.index(action))
            running.ask("outcome", id, float(rewards[t]), STATES[after])
        running.kill()
        running.process.join()
        with cpsrl.open(path) as agent:
            status = agent.status()
            believed = [agent.explain(state, draws=199) for state in STATES[:-1]]
    assert status["outcomes"] == steps, "nothing was lost, and nothing was learnt twice"

    admitting = [said.actions[1].probability for said in believed]
    greedy = QUEUE.simulator(seed=2)
    always = GAIN - np.array([greedy.step(1)[0] for _ in range(steps)])
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        left.plot(np.cumsum(always), color=COLOURS[1], linestyle="--", label="admit everybody")
        left.plot(np.cumsum(GAIN - rewards), color=COLOURS[0], label="Continuing PSRL")
        for i, t in enumerate(sorted(moments)):
            left.axvline(t, color="#999999", linewidth=0.8, label=None if i else "killed, resumed")
        left.set(xlabel="step", ylabel="regret", title="Against the exact optimum")
        left.legend()
        colours = [COLOURS[2] if n < THRESHOLD else "#bbbbbb" for n in range(CAPACITY)]
        right.bar(np.arange(CAPACITY), admitting, color=colours)
        right.set(
            xlabel="customers waiting",
            ylabel="probability that admitting is optimal",
            title="What it believes (green: admits in truth)",
            ylim=(0, 1),
        )
        figure.savefig(out, dpi=150)
        plt.close(figure)
    gain = believed[0].gain
    print(f"{steps} steps, {kills} kills, regret {GAIN * steps - rewards.sum():.1f}")
    print(f"optimal gain believed in [{gain.low:.3f}, {gain.high:.3f}]; in truth {GAIN:.3f}")
    return rewards, believed


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
