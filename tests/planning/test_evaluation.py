"""Gain, bias, stationary distribution and value of policies."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from cpsrl.planning import policy_chain
from cpsrl.planning.evaluation import closed_classes, factored
from planning import brute_force
from planning.brute_force import KINDS, limit_matrix, random_mdp


def chain_mdp(P, r):
    """The MDP with one action."""
    return cpsrl.TabularMDP(np.asarray(P, dtype=float)[:, None, :], np.reshape(r, (-1, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_gain_bias_and_value_of_deterministic_and_stochastic_policies(kind):
    for index in range(40):
        rng = np.random.default_rng((20 + KINDS.index(kind), index))
        P, r = random_mdp(rng, kind)
        mdp = cpsrl.TabularMDP(P, r)
        n_states, n_actions = r.shape
        deterministic = rng.integers(n_actions, size=n_states)
        for policy in (deterministic, rng.dirichlet(np.ones(n_actions), n_states)):
            weights = policy if policy.ndim == 2 else np.eye(n_actions)[policy]
            matrix = np.einsum("sa,sat->st", weights, P)
            rewards = (weights * r).sum(axis=1)
            gain, bias = brute_force.gain_and_bias(matrix, rewards)
            found_gain, found_bias = cpsrl.planning.gain_and_bias(mdp, policy)
            scale = 1 + np.abs(bias).max()
            np.testing.assert_allclose(found_gain, gain, atol=1e-12 * scale)
            np.testing.assert_allclose(found_bias, bias, atol=1e-11 * scale**2)
            value = np.linalg.solve(np.eye(n_states) - 0.9 * matrix, rewards)
            np.testing.assert_allclose(
                cpsrl.planning.discounted_value(mdp, policy, 0.9), value, atol=1e-12, rtol=1e-12
            )


@pytest.mark.parametrize("kind", KINDS)
def test_stationary_distributions(kind):
    several = 0
    for index in range(40):
        P, r = random_mdp(np.random.default_rng((30 + KINDS.index(kind), index)), kind)
        star = limit_matrix(P[:, 0])
        mdp, policy = cpsrl.TabularMDP(P, r), np.zeros(len(r), int)
        rows = factored(P[:, 0]).stationary()
        np.testing.assert_allclose(rows @ P[:, 0], rows, atol=1e-13)
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-13)
        if len(rows) == 1:
            found = cpsrl.planning.stationary_distribution(mdp, policy)
            np.testing.assert_allclose(np.tile(found, (len(r), 1)), star, atol=1e-8)
        else:
            several += 1
            with pytest.raises(ValueError, match=f"{len(rows)} closed classes"):
                cpsrl.planning.stationary_distribution(mdp, policy)
    assert several > 0 or kind not in ("multichain", "deterministic")


def large_chain(rng, closed, transient):
    """A sparse chain with closed classes of the given sizes and some transient states."""
    n_states = sum(closed) + transient
    matrix = np.zeros((n_states, n_states))
    start = 0
    for size in closed:
        states = np.arange(start, start + size)
        for s in states:
            matrix[s, rng.choice(states, 3)] = rng.random(3)
            matrix[s, start + (s - start + 1) % size] += 0.5
        start += size
    for s in range(start, n_states):
        matrix[s, rng.choice(n_states, 4, replace=False)] = 0.2
        matrix[s, rng.integers(start)] += 0.2
    matrix /= matrix.sum(axis=1, keepdims=True)
    shuffled = rng.permutation(n_states)
    return matrix[np.ix_(shuffled, shuffled)], rng.normal(size=n_states)


@pytest.mark.parametrize(
    ("closed", "transient"), [((150,), 0), ((60, 50, 5), 40), ((3,), 150), ((1, 119), 1)]
)
def test_the_sparse_path_agrees_with_the_dense_one(closed, transient):
    matrix, rewards = large_chain(np.random.default_rng(5), closed, transient)
    assert len(closed_classes(matrix)) == len(closed)
    dense, sparse = factored(matrix), factored(scipy.sparse.csr_array(matrix))
    gain = dense.average(rewards)
    assert len(np.unique(np.round(gain, 9))) >= len(closed)
    np.testing.assert_allclose(sparse.average(rewards), gain, atol=1e-12)
    bias = dense.potential(rewards - gain)
    np.testing.assert_allclose(sparse.potential(rewards - gain), bias, atol=1e-10)
    np.testing.assert_allclose(rewards - gain + matrix @ bias, bias, atol=1e-11)
    np.testing.assert_allclose(dense.average(bias), 0, atol=1e-12)
    np.testing.assert_allclose(
        sorted(sparse.stationary().tolist()), sorted(dense.stationary().tolist()), atol=1e-13
    )


def test_the_public_functions_take_the_sparse_path_with_stochastic_policies():
    mdp = cpsrl.environment("random", n_states=150, n_actions=4, successors=3, seed=2)
    policy = np.random.default_rng(0).dirichlet(np.ones(4), 150)
    matrix, rewards = policy_chain(mdp, policy)
    assert scipy.sparse.issparse(matrix)
    full = np.einsum("sa,sat->st", policy, mdp.dense)
    np.testing.assert_allclose(matrix.toarray(), full, atol=1e-15)
    gain, bias = brute_force.gain_and_bias(full, (policy * mdp.rewards).sum(axis=1))
    found_gain, found_bias = cpsrl.planning.gain_and_bias(mdp, policy)
    np.testing.assert_allclose(found_gain, gain, atol=1e-12)
    np.testing.assert_allclose(found_bias, bias, atol=1e-10)
    value = np.linalg.solve(np.eye(150) - 0.99 * full, rewards)
    np.testing.assert_allclose(
        cpsrl.planning.discounted_value(mdp, policy, 0.99), value, rtol=1e-11
    )
    np.testing.assert_allclose(
        cpsrl.planning.stationary_distribution(mdp, policy), limit_matrix(full)[0], atol=1e-12
    )


def exact_stationary(P):
    """The stationary distribution from the entries off the diagonal, in whole fractions."""
    n = len(P)
    rows = [[Fraction(float(x)) if i != j else 0 for j, x in enumerate(P[i])] for i in range(n)]
    for k in range(n - 1, 0, -1):
        leaves = sum(rows[k][:k])
        for i in range(k):
            rows[i][k] /= leaves
            for j in range(k):
                rows[i][j] += rows[i][k] * rows[k][j]
    weights = [Fraction(1)]
    for k in range(1, n):
        weights.append(sum(weights[i] * rows[i][k] for i in range(k)))
    return np.array([float(w / sum(weights)) for w in weights])


def test_a_nearly_decomposable_chain_keeps_its_digits_where_a_plain_solve_loses_them():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(6), 6)
    P[:3, 3:] *= 1e-13
    P[3:, :3] *= 3e-13
    np.fill_diagonal(P, 0)
    P /= 2 * P.sum(axis=1).max()
    np.fill_diagonal(P, 1 - P.sum(axis=1))
    rewards = rng.random(6)
    exact = exact_stationary(P)
    system = np.vstack([(np.eye(6) - P).T[:-1], np.ones(6)])
    plain = np.linalg.solve(system, [0, 0, 0, 0, 0, 1])
    assert np.abs(plain / exact - 1).max() > 1e-6
    mdp, policy = chain_mdp(P, rewards), np.zeros(6, int)
    np.testing.assert_allclose(
        cpsrl.planning.stationary_distribution(mdp, policy), exact, rtol=1e-13
    )
    np.testing.assert_allclose(
        cpsrl.planning.gain_and_bias(mdp, policy)[0], exact @ rewards, rtol=1e-13
    )


def test_the_gain_of_the_river_does_not_drift_as_repeated_squaring_does():
    mdp = cpsrl.environment("riverswim")
    right = np.ones(6, int)
    matrix, rewards = policy_chain(mdp, right)
    power = matrix
    for _ in range(40):
        power = power @ power
    exact = 7203 / 16805
    assert abs((power @ rewards)[0] - exact) > 1e-6
    np.testing.assert_allclose(cpsrl.planning.gain_and_bias(mdp, right)[0], exact, atol=1e-15)


def test_the_bias_of_a_rarely_visited_first_state_keeps_its_digits():
    # state 0 is entered with probability 1e-12 and left at once for the state that pays
    P = np.array([[0, 1, 0], [1e-12, 0.5, 0.5 - 1e-12], [0, 0.25, 0.75]])
    gain, bias = cpsrl.planning.gain_and_bias(chain_mdp(P, [5.0, 1.0, 0.0]), [0, 0, 0])
    np.testing.assert_allclose(gain, 1 / 3, rtol=1e-10)
    np.testing.assert_allclose(bias, [50 / 9, 8 / 9, -4 / 9], rtol=1e-9)


WRONG_POLICIES = [
    ([0, 0, 2], r"policy\[2\] is 2; actions are 0..1"),
    ([0, -1, 0], r"policy\[1\] is -1; actions are 0..1"),
    ([0, 0], r"policy must be 3 whole numbers .*\(3, 2\), not an array \(2,\)"),
    ([0.0, 1.0, 0.0], "policy must be 3 whole numbers .* of float64"),
    ([[0.5, 0.5], [1, 0], [0.7, 0.7]], r"policy\[2\] must be probabilities that sum to 1"),
    ([[0.5, 0.5], [-0.5, 1.5], [1, 0]], r"policy\[1\] must be probabilities that sum to 1"),
    ([[0.5, 0.5], [np.nan, 1], [1, 0]], r"policy\[1\] must be probabilities that sum to 1"),
    (np.full((2, 3), 1 / 3), r"policy must be .*, not an array \(2, 3\)"),
]


@pytest.mark.parametrize(("policy", "complaint"), WRONG_POLICIES)
def test_a_wrong_policy_is_refused(policy, complaint):
    mdp = cpsrl.environment("random", n_states=3, n_actions=2)
    for use in (
        lambda: cpsrl.planning.gain_and_bias(mdp, policy),
        lambda: cpsrl.planning.stationary_distribution(mdp, policy),
        lambda: cpsrl.planning.discounted_value(mdp, policy, 0.9),
        lambda: cpsrl.planning.reward_averaging_time(mdp, policy),
        lambda: cpsrl.solve_discounted(mdp, 0.9, policy=policy),
        lambda: cpsrl.solve_average(mdp, policy=policy),
    ):
        with pytest.raises(ValueError, match=complaint):
            use()


def test_a_planner_starts_from_a_deterministic_policy_only():
    mdp = cpsrl.environment("random", n_states=3, n_actions=2)
    with pytest.raises(ValueError, match="must be deterministic, one action a state"):
        cpsrl.solve_average(mdp, policy=np.full((3, 2), 0.5))


@pytest.mark.parametrize("gamma", [1.0, 1, -0.1, 1.5, np.nan, np.inf, "0.9", None, [0.9]])
def test_a_gamma_out_of_range_is_refused(gamma):
    mdp = cpsrl.environment("riverswim")
    for use in (
        lambda: cpsrl.solve_discounted(mdp, gamma),
        lambda: cpsrl.planning.discounted_value(mdp, np.zeros(6, int), gamma),
        lambda: cpsrl.planning_gap(mdp, gamma),
    ):
        with pytest.raises(ValueError, match=r"gamma must be a number in \[0, 1\), not"):
            use()


@pytest.mark.parametrize("tol", [0, -1e-8, np.nan])
def test_a_tolerance_that_is_not_positive_is_refused(tol):
    mdp = cpsrl.environment("riverswim")
    for use in (
        lambda: cpsrl.solve_discounted(mdp, 0.9, tol=tol),
        lambda: cpsrl.solve_average(mdp, tol=tol),
    ):
        with pytest.raises(ValueError, match="tol must be a number above 0, not"):
            use()


@pytest.mark.parametrize(("values", "result"), [([3.0, -1.0, 2.0], 4.0), ([5], 0.0)])
def test_the_span_is_the_range(values, result):
    assert cpsrl.span(values) == result
