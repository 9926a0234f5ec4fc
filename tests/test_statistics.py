"""Statistics against closed forms and independent computations."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsrl import statistics

TIMES = np.arange(100, 10_001, 100)


SAMPLES = {
    "normal": (lambda rng, shape: rng.normal(3.0, 2.0, shape), 3.0),
    "exponential": (lambda rng, shape: rng.exponential(1.0, shape), 1.0),
}


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("runs", [10, 50])
def test_intervals_of_a_mean_keep_their_level(kind, runs):
    # docs/statistics.md has 20,000 samples; of 2,000, .92 is two standard errors below .93
    draw, truth = SAMPLES[kind]
    band = statistics.mean_band(draw(np.random.default_rng(1), (runs, 2_000)), draws=1_000)
    covered = ((band.low <= truth) & (truth <= band.high)).mean()
    assert 0.92 <= covered <= 0.97


def test_intervals_of_a_ratio_and_of_an_exponent_keep_their_level():
    rng, times = np.random.default_rng(2), np.array([100, 1_000, 10_000])
    ratio = exponent = 0
    for trial in range(600):
        first, second = rng.exponential(6.0, 20), rng.exponential(2.0, 20)
        found = statistics.ratio_of_means(first, second, draws=400, seed=trial)
        ratio += found.low <= 3 <= found.high
        curves = np.sqrt(times) * rng.exponential(1.0, (20, 3))
        found = statistics.exponent(times, curves, draws=400, seed=trial)
        exponent += found.low <= 0.5 <= found.high
    assert 0.92 <= ratio / 600 <= 0.98
    assert 0.92 <= exponent / 600 <= 0.98


def test_upper_limits_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=(1_000, 30))
    covered = np.mean([statistics.upper_mean(x, 0.9, draws=400) >= 1 for x in values])
    assert 0.87 < covered < 0.93
    covered = np.mean(
        [statistics.upper_probability(rng.binomial(50, 0.1), 50, 0.9) >= 0.1 for _ in range(1000)]
    )
    assert covered > 0.88
    assert statistics.upper_probability(0, 100, 0.95) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert statistics.upper_probability(7, 7) == 1


def test_a_band_agrees_with_studentising_run_by_run():
    curves = np.random.default_rng(2).gamma(1.0, 100.0, (30, 4))
    rng = np.random.default_rng(3)
    t = []
    for _ in range(8_000):
        drawn = curves[rng.integers(0, 30, 30)]
        error = drawn.std(axis=0, ddof=1) / np.sqrt(30)
        t.append((drawn.mean(axis=0) - curves.mean(axis=0)) / error)
    low, high = np.quantile(t, [0.025, 0.975], axis=0)
    low, high = np.minimum(low, -2.0452), np.maximum(high, 2.0452)  # Student's, 29 degrees
    error = curves.std(axis=0, ddof=1) / np.sqrt(30)
    band = statistics.mean_band(curves, draws=8_000)
    np.testing.assert_allclose(band.value, curves.mean(axis=0))
    np.testing.assert_allclose(band.low, band.value - high * error, rtol=0.05)
    np.testing.assert_allclose(band.high, band.value - low * error, rtol=0.05)


def test_one_run_and_runs_that_are_all_alike_have_no_interval():
    for values in ([3.0], [0.1] * 7):
        found = statistics.mean(values)
        assert found.value == pytest.approx(values[0])
        assert np.isnan([found.low, found.high]).all()
        assert np.isnan(statistics.ratio_of_means(values, values).high)
        assert np.isnan(statistics.exponent([1, 10], np.outer(values, [1, 2])).low)


@pytest.mark.parametrize("runs", [2, 3])
def test_two_or_three_runs_have_the_interval_of_student(runs):
    values = np.arange(1.0, runs + 1)
    error = values.std(ddof=1) / np.sqrt(runs)
    half = scipy.stats.t.ppf(0.975, runs - 1) * error
    found = statistics.mean(values)
    np.testing.assert_allclose(
        [found.low, found.high], [values.mean() - half, values.mean() + half]
    )


def test_holm():
    np.testing.assert_allclose(statistics.holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(statistics.holm([0.5, 0.9]), [1.0, 1.0])
    np.testing.assert_allclose(statistics.holm([0.01, np.nan]), [0.02, np.nan])


def test_of_many_comparisons_without_a_difference_hardly_any_family_has_one():
    rng, families = np.random.default_rng(5), 60
    raw = adjusted = 0
    for seed in range(families):
        agents = {str(k): rng.exponential(1.0, 20) for k in range(5)}
        found = statistics.comparisons(agents, draws=600, seed=seed)
        assert len(found) == 10
        adjusted += any(pair.p <= 0.05 for pair in found)
        raw += any(not pair.difference.low <= 0 <= pair.difference.high for pair in found)
    assert adjusted / families <= 0.1
    assert raw / families > 0.15


@pytest.mark.parametrize("runs", [2, 3, 5, 10, 20])
def test_no_p_value_says_that_zero_is_out_where_the_interval_contains_it(runs):
    rng = np.random.default_rng(runs)
    for draw in (rng.normal, rng.standard_exponential, lambda size: rng.standard_t(3, size)):
        values = draw(size=(runs, 3_000)) - (draw is rng.standard_exponential)
        p, band = statistics.p_values(values), statistics.mean_band(values)
        contains = (band.low <= 0) & (band.high >= 0)
        assert not (contains & (p <= 0.05)).any()
        if runs >= 5:
            assert (~contains & (p > 0.05)).mean() < 0.001, "nor the other way round"


def test_p_values_that_resampling_cannot_tell_are_given_as_their_floor():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (3, 20))
    found = statistics.comparisons(
        dict(zip("abc", noise + np.array([[0], [39], [5562]]), strict=True))
    )
    assert [pair.p_words for pair in found] == ["p <= .0012"] * 3
    assert {pair.floor for pair in found} == {3 * 2 / 5001}
    found = statistics.comparisons({"a": noise[0], "b": noise[1]})
    assert found[0].p_words == f"p = {found[0].p:.2g}".replace("0.", ".")
    (alone,) = statistics.comparisons({"a": [1.0], "b": [2.0]})
    assert alone.p_words == "p unknown"
    assert statistics.comparisons({"a": [1.0, 2.0]}) == []
    np.testing.assert_array_equal(statistics.p_values([[1.0, 0.0], [1.0, 0.0]]), [np.nan, 1.0])


def test_limits_of_a_share():
    found = statistics.probability(45, 50)
    low, high = scipy.stats.beta.ppf([0.05, 0.95], [45, 46], [6, 5])
    assert (found.value, found.low, found.high) == pytest.approx((0.9, low, high))
    assert statistics.probability(5, 5).high == 1
    assert statistics.probability(0, 5).low == 0


def test_a_difference_is_found_and_its_sign_is_right():
    rng = np.random.default_rng(6)
    noise = rng.normal(0, 10, 30)
    (pair,) = statistics.comparisons({"a": noise + rng.normal(3, 1, 30), "b": noise})
    assert pair.p < 0.01
    assert pair.difference.low > 0


def test_z_scores():
    assert statistics.z_score([1.0, 2.0, 3.0]) == pytest.approx(2 / (1 / 3**0.5))
    assert statistics.z_score([0.0, 0.0]) == 0
    assert statistics.z_score([1.0, 1.0]) == np.inf
    assert statistics.critical_z(1, 0.95) == pytest.approx(1.959964, abs=1e-6)
    assert statistics.critical_z(5, 0.95) == pytest.approx(scipy.stats.norm.isf(0.005))


def test_the_exponent_of_a_known_power():
    rng = np.random.default_rng(0)
    times = [10**2, 10**3, 10**4]
    values = 3 * np.sqrt(times) * rng.lognormal(0, 0.3, size=(300, 3))
    found = statistics.exponent(times, values, 0.99)
    assert found.low < 0.5 < found.high
    assert found.high - found.low < 0.06
    assert found.value == pytest.approx(0.5, abs=0.02)


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
    with pytest.raises(ValueError, match=r"the same runs, \(runs,\), not \(3,\) against \(2,\)"):
        statistics.paired_difference([1, 2, 3], [1, 2])


def test_ratio_of_means():
    rng = np.random.default_rng(8)
    interval = statistics.ratio_of_means(rng.normal(10, 1, 200), rng.normal(2, 0.2, 200))
    assert interval.low < 5 < interval.high
    assert interval.high - interval.low < 0.4


@pytest.mark.filterwarnings("error")
def test_a_ratio_of_a_few_runs_may_have_no_upper_limit():
    interval = statistics.ratio_of_means([1.0, 1.0, 1.0, 1e9], [1e9, 1.0, 1.0, 1.0])
    assert interval.high > 1


@settings(deadline=None, max_examples=30)
@given(st.floats(0.05, 1.2), st.floats(0.1, 1e4))
def test_growth_exponent_of_a_power_is_the_power(power, scale):
    curves = np.outer(np.full(5, scale), TIMES.astype(float) ** power)
    interval = statistics.growth_exponent(TIMES, curves, draws=20)
    assert interval.value == pytest.approx(power, abs=1e-9)


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
