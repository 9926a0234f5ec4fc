"""The compiled loop: chunks of a run of the PSRL family in one kernel.

`run_chunk` does in compiled code what `cpsrl.simulation.readable` does step by step with a
`PSRLAgent`, calling the same compiled functions on the same arrays in the same order, so the two
give the same trajectory. A dense model is sampled and planned for inside the kernel. With a sparse
belief, or when every resampling is to be looked at, the kernel pauses where one is due, the agent
resamples in Python, and the kernel goes on.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl._compile import jit
from cpsrl.agents.psrl import (
    DRAWN,
    DUE,
    IN_ADVANCE,
    RESAMPLES,
    ROW,
    START,
    STEP,
    Model,
    PSRLAgent,
    begin_pseudo_episode,
    resample_dense,
    stops_now,
)
from cpsrl.beliefs.belief import Belief, observe_dense, observe_sparse
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.simulator import NO_NOISE, draw_next, draw_reward
from cpsrl.simulation.recording import Recorder, Tape
from cpsrl.simulation.run import Run
from cpsrl.types import Floats, Ints

DONE, PAUSED, STOPPED = 0, 1, 2

WORK, LEAST_CHUNK = 1 << 27, 256
"""A chunk is so many steps that it would take about WORK cells at one resampling a step."""


class World(NamedTuple):
    """The environment: transition rows as in `TabularMDP.cdf`, rewards `(S*A,)` and their noise."""

    indptr: Ints
    indices: Ints
    cumulative: Floats
    rewards: Floats
    noise: int
    deviation: Floats


def world_of(mdp: TabularMDP) -> World:
    """Return the arrays of an MDP that the kernel needs."""
    noise, deviation = mdp.noise_code
    return World(*mdp.cdf, mdp.rewards.ravel().copy(), noise, deviation.ravel().copy())


@jit
def run_chunk(
    world: World,
    belief: Belief,
    model: Model,
    policy: Ints,
    clock: Ints,
    before: Ints,
    code: int,
    average: bool,
    fixed_gamma: float,
    resample: NDArray[np.bool_],
    gamma: Floats,
    first: int,
    n: int,
    state: int,
    reward_sum: float,
    mark: int,
    tape: Tape,
    pause: bool,
    stop: Ints,
    transition_rng: np.random.Generator,
    reward_rng: np.random.Generator,
    belief_rng: np.random.Generator,
) -> tuple[int, int, float, int]:
    """Take the steps first, ..., first + n - 1, beginning with the clock's.

    Args:
        world: the environment.
        belief: the agent's belief, updated in place, as the four that follow.
        model: the agent's scratch.
        policy: `(S,)` the agent's policy.
        clock: the agent's clock.
        before: `(S*A,)` visits before the pseudo-episode, for count rules.
        code: the rule's code.
        average: whether to plan for the average reward.
        fixed_gamma: the discount factor to plan with; NaN takes the step's from `gamma`.
        resample: `(n,)` whether each step resamples, for rules that are known in advance.
        gamma: `(n,)` the rule's discount factor at each step; empty for count rules.
        first: the first step of the chunk.
        n: its length.
        state: where the environment is.
        reward_sum: the rewards realised so far.
        mark: which of the tape's marks is the next.
        tape: what is recorded.
        pause: whether to return where a resampling is due.
        stop: `(1,)` set by another thread to end the run.
        transition_rng: one uniform a step.
        reward_rng: one variate a step where rewards are noisy.
        belief_rng: the variates of the sampled models.

    Returns:
        DONE, PAUSED or STOPPED; the state, reward sum and mark reached.
    """
    # Locals, because compiled code that hands whole tuples on copies them at every step.
    indptr, indices, cumulative = world.indptr, world.indices, world.cumulative
    rewards, noise, deviation = world.rewards, world.noise, world.deviation
    alpha, visits = belief.alpha, belief.visits
    reward_mean, reward_m2, learn = belief.reward_mean, belief.reward_m2, belief.learn_rewards
    marks, resampled, states = tape.marks, tape.resampled, tape.states
    n_actions = len(rewards) // len(policy)
    dense = belief.dense
    drawn = clock[DRAWN] != 0
    due = clock[DUE] != 0
    i = clock[STEP] - first
    while i < n:
        if not drawn:
            if code == IN_ADVANCE:
                due = due or resample[i]
            else:
                due = due or stops_now(code, clock, visits, before)
        if due:
            if pause or stop[0] != 0:
                clock[DRAWN] = 1
                clock[DUE] = 1
                return (STOPPED if stop[0] != 0 else PAUSED), state, reward_sum, mark
            plan_gamma = gamma[i] if math.isnan(fixed_gamma) else fixed_gamma
            resample_dense(belief, model, average, plan_gamma, policy, belief_rng)
            begin_pseudo_episode(code, clock, visits, before)
            due = False
        # The steps up to the next resampling or mark; count rules may end them sooner.
        end = n if mark == len(marks) else min(n, marks[mark] - first + 1)
        if code == IN_ADVANCE:
            k = i + 1
            while k < end and not resample[k]:
                k += 1
            end = k
        if len(resampled) > 0:
            resampled[i:end] = False
            resampled[i] = clock[START] == first + i
        while True:
            action = policy[state]
            row = state * n_actions + action
            reward = rewards[row]
            if noise != NO_NOISE:
                reward = draw_reward(reward, noise, deviation[row], reward_rng)
            next_state = draw_next(indptr, indices, cumulative, row, transition_rng.random())
            if dense:
                observe_dense(row, reward, next_state, alpha, visits, learn, reward_mean, reward_m2)
            else:
                observe_sparse(
                    row,
                    reward,
                    next_state,
                    belief.first,
                    belief.following,
                    belief.successor,
                    belief.counts,
                    belief.n_entries,
                    visits,
                    learn,
                    reward_mean,
                    reward_m2,
                )
            reward_sum += reward
            if len(states) > 0:
                states[i] = state
                tape.actions[i] = action
                tape.rewards[i] = reward
            state = next_state
            i += 1
            clock[ROW] = row
            clock[STEP] = first + i
            if i == end or (code != IN_ADVANCE and stops_now(code, clock, visits, before)):
                break
        drawn = False
        if mark < len(marks) and marks[mark] == first + i - 1:
            tape.reward_sums[mark] = reward_sum
            tape.resamples[mark] = clock[RESAMPLES]
            mark += 1
    clock[DRAWN] = 0
    clock[DUE] = due
    return DONE, state, reward_sum, mark


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a `PSRLAgent` (see `run.Loop`)."""
    agent: PSRLAgent = run.agent
    simulator = run.simulator
    world = world_of(simulator.mdp)
    streams = simulator.streams
    pause = recorder.loss is not None or not agent.posterior.is_dense
    cells = simulator.mdp.n_states**2 * simulator.mdp.n_actions
    chunk = min(recorder.chunk, max(LEAST_CHUNK, WORK // cells))
    state, mark = simulator.state, 0
    while steps > 0 and not stop[0]:
        n = min(steps, chunk)
        first = agent.step
        resample, gamma = agent.in_advance(n)
        agent.posterior.reserve(n)
        status, reported = PAUSED, 0
        while status == PAUSED:
            status, state, run.reward_sum, mark = run_chunk(
                world,
                agent.posterior.arrays,
                agent.model,
                agent.policy,
                agent.clock,
                agent.before,
                agent.code,
                agent.average,
                agent.gamma,
                resample,
                gamma,
                first,
                n,
                state,
                run.reward_sum,
                mark,
                recorder.tape,
                pause,
                stop,
                streams.transition,
                streams.reward,
                streams.belief,
            )
            recorder.fill(mark)
            i = agent.step - first
            progress(i - reported)
            reported = i
            if status == PAUSED:
                used = agent.planning_gamma(gamma[i] if len(gamma) else math.nan)
                agent.resample(used)
                recorder.add_loss(state, agent.policy, used)
        recorder.collect(first, n)
        simulator.state = state
        run.step += n
        steps -= n
