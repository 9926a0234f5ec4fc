"""What every registered environment keeps to."""

import inspect

import numpy as np
import pytest

from cpsrl.environments import ENVIRONMENTS, environment, environments
from cpsrl.mdp import TabularMDP, models_of
from cpsrl.mdp.files import write_mdp
from cpsrl.planning import solve_average

every = pytest.mark.parametrize("name", environments())


@every
def test_rows_sum_to_one_and_rewards_are_finite(name):
    mdp = environment(name)
    assert mdp.name == name
    for model in models_of(mdp):
        np.testing.assert_allclose(model.csr.sum(axis=1), 1, atol=1e-12)
        assert np.isfinite(model.rewards).all()


@every
def test_is_documented_and_has_a_default_for_every_option(name):
    assert len(ENVIRONMENTS.summary(name)) > 20
    for parameter in ENVIRONMENTS.options(name).values():
        assert parameter.default is not inspect.Parameter.empty
        assert parameter.annotation is not inspect.Parameter.empty


@every
def test_a_wrong_option_is_refused(name):
    with pytest.raises(ValueError, match=f"unknown option 'colour' in environment '{name}'"):
        environment(name, colour="red")


@every
def test_every_state_is_reached_from_the_start_under_some_policy(name):
    mdp = models_of(environment(name))[0]
    start = np.arange(mdp.n_states) == mdp.initial
    if isinstance(mdp.initial, np.ndarray):
        start = mdp.initial > 0
    reached, before = start, None
    arrows = mdp.dense.max(axis=1) > 0
    while before is None or reached.sum() > before.sum():
        before, reached = reached, reached | (reached @ arrows)
    assert reached.all()


@every
def test_the_simulator_follows_the_model(name):
    world = environment(name)
    simulator, actions = world.simulator(seed=1), np.random.default_rng(0)
    mdp = models_of(world)[0]  # a world that changes stays so for longer
    if isinstance(mdp.initial, int):
        assert simulator.state == mdp.initial
    for _ in range(200):
        state, action = simulator.state, int(actions.integers(mdp.n_actions))
        reward, next_state = simulator.step(action)
        paid = mdp.rewards[state, action]
        if mdp.transition_rewards is not None:
            first, end = mdp.csr.indptr[state * mdp.n_actions + action :][:2]
            place = first + list(mdp.csr.indices[first:end]).index(next_state)
            paid = mdp.transition_rewards[place]
        assert reward == paid
        assert next_state == simulator.state
        assert mdp.dense[state, action, next_state] > 0


@every
def test_equal_seeds_agree_and_different_seeds_differ(name):
    mdp = environment(name)

    def states(seed, run=0):
        simulator, actions = mdp.simulator(seed, run), np.random.default_rng(0)
        return [simulator.step(int(actions.integers(mdp.n_actions)))[1] for _ in range(500)]

    assert states(7) == states(7)
    if (models_of(mdp)[0].csr.data == 1).all() and isinstance(mdp.initial, int):
        return  # nothing is left to chance
    assert states(7) != states(8)
    assert states(7) != states(7, run=1)


@every
def test_the_model_is_the_same_every_time(name):
    models = models_of(environment(name)), models_of(environment(name))
    for first, again in zip(*models, strict=True):
        assert (first.csr != again.csr).nnz == 0
        np.testing.assert_array_equal(first.rewards, again.rewards)


@every
@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_comes_back_from_a_file_as_it_was(name, suffix, tmp_path):
    mdp = models_of(environment(name))[0]
    write_mdp(mdp, tmp_path / f"mdp{suffix}")
    back = TabularMDP.load(tmp_path / f"mdp{suffix}")
    np.testing.assert_array_equal(back.dense, mdp.dense)
    np.testing.assert_array_equal(back.rewards, mdp.rewards)
    np.testing.assert_array_equal(back.initial, mdp.initial)
    assert back.noise == mdp.noise
    assert back.state_names == mdp.state_names
    assert back.action_names == mdp.action_names


@every
def test_features_are_attached(name):
    mdp = environment(name, features="projection", feature_dimension=3)
    assert mdp.features.shape == (mdp.n_states, 3)


@every
def test_can_be_solved(name):
    for model in models_of(environment(name)):
        best = solve_average(model)
        assert best.error <= 1e-8
        assert np.ptp(best.gain) < 1e-8
