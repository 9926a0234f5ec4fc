"""A tabular MDP as a Gymnasium environment that never ends."""

from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cpsrl.environments import environment
from cpsrl.environments.pictures import Picture, picture_of
from cpsrl.mdp import Simulator, Tabular, TabularMDP
from cpsrl.mdp.simulator import draw_initial
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_index, checked_kind, checked_word
from cpsrl.support.types import Floats

METADATA = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}
OBSERVATIONS = ("state", "features")


class TabularEnv(gymnasium.Env[Any, Any]):
    """A tabular MDP as a Gymnasium environment: never terminated, never truncated.

    `reset(seed=k)` puts it on the streams of root k: the environment noise of run 0 of `simulate`
    with that seed. `P[s][a]` lists (probability, next state, reward, False) as toy-text
    environments do, and `initial_state_distrib` `(S,)` is the distribution of the first state.

    Where actions are unavailable, `info["action_mask"]` `(A,)` is 1 for those that may be taken;
    any other does what the first of these does, as in the model.

    Args:
        mdp: the MDP, or the name of an environment.
        observation: "state", the state's number, or "features", its row of the features; None takes
            the features where there are some.
        render_mode: "rgb_array", "ansi" or None.
        options: what an environment given by its name is made with.
    """

    metadata = METADATA

    def __init__(
        self,
        mdp: TabularMDP | str,
        observation: str | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if isinstance(mdp, str):
            mdp = environment(mdp, **options)
        elif options:
            raise ValueError(f"a TabularMDP takes no options, and {', '.join(options)} were given")
        checked_kind("mdp", mdp, Tabular, "a TabularMDP or the name of one")
        if observation is None:
            observation = "state" if mdp.features is None else "features"
        self.observation_space: spaces.Space[Any] = spaces.Discrete(mdp.n_states)
        self.features: NDArray[np.float32] | None = None
        if checked_word("observation", observation, OBSERVATIONS) == "features":
            if mdp.features is None:
                raise ValueError(
                    f"{mdp!r} has no features to observe: give some, as in features='one-hot'"
                )
            self.features = mdp.features.astype(np.float32)
            bounds = self.features.min(axis=0), self.features.max(axis=0)
            self.observation_space = spaces.Box(*bounds, dtype=np.float32)
        if render_mode is not None:
            checked_word("render_mode", render_mode, METADATA["render_modes"])  # type: ignore[arg-type]
        self.mdp, self.render_mode = mdp, render_mode
        self.action_space = spaces.Discrete(mdp.n_actions)
        self._simulator: Simulator | None = None
        self._last: tuple[int, float] | None = None

    def observed(self, states: Any) -> Any:
        """Return a fresh observation of a state, or of states `(n,)`."""
        return np.array(states) if self.features is None else self.features[states].copy()

    def drawn(self, state: int, last: tuple[int, float] | None) -> Any:
        """Return a picture or a text of a state, after the last action and its reward."""
        if self.render_mode is None:
            raise ValueError(
                "no render_mode was chosen: make the environment with render_mode='ansi' or "
                "'rgb_array'"
            )
        picture = self._picture
        return (picture.text if self.render_mode == "ansi" else picture.pixels)(state, last)

    @cached_property
    def _picture(self) -> Picture:
        return picture_of(self.mdp.models[0])

    @cached_property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
        """The table of toy-text environments; noisy rewards stand in it with their means.

        Actions that are not available are not in it.
        """
        mdp, matrix = self.mdp, self.mdp.csr
        each = mdp.transition_rewards
        if each is None:
            each = np.repeat(mdp.rewards.ravel(), np.diff(matrix.indptr))
        columns = (matrix.data.tolist(), matrix.indices.tolist(), each.tolist())
        entries = [(p, successor, r, False) for p, successor, r in zip(*columns, strict=True)]
        table: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {}
        for row in range(matrix.shape[0]):
            s, a = divmod(row, mdp.n_actions)
            if mdp.available is None or mdp.available[s, a]:
                part = slice(matrix.indptr[row], matrix.indptr[row + 1])
                table.setdefault(s, {})[a] = entries[part]
        return table

    @property
    def initial_state_distrib(self) -> Floats:
        """`(S,)` the distribution of the first state."""
        if not isinstance(self.mdp.initial, int):
            return np.array(self.mdp.initial)
        return np.eye(1, self.mdp.n_states, self.mdp.initial)[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Go to a first state; with a seed also to the beginning of its streams."""
        super().reset(seed=seed)
        if seed is None and self._simulator is None:
            seed = int(self.np_random.integers(2**63))
        if seed is not None:
            self._simulator = Simulator(self.mdp, Streams(seed))
        elif self._simulator is not None:
            self._simulator.state = draw_initial(self.mdp, self._simulator.streams)
        self._last = None
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take `action`, or its stand-in where it is not available; the episode never ends."""
        if self._simulator is None:
            raise gymnasium.error.ResetNeeded("call reset() before the first step()")
        if self.mdp.available is not None:
            action = checked_index("action", action, self.mdp.n_actions)
            action = int(self.mdp.stand_in[self._simulator.state, action])
        reward, _ = self._simulator.step(action)
        self._last = int(action), reward
        observation, info = self._seen()
        return observation, reward, False, False, info

    def render(self) -> Any:
        """Return a picture `(height, width, 3)`, or a text, of where the environment stands."""
        if self._simulator is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        return self.drawn(self._simulator.state, self._last)

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        """Return the observation, and which actions may be taken where not all may."""
        assert self._simulator is not None
        state, available = self._simulator.state, self.mdp.available
        info = {} if available is None else {"action_mask": available[state].astype(np.int8)}
        return (state if self.features is None else self.observed(state)), info
