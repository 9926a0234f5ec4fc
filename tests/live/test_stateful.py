"""The durable agent against a plain model of the three calls in memory, by random sequences."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import cpsrl
from contracts.test_agents import equal
from cpsrl.live import Conflict, UnknownDecision

IDS = st.sampled_from([f"d{i}" for i in range(8)])
STATES = st.sampled_from(["a", "b", "c"])
REWARDS = st.sampled_from([0.0, -0.0, 0.25, 1.0, 1])
SPECS = [cpsrl.ContinuingPSRL(0.5), cpsrl.TSDE(), cpsrl.UCRL2()]
NUMBER = {"a": 0, "b": 1, "c": 2}
ACTIONS = ("x", "y")


class Calls(RuleBasedStateMachine):
    """`decisions` by id: state, action, and, once finished, "discarded" or the outcome."""

    @initialize(
        spec=st.sampled_from(SPECS),
        remember=st.integers(1, 4),
        every=st.sampled_from([1, 3, 1000]),
        durability=st.sampled_from(["full", "group"]),
    )
    def begin(self, spec, remember, every, durability):
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.options = {"remember": remember, "snapshot_every": every, "durability": durability}
        self.spec, self.remember = spec, remember
        self.twin = cpsrl.start(spec, cpsrl.Sizes(3, 2))
        self.decisions, self.finished, self.events = {}, [], 0
        self.agent = self.opened()

    def opened(self):
        problem = (list("abc"), list(ACTIONS))
        return cpsrl.open(self.folder / "agent.db", self.spec, problem, **self.options)

    def finish(self, id, outcome):
        self.decisions[id][2] = outcome
        self.finished.append(id)
        self.events += 1
        if len(self.finished) > self.remember:
            del self.decisions[self.finished.pop(0)]

    @rule(id=st.one_of(IDS, st.none()), state=STATES)
    def decide(self, id, state):
        known = self.decisions.get(id)
        if known and known[0] != state:
            with pytest.raises(Conflict):
                self.agent.decide(state, id)
            return
        decision = self.agent.decide(state, id)
        if not known:
            known = [state, ACTIONS[self.twin.decide(NUMBER[state])], None]
            self.decisions[decision.id] = known
            self.events += 1
        assert decision.action == known[1]

    @rule(id=IDS, reward=REWARDS, state=STATES)
    def outcome(self, id, reward, state):
        known = self.decisions.get(id)
        if not known:
            with pytest.raises(UnknownDecision):
                self.agent.outcome(id, reward, state)
        elif known[2] not in (None, (reward, state)):
            with pytest.raises(Conflict):
                self.agent.outcome(id, reward, state)
        else:
            self.agent.outcome(id, reward, state)
            if known[2] is None:
                action = ACTIONS.index(known[1])
                self.twin.learn(NUMBER[known[0]], action, reward + 0.0, NUMBER[state])
                self.finish(id, (reward, state))

    @rule(id=IDS)
    def discard(self, id):
        known = self.decisions.get(id)
        if not known:
            with pytest.raises(UnknownDecision):
                self.agent.discard(id)
        elif known[2] not in (None, "discarded"):
            with pytest.raises(Conflict):
                self.agent.discard(id)
        else:
            self.agent.discard(id)
            if known[2] is None:
                self.finish(id, "discarded")

    @rule(state=STATES, action=st.sampled_from(ACTIONS), reward=REWARDS, after=STATES)
    def step(self, state, action, reward, after):
        chosen = self.agent.act(state)
        assert chosen == ACTIONS[self.twin.act(NUMBER[state])]
        self.agent.observe(state, action, reward, after)
        self.twin.observe(NUMBER[state], ACTIONS.index(action), reward + 0.0, NUMBER[after])
        self.events += 2

    @rule(id=IDS, state=st.sampled_from(["d", 0, None]), reward=st.sampled_from(["1", None]))
    def wrong(self, id, state, reward):
        with pytest.raises(ValueError, match="must be one of"):
            self.agent.decide(state, id)
        with pytest.raises(ValueError, match=r"must be|unknown"):
            self.agent.outcome(id, reward, "a")

    @rule(closing=st.booleans())
    def reopen(self, closing):
        if closing:
            self.agent.close()
        else:
            self.agent.flush()
            self.agent._disk.end("was let go without a word")
        self.agent = self.opened()

    @invariant()
    def is_the_same(self):
        if hasattr(self, "agent"):
            assert self.agent.event == self.events
            assert equal(self.agent.agent.state(), self.twin.state())
            waiting = {id for id, (_, _, outcome) in self.decisions.items() if outcome is None}
            assert set(self.agent.pending()) == waiting

    def teardown(self):
        if hasattr(self, "agent"):
            self.agent.close()
            shutil.rmtree(self.folder)


Calls.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestCalls = Calls.TestCase
