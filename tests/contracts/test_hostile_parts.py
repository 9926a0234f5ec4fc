"""Parts of one's own that are wrong or odd: an error, or the same run in both loops."""

import copy
import math
from dataclasses import dataclass

import numpy as np
import pytest

import cpsrl
from cpsrl._private.variates import uniform
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.objectives import Objective
from cpsrl.planning import kernels
from cpsrl.seeding import Streams
from cpsrl.simulation.loops import LOOPS

RIVER = cpsrl.environment("riverswim")


def regret(spec, steps=3000, **options):
    return cpsrl.simulate(spec, RIVER, steps, 2, **options).regret[:, -1]


@dataclass(frozen=True)
class WrongSize(cpsrl.Belief):
    def start(self, problem):
        return cpsrl.Dirichlet().start(cpsrl.Sizes(60, 2))


@dataclass(frozen=True)
class Forgetful(cpsrl.Rule):
    """Its memory has no fourth place."""

    @staticmethod
    def stops(t, began, previous, visits, before, memory):
        memory[3] += 1.0
        return memory[3] > 20


@dataclass(frozen=True)
class Bound(cpsrl.Rule):
    def stops(self, t, began, previous, visits, before, memory):
        return True


@dataclass(frozen=True)
class Late(cpsrl.Rule):
    """Does not resample at step 1."""

    def arrays(self, first, n, rng):
        return np.zeros(n, bool), math.nan


@dataclass(frozen=True)
class Large(cpsrl.Rule):
    has_gamma = True

    def arrays(self, first, n, rng):
        return np.ones(n, bool), 1.5


@dataclass(frozen=True)
class Planless(Objective):
    """Has no plan."""


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: cpsrl.PSRL(belief=WrongSize()),
            ValueError,
            r"\(60, 2\) for a problem of \(6, 2\)",
        ),
        (lambda: cpsrl.PSRL(Forgetful(), cpsrl.Average()), IndexError, "out of bounds"),
        (lambda: cpsrl.PSRL(Bound(), cpsrl.Average()), ValueError, "must be a static method"),
        (lambda: cpsrl.PSRL(Late(), cpsrl.Average()), ValueError, "must resample at step 1"),
        (lambda: cpsrl.PSRL(Large()), ValueError, r"gammas in \[0, 1\), not 1.5"),
        (lambda: cpsrl.PSRL(objective=Planless()), ValueError, "must be compiled"),
    ],
)
def test_a_wrong_part_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        regret(make())


@dataclass(frozen=True)
class Capped(Objective):
    discounts = True
    plan = staticmethod(kernels.plan_discounted)

    def planning_gamma(self, rules):
        return min(rules, 0.5)


@dataclass(frozen=True)
class TwoGammas(cpsrl.Rule):
    """One number for some stretches and another for others."""

    has_gamma = True

    def arrays(self, first, n, rng):
        return np.arange(first - 1, first - 1 + n) % 100 == 0, 0.3 if first < 2000 else 0.99


@dataclass(frozen=True)
class Crossed(cpsrl.Rule):
    """Takes its variates in an order that depends on how many steps it is asked for."""

    def arrays(self, first, n, rng):
        resample = (rng.random(n) < 0.2) & (rng.random(n) < 0.2)
        resample[0] |= first == 1
        return resample, math.nan


@pytest.mark.parametrize(
    "spec",
    [
        cpsrl.PSRL(cpsrl.Bernoulli(schedule="doubling"), Capped()),
        cpsrl.PSRL(TwoGammas()),
        cpsrl.PSRL(Crossed(), cpsrl.Average()),
    ],
    ids=lambda spec: spec.label,
)
def test_odd_parts_take_the_same_steps_in_both_loops_and_however_divided(spec, monkeypatch):
    compiled = regret(spec)
    half = cpsrl.simulate(spec, RIVER, 1500, 2)
    assert np.array_equal(compiled, regret(spec, 1500, resume=half.state))
    monkeypatch.delitem(LOOPS, PSRLAgent)
    assert np.array_equal(compiled, regret(spec))


def test_a_copy_of_streams_goes_on_from_where_they_stand():
    streams, expected = Streams(0), Streams(0).belief.random(3)
    assert streams.belief.random() == expected[0]
    with streams.words("belief"):
        copied = copy.deepcopy(streams)
    with copied.words("belief") as (words,):
        assert uniform(words) == expected[1]
    assert copied.belief.random() == expected[2]
    assert streams.belief.random() == expected[1]


@pytest.mark.parametrize("seed_and_size", [(None, 60), (None, 100), (0, 201)], ids=str)
def test_chains_that_drift_far_have_a_gain(seed_and_size):
    seed, n = seed_and_size
    up, down = np.full(n, 0.5), np.full(n, 1e-6)
    if seed is not None:
        rng = np.random.default_rng(seed)
        up, down = 1e-6 * rng.random(n), 0.25 * rng.random(n)
    i, P = np.arange(n), np.zeros((n, 1, n))
    P[i[:-1], 0, i[1:]], P[i[1:], 0, i[:-1]] = up[:-1], down[1:]
    P[i, 0, i] = 1 - P[i, 0].sum(axis=1)
    weights = np.concatenate([[0.0], np.cumsum(np.log(up[:-1]) - np.log(down[1:]))])
    weights = np.exp(weights - weights.max())
    rewards = (i + 1.0) / n
    found = cpsrl.solve_average(cpsrl.TabularMDP(P, rewards[:, None]))
    assert found.gain == pytest.approx(weights @ rewards / weights.sum(), rel=1e-9)
    assert found.reached
