"""The peers of the planning benchmarks, each in its own form, and a process for each to run in.

A peer's method is a maker: given a model and gamma (None for the average reward), it builds the
peer's own model and returns `prepare`. What `prepare` returns is what is timed: it solves from
scratch, and answers with values `(S,)`, with gains `(S,)`, or with a `Policy` to be judged.
"""

# ruff: noqa: E402 - the number of threads is read when NumPy is imported

import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import contextlib
import copy
import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse as sp

import cpsrl

TOL = 1e-8
TURN = 0.02
"""Seconds in which a quick method solves again and again, so that caches are its own."""
FACTORED, SIMPLEX = 2_000, 100_000
"""The most states of a model whose chains are factored or made dense, and the most entries of one
given to the simplex method: beyond, these take minutes, or more memory than there is."""
STORM_ERROR = (f"precision {TOL}", "absolute")
STORM_ROWS = 10_000
"""States whose rows are given to Storm at once."""

Prepare = Callable[[], Callable[[], Any]]
Maker = Callable[[cpsrl.TabularMDP, float | None], Prepare]


class Policy(NamedTuple):
    """A policy `(S,)`, where a peer vouches for that alone."""

    actions: np.ndarray


def methods(mdp: cpsrl.TabularMDP, gamma: float | None) -> dict[tuple[str, str], Maker]:
    """Return the methods of the peers that fit a model, by peer and name."""
    form = "sparse" if mdp.is_sparse else "arrays"
    small = mdp.n_states <= FACTORED
    found: dict[tuple[str, str], Maker] = {}
    for name in ("mpi", "vi", "pi"):
        found["mdpsolver", name] = partial(mdpsolver, algorithm=name)
    if gamma is None:
        found["Storm", "sound value iteration"] = storm
        found["pymdptoolbox", f"relative value iteration, {form}"] = toolbox_average
        if mdp.is_sparse and small:
            found["pymdptoolbox", "relative value iteration, arrays"] = partial(
                toolbox_average, dense=True
            )
    else:
        found["quantecon", "modified policy iteration"] = partial(quantecon, method="mpi")
        found["Storm", "sound value iteration"] = storm
        if small:
            found["pymdptoolbox", f"modified policy iteration, {form}"] = toolbox_modified
            found["quantecon", "policy iteration"] = partial(quantecon, method="pi")
            found["pymdptoolbox", f"policy iteration, {form}"] = toolbox_exact
            found["jaxdp", "policy iteration"] = jaxdp_policies
            found["jaxdp", "value iteration, safe Anderson"] = jaxdp_values
    if small:
        found["HiGHS", "interior point"] = partial(program, method="highs-ipm")
    if mdp.csr.nnz <= SIMPLEX and not mdp.is_sparse:
        found["HiGHS", "simplex"] = partial(program, method="highs-ds")
    return found


def ours(mdp: cpsrl.TabularMDP, gamma: float | None) -> Prepare:
    if gamma is None:
        return lambda: lambda: cpsrl.solve_average(mdp, tol=TOL).gain
    return lambda: lambda: cpsrl.solve_discounted(mdp, gamma, tol=TOL).value


def quantecon(mdp: cpsrl.TabularMDP, gamma: float, method: str) -> Prepare:
    from quantecon.markov import DiscreteDP

    if mdp.is_sparse:
        states, actions = np.divmod(np.arange(mdp.rewards.size), mdp.n_actions)
        model = DiscreteDP(mdp.rewards.ravel(), sp.csr_matrix(mdp.csr), gamma, states, actions)
    else:
        model = DiscreteDP(mdp.rewards, mdp.dense, gamma)
    # its epsilon is twice the error of the value
    return lambda: lambda: model.solve(method, epsilon=2 * TOL, max_iter=10**6).v


def mdpsolver(mdp: cpsrl.TabularMDP, gamma: float | None, algorithm: str) -> Prepare:
    from mdpsolver import model

    def by_state(flat: np.ndarray) -> list[list[list[float]]]:
        rows = [row.tolist() for row in np.split(flat, mdp.csr.indptr[1:-1])]
        return [rows[i : i + mdp.n_actions] for i in range(0, len(rows), mdp.n_actions)]

    probabilities, columns = by_state(mdp.csr.data), by_state(mdp.csr.indices)
    rewards = mdp.rewards.tolist()

    def prepare() -> Callable[[], Any]:
        built = model()  # anew, since it starts from what it found last
        built.mdp(0.99 if gamma is None else gamma, rewards, [], "", [], [], probabilities, columns)

        def solve() -> Any:
            criterion = "discounted" if gamma is not None else "average"
            built.solve(algorithm, TOL, criterion=criterion, parallel=False)
            if gamma is None:  # it has relative values, no gain
                return Policy(np.array(built.getPolicy()))
            return np.array(built.getValueVector())

        return solve

    return prepare


def storm(mdp: cpsrl.TabularMDP, gamma: float | None) -> Prepare:
    """Storm's sparse engine, made to be sound; its bounds are then closer than TOL."""
    import stormpy
    from stormpy import datastructures, developer, models

    precision = [f"--{module}:{word}" for module in ("lra", "minmax") for word in STORM_ERROR]
    words = " ".join(["--sound", *precision]).split()
    developer.set_from_exploded_string(words)  # once a process
    environment = developer.EnvironmentBuilder.build_environment()
    csr, (S, A) = mdp.csr, mdp.rewards.shape
    builder = datastructures.SparseMatrixBuilder[float](
        S * A, S, csr.nnz, has_custom_row_grouping=True, row_groups=S
    )
    for begin in range(0, S, STORM_ROWS):  # lists of all entries would not fit
        groups = np.arange(begin, min(begin + STORM_ROWS, S) + 1) * A
        entries = slice(csr.indptr[groups[0]], csr.indptr[groups[-1]])
        lengths = np.diff(csr.indptr[groups[0] : groups[-1] + 1])
        rows = np.repeat(np.arange(groups[0], groups[-1]), lengths)
        given = (rows, csr.indices[entries], csr.data[entries], groups[:-1])
        builder.add_next_values(*(numbers.tolist() for numbers in given))
    labels = models.StateLabeling(S)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    reward = models.SparseRewardModel[float](
        optional_state_action_reward_vector=mdp.rewards.ravel().tolist()
    )
    parts = models.SparseModelComponents[float](builder.build(), labels, {"r": reward})
    model = models.SparseMdp[float](parts)
    what = "LRA" if gamma is None else f"Cdiscount={gamma!r}"
    (formula,) = stormpy.parse_properties(f'R{{"r"}}max=? [{what}]')

    def solve() -> np.ndarray:
        found = stormpy.model_checking(model, formula, environment=environment)
        return np.array(found.get_value_vector())

    return lambda: solve


def toolbox(
    maker: str, mdp: cpsrl.TabularMDP, answer: Callable[[Any], Any], *given: Any
) -> Prepare:
    import mdptoolbox.mdp

    if mdp.is_sparse:
        actions = range(mdp.n_actions)
        transitions: Any = [sp.csr_matrix(mdp.csr[a :: mdp.n_actions]) for a in actions]
    else:
        transitions = np.ascontiguousarray(mdp.dense.transpose(1, 0, 2))
    limit = {} if maker == "PolicyIterationModified" else {"max_iter": 10**9}
    built = getattr(mdptoolbox.mdp, maker)(transitions, mdp.rewards, *given, **limit)

    def prepare() -> Callable[[], Any]:
        fresh = copy.copy(built)  # since it keeps what it found

        def solve() -> Any:
            fresh.run()
            return answer(fresh)

        return solve

    return prepare


def toolbox_exact(mdp: cpsrl.TabularMDP, gamma: float) -> Prepare:
    return toolbox("PolicyIteration", mdp, lambda found: np.ravel(found.V), gamma)


def toolbox_modified(mdp: cpsrl.TabularMDP, gamma: float) -> Prepare:
    # its value is right up to a constant only
    answer = lambda found: Policy(np.array(found.policy))  # noqa: E731
    return toolbox("PolicyIterationModified", mdp, answer, gamma, 2 * TOL)


def toolbox_average(mdp: cpsrl.TabularMDP, gamma: None, dense: bool = False) -> Prepare:
    if dense:
        mdp = cpsrl.TabularMDP(mdp.dense, mdp.rewards)
    answer = lambda found: np.full(mdp.n_states, found.average_reward)  # noqa: E731
    return toolbox("RelativeValueIteration", mdp, answer, TOL)


def jaxdp_policies(mdp: cpsrl.TabularMDP, gamma: float) -> Prepare:
    return jaxdp(mdp, "PolicyIteration", gamma)


def jaxdp_values(mdp: cpsrl.TabularMDP, gamma: float) -> Prepare:
    return jaxdp(mdp, "SafeAndersonValueIteration", gamma)


def jaxdp(mdp: cpsrl.TabularMDP, maker: str, gamma: float) -> Prepare:
    """Loop its updates until the policy, or the value within TOL, is that of the last one."""
    import chex
    import jax
    import jax.numpy as jnp
    import jaxdp

    jax.config.update("jax_enable_x64", True)
    chex.disable_asserts()  # which can't be in a compiled loop
    S, A = mdp.rewards.shape
    model = jaxdp.MDP(
        transition=jnp.asarray(mdp.dense.transpose(1, 2, 0)),
        reward=jnp.asarray(np.broadcast_to(mdp.rewards.T[:, :, None], (A, S, S))),
        initial=jnp.full(S, 1 / S),
        terminal=jnp.zeros(S),
    )
    by_policy = maker == "PolicyIteration"
    algorithm = getattr(jaxdp, maker)(gamma=gamma)
    first = jnp.full((A, S), 1 / A) if by_policy else jnp.zeros(S)

    @jax.jit
    def run(model: Any) -> Any:
        def update(carried: Any) -> Any:
            before, _ = carried
            after = algorithm.update(model, before)
            if by_policy:
                return after, jnp.any(after.policy != before.policy)
            return after, jnp.abs(after.residual).max() > (1 - gamma) * TOL

        start = (algorithm.init(model, first), jnp.array(True))
        return jax.lax.while_loop(lambda carried: carried[1], update, start)[0].v_val

    return lambda: lambda: np.asarray(run(model))


def program(mdp: cpsrl.TabularMDP, gamma: float | None, method: str) -> Prepare:
    """Least sum of V with V >= r + gamma P V, or least g with g >= r + P h - h, h(0) = 0."""
    stay = sp.kron(sp.eye_array(mdp.n_states), np.ones((mdp.n_actions, 1)))
    if gamma is None:
        matrix = sp.csc_array(mdp.csr - stay)
        matrix = sp.hstack([np.full((mdp.rewards.size, 1), -1.0), matrix[:, 1:]], format="csc")
        cost = np.eye(1, mdp.n_states)[0]
    else:
        matrix, cost = sp.csc_array(gamma * mdp.csr - stay), np.ones(mdp.n_states)
    options = {f"{side}_feasibility_tolerance": 1e-10 for side in ("primal", "dual")}

    def solve() -> np.ndarray:
        bound = -mdp.rewards.ravel()
        found = scipy.optimize.linprog(
            cost, matrix, bound, bounds=(None, None), method=method, options=options
        )
        if found.status != 0:
            raise RuntimeError(found.message)
        return np.full(mdp.n_states, found.x[0]) if gamma is None else found.x

    return lambda: solve


class Contestant:
    """A method in a process of its own, which can be killed when it takes too long."""

    def __init__(self, maker: Maker, mdp: cpsrl.TabularMDP, gamma: float | None) -> None:
        self._ask, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_serve, args=(theirs, maker, mdp, gamma))
        self._process.start()
        theirs.close()

    def built(self, limit: float) -> None:
        """Wait until the peer has its model."""
        self._reply(limit)

    def solve(self, limit: float) -> float:
        """Return the processor time of a solution; raise TimeoutError beyond `limit` seconds."""
        self._ask.send("solve")
        return self._reply(limit)

    def answer(self, limit: float) -> np.ndarray:
        """Return the values or gains `(S,)` of the last solution, those of a policy if it was."""
        self._ask.send("answer")
        return self._reply(limit)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def _reply(self, limit: float) -> Any:
        if not self._ask.poll(limit):
            self.close()
            raise TimeoutError(f"more than {limit:.0f} s")
        try:
            reply = self._ask.recv()
        except EOFError:
            self._process.join()
            raise ChildProcessError(f"died, code {self._process.exitcode}") from None
        if isinstance(reply, str):
            self.close()
            raise RuntimeError(reply)
        return reply


def _serve(pipe: Connection, maker: Maker, mdp: cpsrl.TabularMDP, gamma: float | None) -> None:
    with contextlib.redirect_stdout(None):
        try:
            prepare, found = maker(mdp, gamma), None
            pipe.send(None)
            while True:
                if pipe.recv() == "solve":
                    spent: list[float] = []
                    while sum(spent) < TURN:
                        run = prepare()
                        began = time.process_time()
                        found = run()
                        spent.append(time.process_time() - began)
                    pipe.send(float(np.median(spent)))
                else:
                    pipe.send(judged(mdp, gamma, found))
        except EOFError:
            return
        except BaseException as error:
            pipe.send(f"{type(error).__name__}: {error}".splitlines()[0])


def judged(mdp: cpsrl.TabularMDP, gamma: float | None, answer: Any) -> np.ndarray:
    """Return an answer, or the values or gains of its policy, which are those of a chain."""
    if not isinstance(answer, Policy):
        return answer
    states = np.arange(mdp.n_states)
    rows = states * mdp.n_actions + answer.actions
    chain = cpsrl.TabularMDP(mdp.csr[rows], mdp.rewards[states, answer.actions][:, None])
    return ours(chain, gamma)()()


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep this process and those it starts to one core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
