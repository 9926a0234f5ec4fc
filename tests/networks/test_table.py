"""A table as pure functions: the next states and rewards of the MDP."""

import numpy as np
import pytest

from cpsrl.mdp import TabularMDP
from cpsrl.mdp.simulator import draw_place

Table = pytest.importorskip("cpsrl.networks.table").Table


def test_ranks_give_the_next_states_and_rewards_of_the_mdp():
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.full(7, 0.3), size=(7, 3))
    transitions[rng.random((7, 3, 7)) < 0.4] = 0
    transitions[..., 0] += 1 - transitions.sum(-1)
    mdp = TabularMDP(transitions, rng.random((7, 3)), noise="bernoulli", features=np.eye(7))
    table = Table(mdp)
    rows = table.pure()
    cumulative = mdp.cdf[2]
    edges = np.concatenate([cumulative, np.nextafter(cumulative, 0), np.nextafter(cumulative, 1)])
    for u in np.concatenate([edges[edges < 1], rng.random(500), [0.0, np.nextafter(1, 0)]]):
        rank = np.searchsorted(table._cumulative, u, side="right")
        passed = (rows.levels < rank).sum(1)
        got = rows.successors[np.arange(21), passed]
        places = [draw_place(mdp.dynamics.successors, row, u) for row in range(21)]
        assert got.tolist() == mdp.dynamics.successors.states[places].tolist()
    means = mdp.rewards.ravel()
    for u in np.concatenate([means, np.nextafter(means, 0), rng.random(100)]):
        rank = np.searchsorted(table._means, u, side="right")
        np.testing.assert_array_equal(rank <= rows.rewards, u < means)
