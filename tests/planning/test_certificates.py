"""The numbered cases in which a bound was once wrong, and the parts that bounds are made of."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from cpsrl.planning.certificates import (
    average_error,
    differences,
    discounted_error,
    measures,
    swept_error,
)
from cpsrl.planning.discounted import _iterated
from cpsrl.planning.evaluation import sparse_factors
from cpsrl.planning.ladder import Task
from cpsrl.planning.nearly_closed import Scaled
from cpsrl.planning.reduction import Reduction
from cpsrl.planning.sweeps import Sweeps
from planning import exact


def coupled(low, high, coupling):
    """Two states; action 1 of state 0 leads to the better state 1 with probability `coupling`."""
    P = np.zeros((2, 2, 2))
    P[0, 0] = [1, 0]
    P[0, 1] = [1 - coupling, coupling]
    P[1] = [0, 1]
    return cpsrl.TabularMDP(P, [[low, low], [high, high]])


@pytest.mark.parametrize("bias_optimal", [False, True])
@pytest.mark.parametrize("model", [(1e6, 1e6 + 1, 1e-9), (0.5, 0.51, 1e-13), (0.5, 0.51, 1e-300)])
def test_a_coupling_that_nearly_vanishes_is_seen(model, bias_optimal):
    found = cpsrl.solve_average(coupled(*model), bias_optimal=bias_optimal)
    assert np.abs(found.gain - model[1]).max() <= found.error
    assert found.reached
    assert found.policy[0] == 1


def test_the_wrong_policy_of_a_nearly_vanishing_coupling_has_an_honest_error():
    mdp = coupled(0.5, 0.51, 1e-13)
    wrong = np.zeros(2, np.int64)
    gain, bias = cpsrl.planning.gain_and_bias(mdp, wrong)
    np.testing.assert_array_equal(gain, [0.5, 0.51])
    assert 0.01 <= Scaled(mdp, 1e-10).evaluate(wrong, False).error <= 0.01 * (1 + 1e-9)
    assert average_error(mdp, wrong, gain, bias) == np.inf


def test_policy_iteration_above_100_states_counts_rounding():
    S, gamma = 101, 1 - 1e-6
    P = np.zeros((S, 1, S))
    P[1:, 0, 0] = 1
    P[0, 0, 1] = 1
    rewards = np.zeros((S, 1))
    rewards[0] = 1
    found = cpsrl.solve_discounted(cpsrl.TabularMDP(P, rewards), gamma)
    first = 1 / (1 - Fraction(gamma) ** 2)
    truth = [first] + [Fraction(gamma) * first] * (S - 1)
    assert exact.distance(found.value, truth) <= found.error < 1e-4


def test_a_gamma_near_1_divides_the_rounding():
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = 1
    P[1:, :, 0] = 1
    rewards = np.array([[1, 1 - 1e-9], [1, 1], [1 + 3e-9, 1 + 3e-9]])
    gamma = 1 - 1e-8
    found = cpsrl.solve_discounted(cpsrl.TabularMDP(P, rewards), gamma)
    truth = exact.best_value(exact.rationals(P), rewards, gamma)
    assert exact.distance(found.value, truth) <= found.error < 10
    # the value that ignores the better way: right to .1, and no more
    ones = np.full(3, 1 / (1 - gamma))
    mdp = cpsrl.TabularMDP(P, rewards)
    assert discounted_error(mdp, gamma, np.zeros(3, np.int64), ones) >= exact.distance(ones, truth)


def test_the_rounding_of_dense_sweeps_grows_with_the_states():
    P = np.kron(np.eye(2), np.full((250, 250), 1 / 250))[:, None]
    rewards = np.repeat([1.0, 0.5], 250)[:, None]
    found = cpsrl.solve_discounted(cpsrl.TabularMDP(P, rewards), 0.5, tol=1e-13)
    truth = [Fraction(2)] * 250 + [Fraction(1)] * 250
    # the rows as stored and as probabilities differ by less than 1e-16
    assert exact.distance(found.value, truth) <= found.error < 1e-12
    assert found.reached == (found.error <= 1e-13)


def drifting(n_states):
    """Up with probability 1/4, down with 3/8, else stay; and the expected time to the top."""
    P = np.zeros((n_states, 1, n_states))
    step, total = Fraction(0), Fraction(0)
    for s in range(n_states):
        if s < n_states - 1:
            P[s, 0, s + 1] = 0.25
            step = 4 + Fraction(3, 2) * step
            total += step
        if s > 0:
            P[s, 0, s - 1] = 0.375
        P[s, 0, s] = 1 - P[s, 0].sum()
    return cpsrl.TabularMDP(P, np.zeros((n_states, 1))), total


@pytest.mark.parametrize("n_states", [50, 200, 201, 400])
def test_the_diameter_of_a_drifting_chain_is_right_whatever_its_size(n_states):
    mdp, truth = drifting(n_states)
    found = cpsrl.planning.diameter(mdp, targets=[0, n_states - 1])
    assert abs(Fraction(found) / truth - 1) < 1e-13


def test_the_diameter_where_256_actions_share_a_successor():
    P = np.zeros((3, 256, 3))
    P[0, :, 1] = P[1, :, 2] = P[2, :, 0] = 1
    assert cpsrl.planning.diameter(cpsrl.TabularMDP(P, np.zeros((3, 256)))) == 2
    inventory = cpsrl.environment("inventory", capacity=255)
    assert cpsrl.planning.classify(inventory).kind == "communicating"
    assert np.isfinite(cpsrl.planning.diameter(inventory, targets=[0, 255]))


def test_the_diameter_takes_the_faster_of_two_slow_ways():
    P = np.zeros((3, 2, 3))
    P[0, 0] = [1 - 2e-13, 2e-13, 0]  # 5e12 steps
    P[0, 1] = [1 - 1e-12, 1e-12, 0]  # 1e12 steps
    P[1, :, 2] = P[2, :, 0] = 1
    found = cpsrl.planning.diameter(cpsrl.TabularMDP(P, np.zeros((3, 2))))
    assert found == pytest.approx(1e12, rel=1e-3)


@pytest.mark.parametrize("n_states", [100, 101])
def test_a_row_that_stores_1_beside_a_tiny_probability(n_states):
    P = np.zeros((n_states, 1, n_states))
    P[np.arange(n_states), 0, (np.arange(n_states) + 1) % n_states] = 1
    P[5, 0] = 0
    P[5, 0, 5], P[5, 0, 6] = 1.0, 1e-15
    rewards = np.arange(n_states)[:, None] / n_states
    mdp = cpsrl.TabularMDP(P, rewards)
    found = cpsrl.solve_average(mdp)
    truth = 5 / n_states + 1e-15 * (rewards.sum() - n_states * 5 / n_states)
    np.testing.assert_allclose(found.gain, truth, atol=found.error + 1e-16)
    assert found.reached
    np.testing.assert_allclose(
        cpsrl.planning.gain_and_bias(mdp, found.policy)[0], truth, rtol=1e-11
    )


@pytest.mark.parametrize("shift", [0.0, 1e6, 1e8])
def test_the_planning_gap_does_not_depend_on_a_shift_of_the_rewards(shift):
    river = cpsrl.environment("riverswim", variant="tsde")
    mdp = cpsrl.TabularMDP(river.dense, river.rewards + shift)
    # the rewards .2 + 1e8 and 1 + 1e8 are themselves rounded to 1.5e-8
    assert cpsrl.planning_gap(mdp, 0.99).gap == pytest.approx(5 / 218, abs=2e-16 * shift + 1e-12)
    assert cpsrl.planning_gap(mdp, 0.999).gap == 0


def test_a_loose_error_of_the_gain_does_not_hide_the_gap():
    # state 0 stays for .5 or goes to 1, which stays for 1; 2 and 3 hardly ever leave each other
    P = np.zeros((4, 2, 4))
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 1] = 1
    P[2, :, 3] = P[3, :, 2] = 1 - 1e-13
    P[2, 0, 0] = P[2, 1, 1] = P[3, 0, 0] = P[3, 1, 1] = 1e-13
    rewards = np.array([[0.5, -1.0], [1, 1], [0.3, 0.7], [0.7, 0.3]])
    mdp = cpsrl.TabularMDP(P, rewards)
    loose = replace(cpsrl.solve_average(mdp), error=0.6)
    assert cpsrl.planning_gap(mdp, 0.5, loose).gap == pytest.approx(0.5, abs=1e-9)


def test_differences_are_within_their_slack_of_the_exact_ones():
    rng = np.random.default_rng(0)
    for _ in range(30):
        P, r, _ = exact.hard_model(rng)
        mdp = cpsrl.TabularMDP(P, r)
        x = rng.normal(size=len(r)) * 10.0 ** rng.integers(-8, 9, size=len(r))
        change, slack = differences(mdp, x)
        for rows in (exact.rationals(P), exact.rationals(P, normalised=False)):
            for s, a in np.ndindex(r.shape):
                terms = [
                    p * (Fraction(y) - Fraction(x[s]))
                    for p, y in zip(rows[s][a], x.tolist(), strict=True)
                ]
                assert abs(Fraction(change[s, a]) - sum(terms)) <= slack[s, a]


def test_the_defect_of_rows_is_seen_to_the_last_digit():
    P = np.full((3, 1, 3), 1 / 3)
    P[1, 0] = [0.5, 0.25, 0.25 + 1e-9]
    rows = exact.rationals(P, normalised=False)
    truth = max(abs(sum(row) - 1) for state in rows for row in state)
    found = measures(cpsrl.TabularMDP(P, np.zeros((3, 1)))).defect
    assert truth <= Fraction(found) <= truth * Fraction(1 + 1e-12)
    assert measures(cpsrl.TabularMDP(np.eye(3)[:, None], np.zeros((3, 1)))).defect == 0


def test_a_reduction_keeps_its_digits_where_an_lu_loses_them():
    # up with probability 1/4, down with 3/8: the expected time to the top of 60 states
    n, up, down = 60, Fraction(1, 4), Fraction(3, 8)
    step, truth = Fraction(0), []
    for s in range(n):
        step = 1 / up + (down / up * step if s else 0)
        truth.append(step)
    exact_times = [sum(truth[s:]) for s in range(n)]
    M = scipy.sparse.diags_array(
        [np.full(n - 1, 0.25), np.full(n - 1, 0.375)], offsets=[1, -1]
    ).tocsr()
    leave = np.zeros(n)
    leave[-1] = 0.25
    factors = sparse_factors(M, leave)
    assert isinstance(factors, Reduction)
    times = factors.solve(np.ones(n))
    for x, y in zip(times.tolist(), exact_times, strict=True):
        assert abs(Fraction(x) / y - 1) < 1e-14


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_a_reduction_solves_what_is_left_at_last(n):
    rng = np.random.default_rng(n)
    M = scipy.sparse.random_array((n, n), density=min(1, 4 / n), rng=rng).toarray()
    np.fill_diagonal(M, 0.0)
    leave = rng.random(n)
    system = np.diag(M.sum(axis=1) + leave) - M
    b = rng.normal(size=n)
    reduction = Reduction(scipy.sparse.csr_array(M), leave)
    np.testing.assert_allclose(reduction.solve(b), np.linalg.solve(system, b), rtol=1e-10)


def walk(scale, n_states=150):
    """A symmetric walk between two walls, with rewards of size `scale`."""
    states = np.arange(n_states)
    P = np.zeros((n_states, 1, n_states))
    for to in (np.maximum(states - 1, 0), np.minimum(states + 1, n_states - 1)):
        P[states, 0, to] += 0.5
    return cpsrl.TabularMDP(P, scale * np.random.default_rng(0).uniform(-1, 1, (n_states, 1)))


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("shift", [1e6, -1e12])
@pytest.mark.parametrize("gamma", [0.9, 1 - 1e-5])
def test_a_shift_of_the_rewards_widens_an_error_by_what_rows_are_off(shift, gamma, normalised):
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(4), (4, 2))
    mdp = cpsrl.TabularMDP(P, shift + rng.random((4, 2)))
    found = cpsrl.solve_discounted(mdp, gamma)
    truth = exact.best_value(exact.rationals(P, normalised), mdp.rewards, gamma)
    assert exact.distance(found.value, truth) <= found.error
    far = np.abs(found.value).max()
    assert found.error <= 1.1 * measures(mdp).defect * far / (1 - gamma) + 1e-15 * far + 1e-6


def test_a_first_action_that_is_unavailable_is_not_iterated_from():
    """Where the first rung falls short, the next begins with its policy."""
    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.ones(20), (20, 3)), rng.random((20, 3))
    available = np.ones((20, 3), np.bool_)
    available[5, 0] = False
    r[5, 1] = 5.0  # of the first that is available, which stands in for action 0
    mdp = cpsrl.TabularMDP(P, r, available=available)
    found = cpsrl.solve_discounted(mdp, 0.99, tol=1e-300, policy=np.full(20, 2))
    assert not found.reached
    assert available[np.arange(20), found.policy].all()


def test_what_overflows_has_an_infinite_error():
    mdp = walk(1.7e308)
    assert swept_error(mdp, 0.9, -np.inf, np.inf, mdp.rewards[:, 0], np.nan) == np.inf
    task = Task(mdp, 1.0, np.zeros(mdp.n_states, np.int64), 1 - 1e-5)
    with np.errstate(all="ignore"):
        found = _iterated(task)
    assert found.value.shape == (mdp.n_states,)
    assert found.error == np.inf


def test_rewards_of_any_size_are_planned_for():
    small = cpsrl.solve_average(walk(1.0))
    for scale in (2.0**1000, 2.0**-1000):
        found = cpsrl.solve_average(walk(scale))
        assert found.reached
        np.testing.assert_allclose(found.gain / scale, small.gain, atol=small.error)
        found = cpsrl.solve_discounted(walk(scale), 0.99)
        truth = cpsrl.solve_discounted(walk(1.0), 0.99)
        atol = truth.error + found.error / scale
        np.testing.assert_allclose(found.value / scale, truth.value, rtol=0, atol=atol)


@pytest.mark.parametrize("gamma", [0.1, 0.9, 1 - 1e-5])
@pytest.mark.parametrize(
    "rewards", [(1e-250, -1e290), (1e-320, -1e10), (1e-320, -1e290), (3e-322, 1e-322)]
)
def test_rewards_that_are_lost_beside_larger_ones_are_in_the_error(rewards, gamma):
    """The better reward is not much above 0, or is 0 in the unit of the larger one."""
    mdp = cpsrl.TabularMDP([[[1.0], [1.0]]], [rewards])
    average, discounted = cpsrl.solve_average(mdp), cpsrl.solve_discounted(mdp, gamma)
    better = Fraction(rewards[0])
    assert abs(Fraction(average.gain[0]) - better) <= Fraction(average.error)
    assert average.error <= rewards[0]
    value = better / (1 - Fraction(gamma))
    assert abs(Fraction(discounted.value[0]) - value) <= Fraction(discounted.error)
    assert discounted.error <= (rewards[0] * (1 + 1e-10) + 1e-307) / (1 - gamma)


@pytest.mark.parametrize("largest", [1e-308, 1e-300, 1e-150, 1e10, 1e150, 1e290])
def test_errors_are_honest_where_rewards_span_all_that_floats_do(largest):
    rng = np.random.default_rng(7)
    for _ in range(20):
        P = rng.dirichlet(np.ones(3), (3, 2))
        size = 10 ** rng.uniform(-323, np.log10(largest), (3, 2))
        size[0, 0] = largest
        mdp = cpsrl.TabularMDP(P, rng.choice([-1.0, 1.0], (3, 2)) * size)
        rows = exact.rationals(P)
        found = cpsrl.solve_average(mdp)
        assert exact.distance(found.gain, exact.best_gain(rows, mdp.rewards)) <= found.error
        found = cpsrl.solve_discounted(mdp, 0.99)
        assert exact.distance(found.value, exact.best_value(rows, mdp.rewards, 0.99)) <= found.error


def test_a_value_that_overflows_has_an_infinite_error():
    mdp = cpsrl.TabularMDP([[[1.0]]], [[1e308]])
    assert cpsrl.solve_average(mdp).gain == 1e308
    assert cpsrl.solve_discounted(mdp, 0.99).error == np.inf


def test_sweeps_that_overflow_are_not_gone_on_with(monkeypatch):
    taken, run = [], Sweeps.run

    def counted(sweeps, target, most):
        taken.append(most)
        assert len(taken) < 20
        return run(sweeps, target, most)

    monkeypatch.setattr(Sweeps, "run", counted)
    assert cpsrl.solve_average(walk(1e307)).reached
