"""Feature maps of a table: what an agent with a network sees in place of the state's number."""

import math

import numpy as np
from numpy.typing import NDArray

from cpsrl.support.checks import check_room, checked_whole, checked_word

FEATURES = ("thermometer", "one-hot", "projection")


def feature_matrix(
    features: str, n_states: int, dimension: int | None = None, seed: int = 0
) -> NDArray[np.float64]:
    """Return the features of the states, shape (n_states, N).

    - `thermometer`: phi(s)_x = 1{x <= s}, N = n_states; that of Xu, Dong and Van Roy (2024),
      section 6, after Osband et al. (2016).
    - `one-hot`: phi(s)_x = 1{x = s}, N = n_states.
    - `projection`: a random projection of the one-hot vector to N = `dimension`: independent
      normal entries of variance 1/N drawn from `seed`, so that features of different states are
      nearly orthogonal unit vectors when N is large.
    """
    if checked_word("features", features, FEATURES) == "projection":
        n = checked_whole("feature_dimension", dimension, 1)
        check_room("the features", n_states, n)
        rng = np.random.default_rng(checked_whole("feature_seed", seed, most=None))
        return rng.standard_normal((n_states, n)) / math.sqrt(n)
    check_room("the features", n_states, n_states)
    return np.tri(n_states) if features == "thermometer" else np.eye(n_states)
