"""The agents with names of their own are one kind with the agents that they are settings of."""

import copy
import pickle

import pytest

import cpsrl
from cpsrl.agents import AGENTS, presets
from cpsrl.agents.codec import as_call, from_tree, settings_of, to_tree
from cpsrl.networks import ValueSampling

ALONE = (cpsrl.PSRL(), cpsrl.RandomAgent(), cpsrl.UCRL2(), ValueSampling())
OF = {
    presets.ContinuingPSRL: cpsrl.PSRL,
    presets.TSDE: cpsrl.PSRL,
    presets.DSPSRL: cpsrl.PSRL,
    presets.CountDoublingPSRL: cpsrl.PSRL,
    presets.FixedLengthPSRL: cpsrl.PSRL,
    presets.EveryStepPSRL: cpsrl.PSRL,
    cpsrl.DQN: ValueSampling,
    cpsrl.BootstrappedDQN: ValueSampling,
}


@pytest.mark.parametrize("kind", OF, ids=lambda kind: kind.__name__)
def test_what_a_class_makes_is_an_instance_of_it_and_of_its_base(kind):
    agent = kind()
    assert isinstance(kind, type)
    assert issubclass(kind, OF[kind])
    assert isinstance(agent, kind)
    assert isinstance(agent, OF[kind])
    assert type(agent) is OF[kind]
    assert repr(agent).startswith(f"{OF[kind].__name__}(")
    assert isinstance(copy.deepcopy(agent), kind)
    assert isinstance(pickle.loads(pickle.dumps(agent)), kind)
    assert isinstance(from_tree(to_tree(agent)), kind)
    assert settings_of(agent)["kind"] == OF[kind].__name__
    assert as_call(agent).startswith(f"{OF[kind].__name__}(")
    others = {other for other in OF if other is not kind and isinstance(agent, other)}
    assert others == ({cpsrl.BootstrappedDQN} if kind is cpsrl.DQN else set())
    for one in (3, None, kind, *ALONE[1:3]):
        assert not isinstance(one, kind)


def test_an_agent_is_what_its_parts_say_however_it_was_made():
    assert isinstance(cpsrl.PSRL(cpsrl.TSDEStops(), cpsrl.Average()), cpsrl.TSDE)
    assert not isinstance(cpsrl.PSRL(cpsrl.TSDEStops(), cpsrl.Discounted(0.9)), cpsrl.TSDE)
    assert isinstance(cpsrl.PSRL(cpsrl.Bernoulli(0.9)), cpsrl.ContinuingPSRL)
    other_rate = cpsrl.PSRL(cpsrl.Bernoulli(0.9), cpsrl.Discounted(0.99))
    assert not isinstance(other_rate, cpsrl.ContinuingPSRL)
    assert not isinstance(cpsrl.BootstrappedDQN(members=2), cpsrl.DQN)


def test_settings_that_are_handed_on_are_options():
    known = AGENTS.options("dqn")
    own = ["gamma", "epsilon", "objective", "label", "hidden", "learning_rate", "batch"]
    assert list(known) == [*own, "target_every", "capacity", "anneal"]
    assert known["batch"].default == 32
    assert AGENTS.options("bootstrapped-dqn")["hidden"].default == (50, 50)
    with pytest.raises(ValueError, match="unknown option 'member' in agent 'bootstrapped-dqn'"):
        AGENTS.make("bootstrapped-dqn", member=3)
    with pytest.raises(TypeError, match="memers"):
        cpsrl.BootstrappedDQN(memers=3)
