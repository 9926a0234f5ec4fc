"""Running, stopping, carrying on: whatever happens in between, the same bits."""

import errno
import resource
from dataclasses import replace

import numpy as np
import polars
import pytest

from cpsrl.cli.main import main
from cpsrl.experiments import (
    Entry,
    Execution,
    continue_experiment,
    files,
    load,
    open_results,
    provenance,
    results,
    run_experiment,
)
from cpsrl.experiments import run as module
from cpsrl.experiments.entry import make_agent, make_environment
from cpsrl.experiments.files import locked, read_json, write_json
from cpsrl.simulation import Runs, simulate
from cpsrl.support.progress import Bars, Lines, Progress


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of a few steps, each stored."""
    monkeypatch.setattr(module, "LEAST_STEPS", 170)
    monkeypatch.setattr(module, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(module, "SAVE_SHARE", 1e9)


class Interrupting(Progress):
    """Progress that interrupts after a number of calls, as Ctrl-C would."""

    def __init__(self, calls):
        self.calls = calls

    def begin(self, what, totals, done):
        self.totals, self.done = totals, done

    def advance(self, agent, steps):
        self.calls -= 1
        if self.calls <= 0:
            raise KeyboardInterrupt

    def end(self):
        pass


def simulated(experiment, steps):
    """The same runs by `simulate` alone."""
    parts = []
    for environment in experiment.all_environments:
        for entry in experiment.all_agents:
            groups = [experiment.runs]
            if environment.per_run:
                groups = [(run,) for run in experiment.runs]
            for runs in groups:
                part = simulate(
                    make_agent(entry),
                    make_environment(environment, runs[0], experiment.seed),
                    steps,
                    seeds=runs,
                    seed=experiment.seed,
                    record=experiment.record,
                )
                rows = len(runs)
                named = {
                    "agent": (entry.label,) * rows,
                    "environment": (environment.label,) * rows,
                }
                parts.append(replace(part, **named))
    return Runs.join(parts)


def test_an_experiment_is_what_simulate_gives(experiment, undisturbed, assert_same_runs):
    assert_same_runs(load(undisturbed), simulated(experiment, 600))


def test_parquet_holds_the_same_curves(undisturbed):
    table = polars.read_parquet(undisturbed / "**/*.parquet")
    expected = load(undisturbed).to_polars()
    order = ["environment", "agent", "seed", "step"]
    assert table.sort(order).equals(expected.sort(order))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("jobs", [1, 2])
def test_chunks_and_threads_change_nothing(
    experiment, undisturbed, tmp_path, jobs, assert_same_results
):
    run_experiment(experiment, tmp_path / "r", Execution(jobs=jobs))
    assert_same_results(tmp_path / "r", undisturbed)


def test_running_again_does_nothing(experiment, undisturbed):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*") if path.is_file()}
    progress = Interrupting(1)
    run_experiment(experiment, undisturbed, progress=progress)
    after = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*") if path.is_file()}
    before.pop(undisturbed / "lock")
    after.pop(undisturbed / "lock")
    assert before == after


@pytest.mark.usefixtures("small_chunks")
def test_interrupted_and_run_again_is_undisturbed(
    experiment, undisturbed, tmp_path, assert_same_results
):
    interruptions = 0
    for calls in (1, 3, 9, 27, 10**9):
        try:
            run_experiment(experiment, tmp_path / "r", progress=Interrupting(calls))
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions >= 3
    assert_same_results(tmp_path / "r", undisturbed)


def test_what_a_run_has_reached_is_shown_when_it_goes_on(experiment, tmp_path):
    run_experiment(experiment, tmp_path / "r")
    progress = Interrupting(10**9)
    continue_experiment(tmp_path / "r", 400, progress=progress)
    assert set(progress.totals.values()) == {2 * 5 * 1000}
    assert set(progress.done.values()) == {2 * 5 * 600}


def test_carrying_on_is_the_same_as_not_having_stopped(experiment, tmp_path, assert_same_runs):
    """600 + 600 steps are 1200 steps; a horizon keeps what it was tuned to, here by name."""
    tuned = replace(experiment.agents[0], options={"schedule": "horizon", "horizon": 600})
    experiment = replace(experiment, agents=(tuned, *experiment.agents[1:]))
    run_experiment(experiment, tmp_path / "twice")
    continue_experiment(tmp_path / "twice", 600)
    run_experiment(replace(experiment, steps=1200), tmp_path / "once")
    once, twice = load(tmp_path / "once"), load(tmp_path / "twice")
    common = np.isin(twice.times, once.times)
    assert common.sum() == len(once.times)
    assert set(twice.times[~common]) == {600}
    kept = {name: getattr(twice, name)[:, common] for name in ("regret", "resamples")}
    assert_same_runs(replace(twice, times=twice.times[common], **kept), once)


def test_carrying_on_keeps_the_horizon_that_was_tuned_to(experiment, undisturbed, tmp_path):
    run_experiment(experiment, tmp_path / "r")
    continue_experiment(tmp_path / "r", 600)
    runs = load(tmp_path / "r")
    assert runs.agents[0] == "Continuing PSRL, horizon T=600"
    assert {state["horizon"] for state in runs.select(agent=runs.agents[0]).state} == {600}


@pytest.mark.usefixtures("small_chunks")
def test_an_interrupted_continue_adds_no_more_when_it_is_repeated(
    experiment, tmp_path, assert_same_results
):
    experiment = replace(experiment, agents=experiment.agents[:1])
    run_experiment(experiment, tmp_path / "r")
    with pytest.raises(KeyboardInterrupt):
        continue_experiment(tmp_path / "r", 300, progress=Interrupting(4))
    assert continue_experiment(tmp_path / "r", 300).steps == 900
    assert continue_experiment(tmp_path / "r").steps == 900
    assert continue_experiment(tmp_path / "r", 300).steps == 1200
    run_experiment(experiment, tmp_path / "other")
    continue_experiment(tmp_path / "other", 300)
    continue_experiment(tmp_path / "other", 300)
    assert_same_results(tmp_path / "r", tmp_path / "other")


def test_an_unfinished_directory_loads_with_a_warning(experiment, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "r", Execution(jobs=1), Interrupting(8))
    with pytest.warns(UserWarning, match=r"not finished: \d+ of 30 runs are here"):
        runs = load(tmp_path / "r")
    assert 0 < len(runs.seeds) < 30


def test_a_directory_without_runs_says_so(experiment, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "r", Execution(jobs=1), Interrupting(0))
    with pytest.raises(ValueError, match="holds no runs yet"):
        load(tmp_path / "r")


def test_the_record_is_not_bent_by_where_a_run_was_carried_on(experiment, tmp_path):
    run_experiment(replace(experiment, record=None), tmp_path / "r")
    continue_experiment(tmp_path / "r", 5)
    assert load(tmp_path / "r").times.tolist() == [*range(3, 601, 3), 603, 605]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"steps": 700},
            r"its specification has steps = 600, not 700 \(`cpsrl continue` adds steps\)",
        ),
        ({"seed": 4}, "its specification has seed = 3, not 4"),
        ({"record": "log"}, "its specification has record = 7, not 'log'"),
        (
            {"agents": (Entry("ds-psrl"),)},
            "it shares no pair of agent and environment",
        ),
        (
            {"environments": (Entry("queue"),)},
            "it shares no pair of agent and environment",
        ),
    ],
)
def test_another_specification_is_not_mixed_in(experiment, undisturbed, change, message):
    with pytest.raises(ValueError, match=f"holds another experiment: {message}"):
        run_experiment(replace(experiment, **change), undisturbed)


def test_a_directory_with_other_things_is_left_alone(experiment, tmp_path):
    (tmp_path / "letter.txt").write_text("dear reader")
    with pytest.raises(ValueError, match=r"holds other things \(letter.txt\)"):
        run_experiment(experiment, tmp_path)


def rewrite_header(directory, change):
    path = directory / "experiment.json"
    content = read_json(path)
    change(content)
    write_json(path, content)


def test_other_versions_and_processors_are_refused_but_can_be_read(experiment, tmp_path):
    for key, value, message in [
        ("versions", {"numpy": "1.0"}, "numpy 1.0"),
        ("cpu", "pdp11", "CPU pdp11"),
    ]:
        directory = tmp_path / key
        run_experiment(replace(experiment, agents=(Entry("tsde"),)), directory)

        def change(content, key=key, value=value):
            then = content["provenance"]
            then[key] = then[key] | value if isinstance(value, dict) else value

        rewrite_header(directory, change)
        with pytest.raises(ValueError, match=f"was computed with {message}"):
            continue_experiment(directory, 10)


def test_other_versions_that_are_accepted_are_marked(experiment, tmp_path, monkeypatch, capsys):
    small = replace(experiment, agents=(Entry("tsde"),), environments=(Entry("riverswim"),))
    with monkeypatch.context() as patch:
        for where in (provenance, results):
            patch.setattr(where, "provenance", lambda packages=(), device="": OLD)
        run_experiment(small, tmp_path / "r")
        assert load(tmp_path / "r").notes == ()
    with pytest.raises(ValueError, match=r"numpy 1\.0 .*--accept-versions"):
        continue_experiment(tmp_path / "r", 200)
    continue_experiment(tmp_path / "r", 200, Execution(accept_versions=True))
    now = provenance.provenance().versions["numpy"]
    note = f"TSDE on riverswim was computed with other versions: numpy 1.0 (then {now})"
    runs = load(tmp_path / "r")
    assert runs.notes == (f"from step 601 on, {note}",)
    assert runs.notes[0] in repr(runs)
    assert runs.notes[0] in runs._repr_html_()
    assert main(["report", str(tmp_path / "r"), "--formats", "png"]) == 0
    assert f"Versions: {runs.notes[0]}." in capsys.readouterr().out
    assert f"Versions: {runs.notes[0]}." in (tmp_path / "r/report/summary.md").read_text()
    page = (tmp_path / "r/report/report.html").read_text()
    assert f"<strong>Versions:</strong> {runs.notes[0]}." in page
    continue_experiment(tmp_path / "r", 100, seeds=6)
    runs = load(tmp_path / "r")
    assert runs.notes == (f"from step 1 on, {note}",), "the run that was added has no other"
    expected = simulated(replace(small, seeds=6), 900)
    common = runs.at(expected.times)
    np.testing.assert_array_equal(common.regret, expected.regret)


OLD = provenance.Provenance({"numpy": "1.0"}, provenance.provenance().cpu)


def test_a_later_format_is_recognised(experiment, tmp_path):
    run_experiment(replace(experiment, agents=(Entry("tsde"),)), tmp_path / "r")
    rewrite_header(tmp_path / "r", lambda content: content.update(format=4))
    with pytest.raises(ValueError, match="has format 4, this version of cpsrl reads format 3"):
        load(tmp_path / "r")


@pytest.mark.parametrize(("number", "reader"), [(1, "0.1.0"), (2, "0.2.0")])
@pytest.mark.parametrize("repair", [False, True])
def test_an_earlier_format_is_refused_with_the_version_that_reads_it(
    experiment, tmp_path, repair, number, reader
):
    small = replace(experiment, agents=(Entry("tsde"),))
    run_experiment(small, tmp_path / "r")
    rewrite_header(tmp_path / "r", lambda content: content.update(format=number))
    message = f"has format {number}, read by cpsrl {reader}; this version of cpsrl reads format 3"
    for act in (run_experiment, lambda _, *rest: continue_experiment(rest[0], None, rest[1])):
        with pytest.raises(ValueError, match=message):
            act(small, tmp_path / "r", Execution(repair=repair))


def test_a_directory_in_use_is_refused(experiment, tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(ValueError, match="is in use: process"),
    ):
        run_experiment(experiment, tmp_path)


def test_a_full_disk_is_said_and_recovered_from(
    experiment, undisturbed, tmp_path, assert_same_results
):
    """A limit on the size of files stands for the full disk."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    header = (undisturbed / "experiment.json").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (header + 100, limit[1]))
    try:
        with pytest.raises(OSError, match="cannot write"):
            run_experiment(experiment, tmp_path / "r")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    run_experiment(experiment, tmp_path / "r")
    assert_same_results(tmp_path / "r", undisturbed)


@pytest.mark.parametrize("progress", [Lines, Bars])
def test_a_disk_too_full_for_the_header_is_said(experiment, tmp_path, monkeypatch, progress):
    def full(path, *rest, **others):
        raise OSError(errno.ENOSPC, f"cannot write {path}: no space left")

    monkeypatch.setattr(files, "write_file", full)
    with pytest.raises(OSError, match=r"cannot write .*experiment\.json: no space left"):
        run_experiment(experiment, tmp_path / "r", progress=progress())


def test_an_agent_that_does_not_fit_is_named(tmp_path, experiment):
    known = Entry("tsde", {"belief": {"transitions": [[[1.0, 1.0]]]}})
    with pytest.raises(ValueError, match=r"TSDE on riverswim: transitions must be \(S, A, S\)"):
        run_experiment(replace(experiment, agents=(known,)), tmp_path / "r")


@pytest.mark.parametrize("steps", [0, -5, 2.5, True])
def test_steps_to_add_are_a_whole_number(undisturbed, steps):
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        continue_experiment(undisturbed, steps)


def test_the_history_keeps_the_commands(experiment, tmp_path):
    small = replace(experiment, agents=(Entry("tsde"),))
    run_experiment(small, tmp_path / "r", command="cpsrl run x")
    run_experiment(small, tmp_path / "r", command="cpsrl run x, with nothing to do")
    continue_experiment(tmp_path / "r", 10, command="cpsrl continue x")
    commands = [entry["command"] for entry in open_results(tmp_path / "r").commands]
    assert commands == ["cpsrl run x", "cpsrl continue x"]
