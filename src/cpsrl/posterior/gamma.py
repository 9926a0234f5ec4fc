"""Gamma variates for compiled code."""

import math

import numpy as np

from cpsrl._compile import jit


@jit
def draw_gamma(shape: float, rng: np.random.Generator) -> float:
    """Return a Gamma(shape) variate; below 1 it is Gamma(1 + shape) U^(1 / shape).

    NumPy's own method for shapes below 1 is three times as slow. The result may underflow to 0.
    """
    factor = 1.0
    if shape < 1.0:
        factor = math.exp(-rng.standard_exponential() / shape)
        shape += 1.0
    return factor * rng.standard_gamma(shape)
