"""The compiled loop of a fleet: all its agents, and all copies of the environment, in one kernel.

`run_fleet` does what `cpsrl.simulation.readable.advance_fleet` does, step by step and agent by
agent, with the same compiled functions on the same arrays in the same order. As in
`cpsrl.simulation.tabular`, it is a template of the parts that the belief and the objective bring,
and a belief without compiled functions is drawn from in Python, where the kernel pauses.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np

from cpsrl._compile import specialised
from cpsrl.agents.psrl import ASKED, RESAMPLES, ROW, STEP, PSRLAgent, begin_pseudo_episode
from cpsrl.beliefs import BATCH, Inside
from cpsrl.checks import checked_arrays
from cpsrl.mdp import Simulator
from cpsrl.mdp.simulator import NO_NOISE, draw_place, draw_reward
from cpsrl.planning.kernels import repeat_rows
from cpsrl.seeding import Streams
from cpsrl.simulation.recording import Recorder
from cpsrl.simulation.run import LOOPS, Run
from cpsrl.simulation.tabular import (
    DONE,
    FULL,
    LEAST_CHUNK,
    OUTSIDE,
    PAUSED,
    STOPPED,
    WORK,
    World,
    coins_of,
    world_of,
)
from cpsrl.types import Bools, Floats, Ints
from cpsrl.variates import Words, uniform

INSIDE = BY_TRANSITION = MASKED = True
observe: Any = None
sample: Any = None
plan: Any = None
"""Bound by `kernel_of`, as in `tabular`."""
NOTHING = np.zeros(0, np.int64)
NO_GAMMAS = np.zeros((0, 0))


class FleetSimulator:
    """Copies of an environment, one for every agent, on the agents' streams.

    Args:
        first: that of agent 0.
        others: the streams of the other agents.
        gains: `(S,)` the optimal gain from every state.
    """

    def __init__(self, first: Simulator, others: list[Streams], gains: Floats) -> None:
        self.changes, self.streams = first.changes, first.streams
        self.each = [first, *(Simulator(first.mdp, streams) for streams in others)]
        self.states = np.array([one.state for one in self.each])
        self.gains = np.asarray(gains)[self.states]
        self.paid = np.zeros(len(self.each))
        """`(N,)` the rewards of every agent so far"""

    @property
    def mdp(self) -> Any:
        """The model of the moment."""
        return self.each[0].mdp

    @property
    def state(self) -> dict[str, Any]:
        """Where the copies stand, and what their agents have gained."""
        return {name: getattr(self, name).copy() for name in ("states", "gains", "paid")}

    @state.setter
    def state(self, stored: Any) -> None:
        if not isinstance(stored, dict):
            raise ValueError("the state is that of a run of one agent, not of a fleet")
        arrays = checked_arrays("state of the copies", stored, self.state)
        states, n_states = arrays["states"], self.mdp.n_states
        sound = ((states >= 0) & (states < n_states)).all()
        if not sound or not np.isfinite([arrays["gains"], arrays["paid"]]).all():
            raise ValueError("the stored state of the copies is damaged: impossible numbers")
        self.__dict__ |= arrays

    def stored(self) -> dict[str, Any]:
        """Return the state as a tree of arrays."""
        return self.state

    def restored(self, stored: Any) -> Any:
        """Return the state that `stored` gave, which is looked at where it is set."""
        return stored

    def go_to(self, taken: int) -> int | None:
        """Let every copy stand after so many steps (see `Simulator.go_to`)."""
        left = None
        for one in self.each:
            left = one.go_to(taken)
        return left

    def step(self, j: int, action: int) -> tuple[float, int]:
        """Take `action` in copy j and return the realised reward and the next state."""
        copy = self.each[j]
        copy.state = int(self.states[j])
        reward, self.states[j] = copy.step(action)
        self.paid[j] += reward
        return reward, copy.state


def run_fleet(
    world: World,
    belief: Any,
    model: Any,
    policies: Ints,
    stand_in: Ints,
    clocks: Ints,
    nothing: Ints,
    fixed_gamma: float,
    resample: Bools,
    gamma: Floats,
    first: int,
    n: int,
    i: int,
    j: int,
    drawn: bool,
    states: Ints,
    paid: Floats,
    marks: Ints,
    sums: Floats,
    resamples: Ints,
    each: Floats,
    mark: int,
    stop: Ints,
    transition_words: Words,
    reward_words: Words,
    belief_words: Words,
) -> tuple[int, int, int, int]:
    """Take the steps first + i, ..., first + n - 1 of N agents, the first of them from agent j on.

    Arguments of the names that `tabular.run_chunk` has are what they are there, of all agents: M
    is N where each draws its own models, and 1 where one draw is shared.

    Args:
        policies: `(M, S)`.
        clocks: `(M, 7)`.
        nothing: `(0,)`, in place of visits.
        resample: `(M, n)`.
        gamma: `(M, n)`, or empty where there is one for all.
        first: the first step of the chunk.
        i: how many of its steps have been taken.
        j: whose turn it is.
        drawn: whether the one whose turn it is has resampled for this step already.
        states: `(N,)` where the copies are.
        paid: `(N,)` the rewards realised so far.
        sums: `(points,)` the rewards realised up to each mark, on average over the agents.
        each: `(points, N)` the rewards of every agent.
        transition_words, reward_words: `(N, 4)`.
        belief_words: `(M, 4)`.

    Returns:
        DONE, PAUSED where a resampling is due in Python, STOPPED, or FULL where the backlog is; the
        steps taken, whose turn it is, and the mark reached.
    """
    successors, rewards = world.successors, world.rewards
    noise, deviation = world.noise, world.deviation
    n_agents, n_states = len(states), policies.shape[1]
    n_actions, own = len(deviation) // n_states, len(policies) == len(states)
    while i < n:
        if stop[0] != 0:
            return STOPPED, i, j, mark
        while j < n_agents:
            k = j if own else 0
            if not INSIDE and belief.filled[0] == len(belief.rows):
                return FULL, i, j, mark
            if resample[k, i] and k == j and not drawn:
                if not INSIDE:
                    return PAUSED, i, j, mark
                discount = gamma[k, i] if len(gamma) > 0 else fixed_gamma
                sample(belief, belief_words[k], model.P, model.r)
                if MASKED:
                    repeat_rows(model.P, model.r, stand_in)
                plan(
                    model.P.reshape((n_states, n_actions, n_states)),
                    model.r.reshape((n_states, n_actions)),
                    discount,
                    policies[k],
                    model.work,
                )
                begin_pseudo_episode(clocks[k], nothing, nothing, policies[k], stand_in, n_actions)
            drawn = False
            row = states[j] * n_actions + policies[k, states[j]]
            place = draw_place(successors, row, uniform(transition_words[j]))
            reward = rewards[np.uint64(place if BY_TRANSITION else row)]
            if noise != NO_NOISE:
                reward = draw_reward(reward, noise, deviation[row], reward_words[j])
            next_state = successors.states[np.uint64(place)]
            observe(belief, row, reward, next_state)
            paid[j] += reward
            states[j] = next_state
            clocks[k, ROW] = row
            if own or j == n_agents - 1:
                clocks[k, STEP] += 1
                clocks[k, ASKED] = 0
            j += 1
        j = 0
        i += 1
        if mark < len(marks) and marks[mark] == first + i - 1:
            total = 0.0
            for agent in range(n_agents):
                total += paid[agent]
                each[mark, agent] = paid[agent]
            sums[mark] = total / n_agents
            count = 0
            for k in range(len(clocks)):
                count += clocks[k, RESAMPLES]
            resamples[mark] = count
            mark += 1
    return DONE, i, j, mark


@cache
def kernel_of(belief: Inside, plan: Any, by_transition: bool, masked: bool) -> Any:
    """Return the kernel for a fleet's parts."""
    return specialised(
        run_fleet,
        INSIDE=belief is not OUTSIDE,
        BY_TRANSITION=by_transition,
        MASKED=masked,
        observe=belief.observe,
        sample=belief.sample,
        plan=plan,
    )


def agents_of(agent: PSRLAgent) -> list[PSRLAgent]:
    """Return the agents of a fleet that draw models: all of them, or the one for all."""
    return [agent] if agent.spec.draws == "shared" else [agent, *agent.members.values()]


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a fleet (see `run.Loop`)."""
    agent, simulator, tape = run.agent, run.simulator, recorder.tape
    agents, inside = agents_of(agent), agent.told.inside
    world, masked = world_of(simulator.mdp), len(agent.stand_in) > 0
    by_transition = simulator.mdp.transition_rewards is not None
    plan = type(agent.objective).plan if inside else None
    kernel = kernel_of(inside or OUTSIDE, plan, by_transition, masked and inside is not None)
    if inside:
        agent.hand_over()
    policies = np.array([one.policy for one in agents])
    clocks = np.array([one.clock for one in agents])
    for one, policy, clock in zip(agents, policies, clocks, strict=True):
        one.policy, one.clock = policy, clock  # so that the kernel writes into the agents' own
    cells = len(agents) * simulator.mdp.n_states**2 * simulator.mdp.n_actions
    chunk = min(max(LEAST_CHUNK, recorder.chunk // len(agents)), max(LEAST_CHUNK, WORK // cells))
    mark, each = 0, recorder.each
    assert each is not None
    with ExitStack() as stack:
        names = ("transition", "reward", "belief")[: 3 if inside else 2]
        lent = [stack.enter_context(one.streams.words(*names)) for one in simulator.each]
        words = [np.array(some) for some in zip(*lent, strict=True)]
        while steps > 0 and not stop[0]:
            n, first = min(steps, chunk), agent.step
            coins = [coins_of(one, first, n) for one in agents]
            resample = np.array([one for one, _, _ in coins])
            gamma = np.array([one for _, one, _ in coins]) if len(coins[0][1]) else NO_GAMMAS
            status, i, j, reported = DONE, 0, 0, 0
            while i < n and status != STOPPED:
                status, i, j, mark = kernel(
                    world,
                    agent.told.arrays if inside else agent.backlog,
                    agent.model if inside else (),
                    policies,
                    agent.stand_in,
                    clocks,
                    NOTHING,
                    coins[0][2],
                    resample,
                    gamma,
                    first,
                    n,
                    i,
                    j,
                    status == PAUSED,
                    simulator.states,
                    simulator.paid,
                    tape.marks,
                    tape.reward_sums,
                    tape.resamples,
                    each,
                    mark,
                    stop,
                    *words,
                    *([words[0]] if not inside else []),
                )
                if agent.backlog.filled[0] == BATCH:
                    agent.hand_over()
                if status == FULL:
                    agent.evidence.make_room()
                elif status == PAUSED:
                    agents[j].resample()
                progress(i - reported)
                reported = i
            run.step += i
            steps -= n
        for some, mine in zip(words, zip(*lent, strict=True), strict=True):
            for new, old in zip(some, mine, strict=True):
                old[:] = new
    run.reward_sum = float(simulator.paid.sum() / len(simulator.paid))


LOOPS[FleetSimulator] = advance
