"""The page of an experiment as a file: what is in it, how large it is, and when it goes."""

import json
import re
import shutil

import numpy as np
import pytest

from cpsrl.documents import pictures
from cpsrl.experiments import Entry, Experiment, load, open_results, run_experiment
from cpsrl.reports import report
from cpsrl.reports.page import in_words, thinned
from cpsrl.reports.summary import summary
from cpsrl.reports.sweeps import of_agents, of_environments

TEN = Experiment(
    name="ten-agents",
    environments=(Entry("riverswim"),),
    agents=(Entry("continuing-psrl", grid={"gamma": list(np.linspace(0.5, 0.95, 10))}),),
    steps=1_000,
    seeds=50,
    record=1,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "r"
    run_experiment(TEN, folder)
    report(folder, formats=["png"])
    return folder


@pytest.fixture
def small(tmp_path):
    two = (Entry("continuing-psrl", grid={"gamma": [0.5, 0.9]}),)
    experiment = Experiment("two-agents", (Entry("riverswim"),), two, steps=40, seeds=2)
    run_experiment(experiment, tmp_path / "r")
    return tmp_path / "r"


def test_ten_agents_with_fifty_runs_take_less_than_a_megabyte(directory):
    path = directory / "report/report.html"
    assert path.stat().st_size < 1_000_000
    data = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text())[1])
    (place,) = data["places"]
    assert [len(curve["runs"]) for curve in place["regret"]] == [50] * 10
    runs = load(directory, states=False)
    final = [run[-1] for curve in place["regret"] for run in curve["runs"]]
    np.testing.assert_allclose(final, runs.regret[:, -1], rtol=1e-4)


def test_a_page_of_earlier_runs_does_not_stay_beside_new_figures(small, monkeypatch):
    def broken(*_):
        raise OSError("no space left")

    report(small, formats=["png"])
    assert (small / "report/report.html").exists()
    monkeypatch.setattr(pictures, "save", broken)
    with pytest.raises(OSError, match="no space left"):
        report(small, formats=["png"])
    assert not (small / "report/report.html").exists()


def test_an_unfinished_experiment_says_so(small):
    report(small, formats=["png"])
    text = (small / "report/report.html").read_text()
    assert "<strong>Not finished:" not in text
    assert '<pre id="command" tabindex="0">cpsrl run spec.toml</pre>' in text
    shutil.rmtree(open_results(small).groups[-1].path.parent)
    report(small, formats=["png"])
    text = (small / "report/report.html").read_text()
    said = "<strong>Not finished:</strong> 1 of 2 curves are unfinished (2 runs to step"
    assert said in text
    assert "on riverswim: none." in text


def test_words_name_the_best_agent_and_whom_it_cannot_be_told_from(make_runs):
    runs = make_runs({"good": (1, 0.5), "same": (1, 0.5), "bad": (3, 1.0)})
    text = in_words(summary(runs), runs.comparisons()["river"])
    best, other = ("good", "same") if text.startswith("good") else ("same", "good")
    assert text.startswith(f"{best} has the least mean regret after 10,000 steps, ")
    assert f"It can be told apart from 1 of 2 others, but not from {other}." in text
    assert text.endswith("In most runs of bad regret still grows linearly.")


def test_thinned_steps_are_dense_at_both_ends_and_have_the_last(make_runs):
    times = np.arange(1, 100_001)
    kept = times[thinned(times, 200)]
    assert len(kept) <= 200
    assert kept[-1] == 100_000
    assert (kept <= 100).sum() >= 25
    assert np.diff(kept).max() <= 1011
    np.testing.assert_array_equal(thinned(times[:50], 200), np.arange(50))


def test_options_that_vary_are_found_and_others_are_levels(make_runs):
    labels = {"a": (1, 0.5), "b": (2, 0.5), "TSDE": (3, 0.5)}
    rows = summary(make_runs(labels))
    entries = [
        Entry("psrl", {"rule": {"name": "bernoulli", "gamma": 0.9}}, label="b"),
        Entry("psrl", {"rule": {"name": "bernoulli", "gamma": 0.5}}, label="a"),
        Entry("tsde", label="TSDE"),
    ]
    (sweep,) = of_agents(entries, rows)
    assert sweep.option == "rule.gamma"
    ((name, points),) = sweep.lines.items()
    assert name == "psrl, rule.name = bernoulli"
    assert [(value, label) for value, label, _ in points] == [(0.5, "a"), (0.9, "b")]
    assert set(sweep.levels) == {"TSDE"}
    assert sweep.place(0.9) == pytest.approx(10)
    assert of_agents(entries[1:], rows) == []


def test_environments_that_differ_in_a_number_make_a_line_for_every_agent(make_runs):
    rows = summary(make_runs({"x": (1, 0.5), "y": (2, 0.5)}, environments=("six", "two")))
    places = [Entry("riverswim", {"n_states": n}, label=k) for n, k in ((6, "six"), (2, "two"))]
    (sweep,) = of_environments(places, rows)
    assert sweep.option == "n_states"
    assert list(sweep.lines) == ["x", "y"]
    assert [(value, label) for value, label, _ in sweep.lines["y"]] == [(2, "two"), (6, "six")]
    assert not sweep.logarithmic
