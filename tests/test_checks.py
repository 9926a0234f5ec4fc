"""Checks return plain numbers, or say what would be right."""

import math

import numpy as np
import pytest

from cpsrl.checks import (
    checked_gamma,
    checked_index,
    checked_number,
    checked_positive,
    checked_whole,
)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_become_ints(value):
    assert type(checked_whole("n", value)) is int
    assert type(checked_index("n", value, 4)) is int


@pytest.mark.parametrize("value", [3, 0.5, np.float32(0.5), np.int8(1)])
def test_numbers_become_floats(value):
    assert type(checked_number("x", value)) is float
    assert type(checked_positive("x", value)) is float


@pytest.mark.parametrize("value", [-1, 1.0, True, np.True_, None, "3", [3], math.nan])
def test_what_is_not_whole_is_refused(value):
    with pytest.raises(ValueError, match="n must be a whole number of at least 0, not"):
        checked_whole("n", value)
    with pytest.raises(ValueError, match=r"n must be a whole number in 0\.\.3, not"):
        checked_index("n", value, 4)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e101, 10**400, True, None, "3", 1j, [3.0]])
def test_what_is_not_a_number_is_refused(value):
    with pytest.raises(ValueError, match="x must be a finite number"):
        checked_number("x", value)
    with pytest.raises(ValueError, match="x must be a positive number"):
        checked_positive("x", value)
    with pytest.raises(ValueError, match=r"x must be a number in \[0, 1\], not"):
        checked_number("x", value, 0, 1)


@pytest.mark.parametrize("value", [1.0, -0.1, math.nan, True, "a", None])
def test_a_gamma_is_in_its_range(value):
    assert checked_gamma(np.int64(0)) == 0
    with pytest.raises(ValueError, match=r"gamma of step 7 must be a number in \[0, 1\), not"):
        checked_gamma(value, 7)
