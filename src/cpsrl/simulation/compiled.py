"""The compiled loop: chunks of a run of the PSRL family in one kernel.

`run_chunk` does in compiled code what `cpsrl.simulation.readable` does step by step with a
`PSRLAgent`, calling the same compiled functions on the same arrays in the same order, so the two
give the same trajectory. It is a template: `kernel_of` binds the names below to what the agent's
belief, rule and objective bring. A belief that brings compiled functions is updated and sampled
inside the kernel. With any other, or when every resampling is to be looked at, the kernel pauses
where one is due, the agent resamples in Python, and the kernel goes on.
"""

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, predicate, specialised
from cpsrl._private.variates import Words
from cpsrl.agents.evidence import Backlog
from cpsrl.agents.psrl import (
    ASKED,
    DUE,
    PREVIOUS,
    RESAMPLES,
    ROW,
    START,
    STEP,
    AgentArrays,
    PSRLAgent,
)
from cpsrl.agents.rule_buffer import NO_COINS
from cpsrl.beliefs import BATCH, Inside
from cpsrl.mdp.simulator import Dynamics, take_step
from cpsrl.objectives import Discounted
from cpsrl.simulation import readable
from cpsrl.simulation.loops import LOOPS, Position, Run, Tape
from cpsrl.support.types import Bools, Floats, Ints

DONE, PAUSED, STOPPED, FULL = range(4)

WORK, LEAST_CHUNK = 1 << 27, 256
"""A chunk is so many steps that it would take about WORK cells at one resampling a step."""

INSIDE = LOOKS = BY_TRANSITION = True
observe: Any = None
resample: Any = None
stops: Any = None
"""Bound by `kernel_of`: whether the belief is sampled inside the kernel, whether the rule looks at
the data, and whether rewards depend on the transition; the belief's function (`beliefs.Inside`),
`agents.psrl.resample` for the belief and the objective, and the rule's test. What is not called is
not compiled."""


class Chunk(NamedTuple):
    """Some steps of a run, and what is known of them in advance."""

    n: int
    """how many"""
    resample: Bools
    """`(n,)` whether each step resamples, for rules that are known in advance"""
    gamma: Floats
    """`(n,)` the discount factor at each step, or empty where it is fixed"""
    fixed_gamma: float
    """the discount factor to plan with"""
    pause: bool
    """whether to return where a resampling is due"""
    stop: Ints
    """`(1,)` set by another thread to end the run"""


def take_steps(
    dynamics: Dynamics,
    belief: Any,
    agent: AgentArrays,
    steps: tuple[int, int],
    position: Position,
    tape: Tape,
    words: tuple[Words, Words, Words],
) -> tuple[int, int, int, float, bool]:
    """Take the steps i, ..., end - 1 of a chunk with one policy, or fewer if the rule says so.

    A function of its own, so that the innermost loop has the processor's registers for itself.
    `steps` is i and end; the other arguments are those of `run_chunk`. Returns the step reached,
    the state, the last row, the sum of the rewards, and whether the rule was asked for that step
    and said yes.
    """
    # Locals, because compiled code that hands whole tuples on copies them at every step.
    policy, memory, visits, before = agent.policy, agent.memory, agent.visits, agent.before
    first, start, previous = tape.first[0], agent.clock[START], agent.clock[PREVIOUS]
    states, actions, kept = tape.states, tape.actions, tape.rewards
    transition_words, reward_words, _ = words
    i, end = steps
    state, reward_sum, _ = position
    n_actions = len(dynamics.deviation) // len(policy)
    while True:
        action = policy[np.uint64(state)]
        row = state * n_actions + action
        reward, next_state = take_step(dynamics, BY_TRANSITION, row, transition_words, reward_words)
        observe(belief, row, reward, next_state)
        reward_sum += reward
        if len(states) > 0:
            states[i] = state
            actions[i] = action
            kept[i] = reward
        state = next_state
        i += 1
        if LOOKS:
            visits[np.uint64(row)] += 1
        if i == end:
            return i, state, row, reward_sum, False
        if LOOKS:
            counts = visits[np.uint64(row)], before[np.uint64(row)]
            if stops(first + i, start, previous, counts[0], counts[1], memory):
                return i, state, row, reward_sum, True


def run_chunk(
    dynamics: Dynamics,
    belief: Any,
    model: Any,
    agent: AgentArrays,
    chunk: Chunk,
    position: Position,
    tape: Tape,
    words: tuple[Words, Words, Words],
) -> tuple[int, int, float, int]:
    """Take the steps up to the chunk's last, beginning with the clock's.

    Args:
        dynamics: what a step of the environment is made of.
        belief: the belief's arrays, or the agent's backlog, updated in place, as the next two.
        model: the agent's sampled model and workspace.
        agent: the agent's arrays.
        chunk: which steps.
        position: where the run is.
        tape: what is recorded.
        words: the streams of one uniform a step, of one variate a step where rewards are noisy, and
            of the sampled models.

    Returns:
        DONE, PAUSED, STOPPED, or FULL where the backlog is; and the position reached.
    """
    state, reward_sum, mark = position
    clock, marks, resampled, first = agent.clock, tape.marks, tape.resampled, tape.first[0]
    n, i = chunk.n, clock[STEP] - first
    while i < n:
        end = n if mark == len(marks) else min(n, marks[mark] - first + 1)
        if not INSIDE:
            room = len(belief.rows) - belief.filled[0]
            end = min(end, i + room)
            if room == 0:
                return FULL, state, reward_sum, mark
        if clock[ASKED] == 0:
            clock[ASKED] = 1
            if not LOOKS:
                due = chunk.resample[i]
            elif clock[STEP] == 1:
                due = True
            else:
                visits, before = agent.visits[clock[ROW]], agent.before[clock[ROW]]
                times = clock[STEP], clock[START], clock[PREVIOUS]
                due = stops(times[0], times[1], times[2], visits, before, agent.memory)
            if due:
                clock[DUE] = 1
        if clock[DUE] != 0:
            if chunk.pause or chunk.stop[0] != 0:
                return (STOPPED if chunk.stop[0] != 0 else PAUSED), state, reward_sum, mark
            if INSIDE:
                gamma = chunk.gamma[i] if len(chunk.gamma) > 0 else chunk.fixed_gamma
                resample(belief, model, agent, gamma, words[2])
        # The steps up to the next resampling or mark; a rule that looks may end them sooner.
        if not LOOKS:
            k = i + 1
            while k < end and not chunk.resample[k]:
                k += 1
            end = k
        if len(resampled) > 0:
            resampled[i:end] = False
            resampled[i] = clock[START] == first + i
        i, state, row, reward_sum, due = take_steps(
            dynamics, belief, agent, (i, end), (state, reward_sum, mark), tape, words
        )
        clock[ASKED] = due
        clock[DUE] = due
        clock[ROW] = row
        clock[STEP] = first + i
        if mark < len(marks) and marks[mark] == first + i - 1:
            tape.reward_sums[mark] = reward_sum
            tape.resamples[mark] = clock[RESAMPLES]
            mark += 1
    return DONE, state, reward_sum, mark


@inlined
def append(backlog: Backlog, row: int, reward: float, next_state: int) -> None:
    """Enter a transition into a backlog that has room for it."""
    place = backlog.filled[0]
    backlog.rows[place] = row
    backlog.rewards[place] = reward
    backlog.next_states[place] = next_state
    backlog.filled[0] = place + 1


TEST = "(i8, i8, i8, i8, i8, f8[::1])"
"""What a rule's `stops` is called with."""
OUTSIDE = Inside(append, None)
"""What stands in the kernel for a belief that brings no compiled functions."""


def kernel_of(agent: PSRLAgent, by_transition: bool) -> Any:
    """Return the kernel for an agent's parts, or None if its rule's test can't be compiled."""
    if by_transition not in agent.kernels:
        rule, inside = agent.rule, agent.live_belief.inside or OUTSIDE
        with _making:  # or threads that begin together would each compile it
            test = predicate(rule.stops, TEST) if rule.needs_counts else None
            parts = inside, agent.compiled_resample, test, by_transition
            possible = test is not None or not rule.needs_counts
            agent.kernels[by_transition] = _kernel(*parts) if possible else None
    return agent.kernels[by_transition]


@cache
def _kernel(belief: Inside, resample: Any, test: Any, by_transition: bool) -> Any:
    looks = test is not None
    taken = specialised(
        take_steps, LOOKS=looks, BY_TRANSITION=by_transition, observe=belief.observe, stops=test
    )
    return specialised(
        run_chunk,
        INSIDE=belief is not OUTSIDE,
        LOOKS=looks,
        take_steps=taken,
        resample=resample,
        stops=test,
    )


def coins_of(agent: PSRLAgent, first: int, n: int) -> tuple[Bools, Floats, float]:
    """Return whether the steps first, ..., first + n - 1 resample, and with what gammas they plan.

    The gammas are empty where there is one for all of them, the last of what is returned. A rule
    that looks at the data has no coins.
    """
    planning_gamma = agent.objective.planning_gamma
    if agent.rule.needs_counts:
        return NO_COINS, NO_GAMMAS, planning_gamma(math.nan)
    resample, gamma = agent.rule_buffer.steps(first, n)
    if isinstance(gamma, float):
        return resample, NO_GAMMAS, planning_gamma(gamma)
    if agent.objective != Discounted():
        gamma = np.array([planning_gamma(own) for own in gamma.tolist()])
    return resample, gamma, math.nan


_making = threading.Lock()
NO_GAMMAS = np.zeros(0)


def advance(run: Run, steps: int, progress: Callable[[int], None], stop: Ints) -> None:
    """Take steps with a `PSRLAgent` (see `loops.Loop`)."""
    agent: PSRLAgent = run.agent
    kernel = kernel_of(agent, run.simulator.mdp.transition_rewards is not None)
    if kernel is None:
        readable.advance(run, steps, progress, stop)
        return
    simulator, dynamics, recorder = run.simulator, run.simulator.mdp.dynamics, run.recorder
    inside = agent.live_belief.inside is not None
    pause = recorder.watch is not None or not inside
    if inside:
        agent.hand_over()
    cells = simulator.mdp.n_states**2 * simulator.mdp.n_actions
    most = min(recorder.chunk, max(LEAST_CHUNK, WORK // cells))
    mark = 0
    with agent.streams.words("transition", "reward", "belief") as words:
        while steps > 0 and not stop[0]:
            n, first = min(steps, most), agent.step
            chunk = Chunk(n, *coins_of(agent, first, n), pause, stop)
            recorder.tape.first[0] = first
            status, reported = PAUSED, 0
            while status in (PAUSED, FULL):
                status, simulator.state, run.reward_sum, mark = kernel(
                    dynamics,
                    agent.live_belief.arrays if inside else agent.backlog,
                    agent.model if inside else (),
                    agent.arrays,
                    chunk,
                    (simulator.state, run.reward_sum, mark),
                    recorder.tape,
                    words,
                )
                if agent.backlog.filled[0] == BATCH:
                    agent.hand_over()
                i = agent.step - first
                progress(i - reported)
                reported = i
                if status == FULL:
                    agent.evidence.make_room()
                elif status == PAUSED:
                    agent.resample()
                    recorder.look(agent.step, simulator.state, agent)
            recorder.collect(first, i)
            run.step += i
            steps -= n


LOOPS[PSRLAgent] = advance
