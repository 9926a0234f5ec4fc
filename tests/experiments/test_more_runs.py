"""Runs are added as steps are: the directory is what it would be had they been there at first."""

from dataclasses import replace

import pytest

from cpsrl.cli.main import main
from cpsrl.experiments import (
    Entry,
    Execution,
    Experiment,
    continue_experiment,
    load,
    open_results,
    run_experiment,
)
from cpsrl.experiments import run as module
from cpsrl.support.progress import Progress

EXPERIMENT = Experiment(
    name="more",
    environments=(Entry("riverswim"), Entry("random", {"n_states": 4}, per_run="seed")),
    agents=(Entry("continuing-psrl", {"schedule": "horizon"}), Entry("tsde")),
    steps=300,
    seeds=3,
    record=7,
)


class Interrupting(Progress):
    """Raises a KeyboardInterrupt, as Ctrl-C does, after a number of calls."""

    def __init__(self, calls):
        self.left = calls

    def advance(self, agent, steps):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def seven(tmp_path_factory):
    """The directory of seven runs, carried on once."""
    directory = tmp_path_factory.mktemp("seven") / "results"
    run_experiment(replace(EXPERIMENT, seeds=7), directory)
    continue_experiment(directory, 100)
    return directory


def test_runs_added_before_and_after_steps_are_as_if_there_from_the_start(
    seven, tmp_path, assert_same_results
):
    run_experiment(EXPERIMENT, tmp_path / "before")
    run_experiment(replace(EXPERIMENT, seeds=7), tmp_path / "before")
    continue_experiment(tmp_path / "before", 100)
    assert_same_results(tmp_path / "before", seven)

    run_experiment(EXPERIMENT, tmp_path / "after")
    continue_experiment(tmp_path / "after", 100)
    continue_experiment(tmp_path / "after", seeds=5)
    assert 300 in load(tmp_path / "after").times, "also where the first runs stopped"
    run_experiment(replace(EXPERIMENT, seeds=7), tmp_path / "after")
    assert_same_results(tmp_path / "after", seven)

    run_experiment(EXPERIMENT, tmp_path / "both")
    results = continue_experiment(tmp_path / "both", 100, seeds=7)
    assert (results.steps, results.experiment.seeds) == (400, 7)
    assert_same_results(tmp_path / "both", seven)


def test_interrupted_while_runs_are_added(seven, tmp_path, monkeypatch, assert_same_results):
    monkeypatch.setattr(module, "LEAST_STEPS", 50)
    monkeypatch.setattr(module, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.0)
    run_experiment(EXPERIMENT, tmp_path / "r")
    more = replace(EXPERIMENT, seeds=7)
    for calls in (0, 5, 15):
        with pytest.raises(KeyboardInterrupt):
            run_experiment(more, tmp_path / "r", Execution(jobs=1), Interrupting(calls))
    continue_experiment(tmp_path / "r")
    assert continue_experiment(tmp_path / "r", 100).steps == 400
    assert_same_results(tmp_path / "r", seven)


def test_runs_by_number_are_added_once(tmp_path):
    run_experiment(EXPERIMENT, tmp_path / "r")
    continue_experiment(tmp_path / "r", seeds=[1, 9, 4])
    assert open_results(tmp_path / "r").experiment.seeds == (0, 1, 2, 9, 4)
    run_experiment(EXPERIMENT, tmp_path / "r")
    assert open_results(tmp_path / "r").experiment.runs == (0, 1, 2, 9, 4)
    assert load(tmp_path / "r").seeds.tolist() == [0, 1, 2, 9, 4] * 4
    with pytest.raises(ValueError, match="different run numbers"):
        continue_experiment(tmp_path / "r", seeds=[3, 3])


def test_steps_typed_wrongly_are_taken_back(tmp_path, assert_same_results, seven):
    run_experiment(replace(EXPERIMENT, seeds=7), tmp_path / "r")
    before = (tmp_path / "r" / "experiment.json").read_bytes()
    with pytest.raises(ValueError, match="more than 10,000,000 points a run"):
        continue_experiment(tmp_path / "r", 10**12)
    assert (tmp_path / "r" / "experiment.json").read_bytes() == before
    with pytest.raises(KeyboardInterrupt):
        continue_experiment(tmp_path / "r", 10**7, progress=Interrupting(0))
    assert continue_experiment(tmp_path / "r", 100).steps == 400
    assert_same_results(tmp_path / "r", seven)


def test_fewer_steps_than_some_runs_have_taken_end_where_all_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LEAST_STEPS", 64)
    monkeypatch.setattr(module, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.0)
    run_experiment(EXPERIMENT, tmp_path / "r", Execution(jobs=1))
    with pytest.raises(KeyboardInterrupt):
        continue_experiment(tmp_path / "r", 1000, Execution(jobs=1), Interrupting(2))
    results = continue_experiment(tmp_path / "r", 1)
    assert 300 < results.steps < 1300
    assert results.steps % EXPERIMENT.record == 0
    assert load(tmp_path / "r").times[-1] == results.steps


def test_a_short_trial_does_not_block_the_full_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.toml").write_text(replace(EXPERIMENT, seeds=1).to_toml())
    assert main(["run", "more.toml", "--steps", "20"]) == 0
    assert main(["run", "more.toml"]) == 2
    assert "its specification has steps = 20, not 300" in (error := capsys.readouterr().err)
    assert "--anew" in error
    assert main(["run", "more.toml", "--anew"]) == 0
    assert load("results/more").times[-1] == 300
    assert load("results/more.1").times[-1] == 20
    assert main(["run", "more.toml", "--seeds", "2"]) == 0
    assert main(["continue", "results/more", "--seeds", "3", "--steps", "10"]) == 0
    found = load("results/more")
    assert (found.times[-1], set(found.seeds.tolist())) == (310, {0, 1, 2})


def test_nothing_is_made_before_everything_is_checked(tmp_path, monkeypatch, capsys):
    """Without JAX the networks' experiment is refused, and leaves no directory to be refused by."""
    import importlib.util

    monkeypatch.chdir(tmp_path)
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("jax", "ray") else real(name)
    )
    assert main(["run", "figure2-right"]) == 2
    assert "pip install 'cpsrl[deep]'" in capsys.readouterr().err
    (tmp_path / "more.toml").write_text(EXPERIMENT.to_toml())
    for wrong in (["--backend", "ray"], ["--backend", "rai"], ["--jobs", "0"], ["--steps", "0"]):
        assert main(["run", "more.toml", *wrong]) == 2
    assert main(["run", "more.toml", "--address", "here"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["more.toml"]


def test_a_directory_without_runs_belongs_to_nobody(tmp_path, monkeypatch):
    """Begun and stopped before anything was stored: another specification may have the place."""
    with pytest.raises(KeyboardInterrupt):
        run_experiment(EXPERIMENT, tmp_path / "r", Execution(jobs=1), Interrupting(0))
    other = replace(EXPERIMENT, seed=1, seeds=2)
    run_experiment(other, tmp_path / "r")
    assert open_results(tmp_path / "r").experiment == other


def test_anew_in_the_directory_itself(tmp_path, monkeypatch):
    experiment = Experiment("here", ["riverswim"], ["random"], steps=100, seeds=2)
    run_experiment(experiment, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    run_experiment(experiment, ".", anew=True)
    assert {"here", "here.1"} <= {path.name for path in tmp_path.iterdir()}
    assert len(load(tmp_path / "here").seeds) == len(load(tmp_path / "here.1").seeds)


def test_runs_that_leave_and_come_back_leave_no_empty_folders(tmp_path):
    fewer = replace(EXPERIMENT, environments=EXPERIMENT.environments[:1])
    run_experiment(EXPERIMENT, tmp_path)
    everything = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    run_experiment(fewer, tmp_path)
    assert len(list((tmp_path / "runs").iterdir())) == 1
    run_experiment(EXPERIMENT, tmp_path)
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} == everything
