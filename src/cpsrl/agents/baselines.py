"""Agents that learn nothing: the one that knows the MDP, and the one that tosses a die."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from cpsrl._compile import leaf
from cpsrl.agents.agent import AGENTS, Agent, LiveAgent, sizes_of
from cpsrl.mdp import TabularMDP
from cpsrl.planning import solve_average
from cpsrl.seeding import Streams
from cpsrl.sizes import FeatureSizes, Sizes, checked_transition
from cpsrl.types import Ints
from cpsrl.variates import Words, uniform


@leaf
def choose(policy: Ints, n_actions: int, state: int, words: Words) -> int:
    """Return the policy's action; with an empty policy, a uniformly random one."""
    if len(policy) > 0:
        return int(policy[state])
    return int(uniform(words) * n_actions)


class FixedAgent(LiveAgent):
    """A live agent that follows `policy` `(S,)`, or, where it is empty, acts at random."""

    kept: ClassVar = ("step", "action")

    def __init__(
        self,
        spec: "RandomAgent | OptimalAgent",
        problem: TabularMDP | Sizes | FeatureSizes,
        policy: Ints,
        streams: Streams,
    ) -> None:
        self.spec, self.problem = spec, problem
        self.sizes: Sizes | FeatureSizes
        if isinstance(problem, FeatureSizes) and not len(policy):
            self.sizes = problem
        else:
            self.sizes = sizes_of(problem, spec.label)
        self.policy = policy
        self.streams = streams
        self.step = 1
        self.action: int | None = None

    def act(self, state: Any) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state = self.sizes.checked("state", state)
        if self.action is None or len(self.policy):
            place = state if len(self.policy) else 0
            with self.streams.words("action") as (words,):
                self.action = int(choose(self.policy, self.sizes.n_actions, place, words))
        return self.action

    def observe(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Move time on."""
        checked_transition(self.sizes, state, action, reward, next_state)
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
    """Every action with the same probability, at every step."""

    label: str = "Random"

    def start(self, problem: TabularMDP | Sizes | FeatureSizes, streams: Streams) -> FixedAgent:
        """Return a live agent."""
        return FixedAgent(self, problem, np.zeros(0, np.int64), streams)


@AGENTS.add("optimal")
@dataclass(frozen=True)
class OptimalAgent(Agent):
    """A bias-optimal policy of the MDP, which it knows.

    Its expected regret tends to -h(s), minus the optimal bias of the first state.
    """

    label: str = "Optimal"

    def start(self, problem: TabularMDP | Sizes, streams: Streams) -> FixedAgent:
        """Return a live agent."""
        if not isinstance(problem, TabularMDP):
            raise ValueError("the optimal agent needs to know the MDP; Sizes are not enough")
        return FixedAgent(self, problem, _optimal_policy(problem), streams)


@lru_cache(maxsize=8)
def _optimal_policy(mdp: TabularMDP) -> Ints:
    return solve_average(mdp, bias_optimal=True).policy
