"""Agents that learn nothing: one that knows the MDP, and one that acts at random."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, leaf
from cpsrl._private.variates import Words, uniform
from cpsrl.agents.agent import AGENTS, Agent, LiveAgent, sizes_of
from cpsrl.environments.pure import Environment
from cpsrl.mdp import Problem, TabularMDP
from cpsrl.mdp.problem import FeatureSizes, checked_transition
from cpsrl.planning import solve_average
from cpsrl.seeding import Streams
from cpsrl.support.checks import WrongTypeError
from cpsrl.support.types import Bools, Ints


class FixedArrays(NamedTuple):
    """What compiled code reads of an agent that learns nothing."""

    policy: Ints
    """`(S,)`; empty: every available action is as likely"""
    available: Bools
    """`(S, A)`, or empty where all actions are"""
    n_actions: int


@inlined
def choose(agent: FixedArrays, state: int, words: Words) -> int:
    """Return the policy's action; without a policy, a uniformly random one that is available."""
    if len(agent.policy) > 0:
        return int(agent.policy[state])
    u, available = uniform(words), agent.available
    return pick(available[state], u) if len(available) > 0 else int(u * agent.n_actions)


@inlined
def ignore(agent: FixedArrays, row: int, reward: float, next_state: int) -> None:
    """Learn nothing from a transition."""


@leaf
def pick(available: Bools, u: float) -> int:
    """Return one of the actions that are `available` `(A,)`, each as likely, for a uniform u."""
    left = 0
    for a in range(len(available)):
        left += available[a]
    left = int(u * left)
    action = 0
    while not available[action] or left > 0:
        left -= available[action]
        action += 1
    return action


class FixedAgent(LiveAgent):
    """A live agent that follows `policy` `(S,)`, or, where it is empty, acts at random."""

    kept: ClassVar = ("step", "action")
    compiled: ClassVar = choose, ignore

    def __init__(
        self,
        spec: "RandomAgent | OptimalAgent",
        problem: Problem | FeatureSizes | Environment,
        policy: Ints,
        streams: Streams,
    ) -> None:
        self.spec, self.problem = spec, problem
        self.sizes: Any
        if isinstance(problem, FeatureSizes | Environment) and not len(policy):
            self.sizes = problem
        else:
            self.sizes = sizes_of(problem, spec.label)
        mask = None if isinstance(self.sizes, Environment) else self.sizes.available
        available = np.zeros((0, 0), np.bool_) if mask is None else mask
        self.arrays = FixedArrays(policy, available, self.sizes.n_actions)
        self.policy = policy
        self.streams = streams
        self.step = 1
        self.action: int | None = None

    def act(self, state: Any) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state, available = self.sizes.checked("state", state), self.arrays.available
        if self.action is None or len(self.policy):
            place = state if len(self.policy) or len(available) else 0
            with self.streams.words("action") as (words,):
                self.action = int(choose(self.arrays, place, words))
        if len(available) and not available[state, self.action]:
            return int(np.argmax(available[state]))  # asked about another state in this step
        return self.action

    def learn(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Raise if there is no such transition; there is nothing to learn."""
        checked_transition(self.sizes, state, action, reward, next_state)

    def move_on(self) -> None:
        """Move time on."""
        self.action = None
        self.step += 1

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if there is no such step or action."""
        action = values["action"]
        if values["step"] < 1 or not (action is None or action in range(self.sizes.n_actions)):
            raise ValueError(f"the stored step or action is impossible: {values}")
        values["action"] = action if action is None else int(action)


@AGENTS.add("random")
@dataclass(frozen=True)
class RandomAgent(Agent):
    """Every available action with the same probability, at every step.

    Args:
        label: what to call the agent in tables and figures.
    """

    label: str = "Random"

    def start(self, problem: Problem | FeatureSizes | Environment, streams: Streams) -> FixedAgent:
        """Return a live agent."""
        return FixedAgent(self, problem, np.zeros(0, np.int64), streams)


@AGENTS.add("optimal")
@dataclass(frozen=True)
class OptimalAgent(Agent):
    """A bias-optimal policy of the MDP, which it knows.

    Its expected regret tends to -h(s), minus the optimal bias of the first state.

    Args:
        label: what to call the agent in tables and figures.
    """

    label: str = "Optimal"

    def check(self, problem: Any) -> None:
        """Raise a ValueError if the problem is no MDP."""
        if not isinstance(problem, TabularMDP):
            raise WrongTypeError(
                f"the optimal agent needs to know the MDP; {problem!r} is not enough"
            )

    def start(self, problem: TabularMDP, streams: Streams) -> FixedAgent:
        """Return a live agent."""
        self.check(problem)
        return FixedAgent(self, problem, _optimal_policy(problem), streams)


@lru_cache(maxsize=8)
def _optimal_policy(mdp: TabularMDP) -> Ints:
    return solve_average(mdp, bias_optimal=True).policy
