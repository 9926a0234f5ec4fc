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
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba.core.errors import NumbaError
from numba.core.types import Boolean, Integer

from cpsrl._compile import inlined, specialised
from cpsrl.agents.ahead import NO_COINS
from cpsrl.agents.psrl import (
    ASKED,
    DUE,
    PREVIOUS,
    RESAMPLES,
    ROW,
    START,
    STEP,
    Backlog,
    PSRLAgent,
    begin_pseudo_episode,
)
from cpsrl.beliefs import BATCH, Inside
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.simulator import NO_NOISE, Successors, draw_place, draw_reward
from cpsrl.objectives import Discounted
from cpsrl.planning.kernels import repeat_rows
from cpsrl.simulation import readable
from cpsrl.simulation.recording import Recorder, Tape, Watcher
from cpsrl.simulation.run import LOOPS, Run
from cpsrl.types import Bools, Floats, Ints
from cpsrl.variates import Words, uniform

DONE, PAUSED, STOPPED, FULL = range(4)

WORK, LEAST_CHUNK = 1 << 27, 256
"""A chunk is so many steps that it would take about WORK cells at one resampling a step."""

INSIDE = LOOKS = WATCHED = BY_TRANSITION = MASKED = True
observe: Any = None
sample: Any = None
plan: Any = None
stops: Any = None
look: Any = None
"""Bound by `kernel_of`: whether the belief is sampled inside the kernel, whether the rule looks at
the data, whether somebody watches, whether rewards depend on the transition, and whether some
action is not available; the belief's functions (`beliefs.Inside`), the objective's, the rule's
test, and the watcher's. What is not called is not compiled."""


class World(NamedTuple):
    """The environment: successors, rewards and their noise."""

    successors: Successors
    rewards: Floats
    """one a row, `(S*A,)`, or, where they depend on the transition, one a place of a successor"""
    noise: int
    deviation: Floats
    """`(S*A,)`"""


@lru_cache(maxsize=8)
def world_of(mdp: TabularMDP) -> World:
    """Return the arrays of an MDP that the kernel needs."""
    noise, deviation = mdp.noise_code
    return World(mdp.successors, mdp.payments, noise, deviation.ravel().copy())


def take_steps(
    world: World,
    belief: Any,
    policy: Ints,
    first: int,
    start: int,
    previous: int,
    visits: Ints,
    before: Ints,
    memory: Floats,
    i: int,
    end: int,
    state: int,
    reward_sum: float,
    tape: Tape,
    transition_words: Words,
    reward_words: Words,
) -> tuple[int, int, int, float, bool]:
    """Take the steps i, ..., end - 1 of a chunk with one policy, or fewer if the rule says so.

    A function of its own, so that the innermost loop has the processor's registers for itself.
    Returns the step reached, the state, the last row, the sum of the rewards, and whether the rule
    was asked for that step and said yes. `first`, `start` and `previous` are the first step of the
    chunk, that of the pseudo-episode, and the length of the one before it; the other arguments are
    those of `run_chunk`.
    """
    successors, rewards = world.successors, world.rewards
    noise, deviation = world.noise, world.deviation
    states, actions, kept = tape.states, tape.actions, tape.rewards
    n_actions = len(deviation) // len(policy)
    while True:
        action = policy[np.uint64(state)]
        row = state * n_actions + action
        place = draw_place(successors, row, uniform(transition_words))
        reward = rewards[np.uint64(place if BY_TRANSITION else row)]
        if noise != NO_NOISE:
            reward = draw_reward(reward, noise, deviation[row], reward_words)
        next_state = successors.states[np.uint64(place)]
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
    world: World,
    belief: Any,
    model: Any,
    watched: Any,
    policy: Ints,
    stand_in: Ints,
    clock: Ints,
    visits: Ints,
    before: Ints,
    memory: Floats,
    fixed_gamma: float,
    resample: Bools,
    gamma: Floats,
    n: int,
    state: int,
    reward_sum: float,
    mark: int,
    tape: Tape,
    pause: bool,
    stop: Ints,
    transition_words: Words,
    reward_words: Words,
    belief_words: Words,
) -> tuple[int, int, float, int]:
    """Take the steps up to the chunk's n-th, beginning with the clock's.

    Args:
        world: the environment.
        belief: the belief's arrays, or the agent's backlog, updated in place, as those that follow.
        model: the agent's sampled model and workspace.
        watched: what a compiled watcher writes into.
        policy: `(S,)` the agent's policy.
        stand_in: `(S, A)` for actions that are not available; empty where all are.
        clock: the agent's clock.
        visits: `(S*A,)` visits of every row, for rules that look at the data.
        before: `(S*A,)` the same before the pseudo-episode.
        memory: the rule's own state.
        fixed_gamma: the discount factor to plan with.
        resample: `(n,)` whether each step resamples, for rules that are known in advance.
        gamma: `(n,)` the discount factor at each step, or empty where it is fixed.
        n: the length of the chunk.
        state: where the environment is.
        reward_sum: the rewards realised so far.
        mark: which of the tape's marks is the next.
        tape: what is recorded.
        pause: whether to return where a resampling is due.
        stop: `(1,)` set by another thread to end the run.
        transition_words: the stream of one uniform a step.
        reward_words: that of one variate a step where rewards are noisy.
        belief_words: that of the sampled models.

    Returns:
        DONE, PAUSED, STOPPED, or FULL where the backlog is; the state, reward sum and mark reached.
    """
    # Locals, because compiled code that hands whole tuples on copies them at every step.
    marks, resampled = tape.marks, tape.resampled
    first = tape.first[0]
    n_states = len(policy)
    n_actions = len(world.deviation) // n_states
    asked = clock[ASKED] != 0
    due = clock[DUE] != 0
    i = clock[STEP] - first
    while i < n:
        end = n if mark == len(marks) else min(n, marks[mark] - first + 1)
        if not INSIDE:
            room = len(belief.rows) - belief.filled[0]
            end = min(end, i + room)
            if room == 0:
                clock[ASKED] = asked
                clock[DUE] = due
                return FULL, state, reward_sum, mark
        if not asked:
            if not LOOKS:
                due = due or resample[i]
            elif clock[STEP] == 1:
                due = True
            else:
                row = clock[ROW]
                due = due or stops(
                    clock[STEP], clock[START], clock[PREVIOUS], visits[row], before[row], memory
                )
        if due:
            if pause or stop[0] != 0:
                clock[ASKED] = 1
                clock[DUE] = 1
                return (STOPPED if stop[0] != 0 else PAUSED), state, reward_sum, mark
            if INSIDE:
                discount = gamma[i] if len(gamma) > 0 else fixed_gamma
                sample(belief, belief_words, model.P, model.r)
                if MASKED:
                    repeat_rows(model.P, model.r, stand_in)
                plan(
                    model.P.reshape((n_states, n_actions, n_states)),
                    model.r.reshape((n_states, n_actions)),
                    discount,
                    policy,
                    model.work,
                )
            begin_pseudo_episode(clock, visits, before, policy, stand_in, n_actions)
            if WATCHED:
                look(watched, first + i, state, discount, policy, belief, model)
            due = False
        # The steps up to the next resampling or mark; a rule that looks may end them sooner.
        if not LOOKS:
            k = i + 1
            while k < end and not resample[k]:
                k += 1
            end = k
        if len(resampled) > 0:
            resampled[i:end] = False
            resampled[i] = clock[START] == first + i
        i, state, row, reward_sum, due = take_steps(
            world,
            belief,
            policy,
            first,
            clock[START],
            clock[PREVIOUS],
            visits,
            before,
            memory,
            i,
            end,
            state,
            reward_sum,
            tape,
            transition_words,
            reward_words,
        )
        asked = due
        clock[ROW] = row
        clock[STEP] = first + i
        if mark < len(marks) and marks[mark] == first + i - 1:
            tape.reward_sums[mark] = reward_sum
            tape.resamples[mark] = clock[RESAMPLES]
            mark += 1
    clock[ASKED] = asked
    clock[DUE] = due
    return DONE, state, reward_sum, mark


@inlined
def append(backlog: Backlog, row: int, reward: float, next_state: int) -> None:
    """Enter a transition into a backlog that has room for it."""
    place = backlog.filled[0]
    backlog.rows[place] = row
    backlog.rewards[place] = reward
    backlog.next_states[place] = next_state
    backlog.filled[0] = place + 1


OUTSIDE = Inside(append, None)
"""What stands in the kernel for a belief that brings no compiled functions."""


@cache
def compiled_test(test: Any) -> Any:
    """Return a rule's test as a leaf, or None if Numba can't compile it."""
    try:
        compiled: Any = inlined(getattr(test, "py_func", test), boundscheck=True)
        compiled.compile("(i8, i8, i8, i8, i8, f8[::1])")
    except NumbaError:
        return None
    answer = compiled.nopython_signatures[0].return_type
    return compiled if isinstance(answer, Boolean | Integer) else None  # or it may be None at times


def kernel_of(agent: PSRLAgent, look: Any = None, by_transition: bool = False) -> Any:
    """Return the kernel for an agent's parts, or None if its rule's test can't be compiled."""
    key = (look, by_transition)
    if key not in agent.kernels:
        with _making:  # or threads that begin together would each compile it
            agent.kernels[key] = _kernel_of(agent, look, by_transition)
    return agent.kernels[key]


def _kernel_of(agent: PSRLAgent, look: Any, by_transition: bool) -> Any:
    rule, inside = agent.rule, agent.told.inside
    test = compiled_test(rule.stops) if rule.needs_counts else None
    if rule.needs_counts and test is None:
        return None
    if inside is None:
        return _kernel(OUTSIDE, None, test, None, by_transition, False)
    plan, masked = type(agent.objective).plan, len(agent.stand_in) > 0
    return _kernel(inside, plan, test, look, by_transition, masked)


@cache
def _kernel(
    belief: Inside, plan: Any, test: Any, look: Any, by_transition: bool, masked: bool
) -> Any:
    looks = test is not None
    taken = specialised(
        take_steps,
        LOOKS=looks,
        BY_TRANSITION=by_transition,
        observe=belief.observe,
        stops=test,
    )
    return specialised(
        run_chunk,
        INSIDE=belief is not OUTSIDE,
        LOOKS=looks,
        WATCHED=look is not None,
        MASKED=masked,
        take_steps=taken,
        sample=belief.sample,
        plan=plan,
        stops=test,
        look=look,
    )


def coins_of(agent: PSRLAgent, first: int, n: int) -> tuple[Bools, Floats, float]:
    """Return whether the steps first, ..., first + n - 1 resample, and with what gammas they plan.

    The gammas are empty where there is one for all of them, the last of what is returned. A rule
    that looks at the data has no coins.
    """
    planning_gamma = agent.objective.planning_gamma
    if agent.rule.needs_counts:
        return NO_COINS, NO_GAMMAS, planning_gamma(math.nan)
    resample, gamma = agent.ahead.steps(first, n)
    if isinstance(gamma, float):
        return resample, NO_GAMMAS, planning_gamma(gamma)
    if agent.objective != Discounted():
        gamma = np.array([planning_gamma(own) for own in gamma.tolist()])
    return resample, gamma, math.nan


_making = threading.Lock()
NOBODY = Watcher(None, ())
NO_GAMMAS = np.zeros(0)


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a `PSRLAgent` (see `run.Loop`)."""
    agent: PSRLAgent = run.agent
    watcher = recorder.watch if isinstance(recorder.watch, Watcher) else NOBODY
    by_transition = run.simulator.mdp.transition_rewards is not None
    kernel = kernel_of(agent, watcher.look, by_transition)
    if kernel is None:
        readable.advance(run, recorder, steps, progress, stop)
        return
    simulator = run.simulator
    world, inside = world_of(simulator.mdp), agent.told.inside is not None
    pause = (recorder.watch is not None and watcher is NOBODY) or not inside
    if inside:
        agent.hand_over()
    cells = simulator.mdp.n_states**2 * simulator.mdp.n_actions
    chunk = min(recorder.chunk, max(LEAST_CHUNK, WORK // cells))
    mark = 0
    with agent.streams.words("transition", "reward", "belief") as words:
        while steps > 0 and not stop[0]:
            n, first = min(steps, chunk), agent.step
            resample, gamma, fixed = coins_of(agent, first, n)
            recorder.tape.first[0] = first
            status, reported = PAUSED, 0
            while status in (PAUSED, FULL):
                status, simulator.state, run.reward_sum, mark = kernel(
                    world,
                    agent.told.arrays if inside else agent.backlog,
                    agent.model if inside else (),
                    watcher.arrays,
                    agent.policy,
                    agent.stand_in,
                    agent.clock,
                    agent.visits,
                    agent.visits_before,
                    agent.memory,
                    fixed,
                    resample,
                    gamma,
                    n,
                    simulator.state,
                    run.reward_sum,
                    mark,
                    recorder.tape,
                    pause,
                    stop,
                    *words,
                )
                if agent.backlog.filled[0] == BATCH:
                    agent.hand_over()
                recorder.fill(mark)
                i = agent.step - first
                progress(i - reported)
                reported = i
                if status == FULL:
                    agent.evidence.make_room()
                elif status == PAUSED:
                    agent.resample()
                    recorder.look(simulator.state, agent)
            recorder.collect(first, n)
            run.step += n
            steps -= n


LOOPS[PSRLAgent] = advance
