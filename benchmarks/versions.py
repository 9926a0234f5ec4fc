"""Speed of this version of the package against another one, which take turns.

Both versions run in processes of their own, a row at a time; shares are those of the best rounds,
and medians over the rounds. Times are processor times, of all processes that take part, so that it
matters little what else the machine does; with --wall they are those of a clock on the wall.

    python benchmarks/versions.py ../old/src               # about ten minutes
    python benchmarks/versions.py ../old/src --rounds 3    # two
    python benchmarks/versions.py ../old/src --only live "short runs"
"""

# ruff: noqa: E402 - the number of threads is read when NumPy is imported

import argparse
import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import subprocess
import sys
from pathlib import Path
from statistics import median

import rich.box
from rich.console import Console
from rich.table import Table

import cpsrl

PROGRAM = r'''
import os, subprocess, sys, time
from functools import cache
from pathlib import Path
import cpsrl

river = cpsrl.environment("riverswim")
coin, tsde = cpsrl.ContinuingPSRL(0.99), cpsrl.TSDE()


def processor():
    """Return the seconds of this process, those that it has ended, and those that it has."""
    spent = time.process_time() + sum(os.times()[2:4])
    for path in Path("/proc/self/task").glob("*/children"):
        for child in path.read_text().split():
            ticks = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()[11:13]
            spent += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return spent


clock = time.perf_counter if "--wall" in sys.argv else processor


def timed(call):
    began = clock()
    call()
    return clock() - began


def steps(agent):
    return timed(lambda: cpsrl.simulate(agent, river, 100_000, 50, threads=1)) / 5e6 * 1e9


def short(agent):
    how = {"record": [100], "threads": 1}
    return timed(lambda: cpsrl.simulate(agent, river, 100, 10_000, **how)) / 10_000 * 1e6


def live(agent):
    alive = cpsrl.start(agent, cpsrl.Sizes(6, 2))
    outcomes = [(k * 7 % 10 / 10, k * k % 6) for k in range(30_000)]

    def act_and_observe():
        state = 0
        for reward, next_state in outcomes:
            alive.observe(state, alive.act(state), reward, next_state)
            state = next_state

    return timed(act_and_observe) / len(outcomes) * 1e6


def fleet():
    agent = cpsrl.agents.Fleet(64, rule=cpsrl.Bernoulli(0.99))
    return timed(lambda: cpsrl.simulate(agent, river, 10_000, 1, threads=1)) / 640_000 * 1e9


README = """
import cpsrl
river = cpsrl.environment("riverswim")
for agent in cpsrl.ContinuingPSRL(gamma=0.99), cpsrl.TSDE(), cpsrl.DSPSRL():
    runs = cpsrl.simulate(agent, river, steps=10_000, seeds=50)
    print(f"{runs.agent[0]}: regret {runs.regret[:, -1].mean():.0f}")
"""


def new_process():
    command = [sys.executable, "-c", README]
    return timed(lambda: subprocess.run(command, capture_output=True, check=True))


@cache
def model(name, **options):
    return cpsrl.environment(name, **options)


def plan(gamma, name="random", n=1, **options):
    mdp = model(name, **options)
    solve = cpsrl.solve_average if gamma == 1 else lambda mdp: cpsrl.solve_discounted(mdp, gamma)
    return timed(lambda: [solve(mdp) for _ in range(n)]) / n * 1e3


def networks(name, seeds=1, n=3000, **world):
    from cpsrl import networks as of

    mdp = cpsrl.environment("riverswim", features="thermometer", **world)
    agents = {"members": of.BootstrappedDQN(), "heads": of.ValueSampling(belief=of.Heads())}
    run = lambda: cpsrl.simulate(agents[name], mdp, n, seeds, record=[n], threads=1)
    return timed(run) / n / seeds * 1e6


SPARSE = {"n_states": 200_000, "n_actions": 10, "successors": 10, "concentration": 10.0}
ROWS = {
    "gamma = .99, ns a step": lambda: steps(coin),
    "TSDE, ns a step": lambda: steps(tsde),
    "DS-PSRL, ns a step": lambda: steps(cpsrl.DSPSRL()),
    "optimal policy, ns a step": lambda: steps(cpsrl.agents.OptimalAgent()),
    "10,000 short runs, us a run": lambda: short(coin),
    "live act + observe, gamma = .99, us": lambda: live(coin),
    "live act + observe, TSDE, us": lambda: live(tsde),
    "fleet of 64, ns a step of one": fleet,
    "README's lines in a new process, s": new_process,
    "plan: dense 200, .99, ms": lambda: plan(0.99, n=100, n_states=200, n_actions=10),
    "plan: dense 200, average, ms": lambda: plan(1, n=100, n_states=200, n_actions=10),
    "plan: grid 100,000, average, ms": lambda: plan(1, "gridworld", rows=250, columns=400),
    "plan: sparse 200,000, .99, ms": lambda: plan(0.99, **SPARSE),
    "plan: sparse 200,000, average, ms": lambda: plan(1, **SPARSE),
    "networks: 10 members, us a step": lambda: networks("members"),
    "networks: 20 heads, 80 states, us a step": lambda: networks("heads", n_states=80),
}
for line in sys.stdin:
    print(ROWS[line.strip()](), flush=True)
'''
ROWS = [line.split('"')[1] for line in PROGRAM.splitlines() if line.startswith('    "')]


class Version:
    """A process that runs rows with the sources in a folder."""

    def __init__(self, sources: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": sources},
        )

    def run(self, row: str) -> float:
        """Return what a row measures."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(row, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="folder with the sources of the other version")
    parser.add_argument("--rounds", type=int, default=15, help="how often each is measured")
    parser.add_argument("--only", nargs="*", default=[""], help="words of the rows to measure")
    parser.add_argument("--wall", action="store_true", help="times of a clock on the wall")
    options = parser.parse_args()
    if not Path(options.before, "cpsrl", "__init__.py").is_file():
        parser.error(f"there is no package cpsrl in {options.before}: give the folder src")
    wall = ["--wall"] * options.wall
    now = str(Path(cpsrl.__file__).parents[1])
    versions = {"before": Version(options.before, *wall), "now": Version(now, *wall)}
    table = Table(title=f"{now} against {options.before}", box=rich.box.SIMPLE)
    table.add_column("what")
    for column in ("before", "now", "share of the best", "median share"):
        table.add_column(column, justify="right")
    for row in ROWS:
        if not any(word in row for word in options.only):
            continue
        for version in versions.values():
            version.run(row)  # compiled code, and new processes, are made here
        pairs = [
            {name: version.run(row) for name, version in versions.items()}
            for _ in range(options.rounds)
        ]
        best = {name: min(pair[name] for pair in pairs) for name in versions}
        middle = median(pair["now"] / pair["before"] for pair in pairs)
        numbers = (f"{best['before']:.4g}", f"{best['now']:.4g}")
        table.add_row(row, *numbers, f"{best['now'] / best['before']:.3f}", f"{middle:.3f}")
    Console(width=120, highlight=False).print(table)
    for version in versions.values():
        version.process.kill()


if __name__ == "__main__":
    main()
