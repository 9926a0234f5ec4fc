"""Actions that are allowed for one request, and apprentices."""

import time

import numpy as np
import pytest
from starlette.testclient import TestClient

import cpsrl
from contracts.test_agents import equal
from cpsrl.live import Conflict
from cpsrl.live.app import app
from cpsrl.live.apprentice import SURE

PROBLEM = (["idle", "busy"], ["wait", "go", "stop"])
COIN = cpsrl.ContinuingPSRL(0.9)


@pytest.fixture
def path(folder):
    return folder / "agent.db"


def taught(agent, n=300):
    """`go` pays most, `wait` less, `stop` nothing."""
    rows = [("idle", a, r, "idle") for a, r in (("wait", 0.5), ("go", 1.0), ("stop", 0.0))]
    rows += [("busy", a, r, "idle") for _, a, r, _ in rows]
    agent.learn(rows * (n // len(rows)))


@pytest.mark.parametrize("spec", [cpsrl.ContinuingPSRL(0.9), cpsrl.TSDE()])
def test_the_best_of_those_allowed_is_taken(path, spec):
    with cpsrl.open(path, spec, PROBLEM, journal="keep") as agent:
        taught(agent)
        for t in range(60):
            every, two, one = ("go", "wait"), ("stop", "wait"), ("stop",)
            allowed = (every, two, one)[t % 3]
            decision = agent.decide("idle", id=f"d{t}", actions=allowed)
            assert decision.action == (*every[:1], *two[1:], *one)[t % 3]
            agent.outcome(decision.id, 0.5, "idle")
        with pytest.raises(Conflict, match="'wait', which is not allowed now"):
            agent.decide("idle", id="d1", actions=["go"])
        assert agent.decide("idle", id="d1", actions=["wait"]).action == "wait"
        assert agent.decide("idle", id="d1").action == "wait"
        for wrong, complaint in (
            ([], "none of actions"),
            ("go", "a list of"),
            (["run"], "must be one of"),
        ):
            with pytest.raises(ValueError, match=complaint):
                agent.decide("idle", actions=wrong)
        state = agent.agent.state()
        agent._disk.end("was let go without a word")
    with cpsrl.open(path) as again:
        assert equal(again.agent.state(), state), "what is repeated is what was done"
        again.check()


def test_whom_it_can_be_asked_of(path, folder):
    with (
        cpsrl.open(path, cpsrl.UCRL2(), (2, 2)) as agent,
        pytest.raises(ValueError, match="can't choose among some actions only"),
    ):
        agent.decide(0, actions=[1])
    available = cpsrl.Sizes(2, 2, available=[[True, False], [True, True]])
    with cpsrl.open(folder / "b.db", cpsrl.TSDE(), available) as agent:
        assert agent.decide(0, actions=[0, 1]).action == 0
        with pytest.raises(ValueError, match="none of actions is available in 0"):
            agent.decide(0, actions=[1])


def worked(agent, n, rng, told, first=0):
    """Let somebody propose actions to an apprentice; return how often its own was another one."""
    other = 0
    for t in range(first, first + n):
        state = PROBLEM[0][t % 2]
        proposed = PROBLEM[1][rng.choice(3, p=told)]
        decision = agent.decide(state, id=f"d{t}", proposed=proposed)
        other += decision.action != proposed
        reward = {"wait": 0.5, "go": 1.0, "stop": 0.0}[decision.action]
        agent.outcome(decision.id, reward + 0.1 * rng.standard_normal(), PROBLEM[0][(t + 1) % 2])
    return other


def test_an_apprentice_takes_over_once_it_is_better(path):
    rng, options = np.random.default_rng(1), {"apprentice": True, "journal": "keep"}
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), PROBLEM, **options) as agent:
        assert worked(agent, 40, rng, [0.5, 0.3, 0.2]) == 0
        with pytest.raises(ValueError, match="say what, as proposed="):
            agent.decide("idle")
        others = [action for action in agent.labels.actions if action != "wait"]
        with pytest.raises(ValueError, match="proposed must be one of actions, not 'wait'"):
            agent.decide("idle", actions=others, proposed="wait")
        assert agent.status()["apprentice"]
        state = agent.agent.state()
        agent._disk.end("was let go without a word")
    with cpsrl.open(path) as agent:
        assert equal(agent.agent.state(), state)
        worked(agent, 110, rng, [0.5, 0.3, 0.2], 40)
        end = time.monotonic() + 600
        while agent.status()["apprentice"]:
            assert time.monotonic() < end, agent.verdict()
            time.sleep(0.01)
        (event,) = (one for one, _ in agent._database.events(1, 0) if one.kind == "take over")
        assert float(event.id.removeprefix("better with probability ")) >= SURE
        assert agent.decide("idle").action in PROBLEM[1], "nobody need propose anything now"
        worked(agent, 40, rng, [0.5, 0.3, 0.2], 150)
    with cpsrl.open(path) as agent:
        assert not agent.status()["apprentice"]


def test_it_keeps_to_what_was_tried_until_it_is_freed(path):
    rng = np.random.default_rng(3)
    with cpsrl.open(path, COIN, PROBLEM, apprentice=True, journal="keep") as agent:
        worked(agent, 300, rng, [0.7, 0.3, 0.0])
        agent.take_over()
        assert not agent.status()["apprentice"]
        worked(agent, 60, rng, [0.7, 0.3, 0.0], 300)
        state = agent.agent.state()
        agent._disk.end("was let go without a word")
    with cpsrl.open(path) as agent:
        assert equal(agent.agent.state(), state), "what is repeated is what was done"
        assert {agent.decide("busy").action for _ in range(100)} == {"go"}
        agent.check()
        agent.evolve(add_actions=["run"])
        assert {agent.decide("busy").action for _ in range(100)} == {"go"}
    with cpsrl.open(path) as agent:
        assert {agent.decide("idle").action for _ in range(100)} == {"go"}
        assert not agent.agent.choices.available[0, 2:].any()
        agent.take_over(force=True)
        assert agent.agent.choices.available is None
        assert {agent.decide("idle").action for _ in range(200)} >= {"go", "stop"}


def test_it_does_not_take_over_from_the_best_or_from_what_never_varies(folder):
    rng = np.random.default_rng(2)
    for name, told in (("best", [0.02, 0.96, 0.02]), ("same", [1.0, 0.0, 0.0])):
        with cpsrl.open(folder / f"{name}.db", cpsrl.TSDE(), PROBLEM, apprentice=True) as agent:
            worked(agent, 200, rng, told)
            found = agent.take_over()
            if name == "same":
                assert (found.probability, found.differs) == (0.0, 0)
                assert agent.status()["apprentice"]
                agent.take_over(force=True)
                assert not agent.status()["apprentice"]
            assert found.own >= found.theirs - 0.1


def test_the_posterior_is_right_when_it_takes_over(folder):
    """Of problems that the prior expects, few are worse off."""
    worse = over = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet(np.full(3, 1 / 3), size=(3, 2))
        r = 1.0 + rng.standard_normal((3, 2))
        with cpsrl.open(folder / f"{seed}.db", cpsrl.TSDE(), (3, 2), apprentice=True) as agent:
            state, rows = 0, []
            for _ in range(120):
                action = int(rng.random() < 0.5)
                after = int(rng.choice(3, p=P[state, action]))
                rows.append((state, action, r[state, action] + rng.standard_normal(), after))
                state = after
            agent.learn(rows)
            found = agent.verdict()
            if found.better:
                over += 1
                model = cpsrl.TabularMDP(P, r)
                own = agent.agent.snapshot()
                mean = own.belief.mean()
                best = cpsrl.planning.solve_average(mean).policy
                gain = cpsrl.planning.gain_and_bias
                worse += gain(model, best)[0][0] < gain(model, np.full((3, 2), 0.5))[0][0]
    assert over >= 10
    assert worse <= max(2, 0.15 * over)


def test_what_can_be_no_apprentice_says_so(path):
    with pytest.raises(ValueError, match="can't be an apprentice"):
        cpsrl.open(path, cpsrl.UCRL2(), (2, 2), apprentice=True)
    assert not path.exists()


def test_over_http(path):
    with cpsrl.open(path, cpsrl.ContinuingPSRL(0.9), PROBLEM) as agent:
        taught(agent)
        client = TestClient(app(agent), base_url="http://localhost")
        body = {"id": "1", "state": "idle", "actions": ["stop", "wait"]}
        assert client.post("/decide", json=body).json() == {"id": "1", "action": "wait"}
        assert client.post("/decide", json=body | {"actions": ["go"]}).status_code == 409
        assert client.post("/decide", json=body | {"actions": [], "id": "2"}).status_code == 400
