"""Summaries and the paper's claims: the right numbers, said in words."""

import re
import shutil
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cpsrl.experiments import (
    Entry,
    Execution,
    Experiment,
    continue_experiment,
    find_experiment,
    open_results,
    run,
    run_experiment,
)
from cpsrl.mdp import TabularMDP
from cpsrl.paper.figures import _sublinear, findings
from cpsrl.reports import report
from cpsrl.reports.page import _duel, in_words
from cpsrl.reports.report import _loss, _losses
from cpsrl.reports.summary import markdown, summary
from cpsrl.simulation import Runs
from cpsrl.support.progress import Progress


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
    assert re.search(r"- good less bad: -0\.02\d? \[-0\.02\d?, -0\.01\d?\], p <= \.0004", text), (
        text
    )
    assert re.search(r", 0\.01\d? \[0\.0\d+, 0\.01\d?\]\. ", in_words(rows, pairs["river"]))
    duel = _duel({("good", "bad"): pairs["river"][0]}, "bad", "good")
    assert re.fullmatch(r"▲ \+0\.02\d?", duel.text), duel


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


@pytest.mark.parametrize(
    ("good", "runs", "held"),
    [(5, 5, None), (17, 20, None), (45, 50, True), (44, 50, None), (30, 50, False), (0, 5, False)],
)
def test_a_share_of_runs_is_decided_by_its_whole_interval(make_runs, good, runs, held):
    slopes = np.where(np.arange(runs) < good, 0.001 + 1e-5 * np.arange(runs), 0.4)
    made = make_runs({"agent": (1, 1.0)}, seeds=runs)
    made = replace(made, regret=slopes[:, None] * made.times)
    found, words = _sublinear(made, "agent")
    assert found is held
    assert f"{good} of {runs} runs, " in words
    assert "sublinear: more than 80% of the runs" in words


def test_a_rare_penalty_does_not_hide_linear_regret():
    """An agent that loses 810 of the 922 that the random policy loses, for ever."""
    P = np.full((2, 3, 2), 0.5)
    mdp = TabularMDP(P, [[0.0, -1844.0, -810.0]] * 2, reward_range=(-60_000.0, 0.0), name="m")

    problem = SimpleNamespace(
        all_environments=[Entry(mdp, label="m")], problem=lambda place, run=None: mdp
    )
    times = np.arange(100, 2_001, 100)
    runs = Runs(
        times=times,
        regret=np.outer([810.0] * 3, times),
        resamples=np.ones((3, len(times)), np.int64),
        seeds=np.arange(3),
        agent=("stuck",) * 3,
        environment=("m",) * 3,
        gain=np.zeros(3),
        seed=0,
    )
    losses = _losses(problem, runs)
    assert losses["m"][0] == pytest.approx((1844 + 810) / 3)
    assert summary(runs, losses)[0].linear == 1
    found = runs.regret * 0.001
    assert summary(replace(runs, regret=found), losses)[0].linear == 0
    flat = TabularMDP(P, np.zeros((2, 3)), reward_range=(-2.0, 0.0))
    assert _loss(flat, 0.0) == 2


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
    for group in open_results(tmp_path / "r").groups:
        if group.environment.called == "riverswim (tsde)" and "gamma" in group.agent.called:
            shutil.rmtree(group.path.parent, ignore_errors=True)
    found = report(tmp_path / "r", formats=["svg"])
    assert len(found.rows) == 5
    assert "gamma.svg" in {path.name for path in found.paths}
    assert (tmp_path / "r/report/gamma.svg").read_text().count("riverswim (tsde)") == 0


class Interrupting(Progress):
    """Sends Ctrl-C once one agent has taken so many steps."""

    def __init__(self, agent, steps):
        self.agent, self.left = agent, steps

    def advance(self, part, amount):
        self.left -= amount * (part == self.agent)
        if self.left <= 0:
            raise KeyboardInterrupt


def test_a_report_after_ctrl_c_has_every_part_as_far_as_it_went(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LEAST_STEPS", 40)
    monkeypatch.setattr(run, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(run, "PROBE_SECONDS", 0.0)
    experiment = Experiment(
        name="stopped",
        environments=(Entry("riverswim"), Entry("random", {"n_states": 3})),
        agents=(Entry("tsde"), Entry("random"), Entry("optimal")),
        steps=400,
        seeds=4,
        record=40,
    )
    with pytest.raises(KeyboardInterrupt):  # half of the runs on the second environment
        run_experiment(experiment, tmp_path / "r", Execution(jobs=1), Interrupting("Random", 2_500))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = report(tmp_path / "r", formats=["png"])
    (only,) = caught
    assert "is not finished" in str(only.message)
    rows = {(row.agent, row.environment): row for row in found.rows}
    assert len(rows) == 6
    whole = [pair for pair, row in rows.items() if not row.unfinished]
    assert {("TSDE", "riverswim"), ("Random", "riverswim"), ("Optimal", "riverswim")} < set(whole)
    assert all((rows[pair].runs, rows[pair].steps) == (4, 400) for pair in whole)
    stopped = {pair: row for pair, row in rows.items() if row.unfinished}
    assert {row.environment for row in stopped.values()} == {"random (n_states=3)"}
    assert all(row.runs * row.steps < 4 * 400 for row in stopped.values())
    text = (tmp_path / "r/report/summary.md").read_text()
    assert text.count("(unfinished: ") == len(stopped)
    page = (tmp_path / "r/report/report.html").read_text()
    said = f"{len(stopped)} of 6 curves are unfinished (4 runs to step 400 each): "
    assert said in page
    assert found.findings == []
    pairs = [len(some) for some in open_results(tmp_path / "r").load().comparisons().values()]
    assert pairs[0] == 3, "those that are finished are compared"
    continue_experiment(tmp_path / "r")
    assert not any(row.unfinished for row in report(tmp_path / "r", formats=["png"]).rows)
    assert "Not finished" not in (tmp_path / "r/report/report.html").read_text()


def test_agents_that_are_finished_are_compared_beside_one_that_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LEAST_STEPS", 40)
    monkeypatch.setattr(run, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(run, "PROBE_SECONDS", 0.0)
    experiment = Experiment("s", ["riverswim"], ["tsde", "optimal", "random"], 400, 4, record=40)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "r", Execution(jobs=1), Interrupting("Random", 600))
    with pytest.warns(UserWarning, match="Random on riverswim: 1 run to step 400"):
        found = report(tmp_path / "r", formats=["png"])
    assert [row.unfinished for row in found.rows] == [False, False, True]
    assert "Of 1 pairs of agents" in (tmp_path / "r/report/summary.md").read_text()
    page = (tmp_path / "r/report/report.html").read_text()
    matrix = page[page.index('<table class="left-1 matrix') :]
    matrix = matrix[: matrix.index("</table>")]
    assert "TSDE" in matrix
    assert "Random" not in matrix


def test_nothing_that_a_user_writes_is_html_in_the_summary(tmp_path):
    called = "<img src=x onerror=alert(1)> & {}"
    places = [Entry("riverswim", label=called.format("river")), Entry("riverswim", {"n_states": 3})]
    agents = [Entry("optimal", label=called.format("best")), Entry("random", label="worst")]
    said = "<script>alert(1)</script>"
    experiment = Experiment("s", places, agents, 400, 6, description=said)
    run_experiment(experiment, tmp_path / "r")
    report(tmp_path / "r", formats=[])
    text = (tmp_path / "r/report/summary.md").read_text()
    assert "- &lt;img src=x onerror=alert(1)&gt; &amp; best less worst: -" in text
    assert {name for name in ("## ", "| ", "- ") if f"\n{name}&lt;img" in text} == {
        "## ",
        "| ",
        "- ",
    }
    assert "&lt;script&gt;" in text
    assert not re.search(r"<\w", text)


def test_an_unfinished_figure_of_the_paper_is_reported_without_its_claims(tmp_path):
    experiment = replace(find_experiment("figure2-left"), steps=300, seeds=3)
    run_experiment(experiment, tmp_path / "r")
    tsde = [one.path for one in open_results(tmp_path / "r").groups if one.agent.name == "tsde"]
    shutil.rmtree(tsde[0].parent)
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
