"""The bounds: against the paper's numbers, and their proof step by step on real sequences."""

import itertools
import math

import numpy as np
import pytest

from cpsrl.theory import (
    confidence_ratio,
    confidence_width,
    expected_pseudo_episodes,
    high_probability_length,
    horizon_gamma,
    theorem_4_1,
    theorem_4_2,
    useful_from,
)
from cpsrl.theory.bounds import VERSIONS

RIVER = {"n_states": 6, "n_actions": 2, "tau": 5.3594, "span": 6.3103}


def test_the_papers_bound_on_riverswim():
    bound = theorem_4_2(steps=100_000, gamma=0.99, version="paper", **RIVER)
    first = (4 * 5.3594 + 2) * 6 * math.sqrt(28 * 2 * 1e5 * math.log(2 * 6 * 2 * 1e5))
    assert bound.terms["confidence widths"] == pytest.approx(first)
    assert bound.terms["confidence widths"] == pytest.approx(1.28e6, rel=0.005)
    assert bound.terms["outside the confidence set"] == pytest.approx(200)
    assert bound.is_vacuous
    useful = useful_from(lambda T: theorem_4_2(steps=T, gamma=0.99, version="paper", **RIVER))
    assert useful == pytest.approx(2.2e7, rel=0.02)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("theorem", [theorem_4_1, theorem_4_2])
def test_useful_from_is_where_the_bound_falls_below_T(version, theorem):
    gamma = {} if theorem is theorem_4_1 else {"gamma": 0.9}

    def bound(T):
        return theorem(steps=T, version=version, **gamma, **RIVER)

    T = useful_from(bound)
    assert bound(T - 1).is_vacuous
    assert not bound(T).is_vacuous
    assert not bound(100 * T).is_vacuous


def test_theorem_4_1_adds_the_averaging_and_the_last_pseudo_episode():
    T, gamma = 10_000, horizon_gamma(6, 2, 10_000)
    assert gamma == 1 - math.sqrt(12 / T)
    inner = theorem_4_2(6, 2, T, gamma, span=6.0)
    outer = theorem_4_1(6, 2, T, span=6.0)
    added = 6 * (1 + (T - 1) * (1 - gamma)) + min(6.0, gamma / (1 - gamma))
    assert outer.total == pytest.approx(inner.total + added)


def test_tau_alone_gives_three_tau_and_the_span_alone_twice_the_span():
    def width(**lengths):
        return theorem_4_2(5, 2, 10_000, 0.999, **lengths).terms["confidence widths"]

    assert width(tau=2.0) == pytest.approx(width(span=3.0))
    assert width(tau=2.0, span=3.0) == pytest.approx(width(span=2.5))
    assert width(span=1e9) == pytest.approx(width(span=500.0))  # at most 1/(1 - gamma)


def test_expected_pseudo_episodes_by_enumerating_coins():
    gamma, T = 0.7, 5
    total = 0.0
    for coins in itertools.product((0, 1), repeat=T - 1):
        probability = math.prod(gamma if coin else 1 - gamma for coin in coins)
        total += probability * (1 + coins.count(0))
    assert expected_pseudo_episodes(T, gamma) == pytest.approx(total)


def test_longer_pseudo_episodes_than_m_are_rare_enough():
    for gamma, T in itertools.product((0.0, 0.5, 0.99, 0.9999), (1, 100, 10**6)):
        m = high_probability_length(T, gamma)
        assert gamma**m <= (1 - gamma) / (2 * T)
        assert m <= math.log(2 * T / (1 - gamma)) / (1 - gamma) + 1


def test_the_confidence_sets_miss_the_truth_as_rarely_as_the_proof_says():
    # Weissman's bound over all lengths and pairs, for the corrected width and for the sharp one.
    for S, A, T in itertools.product((2, 3, 10), (1, 4), (1, 10, 1000)):
        for t in {1, 2, T} & set(range(1, T + 1)):
            exponent = 7 * S * math.log(2 * S * A * T * t)
            assert math.log(S * A * t) + S * math.log(2) - exponent <= -math.log(2 * T)
        sharp = S * math.log(2) + math.log(S * A * T**2)
        assert math.log(S * A * T) + S * math.log(2) - sharp <= -math.log(T) + 1e-12


def pathwise(visits, resample, pairs):
    """The sum of 1/sqrt(N at t_k) before sigma_k and the number of sigma_k, over their bounds."""
    N, at_start, total, stopped, doublings = np.zeros(pairs), np.zeros(pairs), 0.0, False, 0
    for pair, begin in zip(visits, resample, strict=True):
        if begin:
            at_start, stopped = N.copy(), False
        if not stopped and N[pair] >= 2 * max(at_start[pair], 1):
            stopped, doublings = True, doublings + 1
        if not stopped:
            total += 1 / math.sqrt(max(at_start[pair], 1))
        N[pair] += 1
    T = len(visits)
    return total / math.sqrt(8 * pairs * T), doublings / (pairs * math.log2(1 + T / (2 * pairs)))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
def test_the_pathwise_steps_of_the_proof_on_coins(gamma):
    rng = np.random.default_rng(3)
    for skew in (0.2, 1.0, 50.0):
        visits = rng.choice(4, size=3000, p=rng.dirichlet(np.full(4, skew)))
        widths, doublings = pathwise(visits, np.r_[True, rng.random(2999) >= gamma], 4)
        assert 0.02 < widths <= 1
        assert doublings <= 1


def test_the_pathwise_steps_of_the_proof_are_nearly_tight():
    steps = np.arange(2047)
    one_pair = np.zeros(2047, np.int64)
    just_doubled = np.isin(steps, 2 ** np.arange(2, 11) - 1) | (steps == 0)
    assert 0.98 < pathwise(one_pair, just_doubled, 1)[1] <= 1
    before_it_doubles = np.isin(steps, 2 ** np.arange(1, 11)) | (steps == 0)
    widths, doublings = pathwise(one_pair, before_it_doubles, 1)
    assert 0.8 < widths <= 1
    assert doublings == 0


def test_the_confidence_set_of_a_few_counts():
    counts = np.zeros((2, 1, 2))
    counts[0, 0] = 3, 1
    width = math.sqrt(14 * 2 * math.log(2 * 2 * 1 * 100 * 5) / 4)
    assert confidence_width(4, 2, 1, 5, 100) == pytest.approx(width)
    ratio = confidence_ratio(counts, np.full((2, 1, 2), 0.5), 5, 100)
    assert ratio[0, 0] == pytest.approx(0.5 / width)
    assert ratio[1, 0] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "papr"}, "did you mean 'paper'"),
        ({"tau": None, "span": None}, "give tau or span"),
        ({"tau": None, "version": "paper"}, "in terms of tau"),
        ({"tau": -1.0}, "tau must be"),
        ({"gamma": 1.0}, "gamma must be a number in"),
        ({"steps": 0}, "steps must be a whole number"),
    ],
)
def test_mistakes(change, message):
    with pytest.raises(ValueError, match=message):
        theorem_4_2(**{"steps": 100, "gamma": 0.9, **RIVER, **change})
