"""Taxi and FrozenLake, against Gymnasium's own tables."""

import re

import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average

gymnasium = pytest.importorskip("gymnasium")

PLACES = ("R", "G", "Y", "B", "taxi")


def table(env):
    """Their table as a continuing model, the reset in the same step: transitions and means."""
    their = env.unwrapped
    n_states, n_actions = their.observation_space.n, their.action_space.n
    transitions, rewards = (
        np.zeros((n_states, n_actions, n_states)),
        np.zeros((n_states, n_actions)),
    )
    for s in range(n_states):
        for a in range(n_actions):
            for chance, following, reward, ended in their.P[s][a]:
                rewards[s, a] += chance * reward
                if ended:
                    transitions[s, a] += chance * their.initial_state_distrib
                else:
                    transitions[s, a, following] += chance
    return transitions, rewards


def check(mdp, env, theirs):
    """`theirs` `(S,)`: their number of each of our states."""
    transitions, rewards = table(env)
    np.testing.assert_allclose(mdp.rewards, rewards[theirs], atol=1e-15)
    np.testing.assert_allclose(mdp.dense, transitions[theirs][:, :, theirs], atol=1e-15)
    np.testing.assert_allclose(transitions[theirs][:, :, theirs].sum(axis=2), 1, atol=1e-12)
    initial = np.zeros(mdp.n_states)
    initial[:] = (
        np.arange(mdp.n_states) == mdp.initial if isinstance(mdp.initial, int) else mdp.initial
    )
    np.testing.assert_allclose(initial, env.unwrapped.initial_state_distrib[theirs], atol=1e-15)


@pytest.mark.parametrize(("lake", "gain"), [("4x4", 0.017973856209), ("8x8", 0.010614143812)])
def test_frozen_lake_is_gymnasiums(lake, gain):
    mdp, size = environment("frozen-lake", lake=lake), int(lake[0])
    places = [tuple(map(int, re.findall(r"\d+", name))) for name in mdp.state_names]
    theirs = [i * size + j for i, j in places]
    check(mdp, gymnasium.make("FrozenLake-v1", map_name=lake), theirs)
    best = solve_average(mdp)
    assert best.error < 1e-12
    np.testing.assert_allclose(best.gain, gain, atol=1e-12)


def test_frozen_lake_that_does_not_slip_is_gymnasiums():
    mdp = environment("frozen-lake", slip=0.0)
    places = [tuple(map(int, re.findall(r"\d+", name))) for name in mdp.state_names]
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    check(mdp, env, [4 * i + j for i, j in places])
    np.testing.assert_allclose(solve_average(mdp).gain, 1 / 6, atol=1e-12)


def test_taxi_is_gymnasiums():
    mdp, env = environment("taxi"), gymnasium.make("Taxi-v4")
    theirs = []
    for name in mdp.state_names:
        i, j, place, goal = re.fullmatch(r"at (\d) (\d), passenger (\w+), to (\w)", name).groups()
        passenger, destination = PLACES.index(place), PLACES.index(goal)
        theirs.append(env.unwrapped.encode(int(i), int(j), passenger, destination))
    check(mdp, env, theirs)
    best = solve_average(mdp)
    assert best.error < 1e-9
    np.testing.assert_allclose(best.gain, 0.606732976282, atol=1e-11)


def test_an_unknown_lake_is_refused():
    with pytest.raises(ValueError, match="unknown lake '4x5' in frozen-lake: did you mean '4x4'"):
        environment("frozen-lake", lake="4x5")
