"""`simulate`: one agent, one environment, many runs."""

import copy
import gc
import os
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cpsrl.agents.agent import Agent, LiveAgent
from cpsrl.agents.fleet import Fleet
from cpsrl.agents.predictor import Predictor, predicts
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.checks import checked_floats, checked_index, checked_number, checked_whole, shown
from cpsrl.environments.pure import (
    Environment,
    EnvironmentSimulator,
    Reference,
    check_environment,
    checked_reference,
)
from cpsrl.mdp import Simulator, TabularMDP
from cpsrl.planning import discounted_value, solve_average, solve_discounted
from cpsrl.planning.arguments import checked_mdp
from cpsrl.seeding import Streams, checked_run, first_words
from cpsrl.simulation import readable, tabular, walk  # noqa: F401 (they enter their loops)
from cpsrl.simulation.fleet import FleetSimulator
from cpsrl.simulation.recording import Recorder, Watch
from cpsrl.simulation.run import LOOPS, TOGETHER, Loops, Run
from cpsrl.simulation.runs import Runs, record_steps
from cpsrl.sizes import width_of
from cpsrl.types import Floats, Ints
from cpsrl.waiting import POLL_SECONDS, Status, Threads

STATE_FORMAT = 4
STATE_KEYS = {"format", "seed", "run", "step", "horizon", "environment_state", "reward_sum", "gain"}
STATE_KEYS |= {"discounted_regret", "streams", "agent"}
TASKS = 16
"""Runs are handed to every thread in about so many portions, where there are many runs."""

SET_ASIDE = 500
"""So many runs at a time are put where the garbage collector, which has nothing to find there, does
not look at them again and again; afterwards they are given back."""

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)

_slower_said: set[str] = set()
NOTICED = 1000
"""So many steps in all, step by step in Python, take a time that one notices."""


def simulate(
    agent: Any,
    mdp: TabularMDP | Environment,
    steps: int = 100_000,
    seeds: int | Sequence[int] | None = None,
    seed: int | None = None,
    record: Any = None,
    resume: Sequence[dict[str, Any]] = (),
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    resample_times: bool = False,
    trajectory: bool = False,
    discounted_regret: bool = False,
    stop: Ints | None = None,
    device: str = "auto",
) -> Runs:
    """Run an agent in an environment that never resets, once for every seed.

    Args:
        agent: one of the package's agents, or any object with `act(state)` and
            `observe(state, action, reward, next_state)`, of which every run gets a copy. One that
            is random has a method `seed(rng)`, too: every copy is given the generator of its run.
            `state()`, a dictionary, and `restore(state)` let its runs go on; the generator goes on
            by itself. A policy with Stable-Baselines3's `predict` will do, too (see
            `cpsrl.agents.predictor`).
        mdp: the environment, a table or, for agents with networks, one of pure functions (see
            `cpsrl.environments.pure`).
        steps: how many steps every run takes.
        seeds: a number n (runs 0, ..., n - 1), or a list of run numbers; None for 50 runs, or for
            those that are resumed.
        seed: the root seed of all randomness; None for 0, or for that of the runs resumed.
        record: which steps to record: a stride, "log", or None for a stride that gives about 200
            points, each with the last step as well; or an array of exactly the steps to record.
        resume: the `state` of earlier runs; these go on for `steps` further steps. Without any,
            `()`, the runs begin.
        threads: how many threads; None takes one per core.
        progress: called now and then with the number of steps taken since the last call.
        resample_times: keep the steps that resampled.
        trajectory: keep states, actions and rewards; without states, where they are not numbers.
        discounted_regret: compute the discounted regret of the paper's eq. 6.
        stop: `(1,)`, to be set to 1 by another thread to end early, with an `InterruptedError`. The
            runs are then taken in the calling thread.
        device: where networks are computed: "auto", "cpu", "gpu", "tpu" and others (see
            `cpsrl.networks.devices`); tables are always computed by the processor.

    Returns:
        The runs, a row each.
    """
    _check_parts(agent, mdp)
    seeds, seed = _whose(seeds, seed, resume)
    steps = checked_whole("steps", steps, 1)
    numbers = run_numbers(seeds)
    if resume is None:
        raise ValueError(
            "resume is None: the earlier runs have no state to go on from, since their agent has "
            "no state() and restore(state), or they were loaded without; leave resume out to begin"
        )
    if resume != ():
        _check_states(resume, numbers, seed, mdp)
    marks = record_steps(record, steps, resume[0]["step"] + 1 if resume else 1)
    horizon = (resume[0]["horizon"] if resume else None) or steps
    reference = _reference(mdp)
    spec = agent.resolve(mdp, horizon) if isinstance(agent, Agent) else agent
    runs = _begin(spec, mdp, reference, seed, numbers, resume)
    watch = _discounted_loss(runs[0], mdp) if discounted_regret else None
    if watch is not None and any(run.discounted_regret is None for run in runs):
        raise ValueError(
            "the discounted regret cannot begin in the middle of a run: the earlier steps "
            "were simulated without it"
        )
    n_agents = len(runs[0].simulator.each) if isinstance(runs[0].simulator, FleetSimulator) else 0
    if n_agents and (resample_times or trajectory):
        raise ValueError("resample_times and trajectory are those of one agent, not of a fleet")
    shape = (len(runs), len(marks))
    sums, resamples = np.zeros(shape), np.zeros(shape, np.int64)
    recorders = [
        Recorder(
            marks,
            resample_times=resample_times,
            trajectory=trajectory,
            states=isinstance(mdp, TabularMDP),
            watch=watch,
            lost=run.discounted_regret or 0.0,
            rows=(sum_row, resamples_row),
            agents=n_agents,
        )
        for run, sum_row, resamples_row in zip(runs, sums, resamples, strict=True)
    ]
    if type(runs[0].agent) not in LOOPS and steps * len(runs) >= NOTICED:
        _say_slower(_label(spec))
    try:
        if stop is None:
            workers = checked_whole("threads", threads, 1) if threads is not None else cores()
            _on_threads(runs, recorders, steps, workers, progress, device)
        else:
            _advance(runs, recorders, steps, progress or (lambda n: None), stop, device)
            if stop[0]:
                raise InterruptedError("the simulation was stopped")
    finally:
        if len(runs) >= SET_ASIDE:
            gc.unfreeze()
    gain = np.array([run.gain for run in runs])
    return Runs(
        times=marks,
        regret=_optimum(mdp, gain, marks) - sums,
        resamples=resamples,
        seeds=np.array(numbers, np.int64),
        agent=(_label(spec),) * len(runs),
        environment=(mdp.name or type(mdp).__name__,) * len(runs),
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
        by_agent=np.stack(
            [
                _optimum(mdp, run.simulator.gains, marks) - recorder.each.T
                for run, recorder in zip(runs, recorders, strict=True)
            ]
        )
        if n_agents
        else None,
        reference=(reference.kind,) * len(runs),
    )


def _advance(
    runs: Sequence[Run],
    recorders: Sequence[Recorder],
    steps: int,
    progress: Callable[[int], None],
    stop: Ints,
    device: str,
) -> None:
    loops = _together(runs, device)
    if loops is not None:
        loops(runs, recorders, steps, progress, stop)
    for run, recorder in zip(runs, recorders, strict=True):
        if loops is None:
            _advance_one(run, recorder, steps, progress, stop)
        run.discounted_regret = recorder.lost if recorder.watch else None


def _together(runs: Sequence[Run], device: str) -> Loops | None:
    """Return the loop that takes the runs at once on a device, if there is one."""
    found = TOGETHER.get(type(runs[0].agent))
    changing = getattr(runs[0].simulator, "changes", None) is not None
    return None if found is None or changing else found(device)


def _advance_one(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    loop = LOOPS.get(type(run.simulator)) or LOOPS.get(type(run.agent), readable.advance)
    if getattr(run.simulator, "changes", None) is None:
        loop(run, recorder, steps, progress, stop)
        return
    last = run.step + steps
    while run.step < last and not stop[0]:  # a stretch of steps in each model of the moment
        left = run.simulator.go_to(run.step)
        n = last - run.step if left is None else min(left, last - run.step)
        loop(run, recorder.part(run.step + 1, run.step + n), n, progress, stop)


def _on_threads(
    runs: list[Run],
    recorders: list[Recorder],
    steps: int,
    workers: int,
    progress: Callable[[int], None] | None,
    device: str,
) -> None:
    """Take `steps` steps of every run, on threads; this thread only waits.

    A kernel cannot be interrupted, so it runs elsewhere and polls `stop`.
    """
    stop = np.zeros(1, np.int64)
    portion = max(1, len(runs) // (workers * TASKS))
    if _together(runs, device):
        portion = len(runs)
    taken = [0] * len(runs)

    def work(first: int) -> None:
        def count(n: int) -> None:
            taken[first] += n

        some = slice(first, first + portion)
        _advance(runs[some], recorders[some], steps, count, stop, device)

    pool, reported, total = Threads(min(workers, len(runs))), 0, steps * len(runs)
    status = Status("simulating") if progress is None else None
    try:
        pending = {pool.submit(work, i) for i in range(0, len(runs), portion)}
        while pending:
            done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            now = sum(taken)
            if status is not None:
                status.show(f"{now / total:.0%} of {total:,} steps")
            elif progress is not None and now > reported:
                progress(now - reported)
                reported = now
    finally:
        stop[0] = 1
        pool.close()
        if status is not None:
            status.end()


def _begin(
    spec: Any,
    mdp: TabularMDP | Environment,
    reference: Reference,
    seed: int,
    numbers: list[int],
    states: Any,
) -> list[Run]:
    """Return the runs at their first step, or where `states` left them."""
    words, runs = first_words(seed, numbers), []
    agent: Any = None
    for i in range(len(numbers)):
        streams = Streams(words=words[i])
        simulator: Any
        if isinstance(mdp, TabularMDP):
            simulator = Simulator(mdp, streams)
            gain = float(_gains(mdp)[simulator.state])
        else:
            simulator, gain = EnvironmentSimulator(mdp, streams), reference.gain
        if predicts(spec):
            agent = Predictor(spec, checked_mdp(mdp))
        elif not isinstance(spec, Agent):
            agent = _copied(spec, streams)
        elif not isinstance(agent, LiveAgent):
            agent = spec.start(mdp, streams)
        else:
            agent = agent.fork(streams)
        if isinstance(spec, Fleet) and spec.n > 1:
            others = [one.streams for one in agent.members.values()]
            simulator = FleetSimulator(simulator, others, _gains(mdp))
            gain = float(simulator.gains.mean())
        run = Run(agent, simulator, gain)
        if states:
            _restore(run, states[i])
        runs.append(run)
        if i % SET_ASIDE == SET_ASIDE - 1:
            gc.freeze()
    return runs


def _copied(agent: Any, streams: Streams) -> Any:
    """Return a copy of a plain object for one run, with the generator of that run."""
    parts: dict[int, Any] = {}
    copied = copy.deepcopy(agent, parts)
    if callable(getattr(copied, "seed", None)):
        copied.seed(streams.action)
    elif any(isinstance(part, GENERATORS) for part in parts.values()):
        raise ValueError(
            f"{_label(agent)} has a random generator, and its copies would act alike in all runs: "
            "give it a method seed(rng) that keeps the numpy.random.Generator of its run"
        )
    return copied


def _restore(run: Run, state: dict[str, Any]) -> None:
    agent, simulator = run.agent, run.simulator
    if not callable(getattr(agent, "restore", None)):
        raise ValueError(f"{_label(agent)} has no restore(state), so its runs cannot be carried on")
    agent.restore(state["agent"])
    if type(agent) in LOOPS and agent.step != state["step"] + 1:
        raise ValueError("the state is damaged: agent and run are not at the same step")
    if state["streams"] is not None or not isinstance(agent, LiveAgent):
        simulator.streams.restore(state["streams"])
    simulator.state = _as_state(simulator, state["environment_state"])
    run.gain, run.step, run.reward_sum = state["gain"], state["step"], state["reward_sum"]
    run.discounted_regret = state["discounted_regret"]


def _check_parts(agent: Any, mdp: Any) -> None:
    """Raise a ValueError unless these are an agent that can be started or copied, and a place."""
    if isinstance(mdp, Environment):
        check_environment(mdp)
        if isinstance(agent, Agent):
            agent.check(mdp)
    else:
        checked_mdp(mdp)
    if isinstance(agent, LiveAgent):
        raise ValueError(
            f"{type(agent).__name__} is live and belongs to one run: give simulate the agent that "
            "was started, such as cpsrl.ContinuingPSRL(), and it starts one for every run"
        )
    able = all(callable(getattr(agent, name, None)) for name in ("act", "observe"))
    if isinstance(agent, type) or not (isinstance(agent, Agent) or able or predicts(agent)):
        raise ValueError(
            "an agent is one of the package's, such as cpsrl.TSDE(), or any object with "
            "act(state) and observe(state, action, reward, next_state), or with the predict "
            f"of Stable-Baselines3, not {shown(agent)}"
        )


def _whose(seeds: Any, seed: Any, states: Any) -> tuple[Any, Any]:
    """Return the seeds and the root seed: as given, or else those of the states to go on from."""
    known = isinstance(states, list | tuple) and all(
        isinstance(state, dict) and {"run", "seed"} <= state.keys() for state in states
    )
    first = states[0] if known and states else {"seed": 0}
    if seeds is None:
        seeds = [state["run"] for state in states] if known and states else 50
    return seeds, first["seed"] if seed is None else seed


def _check_states(
    states: Any, numbers: list[int], seed: int, mdp: TabularMDP | Environment
) -> None:
    """Raise a ValueError unless `states` are those of these runs in this environment."""
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
        gain = checked_number("the gain of the state", state["gain"])
        checked_number("the reward sum of the state", state["reward_sum"])
        if state["discounted_regret"] is not None:
            checked_number("the discounted regret of the state", state["discounted_regret"])
        if not isinstance(state["agent"], dict):
            raise ValueError("the state of a run is damaged: the agent's must be a dictionary")
        gains, rounding = np.atleast_1d(_reference(mdp).gain), 1e-9 * width_of(mdp.reward_range)
        if isinstance(mdp, TabularMDP):
            if not isinstance(state["environment_state"], dict):  # of a fleet, which looks itself
                checked_index("the environment's state", state["environment_state"], mdp.n_states)
            gains, rounding = _gains(mdp), rounding + 1e-14 * np.abs(mdp.rewards).max()
        if not (np.abs(gains[:, None] - _counted_against(state)) <= rounding).any(axis=0).all():
            raise ValueError(
                f"the state is that of a run in another environment: its optimal gain is {gain:g}, "
                f"and that of {mdp!r} is {gains[0]:g}"
            )
    if len(began := {state["step"] for state in states}) > 1:
        raise ValueError(f"the runs to go on with stand at different steps: {sorted(began)}")


def _counted_against(state: dict[str, Any]) -> Floats:
    """Return the gain of a run's state, or those of the agents of a fleet, in an array `(n,)`."""
    place = state["environment_state"]
    own = place.get("gains") if isinstance(place, dict) else [state["gain"]]
    return checked_floats("the gains of the state", own, 1)


def _states(
    runs: list[Run], numbers: list[int], seed: int, spec: Any
) -> tuple[dict[str, Any], ...] | None:
    """Return what each run needs to go on; None where the agents do not say."""
    horizon, states = spec.horizon if isinstance(spec, Agent) else None, []
    for run, number in zip(runs, numbers, strict=True):
        able = all(callable(getattr(run.agent, name, None)) for name in ("state", "restore"))
        agent = run.agent.state() if able else None
        if not isinstance(agent, dict):
            return None
        mine = isinstance(run.agent, LiveAgent) and "streams" in agent
        states.append(
            {
                "format": STATE_FORMAT,
                "seed": seed,
                "run": number,
                "step": run.step,
                "horizon": horizon,
                "environment_state": _stored(run.simulator),
                "reward_sum": float(run.reward_sum),
                "discounted_regret": run.discounted_regret,
                "gain": run.gain,
                "streams": None if mine else run.simulator.streams.state(),
                "agent": agent,
            }
        )
    return tuple(states)


def _stored(simulator: Any) -> Any:
    """Return where an environment stands: a state's number, or the arrays of a state."""
    return int(simulator.state) if isinstance(simulator, Simulator) else simulator.stored()


def _as_state(simulator: Any, stored: Any) -> Any:
    """Return the state that `_stored` gave."""
    return stored if isinstance(simulator, Simulator) else simulator.restored(stored)


def _reference(mdp: TabularMDP | Environment) -> Reference:
    """Return what regret is counted against; of a table, whose gains are exact, by its state."""
    return Reference(np.nan) if isinstance(mdp, TabularMDP) else checked_reference(mdp)


@lru_cache(maxsize=8)
def _gains(mdp: TabularMDP) -> Floats:
    """Return the optimal gain of every state, kept for further calls; at first, if it changes."""
    return solve_average(mdp.moments[0]).gain


@lru_cache(maxsize=8)
def _gains_of_moments(mdp: TabularMDP) -> Floats:
    """Return the optimal gain of every model of a world that changes."""
    gains = [solve_average(model).gain for model in mdp.moments]
    for number, gain in enumerate(gains):
        if np.ptp(gain) > 1e-9 * width_of(mdp.reward_range):
            raise ValueError(
                f"the optimal gain of model {number} of {mdp!r} is not the same from every state, "
                "and so there is no dynamic regret"
            )
    return np.array([gain[0] for gain in gains])


def _optimum(mdp: TabularMDP | Environment, gain: Floats, marks: Ints) -> Floats:
    """Return what could be gained up to every mark, `(rows, points)`."""
    if not isinstance(mdp, TabularMDP) or mdp.changes is None:
        return gain[:, None] * marks
    gained = mdp.changes.spent(marks) * _gains_of_moments(mdp)
    # summed one model after the other: a matrix product rounds by how many marks there are
    return np.tile(np.cumsum(gained, axis=1)[:, -1], (len(gain), 1))


def _discounted_loss(run: Run, mdp: Any) -> Watch:
    """Return the regret of a pseudo-episode: V*(s) - V_pi(s), gamma-discounted, in `mdp`."""
    one = not isinstance(run.simulator, FleetSimulator)
    if not one or not isinstance(run.agent, PSRLAgent) or not run.agent.objective.discounts:
        raise ValueError("the discounted regret is that of an agent that plans discounted")
    if mdp.changes is not None:
        raise ValueError("the discounted regret is that of a world that does not change")

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


def run_numbers(seeds: int | Sequence[int]) -> list[int]:
    """Return the run numbers that `seeds`, a number of runs or a list of them, stands for."""
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
            f"cpsrl: {label} has no compiled loop and runs step by step in Python, which is "
            "slower\n",
            end="",  # threads print: the line and its end are one write
            file=sys.stderr,
            flush=True,
        )
