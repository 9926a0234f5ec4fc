"""Agents that go on with a problem, or as an agent, that has changed."""

import re
import sqlite3
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl import live as on_disk
from cpsrl.agents import Fleet
from cpsrl.agents.evolution import counts_in
from cpsrl.beliefs import Forgetting, Truncated
from cpsrl.beliefs.belief import started
from cpsrl.cli.main import main
from cpsrl.live.events import Kind
from cpsrl.mdp.problem import FeatureSizes

SHOP = (["empty", "some", "full"], ["wait", "order"])
BELIEFS = {
    "dense": cpsrl.Dirichlet(),
    "given": cpsrl.Dirichlet(transitions=0.25),
    "fading": Forgetting(half_life=50.0),
    "truncated": Truncated(span=50.0),
}


@pytest.fixture
def path(folder):
    return folder / "agent.db"


def live(agent, n, seed=0, states=SHOP[0], stream=None):
    """Let an agent act for a while, some outcomes late and some never."""
    rng, waiting = np.random.default_rng(seed), []
    for _ in range(n):
        state = states[rng.integers(len(states))]
        decision = agent.decide(state, stream=stream)
        waiting.append((decision.id, float(rng.random()), states[rng.integers(len(states))]))
        while len(waiting) > 3:
            agent.outcome(*waiting.pop(int(rng.integers(3))))
    for outcome in waiting[1:]:
        agent.outcome(*outcome)


def seen(agent):
    """What the agent has seen, as dense counts (S, A, S) and rewards (3, S, A)."""
    one = agent.agent
    prior = started(one.spec.belief, one.problem)
    found = counts_in(one.belief, prior, one.sizes)
    counts = np.zeros((one.sizes.n_states, one.sizes.n_actions, one.sizes.n_states))
    np.add.at(counts, (found.states, found.actions, found.next_states), found.counts)
    return counts, found.rewards


@pytest.mark.parametrize("name", BELIEFS)
def test_counts_of_what_is_still_there_are_kept(path, name):
    spec = cpsrl.ContinuingPSRL(0.9, belief=BELIEFS[name])
    with cpsrl.open(path, spec, SHOP, seed=2) as agent:
        live(agent, 200)
        before, rewards = seen(agent)
        step, resamples = agent.agent.step, agent.resamples
        said = agent.evolve(
            add_states=["closed"], retire_states=["some"], add_actions=["return"],
            retire_actions=["wait"], reward_range=(-2.0, 3.0),
        )  # fmt: skip
        after, now = seen(agent)
        assert after.shape == (3, 2, 3)
        np.testing.assert_allclose(after[:2, 0, :2], before[np.ix_([0, 2], [1], [0, 2])][:, 0])
        assert after.sum() == pytest.approx(after[:2, 0, :2].sum())
        np.testing.assert_allclose(now[1, :2, 0], rewards[1][[0, 2], 1])
        left = after[:2, 0].sum(axis=1)
        np.testing.assert_allclose(now[0, :2, 0], left)
        np.testing.assert_allclose(
            now[2, :2, 0] * rewards[0][[0, 2], 1], left * rewards[2][[0, 2], 1]
        )
        assert said.transitions == pytest.approx(after.sum())
        assert said.seen == pytest.approx(before.sum())
        assert "of or to what is no more" in str(said)
        assert (agent.agent.step, agent.resamples) == (step, resamples)
        assert agent.agent.sizes.reward_range == (-2.0, 3.0)
        agent.decide("closed")
        assert agent.resamples == resamples + 1, "the model of the new problem is drawn at once"
        assert {agent.decide("full").action for _ in range(50)} <= {"order", "return"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (cpsrl.ContinuingPSRL(0.9), cpsrl.TSDE()),
        (cpsrl.TSDE(), cpsrl.ContinuingPSRL(0.9)),
        (cpsrl.ContinuingPSRL(0.9), cpsrl.ContinuingPSRL(0.99)),
        (cpsrl.ContinuingPSRL(), cpsrl.ContinuingPSRL(belief=cpsrl.Dirichlet(transitions=1.0))),
        (cpsrl.DSPSRL(), cpsrl.ContinuingPSRL(0.9, belief=Forgetting(half_life=100.0))),
        (cpsrl.ContinuingPSRL(0.9, belief=Forgetting(half_life=100.0)), cpsrl.TSDE()),
    ],
)
def test_another_rule_objective_or_prior_takes_the_counts(path, before, after):
    with cpsrl.open(path, before, SHOP, seed=2) as agent:
        live(agent, 100)
        counts, rewards = seen(agent)
        agent.evolve(after)
        there, now = seen(agent)
        if isinstance(before.belief, Forgetting):  # whole numbers again
            counts = np.rint(counts)
            rewards[2] *= counts.sum(axis=2) / rewards[0]
            rewards[0] = counts.sum(axis=2)
        np.testing.assert_allclose(there, counts)
        np.testing.assert_allclose(now, rewards)
        live(agent, 50, seed=1)
        state = agent.agent.state()
    with cpsrl.open(path, after, SHOP) as agent:
        assert equal(agent.agent.state(), state)


def test_a_large_table_keeps_its_counts(path):
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), (200, 2)) as agent:
        live(agent, 100, states=range(200))
        counts, _ = seen(agent)
        agent.evolve(add_states=5, retire_states=[3, 7])
        left = np.delete(np.arange(200), [3, 7])
        there, now = seen(agent)
        np.testing.assert_array_equal(there[:198, :, :198], counts[np.ix_(left, [0, 1], left)])
        assert there[198:].sum() == there[:, :, 198:].sum() == now[0, 198:].sum() == 0
        live(agent, 20, states=range(10, 205))
        agent.evolve(retire_states=range(100, 205))
        agent.evolve(cpsrl.TSDE())
        assert agent.decide(0).action in (0, 1)
        assert seen(agent)[0].shape == (98, 2, 98)


@pytest.mark.parametrize("background", [0, 5])
def test_it_is_one_event_and_the_same_bit_for_bit_after_a_kill(path, folder, background):
    """A copy of the file at any moment, opened, is the agent of that moment."""
    agent = cpsrl.open(path, cpsrl.ContinuingPSRL(0.8), SHOP, journal="keep", background=background)
    live(agent, 40, stream="a")
    live(agent, 40, stream="b")
    agent.evolve(add_states=["closed"], retire_actions=["wait"])
    states = [*SHOP[0], "closed"]
    live(agent, 60, seed=3, states=states, stream="b")
    live(agent, 60, seed=3, states=states, stream="c")
    agent.backup(folder / "copy.db")
    with cpsrl.open(folder / "copy.db", create=False) as again:
        assert equal(again.agent.state(), agent.agent.state())
        assert equal(again.totals.state(), agent.totals.state())
        for one in (agent, again):
            live(one, 60, seed=4, states=states, stream="a")
        assert equal(again.agent.state(), agent.agent.state())
        again.check()
    with sqlite3.connect(path) as db:
        (kind, said), *more = db.execute("SELECT kind, id FROM events WHERE kind = 'evolve'")
    assert (kind, more) == (Kind.EVOLVE, [])
    assert '"add_states":["closed"]' in said
    agent.close()


def test_a_dry_run_and_a_refusal_change_nothing(path):
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), SHOP) as agent:
        live(agent, 60)
        state, event = agent.agent.state(), agent.event
        said = agent.evolve(retire_states=["some"], dry_run=True)
        assert 0 < said.transitions < said.seen
        for wrong, complaint in (
            ({"add_states": ["some"]}, "'some' occurs twice"),
            ({"add_states": "closed"}, "must be a list of labels"),
            ({"retire_states": ["gone"]}, "state must be one of"),
            ({"retire_states": SHOP[0]}, "no states left"),
            ({"reward_range": (1, 0)}, "low <= high"),
            ({}, "nothing would change"),
            ({"agent": cpsrl.ContinuingPSRL(0.9)}, "nothing would change"),
            ({"agent": cpsrl.UCRL2()}, "give forget=True"),
        ):
            with pytest.raises(ValueError, match=complaint):
                agent.evolve(**wrong)
        assert (agent.event, agent.labels.states) == (event, tuple(SHOP[0]))
        assert equal(agent.agent.state(), state)
        assert agent.evolve(cpsrl.UCRL2(), forget=True).transitions == 0
        assert agent.decide("some").action in SHOP[1]


@pytest.mark.skipif(find_spec("jax") is None, reason="networks need JAX")
def test_where_observations_are_vectors_the_range_and_the_agent_may_change(path):
    small = {"members": 2, "hidden": (8,), "batch": 4, "capacity": 60}
    spec, other = (cpsrl.BootstrappedDQN(gamma, **small) for gamma in (0.9, 0.95))
    with cpsrl.open(path, spec, FeatureSizes(4, 2)) as agent:
        for i in range(10):
            agent.outcome(agent.decide(np.eye(4)[i % 4]).id, 0.5, np.eye(4)[(i + 1) % 4])
        with pytest.raises(ValueError, match="to begin anew all the same, give forget=True"):
            agent.evolve(other)
        with pytest.raises(ValueError, match="of tables alone"):
            agent.evolve(add_states=2)
        agent.evolve(other, reward_range=(-1.0, 1.0), forget=True)
        agent.decide(np.eye(4)[0], id="a")
        state = agent.agent.state()
        agent._disk.end("was killed")
    with cpsrl.open(path) as agent:
        assert (agent.agent.spec, agent.labels.sizes.reward_range) == (other, (-1.0, 1.0))
        assert equal(agent.agent.state(), state)
        agent.outcome("a", 0.5, np.eye(4)[1])


def test_an_apprentice_stays_one_that_can_be_opened(path):
    with cpsrl.open(path, cpsrl.TSDE(), SHOP, apprentice=True) as agent:
        agent.decide("some", proposed="wait")
        event = agent.event
        for dry_run in (True, False):
            with pytest.raises(ValueError, match="UCRL2 can't be an apprentice"):
                agent.evolve(cpsrl.UCRL2(), forget=True, dry_run=dry_run)
        assert agent.event == event
    with cpsrl.open(path) as agent:
        assert (agent.label, agent.status()["apprentice"]) == ("TSDE", True)
        agent.decide("some", proposed="wait")
    with cpsrl.open(path, apprentice=False) as agent:
        agent.evolve(cpsrl.UCRL2(), forget=True)
    with pytest.raises(ValueError, match="UCRL2 can't be an apprentice"):
        cpsrl.open(path, apprentice=True)
    with cpsrl.open(path) as agent:
        assert agent.label == "UCRL2"


def test_an_agent_that_cannot_be_made_is_not_evolved_into_either(path):
    with cpsrl.open(path, cpsrl.TSDE(), SHOP) as agent:
        for wrong, complaint in (
            (cpsrl.TSDE, "agent must be one such as cpsrl.ContinuingPSRL()"),
            ("tsde", "agent must be one such as cpsrl.ContinuingPSRL()"),
            (Fleet(3), "a durable agent has streams by name"),
        ):
            for call in (agent.evolve, partial(cpsrl.open, path), partial(on_disk.view, path)):
                with pytest.raises(ValueError, match=re.escape(complaint)):
                    call(wrong)
        assert agent.event == 0


def test_what_was_retired_is_refused_and_may_come_back(path):
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), SHOP) as agent:
        waiting, other = agent.decide("some", id="w"), agent.decide("full", id="o")
        agent.evolve(retire_states=["some"])
        with pytest.raises(ValueError, match="the state 'some' was retired"):
            agent.decide("some")
        with pytest.raises(ValueError, match="the state 'some' was retired"):
            agent.outcome("w", 1.0, "full")
        with pytest.raises(ValueError, match="the state 'some' was retired"):
            agent.outcome("o", 1.0, "some")
        assert agent.decide("full", id="o").action == other.action
        agent.discard(waiting.id)
        agent.outcome("o", 1.0, "full")
        assert [one.action for one in agent.explain("full", draws=39).actions] == SHOP[1]
        agent.evolve(add_states=["some"])
        assert agent.labels.states == tuple(SHOP[0])
        live(agent, 20)
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), SHOP) as agent:
        assert agent.totals.visits.shape == (3, 2)


def test_from_the_shell(path, capsys):
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), SHOP) as agent:
        live(agent, 30)
    main(["agent", "evolve", str(path), "--add-actions", "return", "--dry-run"])
    assert "would be 3 states and 3 actions; 29 of 29 transitions" in capsys.readouterr().out
    main(["agent", "evolve", str(path), "--add-actions", "return", "--agent", "tsde"])
    assert "is now 3 states and 3 actions" in capsys.readouterr().out
    with cpsrl.open(path, cpsrl.TSDE(), (SHOP[0], [*SHOP[1], "return"])) as agent:
        assert agent.label == "TSDE"
