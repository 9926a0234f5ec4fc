"""The textbook's verbs against one another, and against the definition."""

import numpy as np
import pytest

import cpsrl
from cpsrl.planning import bellman_operator, discounted_value, greedy_policy, solve_discounted


@pytest.mark.parametrize("n_states", [6, 200])
def test_value_iteration_in_the_textbooks_words(n_states):
    mdp, gamma = cpsrl.environment("riverswim", n_states=n_states), 0.9
    value = np.zeros(n_states)
    for _ in range(400):
        value = bellman_operator(mdp, value, gamma)
    best = solve_discounted(mdp, gamma)
    np.testing.assert_allclose(value, best.value, atol=1e-6)
    policy = greedy_policy(mdp, value, gamma)
    np.testing.assert_allclose(discounted_value(mdp, policy, gamma), best.value, atol=1e-6)
    dense = mdp.dense @ value
    np.testing.assert_allclose(
        bellman_operator(mdp, value, gamma), (mdp.rewards + gamma * dense).max(axis=1), atol=1e-14
    )


def test_unavailable_actions_are_never_greedy():
    P = np.full((2, 2, 2), 0.5)
    mdp = cpsrl.TabularMDP(P, [[0, 9], [1, 0.0]], available=[[True, False], [True, True]])
    assert greedy_policy(mdp, [0.0, 0.0], 0.5).tolist() == [0, 0]
    assert bellman_operator(mdp, [0.0, 0.0], 0.5).tolist() == [0.0, 1.0]


def test_a_value_has_a_number_for_every_state():
    with pytest.raises(ValueError, match="6 finite numbers, one for each state"):
        bellman_operator(cpsrl.environment("riverswim"), [1.0, 2.0], 0.9)
