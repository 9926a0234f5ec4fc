"""Durable agents: what a decision costs, beside a study's ask and tell in Optuna's SQLite storage.

    without durability    act + observe of a live agent in memory, on RiverSwim
    full, group           decide + outcome of a durable agent on this disk
    Optuna                ask + tell of a study of one parameter on SQLite, on the same disk
    service               decide over HTTP on loopback: the median and the 99th percentile

The durable ones and Optuna take turns, so that a busy disk is busy for all. A ratio is Optuna's
time divided by ours.

    python benchmarks/live.py            # about a minute
    python benchmarks/live.py --quick
"""

import argparse
import http.client
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rich.box
from rich.console import Console
from rich.table import Table

import cpsrl

MDP = cpsrl.environment("riverswim")
SIZES = cpsrl.Sizes(MDP.n_states, MDP.n_actions)
SPEC = cpsrl.ContinuingPSRL(0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 10
    table = Table("what", "microseconds", "a second", "Optuna / this", box=rich.box.SIMPLE)
    table.add_row("act + observe, in memory", f"{1e6 * in_memory(rounds):.1f}", "", "")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for name, seconds, ratio in durable(Path(folder), rounds):
            table.add_row(name, f"{1e6 * seconds:,.0f}", f"{1 / seconds:,.0f}", ratio)
        low, high = service(Path(folder), 100 * rounds)
    table.add_row("a decision over HTTP, p50", f"{1e6 * low:,.0f}", "", "")
    table.add_row("a decision over HTTP, p99", f"{1e6 * high:,.0f}", "", "")
    Console(width=100, highlight=False).print(table)


def in_memory(rounds: int, steps: int = 20_000) -> float:
    """Seconds of an act + observe pair, without those of the simulator."""
    best = np.inf
    for _ in range(rounds):
        agent, world = cpsrl.start(SPEC, SIZES, seed=1), MDP.simulator(seed=1)
        total = 0.0
        for _ in range(steps):
            state = world.state
            begun = time.perf_counter()
            action = agent.act(state)
            middle = time.perf_counter()
            reward, after = world.step(action)
            again = time.perf_counter()
            agent.observe(state, action, reward, after)
            total += time.perf_counter() - again + middle - begun
        best = min(best, total / steps)
    return best


def durable(folder: Path, rounds: int) -> list[tuple[str, float, str]]:
    """Name, seconds of a decision with its outcome, and the ratio, of both levels and Optuna."""
    rivals: dict[str, tuple[Callable[[], None], int]] = {}
    agents = []
    for level in ("full", "group"):
        agent = cpsrl.open(folder / f"{level}.db", SPEC, SIZES, durability=level)
        agents.append(agent)

        def pair(agent: cpsrl.live.DurableAgent = agent) -> None:
            agent.outcome(agent.decide(0).id, 0.5, 1)

        rivals[f"decide + outcome, {level}"] = (pair, 20 if level == "full" else 2000)
    if importlib.util.find_spec("optuna"):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            storage=f"sqlite:///{folder}/optuna.db", sampler=optuna.samplers.RandomSampler(seed=1)
        )

        def ask_and_tell() -> None:
            trial = study.ask()
            trial.suggest_float("x", 0, 1)
            study.tell(trial, 0.5)

        rivals["ask + tell, Optuna"] = (ask_and_tell, 20)
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, (call, n) in rivals.items():
            begun = time.perf_counter()
            for _ in range(n):
                call()
            times[name].append((time.perf_counter() - begun) / n)
    for agent in agents:
        agent.close()
    median = {name: float(np.median(found)) for name, found in times.items()}
    peer = median.get("ask + tell, Optuna")
    return [(name, t, f"{peer / t:.1f}" if peer else "") for name, t in median.items()]


def service(folder: Path, requests: int) -> tuple[float, float]:
    """The median and the 99th percentile of the seconds of a decision over HTTP."""
    path = folder / "served.db"
    cpsrl.open(path, SPEC, SIZES).close()
    command = [sys.executable, "-m", "cpsrl.cli.main", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2].strip("/\n"))
        connection = http.client.HTTPConnection("127.0.0.1", port)
        times = []
        for i in range(requests):
            body = json.dumps({"id": str(i), "state": 0})
            begun = time.perf_counter()
            connection.request("POST", "/decide", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
            times.append(time.perf_counter() - begun)
        server.kill()
    low, high = np.percentile(times[requests // 10 :], [50, 99])
    return float(low), float(high)


if __name__ == "__main__":
    main()
