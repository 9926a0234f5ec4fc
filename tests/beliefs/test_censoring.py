"""An agent that takes sales for demand goes on losing; one that knows of empty shelves does not."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import cpsrl
from cpsrl.planning.evaluation import gain_and_bias, stationary_distribution
from cpsrl.statistics import mean

EXAMPLE = Path(__file__).parents[2] / "examples" / "lost_sales.py"


@pytest.fixture(scope="module")
def shop():
    """The example, imported."""
    spec = importlib.util.spec_from_file_location("lost_sales", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_taking_sales_for_demand_confirms_itself_and_costs_a_third_of_the_gain(shop):
    """What is sold by the best policy for a demand is that demand: the estimate stays there."""
    mdp, known = shop.SHOP, shop.KNOWN
    stock = np.arange(mdp.n_states)
    demand = 5.0
    for _ in range(40):
        believed = cpsrl.environment("inventory", demand=demand, **known)
        policy = cpsrl.solve_average(believed, bias_optimal=True).policy
        morning = np.minimum(stock + policy, known["capacity"])
        left = mdp.dense[stock, policy] @ stock
        demand = float(stationary_distribution(mdp, policy) @ (morning - left))
    best, gain = cpsrl.solve_average(mdp).gain[0], gain_and_bias(mdp, policy)[0][0]
    assert demand < 2.0
    assert gain < 0.65 * best


def test_only_the_agent_that_knows_of_empty_shelves_stops_losing(shop):
    late = {}
    for name, belief in shop.BELIEFS.items():
        agent = cpsrl.ContinuingPSRL(0.98, belief=belief)
        runs = cpsrl.simulate(agent, shop.SHOP, 4000, 8, seed=11, record=2000)
        late[name] = mean((runs.regret[:, 1] - runs.regret[:, 0]) / 2000)
    assert late["sales are demand"].low > 0.15
    assert late["an empty shelf hides demand"].high < 0.05
