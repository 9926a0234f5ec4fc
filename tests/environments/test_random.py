import numpy as np
import pytest
from scipy.stats import chisquare

from cpsrl.environments import environment
from cpsrl.environments.random_mdp import random_subsets


def test_equal_seeds_agree_and_different_seeds_differ():
    first, again, other = (environment("random", seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.dense, again.dense)
    np.testing.assert_array_equal(first.rewards, again.rewards)
    assert not np.array_equal(first.dense, other.dense)
    assert not np.array_equal(first.rewards, other.rewards)


@pytest.mark.parametrize("concentration", [1.0, 10.0])
def test_rows_have_the_moments_of_the_dirichlet(concentration):
    n = 20
    mdp = environment("random", n_states=n, n_actions=500, concentration=concentration)
    assert mdp.dense.mean() == pytest.approx(1 / n)
    variance = (1 / n) * (1 - 1 / n) / (concentration + 1)
    assert mdp.dense.var() == pytest.approx(variance, rel=0.05)


def test_rewards_are_uniform_on_the_unit_interval():
    rewards = environment("random", n_states=100, n_actions=50).rewards
    assert rewards.min() >= 0
    assert rewards.max() <= 1
    assert rewards.mean() == pytest.approx(1 / 2, abs=0.02)
    assert rewards.var() == pytest.approx(1 / 12, rel=0.05)


def test_a_sparse_model_has_so_many_successors_a_row():
    mdp = environment("random", n_states=2_000, n_actions=10, successors=10, concentration=10.0)
    assert mdp.is_sparse
    assert (np.diff(mdp.csr.indptr) == 10).all()


def test_subsets_are_distinct_and_uniform():
    subsets = np.sort(random_subsets(np.random.default_rng(0), 20_000, 6, 3), axis=1)
    assert (np.diff(subsets, axis=1) > 0).all()
    _, counts = np.unique(subsets, axis=0, return_counts=True)
    assert len(counts) == 20
    assert chisquare(counts).pvalue > 0.01


def test_noise_is_that_of_the_model():
    assert environment("random", noise="bernoulli").noise == "bernoulli"
    assert environment("random", noise=0.5).noise == 0.5


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"concentration": 0.0}, "concentration must be a number above 0, not 0.0"),
        ({"concentration": float("nan")}, "concentration must be a number above 0, not nan"),
        ({"successors": 11}, "successors must be at most n_states = 10, not 11"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"n_actions": 0}, "n_actions must be a whole number of at least 1, not 0"),
    ],
)
def test_wrong_options_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        environment("random", **options)
