"""Observations that the tests of the belief share."""

import numpy as np
import pytest


@pytest.fixture
def seen():
    """Ninety transitions of a problem with S = 5, A = 2; state 4 is never left."""
    rng = np.random.default_rng(3)
    return [
        (int(rng.integers(4)), int(rng.integers(2)), float(rng.normal(2, 3)), int(rng.integers(5)))
        for _ in range(90)
    ]
