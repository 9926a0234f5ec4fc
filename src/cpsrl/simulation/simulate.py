"""`simulate`: one agent, one environment, many runs."""

import copy
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any

import numpy as np

from cpsrl._compile import announce_compilation
from cpsrl.agents.baselines import FixedAgent
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.checks import checked_index, checked_number, checked_whole
from cpsrl.mdp import Simulator, TabularMDP
from cpsrl.planning import discounted_value, solve_average, solve_discounted
from cpsrl.planning.kernels import plan_average
from cpsrl.seeding import Streams
from cpsrl.simulation import readable, tabular, walk
from cpsrl.simulation.recording import Loss, Recorder
from cpsrl.simulation.run import LOOPS, Run
from cpsrl.simulation.runs import Runs, record_steps
from cpsrl.types import Floats, Ints

FORMAT = 2
STATE_KEYS = {"format", "seed", "run", "step", "environment_state", "reward_sum", "gain"}
STATE_KEYS |= {"discounted_regret", "spec", "streams", "agent"}
MOST_RUN = np.iinfo(np.int64).max
POLL_SECONDS = 0.1

LOOPS[PSRLAgent] = tabular.advance
LOOPS[FixedAgent] = walk.advance

_slower_said: set[str] = set()


def simulate(
    agent: Any,
    mdp: TabularMDP,
    steps: int = 100_000,
    seeds: int | Sequence[int] = 50,
    seed: int = 0,
    record: Any = None,
    start: Sequence[dict[str, Any]] | None = None,
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
        start: the `state` of earlier runs; these go on for `steps` further steps.
        threads: how many threads; None takes one per core.
        progress: called now and then with the number of steps taken since the last call.
        resample_times: keep the steps that resampled.
        trajectory: keep states, actions and rewards.
        discounted_regret: compute the discounted regret of the paper's eq. 6.
        stop: `(1,)` set to 1 by another thread to end early; the runs are then taken in the calling
            thread, without a pool.

    Returns:
        The runs, a row each.
    """
    announce_compilation(plan_average)
    _check_parts(agent, mdp)
    steps = checked_whole("steps", steps, 1)
    numbers = _run_numbers(seeds)
    if start is not None:
        _check_states(start, numbers, seed, mdp)
    marks = record_steps(record, steps, 1 if start is None else start[0]["step"] + 1)
    spec = _resolved(agent, mdp, steps, start)
    lives = [
        _begin(spec, mdp, seed, run, None if start is None else start[i])
        for i, run in enumerate(numbers)
    ]
    loss = _loss(lives[0], mdp) if discounted_regret else None
    for live in lives:
        if loss is not None and live.discounted_regret is None:
            raise ValueError(
                "the discounted regret cannot begin in the middle of a run: the earlier steps "
                "were simulated without it"
            )
    if isinstance(lives[0].agent, PSRLAgent):
        announce_compilation(tabular.run_chunk)
    elif type(lives[0].agent) not in LOOPS:
        _say_slower(_label(spec))
    recorders = [
        Recorder(
            marks,
            resample_times=resample_times,
            trajectory=trajectory,
            loss=loss,
            lost=live.discounted_regret or 0.0,
        )
        for live in lives
    ]
    _all(lives, recorders, steps, threads, progress, stop)
    gain = np.array([live.gain for live in lives])
    sums = np.stack([recorder.tape.reward_sums for recorder in recorders])
    return Runs(
        times=marks,
        regret=gain[:, None] * marks - sums,
        resamples=np.stack([recorder.tape.resamples for recorder in recorders]),
        seeds=np.array(numbers, np.int64),
        agent=(_label(spec),) * len(lives),
        environment=(mdp.name,) * len(lives),
        gain=gain,
        seed=seed,
        state=_states(lives, numbers, seed),
        resample_times=tuple(r.resample_times for r in recorders) if resample_times else None,
        trajectory=tuple(
            r.trajectory(live.simulator.state) for r, live in zip(recorders, lives, strict=True)
        )
        if trajectory
        else None,
        discounted_regret=np.stack([r.losses for r in recorders]) if loss else None,
    )


def _all(
    lives: list[Run],
    recorders: list[Recorder],
    steps: int,
    threads: int | None,
    progress: Callable[[int], None] | None,
    given: Ints | None,
) -> None:
    """Take `steps` steps of every run, on `threads` threads; this thread only waits.

    A kernel cannot be interrupted, so it runs elsewhere and polls `stop`, unless `stop` is given.
    """
    stop = np.zeros(1, np.int64) if given is None else given
    taken = [0] * len(lives)
    reported, due = 0, 0.0

    def report() -> None:
        nonlocal reported, due
        now = sum(taken)
        if progress is not None and now > reported:
            progress(now - reported)
            reported, due = now, time.monotonic() + POLL_SECONDS

    def work(i: int) -> None:
        def count(n: int) -> None:
            taken[i] += n
            if given is not None and time.monotonic() >= due:
                report()

        live, recorder = lives[i], recorders[i]
        loop = LOOPS.get(type(live.agent), readable.advance)
        loop(live, recorder, steps, count, stop)
        live.discounted_regret = recorder.lost if recorder.loss else None

    if given is not None:
        for i in range(len(lives)):
            work(i)
        report()
        return
    workers = checked_whole("threads", threads, 1) if threads is not None else cores()
    pool = ThreadPoolExecutor(min(workers, len(lives)), thread_name_prefix="cpsrl")
    try:
        pending = {pool.submit(work, i) for i in range(len(lives))}
        while pending:
            done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            report()
    finally:
        stop[0] = 1
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(spec: Any, mdp: TabularMDP, seed: int, run: int, state: dict[str, Any] | None) -> Run:
    """Return a run at its first step, or where `state` left it."""
    streams = Streams(seed, run)
    simulator = Simulator(mdp, streams)
    agent = spec.start(mdp, streams) if hasattr(spec, "start") else copy.deepcopy(spec)
    if state is None:
        return Run(agent, simulator, float(_gains(mdp)[simulator.state]))
    if not hasattr(agent, "restore"):
        raise ValueError(f"{_label(spec)} has no restore(state), so its runs cannot be carried on")
    owned = {"spec": state["spec"], "streams": state["streams"]} if state["spec"] else {}
    agent.restore({**state["agent"], **owned})
    if type(agent) in LOOPS and agent.step != state["step"] + 1:
        raise ValueError("the state is damaged: agent and run are not at the same step")
    streams.restore(state["streams"])
    simulator.state = state["environment_state"]
    return Run(
        agent,
        simulator,
        state["gain"],
        state["step"],
        state["reward_sum"],
        state["discounted_regret"],
    )


def _check_parts(agent: Any, mdp: Any) -> None:
    """Raise a ValueError unless these are an agent that can be started or copied, and an MDP."""
    if not isinstance(mdp, TabularMDP):
        raise ValueError(
            f"mdp must be a TabularMDP, such as cpsrl.environment('riverswim'), not {mdp!r}"
        )
    able = hasattr(agent, "start") or (hasattr(agent, "act") and hasattr(agent, "observe"))
    if isinstance(agent, type) or not able:
        raise ValueError(
            "an agent is one of the package's, such as cpsrl.TSDE(), or any object with "
            f"act(state) and observe(state, action, reward, next_state), not {agent!r}"
        )
    if isinstance(getattr(agent, "streams", None), Streams):
        raise ValueError(
            f"{type(agent).__name__} is live and belongs to one run: give simulate the agent that "
            "was started, such as cpsrl.ContinuingPSRL(), and it starts one for every run"
        )


def _check_states(start: Any, numbers: list[int], seed: int, mdp: TabularMDP) -> None:
    """Raise a ValueError unless `start` holds states of these runs in this MDP."""
    if not isinstance(start, list | tuple) or not all(isinstance(state, dict) for state in start):
        raise ValueError("start must be the `state` of earlier runs, one for every seed")
    if len(start) != len(numbers):
        raise ValueError(f"start has {len(start)} states for {len(numbers)} seeds")
    for state, run in zip(start, numbers, strict=True):
        if missing := STATE_KEYS - state.keys():
            raise ValueError(f"the state of a run lacks {', '.join(sorted(missing))}")
        if state["format"] != FORMAT:
            raise ValueError(f"the state has format {state['format']!r}, not {FORMAT}")
        if (state["seed"], state["run"]) != (seed, run):
            raise ValueError(
                f"the state is that of run {state['run']} of seed {state['seed']}, not of run "
                f"{run} of seed {seed}"
            )
        checked_whole("the step of the state", state["step"], 1)
        checked_index("the environment's state", state["environment_state"], mdp.n_states)
        gain = checked_number("the gain of the state", state["gain"])
        checked_number("the reward sum of the state", state["reward_sum"])
        if state["discounted_regret"] is not None:
            checked_number("the discounted regret of the state", state["discounted_regret"])
        if not isinstance(state["spec"], dict) or not isinstance(state["agent"], dict):
            raise ValueError("the state of a run is damaged: spec and agent must be dictionaries")
        gains = _gains(mdp)
        if not np.isclose(gains, gain, rtol=1e-9, atol=1e-12 * np.abs(mdp.rewards).max()).any():
            raise ValueError(
                f"the state is that of a run in another environment: its optimal gain is {gain:g}, "
                f"and that of {mdp!r} is {gains[0]:g}"
            )
    if len(began := {state["step"] for state in start}) > 1:
        raise ValueError(f"the runs to go on with stand at different steps: {sorted(began)}")


def _states(lives: list[Run], numbers: list[int], seed: int) -> tuple[dict[str, Any], ...] | None:
    """Return what each run needs to go on; None where the agents do not say."""
    states = []
    for live, run in zip(lives, numbers, strict=True):
        state = getattr(live.agent, "state", None)
        agent = state() if callable(state) and hasattr(live.agent, "restore") else None
        if not isinstance(agent, dict):
            return None
        if isinstance(getattr(live.agent, "streams", None), Streams):
            del agent["streams"]  # they are the simulator's
        states.append(
            {
                "format": FORMAT,
                "seed": seed,
                "run": run,
                "step": live.step,
                "environment_state": int(live.simulator.state),
                "reward_sum": float(live.reward_sum),
                "discounted_regret": live.discounted_regret,
                "gain": live.gain,
                "resamples": readable.resamples_of(live.agent),
                "streams": live.simulator.streams.state(),
                "spec": agent.pop("spec", {}),
                "agent": agent,
            }
        )
    return tuple(states)


def _resolved(agent: Any, mdp: TabularMDP, steps: int, start: Any) -> Any:
    """Return the agent with what depends on the problem and the horizon filled in.

    Runs that go on keep the horizon they were tuned to.
    """
    if not hasattr(agent, "resolve"):
        return agent
    if start is not None:
        steps = start[0]["spec"].get("rule", {}).get("horizon") or steps
    return agent.resolve(mdp, steps)


@lru_cache(maxsize=8)
def _gains(mdp: TabularMDP) -> Floats:
    """Return the optimal gain of every state, kept for further calls with the same MDP."""
    return solve_average(mdp).gain


def _loss(live: Run, mdp: TabularMDP) -> Loss:
    """Return the regret of a pseudo-episode: V*(s) - V_pi(s), gamma-discounted, in `mdp`."""
    if not isinstance(live.agent, PSRLAgent) or live.agent.average:
        raise ValueError("the discounted regret is that of an agent that plans discounted")

    @lru_cache(maxsize=1024)
    def best(gamma: float) -> Floats:
        return solve_discounted(mdp, gamma).value

    @lru_cache(maxsize=4096)
    def achieved(policy: bytes, gamma: float) -> Floats:
        return discounted_value(mdp, np.frombuffer(policy, np.int64), gamma)

    def loss(state: int, policy: Ints, gamma: float) -> float:
        gamma = float(gamma)
        return float(best(gamma)[state] - achieved(policy.tobytes(), gamma)[state])

    return loss


def _run_numbers(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        return list(range(checked_whole("seeds", seeds, 1)))
    numbers = [checked_whole("seeds", run) for run in np.ravel(np.asarray(seeds))]
    if numbers and max(numbers) > MOST_RUN:
        raise ValueError(f"seeds must be at most {MOST_RUN}, not {max(numbers)}")
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
