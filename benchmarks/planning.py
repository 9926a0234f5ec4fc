"""Planning speed against Storm, mdpsolver, quantecon, pymdptoolbox, jaxdp and HiGHS.

Every solver gets its model built beforehand, in its own form, and is asked for an error of at most
1e-8; its answer must agree with ours to 1e-7. All solvers of a row take turns, each in a process of
its own on the same single core, and the best turns are compared: processor time, of all threads, so
that a busy machine matters little. A turn of a quick method is the median of what it does in 20 ms.
A ratio is the peer's time divided by ours: above 1 we are faster.

    python benchmarks/planning.py                  # about twenty minutes
    python benchmarks/planning.py --quick          # fewer repeats, at most 2,000 states
    python benchmarks/planning.py --only grid      # rows with this in their name
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import rich.box
import scipy.sparse as sp
from peers import TOL, Contestant, methods, one_core, ours
from rich.console import Console
from rich.table import Table

import cpsrl

AGREE = 10 * TOL
LIMIT, SLOW = 60.0, 0.3
"""Seconds after which a method is given up, and above which it takes part in few rounds only."""
BAR = 2.0
"""How many times faster than every peer to be."""
PEERS = ("Storm", "mdpsolver", "quantecon", "pymdptoolbox", "jaxdp", "HiGHS")
SMALL = 2_000


@dataclass
class Row:
    """A problem; gamma None is the average reward."""

    name: str
    mdp: cpsrl.TabularMDP
    gamma: float | None


def random(n_states: int, successors: int | None = None) -> cpsrl.TabularMDP:
    concentration = float(successors or n_states)
    return cpsrl.environment(
        "random",
        n_states=n_states,
        n_actions=10,
        successors=successors,
        concentration=concentration,
    )


def tandem(room: int = 140) -> cpsrl.TabularMDP:
    """Two queues in a row with `room` places each and two speeds of each server, uniformised.

    State (m, n): the customers at either. Arrivals at rate .7 are lost where m = `room`; a server
    works at rate .8 or, for a cost of .5, at 1.2, and the first waits where n = `room`.
    """
    states = np.arange((room + 1) ** 2)
    m, n = np.divmod(states, room + 1)
    arrival, rates, total = 0.7, (0.8, 1.2), 0.7 + 2 * 1.2
    rows, columns, data, rewards = [], [], [], []
    for action in range(4):
        first, second = rates[action // 2], rates[action % 2]
        moves = [
            (arrival, np.where(m < room, states + room + 1, states)),
            (first, np.where((m > 0) & (n < room), states - room, states)),
            (second, np.where(n > 0, states - 1, states)),
            (max(total - arrival - first - second, 0.0), states),
        ]
        for rate, reached in moves:
            rows.append(4 * states + action)
            columns.append(reached)
            data.append(np.full(len(states), rate / total))
        cost = 0.5 * (action // 2 + action % 2)
        rewards.append(-(m + n + cost) / (2 * room + 1))
    entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
    shape = (4 * len(states), len(states))
    return cpsrl.TabularMDP(sp.csr_array(sp.coo_array(entries, shape=shape)), np.stack(rewards, 1))


def rows(quick: bool) -> Iterator[Row]:
    small = {
        "RiverSwim-6": lambda: cpsrl.environment("riverswim"),
        "RiverSwim-50": lambda: cpsrl.environment("riverswim", n_states=50),
        "dense S=200 A=10": lambda: random(200),
        "sparse S=2,000 A=10": lambda: random(2_000, 10),
    }
    large = {
        "sparse S=20,000 A=10": lambda: random(20_000, 10),
        "queues S=19,881 A=4": tandem,
        "grid S=100,000 A=4": lambda: cpsrl.environment("gridworld", rows=250, columns=400),
        "sparse S=200,000 A=10": lambda: random(200_000, 10),
    }
    for name, make in (small if quick else small | large).items():
        mdp = make()
        gammas = (0.99,) if quick or mdp.n_states > SMALL else (0.99, 0.999)
        for gamma in (*gammas, None):
            yield Row(name, mdp, gamma)


def measure(row: Row, repeats: int, few: int) -> tuple[float, dict[tuple[str, str], float | str]]:
    """Return our best turn in seconds, and that of every peer's method, or why it took no part."""
    makers = {("ours", ""): ours} | methods(row.mdp, row.gamma)
    result: dict[tuple[str, str], float | str] = {}
    contestants: dict[tuple[str, str], Contestant] = {}
    truth = None
    for key, maker in makers.items():
        contestant = Contestant(maker, row.mdp, row.gamma)
        try:
            contestant.built(10 * LIMIT)
            contestant.solve(LIMIT)
            answer = contestant.answer(LIMIT)
            truth = answer if truth is None else truth
            distance = float(np.abs(answer - truth).max())
            if distance > AGREE:
                contestant.close()
                raise ArithmeticError(f"wrong by {distance:.1e}")
            contestants[key] = contestant
        except (TimeoutError, RuntimeError, ArithmeticError, ChildProcessError) as error:
            result[key] = str(error)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in contestants}
    for turn in range(repeats):
        for key, contestant in contestants.items():
            if turn < few or times[key][0] < SLOW:
                times[key].append(contestant.solve(10 * LIMIT))
    for contestant in contestants.values():
        contestant.close()
    result |= {key: min(spent) for key, spent in times.items()}
    return result.pop(("ours", "")), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, at most 2,000 states")
    parser.add_argument("--only", default="", help="rows with this in their name")
    args = parser.parse_args()
    table = Table("problem", "gamma", "ours, ms", *PEERS, "", box=rich.box.SIMPLE)
    table.title = f"The time of the peer's fastest method over ours, one core; wanted: {BAR:g}"
    console = Console(width=110, highlight=False)
    for row in rows(args.quick):
        if args.only not in row.name:
            continue
        with one_core():
            mine, found = measure(row, 7 if args.quick else 31, 1 if args.quick else 3)
        best: dict[str, float] = {}
        for (peer, _), spent in found.items():
            if isinstance(spent, float):
                best[peer] = min(best.get(peer, np.inf), spent)
        gamma = "average" if row.gamma is None else f"{row.gamma:g}"
        ratios = [f"{best[name] / mine:.1f}" if name in best else "-" for name in PEERS]
        held = min(best.values(), default=np.inf) >= BAR * mine
        verdict = "held" if held else "not held"
        table.add_row(row.name, gamma, f"{1e3 * mine:.3f}", *ratios, verdict)
        spent = ", ".join(
            f"{peer} {method} " + (f"{1e3 * x:.3f}" if isinstance(x, float) else f"({x})")
            for (peer, method), x in found.items()
        )
        console.print(f"{row.name}, {gamma}, ms: ours {1e3 * mine:.3f}, {spent}")
    console.print(table)


if __name__ == "__main__":
    main()
