"""The planners against brute force over all deterministic policies and linear programming."""

import numpy as np
import pytest

import cpsrl
from planning.brute_force import KINDS, best_gain, best_value, gain_and_bias, random_mdp


@pytest.mark.parametrize("kind", KINDS)
def test_average_agrees_with_all_policies(kind):
    for index in range(167):
        rng = np.random.default_rng((KINDS.index(kind), index))
        P, r = random_mdp(rng, kind)
        solution = cpsrl.solve_average(cpsrl.TabularMDP(P, r))
        np.testing.assert_allclose(
            solution.gain, best_gain(P, r), atol=1e-8, rtol=0, err_msg=f"{kind} {index}"
        )
        assert solution.error < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_discounted_agrees_with_linear_programming(kind):
    for index in range(167):
        rng = np.random.default_rng((KINDS.index(kind), index))
        P, r = random_mdp(rng, kind)
        P = np.where(P < 1e-8, 0, P)  # HiGHS takes coefficients below 1e-9 for 0
        P /= P.sum(axis=2, keepdims=True)
        gamma = rng.choice([0.0, 0.5, 0.9, 0.99])
        solution = cpsrl.solve_discounted(cpsrl.TabularMDP(P, r), gamma)
        np.testing.assert_allclose(solution.value, best_value(P, r, gamma), atol=1e-7, rtol=0)
        assert solution.reached


@pytest.mark.parametrize("kind", KINDS)
def test_bias_is_that_of_the_policy_and_bias_optimal_is_best(kind):
    for index in range(60):
        rng = np.random.default_rng((10 + KINDS.index(kind), index))
        P, r = random_mdp(rng, kind)
        mdp = cpsrl.TabularMDP(P, r)
        states = np.arange(len(r))
        solution = cpsrl.solve_average(mdp, bias_optimal=True)
        gain, bias = gain_and_bias(P[states, solution.policy], r[states, solution.policy])
        scale = 1 + np.abs(bias).max()
        np.testing.assert_allclose(solution.gain, gain, atol=1e-8 * scale)
        np.testing.assert_allclose(solution.bias, bias, atol=1e-7 * scale)
        if len(r) <= 4 and kind != "nearly decomposable":
            for policy in np.ndindex(*(r.shape[1],) * len(r)):
                other_gain, other_bias = gain_and_bias(
                    P[states, list(policy)], r[states, list(policy)]
                )
                if np.abs(other_gain - gain).max() < 1e-10:
                    assert (other_bias <= bias + 1e-7 * scale).all(), f"{kind} {index} {policy}"
