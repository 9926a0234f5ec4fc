"""`cpsrl solve`, as a user types it."""

import json

import pytest

from cpsrl.cli.main import main


def said(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_riverswim_as_json(capsys):
    code, out, _ = said(capsys, "solve", "riverswim", "--gamma", "0.5", "0.99", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["class"] == "communicating"
    assert answer["gain"] == pytest.approx(7203 / 16805, abs=1e-10)
    assert answer["policy"] == [1] * 6
    assert answer["sufficient_gamma"] == pytest.approx(0.614301, abs=1e-6)
    assert [entry["linear_regret"] for entry in answer["gammas"]] == [True, False]


def test_a_gamma_that_is_too_small_is_warned_of(capsys):
    _, out, _ = said(capsys, "solve", "riverswim", "--variant", "tsde", "--gamma", "0.99", "0.999")
    words = " ".join(out.split())
    assert "its regret will be linear" in words
    assert "gamma = 0.999 planning gap 0: large enough" in words


def test_a_file_with_labels(capsys, tmp_path):
    path = tmp_path / "machine.csv"
    path.write_text(
        "state,action,next_state,probability,reward\n"
        "idle,wait,idle,1,0\nidle,start,busy,1,-0.5\n"
        "busy,wait,idle,0.3,1\nbusy,wait,busy,0.7,1\nbusy,start,busy,1,0\n"
    )
    code, out, _ = said(capsys, "solve", str(path))
    # One cycle pays -.5 and then 1 for 1/.3 steps on average.
    assert code == 0
    assert f"{(-0.5 + 1 / 0.3) / (1 + 1 / 0.3):.8g}"[:8] in out
    table = [line.split() for line in out.splitlines()[-2:]]
    assert [line[:2] for line in table] == [["idle", "start"], ["busy", "wait"]]


def test_gains_that_differ_by_state_are_all_given(capsys, tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("state,action,next_state,probability,reward\n0,0,0,1,1\n1,0,1,1,2\n")
    _, out, _ = said(capsys, "solve", str(path), "--json")
    answer = json.loads(out)
    assert answer["class"] == "multichain"
    assert answer["gain"] is None
    assert answer["gains"] == [1, 2]
    assert answer["diameter"] is None


def test_one_of_a_kind_a_gamma_close_to_one_and_what_was_left_out(capsys, tmp_path):
    (tmp_path / "one.csv").write_text(
        "state,action,next_state,probability,reward\na,go,b,1,0\nb,go,a,1,1\n"
    )
    _, out, _ = said(capsys, "solve", str(tmp_path / "one.csv"), "--gamma", "0.999999999")
    assert "2 states, 1 action, " in out
    assert "gamma = 0.999999999 " in out
    _, out, _ = said(capsys, "solve", "riverswim", "--n-states", "301")
    assert out.count("not computed (--thorough does)") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rivrswim"], "did you mean 'riverswim'"),
        (["riverswim", "--variant", "tsd"], "did you mean 'tsde'"),
        (["missing.csv"], "missing.csv"),
        (["replacement.tsv"], "no environment is called 'replacement.tsv', and a file must end"),
        (["pendulum"], "pendulum is not a table"),
        (["changing"], "plan for its models one by one"),
        (["riverswim", "--gamma", "1.5"], "gamma must be a number in [0, 1)"),
    ],
)
def test_mistakes_are_one_clear_line(capsys, arguments, message):
    code, out, err = said(capsys, "solve", *arguments)
    assert code == 2
    assert not out
    assert err.startswith("cpsrl: ")
    assert err.count("\n") == 1
    assert message in err
