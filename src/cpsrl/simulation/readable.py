"""The loop, in plain Python: the specification of every simulation."""

from collections.abc import Callable
from typing import Any

from cpsrl.simulation.recording import Recorder
from cpsrl.simulation.run import Run
from cpsrl.types import Ints


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with anything that has `act` and `observe` (see `run.Loop`)."""
    agent, simulator, tape = run.agent, run.simulator, recorder.tape
    first, mark = run.step + 1, 0
    begun = first
    for t in range(first, first + steps):
        if stop[0]:
            break
        state, resamples = simulator.state, resamples_of(agent)
        action = agent.act(state)
        resampled = resamples_of(agent) > resamples
        if resampled:
            recorder.look(state, agent)
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
            recorder.fill(mark)
        if t + 1 == first + steps or t + 1 - begun == recorder.chunk:
            recorder.collect(begun, t + 1 - begun)
            begun = t + 1
        progress(1)


def advance_fleet(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a fleet, agent by agent (see `run.Loop` and `cpsrl.agents.fleet`)."""
    lead, simulator, tape, mark = run.agent, run.simulator, recorder.tape, 0
    shared = lead.spec.draws == "shared"
    agents = [lead, *lead.members.values()]
    for t in range(run.step + 1, run.step + 1 + steps):
        if stop[0]:
            break
        for j, own in enumerate(agents):
            agent, state = lead if shared else own, int(simulator.states[j])
            action = agent.act(state)
            reward, next_state = simulator.step(j, action)
            last = not shared or own is agents[-1]
            (agent.observe if last else agent.learn)(state, action, reward, next_state)
        run.step, run.reward_sum = t, float(simulator.paid.sum() / len(agents))
        if mark < len(tape.marks) and tape.marks[mark] == t:
            tape.reward_sums[mark], recorder.each[mark] = run.reward_sum, simulator.paid
            tape.resamples[mark] = lead.resamples if shared else sum(a.resamples for a in agents)
            mark += 1
        progress(1)


def resamples_of(agent: Any) -> int:
    """Return how often an agent has resampled, 0 for one that does not say."""
    return int(getattr(agent, "resamples", 0))
