"""Gymnasium's environments that carry their own model, as exact tables.

Toy-text environments have a table `P[s][a]` of entries (probability, next state, reward, ended) and
the distribution `initial_state_distrib` of first states. An episode that ends is followed by
another, and there are two ways to say so:

- "same-step": the step that ends an episode leads to a first state of the next one;
- "next-step": it leads to the terminal state, from where any action leads to a first state and
  pays 0.

The second takes a step more an episode, so the two have different gains. `cpsrl.gym.Continuing`
does the same to an environment that is played; states have the numbers that Gymnasium gives them.
States that cannot be reached are kept: they are transient and change no gain of the others.
"""

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from cpsrl.mdp import DENSE_STATES, TabularMDP
from cpsrl.support.checks import checked_number, checked_word
from cpsrl.support.registry import with_options
from cpsrl.support.types import Bools, Floats, Ints

RESETS = ("same-step", "next-step")
PREFIX = "gym:"
"""How the names of Gymnasium's environments begin in specifications and on the command line."""
ROW, CHANCE, NEXT, REWARD = range(4)
"""The entries of a table: row s*A + a, probability, next state and reward of each, `(4, n)`."""


def tabular(
    env: Any, reset: str = "same-step", terminal_reward: float = 0.0, **options: Any
) -> TabularMDP:
    """Return a Gymnasium environment with a table `P` as an exact MDP that never ends.

    Where one action can lead to one state with different rewards, their mean is paid there. An
    action that `P` has nothing for in a state is not available there.

    Args:
        env: the environment, or its id, such as "FrozenLake-v1".
        reset: what follows the end of an episode, "same-step" or "next-step" (see above).
        terminal_reward: is added to the reward of the step that ends an episode.
        options: what an environment given by its id is made with, such as map_name="8x8".
    """
    checked_word("reset", reset, RESETS)
    terminal_reward = checked_number("terminal_reward", terminal_reward)
    name = env if isinstance(env, str) else getattr(getattr(env, "spec", None), "id", "")
    bare = _made(env, options) if isinstance(env, str) else env.unwrapped
    label = name or type(bare).__name__
    _check_wrappers(env, bare, reset, terminal_reward)
    table, first, available = _checked_table(bare, label)
    n_states, n_actions = available.shape
    entries = [
        (s * n_actions + a, *entry)
        for s in range(n_states)
        for a in np.flatnonzero(available[s])
        for entry in table[s][a]
    ]
    *columns, ended = np.array(entries, np.float64).T
    ended, lines = ended > 0, np.array(columns)
    lines[REWARD] += terminal_reward * ended
    if reset == "same-step":
        lines = _restarted(lines, ended, first)
    else:
        over = _terminal_states(lines, ended, first, n_actions, label)
        lines = _waited(lines, over, first, n_actions)
    only = np.flatnonzero(first)
    return TabularMDP(
        *_arrays(lines, n_states, n_actions),
        available=None if available.all() else available,
        initial=int(only[0]) if len(only) == 1 else first,
        name=f"{PREFIX}{name}" if name else "",
    )


def _check_wrappers(env: Any, bare: Any, reset: str, terminal_reward: float) -> None:
    """Raise a ValueError if `env` is a `cpsrl.gym.Continuing` that says something else."""
    while env is not bare and hasattr(env, "env"):
        theirs = (getattr(env, "reset_mode", None), getattr(env, "terminal_reward", None))
        if theirs[0] in RESETS and theirs != (reset, terminal_reward):
            raise ValueError(
                f"the environment is Continuing(reset={theirs[0]!r}, terminal_reward={theirs[1]}), "
                f"and its table was asked for with reset={reset!r}, terminal_reward="
                f"{terminal_reward}: give the same"
            )
        env = env.env


def _arrays(lines: Floats, n_states: int, n_actions: int) -> tuple[Any, Any]:
    """Return transitions and rewards of entries, those of one row and successor put together."""
    import scipy.sparse as sp

    chances, rewards = lines[CHANCE], lines[REWARD]
    cells = (lines[ROW] * n_states + lines[NEXT]).astype(np.int64)
    keys, place = np.unique(cells, return_inverse=True)
    chance = np.bincount(place, chances)
    least, most = np.full(len(keys), np.inf), np.full(len(keys), -np.inf)
    np.minimum.at(least, place, rewards)
    np.maximum.at(most, place, rewards)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(place, chances * rewards) / chance
    paid = np.where((least == most) | (chance == 0), least, mean)
    where, shape = np.divmod(keys, n_states), (n_states * n_actions, n_states)
    transitions: Any = sp.csr_array((chance, where), shape=shape)
    if n_states <= DENSE_STATES:
        transitions = transitions.toarray().reshape(n_states, n_actions, n_states)
    return transitions, sp.csr_array((paid, where), shape=shape)


def _restarted(lines: Floats, ended: Bools, first: Floats) -> Floats:
    """Return the entries, each one that ends led to the first states instead."""
    starts, n = np.flatnonzero(first), int(ended.sum())
    led = np.repeat(lines[:, ended], len(starts), axis=1)
    led[CHANCE] *= np.tile(first[starts], n)
    led[NEXT] = np.tile(starts, n)
    return np.concatenate([lines[:, ~ended], led], axis=1)


def _waited(lines: Floats, over: Ints, first: Floats, n_actions: int) -> Floats:
    """Return the entries, those of the states `over` replaced by ones to the first states."""
    kept, starts = ~np.isin(lines[ROW] // n_actions, over), np.flatnonzero(first)
    rows = (over[:, None] * n_actions + np.arange(n_actions)).ravel()
    waiting = np.zeros((4, len(rows) * len(starts)))
    waiting[ROW] = np.repeat(rows, len(starts))
    waiting[CHANCE] = np.tile(first[starts], len(rows))
    waiting[NEXT] = np.tile(starts, len(rows))
    return np.concatenate([lines[:, kept], waiting], axis=1)


def _terminal_states(
    lines: Floats, ended: Bools, first: Floats, n_actions: int, label: str
) -> Ints:
    """Return the states in which an episode is over, or raise where the same one is also not."""
    states, successors = lines[[ROW, NEXT]].astype(np.int64) // [[n_actions], [1]]
    reached = first > 0
    while True:
        further = successors[reached[states] & ~ended]
        if reached[further].all():
            break
        reached[further] = True
    both = np.intersect1d(successors[reached[states] & ended], np.flatnonzero(reached))
    if both.size:
        raise ValueError(
            f"in {label} state {both[0]} ends an episode when it is reached one way and not when "
            "it is reached another, so 'next-step' cannot be a table over these states: use "
            "'same-step'"
        )
    return np.setdiff1d(successors[ended], np.flatnonzero(reached))


def _checked_table(bare: Any, label: str) -> tuple[Any, Floats, Bools]:
    """Return `P`, the distribution `(S,)` of first states, and which actions `(S, A)` it has.

    Raises with the reason where there is no such table.
    """
    table, first = (getattr(bare, name, None) for name in ("P", "initial_state_distrib"))
    if table is None or first is None:
        raise ValueError(
            f"{label} has no table P of transition probabilities with a distribution of first "
            "states, so it is no exact MDP (FrozenLake, CliffWalking and Taxi have one): "
            "cpsrl.play with cpsrl.gym.Continuing learns in it without a model"
        )
    if getattr(bare, "fickle_passenger", False):
        raise ValueError(
            f"{label} with fickle_passenger=True does not move as its table P says: the passenger "
            "changes the destination besides; leave the option out"
        )
    n_states, n_actions = int(bare.observation_space.n), int(bare.action_space.n)
    for s in range(n_states):
        if s not in table or not any(table[s].get(a) for a in range(n_actions)):
            raise ValueError(
                f"the table P of {label} must have actions for every state 0..{n_states - 1}: "
                f"those of state {s} are missing"
            )
    available = [[bool(table[s].get(a)) for a in range(n_actions)] for s in range(n_states)]
    return table, np.asarray(first, np.float64), np.array(available)


def _gymnasium() -> Any:
    if importlib.util.find_spec("gymnasium") is None:
        raise ValueError("this needs Gymnasium, which is not installed: pip install 'cpsrl[gym]'")
    return importlib.import_module("gymnasium")


def _made(name: str, options: dict[str, Any]) -> Any:
    gymnasium = _gymnasium()
    try:
        return gymnasium.make(name, **options).unwrapped
    except (gymnasium.error.Error, TypeError, ValueError, KeyError) as error:
        raise ValueError(f"Gymnasium cannot make {name!r}: {error}") from error


def gymnasium_factory(name: str) -> Callable[..., TabularMDP]:
    """Return a function that makes `tabular(name)` from the environment's own options and ours.

    The name begins with "gym:". A module before the id (`module:Name-v0`) is not imported: reading
    a specification runs no code that its reader has not asked for.
    """
    environment_id = name.removeprefix(PREFIX)
    if ":" in environment_id:
        module, _, rest = environment_id.partition(":")
        raise ValueError(
            f"{name!r} names a module to import: import {module} yourself, and say {PREFIX}{rest}"
        )
    gymnasium = _gymnasium()
    try:
        spec = gymnasium.spec(environment_id)
        creator = gymnasium.envs.registration.load_env_creator(spec.entry_point)
    except (gymnasium.error.Error, ImportError, AttributeError) as error:
        raise ValueError(f"Gymnasium has no environment {environment_id!r}: {error}") from error

    def make(**options: Any) -> TabularMDP:
        return tabular(environment_id, **options)

    theirs = [
        parameter.replace(default=spec.kwargs.get(key, default))
        for key, parameter in inspect.signature(creator, eval_str=True).parameters.items()
        if (default := parameter.default) is not parameter.empty and key != "render_mode"
    ]
    ours = list(inspect.signature(tabular).parameters.values())[1:-1]
    about = f"Gymnasium's {environment_id}, one episode after the other."
    return with_options(make, [*theirs, *ours], about)
