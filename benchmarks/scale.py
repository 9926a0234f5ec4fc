"""Continuing PSRL on grids of up to a million states: time and memory of a resampling.

For every size a process of its own walks an agent through some steps of `gridworld`, with the
default prior (every successor possible, 1/S each) and gamma = .99, and times resamplings: to draw a
model from the posterior, and to plan in it. A dense model of the largest would have 4e12 cells.
The model drawn is also planned in for the average reward, up to 100,000 states. Then a whole run of
10,000 steps on the grid of 100,000 states, and what it would save to plan from the last policy; and
a resampling of TSDE on a random model of 20,000 states, 5 actions and 2 successors, with and
without the support that says which successors are possible.

    python benchmarks/scale.py
    python benchmarks/scale.py --quick    # grids of at most 10,000 states
"""

import argparse
import json
import math
import subprocess
import sys

import rich.box
from rich.console import Console
from rich.table import Table

SIZES = {1_000: (25, 40), 10_000: (100, 100), 100_000: (250, 400), 1_000_000: (1_000, 1_000)}
GAMMA, STEPS, ROUNDS = 0.99, 1_000, 3
MOST_AVERAGE = 100_000
"""The most states that are planned in for the average reward."""
RUN_STEPS = 10_000

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
    agent.drawn = None  # as `resample` does: there need not be room for two
    began = time.perf_counter()
    model = agent.belief.sample(agent.streams.belief)
    drawn = time.perf_counter()
    entries = model.csr.nnz
    del model
    again = time.perf_counter()
    agent.resample()
    sample, whole = min(sample, drawn - began), min(whole, time.perf_counter() - again)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
average = None
if mdp.n_states <= {MOST_AVERAGE}:
    model = agent.belief.sample(agent.streams.belief)
    cpsrl.Average().solve(small.drawn, 1.0)  # compiles
    began = time.perf_counter()
    cpsrl.Average().solve(model, 1.0)
    average = time.perf_counter() - began
print(json.dumps({{
    "pairs": mdp.n_states * mdp.n_actions,
    "entries": entries,
    "sample": sample,
    "whole": whole,
    "peak": peak,
    "average": average,
}}))
"""

RUN = f"""
import json, sys, time
import cpsrl

mdp = cpsrl.environment("gridworld", rows=int(sys.argv[1]), columns=int(sys.argv[2]))
agent, world = cpsrl.start(cpsrl.ContinuingPSRL({GAMMA}), mdp), mdp.simulator()
agent.resample()  # compiles
resampling, before, began = 0.0, agent.resamples, time.perf_counter()
for _ in range({RUN_STEPS}):
    state, start, resamples = world.state, time.perf_counter(), agent.resamples
    action = agent.act(state)
    resampling += (agent.resamples > resamples) * (time.perf_counter() - start)
    reward, next_state = world.step(action)
    agent.observe(state, action, reward, next_state)
seconds = time.perf_counter() - began
model, plans = agent.belief.sample(agent.streams.belief), []
for policy in (None, agent.policy):
    start = time.perf_counter()
    found = cpsrl.solve_discounted(model, {GAMMA}, policy=policy)
    plans.append(time.perf_counter() - start)
print(json.dumps({{
    "seconds": seconds,
    "resamplings": agent.resamples - before,
    "share": resampling / seconds,
    "cold": plans[0],
    "warm": plans[1],
    "moved": float((found.policy != agent.policy).mean()),
}}))
"""

SUPPORT = f"""
import json, time
import cpsrl

mdp = cpsrl.environment("random", n_states=20_000, n_actions=5, successors=2)
beliefs = {{"without": cpsrl.Dirichlet(), "with": cpsrl.Dirichlet(support=mdp.csr != 0)}}
agents = {{name: cpsrl.start(cpsrl.TSDE(belief=belief), mdp) for name, belief in beliefs.items()}}
best = dict.fromkeys(agents, float("inf"))
for _ in range({ROUNDS} + 1):  # the first compiles
    for name, agent in agents.items():
        began = time.perf_counter()
        agent.resample()
        best[name] = min(best[name], time.perf_counter() - began)
print(json.dumps(best))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="grids of at most 10,000 states")
    quick = parser.parse_args().quick
    table = Table(title="gridworld, gamma = .99", box=rich.box.SIMPLE, title_justify="left")
    for column in (
        "S",
        "S*A",
        "entries",
        "sample, s",
        "sample and plan, s",
        "us a pair",
        "average, s",
        "peak, GiB",
    ):
        table.add_column(column, justify="right")
    measured = []
    for n_states, (rows, columns) in SIZES.items():
        if quick and n_states > 10_000:
            continue
        command = [sys.executable, "-c", MEASURE, str(rows), str(columns)]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        measured.append([found[name] for name in ("pairs", "whole", "peak")])
        average = found["average"]
        table.add_row(
            f"{n_states:,}",
            f"{found['pairs']:,}",
            f"{found['entries']:,}",
            f"{found['sample']:.3f}",
            f"{found['whole']:.2f}",
            f"{found['whole'] / found['pairs'] * 1e6:.1f}",
            "-" if average is None else f"{average:.2f}",
            f"{found['peak']:.2f}",
        )
    console = Console(width=110, highlight=False)
    console.print(table)
    (pairs, *before), (more, *after) = measured[-2:]
    growth = [math.log(y / x, more / pairs) for x, y in zip(before, after, strict=True)]
    console.print(
        f"between the two largest, time grows as (S*A)^{growth[0]:.2f} and memory as "
        f"(S*A)^{growth[1]:.2f}"
    )
    rows, columns = SIZES[1_000 if quick else 100_000]
    command = [sys.executable, "-c", RUN, str(rows), str(columns)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    console.print(
        f"{RUN_STEPS:,} steps on {rows * columns:,} states: {found['seconds']:.1f} s, "
        f"{100 * found['share']:.1f}% of it in {found['resamplings']} resamplings; planning takes "
        f"{found['warm'] / found['cold']:.2f} of the time from the last policy, of which "
        f"{100 * found['moved']:.0f}% of the actions change"
    )
    command = [sys.executable, "-c", SUPPORT]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    console.print(
        f"20,000 states, 5 actions, 2 successors: {found['with']:.2f} s with a support, "
        f"{found['without'] / found['with']:.1f} times that without"
    )
    console.print(
        "wanted: about linear in S*A; S = 100,000 in at most 10 s and 4 GiB, "
        "S = 1,000,000 in at most 60 s and 6 GiB"
    )


if __name__ == "__main__":
    main()
