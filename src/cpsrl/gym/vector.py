"""Many copies of a tabular MDP as one vector environment of Gymnasium."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from cpsrl.gym.env import METADATA, TabularEnv
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.vector import Copies
from cpsrl.support.checks import checked_whole


class TabularVectorEnv(VectorEnv[Any, Any, Any]):
    """Copies of a tabular MDP that never end, stepped in one call of compiled code.

    Copy i of `reset(seed=k)` takes the path of a `TabularEnv` after `reset(seed=k + i)`; a list
    gives every copy a seed of its own. No copy ever ends, so none is reset by itself.

    Args:
        num_envs: how many copies.
        mdp: as in `TabularEnv`.
        options: the other arguments of `TabularEnv`.
    """

    metadata = METADATA | {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, mdp: TabularMDP | str, **options: Any) -> None:
        self._one = TabularEnv(mdp, **options)
        self.mdp, self.render_mode = self._one.mdp, self._one.render_mode
        if self.mdp.models != (self.mdp,):
            raise ValueError(
                f"copies are of one model; {self.mdp!r} changes: take one of its models"
            )
        self.num_envs = checked_whole("num_envs", num_envs, 1)
        self.single_observation_space = self._one.observation_space
        self.single_action_space = self._one.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._copies: Copies | None = None
        self._last: tuple[Any, Any] | None = None

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Put every copy in a first state; with a seed also at the beginning of its streams."""
        if seed is None and self._copies is not None:
            self._copies.restart()
        else:
            if seed is None:
                seed = int(self.np_random.integers(2**62))
            if isinstance(seed, int | np.integer):
                super().reset(seed=int(seed))
                seed = range(seed, seed + self.num_envs)
            if len(seed) != self.num_envs:
                raise ValueError(f"{len(seed)} seeds were given for {self.num_envs} copies")
            self._copies = Copies(self.mdp, list(seed))
        self._last = None
        return self._one.observed(self._copies.states), self._infos()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action `(copies,)` in every copy."""
        if self._copies is None:
            raise gymnasium.error.ResetNeeded("call reset() before the first step()")
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise ValueError(
                f"actions must be {self.num_envs} whole numbers, one a copy, not {actions!r}"
            )
        chosen = chosen.astype(np.int64)
        rewards = self._copies.step(chosen)
        self._last = chosen, rewards
        ended = np.zeros(self.num_envs, np.bool_)
        observed = self._one.observed(self._copies.states)
        return observed, rewards, ended, ended.copy(), self._infos()

    def render(self) -> Any:
        """Return a picture, or a text, of every copy."""
        if self._copies is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        states = self._copies.states.tolist()
        if self._last is None:
            return tuple(self._one.drawn(state, None) for state in states)
        each = zip(states, *(values.tolist() for values in self._last), strict=True)
        return tuple(self._one.drawn(state, (a, reward)) for state, a, reward in each)

    def _infos(self) -> dict[str, Any]:
        if self.mdp.available is None:
            return {}
        assert self._copies is not None
        mask = self.mdp.available[self._copies.states].astype(np.int8)
        return {"action_mask": mask, "_action_mask": np.ones(self.num_envs, np.bool_)}
