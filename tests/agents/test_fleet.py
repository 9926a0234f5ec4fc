"""Fleets: what each agent of one is, and what they may not be."""

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.agents import Fleet
from cpsrl.seeding import Streams

RIVER = cpsrl.environment("riverswim")
COIN = cpsrl.Bernoulli(0.9)


def started(n=3, run=0):
    return Fleet(n, rule=COIN).start(RIVER, Streams(1, run))


def go(agents, rounds):
    """Let agents act in turn, each in a world of its own that is always in the same state."""
    done = []
    for t in range(rounds):
        for agent in agents:
            action = agent.act(t % 6)
            agent.observe(t % 6, action, 0.1, (t + action) % 6)
            done.append(action)
    return done


def test_streams_share_a_belief_and_have_clocks_coins_and_policies_of_their_own():
    lead = started()
    agents = [lead, *lead.members.values()]
    go(agents, 60)
    assert [agent.step for agent in agents] == [61] * 3
    assert len({tuple(agent.rule_buffer.resample[:60]) for agent in agents}) == 3
    assert len({agent.resamples for agent in agents} | {0}) > 2
    seen = lead.belief.arrays.rewards.seen
    assert seen.sum() == 180
    for agent in agents:
        assert agent.belief is lead.belief
    policies = [agent.policy for agent in agents]
    policies[1][:] = 7
    assert (policies[0] != 7).all()
    assert (policies[2] != 7).all()


def test_a_stream_is_the_same_whenever_it_joins():
    early, late = started(1), started(1)
    early.join(["shop", "yard"])
    go([late], 5)
    late.stream("yard")
    late.stream("shop")
    for name in ("shop", "yard"):
        assert equal(early.stream(name).streams.state(), late.stream(name).streams.state())
    assert early.stream("shop") is early.members["shop"]
    draws = {one.streams.rule.random() for one in (early, *early.members.values())}
    assert len(draws) == 3


def test_state_and_restore():
    one, other = started(), started(run=4)
    agents = [one, *one.members.values()]
    go(agents, 40)
    stored = one.state()
    other.restore(stored)
    assert equal(other.state()["members"], stored["members"])
    again = [other, *other.members.values()]
    assert go(agents, 40) == go(again, 40)
    assert equal(one.state(), other.state())
    before = other.state()
    for damage in ({"policy": np.full(6, 9)}, {"clock": np.zeros(3, np.int64)}, {"streams": 3}):
        broken = stored | {"members": [stored["members"][0] | damage]}
        with pytest.raises(ValueError, match=r"damaged|does not fit|streams are"):
            other.restore(broken)
    with pytest.raises(ValueError, match="a stored stream is damaged"):
        other.restore(stored | {"members": [{"name": "1"}]})
    assert equal(other.state(), before)


def test_saved_and_resumed(tmp_path):
    lead = started()
    go([lead, *lead.members.values()], 30)
    lead.save(tmp_path / "fleet")
    again = cpsrl.resume(tmp_path / "fleet")
    assert again.spec == lead.spec
    assert go([lead, *lead.members.values()], 30) == go([again, *again.members.values()], 30)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fleet(0), "n must be a whole number of at least 1"),
        (lambda: Fleet(10**7), "n must be at most 100000, not 10000000"),
        (
            lambda: cpsrl.start(Fleet(10**5), cpsrl.Sizes(10**5, 1)),
            "the policies of a fleet would be 100,000 x 100,000 numbers",
        ),
        (lambda: Fleet(2, "both"), "unknown draws 'both'"),
        (lambda: Fleet(2, rule=cpsrl.TSDEStops()), "has no gamma to plan with"),
        (
            lambda: Fleet(2, rule=cpsrl.TSDEStops(), objective=cpsrl.Average()),
            "'TSDE' looks at the visits of one agent",
        ),
        (lambda: cpsrl.start(cpsrl.TSDE(), RIVER).stream("shop"), "looks at the visits of one"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
