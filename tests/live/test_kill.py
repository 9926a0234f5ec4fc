"""SIGKILL at random moments: with "full" everything acknowledged is there, and nothing twice."""

from importlib.util import find_spec

import numpy as np
import pytest

from contracts.test_agents import equal
from live import driver
from live.forks import forked, was_killed


def run_and_be_killed(path, kind, decisions, written, seconds, calls=1, **options):
    """Go on in a child that is killed so soon; return what was acknowledged so far."""
    more = (options, calls, seconds)
    child = forked(driver.go_on_and_write, path, kind, decisions, written, *more)
    assert was_killed(child) == (calls is not None), "it ended by itself"
    return driver.acknowledged(written)


def killed_often(path, kind, decisions, kills):
    """Kill a client's process again and again, then let it end; return what was acknowledged.

    The kills come after so many calls that, however fast they are, it does not end before the last;
    every fifth comes while the agent is opened, the others in the midst of a call.
    """
    rng, written = np.random.default_rng(1), path.with_suffix(".acks")
    most = len(driver.operations(decisions)) // (2 * kills)
    for _ in range(kills):
        early = rng.random() < 0.2
        wait = float(rng.random() * (0.05 if early else 0.002))
        calls = 0 if early else int(rng.integers(1, most))
        found = run_and_be_killed(path, kind, decisions, written, wait, calls)
    assert len(found) < len(driver.operations(decisions)), "it was through before the last kill"
    return run_and_be_killed(path, kind, decisions, written, 0, calls=None)


def check_as_undisturbed(path, kind, decisions, acknowledged):
    """The agent at `path` is the one that nobody disturbed, now and in its next 1,000 actions."""
    twin, client = driver.twin(kind, decisions)
    assert [k for k, _ in acknowledged] == list(range(len(client.calls)))
    assert [a for k, a in acknowledged if client.calls[k][0] == "decide"] == client.actions
    with driver.opened(path, kind) as agent:
        assert agent.event == len(client.calls)
        assert equal(agent.agent.state(), twin.state())
        for t in range(1000):
            state = driver.shown(kind, t % driver.STATES)
            assert agent.agent.decide(state) == twin.decide(state)
        assert equal(agent.agent.state(), twin.state())
        agent._load()  # what was done to the live agent behind its back is not on disk
        finished = sum(call != "decide" for call, _ in client.calls)
        assert len(agent.pending()) == decisions - finished


@pytest.mark.parametrize("kind", ["coin", "tsde"])
def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(folder, kind):
    path = folder / "agent.db"
    acknowledged = killed_often(path, kind, 1500, 8)
    check_as_undisturbed(path, kind, 1500, acknowledged)


@pytest.mark.slow
def test_two_hundred_kills_over_twenty_thousand_decisions(folder):
    path = folder / "agent.db"
    acknowledged = killed_often(path, "coin", 20_000, 200)
    check_as_undisturbed(path, "coin", 20_000, acknowledged)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("jax") is None, reason="networks need JAX")
def test_networks_go_on_bit_for_bit_after_kills(folder):
    path = folder / "agent.db"
    acknowledged = killed_often(path, "networks", 600, 8)
    check_as_undisturbed(path, "networks", 600, acknowledged)


def test_a_group_that_is_killed_leaves_the_agent_of_an_earlier_moment(folder):
    lost = 0
    for calls in (1, 1000, 4000, 16_000):  # within the first group, and in later ones
        path = folder / f"{calls}.db"
        acknowledged = run_and_be_killed(
            *(path, "coin", 20_000, path.with_suffix(".acks"), 0.0, calls),
            durability="group",
            commit_every=0.03,
        )
        assert len(acknowledged) >= calls
        with driver.opened(path, "coin") as agent:
            twin, _ = driver.twin("coin", 20_000, agent.event)
            assert equal(agent.agent.state(), twin.state())
            lost += len(acknowledged) - agent.event
    assert lost > 0, "a kill within a group loses what was not committed"
