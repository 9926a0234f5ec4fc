"""Variates from the words of a stream against those of NumPy's generator, bit for bit."""

import numpy as np
import pytest

from cpsrl._private.compile import jit
from cpsrl._private.variates import standard_exponential, standard_gamma, standard_normal, uniform
from cpsrl.seeding import words_of

N = 40_000
"""Enough for the rare turns of the ziggurats, a few in ten thousand draws."""
SHAPES = [0.0, 1e-12, 1e-3, 0.1, 1 / 6, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 7.3, 100.0, 1e6, 1e12]


@jit
def uniforms(words, out):
    for i in range(len(out)):
        out[i] = uniform(words)


@jit
def normals(words, out):
    for i in range(len(out)):
        out[i] = standard_normal(words)


@jit
def exponentials(words, out):
    for i in range(len(out)):
        out[i] = standard_exponential(words)


@jit
def gammas(words, shape, out):
    for i in range(len(out)):
        out[i] = standard_gamma(words, shape)


def check(draw, expected, seed):
    """Draw with the words of one generator and with another one, and compare both and the rest."""
    mine, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    with words_of(mine) as words:
        found = draw(words)
    assert np.array_equal(found, expected(theirs))
    assert mine.bit_generator.state == theirs.bit_generator.state


def filled(kernel, *arguments, n=N):
    def draw(words):
        out = np.empty(n)
        kernel(words, *arguments, out)
        return out

    return draw


@pytest.mark.parametrize("seed", [0, 1, 2**100])
@pytest.mark.parametrize(
    ("kernel", "name"),
    [(uniforms, "random"), (normals, "standard_normal"), (exponentials, "standard_exponential")],
)
def test_variates_without_a_parameter(kernel, name, seed):
    check(filled(kernel), lambda rng: getattr(rng, name)(N), seed)


@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_variates_of_any_shape(shape):
    n = 5000
    check(filled(gammas, shape, n=n), lambda rng: rng.standard_gamma(shape, n), seed=3)


def test_one_stream_for_all_of_them_in_turn():
    def draw(words):
        return [
            draw_one
            for shape in np.random.default_rng(0).gamma(1.0, size=200)
            for draw_one in (
                uniform(words),
                standard_normal(words),
                standard_gamma(words, shape),
                standard_exponential(words),
            )
        ]

    def expected(rng):
        return [
            drawn
            for shape in np.random.default_rng(0).gamma(1.0, size=200)
            for drawn in (
                rng.random(),
                rng.standard_normal(),
                rng.standard_gamma(shape),
                rng.standard_exponential(),
            )
        ]

    check(draw, expected, seed=8)


def test_only_a_pcg64_can_be_lent():
    with (
        pytest.raises(ValueError, match="must be a PCG64"),
        words_of(np.random.Generator(np.random.MT19937(0))),
    ):
        pass
