"""What months bring: forks, files that go, deadlines, draws in the background."""

import math
import os
import shutil
import signal
import sqlite3
import threading
import time
from functools import partial

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl import live
from cpsrl.cli.main import main
from cpsrl.live import disk, durable
from cpsrl.live.events import seal_of

STATES, ACTIONS = ["idle", "busy"], ["wait", "go"]
COIN = cpsrl.ContinuingPSRL(0.9)


@pytest.fixture
def path(folder):
    return folder / "agent.db"


def in_child(work):
    """Run `work` in a forked child, which ends at once; return its exit status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused_there(call):
    """Return 0 if `call` says that this is a child of the process that has the agent."""
    try:
        call()
    except ValueError as error:
        return 0 if "this is its child" in str(error) else 3
    return 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("durability", ["full", "group"])
@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_is_told_and_loses_nothing(path, durability, busy):
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS), durability=durability, commit_every=60)
    decisions = [agent.decide("idle") for _ in range(20)]
    held = threading.Event()
    if busy:  # another thread is in a call, and is not there in the child

        def hold():
            with agent._disk.mutex:
                held.set()
                time.sleep(0.5)

        threading.Thread(target=hold).start()
        held.wait()
    told = decisions[0].id
    calls = (
        lambda: agent.decide("idle"),
        lambda: agent.outcome(told, 1.0, "busy"),
        agent.status,
        agent.flush,
        lambda: agent.explain("idle"),
    )
    for call in calls:
        assert in_child(lambda call=call: refused_there(call)) == 0
    assert in_child(lambda: agent.close() or int(not agent.closed)) == 0
    for one in decisions:
        agent.outcome(one.id, 1.0, "busy")
    agent.close()
    with cpsrl.open(path) as agent:
        assert agent.totals.counts["outcomes"] == 20
        agent.check()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_draws_in_a_thread_of_its_own(path, folder):
    sizes, spec = cpsrl.Sizes(6, 2), cpsrl.ContinuingPSRL(0.5)
    with cpsrl.open(path, spec, sizes, seed=5, background=2) as agent:
        expected = play(agent, 0, 20)

    def again():
        signal.alarm(60)  # a draw that is waited for in vain
        with cpsrl.open(folder / "childs.db", spec, sizes, seed=5, background=2) as own:
            return int(play(own, 0, 20) != expected)

    assert in_child(again) == 0


@pytest.mark.parametrize("durability", ["full", "group"])
def test_without_its_lock_file_the_first_writer_gets_the_error(path, durability):
    options = {"durability": durability, "commit_every": 3600}
    first = cpsrl.open(path, COIN, (STATES, ACTIONS), **options)
    known = first.decide("idle").id
    first.flush()
    os.unlink(f"{path}-lock")
    second = cpsrl.open(path, **options)
    second.outcome(known, 1.0, "busy")
    second.flush()
    with pytest.raises(OSError, match="has opened it since"):
        first.decide("idle")
    assert first.failed
    second.outcome(second.decide("busy").id, 0.0, "idle")
    second.close()
    with cpsrl.open(path) as agent:
        assert agent.totals.counts["outcomes"] == 2
        assert agent.totals.reward == 1.0
        agent.check()


def test_a_file_that_has_gone_is_noticed_at_once(path):
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))
    agent.decide("idle")
    path.unlink()
    with pytest.raises(OSError, match="it was moved or deleted while it was open"):
        agent.decide("idle")


def test_a_moved_agent_is_not_begun_anew_without_a_word(path, folder, caplog):
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))
    assert "made a new agent" in caplog.text
    agent._disk._checkpoint_at = math.inf
    for _ in range(200):
        agent.decide("idle")
    caplog.clear()
    saved = folder / "elsewhere.db"
    path.rename(saved)  # without its WAL
    agent._disk.end("was killed")
    assert (folder / "agent.db-wal").stat().st_size > 0
    with pytest.raises(ValueError, match="it holds the last events of an agent"):
        cpsrl.open(path, COIN, (STATES, ACTIONS))
    with pytest.raises(FileNotFoundError, match="create is False"):
        cpsrl.open(folder / "none.db", COIN, (STATES, ACTIONS), create=False)
    assert not (folder / "none.db").exists()
    assert "made" not in caplog.text
    with cpsrl.open(saved) as found:  # it was made in the file itself
        assert found.event == 0


def test_what_is_old_is_in_the_file_itself(path, folder, monkeypatch):
    monkeypatch.setattr(disk, "CHECKPOINT_SECONDS", 0.0)
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))
    agent._disk._checkpoint_at = 0.0
    for _ in range(30):
        agent.decide("idle")
    shutil.copy(path, folder / "copy.db")
    with cpsrl.open(folder / "copy.db") as copied:
        assert copied.event == 30
    agent.close()


def test_backup_and_restore_from_the_shell_while_it_is_open(path, folder, capsys):
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS), journal="keep")
    for _ in range(50):
        agent.outcome(agent.decide("idle").id, 1.0, "busy")
    copy, again = folder / "copy.db", folder / "again.db"
    assert main(["agent", "backup", str(path), str(copy)]) == 0
    agent.decide("idle")
    assert main(["agent", "restore", str(copy), str(again)]) == 0
    with cpsrl.open(again) as found:
        assert found.event == 100
        found.check()
    assert main(["agent", "backup", str(path), str(copy)]) == 2
    assert "already" in capsys.readouterr().err
    agent.close()


def test_a_copy_never_takes_the_place_of_anything(path, folder):
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))
    other = cpsrl.open(folder / "other.db", COIN, (STATES, ACTIONS))
    notes = folder / "notes.txt"
    notes.write_text("mine")
    (folder / "moved.db-wal").write_bytes(b"the last events of another one")
    for one in (agent, other):
        one.decide("idle")
    for to, error, complaint in (
        (other.path, FileExistsError, ".*other.db exists already"),
        (path, FileExistsError, ".*agent.db exists already"),
        (notes, FileExistsError, ".*notes.txt exists already"),
        (folder / "moved.db", ValueError, "it holds the last events"),
        (folder / "none" / "copy.db", FileNotFoundError, "there is no folder .*none"),
    ):
        for backup in (agent.backup, partial(live.backup, path)):
            with pytest.raises(error, match=complaint):
                backup(to)
    assert notes.read_text() == "mine"
    assert not (folder / "notes.txt-lock").exists()
    other.check()
    agent.backup(str(folder / "copy.db"))
    with cpsrl.open(folder / "copy.db") as found:
        assert found.event == agent.event == other.event == 1
    agent.close()
    other.close()


def test_what_a_full_disk_leaves_half_made_is_removed(path, folder):
    """A limit on the size of files stands for the full disk: the same error, from the same call."""
    resource = pytest.importorskip("resource")
    other = cpsrl.open(folder / "other.db", COIN, cpsrl.Sizes(60, 2))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for make in (lambda: cpsrl.open(path, COIN, cpsrl.Sizes(60, 2)), lambda: other.backup(path)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limit[1]))
        try:
            with pytest.raises(OSError, match=r"agent\.db"):
                make()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert [one.name for one in folder.glob("agent.db*")] == ["agent.db-lock"]
    other.backup(path)
    other.close()
    with cpsrl.open(path) as agent:
        agent.check()


@pytest.mark.parametrize("durability", ["full", "group"])
@pytest.mark.parametrize("where", ["begin", "add_event", "add_decision", "finish", "commit"])
def test_ctrl_c_is_heard_once_a_write_is_done(path, monkeypatch, durability, where):
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS), durability=durability, commit_every=3600)
    known = agent.decide("idle").id
    agent.flush()

    def interrupted(*given):
        monkeypatch.undo()
        os.kill(os.getpid(), signal.SIGINT)
        return as_it_is(agent._database, *given)

    as_it_is = getattr(type(agent._database), where)
    monkeypatch.setattr(agent._database, where, interrupted)

    def told():
        agent.outcome(known, 1.0, "busy")
        agent.decide("busy")
        agent.flush()

    with pytest.raises(KeyboardInterrupt):
        told()
    assert not agent.closed
    agent.outcome(known, 1.0, "busy")  # the same again, if it was told
    event, state = agent.event, agent.agent.state()
    agent.close()
    with cpsrl.open(path) as again:
        assert again.event == event
        assert equal(again.agent.state(), state)
        again.check()


def test_whenever_ctrl_c_comes_the_agent_goes_on(path):
    agent, rng = (
        cpsrl.open(path, COIN, (STATES, ACTIONS), snapshot_every=20),
        np.random.default_rng(2),
    )
    told = []

    def goes_on():
        soon = rng.uniform(0, 0.02)
        threading.Timer(soon, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            agent.outcome(agent.decide("idle").id, 1.0, "busy")
            told.append(1)

    for _ in range(60):
        with pytest.raises(KeyboardInterrupt):
            goes_on()
        assert not agent.closed
    assert agent.status()["outcomes"] >= len(told) > 0
    state = agent.agent.state()
    agent.close()
    with cpsrl.open(path) as again:
        assert equal(again.agent.state(), state)
        again.check()


def test_ctrl_c_in_foreign_code_while_it_is_loaded_is_no_damage(path, monkeypatch):
    """NumPy, interrupted while it compares two types, says that they cannot be compared."""
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))
    agent.decide("idle", id="a")
    repeat = durable.Memory.repeat

    def foreign(*given):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        except KeyboardInterrupt:
            raise TypeError("they can't be compared") from None
        repeat(*given)

    with monkeypatch.context() as patch:
        patch.setattr(durable.Memory, "repeat", foreign)
        with pytest.raises(KeyboardInterrupt):
            agent._load()
    assert agent.decide("idle", id="b").id == "b"
    assert agent.pending() == ["a", "b"]
    agent.close()


def test_ctrl_c_while_it_is_closed_leaves_no_lock(path, monkeypatch):
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))
    agent.decide("idle")

    def closed():
        as_it_is(agent._database)
        os.kill(os.getpid(), signal.SIGINT)

    as_it_is = type(agent._database).close
    monkeypatch.setattr(agent._database, "close", closed)
    with pytest.raises(KeyboardInterrupt):
        agent.close()
    with cpsrl.open(path) as again:
        assert again.event == 1


def test_what_ends_a_write_is_named(path, monkeypatch):
    """Two signals a while apart end a write that takes long; it was not the disk."""
    monkeypatch.setattr(disk, "FORCED_SECONDS", 0.0)
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))

    def twice(row):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    monkeypatch.setattr(agent._database, "add_event", twice)
    with pytest.raises(KeyboardInterrupt):
        agent.decide("idle")
    with pytest.raises(ValueError, match=r"was interrupted \(KeyboardInterrupt\), and what is in"):
        agent.decide("idle")
    with cpsrl.open(path) as again:
        assert again.event == 0


@pytest.mark.parametrize("otherwise", [None, 0.25])
def test_a_decision_without_an_outcome_is_ended_in_time(path, otherwise, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(durable.time, "time", lambda: now[0])
    options = {"outcome_within": 60.0, "otherwise": otherwise, "journal": "keep"}
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS), **options)
    early = [agent.decide("idle") for _ in range(30)]
    now[0] += 59
    late = agent.decide("busy")
    assert len(agent.pending()) == 31
    now[0] += 2
    agent.outcome(late.id, 1.0, "idle")  # which ends some of those before
    assert len(agent.pending()) == 30 - durable.MOST_EXPIRED
    agent.decide("idle")
    assert len(agent.pending()) == 1
    counts = agent.totals.counts
    if otherwise is None:
        assert (counts["discarded"], counts["outcomes"]) == (30, 1)
        assert agent.totals.reward == 1.0
    else:
        assert (counts["discarded"], counts["outcomes"]) == (0, 31)
        assert agent.totals.reward == 1.0 + 30 * otherwise
        numbers = [agent.labels.action(one.action) for one in early]
        visits = np.bincount(numbers, minlength=2)
        visits_late = np.bincount([agent.labels.action(late.action)], minlength=2)
        assert agent.totals.visits.tolist() == [visits.tolist(), visits_late.tolist()]
    with pytest.raises(cpsrl.live.Conflict):
        agent.outcome(early[0].id, 1.0, "busy")
    before = agent.agent.state()
    agent._load()
    assert equal(agent.agent.state(), before)
    agent.close()
    with cpsrl.open(path) as again:  # it is a property of the file
        kept = again.pending()
        now[0] += 61
        again.decide("idle")
        assert not set(kept) & set(again.pending())


@pytest.mark.parametrize("opened_again", [False, True])
def test_a_clock_that_is_set_back_keeps_nothing_waiting_for_years(path, monkeypatch, opened_again):
    now = [4e9]
    monkeypatch.setattr(durable.time, "time", lambda: now[0])
    options = {"outcome_within": 60.0, "stream_within": 60.0}
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS), **options)
    early = [agent.decide("idle", stream=name).id for name in ("a", "b")]
    now[0] = 1000.0
    if opened_again:
        agent.close()
        agent = cpsrl.open(path)
    late = agent.decide("idle").id
    now[0] += 59
    agent.decide("busy", id="c")
    assert agent.pending() == [*early, late, "c"], "they count from the moment when it was set back"
    assert agent.metrics()["oldest_pending_seconds"] == 59
    assert agent.metrics()["snapshot_age_seconds"] >= 0
    now[0] += 2
    agent.decide("busy", id="d")
    assert agent.pending() == ["c", "d"]
    assert not agent.agent.members
    state = agent.agent.state()
    agent._load()
    assert equal(agent.agent.state(), state)
    agent.close()


def test_streams_expire_and_are_bounded(path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(durable.time, "time", lambda: now[0])
    with cpsrl.open(path, COIN, (STATES, ACTIONS), most_streams=5) as agent:
        first = [agent.decide("idle", stream=f"shop-{i}").action for i in range(5)]
        with pytest.raises(ValueError, match=r"5 streams already, so 'shop-5' can't begin"):
            agent.decide("idle", stream="shop-5")
        waiting = agent.decide("busy", id="w", stream="shop-0")
    with cpsrl.open(path, stream_within=10.0, most_streams=5) as agent:
        now[0] += 5
        agent.decide("idle", stream="shop-1")
        now[0] += 6
        agent.decide("idle", stream="shop-5")
        assert set(agent.agent.members) == {"shop-1", "shop-5"}
        agent.outcome(waiting.id, 1.0, "idle")
        assert agent.decide("busy", id="w", stream="shop-0").action == waiting.action
        state = agent.agent.state()
        agent._load()
        assert equal(agent.agent.state(), state)
        assert agent.agent.stream("shop-2").decide(0) in (0, 1)
        assert len(first) == 5


def test_waiting_decisions_are_bounded(path):
    with cpsrl.open(path, COIN, (STATES, ACTIONS), most_pending=3) as agent:
        ids = [agent.decide("idle", id=f"{i}").id for i in range(3)]
        with pytest.raises(ValueError, match="3 decisions wait for their outcome already"):
            agent.decide("idle")
        assert agent.decide("idle", id="1").id == "1"
        agent.discard(ids[0])
        agent.decide("idle")


def play(agent, first, last, stream=None):
    actions = []
    for i in range(first, last):
        rng = np.random.default_rng((5, i))
        one = agent.decide(int(rng.integers(6)), f"d{i}", stream)
        actions.append(one.action)
        agent.outcome(one.id, float(rng.random()), int(rng.integers(6)))
    return actions


@pytest.mark.parametrize(
    "spec",
    [
        cpsrl.ContinuingPSRL(0.8),
        cpsrl.PSRL(cpsrl.FixedLength(3), cpsrl.Average(), cpsrl.beliefs.Truncated(50.0)),
        cpsrl.PSRL(cpsrl.Bernoulli(0.8), belief=cpsrl.beliefs.Forgetting(half_life=30.0)),
    ],
    ids=lambda spec: spec.label,
)
def test_in_the_background_the_policy_of_a_draw_begins_so_many_steps_late(path, spec):
    """By hand: an agent whose draws are made at once, from the belief of the step that asks."""
    late, sizes = 4, cpsrl.Sizes(6, 2)
    agent = cpsrl.open(path, spec, sizes, seed=5, background=late, snapshot_every=17)
    found = play(agent, 0, 150)
    twin, coming, expected = cpsrl.start(spec, sizes, seed=5), [], []
    acting = None
    for t in range(150):
        rng = np.random.default_rng((5, t))
        state, before = int(rng.integers(6)), twin.resamples
        twin.decide(state)
        if twin.resamples > before:
            coming.append((t + (late if before else 0), twin.policy.copy()))
        while coming and coming[0][0] <= t:
            acting = coming.pop(0)[1]
        expected.append(int(acting[state]))
        twin.learn(state, expected[-1], float(rng.random()), int(rng.integers(6)))
    assert found == expected
    assert len(coming) + agent.resamples == twin.resamples > 10
    agent.close()


def test_in_the_background_every_moment_is_one_to_go_on_from(path, folder):
    sizes, spec = cpsrl.Sizes(6, 2), cpsrl.ContinuingPSRL(0.8)
    undisturbed = cpsrl.open(folder / "whole.db", spec, sizes, seed=5, background=3)
    whole = play(undisturbed, 0, 90)
    actions = []
    for i in range(90):  # let go like a killed process, with policies that are not there yet
        agent = cpsrl.open(path, spec, sizes, seed=5, background=3, snapshot_every=7)
        actions += play(agent, i, i + 1)
        agent._disk.end("was killed")
    with cpsrl.open(path) as agent:
        assert actions == whole
        assert equal(agent.agent.state(), undisturbed.agent.state())
        agent.check()
    undisturbed.close()


def test_in_the_background_with_streams_and_when_it_is_switched_on_later(path):
    sizes, spec = cpsrl.Sizes(6, 2), cpsrl.ContinuingPSRL(0.7)
    agent = cpsrl.open(path, spec, sizes, seed=5)
    for stream in ("a", "b"):
        for i in range(20):
            agent.decide(i % 6, stream=stream)
    agent._disk.end("was killed")  # so that its journal is repeated under the old option
    agent = cpsrl.open(path, background=2)
    for i in range(60):
        agent.decide(i % 6, stream="ab"[i % 2])
    assert agent.agent.members["a"].resamples > 5
    state = agent.agent.state()
    agent._disk.end("was killed")
    with cpsrl.open(path) as agent:
        assert equal(agent.agent.state(), state)
        assert agent.agent.members["a"].background == 2


@pytest.mark.parametrize("spec", [cpsrl.TSDE(), cpsrl.UCRL2()], ids=lambda spec: spec.label)
def test_what_cannot_draw_in_the_background_says_so(path, spec):
    with pytest.raises(ValueError, match="can't draw in the background"):
        cpsrl.open(path, spec, cpsrl.Sizes(3, 2), background=5)
    assert not path.exists()


def test_a_decision_does_not_wait_for_a_draw(path, monkeypatch):
    """The draw ends when this test lets it, and decisions are taken before."""
    agent = cpsrl.open(path, cpsrl.ContinuingPSRL(0.5), cpsrl.Sizes(6, 2), seed=1, background=50)
    agent.decide(0)
    gate, draw = threading.Event(), type(agent.agent)._draw

    def held(self, gamma):
        gate.wait(30)
        draw(self, gamma)

    monkeypatch.setattr(type(agent.agent), "_draw", held)
    for i in range(45):
        agent.decide(i % 6)
    assert agent.agent.upcoming, "a coin has fallen"
    assert agent.resamples == 1
    agent.close()
    assert agent.drawing, "closing has not waited for it"
    gate.set()
    agent = cpsrl.open(path)
    assert agent.event == 46
    for i in range(60):
        agent.decide(i % 6)
    assert agent.resamples > 1
    agent.close()


def test_decisions_go_on_while_something_is_explained(path, monkeypatch):
    agent = cpsrl.open(path, COIN, cpsrl.Sizes(6, 2))
    agent.decide(0)
    from cpsrl.live import explain

    gate, entered, solved = threading.Event(), threading.Event(), explain.solved_draws

    def slow(*given):
        entered.set()
        assert gate.wait(30)
        yield from solved(*given)

    monkeypatch.setattr(explain, "solved_draws", slow)
    found = []
    asking = threading.Thread(target=lambda: found.append(agent.explain(0, 99)))
    asking.start()
    assert entered.wait(30)
    for i in range(20):
        agent.outcome(agent.decide(i % 6).id, 1.0, 0)
    gate.set()
    asking.join()
    assert found[0].outcomes == 0, "it is that of the moment when it was asked for"
    stop = threading.Event()
    stop.set()
    with pytest.raises(explain.Stopped):
        agent.explain(0, 999, stop=stop)
    agent.close()


def test_an_older_file_has_no_time_of_decisions_and_gets_a_deadline(path, monkeypatch):
    """A decision of before counts from the opening."""
    now = [1000.0]
    monkeypatch.setattr(durable.time, "time", lambda: now[0])
    agent = cpsrl.open(path, COIN, (STATES, ACTIONS))
    agent.decide("idle", id="a")
    agent.close()
    with sqlite3.connect(path) as db:
        (row,) = db.execute("SELECT * FROM decisions").fetchall()
        db.execute("UPDATE decisions SET at = NULL, seal = ?", (seal_of(row[:-3], 7),))
    db.close()
    with cpsrl.open(path, outcome_within=2.0) as agent:
        agent.check()
        agent.decide("idle", id="b")
        assert agent.pending() == ["a", "b"]
        now[0] += 2.1
        agent.decide("idle", id="c")
        assert agent.pending() == ["c"]
