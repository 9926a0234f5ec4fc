"""The agent for those who name none."""

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.beliefs import InRange
from cpsrl.mdp.problem import FeatureSizes

COIN = cpsrl.Bernoulli(schedule="doubling", pairs=16)


def test_who_names_no_agent_gets_it(tmp_path):
    mdp = cpsrl.environment("riverswim")
    agent = cpsrl.start(mdp)
    assert isinstance(agent.spec, cpsrl.AdaptivePSRL)
    assert agent.spec == cpsrl.AdaptivePSRL() == cpsrl.start(cpsrl.Sizes(2, 2)).spec
    with cpsrl.open(tmp_path / "agent.db", problem=(["low", "high"], 2)) as durable:
        assert durable.agent.spec == cpsrl.AdaptivePSRL()
        for _ in range(30):
            one = durable.decide("low")
            durable.outcome(one.id, 0.0, "high")
        known = durable.explain("low").belief["parameters"]
        assert len(known) == 3, "of constant rewards, and of deterministic pairs by action"
        for share in known.values():
            assert share["low"] <= share["mean"] <= share["high"]
    with pytest.raises(FileNotFoundError, match="give its problem"):
        cpsrl.open(tmp_path / "other.db")


@pytest.mark.filterwarnings("ignore")
def test_vectors_get_networks():
    pytest.importorskip("jax")
    agent = cpsrl.start(FeatureSizes(3, 2))
    assert agent.spec == cpsrl.BootstrappedDQN()
    assert agent.act(np.zeros(3)) in (0, 1)


def test_it_learns_what_the_paper_prior_does_not():
    mdp = cpsrl.environment("catch")
    mine, theirs = (
        cpsrl.simulate(agent, mdp, 4000, 4).regret[:, -1].mean()
        for agent in (cpsrl.AdaptivePSRL(), cpsrl.TSDE())
    )
    assert mine < 0.6 * theirs


def test_streams_share_its_belief_under_a_coin():
    spec = cpsrl.AdaptivePSRL(COIN)
    assert spec.label == "Adaptive PSRL, doubling"
    agent = cpsrl.start(spec, cpsrl.Sizes(3, 2))
    for name in "abab":
        one = agent.stream(name)
        one.observe(0, one.act(0), 0.5, 1)
    assert agent.belief.facts()["equal_rewards"] + agent.belief.facts()["noisy_rewards"] >= 1
    with pytest.raises(ValueError, match="such as bernoulli"):
        cpsrl.start(cpsrl.AdaptivePSRL(), cpsrl.Sizes(3, 2)).stream("a")
    parts = {"rule": COIN, "objective": cpsrl.Average(), "belief": spec.belief}
    fleet = cpsrl.simulate(cpsrl.agents.Fleet(3, **parts), cpsrl.environment("riverswim"), 500, 2)
    assert np.isfinite(fleet.regret).all()


@pytest.mark.parametrize("n_states", [6, 140])
def test_it_goes_on_where_it_stopped(n_states):
    mdp = cpsrl.environment("riverswim", n_states=n_states)
    whole = cpsrl.start(mdp)
    state, states = 0, []
    for t in range(60):
        if t == 30:
            states.append(whole.state())
        action = whole.act(state)
        whole.observe(state, action, mdp.rewards[state, action], (state + action) % n_states)
        state = (state + action) % n_states
    again = cpsrl.start(mdp)
    again.restore(states[0])
    assert equal(again.state(), states[0])
    forgetting = cpsrl.beliefs.Forgetting(whole.spec.belief, 50.0)
    changed = cpsrl.simulate(cpsrl.TSDE(forgetting), mdp, 200, 1)
    assert np.isfinite(changed.regret).all()
    assert isinstance(whole.spec.belief.rewards, InRange)
