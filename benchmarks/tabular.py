"""Speed of tabular posterior sampling against the same agent written in NumPy.

Three programs of one algorithm, Continuing PSRL with gamma = .99 and the default prior, take turns:

    ours      `cpsrl.simulate` on one thread
    tuned     NumPy at its best: vectorised gamma draws, warm-started policy iteration with a
              LAPACK solve, pseudo-episodes drawn as geometric blocks, lists in the inner loop
    textbook  NumPy as one would first write it: `rng.dirichlet` row by row, value iteration to
              1e-6, a coin at every step

Also: TSDE and DS-PSRL, many short runs, a live agent, a belief in plain NumPy, a fleet against one
agent, MDPs drawn from a prior, two threads against one, and the first call of a new process. Times
are the best of the rounds, after compilation; a ratio is the peer's time a step divided by ours.
`benchmarks/versions.py` compares two versions of the package.

Bayesian regret (`cpsrl.paper.from_prior`) draws an MDP for every run, plans in it and observes the
agent with what it knows. Its ratio is processor time over that of the steps themselves: `simulate`,
one thread, as many runs of as many steps of the same agent on one of these MDPs.

    python benchmarks/tabular.py            # about three minutes
    python benchmarks/tabular.py --quick    # a minute
"""

# ruff: noqa: E402 - the number of threads is read when NumPy is imported

import argparse
import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import rich.box
from rich.console import Console
from rich.table import Table

import cpsrl
from cpsrl.paper.from_prior import Prior, runs_from_prior
from cpsrl.seeding import Streams

GAMMA = 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shorter runs")
    options = parser.parse_args()
    quick = options.quick
    console = Console(width=110, highlight=False)
    console.print(agents(7 if quick else 15))
    console.print(peers(3 if quick else 7, 4 if quick else 1))
    console.print(loops(3 if quick else 9))
    console.print(fleets(3 if quick else 9))
    console.print(priors(3 if quick else 7, 1_000 if quick else 10_000))
    console.print(processes(7 if quick else 15))


def agents(rounds: int) -> Table:
    """Return the table of ours alone: RiverSwim with six states, 50 seeds x 100,000 steps."""
    river = cpsrl.environment("riverswim")
    rivals = {
        "Continuing PSRL": cpsrl.ContinuingPSRL(GAMMA),
        "TSDE": cpsrl.TSDE(),
        "DS-PSRL": cpsrl.DSPSRL(),
        "optimal policy, no learning": cpsrl.agents.OptimalAgent(),
    }
    steps, seeds = 100_000, 50
    table = _table("RiverSwim-6, 50 seeds x 100,000 steps", "agent", "ns a step", "at most")
    bars = {"Continuing PSRL": "100 (aim 60)", "TSDE": "100", "DS-PSRL": "100"}
    work = {name: _ours(agent, river, steps, seeds) for name, agent in rivals.items()}
    for name, seconds in _best(work, rounds).items():
        table.add_row(name, f"{seconds / steps / seeds * 1e9:.0f}", bars.get(name, ""))
    return table


def peers(rounds: int, shorter: int) -> Table:
    """Return the table of ours against NumPy."""
    table = _table(
        "Continuing PSRL, one seed, ns a step (and how many times ours)",
        "problem",
        "ours",
        "at most",
        "tuned NumPy",
        "textbook NumPy",
    )
    problems = {
        "RiverSwim-6": (cpsrl.environment("riverswim"), 2_000_000, 100_000, 10_000, 100),
        "RiverSwim-50": (cpsrl.environment("riverswim", n_states=50), 20_000, 20_000, 4_000, 4_500),
        "random, S=100, A=5": (
            cpsrl.environment("random", n_states=100, n_actions=5),
            20_000,
            20_000,
            2_000,
            20_000,
        ),
    }
    for name, (mdp, ours, tuned, textbook, bar) in problems.items():
        # Ours are never fewer: the first samples, from a mere prior, cost more than later ones.
        steps = {"ours": ours, "tuned": tuned // shorter, "textbook": textbook // shorter}
        work = {
            "ours": _ours(cpsrl.ContinuingPSRL(GAMMA), mdp, steps["ours"], 1),
            "tuned": lambda mdp=mdp, n=steps["tuned"]: tuned_psrl(mdp, n, 0),
            "textbook": lambda mdp=mdp, n=steps["textbook"]: textbook_psrl(mdp, n, 0),
        }
        ns = {key: t / steps[key] * 1e9 for key, t in _best(work, rounds).items()}
        table.add_row(
            name,
            f"{ns['ours']:,.0f}",
            f"{bar:,}",
            *(f"{ns[key]:,.0f} ({ns[key] / ns['ours']:,.1f})" for key in ("tuned", "textbook")),
        )
    return table


class FixedModel:
    """A live belief whose own work takes no time: what is left is the pause."""

    def __init__(self, problem: Any) -> None:
        self.model = np.full((6, 2, 6), 1 / 6), np.tri(6, 2)

    def observe_many(self, *transitions: Any) -> None:
        pass

    def sample(self, rng: np.random.Generator) -> Any:
        return self.model

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class Paused(cpsrl.Belief):
    """A belief that brings no compiled functions."""

    def start(self, problem: Any) -> FixedModel:
        return FixedModel(problem)


def loops(rounds: int) -> Table:
    """Return the table of short runs, of a live agent and of a belief that the loop pauses for."""
    table = _table("RiverSwim-6, microseconds", "what", "measured", "at most")
    river = cpsrl.environment("riverswim")
    runs = 10_000
    many = _ours(cpsrl.ContinuingPSRL(GAMMA), river, 100, runs)
    seconds = _best({"many": many}, rounds)["many"]
    table.add_row("a run of 100 steps, of 10,000", f"{seconds / runs * 1e6:.0f}", "100")
    for agent in (cpsrl.ContinuingPSRL(GAMMA), cpsrl.TSDE()):
        live = cpsrl.start(agent, cpsrl.Sizes(6, 2))
        best = min(_live(live, river.simulator(), 2000) for _ in range(4 * rounds))
        table.add_row(f"live act + observe, {agent.label}", f"{best:.1f}", "8")
    paused = cpsrl.PSRL(cpsrl.Bernoulli(0.9), cpsrl.Discounted(0.5), Paused())
    inside = cpsrl.PSRL(cpsrl.Never(), cpsrl.Discounted(0.5))
    steps = 20_000
    resamples = int(cpsrl.simulate(paused, river, steps, 1, threads=1).resamples[0, -1])
    work = {"paused": _ours(paused, river, steps, 1), "steps": _ours(inside, river, steps, 1)}
    best = _best(work, 4 * rounds)
    pause = (best["paused"] - best["steps"]) / resamples * 1e6
    table.add_row("a pause for a resampling in Python", f"{pause:.1f}", "20")
    return table


def fleets(rounds: int) -> Table:
    """Return the table of 64 agents that share a belief against one, 10,000 steps of each."""
    table = _table("A fleet, milliseconds", "problem", "1 agent", "64 agents", "ratio", "at most")
    for name in ("riverswim", "queue"):
        problem, rule = cpsrl.environment(name), cpsrl.Bernoulli(GAMMA)
        work = {
            str(n): _ours(cpsrl.agents.Fleet(n, rule=rule), problem, 10_000, 1) for n in (1, 64)
        }
        best = _best(work, 4 * rounds)
        times = [f"{best[n] * 1e3:.1f}" for n in ("1", "64")]
        table.add_row(name, *times, f"{best['64'] / best['1']:.0f}", "80")
    return table


def priors(rounds: int, runs: int) -> Table:
    """Return the table of runs of 1,000 steps, each on an MDP of its own, against one MDP."""
    table = _table(
        f"Bayesian regret, {runs:,} runs of 1,000 steps, microseconds of processor time a run",
        *("drawn MDPs", "steps alone", "all", "ratio", "at most"),
    )
    rule, steps = cpsrl.Bernoulli(GAMMA), 1_000
    for n_states, n_actions in ((5, 3), (10, 5)):
        sizes = (n_states, n_actions)
        belief = cpsrl.Dirichlet(1 / n_states, rewards=cpsrl.KnownRewards())
        prior = Prior(*sizes)
        mdp = prior.draw(Streams())
        runs_from_prior(prior, rule, steps, 1)
        work = {
            "steps": _ours(cpsrl.PSRL(rule, belief=belief), mdp, steps, runs),
            "all": lambda prior=prior: runs_from_prior(prior, rule, steps, runs),
        }
        best = _best(work, rounds, time.process_time)
        times = [f"{seconds / runs * 1e6:.0f}" for seconds in best.values()]
        ratio = f"{best['all'] / best['steps']:.2f}"
        table.add_row(f"S = {n_states}, A = {n_actions}", *times, ratio, "3")
    return table


def _live(agent: Any, world: Any, steps: int) -> float:
    """Return the microseconds of a live step; the environment's are not counted."""
    spent = 0.0
    for _ in range(steps):
        state = world.state
        began = time.perf_counter()
        action = agent.act(state)
        spent += time.perf_counter() - began
        reward, next_state = world.step(action)
        began = time.perf_counter()
        agent.observe(state, action, reward, next_state)
        spent += time.perf_counter() - began
    return spent / steps * 1e6


def processes(rounds: int) -> Table:
    """Return the table of threads and of the first call in a new process."""
    table = _table("Threads, and the first call", "what", "measured", "wanted")
    river = cpsrl.environment("riverswim")
    work = {
        str(threads): _ours(cpsrl.ContinuingPSRL(GAMMA), river, 100_000, 50, threads)
        for threads in (1, 2)
    }
    seconds = _best(work, rounds)
    gain = seconds["1"] / seconds["2"]
    table.add_row("two threads against one", f"{gain:.2f} times", "1.7, on a quiet machine")
    code = (
        "import cpsrl, time; river = cpsrl.environment('riverswim'); began = time.perf_counter(); "
        "cpsrl.simulate(cpsrl.ContinuingPSRL(), river, 1000, 1); "
        "print(time.perf_counter() - began)"
    )
    calls = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(rounds)
    ]
    table.add_row("first call, compiled code on disk", f"{min(calls):.2f} s", "below 1 s")
    return table


def textbook_psrl(mdp: cpsrl.TabularMDP, steps: int, seed: int) -> float:
    """Return the rewards of a run, from Algorithm 1 as one would write it down."""
    rng = np.random.default_rng(seed)
    n_states, n_actions = mdp.rewards.shape
    counts = np.zeros((n_states, n_actions, n_states))
    sums, squares = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions))
    P, r = np.zeros(counts.shape), np.zeros(sums.shape)
    state, total = 0, 0.0
    for t in range(steps):
        if t == 0 or rng.random() >= GAMMA:
            for s in range(n_states):
                for a in range(n_actions):
                    P[s, a] = rng.dirichlet(1 / n_states + counts[s, a])
                    n = counts[s, a].sum()
                    mean = sums[s, a] / max(n, 1)
                    deviation = squares[s, a] - n * mean**2 + n * (mean - 1) ** 2 / (1 + n)
                    precision = rng.gamma((1 + n) / 2, 1 / (0.5 + deviation / 2))
                    r[s, a] = rng.normal((1 + sums[s, a]) / (1 + n), ((1 + n) * precision) ** -0.5)
            value = np.zeros(n_states)
            while True:
                q = r + GAMMA * P @ value
                change = np.abs(q.max(axis=1) - value).max()
                value = q.max(axis=1)
                if change < 1e-6:
                    break
            policy = q.argmax(axis=1)
        action = policy[state]
        reward = mdp.rewards[state, action]
        next_state = rng.choice(n_states, p=mdp.dense[state, action])
        counts[state, action, next_state] += 1
        sums[state, action] += reward
        squares[state, action] += reward**2
        total += reward
        state = next_state
    return total


def tuned_psrl(mdp: cpsrl.TabularMDP, steps: int, seed: int) -> float:
    """Return the rewards of a run, with everything that NumPy can take off Python's hands."""
    rng = np.random.default_rng(seed)
    n_states, n_actions = mdp.rewards.shape
    rows, everyone = n_states * n_actions, np.arange(n_states)
    alpha = np.full((rows, n_states), 1 / n_states)
    flat, visits = alpha.reshape(-1), np.zeros(rows)
    sums, squares = np.zeros(rows), np.zeros(rows)
    starts, successors, cumulative = (part.tolist() for part in mdp.cdf)
    known = mdp.rewards.ravel().tolist()
    policy, identity = np.zeros(n_states, np.int64), np.eye(n_states)
    state, total, t = 0, 0.0, 0
    while t < steps:
        P = rng.standard_gamma(alpha)
        P /= P.sum(axis=1, keepdims=True)
        P = P.reshape(n_states, n_actions, n_states)
        mean = sums / np.maximum(visits, 1)
        deviation = squares - visits * mean**2 + visits * (mean - 1) ** 2 / (1 + visits)
        precision = rng.standard_gamma((1 + visits) / 2) / (0.5 + deviation / 2)
        scale = 1 / np.sqrt((1 + visits) * precision)
        r = (1 + sums) / (1 + visits) + rng.standard_normal(rows) * scale
        r = r.reshape(n_states, n_actions)
        while True:
            chain = identity - GAMMA * P[everyone, policy]
            q = r + GAMMA * P @ np.linalg.solve(chain, r[everyone, policy])
            better = q.argmax(axis=1)
            gain = q[everyone, better] - q[everyone, policy]
            if gain.max() <= 1e-9 * np.abs(q).max():
                break
            policy = np.where(gain > 0, better, policy)
        block = min(int(rng.geometric(1 - GAMMA)), steps - t)
        actions, seen, visited = policy.tolist(), [], []
        for u in rng.random(block).tolist():
            row = state * n_actions + actions[state]
            k, last = starts[row], starts[row + 1] - 1
            while k < last and u >= cumulative[k]:
                k += 1
            state = successors[k]
            visited.append(row)
            seen.append(row * n_states + state)
        np.add.at(flat, seen, 1.0)
        at = np.bincount(visited, minlength=rows)
        visits += at
        sums += at * mdp.rewards.ravel()
        squares += at * mdp.rewards.ravel() ** 2
        total += sum(map(known.__getitem__, visited))
        t += block
    return total


def _ours(
    agent: object, mdp: cpsrl.TabularMDP, steps: int, seeds: int, threads: int = 1
) -> Callable[[], object]:
    def run() -> object:
        return cpsrl.simulate(agent, mdp, steps, seeds, record=[steps], threads=threads)

    cpsrl.simulate(agent, mdp, 10, 1, threads=1)
    return run


def _best(
    work: dict[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the least seconds of each, all taking turns."""
    best = dict.fromkeys(work, np.inf)
    for _ in range(rounds):
        for name, run in work.items():
            began = clock()
            run()
            best[name] = min(best[name], clock() - began)
    return best


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, box=rich.box.SIMPLE, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


if __name__ == "__main__":
    main()
