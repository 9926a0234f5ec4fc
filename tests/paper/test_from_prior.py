"""The observed loop is the simulated one, and what it observes is right."""

from dataclasses import replace

import numpy as np
import pytest

from cpsrl import (
    PSRL,
    Bernoulli,
    Dirichlet,
    Discounted,
    KnownRewards,
    TabularMDP,
    simulate,
    solve_average,
    span,
)
from cpsrl.beliefs import Truncated
from cpsrl.paper.from_prior import Prior, runs_from_prior
from cpsrl.seeding import Streams

S, A, STEPS, RUNS = 4, 2, 400, 3


def simulated(run, rule, cap=np.inf):
    mdp = replace(Prior(S, A, 1 / S, cap).draw(Streams(7, run)), reward_range=(0.0, 1.0))
    belief = Dirichlet(rewards=KnownRewards())
    belief = belief if np.isinf(cap) else Truncated(cap, belief)
    agent = PSRL(rule, Discounted(), belief)
    return simulate(
        agent, mdp, STEPS, [run], 7, discounted_regret=rule.schedule is None, record=100
    )


@pytest.mark.parametrize("cap", [np.inf, 0.8])
@pytest.mark.parametrize("rule", [Bernoulli(gamma=0.9), Bernoulli(schedule="doubling")])
def test_the_same_steps_as_simulate_bit_for_bit(rule, cap):
    times = np.arange(100, STEPS + 1, 100)
    draws = runs_from_prior(Prior(S, A, cap=cap), rule, STEPS, RUNS, seed=7, times=times)
    for run in range(RUNS):
        runs = simulated(run, rule, cap)
        assert np.array_equal(draws.regret[run], runs.regret[0])
        assert draws.pseudo_episodes[run] == runs.resamples[0, -1]
        if rule.schedule is None:
            assert draws.delta[run] == pytest.approx(runs.discounted_regret[0, -1], abs=1e-9)
    assert np.isnan(draws.delta).all() == (rule.schedule is not None)


def test_equal_seeds_agree_and_different_seeds_differ():
    one, same, other = (
        runs_from_prior(Prior(S, A), Bernoulli(gamma=0.9), 50, 4, seed=seed).regret
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_cap_holds_for_the_truth_and_for_the_posterior_draws():
    cap = 0.8
    rule = Bernoulli(gamma=0.9)
    draws = runs_from_prior(Prior(S, A, cap=cap), rule, 60, 40, seed=1)
    free = runs_from_prior(Prior(S, A), rule, 60, 40, seed=1)
    assert draws.span.max() <= cap < free.span.max()
    assert draws.rejected.sum() > 0
    assert free.rejected.sum() == 0
    rewards = [Prior(S, A, cap=cap).draw(Streams(1, run)).rewards for run in range(40)]
    for sample, reward in zip(draws.sample, rewards, strict=True):
        mdp = TabularMDP(sample.reshape(S, A, S), reward)
        assert span(solve_average(mdp).bias) <= cap + 1e-9


def test_the_low_variance_regret_has_the_same_mean():
    draws = runs_from_prior(Prior(S, A), Bernoulli(gamma=0.95), 300, 1000, seed=5)
    difference = draws.regret[:, -1] - draws.expected_regret[:, -1]
    assert abs(difference.mean()) < 4 * difference.std() / len(difference) ** 0.5
    assert draws.expected_regret.std() < draws.regret.std()


def test_a_cap_that_nothing_obeys_is_an_error():
    with pytest.raises(ValueError, match="so small a span"):
        runs_from_prior(Prior(S, A, cap=1e-9), Bernoulli(gamma=0.9), 10, 1)


def test_progress_counts_all_steps():
    told = []
    runs_from_prior(Prior(S, A), Bernoulli(gamma=0.9), 50, 6, progress=told.append)
    assert sum(told) == 300
