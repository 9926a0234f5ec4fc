"""Agents that learn nothing: the one that knows the MDP, and the one that tosses a die."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cpsrl._compile import jit
from cpsrl.agents.registry import AGENTS, check_state, described, sizes_of
from cpsrl.checks import checked_index, checked_whole
from cpsrl.mdp import Ints, TabularMDP
from cpsrl.planning import solve_average
from cpsrl.seeding import Streams
from cpsrl.sizes import FeatureSizes, Sizes, checked_transition


@jit
def choose(policy: Ints, n_actions: int, state: int, rng: np.random.Generator) -> int:
    """Return the policy's action; with an empty policy, a uniformly random one."""
    if len(policy) > 0:
        return int(policy[state])
    return int(rng.random() * n_actions)


class FixedAgent:
    """A live agent that follows `policy` `(S,)`, or, where it is empty, acts at random."""

    def __init__(
        self,
        spec: "RandomAgent | OptimalAgent",
        problem: TabularMDP | Sizes | FeatureSizes,
        policy: Ints,
        streams: Streams,
    ) -> None:
        self.spec = spec
        self.sizes: Sizes | FeatureSizes
        if isinstance(problem, FeatureSizes) and not len(policy):
            self.sizes = problem
        else:
            self.sizes = sizes_of(problem, spec.label)
        self.policy = policy
        self.streams = streams
        self.step = 1
        self._action: int | None = None

    def act(self, state: Any) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state = self.sizes.checked("state", state)
        if self._action is None or len(self.policy):
            place = state if len(self.policy) else 0
            rng = self.streams.action
            self._action = int(choose(self.policy, self.sizes.n_actions, place, rng))
        return self._action

    def observe(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Move time on."""
        checked_transition(self.sizes, state, action, reward, next_state)
        self._action = None
        self.step += 1

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here."""
        return {
            "step": self.step,
            "action": self._action,
            "spec": described(self.spec),
            "streams": self.streams.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        check_state(state, self.spec, "step", "action")
        step, action = checked_whole("the stored step", state["step"], 1), state["action"]
        if action is not None:
            action = checked_index("the stored action", action, self.sizes.n_actions)
        self.streams.restore(state["streams"])
        self.step, self._action = step, action


@AGENTS.add("random")
@dataclass(frozen=True)
class RandomAgent:
    """Every action with the same probability, at every step."""

    label: str = "Random"

    def start(self, problem: TabularMDP | Sizes | FeatureSizes, streams: Streams) -> FixedAgent:
        """Return a live agent."""
        return FixedAgent(self, problem, np.zeros(0, np.int64), streams)


@AGENTS.add("optimal")
@dataclass(frozen=True)
class OptimalAgent:
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
