"""Problems that turn round: a model and its mirror image, in turn."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cpsrl.environments.registry import ENVIRONMENTS
from cpsrl.mdp import ChangingWorld, TabularMDP
from cpsrl.support.checks import checked_kind, checked_whole


def changing(
    base: str = "riverswim",
    every: int = 20_000,
    pieces: int = 1,
    options: dict[str, Any] | None = None,
) -> ChangingWorld:
    """A problem that turns into its mirror image every so many steps, and back, without a word.

    The mirror image has states, actions and rewards in reverse order, so what was right is wrong
    after a change. The state stays where it is. Both have the same optimal gain, and so has the
    world: a policy that knows of the changes could not do better but for the steps after each.

    With `pieces` = k > 1 the world drifts: each of `every` steps is 1/k of the way, the models in
    between being mixtures of the two, of transitions and of rewards.

    Args:
        base: the name of the problem.
        every: the number of steps from one to the other.
        pieces: in how many steps it changes; `every` must be a multiple.
        options: of the problem.
    """
    every, pieces = checked_whole("every", every, 1), checked_whole("pieces", pieces, 1)
    if every % pieces:
        raise ValueError(f"every = {every} must be a multiple of pieces = {pieces}")
    checked_kind("base", base, str, "the name of an environment")
    checked_kind("options", options or {}, Mapping, "a table by name")
    one = ENVIRONMENTS.make(base, **(options or {}))
    if isinstance(one, ChangingWorld):
        raise ValueError(f"base = {base!r} changes itself: take one that does not")
    other = mirrored(one)
    path = [one, *(mixed(one, other, k / pieces) for k in range(1, pieces)), other]
    models = path + path[-2:0:-1]
    return ChangingWorld(tuple(models), (every // pieces,) * len(models))


def mirrored(mdp: TabularMDP) -> TabularMDP:
    """Return the MDP with states and actions in reverse order; the initial state stays."""
    rewards = mdp.rewards if mdp.transition_rewards is None else _by_cell(mdp)
    return replace(
        mdp,
        transitions=np.flip(mdp.dense),
        rewards=np.flip(rewards),
        transition_rewards=None,
        available=None if mdp.available is None else np.flip(mdp.available),
        noise=np.flip(mdp.noise) if np.ndim(mdp.noise) == 2 else mdp.noise,
    )


def _by_cell(mdp: TabularMDP) -> Any:
    """Return the rewards of transitions `(S, A, S)`."""
    assert mdp.transition_rewards is not None
    cells = mdp.csr.copy()
    cells.data = np.array(mdp.transition_rewards)
    return cells.toarray().reshape(mdp.dense.shape)


def mixed(one: TabularMDP, other: TabularMDP, share: float) -> TabularMDP:
    """Return the MDP that is a share of the way from one to the other."""
    if one.transition_rewards is not None or np.ndim(one.noise) == 2:
        raise ValueError(
            "only problems whose rewards depend on state and action, and whose noise is the same "
            "everywhere, can drift: take pieces = 1"
        )
    return replace(
        one,
        transitions=(1 - share) * one.dense + share * other.dense,
        rewards=(1 - share) * one.rewards + share * other.rewards,
    )
