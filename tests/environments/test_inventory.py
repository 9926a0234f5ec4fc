from math import exp, factorial

import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average


def test_the_model_day_by_day():
    capacity, mean = 6, 2.5
    mdp = environment(
        "inventory",
        capacity=capacity,
        demand=mean,
        price=2.0,
        unit_cost=0.7,
        holding_cost=0.1,
        order_cost=0.4,
    )
    transitions = np.zeros((7, 7, 7))
    rewards = np.zeros((7, 7))
    for stock in range(7):
        for order in range(7):
            morning = min(stock + order, capacity)
            bought = morning - stock
            rewards[stock, order] = -0.7 * bought - 0.1 * stock - (0.4 if bought else 0)
            for demand in range(60):
                chance = exp(-mean) * mean**demand / factorial(demand)
                transitions[stock, order, max(morning - demand, 0)] += chance
                rewards[stock, order] += 2.0 * chance * min(morning, demand)
    np.testing.assert_allclose(mdp.dense, transitions, atol=1e-14)
    np.testing.assert_allclose(mdp.rewards, rewards, atol=1e-13)


def test_the_documented_gain_and_policy():
    best = solve_average(environment("inventory"))
    np.testing.assert_allclose(best.gain, 1.7572135376, atol=1e-9)
    expected = [17 - s if s <= 3 else 0 for s in range(21)]
    np.testing.assert_array_equal(best.policy[:18], expected[:18])


@pytest.mark.parametrize("demand", [1e-3, 500.0])
def test_extreme_demand_still_sums_to_one(demand):
    mdp = environment("inventory", demand=demand)
    np.testing.assert_allclose(mdp.dense.sum(axis=2), 1, atol=1e-12)


def test_a_negative_cost_is_refused():
    with pytest.raises(ValueError, match="holding_cost must be a number of at least 0, not -1"):
        environment("inventory", holding_cost=-1)
