"""The planners against brute force over all deterministic policies and linear programming."""

import itertools

import numpy as np
import pytest
import scipy.sparse

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


def masked(rng, shape):
    """Which actions are available, with at least one in every state."""
    available = rng.random(shape) < 0.6
    available[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    return available


def best_of_allowed(P, r, available, gamma, gain=lambda *chain: gain_and_bias(*chain)[0]):
    """The largest gain `(S,)` over the allowed policies, and the largest discounted value.

    `gain` computes that of a chain and its rewards.
    """
    states, best = np.arange(len(r)), []
    for policy in itertools.product(*(np.flatnonzero(row) for row in available)):
        chain, rewards = P[states, list(policy)], r[states, list(policy)]
        value = np.linalg.solve(np.eye(len(r)) - gamma * chain, rewards)
        best.append((gain(chain, rewards), value))
    return np.max(best, axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_only_available_actions_are_planned_with(kind):
    for index in range(40):
        rng = np.random.default_rng((20 + KINDS.index(kind), index))
        P, r = random_mdp(rng, kind)
        available = masked(rng, r.shape)
        gain, value = best_of_allowed(P, r, available, 0.9)
        junk = np.where(available[:, :, None], P, 0)
        better = np.where(available, r, r + 10)
        for shift in (0.0, 1e6):
            mdp = cpsrl.TabularMDP(junk, better + shift, available=available)
            average = cpsrl.solve_average(mdp, bias_optimal=index % 2 == 0)
            discounted = cpsrl.solve_discounted(mdp, 0.9)
            np.testing.assert_allclose(average.gain - shift, gain, atol=1e-8, rtol=0)
            np.testing.assert_allclose(discounted.value - 10 * shift, value, atol=1e-7, rtol=0)
            gap = cpsrl.planning_gap(mdp, 0.9)
            for policy in (average.policy, discounted.policy, gap.policy):
                assert available[np.arange(len(r)), policy].all()


def irreducible_gain(chain, rewards):
    balance = np.vstack([chain.T - np.eye(len(chain)), np.ones(len(chain))])[1:]
    stationary = np.linalg.solve(balance, np.eye(len(chain))[-1])
    return np.full(len(chain), stationary @ rewards)


def test_only_available_actions_are_planned_with_in_large_sparse_models():
    rng = np.random.default_rng(0)
    n_states, n_actions = 130, 3
    for index in range(6):
        P = np.zeros((n_states, n_actions, n_states))
        for s, a in np.ndindex(n_states, n_actions):
            P[s, a, rng.integers(n_states, size=3)] += rng.random(3)
            P[s, a, (s + 1) % n_states] += 0.1
        P /= P.sum(2, keepdims=True)
        r = rng.random((n_states, n_actions))
        available = np.zeros(r.shape, bool)
        available[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
        available[rng.integers(n_states, size=4)] = [True, False, True] if index % 2 else True
        gain, value = best_of_allowed(P, r, available, 0.9, irreducible_gain)
        mdp = cpsrl.TabularMDP(
            scipy.sparse.csr_array(P.reshape(-1, n_states)), r, available=available
        )
        assert mdp.prefers_sparse
        for bias_optimal in (False, True):
            average = cpsrl.solve_average(mdp, bias_optimal=bias_optimal)
            np.testing.assert_allclose(average.gain, gain, atol=1e-8)
            assert available[np.arange(n_states), average.policy].all()
        discounted = cpsrl.solve_discounted(mdp, 0.9)
        np.testing.assert_allclose(discounted.value, value, atol=1e-8)
        assert available[np.arange(n_states), discounted.policy].all()


def test_a_policy_with_an_unavailable_action_is_refused():
    mdp = cpsrl.TabularMDP([[[1.0], [1.0]]], [[0.0, 1.0]], available=[[True, False]])
    for policy in ([1], [[0.5, 0.5]]):
        with pytest.raises(ValueError, match="action 1 is not available in state 0"):
            cpsrl.planning.gain_and_bias(mdp, policy)
