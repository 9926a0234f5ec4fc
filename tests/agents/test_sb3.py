"""Policies with Stable-Baselines3's `predict`."""

import numpy as np
import pytest

import cpsrl


class Policy:
    """A table of actions with the signature of Stable-Baselines3, and its return types."""

    def __init__(self, actions):
        self.actions, self.starts = np.asarray(actions), []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert isinstance(observation, np.ndarray)
        assert observation.shape == ()
        self.starts.append(bool(episode_start[0]))
        return self.actions[observation], state


class Recurrent:
    """Left and right in turn, which it keeps in its state."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        count = 0 if state is None or episode_start[0] else int(state[0])
        return np.array([count % 2]), (count + 1,)


def test_its_regret_is_exact():
    mdp = cpsrl.environment("riverswim")
    best = cpsrl.solve_average(mdp, bias_optimal=True).policy
    runs = cpsrl.simulate(Policy(best), mdp, 500, seeds=3, seed=2)
    optimal = cpsrl.simulate(cpsrl.agents.OptimalAgent(), mdp, 500, seeds=3, seed=2)
    np.testing.assert_allclose(runs.regret, optimal.regret, atol=1e-9)
    assert runs.agents == ("Policy",)
    left = cpsrl.simulate(Policy(np.zeros(6, int)), mdp, 100, seeds=1, record=100)
    assert left.regret[0, -1] == pytest.approx(100 * (7203 / 16805 - 0.005))


def test_an_episode_starts_once_and_memory_is_every_runs_own():
    mdp = cpsrl.environment("riverswim")
    policy = Policy(np.ones(6, int))
    cpsrl.simulate(policy, mdp, 50, seeds=1)
    assert policy.starts == [True] + [False] * 49
    runs = cpsrl.simulate(Recurrent(), mdp, 50, seeds=4, trajectory=True)
    for path in runs.trajectory:
        np.testing.assert_array_equal(path["actions"], np.arange(50) % 2)


def test_it_sees_features_where_there_are_some():
    mdp = cpsrl.environment("riverswim", features="one-hot")

    class Sees:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            assert observation.dtype == np.float32
            return int(observation[:3].any()), None

    path = cpsrl.simulate(Sees(), mdp, 60, seeds=1, trajectory=True).trajectory[0]
    np.testing.assert_array_equal(path["actions"], path["states"][:-1] < 3)


def test_it_sees_observations_where_there_are_no_tables():
    pytest.importorskip("jax")
    sea = cpsrl.environment("pixel-deep-sea", size=4, mapping=None)

    class Dives:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            assert (observation.shape, observation.dtype) == ((10,), np.float32)
            return int(observation[[0, 2, 5, 9]].any()), None

    runs = cpsrl.simulate(Dives(), sea, 40, seeds=2)
    np.testing.assert_allclose(runs.regret[:, -1], 0, atol=1e-5)


def test_what_predicts_nonsense_is_refused():
    with pytest.raises(ValueError, match="action must be a whole number"):
        cpsrl.simulate(Policy(np.full(6, 2)), cpsrl.environment("riverswim"), 10, seeds=1)
    with pytest.raises(ValueError, match="or with the predict of"):
        cpsrl.simulate(object(), cpsrl.environment("riverswim"), 10, seeds=1)
