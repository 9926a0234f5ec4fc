"""Planning speed against quantecon, pymdptoolbox and SciPy's HiGHS, at equal accuracy.

Every solver gets its model built beforehand, in its own form, and is asked for an error of at most
1e-8; its answer must agree with ours to 1e-7. All solvers of a row take turns, and the medians are
compared, on one thread. A ratio is the peer's time divided by ours: above 1 we are faster.

    python benchmarks/planning.py            # about three minutes
    python benchmarks/planning.py --quick    # one minute: fewer repeats, gamma = .99 alone
"""

# ruff: noqa: E402 - the number of threads is read when NumPy is imported

import argparse
import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import contextlib
import copy
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import mdptoolbox.mdp
import numpy as np
import rich.box
import scipy.optimize
import scipy.sparse as sp
from quantecon.markov import DiscreteDP
from rich.console import Console
from rich.table import Table

import cpsrl

TOL, AGREE = 1e-8, 1e-7
LIMIT, SLOW = 30.0, 0.3
"""Seconds after which a method is given up, and above which it takes part in few rounds only."""

Answer = np.ndarray
Solver = Callable[[], Answer]


class PolicyAnswer(tuple):
    """A policy, to be judged by its value."""


@dataclass
class Row:
    """A problem (gamma None: average reward) and how many times faster than all peers to be."""

    name: str
    mdp: cpsrl.TabularMDP
    gamma: float | None
    bar: float


def rows(quick: bool) -> Iterator[Row]:
    dense = cpsrl.environment("random", n_states=200, n_actions=10, concentration=200.0)
    sparse = cpsrl.environment(
        "random", n_states=2_000, n_actions=10, successors=10, concentration=10.0
    )
    problems = [
        ("RiverSwim-6", cpsrl.environment("riverswim"), 3.0),
        ("RiverSwim-50", cpsrl.environment("riverswim", n_states=50), 3.0),
        ("dense S=200 A=10", dense, 0.9),
        ("sparse S=2,000 A=10", sparse, 0.9),
    ]
    for gamma in (0.99,) if quick else (0.99, 0.999):
        for name, mdp, bar in problems:
            yield Row(name, mdp, gamma, bar)
    for name, mdp, bar in problems:
        yield Row(name, mdp, None, 20.0 if mdp is sparse else bar)


def ours(row: Row) -> Solver:
    if row.gamma is None:
        return lambda: cpsrl.solve_average(row.mdp, tol=TOL).gain
    return lambda: cpsrl.solve_discounted(row.mdp, row.gamma, tol=TOL).value


def peers(row: Row) -> dict[tuple[str, str], Callable[[], Solver]]:
    """Return the makers of the peers' solvers, by peer and method."""
    form = "sparse" if row.mdp.is_sparse else "arrays"
    if row.gamma is None:
        arrays = replace(row, mdp=replace(row.mdp, transitions=row.mdp.dense))
        methods = {
            ("pymdptoolbox", "relative value iteration, arrays"): lambda: toolbox_average(arrays),
            ("pymdptoolbox", f"relative value iteration, {form}"): lambda: toolbox_average(row),
        }
    else:
        methods = {
            ("quantecon", "policy iteration"): lambda: quantecon(row, "pi"),
            ("quantecon", "modified policy iteration"): lambda: quantecon(row, "mpi"),
            ("pymdptoolbox", f"policy iteration, {form}"): lambda: toolbox_exact(row),
            ("pymdptoolbox", f"modified policy iteration, {form}"): lambda: toolbox_modified(row),
        }
    if not row.mdp.is_sparse:  # where the simplex method takes minutes
        methods["HiGHS", "simplex"] = lambda: program(row, "highs-ds")
    methods["HiGHS", "interior point"] = lambda: program(row, "highs-ipm")
    return methods


def quantecon(row: Row, method: str) -> Solver:
    mdp = row.mdp
    if mdp.is_sparse:
        states, actions = np.divmod(np.arange(mdp.rewards.size), mdp.n_actions)
        transitions = sp.csr_matrix(mdp.csr)
        model = DiscreteDP(mdp.rewards.ravel(), transitions, row.gamma, states, actions)
    else:
        model = DiscreteDP(mdp.rewards, mdp.dense, row.gamma)
    # its epsilon is twice the error of the value
    return lambda: model.solve(method, epsilon=2 * TOL, max_iter=10**6).v


def toolbox_model(mdp: cpsrl.TabularMDP) -> tuple[object, Answer]:
    if mdp.is_sparse:
        return [
            sp.csr_matrix(mdp.csr[a :: mdp.n_actions]) for a in range(mdp.n_actions)
        ], mdp.rewards
    return np.ascontiguousarray(mdp.dense.transpose(1, 0, 2)), mdp.rewards


def toolbox_exact(row: Row) -> Solver:
    built = mdptoolbox.mdp.PolicyIteration(*toolbox_model(row.mdp), row.gamma, max_iter=10**6)
    return lambda: np.ravel(finished(built).V)


def toolbox_modified(row: Row) -> Solver:
    built = mdptoolbox.mdp.PolicyIterationModified(*toolbox_model(row.mdp), row.gamma, 2 * TOL)
    # its value is right up to a constant only: what it vouches for is the policy
    return lambda: PolicyAnswer(finished(built).policy)


def toolbox_average(row: Row) -> Solver:
    built = mdptoolbox.mdp.RelativeValueIteration(*toolbox_model(row.mdp), TOL, max_iter=10**9)
    return lambda: np.full(row.mdp.n_states, finished(built).average_reward)


def finished(built: mdptoolbox.mdp.MDP) -> mdptoolbox.mdp.MDP:
    """Run a copy, since an object of pymdptoolbox keeps what it found."""
    fresh = copy.copy(built)
    fresh.run()
    return fresh


def program(row: Row, method: str) -> Solver:
    """Least sum of V with V >= r + gamma P V, or least g with g >= r + P h - h, h(0) = 0."""
    mdp = row.mdp
    stay = sp.kron(sp.eye_array(mdp.n_states), np.ones((mdp.n_actions, 1)))
    if row.gamma is None:
        matrix = sp.csc_array(mdp.csr - stay)
        matrix = sp.hstack([np.full((mdp.rewards.size, 1), -1.0), matrix[:, 1:]], format="csc")
        cost = np.eye(1, mdp.n_states)[0]
    else:
        matrix, cost = sp.csc_array(row.gamma * mdp.csr - stay), np.ones(mdp.n_states)
    options = {f"{side}_feasibility_tolerance": 1e-10 for side in ("primal", "dual")}
    options["time_limit"] = LIMIT

    def solve() -> Answer:
        bound = -mdp.rewards.ravel()
        found = scipy.optimize.linprog(
            cost, matrix, bound, bounds=(None, None), method=method, options=options
        )
        if found.status != 0:
            raise TimeoutError if found.status == 1 else RuntimeError(found.message)
        return np.full(mdp.n_states, found.x[0]) if row.gamma is None else found.x

    return solve


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def trial(row: Row, make: Callable[[], Solver], truth: Answer) -> Solver:
    """Return a peer's solver, warmed up; raise an error if it takes too long or is wrong."""
    with time_limit():
        solver = make()
        answer = solver()
    if isinstance(answer, PolicyAnswer):
        answer = cpsrl.planning.discounted_value(row.mdp, np.array(answer), row.gamma)
    distance = float(np.abs(answer - truth).max())
    if distance > AGREE:
        raise ArithmeticError(f"wrong by {distance:.1e}")
    return solver


def measure(row: Row, repeats: int, few: int) -> tuple[float, dict[tuple[str, str], float | str]]:
    """Return our median seconds, and of every method of the peers, or why it took no part."""
    mine = ours(row)
    truth = mine()
    solvers, result = {("ours", ""): mine}, {}
    for key, make in peers(row).items():
        try:
            solvers[key] = trial(row, make, truth)
        except TimeoutError:
            result[key] = f"more than {LIMIT:.0f} s"
        except Exception as error:
            result[key] = f"{type(error).__name__}: {error}"
    times: dict[tuple[str, str], list[float]] = {key: [] for key in solvers}
    for turn in range(repeats):
        for key, solver in solvers.items():
            if turn < few or times[key][0] < SLOW:
                start = time.perf_counter()
                solver()
                times[key].append(time.perf_counter() - start)
    result |= {key: float(np.median(spent)) for key, spent in times.items()}
    return result.pop(("ours", "")), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, gamma = .99 alone")
    quick = parser.parse_args().quick
    names = ("quantecon", "pymdptoolbox", "HiGHS")
    table = Table("problem", "gamma", "ours, ms", *names, "bar", "", box=rich.box.SIMPLE)
    table.title = "The time of the peer's fastest method over ours, one thread"
    details = []
    for row in rows(quick):
        mine, methods = measure(row, 7 if quick else 31, 1 if quick else 3)
        best: dict[str, float] = {}
        for (peer, _), spent in methods.items():
            if isinstance(spent, float):
                best[peer] = min(best.get(peer, np.inf), spent)
        gamma = "average" if row.gamma is None else f"{row.gamma:g}"
        ratios = [f"{best[name] / mine:.1f}" if name in best else "-" for name in names]
        verdict = "held" if min(best.values()) >= row.bar * mine else "not held"
        table.add_row(row.name, gamma, f"{1e3 * mine:.3f}", *ratios, f"{row.bar:g}", verdict)
        spent = ", ".join(
            f"{peer} {method} " + (f"{1e3 * x:.3f}" if isinstance(x, float) else f"({x})")
            for (peer, method), x in methods.items()
        )
        details.append(f"{row.name}, {gamma}, ms: {spent}")
    console = Console(width=110, highlight=False)
    console.print(table, "\n".join(details), sep="\n")


if __name__ == "__main__":
    main()
