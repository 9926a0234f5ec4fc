"""Continuing PSRL on grids of up to 100,000 states: time and memory of a resampling.

For every size a process of its own walks an agent through some steps of `gridworld`, with the
default prior (every successor possible, 1/S each) and gamma = .99, and times resamplings: to draw a
model from the posterior, and to plan in it. A dense model of the largest would have 4e10 cells.

    python benchmarks/scale.py
    python benchmarks/scale.py --quick    # without the largest
"""

import argparse
import json
import subprocess
import sys

import rich.box
from rich.console import Console
from rich.table import Table

SIZES = {1_000: (25, 40), 10_000: (100, 100), 100_000: (250, 400)}
GAMMA, STEPS, ROUNDS = 0.99, 1_000, 3

MEASURE = f"""
import json, resource, sys, time
import cpsrl

def start(rows, columns):
    mdp = cpsrl.environment("gridworld", rows=rows, columns=columns)
    return mdp, cpsrl.start(cpsrl.ContinuingPSRL({GAMMA}), mdp)

_, small = start(12, 12)
small.resample()  # compiles

mdp, agent = start(*map(int, sys.argv[1:]))
world = mdp.simulator()
for t in range({STEPS}):
    state = world.state
    action = (state + t) % 4
    reward, next_state = world.step(action)
    agent.observe(state, action, reward, next_state)

sample = whole = float("inf")
for _ in range({ROUNDS}):
    began = time.perf_counter()
    model = agent.belief.sample(agent.streams.belief)
    drawn = time.perf_counter()
    entries = model.csr.nnz
    del model
    again = time.perf_counter()
    agent.resample()
    sample, whole = min(sample, drawn - began), min(whole, time.perf_counter() - again)
print(json.dumps({{
    "pairs": mdp.n_states * mdp.n_actions,
    "entries": entries,
    "sample": sample,
    "whole": whole,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
}}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the largest grid")
    quick = parser.parse_args().quick
    table = Table(title="gridworld, gamma = .99", box=rich.box.SIMPLE, title_justify="left")
    for column in (
        "S",
        "S*A",
        "entries",
        "sample, s",
        "sample and plan, s",
        "us a pair",
        "peak memory, GiB",
    ):
        table.add_column(column, justify="right")
    for n_states, (rows, columns) in SIZES.items():
        if quick and n_states > 10_000:
            continue
        command = [sys.executable, "-c", MEASURE, str(rows), str(columns)]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        table.add_row(
            f"{n_states:,}",
            f"{found['pairs']:,}",
            f"{found['entries']:,}",
            f"{found['sample']:.3f}",
            f"{found['whole']:.2f}",
            f"{found['whole'] / found['pairs'] * 1e6:.1f}",
            f"{found['peak']:.2f}",
        )
    console = Console(width=110, highlight=False)
    console.print(table)
    console.print("wanted: about linear in S*A; S = 100,000 in at most 10 s and 4 GiB")


if __name__ == "__main__":
    main()
