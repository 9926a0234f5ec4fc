"""The statistics that claims are judged by."""

import numpy as np
import pytest
import scipy.stats

from cpsrl.theory.evidence import (
    Effort,
    critical_z,
    exponent,
    upper_mean,
    upper_probability,
    z_score,
)


def test_z_scores():
    assert z_score([1.0, 2.0, 3.0]) == pytest.approx(2 / (1 / 3**0.5))
    assert z_score([0.0, 0.0]) == 0
    assert z_score([1.0, 1.0]) == np.inf
    assert critical_z(1, 0.95) == pytest.approx(1.959964, abs=1e-6)
    assert critical_z(5, 0.95) == pytest.approx(scipy.stats.norm.isf(0.005))


def test_upper_limits_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = np.mean([upper_mean(rng.exponential(size=200), 0.9) >= 1 for _ in range(1000)])
    assert 0.85 < covered < 0.95
    covered = np.mean(
        [upper_probability(rng.binomial(50, 0.1), 50, 0.9) >= 0.1 for _ in range(1000)]
    )
    assert covered > 0.88
    assert upper_probability(0, 100, 0.95) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert upper_probability(7, 7) == 1


def test_the_exponent_of_a_known_power():
    rng = np.random.default_rng(0)
    times = [10**2, 10**3, 10**4]
    values = 3 * np.sqrt(times) * rng.lognormal(0, 0.3, size=(300, 3))
    value, low, high = exponent(times, values)
    assert low < 0.5 < high
    assert high - low < 0.06
    assert value == pytest.approx(0.5, abs=0.02)


def test_effort_tells_how_far_it_is():
    told = []
    effort = Effort(quick=True, progress=told.append)
    assert effort.choose(1, 2) == 1
    count = effort.counter(4)
    count(1)
    count(2)
    count(9)
    assert told == [0.25, 0.75, 1.0]
