"""A window of observations: what was seen last is seen, too, where one observation is not enough.

In a world that is observed in part, Y_t = (X_t, X_(t-1), ..., X_(t-k+1)) says more of its state
than X_t; before the first observation there are zeros. Of pictures, the planes are put behind each
other.
"""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from cpsrl.environments.pure import Environment, Reference, make_known, observed
from cpsrl.seeding import Streams
from cpsrl.support.types import Floats


@dataclass(frozen=True)
class Window(Environment):
    """An environment seen through a window of its last observations.

    State: the environment's, and the k - 1 observations before, the latest first.

    Args:
        inside: the environment.
        length: k, the number of observations that are seen.
    """

    inside: Environment
    length: int = field(metadata={"static": True})

    n_actions = property(attrgetter("inside.n_actions"))
    reward_range = property(attrgetter("inside.reward_range"))
    whole = property(attrgetter("inside.whole"))

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """The numbers of k observations."""
        return self.length * self.inside.n_features

    @property
    def picture(self) -> tuple[int, int, int] | None:  # type: ignore[override]
        """The rows, columns and planes, k times as many as those of one picture."""
        one = self.inside.picture
        return one and (one[0], one[1], self.length * one[2])

    def initial(self, streams: Streams) -> Any:
        """Return the environment's first state, with nothing seen before it."""
        state = self.inside.initial(streams)
        make_known(self.inside)
        kind = observed(self.inside, state).dtype
        return state, np.zeros((self.length - 1, self.inside.n_features), kind)

    def draw(self, streams: Streams, n: int) -> Any:
        """Return the noise of the environment."""
        return self.inside.draw(streams, n)

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Take a step of the environment, and keep what was seen before it."""
        import jax.numpy as jnp

        within, past = state
        seen = self.inside.observation(within)[None]
        reward, after = self.inside.step(within, action, noise)
        return reward, (after, jnp.concatenate([seen, past[:-1]]))

    def observation(self, state: Any) -> Any:
        """Return the last k observations as one."""
        import jax.numpy as jnp

        within, past = state
        seen = jnp.concatenate([self.inside.observation(within)[None], past])
        planes = self.inside.picture[2] if self.inside.picture else self.inside.n_features
        return jnp.moveaxis(seen.reshape(self.length, -1, planes), 0, 1).ravel()

    def reference(self) -> Reference:
        """Return what regret is counted against in the environment."""
        return self.inside.reference()

    def realised(self, taken: Any, noise: Any) -> Floats:
        """Return the rewards that the environment records."""
        return self.inside.realised(taken, noise)
