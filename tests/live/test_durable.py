"""The three calls, act and observe, and what is on disk."""

import json
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl import live
from cpsrl.agents import AGENTS
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.cli.main import main
from cpsrl.experiments import provenance
from cpsrl.live import Conflict, UnknownDecision, memory, schema
from cpsrl.mdp.problem import FeatureSizes
from cpsrl.support.serialise import DamagedError

STATES, ACTIONS = ["idle", "busy", "down"], ["wait", "go"]


@pytest.fixture
def path(folder):
    return folder / "agent.db"


def opened(path, spec=None, **options):
    return cpsrl.open(path, spec or cpsrl.ContinuingPSRL(0.9), (STATES, ACTIONS), **options)


def rows(path, query):
    with sqlite3.connect(path) as db:
        return db.execute(query).fetchall()


def test_labels_go_in_and_come_out(path):
    with opened(path) as agent:
        decision = agent.decide("idle")
        assert decision.action in ACTIONS
        agent.outcome(decision.id, 1.0, "busy")
        assert agent.act("busy") in ACTIONS
        agent.observe("busy", "go", 0.5, "idle")
        with pytest.raises(ValueError, match=r"state must be one of idle, busy, down, not 'idel' "
                                             r"\(did you mean 'idle'\?\)"):  # fmt: skip
            agent.decide("idel")
        with pytest.raises(ValueError, match="state must be one of"):
            agent.decide(0)
        with pytest.raises(ValueError, match="action must be one of wait, go"):
            agent.observe("idle", "stop", 0.0, "idle")
    assert cpsrl.open(path).labels.states == tuple(STATES)


@pytest.mark.parametrize(
    ("problem", "states", "actions"),
    [
        (cpsrl.Sizes(3, 2), None, None),
        ((3, 2), None, None),
        ((STATES, 2), tuple(STATES), None),
        (cpsrl.environment("access-control"), None, "names"),
    ],
)
def test_problems_that_can_be_given(path, problem, states, actions):
    with cpsrl.open(path, cpsrl.TSDE(), problem) as agent:
        wanted = problem.action_names if actions == "names" else actions
        names = problem.state_names if actions == "names" else states
        assert (agent.labels.states, agent.labels.actions) == (names, wanted)


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (((), 2), "must be a whole number of at least 1"),
        ((["a", "a"], 2), "the label 'a' occurs twice"),
        ((["a", " b"], 2), "a label must be text in one line"),
        (("ab", 2), "states must be a number or a list of labels"),
        ("three", "problem must be"),
        (FeatureSizes(3, 2), "needs states"),
    ],
)
def test_problems_that_cannot_be_given_leave_no_agent(path, problem, error):
    with pytest.raises(ValueError, match=error):
        cpsrl.open(path, cpsrl.TSDE(), problem)
    path.touch()
    with pytest.raises(ValueError, match="is empty"):
        cpsrl.open(path)


@pytest.mark.parametrize("spec", [cpsrl.ContinuingPSRL(), cpsrl.AdaptivePSRL(), cpsrl.UCRL2()])
def test_a_problem_that_there_is_no_room_for_is_refused_before_it_takes_any(path, spec):
    """Arrays of so many numbers would take the memory of the machine, and minutes."""
    complaint = "an agent keeps would be .* numbers: .* GiB; take a smaller problem"
    for problem in ((2**40, 2**20), (2**60, 2), (2, 2**60), (["idle"], 2**60)):
        with pytest.raises(ValueError, match=complaint):
            cpsrl.open(path, spec, problem)
    with pytest.raises(ValueError, match=complaint):
        cpsrl.start(spec, cpsrl.Sizes(2**40, 2**20))
    assert not path.exists()
    with cpsrl.open(path, spec, (3, 2)) as agent:
        for change in ({"add_states": 2**40}, {"add_actions": 2**60}):
            with pytest.raises(ValueError, match=complaint):
                agent.evolve(**change)
        assert agent.event == 0


def test_the_room_that_there_is_decides(path, monkeypatch):
    monkeypatch.setattr("cpsrl.support.checks._memory", lambda: 1e8)
    with pytest.raises(ValueError, match=r"1,000 x 1,000 x 12 numbers: that takes 0\.3 GiB"):
        cpsrl.open(path, cpsrl.TSDE(), (1000, 1000))


@pytest.mark.skipif(find_spec("jax") is None, reason="networks need JAX")
@pytest.mark.parametrize(
    ("problem", "complaint"),
    [
        ((2**40, 2**20), "what an agent keeps"),
        ((20_000, 2), "the replay would be 100,000 x 2 x 20,000 numbers: that takes 14"),
        ((5, 10_000), "a layer of the networks would be 10 x 50 x 10,000 numbers"),
    ],
)
def test_networks_that_there_is_no_room_for_are_refused(path, monkeypatch, problem, complaint):
    monkeypatch.setattr("cpsrl.support.checks._memory", lambda: 1e8)
    with pytest.raises(ValueError, match=complaint):
        cpsrl.open(path, cpsrl.BootstrappedDQN(), problem)
    assert not path.exists()


def test_ids_make_calls_safe_to_repeat(path):
    with opened(path) as agent:
        first = agent.decide("idle", id="mine")
        assert agent.decide("idle", id="mine") == first
        with pytest.raises(Conflict, match="'mine' was taken in state 'idle'"):
            agent.decide("busy", id="mine")
        agent.outcome("mine", 0.5, "down")
        agent.outcome("mine", 0.5, "down")
        for other in ((0.6, "down"), (0.5, "idle")):
            with pytest.raises(Conflict, match=r"another outcome: reward 0\.5, next state 'down'"):
                agent.outcome("mine", *other)
        with pytest.raises(Conflict, match="had an outcome"):
            agent.discard("mine")
        assert agent.decide("idle", id="mine") == first
        agent.decide("busy", id="gone")
        agent.discard("gone")
        agent.discard("gone")
        with pytest.raises(Conflict, match="was discarded"):
            agent.outcome("gone", 0.0, "idle")
        for unknown in ("other", "#7", "#1"):
            with pytest.raises(UnknownDecision, match="unknown or long finished"):
                agent.outcome(unknown, 0.5, "down")
        with pytest.raises(UnknownDecision, match="are the agent's"):
            agent.decide("idle", id="#99")
        for wrong in ("", "a\nb", "x" * 201, 7, None):
            with pytest.raises(ValueError, match="id must be a line"):
                agent.outcome(wrong, 0.5, "down")
        assert agent.event == 4


NEVER_DOWN = cpsrl.TSDE(cpsrl.Dirichlet(support=np.tile([True, True, False], (3, 2, 1))))


def test_wrong_calls_change_nothing(path):
    with opened(path, NEVER_DOWN) as agent:
        decision = agent.decide("idle")
        before, events = agent.agent.state(), agent.event
        for reward, state in [(np.nan, "idle"), ("1", "idle"), (None, "idle"), (0.5, "idel"),
                              (0.5, None), (0.5, "down")]:  # fmt: skip
            with pytest.raises(ValueError, match=r"must be|cannot lead to"):
                agent.outcome(decision.id, reward, state)
        assert equal(agent.agent.state(), before)
        assert agent.event == events
        assert agent.pending() == [decision.id]


def test_only_so_many_finished_decisions_are_remembered(path):
    with opened(path, remember=3) as agent:
        for i in range(6):
            agent.decide("idle", id=f"d{i}")
        for i in (0, 2, 1, 4, 3):
            agent.outcome(f"d{i}", 0.0, "idle")
        for i in (0, 2):
            with pytest.raises(UnknownDecision, match=f"'d{i}' is unknown or long finished"):
                agent.outcome(f"d{i}", 0.0, "idle")
        for i in (1, 4, 3):
            agent.outcome(f"d{i}", 0.0, "idle")
        assert agent.pending() == ["d5"]
    assert rows(path, "SELECT count(*) FROM decisions") == [(4,)]
    with opened(path, remember=1) as agent:
        agent.outcome("d5", 0.0, "idle")
    assert rows(path, "SELECT id FROM decisions") == [("d5",)]


def agents():
    for name in AGENTS.names():
        if name != "optimal" and all(map(find_spec, AGENTS.make(name).packages)):
            yield name


def small(name):
    spec = AGENTS.make(name)
    if not spec.packages:
        return spec, cpsrl.Sizes(4, 2), range(4)
    return replace(spec, batch=4, capacity=20, target_every=7), FeatureSizes(4, 2), np.eye(4)


@pytest.mark.parametrize("name", list(agents()))
def test_every_agent_is_the_same_with_outcomes_late_and_after_reopening(path, name):
    spec, sizes, seen = small(name)
    twin, rng, waiting = cpsrl.start(spec, sizes, seed=5), np.random.default_rng(1), []
    agent = cpsrl.open(path, spec, sizes, seed=5, snapshot_every=25)
    for t in range(60):
        state = seen[int(rng.integers(4))]
        decision = agent.decide(state)
        assert decision.action == twin.decide(state)
        waiting.append((decision, state))
        while waiting and rng.random() < 0.55:
            decision, state = waiting.pop(int(rng.integers(len(waiting))))
            reward, after = float(rng.random()), seen[int(rng.integers(4))]
            agent.outcome(decision.id, reward, after)
            twin.learn(state, decision.action, reward, after)
        if t % 20 == 9:
            if t == 29:
                agent.close()
            else:
                agent._disk.end("was let go without a word")
            agent = cpsrl.open(path, *((spec, sizes) if t < 40 else ()))
    assert equal(agent.agent.state(), twin.state())
    assert set(agent.pending()) == {decision.id for decision, _ in waiting}
    agent.close()


@pytest.mark.parametrize("name", list(agents()))
def test_act_and_observe_are_those_of_the_live_agent(path, name):
    spec, sizes, seen = small(name)
    twin, rng = cpsrl.start(spec, sizes, seed=5), np.random.default_rng(1)
    agent = cpsrl.open(path, spec, sizes, seed=5)
    for t in range(40):
        state, after = seen[int(rng.integers(4))], seen[int(rng.integers(4))]
        action = agent.act(state)
        events = agent.event
        assert agent.act(state) == action == twin.act(state)
        assert agent.event == events
        if t == 20:
            agent._disk.end("was let go without a word")
            agent = cpsrl.open(path)
            assert agent.act(state) == action
        reward = float(rng.random())
        agent.observe(state, action, reward, after)
        twin.observe(state, action, reward, after)
    assert equal(agent.agent.state(), twin.state())
    agent.close()


def test_the_clock_moves_at_decide_and_the_counts_at_outcome(path):
    rule = cpsrl.FixedLength(3)
    with opened(path, cpsrl.PSRL(rule, cpsrl.Average())) as agent:
        resamples = []
        ids = []
        for _ in range(7):
            ids.append(agent.decide("idle").id)
            resamples.append(agent.agent.resamples)
        assert resamples == [1, 1, 1, 2, 2, 2, 3]
        assert agent.agent.belief.state()["seen"].sum() == 0
        agent.discard(ids.pop())
        for id in ids:
            agent.outcome(id, 1.0, "busy")
        assert agent.agent.belief.state()["seen"].sum() == 6
        assert agent.agent.step == 8


def test_a_rule_that_looks_at_counts_is_asked_after_each_outcome(path):
    """Count doubling: a pair's second visit doubles the first, whenever its outcome comes."""
    with opened(path, AGENTS.make("count-doubling-psrl")) as agent:
        ids = [agent.decide("idle").id for _ in range(5)]
        assert agent.agent.resamples == 1
        agent.outcome(ids[0], 1.0, "idle")
        assert agent.agent.resamples == 1
        ids.append(agent.decide("idle").id)
        assert agent.agent.resamples == 2
        agent.decide("idle")
        assert agent.agent.resamples == 2


def test_one_process_at_a_time(path):
    with opened(path) as agent:
        with pytest.raises(ValueError, match=rf"{path} is in use: process \d+ has it open"):
            cpsrl.open(path)
        program = f"import cpsrl; cpsrl.open({str(path)!r})"
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert "is in use: process" in other.stderr
        looked = live.view(path)
        assert looked.event == agent.event
        with pytest.raises(ValueError, match="to look at only"):
            looked.decide("idle")
        looked.close()
        agent.decide("idle")
    with pytest.raises(ValueError, match="is closed: open it again"):
        agent.decide("idle")
    cpsrl.open(path).close()


def test_one_process_at_a_time_by_whatever_link(path):
    link = path.with_name("link.db")
    link.symlink_to(path.name)
    with opened(path), pytest.raises(ValueError, match="is in use"):
        cpsrl.open(link)
    with cpsrl.open(link), pytest.raises(ValueError, match="is in use"):
        cpsrl.open(path)


def test_a_place_that_cannot_be_written_is_named(path):
    lock = path.with_name(f"{path.name}-lock")
    lock.mkdir()
    with pytest.raises(OSError, match=rf"{lock} cannot be written.*unable to open"):
        opened(path)
    lock.rmdir()
    lock.write_text("not a lock of SQLite's, which nobody holds")
    with pytest.raises(OSError, match=rf"{lock} cannot be written.*not a database"):
        opened(path)


def test_the_file_stays_small_and_keep_keeps(path, folder):
    kept = folder / "kept.db"
    for where, journal in ((path, "drop"), (kept, "keep")):
        agent = opened(where, journal=journal, remember=10, snapshot_every=50, durability="group")
        for _ in range(1000):
            agent.observe("idle", "go", 1.0, "busy")
        agent.close()
    assert rows(path, "SELECT count(*) FROM events") == [(0,)]
    assert rows(kept, "SELECT count(*), min(n), max(n) FROM events") == [(1000, 1, 1000)]
    assert path.stat().st_size < 120_000
    for where in (path, kept):
        with cpsrl.open(where) as agent:
            assert agent._since == 0


def test_what_other_programs_read(path):
    agent = opened(path)
    decision = agent.decide("busy", id="a")
    agent.outcome("a", 2.5, "down")
    query = "SELECT n, kind, id, state, action, reward, next_state FROM events"
    number = ACTIONS.index(decision.action)
    assert rows(path, query) == [
        (1, "decide", "a", 1, number, None, None),
        (2, "outcome", "a", 1, number, 2.5, 2),
    ]
    assert rows(path, "SELECT id, decided, finished FROM decisions") == [("a", 1, 2)]
    ((about,),) = rows(path, "SELECT tree FROM documents WHERE name = 'about'")
    assert json.loads(about)["problem"]["states"] == STATES
    assert rows(path, "PRAGMA user_version") == [(schema.SCHEMA,)]
    agent.close()


def test_another_agent_or_problem_is_refused(path):
    opened(path).close()
    with pytest.raises(ValueError, match=r"another agent: its rule\.gamma is 0\.9, not 0\.99"):
        cpsrl.open(path, cpsrl.ContinuingPSRL(0.99))
    with pytest.raises(ValueError, match="another problem: it has 3 states and 2 actions"):
        cpsrl.open(path, None, (STATES, ["wait", "stop"]))
    opened(path).close()


def test_files_that_are_not_agents_are_refused_and_left_alone(folder):
    text, other = folder / "text.db", folder / "other.db"
    text.write_text("not a database, but long enough to be taken for one" * 30)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    for path, error in ((text, "not a database"), (other, "not the database of a cpsrl agent")):
        before = path.read_bytes()
        with pytest.raises(DamagedError, match=error):
            cpsrl.open(path, cpsrl.TSDE(), (2, 2))
        assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError, match="there is no agent at"):
        cpsrl.open(folder / "none.db")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        cpsrl.open(folder / "none" / "a.db", cpsrl.TSDE(), (2, 2))


def test_a_newer_schema_is_refused_and_an_older_one_migrates_after_a_copy(path, monkeypatch):
    opened(path).close()

    def version(number):
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA user_version = {number}")
        db.close()

    version(schema.SCHEMA + 1)
    with pytest.raises(ValueError, match="a newer one wrote it"):
        cpsrl.open(path)
    version(0)
    with pytest.raises(DamagedError, match="there never was a schema 0"):
        cpsrl.open(path)
    ((epoch,),) = rows(path, "SELECT epoch FROM writer")
    counted, fails = "UPDATE writer SET epoch = epoch + 1000", "SELECT * FROM nowhere"
    for step in range(schema.SCHEMA):
        monkeypatch.setitem(schema.MIGRATIONS, step, [counted])
    with monkeypatch.context() as last:
        last.setitem(schema.MIGRATIONS, schema.SCHEMA - 1, [counted, fails])
        with pytest.raises(ValueError, match="no such table: nowhere"):
            cpsrl.open(path)
    assert rows(path, "SELECT epoch FROM writer") == [(epoch,)]
    assert rows(path, "PRAGMA user_version") == [(0,)]
    cpsrl.open(path).close()
    assert rows(path, "SELECT epoch FROM writer") == [(epoch + 1000 * schema.SCHEMA + 1,)]
    assert rows(f"{path}.schema-0", "PRAGMA user_version") == [(0,)]
    assert rows(path, "PRAGMA user_version") == [(schema.SCHEMA,)]


def test_one_who_looks_at_a_migrated_agent_takes_nothing_away(path, monkeypatch):
    opened(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 0")
    db.close()
    for step in range(schema.SCHEMA):
        monkeypatch.setitem(schema.MIGRATIONS, step, [])
    with cpsrl.open(path) as agent:
        agent.decide("idle")
        look = f"from cpsrl.live import view; view({str(path)!r}).close()"
        subprocess.run([sys.executable, "-c", look], check=True)
        assert path.with_name(f"{path.name}-wal").exists()


@pytest.fixture
def other_versions(monkeypatch):
    """A function after which this process has other versions than what was written before."""

    def change():
        here = provenance.provenance

        def elsewhere(*given):
            found = here(*given)
            return replace(found, versions=found.versions | {"numpy": "9.9"})

        monkeypatch.setattr(provenance, "provenance", elsewhere)
        monkeypatch.setattr(memory, "provenance", elsewhere)

    return change


def test_under_other_versions_it_goes_on_and_journals_the_change(path, other_versions):
    agent = opened(path, journal="keep")
    decision = agent.decide("idle")
    agent.outcome(decision.id, 1.0, "busy")
    agent._disk.end("was let go without a word")
    other_versions()
    with cpsrl.open(path) as agent:
        assert agent.event == 3
        assert rows(path, "SELECT count(*) FROM journal") == [(0,)], "its snapshot is written too"
    ((kind, change),) = rows(path, "SELECT kind, id FROM events WHERE n = 3")
    assert kind == "versions"
    assert "here 9.9" in change
    with cpsrl.open(path) as agent:
        assert agent.event == 3


def test_under_other_versions_what_was_done_is_not_decided_anew(path, other_versions, monkeypatch):
    """Versions under which every decision would be another one."""
    agent = opened(path)
    decisions = [agent.decide("idle", id=f"d{i}") for i in range(20)]
    for one in decisions[:10]:
        agent.outcome(one.id, 0.5, "busy")
    acted = agent.act("down")
    agent._disk.end("was let go without a word")
    other_versions()
    act = PSRLAgent.act
    monkeypatch.setattr(PSRLAgent, "act", lambda self, state: 1 - act(self, state))
    with cpsrl.open(path) as agent:
        assert agent.event == 32
        assert agent.act("down") == acted
        assert agent.event == 32
        assert [agent.decide("idle", id=one.id) for one in decisions] == decisions
        done = [sum(one.action == name for one in decisions[:10]) for name in ACTIONS]
        assert agent.totals.visits.tolist() == [done, [0, 0], [0, 0]]
        assert agent.agent.step == 21
    with cpsrl.open(path) as agent:
        assert agent.act("down") == acted
        agent.observe("down", acted, 0.5, "idle")
        assert agent.act("down") == ACTIONS[1 - agent.agent.policy[2]]


def test_under_other_versions_networks_are_not_asked_again(path, other_versions, monkeypatch):
    pytest.importorskip("jax")
    from cpsrl.networks import learner

    spec, sizes, seen = small("bootstrapped-dqn")
    agent = cpsrl.open(path, spec, sizes, seed=5)
    for i in range(30):
        decision = agent.decide(seen[i % 4])
        if i % 3:
            agent.outcome(decision.id, 0.5, seen[0])
    state = agent.agent.state()
    agent._disk.end("was let go without a word")
    other_versions()
    with monkeypatch.context() as patched:
        patched.setattr(learner, "greedy", None)
        agent = cpsrl.open(path)
    assert equal(agent.agent.state(), state)
    agent.decide(seen[0])
    agent.close()


def test_opening_looks_at_what_it_needs_and_check_at_every_row(path, capsys):
    with opened(path, journal="keep", snapshot_every=10) as agent:
        for i in range(40):
            agent.decide("idle", id=f"d{i}")
        for i in range(20):
            agent.outcome(f"d{i}", 0.5, "busy")
        agent.learn([("idle", "go", 0.5, "busy")])
        agent.check()
    whole = path.read_bytes()
    damages = {
        "UPDATE decisions SET action = 1 - action WHERE id = 'd7'": "'d7' is not what was written",
        "UPDATE logs SET lines = 7": "logs has a row that was not written so",
        "UPDATE history SET reward = 0.75 WHERE n = 50": "event 50 of its history",
    }
    for damage, message in damages.items():
        path.write_bytes(whole)
        with sqlite3.connect(path) as db:
            db.execute(damage)
        db.close()
        assert main(["agent", "decide", str(path), "idle", "--id", "new"]) == 0
        with cpsrl.open(path) as agent, pytest.raises(DamagedError, match=message):
            agent.check()
        capsys.readouterr()
        assert main(["agent", "check", str(path)]) == 2
        assert "is damaged" in capsys.readouterr().err
        if "d7" in damage:
            with cpsrl.open(path) as agent, pytest.raises(DamagedError, match=message):
                agent.decide("idle", id="d7")
    path.write_bytes(whole)
    assert main(["agent", "check", str(path)]) == 0
    assert "40 decisions" in capsys.readouterr().out


@dataclass(frozen=True)
class Stubborn(cpsrl.Belief):
    """A belief that cannot be drawn from when it is told not to be."""

    refuses = False

    def start(self, problem):
        live = cpsrl.Dirichlet().start(problem)
        sample = live.sample

        class Live:
            observe_many, state, restore = live.observe_many, live.state, live.restore

            def sample(self, rng):
                drawn = sample(rng)
                if Stubborn.refuses:
                    raise ArithmeticError("no")
                return drawn

        return Live()


def test_a_draw_that_fails_half_way_leaves_the_agent_as_it_was(path, monkeypatch):
    spec = cpsrl.PSRL(cpsrl.EveryStep(), cpsrl.Average(), Stubborn())
    with opened(path, spec) as agent:
        agent.decide("idle")
        before = agent.agent.state()
        monkeypatch.setattr(Stubborn, "refuses", True)
        with pytest.raises(ArithmeticError):
            agent.decide("idle")
        monkeypatch.setattr(Stubborn, "refuses", False)
        assert agent.status()["decisions"] == 1
        assert equal(agent.agent.state(), before)
        agent.decide("idle")
    with pytest.raises(ValueError, match=r"give the agent as well: agent\.belief is Stubborn"):
        cpsrl.open(path)
    cpsrl.open(path, spec).close()


def test_a_disk_that_fails_ends_the_agent_and_loses_nothing_acknowledged(path, folder):
    agent = opened(path)
    agent.decide("idle", id="a")
    agent._database._db.execute("PRAGMA query_only = ON")
    with pytest.raises(OSError, match="could not be written"):
        agent.decide("idle", id="b")
    with pytest.raises(ValueError, match="ahead of it: open it again"):
        agent.decide("idle", id="b")
    agent.close()
    with opened(path) as agent:
        assert agent.pending() == ["a"]


def test_a_program_that_ends_without_a_word_has_its_last_group_on_disk(path):
    opened(path).close()
    program = f"""
import cpsrl
agent = cpsrl.open({str(path)!r}, durability="group", commit_every=3600)
for state in ("idle", "busy", "down"):
    agent.decide(state, id=state)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with cpsrl.open(path) as agent:
        assert agent.pending() == STATES


def test_a_closed_agent_has_nothing_to_flush_and_one_in_memory_is_refused(path):
    agent = opened(path)
    agent.close()
    agent.flush()
    with pytest.raises(ValueError, match="is closed"):
        agent.rates()
    with pytest.raises(ValueError, match="a durable agent is a file"):
        opened(":memory:")


def test_a_copy_of_the_file_is_the_agent(path, folder):
    with opened(path) as agent:
        for t in range(30):
            agent.observe("idle", "go", float(t), "busy")
    shutil.copy(path, folder / "copy.db")
    with cpsrl.open(path) as one, cpsrl.open(folder / "copy.db") as two:
        for _ in range(50):
            assert one.decide("busy").action == two.decide("busy").action
