"""An environment with episodes as one that goes on for ever."""

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit

from cpsrl.environments.toy_text import RESETS
from cpsrl.support.checks import checked_number, checked_word


class Continuing(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """One episode after the other, as a task that never ends: no step says that it does.

    Time limits are taken away: a `TimeLimit` around or inside `env` is removed from it. What an
    episode is worth depends on what follows it, so the choice is part of the problem:

    - "same-step": the step that ends an episode returns the first observation of the next one;
    - "next-step": it returns the last observation of the episode, and the step after it, whatever
      the action, returns the first observation of the next one, with reward 0.

    The gain of a policy with mean episode length L is R/L under the first and R/(L + 1) under the
    second, R being the mean return of an episode, its terminal reward included.

    Every `info` has "ended", whether this step ended an episode.

    Args:
        env: the environment.
        reset: "same-step" or "next-step".
        terminal_reward: is added to the reward of the step that ends an episode. Where every step
            pays the same, as in CartPole, all policies have the same gain without it.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], reset: str = "same-step", terminal_reward: float = 0.0
    ) -> None:
        checked_word("reset", reset, RESETS)
        self.terminal_reward = checked_number("terminal_reward", terminal_reward)
        RecordConstructorArgs.__init__(self, reset=reset, terminal_reward=terminal_reward)
        super().__init__(_without_time_limits(env))
        self.reset_mode = reset
        self._over = False

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The environment's, without a limit of steps."""
        spec = super().spec
        if spec is not None:
            spec.max_episode_steps = None
        return spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._over = False
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "ended": False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take `action`, or begin the next episode where one is over."""
        if self._over:
            observation, info = self.reset()
            return observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = self.env.step(action)
        ended, reward = bool(terminated or truncated), float(reward)
        if ended:
            reward += self.terminal_reward
            self._over = self.reset_mode == "next-step"
            if not self._over:
                observation, info = self.env.reset()
        return observation, reward, False, False, {**info, "ended": ended}


def _without_time_limits(env: Any) -> Any:
    """Return the environment with every `TimeLimit` among its wrappers left out."""
    while isinstance(env, TimeLimit):
        env = env.env
    outer = env
    while isinstance(outer, gymnasium.Wrapper):
        while isinstance(outer.env, TimeLimit):
            outer.env = outer.env.env
        outer = outer.env
    return env
