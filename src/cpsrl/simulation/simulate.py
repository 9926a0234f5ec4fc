"""`simulate`: one agent, one environment, many runs."""

import copy
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any

import numpy as np

from cpsrl._compile import announce_compilation
from cpsrl.agents.baselines import FixedAgent
from cpsrl.agents.ensemble import EnsembleAgent
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.mdp import Floats, Ints, Simulator, TabularMDP
from cpsrl.planning import discounted_value, solve_average, solve_discounted
from cpsrl.planning.kernels import plan_average
from cpsrl.seeding import Streams
from cpsrl.simulation import deep, fixed, readable, tabular
from cpsrl.simulation.live import Advance, Live
from cpsrl.simulation.recording import Loss, Recorder
from cpsrl.simulation.runs import Runs, record_steps

FORMAT = 1
STATE_KEYS = {"format", "step", "environment_state", "reward_sum", "discounted_regret", "gain"}
STATE_KEYS |= {"streams", "rule", "agent"}
POLL_SECONDS = 0.1

COMPILED: dict[type, Advance] = {
    PSRLAgent: tabular.advance,
    FixedAgent: fixed.advance,
    EnsembleAgent: deep.advance,
}
"""The compiled loops, by the agents they are for; all others run in the readable one."""

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
) -> Runs:
    """Run an agent in an environment that never resets, once for every seed.

    Args:
        agent: one of the package's agents, or any object with `act(state)` and
            `observe(state, action, reward, next_state)`, of which every run gets a copy.
        mdp: the environment.
        steps: how many steps every run takes.
        seeds: a number n (runs 0, ..., n - 1), or a list of run numbers.
        seed: the root seed of all randomness.
        record: which steps to record: a stride, "log", an array of steps, or None for a stride that
            gives about 200 points. The last step is always recorded.
        start: the `state` of earlier runs; these go on for `steps` further steps.
        threads: how many threads; None takes one per core.
        progress: called now and then with the number of steps taken since the last call.
        resample_times: keep the steps that resampled.
        trajectory: keep states, actions and rewards.
        discounted_regret: compute the discounted regret of the paper's eq. 6.

    Returns:
        The runs, a row each.
    """
    announce_compilation(plan_average)
    steps = _whole("steps", steps, 1)
    numbers = _run_numbers(seeds)
    if start is not None and len(start) != len(numbers):
        raise ValueError(f"start has {len(start)} states for {len(numbers)} seeds")
    for state in start or ():
        if missing := STATE_KEYS - state.keys():
            raise ValueError(f"the state of a run lacks {', '.join(sorted(missing))}")
    began = {int(state["step"]) for state in start} if start is not None else {0}
    if len(began) > 1:
        raise ValueError(f"the runs to go on with stand at different steps: {sorted(began)}")
    first = began.pop() + 1
    marks = record_steps(record, steps, first)
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
    elif type(lives[0].agent) not in COMPILED:
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
    _all(lives, recorders, steps, threads, progress)
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
        state=_states(lives),
        resample_times=tuple(r.resample_times for r in recorders) if resample_times else None,
        trajectory=tuple(
            r.trajectory(live.simulator.state) for r, live in zip(recorders, lives, strict=True)
        )
        if trajectory
        else None,
        discounted_regret=np.stack([r.losses for r in recorders]) if loss else None,
    )


def _all(
    lives: list[Live],
    recorders: list[Recorder],
    steps: int,
    threads: int | None,
    progress: Callable[[int], None] | None,
) -> None:
    """Take `steps` steps of every run, on `threads` threads; this thread only waits.

    A kernel cannot be interrupted, so it runs elsewhere and polls `stop`.
    """
    stop = np.zeros(1, np.int64)
    taken = [0] * len(lives)

    def work(i: int) -> None:
        def count(n: int) -> None:
            taken[i] += n

        live, recorder = lives[i], recorders[i]
        loop = COMPILED.get(type(live.agent), readable.advance)
        loop(live, recorder, steps, count, stop)
        live.discounted_regret = recorder.lost if recorder.loss else None

    workers = _whole("threads", threads, 1) if threads is not None else cores()
    pool = ThreadPoolExecutor(min(workers, len(lives)), thread_name_prefix="cpsrl")
    reported = 0
    try:
        pending = {pool.submit(work, i) for i in range(len(lives))}
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


def _begin(spec: Any, mdp: TabularMDP, seed: int, run: int, state: dict[str, Any] | None) -> Live:
    """Return a run at its first step, or where `state` left it."""
    streams = Streams(seed, run)
    simulator = Simulator(mdp, streams)
    agent = spec.start(mdp, streams) if hasattr(spec, "start") else copy.deepcopy(spec)
    if state is None:
        return Live(agent, simulator, float(_gains(mdp)[simulator.state]))
    if state["format"] != FORMAT:
        raise ValueError(f"the state has format {state['format']!r}, not {FORMAT}")
    if not 0 <= state["environment_state"] < mdp.n_states:
        raise ValueError(
            f"the run to go on with is in state {state['environment_state']}, and {mdp!r} has none"
        )
    agent.restore({**state["agent"], "rule": state["rule"], "streams": state["streams"]})
    streams.restore(state["streams"])
    simulator.state = int(state["environment_state"])
    return Live(
        agent,
        simulator,
        float(state["gain"]),
        int(state["step"]),
        float(state["reward_sum"]),
        state["discounted_regret"],
    )


def _states(lives: list[Live]) -> tuple[dict[str, Any], ...] | None:
    if not hasattr(lives[0].agent, "state"):
        return None
    states = []
    for live in lives:
        agent = live.agent.state()
        agent.pop("streams", None)
        states.append(
            {
                "format": FORMAT,
                "step": live.step,
                "environment_state": int(live.simulator.state),
                "reward_sum": float(live.reward_sum),
                "discounted_regret": live.discounted_regret,
                "gain": live.gain,
                "resamples": readable.resamples_of(live.agent),
                "streams": live.simulator.streams.state(),
                "rule": agent.pop("rule", {}),
                "agent": agent,
            }
        )
    return tuple(states)


def _resolved(agent: Any, mdp: TabularMDP, steps: int, start: Any) -> Any:
    """Return the agent with what depends on the problem and the horizon filled in.

    Runs that go on keep the horizon they were tuned to.
    """
    if not hasattr(agent, "start") and not (hasattr(agent, "act") and hasattr(agent, "observe")):
        raise ValueError(
            f"an agent has act(state) and observe(state, action, reward, next_state); {agent!r} "
            "has not"
        )
    if not hasattr(agent, "resolve"):
        return agent
    if start is not None:
        steps = start[0]["rule"].get("horizon") or steps
    return agent.resolve(mdp, steps)


@lru_cache(maxsize=8)
def _gains(mdp: TabularMDP) -> Floats:
    """Return the optimal gain of every state, kept for further calls with the same MDP."""
    return solve_average(mdp).gain


def _loss(live: Live, mdp: TabularMDP) -> Loss:
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
        return list(range(_whole("seeds", seeds, 1)))
    numbers = [_whole("seeds", run, 0) for run in np.atleast_1d(np.asarray(seeds)).tolist()]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError("seeds must be a number of runs or a list of different run numbers")
    return numbers


def _whole(what: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{what} must be a whole number of at least {least}, not {value!r}")
    return int(value)


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
