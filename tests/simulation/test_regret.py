"""Regret against numbers from elsewhere: an independent program, papers, and plain NumPy."""

import numpy as np
import pytest

import cpsrl
from beliefs.by_formula import FormulaBelief, plan_by_value_iteration
from cpsrl import PSRL, Average, Bernoulli

SEEDS = 200

# Mean regret on RiverSwim (standard errors in brackets) of an independent program with 400 seeds,
# after 10,000 and 100,000 steps.
TABLE = {
    "horizon": (cpsrl.ContinuingPSRL(schedule="horizon", horizon=100_000), 318, 6, 340, 13),
    "gamma=.99": (cpsrl.ContinuingPSRL(0.99), 338, 7, 370, 14),
    "gamma=.999": (cpsrl.ContinuingPSRL(0.999), 2425, 47, 2743, 59),
    "gamma=.9": (cpsrl.ContinuingPSRL(0.9), 130, 4, 177, 12),
    "doubling": (cpsrl.ContinuingPSRL(schedule="doubling"), 121, 4, 184, 12),
    "TSDE": (cpsrl.TSDE(), 93, 4, 119, 12),
    "DS-PSRL": (cpsrl.DSPSRL(), 1301, 47, 4831, 302),
    "random": (cpsrl.RandomAgent(), 4258, 0.5, 42588, 0.5),
}


def mean_and_error(values):
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def check_table(name, steps):
    agent, *expected = TABLE[name]
    river = cpsrl.environment("riverswim")
    runs = cpsrl.simulate(agent, river, steps, SEEDS, seed=1, record=sorted({10_000, steps}))
    mean, error = mean_and_error(runs.regret)
    for k in range(len(runs.times)):
        there, its_error = expected[2 * k : 2 * k + 2]
        assert abs(mean[k] - there) < 4 * np.hypot(error[k], its_error), (name, runs.times[k])


@pytest.mark.parametrize("name", TABLE)
def test_regret_of_ten_thousand_steps(name):
    check_table(name, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_regret_of_a_hundred_thousand_steps(name):
    check_table(name, 100_000)


def test_count_doubling_as_osband_russo_and_van_roy_report():
    runs = cpsrl.simulate(
        cpsrl.agents.CountDoublingPSRL(), cpsrl.environment("riverswim"), 10_000, SEEDS
    )
    assert 106 / 1.5 < runs.regret[:, -1].mean() < 106 * 1.5


@pytest.mark.slow
def test_ucrl2_as_osband_russo_and_van_roy_report():
    runs = cpsrl.simulate(cpsrl.UCRL2(delta=0.05), cpsrl.environment("riverswim"), 10_000, 10)
    assert 3640 / 1.5 < runs.regret[:, -1].mean() < 3640 * 1.5


@pytest.mark.slow
def test_where_gamma_is_too_small_regret_is_linear_unless_gamma_grows_or_the_plan_is_average():
    river = cpsrl.environment("riverswim", variant="tsde")
    record = [100_000, 500_000, 1_000_000]

    def curve(agent, steps=1_000_000):
        return cpsrl.simulate(agent, river, steps, 20, record=record).regret.mean(axis=0)

    fixed = curve(cpsrl.ContinuingPSRL(0.99))
    doubling = curve(cpsrl.ContinuingPSRL(schedule="doubling"))
    average = curve(PSRL(Bernoulli(0.99), Average()))
    trap = 243 / 1090 - 0.2
    # The gamma = .99 optimal policy stays at the left end and loses `trap` at every step.
    assert fixed[2] - fixed[1] == pytest.approx(500_000 * trap, rel=0.03)
    # The doubling schedule has passed the gamma that suffices at step 262,144.
    assert doubling[2] - doubling[1] < 0.1 * (fixed[2] - fixed[1])
    assert doubling[2] < 0.3 * fixed[2]
    # The same coin with average-reward plans never falls into the trap.
    assert 150 < average[0] < 350
    assert average[2] - average[1] < 0.02 * (fixed[2] - fixed[1])


def test_against_an_agent_in_plain_numpy():
    river = cpsrl.environment("riverswim")
    steps, gamma, seeds = 1000, 0.97, 16

    def run(seed):
        rng = np.random.default_rng(seed)
        counts, state, total = FormulaBelief(np.full((6, 2, 6), 1 / 6)), 0, 0.0
        for t in range(steps):
            if t == 0 or rng.random() >= gamma:
                policy = plan_by_value_iteration(*counts.sample(rng), gamma)
            action = policy[state]
            reward = river.rewards[state, action]
            next_state = rng.choice(6, p=river.dense[state, action])
            counts.observe(state, action, reward, next_state)
            total += reward
            state = next_state
        return steps * 7203 / 16805 - total

    plain, error = mean_and_error(np.array([run(seed) for seed in range(seeds)]))
    runs = cpsrl.simulate(cpsrl.ContinuingPSRL(gamma), river, steps, 400)
    mean, its_error = mean_and_error(runs.regret[:, -1])
    assert abs(plain - mean) < 4 * np.hypot(error, its_error)
