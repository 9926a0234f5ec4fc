"""The loop, in plain Python: the specification of every simulation."""

from collections.abc import Callable
from typing import Any

from cpsrl.mdp import Ints, Simulator
from cpsrl.simulation.recording import Recorder


def advance(
    agent: Any,
    simulator: Simulator,
    first: int,
    steps: int,
    reward_sum: float,
    recorder: Recorder,
    progress: Callable[[int], None],
    stop: Ints,
) -> float:
    """Take the steps first, ..., first + steps - 1 and return the sum of all rewards.

    Args:
        agent: anything with `act` and `observe`, changed in place, as the two that follow.
        simulator: the environment.
        first: the first step to take.
        steps: how many steps to take.
        reward_sum: the rewards realised before.
        recorder: what is recorded.
        progress: called with the number of steps taken since the last call.
        stop: `(1,)` set by another thread to end the run.
    """
    tape, mark, begun = recorder.tape, 0, first
    for t in range(first, first + steps):
        if stop[0]:
            break
        state, resamples = simulator.state, resamples_of(agent)
        action = agent.act(state)
        reward, next_state = simulator.step(action)
        agent.observe(state, action, reward, next_state)
        reward_sum += reward
        if len(tape.resampled):
            tape.resampled[t - begun] = resamples_of(agent) > resamples
        if len(tape.states):
            tape.states[t - begun], tape.actions[t - begun] = state, action
            tape.rewards[t - begun] = reward
        if mark < len(tape.marks) and tape.marks[mark] == t:
            tape.reward_sums[mark], tape.resamples[mark] = reward_sum, resamples_of(agent)
            mark += 1
        if t + 1 == first + steps or t + 1 - begun == recorder.chunk:
            recorder.collect(begun, t + 1 - begun)
            begun = t + 1
        progress(1)
    return reward_sum


def resamples_of(agent: Any) -> int:
    """Return how often an agent has resampled, 0 for one that does not say."""
    return int(getattr(agent, "resamples", 0))
