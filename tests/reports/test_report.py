"""Summaries and the paper's claims: the right numbers, said in words."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from cpsrl.experiments import Entry, Experiment, find_experiment, run_experiment
from cpsrl.reports import report
from cpsrl.reports.page import _duel, in_words
from cpsrl.reports.paper import findings
from cpsrl.reports.summary import markdown, summary


def test_a_row_says_what_the_runs_came_to(make_runs):
    runs = make_runs({"linear": (0.3, 1.0), "root": (1, 0.5)}, environments=("a", "b"))
    rows = summary(runs)
    assert [(row.environment, row.agent) for row in rows] == [
        ("a", "linear"),
        ("a", "root"),
        ("b", "linear"),
        ("b", "root"),
    ]
    linear, root, *_ = rows
    final = runs.select(agent="linear", environment="a").regret[:, -1]
    assert linear.regret.value == pytest.approx(final.mean())
    assert linear.median == pytest.approx(np.median(final))
    assert linear.exponent.value == pytest.approx(1)
    assert root.exponent.value == pytest.approx(0.5)
    assert (linear.linear, root.linear) == (1.0, 0.0)


def test_the_table_is_markdown_with_a_section_for_every_environment(make_runs):
    text = markdown(summary(make_runs({"x": (1, 0.5)}, environments=("a", "b"))))
    assert text.count("## ") == 2
    assert text.count("| x |") == 2


def test_all_pairs_are_compared_and_those_that_differ_are_named(make_runs):
    runs = make_runs({"good": (1, 0.5), "same": (1, 0.5), "bad": (3, 0.5)})
    pairs = runs.comparisons()
    assert [len(found) for found in pairs.values()] == [3]
    text = markdown(summary(runs), pairs)
    assert "Of 3 pairs of agents 2 can be told apart" in text
    assert "- good less bad: -" in text
    assert "good less same" not in text
    alike = make_runs({"x": (1, 0.5), "y": (1, 0.5)})
    assert "Of 1 pairs of agents 0 can be told apart" in markdown(
        summary(alike), alike.comparisons()
    )


def test_small_regrets_are_not_rounded_to_nothing(make_runs):
    runs = make_runs({"good": (1e-4, 0.5), "bad": (3e-4, 0.5)}, gain=5e-5)
    rows, pairs = summary(runs), runs.comparisons()
    text = markdown(rows, pairs)
    assert re.search(r"- good less bad: -0\.02\d? \[-0\.02\d?, -0\.01\d?\], p = ", text), text
    assert re.search(r", 0\.01\d? \[0\.0\d+, 0\.01\d?\]\. ", in_words(rows, pairs["river"]))
    duels = _duel({("good", "bad"): pairs["river"][0]}, "bad", "good")
    assert re.search(r">▲ \+0\.02\d?<small>", duels), duels


def test_unequal_runs_are_not_compared(make_runs):
    assert without(make_runs({"x": (1, 0.5), "y": (1, 0.5)}), "y", range(3)).comparisons() == {}


def test_few_runs_come_with_a_warning(make_runs):
    few = markdown(summary(make_runs({"x": (1, 0.5)}, seeds=10)))
    assert "With 10 runs, rare failures may be unseen" in few
    assert "is missed with probability 60%" in few
    assert "unseen" not in markdown(summary(make_runs({"x": (1, 0.5)}, seeds=20)))


def test_one_run_has_no_interval(make_runs):
    (row,) = summary(make_runs({"x": (1, 0.5)}, seeds=1))
    assert np.isnan([row.regret.low, row.regret.high]).all()
    assert "| - |" in markdown([row])


LEFT = ["Continuing PSRL, horizon T=100000", "Continuing PSRL, gamma=0.99"]
LEFT += ["Continuing PSRL, doubling", "TSDE", "DS-PSRL"]


def test_claims_of_the_left_figure_that_hold(make_runs):
    curves = dict(zip(LEFT, [(30, 0.2), (31, 0.2), (29, 0.2), (25, 0.2), (3, 0.8)], strict=True))
    found = findings(find_experiment("figure2-left"), make_runs(curves))
    assert len(found) == 6
    assert all(finding.held for finding in found)
    assert str(found[0]).startswith("HELD: Continuing PSRL, horizon T=100000 is on par with TSDE.")


def test_claims_of_the_left_figure_that_do_not_hold(make_runs):
    curves = dict.fromkeys(LEFT, (3, 0.8)) | {"TSDE": (25, 0.2)}
    found = findings(find_experiment("figure2-left"), make_runs(curves))
    assert not any(finding.held for finding in found)
    assert str(found[0]).startswith("DID NOT HOLD: ")


def test_claims_of_the_right_figure(make_runs):
    experiment = find_experiment("figure2-right")
    labels = [entry.label for entry in experiment.all_agents]
    networks = [label for label in labels if label.startswith("Bootstrapped")]
    good = dict.fromkeys(networks, (30, 0.2)) | {"DQN": (0.1, 1.0)}
    curves = {label: good.get(label, (0.12, 1.0)) for label in labels}
    found = findings(experiment, make_runs(curves))
    assert len(found) >= 2
    assert all(finding.held for finding in found)
    swapped = {label: (0.2, 1.0) if label in networks else (30, 0.2) for label in labels}
    assert not any(finding.held for finding in findings(experiment, make_runs(swapped)))


def without(runs, agent, seeds=()):
    """The runs without those of `agent` whose seeds are not among `seeds`."""
    kept = zip(runs.agent, runs.seeds, strict=True)
    return runs._rows([i for i, (name, s) in enumerate(kept) if name != agent or s in seeds])


@pytest.mark.parametrize("seeds", [(), range(5)])
def test_a_claim_is_not_decided_while_runs_are_missing(make_runs, seeds):
    curves = dict(zip(LEFT, [(30, 0.2), (31, 0.2), (29, 0.2), (25, 0.2), (3, 0.8)], strict=True))
    experiment = find_experiment("figure2-left")
    found = findings(experiment, without(make_runs(curves), "TSDE", seeds))
    assert [finding.held for finding in found] == [None] * 6
    assert str(found[0]) == (
        "UNDECIDED: Continuing PSRL, horizon T=100000 is on par with TSDE. It takes the same "
        "runs of each agent; so far there are those of Continuing PSRL, horizon T=100000 (20), "
        f"TSDE ({len(seeds)}), DS-PSRL (20)."
    )
    found = findings(experiment, without(make_runs(curves), LEFT[0], seeds))
    assert [finding.held for finding in found] == [None, None, True, True, True, True]


def test_a_claim_about_an_agent_that_has_not_begun_is_not_decided(make_runs):
    found = findings(find_experiment("figure2-right"), make_runs({"DQN": (0.1, 1.0)}))
    held = {finding.statement: finding.held for finding in found}
    assert held.pop("DQN has linear regret") is True
    assert set(held.values()) == {None}


def test_one_run_decides_nothing(make_runs):
    curves = dict(zip(LEFT, [(30, 0.2), (31, 0.2), (29, 0.2), (25, 0.2), (3, 0.8)], strict=True))
    found = findings(find_experiment("figure2-left"), make_runs(curves, seeds=1))
    assert [finding.held for finding in found] == [None] * 6
    assert "(no interval)" in str(found[0])
    assert "nan" not in " ".join(map(str, found))
    experiment = find_experiment("figure2-right")
    curves = {entry.label: (0.12, 1.0) for entry in experiment.all_agents}
    found = findings(experiment, make_runs(curves, seeds=1))
    assert {finding.held for finding in found} == {None}


def with_final(runs, agent, final):
    """The runs with those of `agent` ending at `final`."""
    regret = runs.regret.copy()
    regret[[name == agent for name in runs.agent], -1] = final
    return replace(runs, regret=regret)


def test_a_regret_near_zero_is_compared_by_differences(make_runs):
    """With a mean near zero a ratio means nothing, and DS-PSRL is far behind all the same."""
    curves = dict(zip(LEFT, [(30, 0.2), (31, 0.2), (29, 0.2), (25, 0.2), (3, 0.8)], strict=True))
    runs = make_runs(curves)
    noise = np.random.default_rng(3).normal(2.0, 40.0, 20)
    on_par, outperforms = findings(
        find_experiment("figure2-left"), with_final(runs, LEFT[0], noise)
    )[:2]
    assert outperforms.held is True
    assert "times as much" not in str(outperforms)
    assert on_par.held is True


def test_an_interval_with_the_bound_inside_decides_nothing(make_runs):
    curves = dict.fromkeys(LEFT, (30, 0.2)) | {"DS-PSRL": (60, 0.2)}
    found = findings(find_experiment("figure2-left"), make_runs(curves))
    assert {finding.held for finding in found if "large margin" in finding.statement} == {None}


def test_figures_of_an_earlier_report_go_and_other_files_stay(tmp_path):
    run_experiment(replace(GAMMAS, steps=20), tmp_path / "r")
    report(tmp_path / "r", formats=["svg"])
    folder = tmp_path / "r/report"
    (folder / "final.png").write_bytes(b"somebody's own")
    (folder / "notes.svg").write_text("cpsrl")
    found = report(tmp_path / "r", formats=["png"])
    assert {path.name for path in folder.iterdir()} == {
        "final.png",
        "notes.svg",
        *(path.name for path in found.paths),
    }


def test_runs_without_a_recorded_step_are_refused(make_runs):
    with pytest.raises(ValueError, match="no recorded step has been reached by every run yet"):
        summary(make_runs({"x": (1, 0.5)}, steps=40))


def test_unequal_numbers_of_runs_are_both_given(make_runs):
    runs = without(make_runs({"x": (1, 0.5), "y": (1, 0.5)}), "y", range(3))
    assert "3 to 20 runs of 10,000 steps." in markdown(summary(runs))


def test_other_experiments_make_no_claims_about_the_paper(make_runs):
    experiment = replace(find_experiment("figure2-left"), name="mine")
    assert findings(experiment, make_runs(dict.fromkeys(LEFT, (1, 0.5)))) == []


GAMMAS = Experiment(
    name="three-gammas",
    description="Regret against gamma.",
    environments=(Entry("riverswim", grid={"variant": ["osband", "tsde"]}),),
    agents=(Entry("continuing-psrl", grid={"gamma": [0.5, 0.9, 0.99]}), Entry("tsde")),
    steps=400,
    seeds=3,
)


def test_a_report_has_figures_a_table_and_their_origin(tmp_path):
    run_experiment(GAMMAS, tmp_path / "r", command="cpsrl run three-gammas.toml")
    found = report(tmp_path / "r", formats=["svg"])
    assert sorted(path.name for path in found.paths) == [
        "final-01.svg",
        "final-02.svg",
        "gamma.svg",
        "regret-01.svg",
        "regret-02.svg",
        "report.html",
        "summary.md",
    ]
    assert all(path.parent == tmp_path / "r/report" for path in found.paths)
    assert len(found.rows) == 8
    for path in found.paths:
        assert "cpsrl run three-gammas.toml" in path.read_text()


def test_an_unfinished_experiment_is_reported_as_far_as_it_is(tmp_path):
    run_experiment(GAMMAS, tmp_path / "r")
    for folder in (tmp_path / "r/runs/02-riverswim-tsde").iterdir():
        if "gamma" in folder.name:
            shutil.rmtree(folder)
    with pytest.warns(UserWarning, match="is not finished: 15 of 24 runs begun"):
        found = report(tmp_path / "r", formats=["svg"])
    assert len(found.rows) == 5
    assert "gamma.svg" in {path.name for path in found.paths}
    assert (tmp_path / "r/report/gamma.svg").read_text().count("riverswim (tsde)") == 0


def test_an_unfinished_figure_of_the_paper_is_reported_without_its_claims(tmp_path):
    experiment = replace(find_experiment("figure2-left"), steps=300, seeds=3)
    run_experiment(experiment, tmp_path / "r")
    (tsde,) = (tmp_path / "r/runs").glob("*/*-tsde")
    shutil.rmtree(tsde)
    with pytest.warns(UserWarning, match="is not finished"):
        found = report(tmp_path / "r", formats=["svg"])
    assert {finding.held for finding in found.findings} == {None}
    assert {path.name for path in found.paths} == {
        "regret.svg",
        "final.svg",
        "report.html",
        "summary.md",
    }
    assert "UNDECIDED" in (tmp_path / "r/report/summary.md").read_text()


def test_without_formats_the_summary_is_written_alone(tmp_path):
    run_experiment(replace(GAMMAS, steps=20), tmp_path / "r")
    found = report(tmp_path / "r", tmp_path / "not/there", formats=[])
    assert found.paths == [tmp_path / "not/there/summary.md"]
    assert "three-gammas" in found.paths[0].read_text()
