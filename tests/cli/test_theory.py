"""`cpsrl bound` and `cpsrl verify`, as a user types them."""

import json

import pytest

from cpsrl.cli.main import main
from cpsrl.paper import CLAIMS
from cpsrl.paper.counterexamples import path
from cpsrl.paper.verdicts import Claim, Control, Verdict


def said(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), err


def test_bound_says_when_it_is_vacuous(capsys):
    code, out, _ = said(capsys, "bound", "riverswim", "--steps", "100000")
    assert code == 0
    assert "trivial bound 100,000" in out
    assert (
        "paper: vacuous. Regret is at most T anyway; it says more than that from T = 22,621" in out
    )
    assert "E[gamma-discounted regret]" in out


def test_bound_as_json(capsys):
    code, out, _ = said(
        capsys, "bound", "riverswim", "--variant", "tsde", "--steps", "1000", "--gamma", "0.9",
        "--tau", "2", "--span", "3", "--json",
    )  # fmt: skip
    answer = json.loads(out)
    assert code == 0
    assert (answer["S"], answer["A"], answer["T"], answer["gamma"]) == (6, 2, 1000, 0.9)
    assert (answer["tau"], answer["span"]) == (2, 3)
    assert answer["expected pseudo-episodes"] == pytest.approx(100.9)
    assert len(answer["bounds"]) == 6
    for row in answer["bounds"]:
        assert row["total"] == pytest.approx(sum(row["terms"].values()))
        assert row["vacuous"] == (row["total"] >= 1000)


def test_the_model_may_come_after_options(capsys):
    first = ["riverswim", "--steps", "1000", "--variant", "tsde", "--n-states", "4", "--json"]
    later = ["--steps", "1000", "--variant", "tsde", "--json", "riverswim", "--n-states", "4"]
    assert said(capsys, "bound", *first) == said(capsys, "bound", *later)


def test_a_bound_that_says_something(capsys):
    _, out, _ = said(capsys, "bound", "riverswim", "--steps", "10000000")
    assert "sharp: says more than the trivial bound" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inventory",), "rewards in [0, 1]"),
        (("riverswim", "--gamma", "1"), "gamma must be a number in [0, 1)"),
        (("riverswm",), "did you mean 'riverswim'"),
    ],
)
def test_mistakes_with_bound(capsys, arguments, message):
    code, _, err = said(capsys, "bound", *arguments)
    assert code == 2
    assert message in err


def test_bound_refuses_gains_that_differ_by_state(capsys, tmp_path):
    file = tmp_path / "two.csv"
    file.write_text("state,action,next_state,probability,reward\n0,0,0,1,1\n1,0,1,1,0\n")
    code, _, err = said(capsys, "bound", str(file))
    assert code == 2
    assert "weakly communicating" in err


def test_verify_shows_a_false_statement_with_what_is_true(capsys):
    code, out, err = said(capsys, "verify", "--quick", "--only", "sum-of-widths", "lemma-5.3")
    assert code == 0
    assert "fails sum-of-widths (appendix A) ratio 1.381" in out
    assert "true instead: it is at most sqrt(8 S A T)" in out
    assert "holds lemma-5.3 (Lemma 5.3)" in out
    assert "confidence 99%" in out
    assert "1 of 2 claims hold" in out
    assert "control: sqrt(8 S A T): holds, as it must" in out
    assert "control: V in place of V^ under the sum: fails, as it must" in out
    assert "Every claim and every control had the expected outcome." in out
    assert "claim 2 of 2: lemma-5.3" in err


def test_verify_as_json(capsys):
    code, out, _ = said(capsys, "verify", "--quick", "--json", "--only", "bellman-equation")
    (row,) = json.loads(out)
    assert code == 0
    assert row["name"] == "bellman-equation"
    assert row["reference"] == "eq. 4"
    assert row["holds"] is True
    assert row["verdict"] == "holds"
    assert row["control"]["ratio"] > 1
    assert 0 <= row["ratio"] < 1


def test_verify_leaves_with_1_if_a_claim_does_not_come_out_as_known(capsys, monkeypatch):
    control = Control("1 = 3", 3.0)
    wrong = Claim("one-is-two", "ours", "1 = 2", lambda effort: Verdict(False, 2.0, control, {}))
    monkeypatch.setitem(CLAIMS, "one-is-two", wrong)
    with pytest.raises(SystemExit) as left:
        main(["verify", "--only", "one-is-two"])
    assert left.value.code == 1
    assert "Not as known: one-is-two" in capsys.readouterr().out


def test_verify_leaves_with_1_if_a_control_does_not_fail(capsys, monkeypatch):
    control = Control("1 = 1", 1.0)
    weak = Claim("one-is-one", "ours", "1 = 1", lambda effort: Verdict(True, 1.0, control, {}))
    monkeypatch.setitem(CLAIMS, "one-is-one", weak)
    with pytest.raises(SystemExit) as left:
        main(["verify", "--only", "one-is-one"])
    assert left.value.code == 1
    assert "control: 1 = 1: holds, WHICH IT MUST NOT" in capsys.readouterr().out


def test_verify_calls_a_vacuous_statement_vacuous(capsys, monkeypatch):
    control = Control("anything", 0.1, must_hold=True)
    verdict = Verdict(True, 0.01, control, {}, vacuous=True)
    claim = Claim("at-most-all", "ours", "x <= T", lambda effort: verdict, vacuous=True)
    monkeypatch.setitem(CLAIMS, "at-most-all", claim)
    code, out, _ = said(capsys, "verify", "--only", "at-most-all")
    assert code == 0
    assert "vacuous at-most-all (ours)" in out
    assert "0 of 1 claims hold, 1 vacuous" in out


def test_verify_gives_the_nearest_name(capsys):
    code, _, err = said(capsys, "verify", "--only", "theorem-4.3")
    assert code == 2
    assert "did you mean 'theorem-4." in err


def test_solve_opens_a_counterexample(capsys):
    code, out, _ = said(capsys, "solve", path("dive"), "--gamma", "0.5")
    assert code == 0
    assert "averaging time tau 0.35" in out
    assert "span of the bias 0.7" in out
