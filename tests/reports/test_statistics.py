"""Statistics against closed forms and independent computations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsrl.reports import statistics

TIMES = np.arange(100, 10_001, 100)


def test_mean_band_covers_the_true_mean_at_about_its_level():
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        band = statistics.mean_band(rng.normal(3.0, 2.0, (60, 1)), draws=400, seed=trial)
        covered += band.low[0] <= 3.0 <= band.high[0]
    assert 0.90 <= covered / 300 <= 0.98


def test_mean_band_agrees_with_resampling_run_by_run():
    curves = np.random.default_rng(2).gamma(1.0, 100.0, (30, 4))
    rng = np.random.default_rng(3)
    means = np.array([curves[rng.integers(0, 30, 30)].mean(axis=0) for _ in range(4_000)])
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    band = statistics.mean_band(curves, draws=4_000)
    np.testing.assert_allclose(band.value, curves.mean(axis=0))
    np.testing.assert_allclose(band.low, low, rtol=0.05)
    np.testing.assert_allclose(band.high, high, rtol=0.05)


def test_bands_are_seeded():
    curves = np.random.default_rng(4).normal(size=(20, 3))
    one, again = (statistics.mean_band(curves, seed=5) for _ in range(2))
    other = statistics.mean_band(curves, seed=6)
    np.testing.assert_array_equal(one.low, again.low)
    assert (one.low != other.low).any()


def test_quantile_band_is_the_median_between_quantiles():
    curves = np.arange(11.0)[:, None] * [1, 10]
    band = statistics.quantile_band(curves)
    np.testing.assert_allclose([band.low, band.value, band.high], [[1, 10], [5, 50], [9, 90]])


def test_a_paired_difference_is_narrower_than_the_noise_it_shares():
    rng = np.random.default_rng(7)
    noise = rng.normal(0, 100, 50)
    interval = statistics.paired_difference(noise + rng.normal(5, 1, 50), noise)
    assert interval.low < 5 < interval.high
    assert interval.high - interval.low < 1


def test_a_paired_difference_needs_the_same_runs():
    with pytest.raises(ValueError, match="same runs: 3 against 2"):
        statistics.paired_difference([1, 2, 3], [1, 2])


def test_ratio_of_means():
    rng = np.random.default_rng(8)
    interval = statistics.ratio_of_means(rng.normal(10, 1, 200), rng.normal(2, 0.2, 200))
    assert interval.low < 5 < interval.high
    assert interval.high - interval.low < 0.4


@settings(deadline=None, max_examples=30)
@given(st.floats(0.05, 1.2), st.floats(0.1, 1e4))
def test_growth_exponent_of_a_power_is_the_power(power, scale):
    curves = np.outer(np.full(5, scale), TIMES.astype(float) ** power)
    interval = statistics.growth_exponent(TIMES, curves, draws=20)
    np.testing.assert_allclose([interval.value, interval.low, interval.high], power, atol=1e-9)


def test_growth_exponent_looks_at_the_last_decade_only():
    curve = np.where(TIMES < 1_000, TIMES, 1_000 * (TIMES / 1_000) ** 0.25)
    assert statistics.growth_exponent(TIMES, curve[None], draws=2).value == pytest.approx(0.25)


@pytest.mark.parametrize("curve", [-np.ones(100), np.zeros(100)])
def test_growth_exponent_of_regret_that_is_not_positive_is_unknown(curve):
    assert np.isnan(statistics.growth_exponent(TIMES, curve[None]).value)


def test_growth_exponent_of_a_single_point_is_unknown():
    assert np.isnan(statistics.growth_exponent([50], [[3.0]]).value)


@pytest.mark.parametrize("times", [TIMES, [1, 7, 4_321, 9_999, 10_000], [10_000]])
def test_slope_of_linear_regret_at_any_recorded_steps(times):
    curves = np.outer([0.5, -2.0], times)
    for since in (0.0, 0.1, 0.9):
        np.testing.assert_allclose(statistics.slope(times, curves, since), [0.5, -2.0])


def test_last_tenth_forgets_what_came_before():
    curve = np.where(TIMES <= 9_000, TIMES, 9_000)
    np.testing.assert_allclose(statistics.last_tenth(TIMES, curve[None]), 0, atol=1e-12)


def test_still_linear_takes_both_windows_to_say_so():
    linear = 0.1 * TIMES
    lump = np.where(TIMES <= 8_000, TIMES, 8_000.0)
    late_noise = np.where(TIMES <= 9_000, 0.0, 0.1 * (TIMES - 9_000))
    learned = np.full(len(TIMES), 300.0)
    curves = np.stack([linear, lump, late_noise, learned])
    np.testing.assert_array_equal(
        statistics.still_linear(TIMES, curves, gain=0.5), [True, False, False, False]
    )
    np.testing.assert_array_equal(
        statistics.still_linear(TIMES, curves[:1], gain=[4.0]), [False], "5% of 4 is above .1"
    )


def test_standard_error():
    assert statistics.standard_error([1.0, 2.0, 3.0, 4.0]) == pytest.approx(np.sqrt(5 / 3) / 2)
    assert np.isnan(statistics.standard_error([1.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.mean_band(np.zeros(3)), "runs, points"),
        (lambda: statistics.mean_band(np.zeros((0, 3))), "at least one"),
        (lambda: statistics.mean_band(np.zeros((2, 3)), level=95), "between 0 and 1"),
        (lambda: statistics.slope([3, 2], np.zeros((1, 2)), 0.5), "increasing"),
        (lambda: statistics.slope([0, 2], np.zeros((1, 2)), 0.5), "at least 1"),
    ],
)
def test_wrong_arrays_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
