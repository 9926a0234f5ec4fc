"""Modified policy iteration: elimination, order, threads, and models that are hard for it."""

import numpy as np
import pytest
import scipy

import cpsrl
from cpsrl.planning import kernels, ordered, parallel
from cpsrl.planning.sweeps import Sweeps


def sparse(P, rewards):
    S, A = rewards.shape
    return cpsrl.TabularMDP(scipy.sparse.csr_array(P.reshape(S * A, S)), rewards)


def cycle(n_states=150, n_actions=2):
    """Around a circle one by one, or back to the start: every policy's chain is periodic."""
    P = np.zeros((n_states, n_actions, n_states))
    P[np.arange(n_states), 0, np.roll(np.arange(n_states), -1)] = 1
    P[:, 1:, 0] = 1
    rewards = np.zeros((n_states, n_actions))
    rewards[-1, 0], rewards[3, 1] = 1.0, 0.01
    return sparse(P, rewards)


def islands(coupling, n_islands=3, size=50, n_actions=3, seed=0):
    """Random models that are left for a random state with probability `coupling` alone."""
    rng, S = np.random.default_rng(seed), n_islands * size
    P = np.zeros((S, n_actions, S))
    for s, a in np.ndindex(S, n_actions):
        near = s // size * size + rng.choice(size, 4, replace=False)
        P[s, a, near] = (1 - coupling) * rng.dirichlet(np.ones(4))
        P[s, a, rng.integers(S)] += coupling
    return sparse(P / P.sum(axis=2, keepdims=True), rng.random((S, n_actions)))


def twins():
    """Every action twice, with the same bits."""
    mdp = cpsrl.environment("random", n_states=150, n_actions=3, successors=4, seed=5)
    return sparse(np.repeat(mdp.dense, 2, axis=1), np.repeat(mdp.rewards, 2, axis=1))


def queues(n=12):
    """Arrivals are sent to one of two queues; the longer they are, the worse."""
    P, rewards = np.zeros((n, n, 2, n, n)), np.zeros((n, n, 2))
    for i, j in np.ndindex(n, n):
        for a, to in enumerate([(min(i + 1, n - 1), j), (i, min(j + 1, n - 1))]):
            for p, k in ((0.35, to), (0.3, (max(i - 1, 0), j)), (0.25, (i, max(j - 1, 0)))):
                P[i, j, a][k] += p
            P[i, j, a, i, j] += 0.1
            rewards[i, j, a] = -(i + 1.5 * j) / n
    return sparse(P.reshape(n * n, 2, n * n), rewards.reshape(n * n, 2))


HARD = {
    "cycle": cycle,
    "grid": lambda: cpsrl.environment("gridworld", rows=11, columns=12),
    "river": lambda: cpsrl.environment("riverswim", n_states=160),
    "queues": queues,
    "multichain": lambda: islands(0.0),
    "nearly decomposable": lambda: islands(1e-7),
    "twins": twins,
    "dense": lambda: cpsrl.environment("random", n_states=150, n_actions=4, concentration=150.0),
}
hard = pytest.mark.parametrize("model", HARD)


def exact(mdp, gamma):
    policy, work = np.zeros(mdp.n_states, np.int64), kernels.workspace(mdp.n_states)
    plan = kernels.plan_average if gamma == 1 else kernels.plan_discounted
    plan(*kernels.thawed(mdp.dense, mdp.rewards), gamma, policy, work)
    return work.gain if gamma == 1 else work.value


@hard
@pytest.mark.parametrize("gamma", [0.5, 0.99, 1 - 1e-6])
def test_hard_models_are_solved_within_the_error_stated(model, gamma):
    mdp = HARD[model]()
    found = cpsrl.solve_discounted(mdp, gamma)
    distance = np.abs(found.value - exact(mdp, gamma)).max()
    assert distance <= found.error + 1e-13 / (1 - gamma)
    assert found.reached or (gamma > 0.999 and found.error < 1e-3)
    assert found.sweeps >= 1


@hard
def test_the_gain_of_hard_models_is_within_the_error_stated(model):
    mdp = HARD[model]()
    found = cpsrl.solve_average(mdp)
    assert found.reached
    assert np.abs(found.gain - exact(mdp, 1)).max() <= found.error + 1e-12
    _, bias = cpsrl.planning.gain_and_bias(mdp, found.policy)
    np.testing.assert_allclose(found.bias, bias, atol=1e-9 * (1 + np.abs(bias).max()))


def test_a_solution_says_how_it_was_found():
    small, slow = cpsrl.environment("riverswim"), HARD["grid"]()
    assert cpsrl.solve_discounted(small, 0.99).method == "policy iteration"
    assert cpsrl.solve_discounted(HARD["dense"](), 0.9).method == "modified policy iteration"
    found = cpsrl.solve_discounted(slow, 0.99)
    assert found.method == "modified policy iteration, BiCGSTAB"
    assert cpsrl.solve_average(slow).method == "modified policy iteration, BiCGSTAB"
    assert cpsrl.solve_average(islands(0.0)).method == "policy iteration, condensed chains"
    assert f"sweeps={found.sweeps}" in repr(found)


@hard
@pytest.mark.parametrize("gamma", [0.95, 1.0])
def test_passing_over_actions_leaves_the_bounds_as_they_were(model, gamma):
    mdp = HARD[model]()
    rng = np.random.default_rng(1)
    value = rng.random(mdp.n_states)
    sweeps = Sweeps(mdp, gamma, value, np.zeros(mdp.n_states, np.int64))
    for scale in (1.0, 0.1, 1e-3, -1e-3, 1e-6, 0.0):
        before = sweeps.value = sweeps.value + scale * rng.random(mdp.n_states)
        q = mdp.rewards + gamma * (mdp.csr @ before).reshape(mdp.rewards.shape)
        sweeps.improve()
        np.testing.assert_allclose(sweeps.value, q.max(axis=1), rtol=0, atol=1e-13)
        step = q.max(axis=1) - before
        assert abs(sweeps.low - step.min()) < 1e-13
        assert abs(sweeps.high - step.max()) < 1e-13
        chosen = q[np.arange(mdp.n_states), sweeps.policy]
        np.testing.assert_allclose(chosen, q.max(axis=1), rtol=0, atol=1e-13)


def test_actions_that_cannot_be_best_are_not_computed():
    mdp = cpsrl.environment("random", n_states=300, n_actions=8, successors=5, seed=2)
    sweeps = Sweeps(mdp, 0.9, np.zeros(300), np.zeros(300, np.int64))
    sweeps.run(1e-3, 50)
    q = mdp.rewards + 0.9 * (mdp.csr @ sweeps.value).reshape(mdp.rewards.shape)
    sweeps.improve()
    above = sweeps._steps._above + sweeps._risen
    assert (above >= q - 1e-13).all()
    assert np.mean(above > q + 1e-6) > 0.5


@pytest.mark.parametrize("model", ["grid", "dense"])
def test_a_value_that_was_not_a_number_hides_no_action_later(model):
    mdp = HARD[model]()
    sweeps = Sweeps(mdp, 0.9, np.zeros(mdp.n_states), np.zeros(mdp.n_states, np.int64))
    sweeps.improve()
    sweeps.value[7] = np.nan
    sweeps.improve()
    value = sweeps.value = np.random.default_rng(2).random(mdp.n_states)
    q = mdp.rewards + 0.9 * (mdp.csr @ value).reshape(mdp.rewards.shape)
    sweeps.improve()
    np.testing.assert_allclose(sweeps.value, q.max(axis=1), rtol=0, atol=1e-13)
    assert abs(sweeps.high - (q.max(axis=1) - value).max()) < 1e-13


def test_a_value_that_is_not_a_number_is_certified_by_nothing():
    mdp = HARD["grid"]()
    value = np.zeros(mdp.n_states)
    value[7] = np.nan
    sweeps = Sweeps(mdp, 0.9, value, np.zeros(mdp.n_states, np.int64))
    sweeps.improve()
    assert not np.isfinite(sweeps.width)


@pytest.mark.parametrize("model", ["grid", "twins", "nearly decomposable"])
def test_the_result_does_not_depend_on_the_number_of_threads(model, monkeypatch):
    mdp = HARD[model]()

    def solved():
        one, two = cpsrl.solve_discounted(mdp, 0.97), cpsrl.solve_average(mdp)
        return [one.policy, one.value, one.error, two.policy, two.gain, two.bias, two.error]

    alone = solved()
    monkeypatch.setattr(parallel, "PARALLEL_ENTRIES", 0)
    for number in (2, 3, 7):
        monkeypatch.setattr(parallel, "cores", lambda number=number: number)
        assert len(parallel.blocks(mdp)) == number
        for x, y in zip(alone, solved(), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("gamma", [0.9, 0.9999, 1.0])
@pytest.mark.parametrize("model", ["cycle", "grid", "river", "queues"])
def test_a_policy_evaluated_in_order_has_the_value_of_a_dense_solve(model, gamma):
    mdp = HARD[model]()
    rng = np.random.default_rng(0)
    policy = rng.integers(0, mdp.n_actions, mdp.n_states) if gamma < 1 else exact_policy(mdp)
    value = np.zeros(mdp.n_states)
    for _ in range(3):
        ordered.Order(mdp).evaluate(gamma, 0.0, value, policy, 1e-13)
    P, r = mdp.dense[np.arange(mdp.n_states), policy], mdp.rewards[range(mdp.n_states), policy]
    if gamma < 1:
        truth = np.linalg.solve(np.eye(mdp.n_states) - gamma * P, r)
        np.testing.assert_allclose(value, truth, atol=1e-11 / (1 - gamma))
    else:
        step = r + P @ value - value
        gain, bias = cpsrl.planning.gain_and_bias(mdp, policy)
        np.testing.assert_allclose(step, gain, atol=1e-11)
        np.testing.assert_allclose(value - value[0], bias - bias[0], atol=1e-8)


def exact_policy(mdp):
    return cpsrl.solve_average(mdp).policy


def test_what_a_krylov_method_cannot_solve_is_left_as_it_was():
    mdp = islands(0.0)
    value = np.random.default_rng(0).random(mdp.n_states)
    before = value.copy()
    policy = np.zeros(mdp.n_states, np.int64)
    moved, _ = ordered.Order(mdp).evaluate(1.0, 0.5, value, policy, 1e-12)
    P, r = cpsrl.planning.policy_chain(mdp, policy)
    assert np.isfinite(value).all()
    if not moved:
        np.testing.assert_array_equal(value, before)
    assert np.ptp(r + P @ value - value) <= np.ptp(r + P @ before - before)


def lumped(seed, n_groups, n_actions, spread, slow):
    """150 states in groups; from one, an action leads to `spread` states of a group of its own.

    With `slow`, only with a tiny probability, and else within the group.
    """
    rng, S = np.random.default_rng(seed), 150
    group, stay = np.arange(S) % n_groups, np.arange(n_groups)[:, None]
    to = rng.integers(n_groups, size=(n_groups, n_actions))
    to = to if slow else np.where(rng.random(to.shape) < 0.5, stay, to)
    leave = 2.0 ** -rng.integers(10, 34, to.shape) if slow else np.ones(to.shape)
    P = np.zeros((S, n_actions, S))
    for s, a in np.ndindex(S, n_actions):
        p = leave[group[s], a]
        for k, share in ((group[s], 1 - p), (to[group[s], a], p)):
            P[s, a, rng.choice(np.flatnonzero(group == k), spread, replace=False)] += share / spread
    return sparse(P, rng.random(to.shape)[group])


@pytest.mark.parametrize("scale", [2.0**660, 2.0**-660])
def test_the_krylov_method_does_not_ask_how_large_rewards_are(scale):
    mdp = islands(1e-3)
    policy, values = np.zeros(mdp.n_states, np.int64), []
    for factor in (1.0, scale):
        values.append(np.zeros(mdp.n_states))
        order = ordered.Order(sparse(mdp.dense, factor * mdp.rewards))
        assert order.evaluate(0.999, 0.0, values[-1], policy, 1e-9 * factor)[0]
    np.testing.assert_array_equal(values[1], scale * values[0])


def test_an_average_over_tolerance_only_by_its_coarse_bound_is_certified_by_the_sharp_one():
    rng, S, leave = np.random.default_rng(0), 129, 2.0**-24
    P = np.zeros((S, 1, S))
    P[np.arange(S), 0, np.arange(S)] = 1 - 3 * leave
    for _ in range(3):
        P[np.arange(S), 0, rng.integers(S, size=S)] += leave
    found = cpsrl.solve_average(sparse(P, rng.random((S, 1))))
    assert "BiCGSTAB" in found.method
    assert found.reached


@pytest.mark.parametrize(
    "model",
    [(404, 4, 3, 1, False), (26, 3, 2, 20, True)],
    ids=["values fall by rounding", "the Krylov method is stuck"],
)
def test_a_horizon_of_a_billion_steps_is_planned_for(model):
    found = cpsrl.solve_discounted(lumped(*model), 1 - 2.0**-30)
    assert found.error < 1e4  # of values up to 1e9, whose rounding alone makes 100
