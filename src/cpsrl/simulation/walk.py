"""The compiled loop of the agents that learn nothing: a fixed policy, or chance."""

from collections.abc import Callable

import numpy as np

from cpsrl._compile import jit
from cpsrl.agents.baselines import FixedAgent, choose
from cpsrl.mdp.simulator import NO_NOISE, draw_next, draw_reward
from cpsrl.simulation.recording import Recorder, Tape
from cpsrl.simulation.run import Run
from cpsrl.simulation.tabular import World, world_of
from cpsrl.types import Ints


@jit
def walk_chunk(
    world: World,
    n_actions: int,
    policy: Ints,
    first: int,
    n: int,
    state: int,
    reward_sum: float,
    mark: int,
    tape: Tape,
    transition_rng: np.random.Generator,
    reward_rng: np.random.Generator,
    action_rng: np.random.Generator,
) -> tuple[int, float, int]:
    """Take the steps first, ..., first + n - 1; return the state, reward sum and mark reached."""
    indptr, indices, cumulative = world.indptr, world.indices, world.cumulative
    rewards, noise, deviation = world.rewards, world.noise, world.deviation
    marks, states = tape.marks, tape.states
    for i in range(n):
        action = choose(policy, n_actions, state, action_rng)
        row = state * n_actions + action
        reward = rewards[row]
        if noise != NO_NOISE:
            reward = draw_reward(reward, noise, deviation[row], reward_rng)
        if len(states) > 0:
            states[i] = state
            tape.actions[i] = action
            tape.rewards[i] = reward
        state = draw_next(indptr, indices, cumulative, row, transition_rng.random())
        reward_sum += reward
        if mark < len(marks) and marks[mark] == first + i:
            tape.reward_sums[mark] = reward_sum
            mark += 1
    return state, reward_sum, mark


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a `FixedAgent` (see `run.Loop`)."""
    agent: FixedAgent = run.agent
    simulator = run.simulator
    world, streams, mark = world_of(simulator.mdp), simulator.streams, 0
    while steps > 0 and not stop[0]:
        n = min(steps, recorder.chunk)
        simulator.state, run.reward_sum, mark = walk_chunk(
            world,
            agent.sizes.n_actions,
            agent.policy,
            agent.step,
            n,
            simulator.state,
            run.reward_sum,
            mark,
            recorder.tape,
            streams.transition,
            streams.reward,
            streams.action,
        )
        recorder.collect(agent.step, n)
        agent.step += n
        run.step += n
        steps -= n
        progress(n)
