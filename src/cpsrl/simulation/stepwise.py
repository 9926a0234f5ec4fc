"""The compiled loop of agents that are asked for an action at every step, and draw no model.

A fixed policy, chance, and IMED-RL: `take_chunk` is a template of the two functions that such an
agent brings, `choose` and `observe`, and takes a chunk of a run in one call.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from cpsrl._private.compile import specialised
from cpsrl._private.variates import Words
from cpsrl.agents.baselines import FixedAgent
from cpsrl.agents.imed import IMEDAgent
from cpsrl.mdp import Simulator
from cpsrl.mdp.simulator import Dynamics, take_step
from cpsrl.simulation import readable
from cpsrl.simulation.loops import LOOPS, Position, Run, Tape
from cpsrl.support.types import Ints

choose: Any = None
observe: Any = None
"""Bound by `kernel_of`: the agent's compiled functions."""


def take_chunk(
    dynamics: Dynamics,
    agent: Any,
    chosen: int,
    steps: tuple[int, int],
    position: Position,
    tape: Tape,
    words: tuple[Words, Words, Words],
) -> tuple[int, float, int]:
    """Take the steps first, ..., last; return the state, reward sum and mark reached (a template).

    `agent` are its arrays, and `chosen` is the action of the first step if that is chosen already,
    else -1.
    """
    (first, last), (state, reward_sum, mark) = steps, position
    transition_words, reward_words, action_words = words
    by_transition = len(dynamics.rewards) > len(dynamics.deviation)
    n_actions, marks, states = agent.n_actions, tape.marks, tape.states
    for i in range(last + 1 - first):
        action = chosen if chosen >= 0 else choose(agent, state, action_words)
        chosen = -1
        row = state * n_actions + action
        reward, next_state = take_step(dynamics, by_transition, row, transition_words, reward_words)
        observe(agent, row, reward, next_state)
        if len(states) > 0:
            states[i] = state
            tape.actions[i] = action
            tape.rewards[i] = reward
        state = next_state
        reward_sum += reward
        if mark < len(marks) and marks[mark] == first + i:
            tape.reward_sums[mark] = reward_sum
            mark += 1
    return state, reward_sum, mark


@cache
def kernel_of(choose: Any, observe: Any) -> Any:
    """Return the kernel for an agent's compiled functions."""
    return specialised(take_chunk, choose=choose, observe=observe)


def advance(run: Run, steps: int, progress: Callable[[int], None], stop: Ints) -> None:
    """Take steps with an agent that brings `choose` and `observe` (see `loops.Loop`)."""
    agent, simulator, recorder, mark = run.agent, run.simulator, run.recorder, 0
    if not isinstance(simulator, Simulator):
        readable.advance(run, steps, progress, stop)
        return
    kernel = kernel_of(*agent.compiled)
    with agent.streams.words("transition", "reward", "action") as words:
        while steps > 0 and not stop[0]:
            n, first = min(steps, recorder.chunk, agent.at_once), agent.step
            agent.make_room(n)
            simulator.state, run.reward_sum, mark = kernel(
                simulator.mdp.dynamics,
                agent.arrays,
                -1 if agent.action is None else agent.action,
                (first, first + n - 1),
                (simulator.state, run.reward_sum, mark),
                recorder.tape,
                words,
            )
            recorder.collect(first, n)
            agent.step = first + n - 1
            agent.move_on()
            run.step += n
            steps -= n
            progress(n)


LOOPS[FixedAgent] = LOOPS[IMEDAgent] = advance
