"""The rules, on traces written by hand from the papers' definitions."""

import numpy as np
import pytest

import cpsrl
from cpsrl import resampling
from cpsrl.objectives import OBJECTIVES, Average, Discounted
from cpsrl.resampling import (
    RULES,
    Bernoulli,
    CountDoubling,
    DoublingTimes,
    EveryStep,
    FixedLength,
    Never,
    TSDEStops,
)

MEMORY = np.zeros(0)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        (DoublingTimes(), [1, 2, 4, 8, 16]),
        (FixedLength(7), [1, 8, 15]),
        (EveryStep(), list(range(1, 21))),
        (Never(), [1]),
    ],
)
def test_rules_without_chance(rule, times):
    resample, gamma = rule.arrays(1, 20, rng())
    assert list(1 + np.flatnonzero(resample)) == times
    assert np.isnan(gamma).all()
    later, _ = rule.arrays(4, 17, rng())
    assert np.array_equal(later, resample[3:])


def test_step_one_resamples_without_a_coin_and_every_other_step_tosses_one():
    uniforms = rng().random(9)
    resample, gamma = Bernoulli(0.3).arrays(1, 10, rng())
    assert resample[0]
    assert np.array_equal(resample[1:], uniforms >= 0.3)
    assert gamma == 0.3


def test_chunks_of_coins_are_one_sequence():
    rule = Bernoulli(schedule="doubling").resolve(6, None)
    whole, gamma = rule.arrays(1, 1000, rng())
    source = rng()
    parts = [rule.arrays(first, n, source) for first, n in [(1, 1), (2, 5), (7, 600), (607, 394)]]
    assert np.array_equal(np.concatenate([p[0] for p in parts]), whole)
    assert np.array_equal(np.concatenate([p[1] for p in parts]), gamma)


def test_expected_number_of_pseudo_episodes():
    steps, runs = 1000, 2000
    counts = [Bernoulli(0.97).arrays(1, steps, rng(i))[0].sum() for i in range(runs)]
    expected = 1 + (steps - 1) * 0.03
    assert abs(np.mean(counts) - expected) < 4 * np.std(counts) / np.sqrt(runs)


def test_horizon_schedule():
    rule = Bernoulli(schedule="horizon").resolve(12, 100_000)
    assert rule.horizon == 100_000
    assert rule.gammas(1, 3) == pytest.approx(1 - np.sqrt(12 / 100_000))
    assert rule.label == "horizon T=100000"
    assert Bernoulli(schedule="horizon").resolve(12, 5).gammas(1, 2) == 0
    kept = Bernoulli(schedule="horizon", horizon=400).resolve(12, 100_000)
    assert kept.gammas(1, 1) == pytest.approx(1 - np.sqrt(12 / 400))


def test_doubling_schedule():
    gammas = Bernoulli(schedule="doubling").resolve(12, None).gammas(1, 40)
    by_hand = {1: 0, 7: 0, 8: 1 - np.sqrt(12 / 16), 15: 1 - np.sqrt(12 / 16)}
    by_hand |= {16: 1 - np.sqrt(12 / 32), 31: 1 - np.sqrt(12 / 32), 32: 1 - np.sqrt(12 / 64)}
    for t, gamma in by_hand.items():
        assert gammas[t - 1] == pytest.approx(gamma)
    late = Bernoulli(schedule="doubling").resolve(12, None)
    assert late.gammas(262_143, 1)[0] < 0.993474 < late.gammas(262_144, 1)[0]


def test_function_of_the_step():
    rule = Bernoulli(schedule=lambda t: 1 - 1 / t)
    assert rule.gammas(1, 4) == pytest.approx([0, 1 / 2, 2 / 3, 3 / 4])
    with pytest.raises(ValueError, match="gamma of step 3 must be a number in"):
        Bernoulli(schedule=lambda t: t / 3).gammas(1, 4)


def test_tsde_stops_on_time_or_on_counts_strictly_above_twice():
    # t, t_k, T_(k-1), N_t and N_(t_k) of the pair visited last
    assert not TSDEStops.stops(7, 4, 3, 6, 3, MEMORY)
    assert TSDEStops.stops(8, 4, 3, 6, 3, MEMORY)
    assert TSDEStops.stops(5, 4, 3, 7, 3, MEMORY)
    assert TSDEStops.stops(5, 4, 3, 1, 0, MEMORY)


def test_count_doubling_stops_when_the_visits_of_the_episode_reach_those_before():
    assert CountDoubling.stops(5, 4, 3, 1, 0, MEMORY)
    assert not CountDoubling.stops(900, 4, 3, 5, 3, MEMORY)
    assert CountDoubling.stops(5, 4, 3, 6, 3, MEMORY)


@pytest.mark.parametrize("rule", [TSDEStops(), CountDoubling()])
def test_count_rules_say_why_they_have_no_arrays(rule):
    assert rule.needs_counts
    with pytest.raises(ValueError, match="visit counts of state-action pairs"):
        rule.arrays(1, 10, rng())


@pytest.mark.parametrize("name", RULES.names())
def test_a_registered_rule_says_what_it_is_and_prints_as_the_call_that_makes_it(name):
    rule = RULES.make(name)
    assert RULES.summary(name).startswith("Resample ")
    assert rule.label not in ("", type(rule).__name__)
    assert eval(repr(rule), vars(resampling)) == rule


def test_the_labels_of_the_registered_rules_differ():
    assert len({RULES.make(name).label for name in RULES.names()}) == len(RULES.names())


@pytest.mark.parametrize("name", [n for n in RULES.names() if not RULES.make(n).needs_counts])
def test_a_registered_rule_that_is_known_in_advance_resamples_at_step_one(name):
    resample, gamma = RULES.make(name).arrays(1, 30, rng())
    assert resample.dtype == np.bool_
    assert resample.shape == (30,)
    assert resample[0]
    assert (0 <= gamma < 1) == RULES.make(name).has_gamma


def test_objectives_are_made_by_name():
    assert OBJECTIVES.make("discounted", gamma=0.5) == Discounted(0.5)
    assert OBJECTIVES.make("average") == Average()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bernoulli(1.0), r"gamma must be a number in \[0, 1\), not 1.0"),
        (lambda: Bernoulli("much"), "gamma must be a number"),
        (lambda: Bernoulli(0.9, schedule="doubling"), "gamma or a schedule, not both"),
        (lambda: Bernoulli(schedule="doublin"), "did you mean 'doubling'"),
        (lambda: Bernoulli(schedule=3), "a function of t"),
        (lambda: Bernoulli(schedule="doubling", horizon=5), "horizon goes with"),
        (lambda: Bernoulli(schedule="horizon", horizon=0), "horizon must be a whole number"),
        (lambda: Bernoulli(schedule="horizon").resolve(12, None), "give horizon=T"),
        (lambda: Bernoulli(schedule="doubling").gammas(1, 1), "not resolved"),
        (lambda: FixedLength(0), "length must be a whole number"),
        (lambda: Discounted(-0.1), "gamma must be a number in"),
        (lambda: RULES.make("bernouli"), "did you mean 'bernoulli'"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", [Bernoulli, cpsrl.ContinuingPSRL])
def test_a_schedule_in_the_place_of_gamma_gets_a_hint(make):
    assert make(schedule="horizon")
    for wrong, said in (("horizon", "'horizon'"), (lambda t: 0.9, "a function")):
        with pytest.raises(ValueError, match=rf"gamma must be .* not {said}; .* schedule={said}"):
            make(wrong)
