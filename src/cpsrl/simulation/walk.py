"""The compiled loop of the agents that learn nothing: a fixed policy, or chance."""

from collections.abc import Callable

import numpy as np

from cpsrl._compile import leaf
from cpsrl.agents.baselines import FixedAgent, choose
from cpsrl.mdp import Simulator
from cpsrl.mdp.simulator import NO_NOISE, draw_place, draw_reward
from cpsrl.simulation import readable
from cpsrl.simulation.recording import Recorder, Tape
from cpsrl.simulation.run import LOOPS, Run
from cpsrl.simulation.tabular import World, world_of
from cpsrl.types import Bools, Ints
from cpsrl.variates import Words, uniform


@leaf
def walk_chunk(
    world: World,
    n_actions: int,
    policy: Ints,
    available: Bools,
    first: int,
    n: int,
    state: int,
    reward_sum: float,
    mark: int,
    tape: Tape,
    transition_words: Words,
    reward_words: Words,
    action_words: Words,
) -> tuple[int, float, int]:
    """Take the steps first, ..., first + n - 1; return the state, reward sum and mark reached."""
    successors = world.successors
    rewards, noise, deviation = world.rewards, world.noise, world.deviation
    by_transition = len(rewards) > len(deviation)
    marks, states = tape.marks, tape.states
    for i in range(n):
        action = choose(policy, available, n_actions, state, action_words)
        row = state * n_actions + action
        place = draw_place(successors, row, uniform(transition_words))
        reward = rewards[np.uint64(place if by_transition else row)]
        if noise != NO_NOISE:
            reward = draw_reward(reward, noise, deviation[row], reward_words)
        if len(states) > 0:
            states[i] = state
            tape.actions[i] = action
            tape.rewards[i] = reward
        state = successors.states[np.uint64(place)]
        reward_sum += reward
        if mark < len(marks) and marks[mark] == first + i:
            tape.reward_sums[mark] = reward_sum
            mark += 1
    return state, reward_sum, mark


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a `FixedAgent` (see `run.Loop`)."""
    if not isinstance(run.simulator, Simulator):
        readable.advance(run, recorder, steps, progress, stop)
        return
    agent: FixedAgent = run.agent
    simulator, mark = run.simulator, 0
    world, n_actions = world_of(simulator.mdp), agent.sizes.n_actions
    with agent.streams.words("transition", "reward", "action") as words:
        while steps > 0 and not stop[0]:
            n, first = min(steps, recorder.chunk), agent.step
            place = (first, n, simulator.state, run.reward_sum, mark)
            simulator.state, run.reward_sum, mark = walk_chunk(
                world, n_actions, agent.policy, agent.available, *place, recorder.tape, *words
            )
            recorder.collect(first, n)
            agent.step += n
            run.step += n
            steps -= n
            progress(n)


LOOPS[FixedAgent] = advance
