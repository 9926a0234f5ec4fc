"""Environments with gymnax's interface as worlds for networks: gymnax, Foragax, and one's own.

They are pure functions of a key k for JAX's random numbers (Lange 2022, "gymnax"):

    X, S = reset(k),    X', S', R', ended = step(k, S, A) .

The noise of a step is its key, two words from the run's own stream, and the state is the pair of S
and X. Every number keeps the type that the environment gives it. Where an episode ends, gymnax's
own `step` goes to the beginning of the next one at once and gives its first observation, so the
process never ends; the reward is that of the step that ended it, and `terminal_reward` beside it,
as in `cpsrl.gym.Continuing`. Foragax (Tang, Mesbahi, White and White, "continual-foragax") has no
episodes.

"gymnax:Breakout-MinAtar" and "foragax:ForagaxTwoBiomeLarge-v1" are names of environments wherever
one is named. Options are those of the environment itself, the numbers among its parameters, and
those of `gymnax_world`.
"""

import importlib
import importlib.util
import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cpsrl.environments.pure import KNOWN, Environment, Reference
from cpsrl.environments.window import Window
from cpsrl.mdp.problem import checked_range
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_number, checked_whole
from cpsrl.support.registry import unknown, with_options
from cpsrl.support.types import Ints

TRIAL = 10_000
"""Steps of a random policy that show which rewards there are, where nobody says."""


class Held:
    """An object of another package, equal to another where their pickles are.

    So the compiled code of one serves the other, in this process and in workers.
    """

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        try:
            self._pickled = pickle.dumps(thing)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"{type(thing).__name__} cannot be sent to a worker process: {error}"
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self._pickled == other._pickled

    def __hash__(self) -> int:
        return hash(self._pickled)

    def __reduce__(self) -> Any:
        return _held, (self._pickled,)

    def __repr__(self) -> str:
        return type(self.thing).__name__


@lru_cache
def _held(pickled: bytes) -> Held:
    return Held(pickle.loads(pickled))


@dataclass(frozen=True)
class Gymnax(Environment):
    """An environment with gymnax's interface, made by `gymnax_world`.

    State: its own, and the observation in it. Observation: its own, row by row.
    """

    env: Held = field(metadata={"static": True})
    params: Any
    terminal_reward: float
    shape: tuple[int, ...] = field(metadata={"static": True})
    n_actions: int = field(metadata={"static": True})
    whole: bool = field(metadata={"static": True})
    stated_range: tuple[float, float] | None = field(metadata={"static": True})
    stated_reference: float | None = field(metadata={"static": True})

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """The numbers of an observation."""
        return int(np.prod(self.shape))

    @property
    def picture(self) -> tuple[int, int, int] | None:  # type: ignore[override]
        """The rows, columns and planes of an observation that is a picture."""
        shape = (*self.shape, 1)[:3]
        return shape if len(self.shape) in (2, 3) else None  # type: ignore[return-value]

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """The range that was stated, or that of what a random policy met."""
        return self.stated_range or _trial(self)[0]

    def initial(self, streams: Streams) -> Any:
        """Return the first state."""
        import jax

        with _quietly():
            observation, state = self.env.thing.reset(self.draw(streams, 1)[0], self.params)
        return jax.tree.map(np.asarray, (state, observation))

    def draw(self, streams: Streams, n: int) -> Ints:
        """Return n keys `(n, 2)`."""
        words = streams.transition.integers(0, 2**64, n, np.uint64)
        return words.view(np.uint32).reshape(n, 2)  # type: ignore[return-value]

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
        """Take a step of the environment, and begin anew where that ends an episode."""
        import jax.numpy as jnp

        with _quietly():
            made = self.env.thing.step(noise, state[0], action, self.params)
        observation, after, reward, ended, _ = made
        reward = jnp.asarray(reward, jnp.float32) + self.terminal_reward * ended
        return reward, (after, observation)

    def observation(self, state: Any) -> Any:
        """Return the observation row by row."""
        return state[1].astype(np.float32).ravel()

    def reference(self) -> Reference:
        """Return the rate that was stated, or that of a random policy."""
        if self.stated_reference is not None:
            return Reference(self.stated_reference, KNOWN, "it was stated with the environment")
        said = f"a random policy earns it in {TRIAL:,} steps"
        return Reference(_trial(self)[1], KNOWN, said)


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out what JAX says of casts in code that is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@lru_cache
def _trial(world: Gymnax) -> tuple[tuple[float, float], float]:
    """Return the least and the largest reward of a random policy, and its rate."""
    import jax
    import jax.numpy as jnp

    from cpsrl.environments.pure import make_known

    make_known(world)
    streams = Streams(0)
    actions = streams.action.integers(0, world.n_actions, TRIAL).astype(np.int32)
    keys = world.draw(streams, TRIAL)

    def walk(world: Gymnax, state: Any) -> Any:
        def one(state: Any, drawn: Any) -> Any:
            reward, state = world.step(state, *drawn)
            return state, reward

        return jax.lax.scan(one, state, (actions, keys))[1]

    first = jax.tree.map(jnp.asarray, world.initial(streams))
    rewards = np.asarray(jax.jit(walk)(world, first), np.float64)
    return (float(rewards.min()), float(rewards.max())), float(rewards.mean())


def gymnax_world(
    env: Any,
    params: Any = None,
    reward_range: tuple[float, float] | None = None,
    reference: float | None = None,
    terminal_reward: float = 0.0,
    window: int = 1,
    whole: bool | None = None,
) -> Environment:
    """Return an environment with gymnax's interface as a world that never ends.

    Args:
        env: the environment. It is sent to worker processes, so it must be possible to pickle it.
        params: its parameters; None for `env.default_params`.
        reward_range: the least and the largest reward; None for those that a random policy meets
            in 10,000 steps.
        reference: the rate against which regret is counted, that of the best policy known; None for
            that of a random policy.
        terminal_reward: is added to the reward of a step that ends an episode.
        window: how many of the last observations are seen, where one does not say enough.
        whole: whether observations are whole numbers from 0 to 255, which are kept in 8 bits; None
            for what is known of the environment.
    """
    import jax

    params = env.default_params if params is None else params
    space = env.action_space(params)
    if not hasattr(space, "n"):
        raise ValueError(f"the actions of {env.name} are not discrete, and agents here need that")
    with _quietly():
        seen, _ = jax.eval_shape(env.reset, jax.random.PRNGKey(0), params)
    if whole is None:
        whole = _known_to_be_whole(env, seen.dtype)
    world = Gymnax(
        Held(env),
        params,
        checked_number("terminal_reward", terminal_reward),
        tuple(seen.shape),
        int(space.n),
        bool(whole),
        None if reward_range is None else checked_range(reward_range),
        None if reference is None else checked_number("reference", reference),
    )
    return world if checked_whole("window", window, 1) == 1 else Window(world, window)


def _known_to_be_whole(env: Any, kind: Any) -> bool:
    """Return whether observations are whole numbers from 0 to 255: planes of zeros and ones."""
    planes = type(env).__module__.startswith("gymnax.environments.minatar.")
    planes |= getattr(env, "observation_type", "") == "object"
    return bool(planes or np.dtype(kind) in (np.dtype(np.bool_), np.dtype(np.uint8)))


def _of_gymnax(name: str) -> tuple[list[str], Callable[..., Any]]:
    """Return gymnax's names, and the function that makes the environment of this one."""
    gymnax = importlib.import_module("gymnax")
    known = list(gymnax.registered_envs)
    if name not in known:
        return known, gymnax.make
    try:
        return known, type(gymnax.make(name)[0])
    except (OSError, ImportError, TypeError) as error:  # the digits of a bandit are downloaded
        raise ValueError(f"gymnax cannot make {name!r}: {error}") from error


def _of_foragax(name: str) -> tuple[list[str], Callable[..., Any]]:
    """Return Foragax' names, and the function that makes the environment of this one."""
    registry = importlib.import_module("foragax.registry")
    known = [*registry.ENV_CONFIGS, *getattr(registry, "ENV_ALIASES", {})]
    return known, partial(registry.make, name)


SOURCES = {"gymnax:": _of_gymnax, "foragax:": _of_foragax}
"""How the names of other packages' environments begin, and where these are found."""


@lru_cache
def gymnax_factory(name: str) -> Callable[..., Environment]:
    """Return a function that makes the world of this name from its options and ours."""
    source, _, own = name.partition(":")
    if importlib.util.find_spec(source) is None:
        raise ValueError(
            f"{name} needs {source}, which is not installed: pip install 'cpsrl[worlds]'"
        )
    known, make_env = SOURCES[source + ":"](own)
    if own not in known:
        raise unknown(f"environment of {source}", own, known)
    theirs = inspect.signature(make_env).parameters.values()
    try:
        params = make_env().default_params
    except (TypeError, ValueError, OSError) as error:
        raise ValueError(f"{source} cannot make {own!r}: {error}") from error
    found = {item.name: getattr(params, item.name) for item in fields(params)}
    numbers = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=n, annotation=type(n))
        for key, n in found.items()
        if isinstance(n, int | float)
    ]
    ours = list(inspect.signature(gymnax_world).parameters.values())[2:]

    def make(**options: Any) -> Environment:
        chosen = {one.name: options.pop(one.name) for one in numbers if one.name in options}
        outer = {one.name: options.pop(one.name) for one in ours if one.name in options}
        env = make_env(**options)
        return gymnax_world(env, replace(env.default_params, **chosen), **outer)

    kept = [one for one in theirs if one.kind is not one.VAR_KEYWORD]
    both = {one.name: one for one in [*kept, *numbers, *ours]}  # ours before theirs of one name
    about = f"The environment {own} of {source}, one episode after the other."
    return with_options(make, both.values(), about)
