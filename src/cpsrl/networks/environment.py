"""Environments that are pure functions, for the compiled loop: a table is one case.

An environment has states, which are arrays or trees of arrays. The networks see observations:

    X_t = observation(S_t),    R_(t+1), S_(t+1) = step(S_t, A_t, noise_t) .

All chance is in the noise, which is drawn on the host beforehand, so that the run of a seed is the
same in every loop and for every agent. One of one's own is a class in a module that can be
imported, since the loop runs in a worker process:

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Walk(Environment):
        drift: float = 0.1
        n_features, n_actions = 1, 2

        def initial(self, streams):
            return np.float32(0)

        def draw(self, streams, n):
            return streams.transition.standard_normal(n)

        def step(self, state, action, noise):
            next_state = jnp.clip(state + self.drift * (2 * action - 1) + noise, -3, 3)
            return -jnp.abs(next_state), next_state

        def observation(self, state):
            return state[None]

Its fields are numbers and arrays that the compiled code takes as data; one that decides a shape is
`field(metadata={"static": True})`.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.checks import checked_index
from cpsrl.seeding import Streams
from cpsrl.types import Floats


class Environment:
    """An environment of pure functions."""

    n_features: int
    """N, the length of an observation."""
    n_actions: int

    def initial(self, streams: Streams) -> Any:
        """Return the first state, in NumPy arrays of float32 and int32."""
        raise NotImplementedError

    def draw(self, streams: Streams, n: int) -> Any:
        """Return the noise of n steps, a tree of arrays `(n, ...)`; drawn in parts it is the same.

        The compiled loop gets it in float32 and int32.
        """
        raise NotImplementedError

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Return the reward and the next state, given the noise of one step."""
        raise NotImplementedError

    def observation(self, state: Any) -> Any:
        """Return the observation `(N,)` in `state`."""
        raise NotImplementedError

    def table(self) -> Any:
        """Return the observations `(S, N)` of all states, if these are 0, ..., S - 1; else None."""
        return None

    def pure(self) -> "Environment":
        """Return what the worker needs: `step`, `observation` and `table`."""
        return self

    def realised(self, taken: Any, noise: Any) -> Floats:
        """Return the rewards `(n,)` to record of n steps, given what the compiled loop says."""
        return np.asarray(taken.rewards, np.float64)


class EnvironmentSimulator:
    """An environment that goes on for ever: `state`, and `step(action) -> (reward, next_state)`."""

    def __init__(self, environment: Environment, streams: Streams) -> None:
        self.environment = environment
        self.streams = streams
        self.state = environment.initial(streams)

    def step(self, action: int) -> tuple[float, Any]:
        """Take `action` and return the realised reward and the next state."""
        action = checked_index("action", action, self.environment.n_actions)
        import jax

        drawn = self.environment.draw(self.streams, 1)
        noise = jax.tree.map(lambda values: single(np.asarray(values))[0], drawn)
        given = (self.environment, self.state, np.int32(action), noise)
        reward, state = _compiled("step")(*given)
        self.state = jax.tree.map(np.asarray, state)
        return float(reward), self.state


def observed(environment: Environment, state: Any) -> NDArray[np.float32]:
    """Return the observation `(N,)` in `state`, in a NumPy array."""
    return np.asarray(_compiled("observation")(environment, state))


def single(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the 32 bits in which they are computed with."""
    kinds: dict[str, Any] = {"f": np.float32, "i": np.int32}
    return array.astype(kinds.get(array.dtype.kind, array.dtype))


def check_registered(environment: Environment) -> None:
    """Raise a ValueError if JAX does not know the environment as a tree of arrays."""
    import jax

    if any(leaf is environment for leaf in jax.tree.leaves(environment)):
        raise ValueError(
            f"{type(environment).__name__} is not known to JAX: write "
            "@jax.tree_util.register_dataclass above its @dataclass(frozen=True)"
        )


@lru_cache
def _compiled(method: str) -> Any:
    """Return a method as a compiled function of an environment and what it is given."""
    import jax

    return jax.jit(lambda environment, *given: getattr(environment, method)(*given))
