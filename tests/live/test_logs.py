import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.live.logs import Learned

ROWS = [("a", "x", 0.5, "b"), ("b", "y", 1.0, "b"), ("b", "x", 0.0, "a")]
NAMES = ("state", "action", "reward", "next_state")


@pytest.fixture
def agent(folder):
    with cpsrl.open(folder / "agent.db", cpsrl.ContinuingPSRL(), (["a", "b"], ["x", "y"])) as agent:
        yield agent


def csv_of(path, rows, names=NAMES):
    path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")
    return path


def seen(agent):
    return agent.agent.belief.state()["seen"].tolist()


def test_a_log_is_learnt_from_once_however_it_is_written(agent, tmp_path):
    assert agent.learn(csv_of(tmp_path / "past.csv", ROWS)) == Learned(3, True)
    assert seen(agent) == [1, 0, 1, 1]
    again = agent.learn(tmp_path / "past.csv")
    assert str(again) == "learnt nothing: these 3 transitions were learnt from before"
    columns = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "past.parquet")
    in_time = csv_of(tmp_path / "time.csv", [*(row[:3] for row in ROWS), ("a", "x", 9)], NAMES[:3])
    rows = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    for past in (tmp_path / "past.parquet", in_time, ROWS, rows):
        assert agent.learn(past) == Learned(3, False)
    assert seen(agent) == [1, 0, 1, 1]
    assert agent.status()["learned"] == 3


def test_a_log_is_the_same_as_its_outcomes_and_time_stands_still(agent, tmp_path):
    twin = cpsrl.start(cpsrl.ContinuingPSRL(), cpsrl.Sizes(2, 2))
    for state, action, reward, after in ROWS * 2:
        twin.learn("ab".index(state), "xy".index(action), reward, "ab".index(after))
    agent.learn(ROWS * 2)
    assert equal(agent.agent.state(), twin.state())
    assert agent.agent.step == 1
    agent._disk.end("was let go without a word")
    with cpsrl.open(agent.path) as reopened:
        assert equal(reopened.agent.state(), twin.state())
        assert not reopened.learn(ROWS * 2).new


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([*ROWS, ("c", "x", 0.5, "a")], r"line 5: state must be one of a, b, not 'c'"),
        ([*ROWS, ("a", "z", 0.5, "a")], r"line 5: action must be one of x, y, not 'z'"),
        ([*ROWS, ("a", "x", "much", "a")], r"line 5: reward is 'much'"),
        ([*ROWS, ("a", "x", "inf", "a")], r"line 5: reward is inf"),
        ([*ROWS, ("a", "x", "", "a")], r"line 5: reward is empty"),
        ([*ROWS, ("a", "x", 1.0, "")], r"line 5: next_state is"),
        ([], "there is no transition"),
    ],
)
def test_errors_name_the_line_and_change_nothing(agent, tmp_path, rows, error):
    before = agent.agent.state()
    with pytest.raises(ValueError, match=rf"past\.csv: {error}"):
        agent.learn(csv_of(tmp_path / "past.csv", rows))
    assert equal(agent.agent.state(), before)
    assert agent.event == 0


def test_a_line_that_the_agent_refuses_is_named(folder, tmp_path):
    support = np.ones((2, 2, 2))
    support[0, 0, 0] = 0
    spec = cpsrl.TSDE(cpsrl.Dirichlet(support=support))
    with cpsrl.open(folder / "agent.db", spec, (["a", "b"], ["x", "y"])) as agent:
        before = agent.agent.state()
        with pytest.raises(ValueError, match=r"past\.csv: line 5: .* cannot lead to state 0"):
            agent.learn(csv_of(tmp_path / "past.csv", [*ROWS, ("a", "x", 0.5, "a")]))
        assert agent.status()["learned"] == 0
        assert equal(agent.agent.state(), before)


def test_a_log_that_is_cut_short_leaves_nothing_even_if_the_agent_is_closed(folder, monkeypatch):
    path, learnt = folder / "agent.db", []

    def learn(*transition):
        if len(learnt) == 2:
            raise KeyboardInterrupt
        learnt.append(live_learn(*transition))

    with cpsrl.open(path, cpsrl.ContinuingPSRL(), (["a", "b"], ["x", "y"])) as agent:
        agent.observe("a", "x", 0.5, "b")
        live_learn = agent.agent.learn
        monkeypatch.setattr(agent.agent, "learn", learn)
        with pytest.raises(KeyboardInterrupt):
            agent.learn(ROWS)
    with cpsrl.open(path) as agent:
        assert seen(agent) == [1, 0, 0, 0]
        assert agent.learn(ROWS).new
        assert seen(agent) == [2, 0, 1, 1]


@pytest.mark.parametrize(
    ("past", "error"),
    [
        ("past.txt", r"a log is a \.csv or \.parquet file"),
        ([("a", "x")], "row 1: it must have state, action, reward, next_state"),
        ([{"state": "a", "act": "x", "reward": 1.0}], "row 1: it must have"),
        ([("a", "x", 1.0, "b"), ("a", "x", 1.0)], "row 2: either all rows"),
        ([("a", "x", None, "b")], "row 1: reward must be"),
        ({"state": "a"}, "a list of rows"),
        (7, "a list of rows"),
        ([], "there is no transition"),
    ],
)
def test_what_is_no_log(agent, past, error):
    with pytest.raises(ValueError, match=error):
        agent.learn(past)
    with pytest.raises(FileNotFoundError):
        agent.learn("nowhere.csv")


def test_numbers_and_vectors(folder, tmp_path):
    pytest.importorskip("jax")
    path = csv_of(tmp_path / "past.csv", [(0, 1, 0.5, 2), (2, 0, 0.5, 1)])
    with cpsrl.open(folder / "a.db", cpsrl.TSDE(), (3, 2)) as agent:
        assert agent.learn(path) == Learned(2, True)
    spec = cpsrl.BootstrappedDQN(members=2, hidden=(4,), batch=2, capacity=10)
    path.write_text('state,action,reward,next_state\n"[0.5, 1]",1,0.25,"[0, 0.125]"\n')
    with cpsrl.open(folder / "b.db", spec, (2, 2)) as agent:
        assert agent.learn(path) == Learned(1, True)
        assert agent.agent.replay["next_observation"][0].tolist() == [0, 0.125]
        path.write_text('state,action,reward,next_state\n"[0.5]",1,0.25,"[0, 0.125]"\n')
        with pytest.raises(ValueError, match="line 2: state must be 2 finite numbers"):
            agent.learn(path)
