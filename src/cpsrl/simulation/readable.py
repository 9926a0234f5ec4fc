"""The loop, in plain Python: the specification of every simulation."""

from collections.abc import Callable
from typing import Any

from cpsrl.simulation.loops import Run
from cpsrl.support.types import Ints


def advance(run: Run, steps: int, progress: Callable[[int], None], stop: Ints) -> None:
    """Take steps with anything that has `act` and `observe` (see `loops.Loop`)."""
    agent, simulator, recorder, tape = run.agent, run.simulator, run.recorder, run.recorder.tape
    first, mark = run.step + 1, 0
    begun = first
    for t in range(first, first + steps):
        if stop[0]:
            break
        state, resamples = simulator.state, resamples_of(agent)
        action = agent.act(state)
        resampled = resamples_of(agent) > resamples
        if resampled:
            recorder.look(t, state, agent)
        reward, next_state = simulator.step(action)
        agent.observe(state, action, reward, next_state)
        run.reward_sum += reward
        run.step = t
        if len(tape.resampled):
            tape.resampled[t - begun] = resampled
        if len(tape.states):
            tape.states[t - begun] = state
        if len(tape.actions):
            tape.actions[t - begun], tape.rewards[t - begun] = action, reward
        if mark < len(tape.marks) and tape.marks[mark] == t:
            tape.reward_sums[mark], tape.resamples[mark] = run.reward_sum, resamples_of(agent)
            mark += 1
        if t + 1 - begun == recorder.chunk:
            recorder.collect(begun, recorder.chunk)
            begun = t + 1
        progress(1)
    if run.step >= begun:
        recorder.collect(begun, run.step + 1 - begun)


def resamples_of(agent: Any) -> int:
    """Return how often an agent has resampled, 0 if it keeps no count."""
    return int(getattr(agent, "resamples", 0))
