"""Differential Q-learning: average-reward control without a model (Wan, Naik and Sutton 2021).

    delta = r - rbar + gamma max over a' of Q(s', a') - Q(s, a),    gamma = 1
    Q(s, a) += alpha delta,    rbar += eta alpha delta

with a random action with probability epsilon and the greedy one otherwise. Q begins at 0 and rbar
at the low end of the problem's range of rewards, or at the first reward: then adding a constant to
all rewards changes no action. With gamma below 1 it is discounted Q-learning
with reward centring (Naik, Wan, Tomar and Sutton 2024), and with eta = 0 and rbar = 0 besides,
Q-learning without.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cpsrl.agents.agent import AGENTS, Agent, Expected, LiveAgent, sizes_of
from cpsrl.agents.baselines import pick
from cpsrl.mdp import Problem
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_number, checked_positive


class DifferentialQAgent(LiveAgent):
    """A live agent; `values` `(S, A)` is Q, -inf for what is not available, `reward_rate` rbar."""

    kept: ClassVar = ("values", "reward_rate", "uniform")

    def __init__(self, spec: "DifferentialQLearning", problem: Problem, streams: Streams) -> None:
        self.spec, self.problem = spec, problem
        self.sizes = sizes_of(problem, spec.label)
        self.streams = streams
        self.values = np.zeros((self.sizes.n_states, self.sizes.n_actions))
        if self.sizes.available is not None:
            self.values[~self.sizes.available] = -np.inf
        self.reward_rate = self.sizes.reward_range[0]
        if spec.rate is not None:
            self.reward_rate = np.nan if spec.rate == "first" else float(spec.rate)
        self.expected = Expected(problem)
        self.uniform: float | None = None

    @property
    def policy(self) -> Any:
        """The greedy policy `(S,)`."""
        return np.argmax(self.values, axis=1)

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state = self.sizes.checked("state", state)
        if self.uniform is None:
            self.uniform = self.streams.action.random()
        if self.uniform < self.spec.epsilon:
            available = self.values[state] > -np.inf
            return pick(available, self.uniform / self.spec.epsilon)
        return int(np.argmax(self.values[state]))

    def move_on(self) -> None:
        """Move time on."""
        self.uniform = None

    def learn(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition, however late; raise, and change nothing, if it cannot be."""
        state, action, reward, next_state = self.checked(state, action, reward, next_state)
        if np.isnan(self.reward_rate):
            self.reward_rate = reward
        ahead = self.spec.gamma * self.values[next_state].max()
        delta = float(reward - self.reward_rate + ahead - self.values[state, action])
        self.values[state, action] += self.spec.alpha * delta
        self.reward_rate += self.spec.eta * self.spec.alpha * delta

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if a stored value is not finite, or a variate is outside [0, 1)."""
        available = self.sizes.available
        if np.isnan(values["values"]).any():
            raise ValueError("the stored values are damaged: they have impossible numbers")
        if available is not None and (values["values"][~available] != -np.inf).any():
            raise ValueError("the stored values are damaged: they have unavailable actions")
        if values["uniform"] is not None:
            checked_number("the stored uniform variate", values["uniform"], 0, 1)


@AGENTS.add("differential-q")
@dataclass(frozen=True)
class DifferentialQLearning(Agent):
    """Differential Q-learning (Wan, Naik and Sutton 2021), epsilon-greedy.

    Args:
        alpha: the step size of the values.
        eta: the step size of the reward rate, as a multiple of alpha; 0 leaves it where it is.
        epsilon: the probability of a random action.
        gamma: the discount factor; 1 for none.
        rate: where the reward rate begins: a number, "first" for the first reward, None for the low
            end of the range of rewards.
        label: what to call the agent.
    """

    alpha: float = 0.1
    eta: float = 0.1
    epsilon: float = 0.1
    gamma: float = 1.0
    rate: float | str | None = None
    label: str = "Differential Q-learning"

    def __post_init__(self) -> None:
        checked_positive("alpha", self.alpha)
        checked_number("eta", self.eta, 0)
        for name in ("epsilon", "gamma"):
            checked_number(name, getattr(self, name), 0, 1)
        if self.rate not in (None, "first"):
            checked_number("rate", self.rate)

    def start(self, problem: Problem, streams: Streams) -> DifferentialQAgent:
        """Return a live agent."""
        return DifferentialQAgent(self, problem, streams)
