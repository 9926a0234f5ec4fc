"""No crash, no warning, no wrong certificate, few loose ones: models as posteriors draw them.

Models are solved in processes of their own, 200 each, with warnings as errors.
"""

import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import numpy as np
import pytest

import cpsrl
from cpsrl.planning.certificates import measures
from planning import exact, nasty

AT_ONCE = 200
GAMMAS = (0.9, 0.99, 0.999, 1 - 1e-5)
EPS = np.finfo(np.float64).eps


def solved(number, largest):
    """Return what is wrong with the solutions of a model, and facts about them.

    An error is tight if it is within 1e-6 of the range of rewards, as a gain, and what float64 can
    hold: numbers that are far from 0 are that far apart, and a stored row whose sum is not 1 by d
    changes values V by up to gamma d |V| / (1 - gamma), whichever way it is read. With 1e-6 of the
    range alone no planner could do: a number x may be half of spacing(x) from every float, which is
    more than that from |x| = 2^34 ranges on.
    """
    mdp, gentle = nasty.model(number, largest)
    wrong, width = [], float(np.ptp(mdp.rewards))
    gamma = GAMMAS[number % len(GAMMAS)]
    began = time.process_time()
    average = cpsrl.solve_average(mdp)
    spent = time.process_time() - began
    discounted = cpsrl.solve_discounted(mdp, gamma)
    slower = time.process_time() - began - spent
    for what, found, numbers in (
        ("average", average, average.gain),
        ("discounted", discounted, discounted.value),
    ):
        if not np.isfinite(numbers).all() or np.isnan(found.error):
            wrong.append(f"{number} {what}: no number, error {found.error}")
    if not np.isfinite(average.bias).all():
        wrong.append(f"{number}: no bias")
    # floats that are far from 0 are this far from each other
    spacing = 8 * EPS * float(np.abs(mdp.rewards).max())
    tight = average.error <= 1e-6 * width + spacing
    # as stored, rows are off by so much, and values in proportion to how far from 0 they are
    far = measures(mdp).defect * np.abs(discounted.value).max()
    tight_too = discounted.error <= (1e-6 * width + spacing + 2 * gamma * far) / (1 - gamma)
    return wrong, gentle, tight, tight_too, mdp.n_states, max(spent, slower)


def batch(numbers, largest):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [solved(number, largest) for number in numbers]


def in_processes(function, numbers, *arguments):
    """Return the results, in batches in processes that are started anew after a crash."""
    results, crashes = [], []
    for first in range(0, len(numbers), AT_ONCE):
        part = numbers[first : first + AT_ONCE]
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                results += pool.submit(function, part, *arguments).result()
            except BrokenProcessPool:
                crashes.append(part[0])
    assert not crashes
    return results


def check(found):
    wrong = [text for texts, *_ in found for text in texts]
    assert not wrong
    gentle = np.array([x[1] for x in found])
    for column in (2, 3):
        tight = np.array([x[column] for x in found])
        assert tight.mean() >= 0.95
        assert tight[gentle].mean() >= 0.99


def test_300_nasty_models():
    check(in_processes(batch, range(300), 400))


@pytest.mark.slow
def test_20_000_nasty_models():
    found = in_processes(batch, range(1_000, 21_000), 2_000)
    check(found)
    # a bound on what may go wrong, not a measurement of speed
    assert max(spent for *_, n_states, spent in found if n_states <= 400) < 20.0


def off(number):
    """Give how far the gains and values of a lumpable model are from the truth, and the errors."""
    mdp, P, r, state = nasty.lumped(number)
    found = cpsrl.solve_average(mdp)
    gain = exact.best_gain(exact.rationals(P), r)
    yield number, exact.distance(found.gain, [gain[s] for s in state]), found.error
    gamma = GAMMAS[number % len(GAMMAS)]
    found = cpsrl.solve_discounted(mdp, gamma)
    for normalised in (True, False):
        value = exact.best_value(exact.rationals(P, normalised), r, gamma)
        yield number, exact.distance(found.value, [value[s] for s in state]), found.error


def lumped(numbers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [known for number in numbers for known in off(number)]


def rational(numbers, seconds=10.0):
    """Return the same of models of up to 120 states that rational arithmetic has solved."""
    results = []
    for number in numbers:
        mdp, _ = nasty.model(number, 120)
        found = cpsrl.solve_average(mdp)
        truth = exact.policies_gain(mdp.csr, mdp.rewards, found.policy, seconds)
        if truth is not None:
            far = max(exact.distance(found.gain, gain) for gain in truth)
            results.append((number, far, found.error))
    return results


def is_honest(found):
    return [(number, far, error) for number, far, error in found if not far <= error]


def test_rewards_that_no_agent_could_be_told_are_planned_for():
    mdp, _ = nasty.model(8, 400)
    assert np.abs(mdp.rewards).max() > 1e100
    assert mdp.stand_in.shape == mdp.rewards.shape
    assert not batch([8], 400)[0][0]


@pytest.mark.parametrize("number", [1437, 1776, 1807])
def test_classes_that_tie_to_the_last_of_a_thousand_digits_are_certified(number):
    mdp, _ = nasty.model(number)
    assert cpsrl.solve_average(mdp).error <= 1e-6 * np.ptp(mdp.rewards)


def test_the_gains_of_nasty_models_that_are_known():
    assert not is_honest(lumped(range(10)))
    assert not is_honest(rational((0, 1)))


@pytest.mark.slow
def test_the_gains_of_many_nasty_models_that_are_known():
    found = in_processes(lumped, range(1_000))
    assert not is_honest(found)
    found = in_processes(rational, range(5_000, 6_000))
    assert len(found) >= 300
    assert not is_honest(found)
