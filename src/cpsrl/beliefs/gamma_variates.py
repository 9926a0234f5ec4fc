"""Gamma variates for compiled code: of any shape, and fast ones of one small shape.

The cells of a Dirichlet row that were never observed keep the prior's shape a, usually 1/S, and are
most of what a resampling draws. NumPy's sampler is slow there, so these have a ziggurat (Marsaglia
and Tsang 2000). If x ~ Gamma(a), then y = x^a has a density proportional to

    f(y) = exp(-y^(1/a)),   decreasing, nearly flat up to y = 1 and steep beyond.

LAYERS pieces of equal area cover what lies below f. Piece i >= 1 is the rectangle of the points
(y, z) with 0 <= y < w_i and h_i <= z < h_(i+1), where f(w_i) = h_i. Piece 0 is the rectangle of
width w_1 and height h_1 and an envelope of the tail beyond it. A uniform variate chooses a piece
and a y in it. If y < w_(i+1) the point is below f whatever its z, and nothing more is drawn (95 to
98% of all draws); otherwise z is drawn and compared, and a point above f starts all over again. In
the tail, x = t + E with t = w_1^(1/a) and an exponential E has the density e^(t - x), above that
of Gamma(a) by the factor (x / t)^(1 - a), so

    tail area = integral of a x^(a-1) e^(-x) from t on <= a t^(a-1) e^(-t),

and this bound is the envelope's area. Because every piece is an envelope, the variates are exact
however well the pieces fit; the fit decides only how many are thrown away (.9% at a = 1/6).

The power 1/a is taken by multiplication where it is a whole number, as it is for a = 1/S.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, leaf
from cpsrl._private.variates import Words, standard_exponential, standard_gamma, uniform
from cpsrl.support.types import Floats

LAYERS = 64
LEAST_SHAPE, MOST_SHAPE = 1e-6, 0.5


class SmallGamma(NamedTuple):
    """The pieces for one shape; a shape of NaN, which equals nothing, has none."""

    shape: float
    power: float
    """1/a"""
    widths: Floats
    """`(LAYERS + 1,)` w_i, with w_0 = area / h_1 and 0 at the end"""
    heights: Floats
    """`(LAYERS + 1,)` h_i, with h_0 = 0"""


@functools.cache
def small_gamma(shape: float) -> SmallGamma:
    """Return the pieces for Gamma(`shape`), or none where the shape is not small (or too small)."""
    if not LEAST_SHAPE <= shape <= MOST_SHAPE:
        return SmallGamma(math.nan, math.nan, np.zeros(0), np.zeros(0))
    power = 1.0 / shape
    if math.isclose(power, round(power), rel_tol=1e-14):
        power = float(round(power))
    # The larger t, the smaller the pieces: the largest that still reach f(0) = 1 fit best.
    low, high = 0.01, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _pieces(shape, middle)[1][LAYERS] >= 1.0:
            low = middle
        else:
            high = middle
    return SmallGamma(shape, power, *_pieces(shape, low))


def _pieces(a: float, t: float) -> tuple[Floats, Floats]:
    """Return widths and heights of the pieces whose tail begins at x = `t`."""
    widths, heights = np.zeros(LAYERS + 1), np.zeros(LAYERS + 1)
    widths[1], heights[1] = t**a, math.exp(-t)
    area = (t**a + a * t ** (a - 1.0)) * heights[1]
    widths[0] = area / heights[1]
    for i in range(1, LAYERS):
        heights[i + 1] = heights[i] + area / widths[i]
        if heights[i + 1] >= 1.0:
            heights[i + 1 :] = heights[i + 1]
            break
        if i + 1 < LAYERS:
            widths[i + 1] = (-math.log(heights[i + 1])) ** a
    return widths, heights


@inlined
def draw_small(small: SmallGamma, words: Words) -> float:
    """Return a variate of the small shape."""
    widths = small.widths
    while True:
        v = LAYERS * uniform(words)
        i = int(v)
        y = (v - i) * widths[i]
        if y < widths[i + 1]:
            return raised(y, small.power)
        x = _draw_beside(i, y, small.shape, small.power, small.heights, words)
        if x >= 0.0:
            return x


@leaf
def _draw_beside(
    i: int, y: float, shape: float, power: float, heights: Floats, words: Words
) -> float:
    """Return the variate of a point of piece i with y >= w_(i+1), or -1 if it is above f."""
    if i > 0:
        x = raised(y, power)
        z = heights[i] + (heights[i + 1] - heights[i]) * uniform(words)
        return x if z < math.exp(-x) else -1.0
    t = -math.log(heights[1])
    x = t + standard_exponential(words)
    return x if uniform(words) < (t / x) ** (1.0 - shape) else -1.0


@inlined
def raised(y: float, power: float) -> float:
    """Return y^power."""
    whole = int(power)
    return y**whole if whole == power else y**power


@inlined
def draw_gamma(shape: float, words: Words) -> float:
    """Return a Gamma(shape) variate, 0 for shape 0; below 1 it is Gamma(1 + shape) U^(1 / shape).

    NumPy's own method for shapes below 1 is three times as slow. The result may underflow to 0.
    """
    factor = 1.0
    if 0.0 < shape < 1.0:
        factor = math.exp(-standard_exponential(words) / shape)
        shape += 1.0
    return factor * standard_gamma(words, shape)
