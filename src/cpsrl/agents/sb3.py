"""Policies made elsewhere, by their `predict`.

    predict(observation, state=None, episode_start=None, deterministic=False) -> (action, state)

is what the agents and policies of Stable-Baselines3 have: `state` is a recurrent policy's memory,
and `episode_start` `(1,)` tells it when to forget, which here is at the first step only.
"""

import inspect
from typing import Any

import numpy as np

from cpsrl.environments.pure import Environment, observed
from cpsrl.mdp import TabularMDP


def predicts(agent: Any) -> bool:
    """Return whether `agent` has `predict` and not `act` and `observe`."""
    has = {name: callable(getattr(agent, name, None)) for name in ("predict", "act", "observe")}
    return has["predict"] and not (has["act"] and has["observe"])


def check_predict(agent: Any) -> None:
    """Raise a ValueError if `predict` can't be called as it will be."""
    try:
        inspect.signature(agent.predict).bind(0, state=None, episode_start=None)
    except TypeError as error:
        raise ValueError(
            f"{type(agent).__name__}.predict is called as that of Stable-Baselines3, "
            "predict(observation, state=..., episode_start=...), and gives an action and a state: "
            f"{error}; of one's own, an object with act(state) and observe(...) is simpler"
        ) from None
    except ValueError:  # it does not say what it takes
        return


class Predictor:
    """A policy with `predict` as a live agent, which learns nothing.

    It is shown the observation `(N,)` in a state, the features of a state where the MDP has some,
    and otherwise the state's number.

    Args:
        policy: what predicts; it is not copied.
        problem: the MDP, or the environment.
    """

    def __init__(self, policy: Any, problem: TabularMDP | Environment) -> None:
        self.policy, self.label = policy, str(getattr(policy, "label", type(policy).__name__))
        self.problem = problem
        self._memory: Any = None
        self._next_memory: Any = None
        self._begins, self._action = np.ones(1, np.bool_), -1

    def _seen(self, state: Any) -> Any:
        """Return what is shown in `state`."""
        if isinstance(self.problem, Environment):
            return observed(self.problem, state)
        features = self.problem.features
        return np.asarray(state) if features is None else features[state].astype(np.float32)

    def act(self, state: Any) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        if self._action < 0:
            action, self._next_memory = self.policy.predict(
                self._seen(state), state=self._memory, episode_start=self._begins.copy()
            )
            self._action = int(np.asarray(action).item())
        return self._action

    def observe(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Move time on."""
        self._memory, self._begins[0], self._action = self._next_memory, False, -1
