"""The rank of features and dormant units, of features that are known and of agents."""

import numpy as np
import pytest

import cpsrl
from cpsrl.networks import DQN, Heads, ValueSampling
from cpsrl.networks.plasticity import of_features, plasticity

pytest.importorskip("jax")


def test_features_of_a_known_rank():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(200, 8)))[0]
    assert of_features(basis) == (8, 0.0)
    assert of_features(basis[:, :1] @ np.ones((1, 8)))[0] == 1
    assert of_features(basis * [100, 100, 100, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4]) == (3, 5 / 8)
    assert of_features(np.zeros((5, 4))) == (0, 1.0)


def test_of_an_agent_it_is_that_of_its_last_hidden_layer_on_what_it_saw_last():
    world = cpsrl.environment("pixel-catch", rows=4, columns=3)
    agent = cpsrl.start(DQN(hidden=(9, 7), batch=4, capacity=30), world)
    assert plasticity(agent) is None
    simulator = world.simulator()
    for _ in range(40):
        state = simulator.state
        action = agent.act(state)
        reward, after = simulator.step(action)
        agent.observe(state, action, reward, after)
    weights = agent.learner.online
    hidden = agent.vectors(agent.replay["observation"]).astype(np.float64)
    for layer in range(2):
        hidden = np.maximum(hidden @ weights[f"w{layer}"][0] + weights[f"b{layer}"][0], 0)
    found = plasticity(agent)
    assert found.units == 7
    assert found[1:] == pytest.approx(of_features(hidden))
    idle = np.array(weights["w1"]), np.array(weights["b1"])
    idle[0][..., :3], idle[1][..., :3] = 0, -1
    online = {**weights, "w1": idle[0], "b1": idle[1]}
    agent.learner = agent.learner._replace(online=online)
    assert plasticity(agent).dormant >= 3 / 7
    assert plasticity(cpsrl.start(ValueSampling(belief=Heads(hidden=())), world)) is None
