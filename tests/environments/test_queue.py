import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average


def best_threshold(capacity, arrival_rate, service_rate, admission_reward, holding_cost):
    """The largest gain of M/M/1/k over the thresholds k, and that k."""
    gains = [0.0]
    for k in range(1, capacity + 1):
        weights = (arrival_rate / service_rate) ** np.arange(k + 1)
        p = weights / weights.sum()
        income = arrival_rate * admission_reward * (1 - p[k])
        gains.append(
            (income - holding_cost * (p @ np.arange(k + 1))) / (arrival_rate + service_rate)
        )
    return max(gains), int(np.argmax(gains))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"holding_cost": 0.01, "capacity": 30},
        {"arrival_rate": 2.0, "service_rate": 0.5, "admission_reward": 3.0},
        {"holding_cost": 5.0},
    ],
)
def test_the_gain_is_that_of_the_best_threshold(options):
    defaults = {
        "capacity": 20,
        "arrival_rate": 0.8,
        "service_rate": 1.0,
        "admission_reward": 1.0,
        "holding_cost": 0.2,
    }
    gain, threshold = best_threshold(**(defaults | options))
    best = solve_average(environment("queue", **options))
    np.testing.assert_allclose(best.gain, gain, atol=1e-10)
    admits = best.policy[: threshold + 1] == 1
    assert admits[:threshold].all()
    assert not admits[threshold] or threshold == (defaults | options)["capacity"]


def test_the_documented_gain():
    np.testing.assert_allclose(solve_average(environment("queue")).gain, 128 / 549, atol=1e-10)


def test_a_step_is_an_arrival_or_a_service():
    mdp = environment("queue", capacity=2, arrival_rate=1.0, service_rate=3.0)
    reject, admit = mdp.dense[:, 0], mdp.dense[:, 1]
    np.testing.assert_array_equal(reject, [[1, 0, 0], [0.75, 0.25, 0], [0, 0.75, 0.25]])
    np.testing.assert_array_equal(admit, [[0.75, 0.25, 0], [0.75, 0, 0.25], [0, 0.75, 0.25]])
    np.testing.assert_allclose(mdp.rewards, [[0, 0.25], [-0.05, 0.2], [-0.1, -0.1]])


def test_a_rate_of_zero_is_refused():
    with pytest.raises(ValueError, match="service_rate must be a number above 0, not 0"):
        environment("queue", service_rate=0)
