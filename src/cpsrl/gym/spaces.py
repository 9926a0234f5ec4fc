"""Gymnasium's spaces as agents see them: the number of states or features, and the encoding."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from cpsrl.mdp.problem import FeatureSizes, Sizes

Encode = Callable[[Any], Any]


def problem_of(
    observations: Any, actions: Any, reward_range: tuple[float, float], available: Any = None
) -> tuple[Sizes | FeatureSizes, Encode, int]:
    """Return the sizes of a problem with these spaces, or raise with the reason.

    With them comes a function that makes a state's number or a vector of an observation, and the
    number of the first action.
    """
    if not isinstance(actions, spaces.Discrete):
        raise ValueError(
            f"the agents choose from a finite set of actions, and those of this environment are "
            f"{actions}: its action space must be Discrete"
        )
    n_actions, first = int(actions.n), int(actions.start)
    if isinstance(observations, spaces.Box):
        if available is not None:
            raise ValueError(
                "some actions of this environment are not available in some states, and agents "
                "that see vectors can't be told: let them see states, observation='state'"
            )
        size = int(np.prod(observations.shape))
        sizes = FeatureSizes(size, n_actions, reward_range)
        # a copy: some environments write into theirs
        return sizes, lambda seen: np.array(seen, np.float32).ravel(), first
    if isinstance(observations, spaces.Discrete):
        start = int(observations.start)
        states = Sizes(int(observations.n), n_actions, reward_range, available=available)
        return states, lambda seen: int(seen) - start, first
    parts: tuple[Any, ...] = ()
    if isinstance(observations, spaces.Tuple):
        parts = observations.spaces
    if parts and all(isinstance(part, spaces.Discrete) for part in parts):
        counts, starts = [int(p.n) for p in parts], [int(p.start) for p in parts]
    elif isinstance(observations, spaces.MultiDiscrete):
        counts = [int(n) for n in observations.nvec.ravel()]
        starts = [int(n) for n in observations.start.ravel()]
    else:
        raise ValueError(
            f"observations must be states (Discrete, MultiDiscrete, a Tuple of Discrete ones) or "
            f"vectors (Box), not {observations}: gymnasium.wrappers.FlattenObservation makes "
            "vectors of most others"
        )

    def number(seen: Any) -> int:
        places = [int(x) - start for x, start in zip(np.ravel(seen), starts, strict=True)]
        return int(np.ravel_multi_index(places, counts))

    return Sizes(int(np.prod(counts)), n_actions, reward_range), number, first
