"""Environments that are pure functions, for networks and their compiled loop; a table is one case.

An environment has states, which are arrays or trees of arrays. The networks see observations:

    X_t = observation(S_t),    R_(t+1), S_(t+1) = step(S_t, A_t, noise_t) .

All chance is in the noise, which is drawn on the host beforehand, so that the run of a seed is the
same in every loop and for every agent. One of one's own is a class in a module that can be
imported, since the loop runs in a worker process:

    @dataclass(frozen=True)
    class Walk(Environment):
        drift: float = 0.1
        n_features, n_actions, reward_range = 1, 2, (-3.0, 0.0)

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
`field(metadata={"static": True})`. One with arrays is `@dataclass(frozen=True, eq=False)`.

Where there is no table to solve, the optimal gain may not be known. Regret is then counted against
a reference that says of what kind it is: a number that the gain is known not to exceed, or what the
best policy known gives. By default it is the largest reward of the range, an upper bound.
"""

import threading
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl.mdp.problem import UNIT_RANGE, checked_range
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_index, checked_kind, checked_number, checked_word
from cpsrl.support.types import Floats

EXACT, UPPER, KNOWN = "exact", "upper bound", "best known policy"
"""Kinds of references."""


class Reference(NamedTuple):
    """What regret is counted against where it is the optimal gain, or stands for it."""

    gain: float
    kind: str = EXACT
    """EXACT; UPPER: the optimal gain is certified not to be larger; KNOWN: it is not smaller, and
    may be larger."""
    reason: str = ""
    """why it is that"""
    at_least: float | None = None
    """beside an upper bound: what the optimal gain is certified not to be below, where known"""


class Environment:
    """An environment of pure functions."""

    name: str = ""
    """What to call it; by default the name of its class."""
    n_features: int
    """N, the length of an observation."""
    n_actions: int
    reward_range: tuple[float, float] = UNIT_RANGE
    """The least and the largest mean reward that is thought possible."""
    picture: tuple[int, int, int] | None = None
    """The rows, columns and planes of an observation that is a picture, row by row."""
    whole: bool = False
    """Whether observations are whole numbers from 0 to 255, which the replay keeps in 8 bits."""
    available: Any = None
    """`(S, A)`, whether an action is available in each state, of the package's own table with
    features; None: all are, as in every other environment of pure functions."""

    def initial(self, streams: Streams) -> Any:
        """Return the first state, a tree of NumPy arrays, each of the kind that `step` gives."""
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

    def reference(self) -> Reference:
        """Return what regret is counted against."""
        return Reference(self.reward_range[1], UPPER, "no mean reward is larger")

    def simulator(self, seed: int = 0, run: int = 0) -> "EnvironmentSimulator":
        """Return the environment as a simulator, on the streams of run `run` of root `seed`."""
        return EnvironmentSimulator(self, Streams(seed, run))

    def checked(self, what: str, state: Any) -> Any:
        """Return `state`: what is one, the environment's own functions know."""
        return state

    def checked_action(self, state: Any, action: Any) -> int:
        """Return `action` as an int, or raise if there is no such action."""
        return checked_index("action", action, self.n_actions)

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
        make_known(environment)
        self.world = environment
        self.streams = streams
        self.state = environment.initial(streams)

    def step(self, action: int) -> tuple[float, Any]:
        """Take `action` and return the realised reward and the next state."""
        action = checked_index("action", action, self.world.n_actions)
        import jax

        drawn = self.world.draw(self.streams, 1)
        noise = jax.tree.map(lambda values: single(np.asarray(values))[0], drawn)
        given = (self.world, self.state, np.int32(action), noise)
        reward, state = _compiled("step")(*given)
        self.state = jax.tree.map(np.asarray, state)
        return float(reward), self.state

    def stored(self) -> list[NDArray[Any]]:
        """Return the arrays of the state, as a file keeps them."""
        import jax

        return [np.array(leaf) for leaf in jax.tree.leaves(self.state)]

    def restore(self, arrays: Any) -> None:
        """Go to the state that `stored` gave; raise a ValueError if it is of another kind."""
        import jax

        leaves, tree = jax.tree.flatten(self.state)
        wanted = [(leaf.shape, leaf.dtype) for leaf in map(np.asarray, leaves)]
        try:
            found = [(array.shape, array.dtype) for array in arrays]
        except (TypeError, AttributeError):
            found = []
        if found != wanted:
            raise ValueError("the environment's state is not one of this environment")
        self.state = jax.tree.unflatten(tree, arrays)


def observed(environment: Environment, state: Any) -> NDArray[np.float32]:
    """Return the observation `(N,)` in `state`, in a NumPy array."""
    return np.asarray(_compiled("observation")(environment, state))


def single(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the 32 bits in which they are computed with."""
    kinds: dict[str, Any] = {"f": np.float32, "i": np.int32}
    return array.astype(kinds.get(array.dtype.kind, array.dtype))


_lock = threading.Lock()


def check_environment(environment: Environment) -> None:
    """Raise a ValueError unless the environment can be run in."""
    checked_range(environment.reward_range)
    if environment.available is not None:
        raise ValueError(
            f"{type(environment).__name__} has all actions in every state: a problem where some "
            "are not available is a TabularMDP with features and available=..."
        )
    make_known(environment)


def make_known(environment: Environment) -> None:
    """Let JAX know the environment as a tree of arrays; raise a ValueError where that can't be."""
    import jax

    with _lock:
        while kinds := [
            type(e) for e in jax.tree.leaves(environment) if isinstance(e, Environment)
        ]:
            kind = kinds[0]
            if not is_dataclass(kind) or "__dataclass_params__" not in vars(kind):
                raise ValueError(
                    f"{kind.__name__} is not a dataclass: write @dataclass(frozen=True) above the "
                    "class, so that JAX knows its fields"
                )
            jax.tree_util.register_dataclass(kind)


def checked_reference(environment: Environment) -> Reference:
    """Return what regret in the environment is counted against, or raise."""
    found: Reference = checked_kind(
        "reference()", environment.reference(), Reference, "a Reference"
    )
    checked_word("the kind of the reference", found.kind, (EXACT, UPPER, KNOWN))
    checked_number("the gain of the reference", found.gain)
    return found


@lru_cache
def _compiled(method: str) -> Any:
    """Return a method as a compiled function of an environment and what it is given."""
    import jax

    return jax.jit(lambda environment, *given: getattr(environment, method)(*given))
