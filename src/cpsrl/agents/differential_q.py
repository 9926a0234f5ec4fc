"""Differential Q-learning: average-reward control without a model (Wan, Naik and Sutton 2021).

    delta = r - rbar + max over a' of Q(s', a') - Q(s, a)
    Q(s, a) += alpha delta,    rbar += eta alpha delta

with a random action with probability epsilon and the greedy one otherwise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl.agents.registry import AGENTS, fitting
from cpsrl.mdp import Sizes, TabularMDP
from cpsrl.posterior.belief import check_index, check_transition
from cpsrl.seeding import Streams


class DifferentialQAgent:
    """A live agent; `values` `(S, A)` is Q, `reward_rate` is rbar."""

    def __init__(
        self, spec: "DifferentialQLearning", problem: TabularMDP | Sizes, streams: Streams
    ) -> None:
        self.spec = spec
        self.sizes = Sizes(problem.n_states, problem.n_actions)
        self.streams = streams
        self.values = np.zeros((problem.n_states, problem.n_actions))
        self.reward_rate = 0.0
        self._uniform: float | None = None

    @property
    def policy(self) -> Any:
        """The greedy policy `(S,)`."""
        return np.argmax(self.values, axis=1)

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        check_index("state", state, self.sizes.n_states)
        if self._uniform is None:
            self._uniform = self.streams.action.random()
        if self._uniform < self.spec.epsilon:
            return int(self._uniform / self.spec.epsilon * self.sizes.n_actions)
        return int(np.argmax(self.values[state]))

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        check_transition(self.sizes, state, action, reward, next_state)
        delta = float(
            reward - self.reward_rate + self.values[next_state].max() - self.values[state, action]
        )
        self.values[state, action] += self.spec.alpha * delta
        self.reward_rate += self.spec.eta * self.spec.alpha * delta
        self._uniform = None

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here."""
        return {
            "values": self.values.copy(),
            "reward_rate": self.reward_rate,
            "uniform": self._uniform,
            "streams": self.streams.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        arrays = fitting(state, {"values": self.values})
        self.streams.restore(state["streams"])
        self.values = arrays["values"]
        self.reward_rate, self._uniform = state["reward_rate"], state["uniform"]


@AGENTS.add("differential-q")
@dataclass(frozen=True)
class DifferentialQLearning:
    """Differential Q-learning (Wan, Naik and Sutton 2021), epsilon-greedy.

    Args:
        alpha: the step size of the values.
        eta: the step size of the reward rate, as a multiple of alpha.
        epsilon: the probability of a random action.
        label: what to call the agent.
    """

    alpha: float = 0.1
    eta: float = 0.1
    epsilon: float = 0.1
    label: str = "Differential Q-learning"

    def __post_init__(self) -> None:
        for name in ("alpha", "eta"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)!r}")
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must be in [0, 1], not {self.epsilon!r}")

    def start(self, problem: TabularMDP | Sizes, streams: Streams) -> DifferentialQAgent:
        """Return a live agent."""
        return DifferentialQAgent(self, problem, streams)
