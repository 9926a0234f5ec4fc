"""The compiled loop of a fleet: all its agents, and all copies of the environment, in one kernel.

At every step each agent in turn acts in its copy and learns, by the functions that a `PSRLAgent`
alone is made of (`tests/simulation/test_fleet.py` has the same loop in plain Python). As in
`cpsrl.simulation.compiled`, it is a template of the parts that the belief and the objective bring,
and a belief without compiled functions is drawn from in Python, where the kernel pauses.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from cpsrl._private.compile import specialised
from cpsrl._private.variates import Words
from cpsrl.agents.psrl import ASKED, RESAMPLES, ROW, STEP, AgentArrays, PSRLAgent
from cpsrl.beliefs import BATCH, Inside
from cpsrl.mdp import Simulator
from cpsrl.mdp.simulator import Dynamics, take_step
from cpsrl.seeding import Streams
from cpsrl.simulation.compiled import (
    DONE,
    FULL,
    LEAST_CHUNK,
    OUTSIDE,
    PAUSED,
    STOPPED,
    WORK,
    Chunk,
    coins_of,
)
from cpsrl.simulation.loops import LOOPS, Run, Tape
from cpsrl.support.checks import checked_arrays
from cpsrl.support.types import Floats, Ints

INSIDE = BY_TRANSITION = True
observe: Any = None
resample: Any = None
"""Bound by `kernel_of`, as in `compiled`."""
NO_GAMMAS = np.zeros((0, 0))


class FleetSimulator:
    """Copies of an environment, one for every agent, on the agents' streams.

    Args:
        first: that of agent 0.
        others: the streams of the other agents.
        gains: `(S,)` the optimal gain from every state.
    """

    def __init__(self, first: Simulator, others: list[Streams], gains: Floats) -> None:
        self.world, self.streams = first.world, first.streams
        self.each = [first, *(Simulator(first.world, streams) for streams in others)]
        self.states = np.array([one.state for one in self.each])
        self.gains = np.asarray(gains)[self.states]
        self.paid = np.zeros(len(self.each))
        """`(N,)` the rewards of every agent so far"""

    @property
    def mdp(self) -> Any:
        """The model of the moment."""
        return self.each[0].mdp

    def stored(self) -> dict[str, Any]:
        """Return where the copies stand, and what their agents have gained."""
        return {name: getattr(self, name).copy() for name in ("states", "gains", "paid")}

    def restore(self, stored: Any) -> None:
        """Stand where `stored` was called; raise a ValueError if it cannot be."""
        if not isinstance(stored, dict):
            raise ValueError("the state is that of a run of one agent, not of a fleet")
        arrays = checked_arrays("state of the copies", stored, self.stored())
        states, n_states = arrays["states"], self.mdp.n_states
        sound = ((states >= 0) & (states < n_states)).all()
        if not sound or not np.isfinite([arrays["gains"], arrays["paid"]]).all():
            raise ValueError("the stored state of the copies is damaged: impossible numbers")
        self.__dict__ |= arrays

    def go_to(self, taken: int) -> int | None:
        """Let every copy stand after so many steps (see `Simulator.go_to`)."""
        left = None
        for one in self.each:
            left = one.go_to(taken)
        return left


class FleetArrays(NamedTuple):
    """What compiled code reads and writes of N agents, M of which draw models of their own.

    M is N where each does, and 1 where one draw is shared.
    """

    policies: Ints
    """`(M, S)`"""
    clocks: Ints
    """`(M, 7)`"""
    shared: AgentArrays
    """what all have in common: all but policy and clock"""
    states: Ints
    """`(N,)` where the copies are"""
    paid: Floats
    """`(N,)` the rewards realised so far"""


class Turn(NamedTuple):
    """How far the kernel is."""

    i: int
    """how many of the chunk's steps have been taken"""
    j: int
    """whose turn it is"""
    drawn: bool
    """whether that agent has resampled for this step already"""
    mark: int
    """which of the tape's marks is the next"""


def run_fleet(
    dynamics: Dynamics,
    belief: Any,
    model: Any,
    fleet: FleetArrays,
    chunk: Chunk,
    turn: Turn,
    tape: Tape,
    words: tuple[Words, Words, Words],
) -> tuple[int, int, int, int]:
    """Take the steps of a chunk, beginning with the turn's.

    The arguments are those of `compiled.run_chunk`, of all agents; coins are `(M, n)`, gammas too
    where they are not fixed, and the words `(N, 4)`, `(N, 4)` and `(M, 4)`.

    Returns:
        DONE, PAUSED where a resampling is due in Python, STOPPED, or FULL where the backlog is; the
        steps taken, whose turn it is, and the mark reached.
    """
    i, j, drawn, mark = turn
    policies, clocks, states, paid = fleet.policies, fleet.clocks, fleet.states, fleet.paid
    coins, marks, shared = chunk.resample, tape.marks, fleet.shared
    transition_words, reward_words, belief_words = words
    n_agents, n_actions = len(states), len(dynamics.deviation) // policies.shape[1]
    own = len(policies) == n_agents
    while i < chunk.n:
        if chunk.stop[0] != 0:
            return STOPPED, i, j, mark
        while j < n_agents:
            k = j if own else 0
            if not INSIDE and belief.filled[0] == len(belief.rows):
                return FULL, i, j, mark
            if coins[k, i] and k == j and not drawn:
                if not INSIDE:
                    return PAUSED, i, j, mark
                gamma = chunk.gamma[k, i] if len(chunk.gamma) > 0 else chunk.fixed_gamma
                visits, before = shared.visits, shared.before
                agent = AgentArrays(
                    policies[k], shared.stand_in, clocks[k], visits, before, shared.memory
                )
                resample(belief, model, agent, gamma, belief_words[k])
            drawn = False
            row = states[j] * n_actions + policies[k, states[j]]
            reward, next_state = take_step(
                dynamics, BY_TRANSITION, row, transition_words[j], reward_words[j]
            )
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
        if mark < len(marks) and marks[mark] == tape.first[0] + i - 1:
            total = 0.0
            for agent_of in range(n_agents):
                total += paid[agent_of]
                tape.each[mark, agent_of] = paid[agent_of]
            tape.reward_sums[mark] = total / n_agents
            count = 0
            for k in range(len(clocks)):
                count += clocks[k, RESAMPLES]
            tape.resamples[mark] = count
            mark += 1
    return DONE, i, j, mark


@cache
def kernel_of(belief: Inside, resample: Any, by_transition: bool) -> Any:
    """Return the kernel for a fleet's parts."""
    return specialised(
        run_fleet,
        INSIDE=belief is not OUTSIDE,
        BY_TRANSITION=by_transition,
        observe=belief.observe,
        resample=resample,
    )


def agents_of(agent: PSRLAgent) -> list[PSRLAgent]:
    """Return the agents of a fleet that draw models: all of them, or the one for all."""
    return [agent] if agent.spec.draws == "shared" else [agent, *agent.members.values()]


def advance(run: Run, steps: int, progress: Callable[[int], None], stop: Ints) -> None:
    """Take steps with a fleet (see `loops.Loop`)."""
    agent, simulator, mdp, recorder = run.agent, run.simulator, run.simulator.mdp, run.recorder
    agents, inside = agents_of(agent), agent.live_belief.inside
    by_transition = mdp.transition_rewards is not None
    kernel = kernel_of(inside or OUTSIDE, agent.compiled_resample, by_transition)
    if inside:
        agent.hand_over()
    policies = np.array([one.policy for one in agents])
    clocks = np.array([one.clock for one in agents])
    for one, policy, clock in zip(agents, policies, clocks, strict=True):
        one.policy, one.clock = policy, clock  # so that the kernel writes into the agents' own
    fleet = FleetArrays(policies, clocks, agent.arrays, simulator.states, simulator.paid)
    cells = len(agents) * mdp.n_states**2 * mdp.n_actions
    most = min(max(LEAST_CHUNK, recorder.chunk // len(agents)), max(LEAST_CHUNK, WORK // cells))
    mark = 0
    with ExitStack() as stack:
        names = ("transition", "reward", "belief")[: 3 if inside else 2]
        shared = [stack.enter_context(one.streams.words(*names)) for one in simulator.each]
        words = [np.array(some) for some in zip(*shared, strict=True)]
        while steps > 0 and not stop[0]:
            n, first = min(steps, most), agent.step
            coins = [coins_of(one, first, n) for one in agents]
            resample = np.array([one for one, _, _ in coins])
            gamma = np.array([one for _, one, _ in coins]) if len(coins[0][1]) else NO_GAMMAS
            chunk = Chunk(n, resample, gamma, coins[0][2], not inside, stop)
            recorder.tape.first[0] = first
            status, i, j, reported = DONE, 0, 0, 0
            while i < n and status != STOPPED:
                status, i, j, mark = kernel(
                    mdp.dynamics,
                    agent.live_belief.arrays if inside else agent.backlog,
                    agent.model if inside else (),
                    fleet,
                    chunk,
                    Turn(i, j, status == PAUSED, mark),
                    recorder.tape,
                    (words[0], words[1], words[-1]),
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
        for some, mine in zip(words, zip(*shared, strict=True), strict=True):
            for new, old in zip(some, mine, strict=True):
                old[:] = new
    run.reward_sum = float(simulator.paid.sum() / len(simulator.paid))


LOOPS[FleetSimulator] = advance
