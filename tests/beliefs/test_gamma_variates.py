"""Gamma variates of one small shape: the pieces, and the law of what is drawn with them."""

import math

import numpy as np
import pytest
from scipy import stats

import cpsrl
from cpsrl.beliefs.dirichlet import sample_rows
from cpsrl.beliefs.gamma_variates import LAYERS, MOST_SHAPE, draw_gamma, small_gamma
from cpsrl.seeding import words_of

SHAPES = [0.5, 0.3, 0.25, 1 / 6, 1 / 20, 1 / 49, 1 / 128, 1e-3]


@pytest.mark.parametrize("shape", [*SHAPES, 1e-6])
def test_the_pieces_have_equal_areas_and_cover_the_density(shape):
    small = small_gamma(shape)
    width, height = small.widths, small.heights
    assert small.power == pytest.approx(1 / shape, rel=1e-14)
    area = width[0] * height[1]
    np.testing.assert_allclose(width[1:-1] * np.diff(height[1:]), area, rtol=1e-9)
    # Corners are on the curve; the last piece reaches its top, f(0) = 1.
    np.testing.assert_allclose(np.exp(-(width[1:-1] ** small.power)), height[1:-1], rtol=1e-8)
    assert height[-1] >= 1
    assert width[-1] == 0
    # The first piece holds its rectangle and, exactly computed, the tail.
    t = -math.log(height[1])
    tail = stats.gamma(shape).sf(t) * math.gamma(1 + shape)
    assert area >= width[1] * height[1] + tail
    assert LAYERS * area < 1.05 * math.gamma(1 + shape)


def test_powers_of_the_default_prior_are_whole():
    for n_states in range(2, 129):
        assert small_gamma(1 / n_states).power == n_states


@pytest.mark.parametrize("shape", [MOST_SHAPE * 1.01, 1.0, 1e-7, math.nan])
def test_other_shapes_have_no_pieces(shape):
    assert math.isnan(small_gamma(shape).shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_law(shape):
    """A cell of shape a beside one of shape 2 is Beta(a, 2)."""
    alpha, visits = np.tile([shape, 2.0], (200_000, 1)), np.ones(200_000, np.int64)
    out = np.empty_like(alpha)
    with words_of(3) as words:
        live = cpsrl.Dirichlet(np.ones((1, 1, 1))).start(cpsrl.Sizes(1, 1)).arrays
        sample_rows(live._replace(alpha=alpha, small=small_gamma(shape)), visits, words, out)
    marginal, least = stats.beta(shape, 2.0), 1e-15
    seen = out[out[:, 0] > least, 0]
    assert stats.binomtest(len(seen), len(out), marginal.sf(least)).pvalue > 1e-3

    def above(x):
        return (marginal.cdf(x) - marginal.cdf(least)) / marginal.sf(least)

    assert stats.kstest(seen, above).pvalue > 1e-3


@pytest.mark.parametrize("shape", [0.0, 0.2, 0.9, 1.0, 7.5])
def test_any_shape(shape):
    with words_of(0) as words:
        x = np.array([draw_gamma(shape, words) for _ in range(5000)])
    if shape == 0:
        assert not x.any()
    else:
        assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > 1e-3
