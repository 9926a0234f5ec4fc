"""IMED-RL against its definition in plain NumPy and SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import cpsrl
from cpsrl.agents import IMEDRL
from cpsrl.agents.imed import choose, evidence, iterate_values

MDP = cpsrl.TabularMDP(
    np.random.default_rng(5).dirichlet(np.full(5, 0.5), (5, 3)),
    np.random.default_rng(6).random((5, 3)),
    noise="bernoulli",
)


def walked(steps):
    """Return an agent after some steps of chance, and what it has seen."""
    agent, world = cpsrl.start(IMEDRL(), MDP), MDP.simulator()
    rng, seen = np.random.default_rng(steps), []
    for _ in range(steps):
        state, action = world.state, int(rng.integers(3))
        reward, after = world.step(action)
        agent.observe(state, action, reward, after)
        seen.append((state, action, reward, after))
    return agent, seen


def estimates(seen):
    n, counts, sums = np.zeros((5, 3)), np.zeros((5, 3, 5)), np.zeros((5, 3))
    values = {(s, a): [0.5] for s in range(5) for a in range(3)}
    for s, a, r, after in seen:
        n[s, a] += 1
        counts[s, a, after] += 1
        sums[s, a] += r
        values[s, a].append(r)
    p, r = (counts + 1 / 5) / (n + 1)[:, :, None], (sums + 0.5) / (n + 1)
    return n, p, r, values


@pytest.mark.parametrize("steps", [60, 300, 2000])
def test_the_index_and_the_choice_are_those_of_the_definition(steps):
    agent, seen = walked(steps)
    n, p, r, values = estimates(seen)
    assert (n > 0).all()
    skeleton = n >= np.log(n.max(axis=1, keepdims=True)) ** 2
    arrays = agent.arrays
    np.testing.assert_array_equal(arrays.skeleton.reshape(5, 3), skeleton)
    iterate_values(arrays)
    phi = arrays.bias.copy()
    backed_up = np.where(skeleton, r + p @ phi, -np.inf).max(axis=1)
    np.testing.assert_allclose(backed_up - backed_up.min(), phi, atol=2e-3)
    top = 1 + phi.max()
    for s in range(5):
        q = r[s] + p[s] @ phi
        index = np.log(n[s])
        for a in np.flatnonzero(q < q.max()):
            v = (phi[:, None] + np.array(values[s, a])).ravel()
            w = np.repeat(p[s, a], len(values[s, a])) / len(values[s, a])
            mu = q.max()
            found = minimize_scalar(
                lambda x, v=v, w=w, mu=mu: -(w * np.log(top - (v - mu) * x)).sum(),
                bounds=(0, top / (top - mu) - 0.01),
                method="bounded",
                options={"xatol": 1e-12},
            )
            assert evidence(arrays, 3 * s + a, mu, top) == pytest.approx(-found.fun, abs=1e-7)
            index[a] -= n[s, a] * found.fun
        best = choose(arrays, s, 0.3, True)
        assert index[best] <= index.min() + 1e-6


def test_an_action_never_taken_comes_first_and_ties_fall_to_chance():
    agent = cpsrl.start(IMEDRL(), MDP)
    assert {choose(agent.arrays, 2, u, False) for u in (0.1, 0.5, 0.9)} == {0, 1, 2}
    agent.observe(2, 0, 1.0, 2)
    agent.observe(2, 2, 1.0, 2)
    assert {choose(agent.arrays, 2, u, False) for u in (0.1, 0.5, 0.9)} == {1}


def test_regret_is_that_of_the_public_package():
    """Of 10,000 steps each; see docs/suite.md for the package's own numbers."""
    runs = cpsrl.simulate(IMEDRL(), cpsrl.environment("rooms"), 10_000, 6)
    normalised = runs.regret[:, -1] / (10_000 * (runs.gain - 0.0028222))
    assert 0.13 < normalised.mean() < 0.19
