"""`cpsrl agent`, `cpsrl learn`: the shell's way to a durable agent."""

import json
import re
import socket

import pytest

import cpsrl
from cpsrl.cli.main import main


@pytest.fixture
def file(tmp_path, capsys):
    path = str(tmp_path / "agent.db")
    command = ["agent", "new", path, "tsde", "--states", "idle", "busy", "--actions", "wait", "go"]
    assert main(command) == 0
    said = "states idle, busy; actions wait, go; mean rewards from 0 to 1\n"
    assert capsys.readouterr().out == said
    return path


def test_decide_outcome_status_and_explain(file, capsys):
    assert main(["agent", "decide", file, "idle", "--id", "42"]) == 0
    assert main(["agent", "decide", file, "idle", "--id", "42", "--json"]) == 0
    first, again = capsys.readouterr().out.splitlines()
    assert json.loads(again) == {"id": "42", "action": first.split()[1]}
    assert main(["agent", "outcome", file, "42", "1.5", "busy"]) == 0
    assert main(["agent", "decide", file, "busy", "--id", "43"]) == 0
    assert main(["agent", "discard", file, "43"]) == 0
    capsys.readouterr()
    assert main(["agent", "status", file, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["decisions"], status["outcomes"], status["discarded"]) == (2, 1, 1)
    assert main(["agent", "status", file]) == 0
    shown = capsys.readouterr().out
    assert "reward rate    1.5" in shown
    assert re.search(r"last resample  decision \d, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: ", shown)
    assert main(["agent", "explain", file, "idle", "--draws", "99"]) == 0
    assert "state idle: it would take" in capsys.readouterr().out
    assert main(["agent", "explain", file, "idle", "--draws", "99", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["draws"] == 99


def test_rewards_that_are_not_about_0_to_1(tmp_path):
    path = str(tmp_path / "costs.db")
    sizes = ["--states", "2", "--actions", "2"]
    assert main(["agent", "new", path, "tsde", *sizes, "--reward-range", "-20", "10"]) == 0
    with cpsrl.open(path) as agent:
        assert agent.labels.sizes.reward_range == (-20.0, 10.0)


def test_learn_says_whether_it_was_new(file, tmp_path, capsys):
    past = tmp_path / "past.csv"
    past.write_text("state,action,reward,next_state\nidle,go,1,busy\nbusy,wait,0,idle\n")
    assert main(["learn", file, str(past)]) == 0
    assert main(["learn", file, str(past)]) == 0
    first, again = capsys.readouterr().out.splitlines()
    assert first == "learnt from 2 transitions"
    assert again.startswith("learnt nothing")


def test_mistakes_are_one_line(file, tmp_path, capsys):
    with cpsrl.open(file):
        assert main(["agent", "status", file]) == 0
        wrong = [
            (["agent", "decide", file, "idle"], "is in use: process"),
            (["agent", "status", str(tmp_path / "none.db")], "there is no agent"),
            (["agent", "explain", file, "idel"], "did you mean 'idle'?"),
            (["agent", "new", file, "tsde", "--states", "2", "--actions", "2"], "already"),
        ]
        capsys.readouterr()
        for command, complaint in wrong:
            assert main(command) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert complaint in line
    assert main(["learn", str(tmp_path / "none.db"), "past.csv"]) == 2
    assert "`cpsrl agent new`" in capsys.readouterr().err
    assert main(["agent", "outcome", file, "7", "1", "idle"]) == 2
    assert "'7' is unknown or long finished" in capsys.readouterr().err
    assert main(["serve", file, "--host", "0.0.0.0"]) == 2
    assert "others can reach 0.0.0.0" in capsys.readouterr().err
    assert main(["agent"]) == 0


def test_an_address_that_cannot_be_had_is_one_line(file, capsys):
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for given, complaint in ((port, f"'127.0.0.1', {port}"), ("65536", "at most 65535")):
            assert main(["serve", file, "--port", given]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith("cpsrl: ")
            assert complaint in line


@pytest.mark.parametrize(
    "wrong",
    [
        "tsde --states a --actions",
        "optimal --states 2 --actions 2",
        "tsde --states a a --actions b",
    ],
)
def test_an_agent_that_cannot_be_made_leaves_nothing(wrong, tmp_path):
    assert main(["agent", "new", str(tmp_path / "agent.db"), *wrong.split()]) == 2
    assert list(tmp_path.iterdir()) == []
