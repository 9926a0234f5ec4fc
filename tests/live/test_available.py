"""Durable agents with networks take, learn from and explain available actions alone."""

import numpy as np
import pytest

import cpsrl
from cpsrl.live.labels import labels_of
from cpsrl.mdp.problem import FeatureSizes

pytest.importorskip("jax")

MASK = np.array([[True, False], [True, True]])
MDP = cpsrl.TabularMDP(
    np.full((2, 2, 2), 0.5), [[0.0, 0.0], [1.0, 1.0]], available=MASK, features=np.eye(2)
)
SPEC = cpsrl.BootstrappedDQN(hidden=(8,), batch=4, capacity=50)


def preferring_action_1(agent):
    """Let all the functions of an agent find action 1 best by far."""
    bias = max(name for name in agent.learner.online if name.startswith("b"))
    raised = {**agent.learner.online}
    raised[bias] = np.array(raised[bias])
    raised[bias][..., 1] += 1000.0
    agent.learner = agent.learner._replace(online=raised, target=raised)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_no_decision_is_an_unavailable_action(folder, epsilon):
    spec = cpsrl.BootstrappedDQN(hidden=(8,), batch=4, capacity=50, epsilon=epsilon)
    with cpsrl.open(folder / "a.db", spec, MDP) as agent:
        preferring_action_1(agent.agent)
        taken = [agent.decide(0).action for _ in range(100)]
        assert set(taken) == {0}
        if not epsilon:
            assert agent.decide(1).action == 1
        agent.outcome("#1", 0.5, 1)
    with cpsrl.open(folder / "a.db", None, MDP) as agent:
        assert {agent.decide(0).action for _ in range(100)} == {0}


def test_decisions_are_those_of_an_agent_that_knows_the_table(folder):
    live, state = cpsrl.start(SPEC, MDP), 0
    rng = np.random.default_rng(0)
    with cpsrl.open(folder / "a.db", SPEC, MDP) as agent:
        for _ in range(60):
            action, next_state = live.act(state), int(rng.integers(2))
            assert agent.act(state) == action
            reward = float(MDP.rewards[state, action])
            for one in (live, agent):
                one.observe(state, action, reward, next_state)
            state = next_state


def test_targets_look_ahead_to_available_actions_only(folder):
    live = cpsrl.open(folder / "a.db", SPEC, MDP).agent
    preferring_action_1(live)
    update = live.keep(live.entry(1, 0, 0.0, 0), 0.0)
    assert (update[2].next_available == MASK[0]).all()


def test_what_is_explained_is_available(folder):
    with cpsrl.open(folder / "a.db", SPEC, MDP) as agent:
        preferring_action_1(agent.agent)
        agent.decide(0)
        preferring_action_1(agent.agent)
        here, there = agent.explain(0), agent.explain(1)
    assert [(one.action, one.probability) for one in here.actions] == [(0, 1.0)]
    assert here.action == 0
    assert [one.probability for one in there.actions] == [0.0, 1.0]


def test_an_unavailable_action_is_no_transition(folder):
    with cpsrl.open(folder / "a.db", SPEC, MDP) as agent:
        with pytest.raises(ValueError, match="action 1 is not available in state 0"):
            agent.observe(0, 1, 0.5, 1)
        with pytest.raises(ValueError, match="action 1 is not available in state 0"):
            agent.learn([(0, 1, 0.5, 1)])


def test_sizes_can_say_it_without_a_model(folder):
    sizes = FeatureSizes(2, 2, features=np.eye(2), available=MASK)
    assert sizes == labels_of(MDP, SPEC).sizes
    assert sizes != FeatureSizes(2, 2, features=np.eye(2))
    agent = cpsrl.start(SPEC, sizes)
    preferring_action_1(agent)
    assert agent.act(0) == 0
    agent.save(folder / "agent")
    assert cpsrl.resume(folder / "agent").problem == sizes
    random = cpsrl.start(cpsrl.RandomAgent(), sizes)
    assert {random.decide(0) for _ in range(50)} == {0}
    for wrong, what in (
        ({"available": MASK}, "give the features"),
        ({"features": np.eye(3)}, r"features must be \(S, 2\), not \(3, 3\)"),
        ({"features": [[np.nan, 0.0]]}, r"features\[0, 0\] is nan; it must be a finite"),
        ({"features": np.eye(2), "available": [[False, False], [True, True]]}, "has no action"),
    ):
        with pytest.raises(ValueError, match=what):
            FeatureSizes(2, 2, **wrong)


def test_an_environment_of_pure_functions_has_all_its_actions():
    from networks.parts import Walk

    class Masked(Walk):
        available = MASK

    with pytest.raises(ValueError, match="is a TabularMDP with features and available"):
        cpsrl.start(SPEC, Masked())
