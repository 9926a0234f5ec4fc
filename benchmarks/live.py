"""Durable agents: what a decision costs, beside a study's ask and tell in Optuna's SQLite storage.

    without durability    act + observe of a live agent in memory, on RiverSwim
    full, group           decide + outcome of a durable agent on this disk
    Optuna                ask + tell of a study of one parameter on SQLite, on the same disk
    service               decide over HTTP on loopback: the median and the 99th percentile

The durable ones and Optuna take turns, so that a busy disk is busy for all. A ratio is Optuna's
time divided by ours.

    python benchmarks/live.py            # about a minute
    python benchmarks/live.py --quick
    python benchmarks/live.py --against EARLIER/src

The last compares with the sources of another version, which take turns with these: decisions in
CPU time, those over HTTP in wall time. The ratio, the median of the rounds, is to be at most 1.
"""

import argparse
import http.client
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    parser.add_argument("--against", type=Path, help="the sources of another version")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    rounds = 3 if given.quick else 10
    if given.work:
        work(given.work)
        return
    if given.against:
        compare(given.against, 3 * rounds)
        return
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
    with served(folder / "served.db") as asked:
        times = asked(requests)
    low, high = np.percentile(times[requests // 10 :], [50, 99])
    return float(low), float(high)


@contextmanager
def started(*arguments: str, source: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process of Python, with the sources of another version if they are given."""
    path = {} if source is None else {"PYTHONPATH": str(source.resolve())}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *arguments], env=os.environ | path, **pipes) as process:
        yield process
        process.kill()


@contextmanager
def served(path: Path, source: Path | None = None) -> Iterator[Callable[[int], list[float]]]:
    """A function that asks a server for n decisions, and returns the seconds of each."""
    make = "import sys, cpsrl; cpsrl.open(sys.argv[1], cpsrl.ContinuingPSRL(0.99), (6, 2)).close()"
    with started("-c", make, str(path), source=source) as maker:
        maker.wait()
    serve = ("-m", "cpsrl.cli.main", "serve", str(path), "--port", "0")
    with started(*serve, source=source) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2].strip("/\n"))
        connection, ids = http.client.HTTPConnection("127.0.0.1", port), itertools.count()

        def ask(n: int) -> list[float]:
            times = []
            for _ in range(n):
                body = json.dumps({"id": str(next(ids)), "state": 0})
                begun = time.perf_counter()
                connection.request("POST", "/decide", body, {"Content-Type": "application/json"})
                connection.getresponse().read()
                times.append(time.perf_counter() - begun)
            return times

        yield ask


def work(level: str) -> None:
    """Read a number from each line of the input, and print the CPU seconds of so many decisions."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        agent = cpsrl.open(Path(folder) / "agent.db", SPEC, SIZES, durability=level)
        for line in sys.stdin:
            begun = time.process_time()
            for _ in range(int(line)):
                agent.outcome(agent.decide(0).id, 0.5, 1)
            print(time.process_time() - begun, flush=True)
        agent.close()


def compare(earlier: Path, rounds: int) -> None:
    """Print how these sources compare with others."""
    for level, n in (("full", 100), ("group", 1000)):
        with (
            started(__file__, "--work", level) as one,
            started(__file__, "--work", level, source=earlier) as other,
        ):
            times = np.zeros((rounds + 1, 2))
            for i, j in itertools.product(range(rounds + 1), range(2)):
                process: Any = (one, other)[(i + j) % 2]
                print(n, file=process.stdin, flush=True)
                times[i, (i + j) % 2] = float(process.stdout.readline()) / n
        show_ratio(f"decide + outcome, {level}", times[1:])
    with tempfile.TemporaryDirectory(dir=".") as made:
        folder = Path(made)
        with served(folder / "a.db") as ask, served(folder / "b.db", earlier) as ask_other:
            found = [[np.median(call(100)) for call in (ask, ask_other)] for _ in range(rounds + 1)]
        show_ratio("a decision over HTTP, p50", np.array(found[1:]))


def show_ratio(what: str, times: Any) -> None:
    """Print the medians of seconds `(rounds, 2)`, and that of their ratios."""
    ours, theirs = 1e6 * np.median(times, axis=0)
    ratio = np.median(times[:, 0] / times[:, 1])
    print(f"{what:28} {ours:7.1f} us, before {theirs:7.1f} us: {ratio:.2f} times")


if __name__ == "__main__":
    main()
