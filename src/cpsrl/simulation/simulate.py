"""`simulate`: one agent, one environment, many runs."""

import copy
import gc
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cpsrl.agents.agent import Agent, LiveAgent
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.checks import checked_index, checked_number, checked_whole
from cpsrl.mdp import Simulator, TabularMDP
from cpsrl.planning import discounted_value, solve_average, solve_discounted
from cpsrl.seeding import Streams, checked_run, first_words
from cpsrl.simulation import readable, tabular, walk  # noqa: F401 (they enter their loops)
from cpsrl.simulation.recording import Recorder, Watch
from cpsrl.simulation.run import LOOPS, Run
from cpsrl.simulation.runs import Runs, record_steps
from cpsrl.types import Floats, Ints

STATE_FORMAT = 3
STATE_KEYS = {"format", "seed", "run", "step", "horizon", "environment_state", "reward_sum", "gain"}
STATE_KEYS |= {"discounted_regret", "streams", "agent"}
POLL_SECONDS = 0.1
TASKS = 16
"""Runs are handed to every thread in about so many portions, where there are many runs."""

SET_ASIDE = 500
"""So many runs at a time are put where the garbage collector, which has nothing to find there, does
not look at them again and again; afterwards they are given back."""

_slower_said: set[str] = set()


def simulate(
    agent: Any,
    mdp: TabularMDP,
    steps: int = 100_000,
    seeds: int | Sequence[int] = 50,
    seed: int = 0,
    record: Any = None,
    resume: Sequence[dict[str, Any]] | None = None,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    resample_times: bool = False,
    trajectory: bool = False,
    discounted_regret: bool = False,
    stop: Ints | None = None,
) -> Runs:
    """Run an agent in an environment that never resets, once for every seed.

    Args:
        agent: one of the package's agents, or any object with `act(state)` and
            `observe(state, action, reward, next_state)`, of which every run gets a copy.
        mdp: the environment.
        steps: how many steps every run takes.
        seeds: a number n (runs 0, ..., n - 1), or a list of run numbers.
        seed: the root seed of all randomness.
        record: which steps to record: a stride, "log", or None for a stride that gives about 200
            points, each with the last step as well; or an array of exactly the steps to record.
        resume: the `state` of earlier runs; these go on for `steps` further steps.
        threads: how many threads; None takes one per core.
        progress: called now and then with the number of steps taken since the last call.
        resample_times: keep the steps that resampled.
        trajectory: keep states, actions and rewards.
        discounted_regret: compute the discounted regret of the paper's eq. 6.
        stop: `(1,)`, to be set to 1 by another thread to end early, with an `InterruptedError`. The
            runs are then taken in the calling thread.

    Returns:
        The runs, a row each.
    """
    _check_parts(agent, mdp)
    steps = checked_whole("steps", steps, 1)
    numbers = _run_numbers(seeds)
    if resume is not None:
        _check_states(resume, numbers, seed, mdp)
    marks = record_steps(record, steps, 1 if resume is None else resume[0]["step"] + 1)
    horizon = steps if resume is None else resume[0]["horizon"] or steps
    spec = agent.resolve(mdp, horizon) if isinstance(agent, Agent) else agent
    runs = _begin(spec, mdp, seed, numbers, resume)
    watch = _discounted_loss(runs[0], mdp) if discounted_regret else None
    if watch is not None and any(run.discounted_regret is None for run in runs):
        raise ValueError(
            "the discounted regret cannot begin in the middle of a run: the earlier steps "
            "were simulated without it"
        )
    shape = (len(runs), len(marks))
    sums, resamples = np.zeros(shape), np.zeros(shape, np.int64)
    recorders = [
        Recorder(
            marks,
            resample_times=resample_times,
            trajectory=trajectory,
            watch=watch,
            lost=run.discounted_regret or 0.0,
            rows=(sum_row, resamples_row),
        )
        for run, sum_row, resamples_row in zip(runs, sums, resamples, strict=True)
    ]
    if type(runs[0].agent) not in LOOPS:
        _say_slower(_label(spec))
    try:
        if stop is None:
            workers = checked_whole("threads", threads, 1) if threads is not None else cores()
            _on_threads(runs, recorders, steps, workers, progress)
        else:
            for run, recorder in zip(runs, recorders, strict=True):
                _advance(run, recorder, steps, progress or (lambda n: None), stop)
            if stop[0]:
                raise InterruptedError("the simulation was stopped")
    finally:
        if len(runs) >= SET_ASIDE:
            gc.unfreeze()
    gain = np.array([run.gain for run in runs])
    return Runs(
        times=marks,
        regret=gain[:, None] * marks - sums,
        resamples=resamples,
        seeds=np.array(numbers, np.int64),
        agent=(_label(spec),) * len(runs),
        environment=(mdp.name,) * len(runs),
        gain=gain,
        seed=seed,
        state=partial(_states, runs, numbers, seed, spec),
        resample_times=tuple(r.resample_times for r in recorders) if resample_times else None,
        trajectory=tuple(
            r.trajectory(run.simulator.state) for r, run in zip(recorders, runs, strict=True)
        )
        if trajectory
        else None,
        discounted_regret=np.stack([r.losses for r in recorders]) if watch else None,
    )


def _advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    loop = LOOPS.get(type(run.agent), readable.advance)
    loop(run, recorder, steps, progress, stop)
    run.discounted_regret = recorder.lost if recorder.watch else None


def _on_threads(
    runs: list[Run],
    recorders: list[Recorder],
    steps: int,
    workers: int,
    progress: Callable[[int], None] | None,
) -> None:
    """Take `steps` steps of every run, on threads; this thread only waits.

    A kernel cannot be interrupted, so it runs elsewhere and polls `stop`.
    """
    stop = np.zeros(1, np.int64)
    portion = max(1, len(runs) // (workers * TASKS))
    taken = [0] * len(runs)

    def work(first: int) -> None:
        def count(n: int) -> None:
            taken[first] += n

        for i in range(first, min(first + portion, len(runs))):
            _advance(runs[i], recorders[i], steps, count, stop)

    pool = ThreadPoolExecutor(min(workers, len(runs)), thread_name_prefix="cpsrl")
    reported = 0
    try:
        pending = {pool.submit(work, i) for i in range(0, len(runs), portion)}
        while pending:
            done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            now = sum(taken)
            if progress is not None and now > reported:
                progress(now - reported)
                reported = now
    finally:
        stop[0] = 1
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(spec: Any, mdp: TabularMDP, seed: int, numbers: list[int], states: Any) -> list[Run]:
    """Return the runs at their first step, or where `states` left them."""
    gains, words, runs = _gains(mdp), first_words(seed, numbers), []
    agent: Any = None
    for i in range(len(numbers)):
        streams = Streams(words=words[i])
        simulator = Simulator(mdp, streams)
        if not isinstance(spec, Agent):
            agent = copy.deepcopy(spec)
        elif agent is None:
            agent = spec.start(mdp, streams)
        else:
            agent = agent.fork(streams)
        run = Run(agent, simulator, float(gains[simulator.state]))
        if states is not None:
            _restore(run, states[i])
        runs.append(run)
        if i % SET_ASIDE == SET_ASIDE - 1:
            gc.freeze()
    return runs


def _restore(run: Run, state: dict[str, Any]) -> None:
    agent, simulator = run.agent, run.simulator
    if not callable(getattr(agent, "restore", None)):
        raise ValueError(f"{_label(agent)} has no restore(state), so its runs cannot be carried on")
    agent.restore(state["agent"])
    if type(agent) in LOOPS and agent.step != state["step"] + 1:
        raise ValueError("the state is damaged: agent and run are not at the same step")
    if state["streams"] is not None or not isinstance(agent, LiveAgent):
        simulator.streams.restore(state["streams"])
    simulator.state = state["environment_state"]
    run.gain, run.step, run.reward_sum = state["gain"], state["step"], state["reward_sum"]
    run.discounted_regret = state["discounted_regret"]


def _check_parts(agent: Any, mdp: Any) -> None:
    """Raise a ValueError unless these are an agent that can be started or copied, and an MDP."""
    if not isinstance(mdp, TabularMDP):
        raise ValueError(
            f"mdp must be a TabularMDP, such as cpsrl.environment('riverswim'), not {mdp!r}"
        )
    if isinstance(agent, LiveAgent):
        raise ValueError(
            f"{type(agent).__name__} is live and belongs to one run: give simulate the agent that "
            "was started, such as cpsrl.ContinuingPSRL(), and it starts one for every run"
        )
    able = all(callable(getattr(agent, name, None)) for name in ("act", "observe"))
    if isinstance(agent, type) or not (isinstance(agent, Agent) or able):
        raise ValueError(
            "an agent is one of the package's, such as cpsrl.TSDE(), or any object with "
            f"act(state) and observe(state, action, reward, next_state), not {agent!r}"
        )


def _check_states(states: Any, numbers: list[int], seed: int, mdp: TabularMDP) -> None:
    """Raise a ValueError unless `states` are those of these runs in this MDP."""
    if not isinstance(states, list | tuple) or not all(isinstance(s, dict) for s in states):
        raise ValueError("resume must be the `state` of earlier runs, one for every seed")
    if len(states) != len(numbers):
        raise ValueError(f"resume has {len(states)} states for {len(numbers)} seeds")
    for state, run in zip(states, numbers, strict=True):
        if missing := STATE_KEYS - state.keys():
            raise ValueError(f"the state of a run lacks {', '.join(sorted(missing))}")
        if state["format"] != STATE_FORMAT:
            raise ValueError(f"the state has format {state['format']!r}, not {STATE_FORMAT}")
        if (state["seed"], state["run"]) != (seed, run):
            raise ValueError(
                f"the state is that of run {state['run']} of seed {state['seed']}, not of run "
                f"{run} of seed {seed}"
            )
        checked_whole("the step of the state", state["step"], 1)
        if state["horizon"] is not None:
            checked_whole("the horizon of the state", state["horizon"], 1)
        checked_index("the environment's state", state["environment_state"], mdp.n_states)
        gain = checked_number("the gain of the state", state["gain"])
        checked_number("the reward sum of the state", state["reward_sum"])
        if state["discounted_regret"] is not None:
            checked_number("the discounted regret of the state", state["discounted_regret"])
        if not isinstance(state["agent"], dict):
            raise ValueError("the state of a run is damaged: the agent's must be a dictionary")
        gains = _gains(mdp)
        if not np.isclose(gains, gain, rtol=1e-9, atol=1e-12 * np.abs(mdp.rewards).max()).any():
            raise ValueError(
                f"the state is that of a run in another environment: its optimal gain is {gain:g}, "
                f"and that of {mdp!r} is {gains[0]:g}"
            )
    if len(began := {state["step"] for state in states}) > 1:
        raise ValueError(f"the runs to go on with stand at different steps: {sorted(began)}")


def _states(
    runs: list[Run], numbers: list[int], seed: int, spec: Any
) -> tuple[dict[str, Any], ...] | None:
    """Return what each run needs to go on; None where the agents do not say."""
    horizon, states = spec.horizon if isinstance(spec, Agent) else None, []
    for run, number in zip(runs, numbers, strict=True):
        mine = isinstance(run.agent, LiveAgent)
        able = mine or all(callable(getattr(run.agent, n, None)) for n in ("state", "restore"))
        agent = run.agent.state() if able else None
        if not isinstance(agent, dict):
            return None
        states.append(
            {
                "format": STATE_FORMAT,
                "seed": seed,
                "run": number,
                "step": run.step,
                "horizon": horizon,
                "environment_state": int(run.simulator.state),
                "reward_sum": float(run.reward_sum),
                "discounted_regret": run.discounted_regret,
                "gain": run.gain,
                "streams": None if mine else run.simulator.streams.state(),
                "agent": agent,
            }
        )
    return tuple(states)


@lru_cache(maxsize=8)
def _gains(mdp: TabularMDP) -> Floats:
    """Return the optimal gain of every state, kept for further calls with the same MDP."""
    return solve_average(mdp).gain


def _discounted_loss(run: Run, mdp: TabularMDP) -> Watch:
    """Return the regret of a pseudo-episode: V*(s) - V_pi(s), gamma-discounted, in `mdp`."""
    if not isinstance(run.agent, PSRLAgent) or not run.agent.objective.discounts:
        raise ValueError("the discounted regret is that of an agent that plans discounted")

    @lru_cache(maxsize=1024)
    def best(gamma: float) -> Floats:
        return solve_discounted(mdp, gamma).value

    @lru_cache(maxsize=4096)
    def achieved(policy: bytes, gamma: float) -> Floats:
        return discounted_value(mdp, np.frombuffer(policy, np.int64), gamma)

    def loss(state: int, agent: PSRLAgent) -> float:
        gamma = agent.planning_gamma()
        return float(best(gamma)[state] - achieved(agent.policy.tobytes(), gamma)[state])

    return loss


def _run_numbers(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        return list(range(checked_whole("seeds", seeds, 1)))
    numbers = [checked_run(run) for run in np.ravel(np.asarray(seeds))]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError("seeds must be a number of runs or a list of different run numbers")
    return numbers


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _label(spec: Any) -> str:
    return str(getattr(spec, "label", type(spec).__name__))


def _say_slower(label: str) -> None:
    if label not in _slower_said:
        _slower_said.add(label)
        print(
            f"cpsrl: {label} has no compiled loop and runs step by step in Python, which is slower",
            file=sys.stderr,
            flush=True,
        )
