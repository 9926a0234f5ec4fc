"""Steps against the same in plain NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

import cpsrl
from cpsrl.planning import stationary_distribution
from cpsrl.planning.steps import SparseSteps, steps_of


def ragged(n_states=130, n_actions=3):
    """Return a sparse model whose rows have between 1 and 9 successors."""
    rng = np.random.default_rng(3)
    rows = sp.lil_array((n_states * n_actions, n_states))
    for row in range(rows.shape[0]):
        reached = rng.choice(n_states, rng.integers(1, 10), replace=False)
        rows[row, reached] = rng.dirichlet(np.ones(len(reached)))
    return cpsrl.TabularMDP(rows.tocsr(), rng.random((n_states, n_actions)))


MODELS = {
    "sparse": ragged,
    "dense": lambda: cpsrl.environment("random", n_states=131, n_actions=3, concentration=131),
}


def chain_of(mdp, policy):
    states = np.arange(mdp.n_states)
    return mdp.dense[states, policy], mdp.rewards[states, policy]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_the_chain_follows_the_policy(model, gamma):
    mdp, rng = MODELS[model](), np.random.default_rng(0)
    steps = steps_of(mdp, gamma)
    assert isinstance(steps, SparseSteps) == (model == "sparse")
    policy = rng.integers(3, size=mdp.n_states)
    for changed in (0, 1, 40, 130):
        policy[rng.choice(mdp.n_states, changed, replace=False)] = rng.integers(3, size=changed)
        P, r = chain_of(mdp, policy)
        v, step = rng.random(mdp.n_states), np.empty(mdp.n_states)
        change = r + gamma * P @ v - v
        taken = steps.policy(policy, v, step, 1, 0.0)
        np.testing.assert_allclose(step, v + change, rtol=0, atol=1e-13)
        assert taken.number == 1
        assert abs(taken.first - np.ptp(change)) < 1e-13
        assert abs(taken.low - change.min()) < 1e-13
        assert abs(taken.high - change.max()) < 1e-13


@pytest.mark.parametrize("model", MODELS)
def test_levelling_gives_the_stationary_mean(model):
    mdp = MODELS[model]()
    policy = np.zeros(mdp.n_states, np.int64)
    v = np.random.default_rng(1).random(mdp.n_states)
    mean = stationary_distribution(mdp, policy) @ v
    taken = steps_of(mdp, 1.0).policy(policy, v, np.empty_like(v), 1000, 1e-13, levelling=True)
    assert taken.number < 1000
    assert mean == pytest.approx(taken.low, abs=1e-12)
    assert mean == pytest.approx(taken.high, abs=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_steps_end_where_their_changes_agree(model):
    mdp = MODELS[model]()
    policy = np.ones(mdp.n_states, np.int64)
    _, r = chain_of(mdp, policy)
    v = np.zeros(mdp.n_states)
    taken = steps_of(mdp, 1.0).policy(policy, v, np.empty_like(v), 1000, 1e-9)
    gain = stationary_distribution(mdp, policy) @ r
    assert taken.high - taken.low <= 1e-9
    assert taken.low - 1e-12 <= gain <= taken.high + 1e-12
