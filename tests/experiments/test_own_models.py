"""Models and agents of one's own in an experiment: as files, as objects, and wherever they go."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import Agent
from cpsrl.agents.codec import settings_of
from cpsrl.cli.main import main
from cpsrl.experiments import (
    DamagedError,
    Entry,
    Execution,
    Experiment,
    continue_experiment,
    load,
    run_experiment,
)
from cpsrl.reports import report

SPEC = """
name = "own"
steps = 300
seeds = 2

[[environments]]
file = "plant/machine.csv"

[[environments]]
file = "other/machine.csv"
features = "one-hot"

[[agents]]
name = "tsde"
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a specification and the two models it names."""
    for name, problem in (("plant", "replacement"), ("other", "riverswim")):
        (tmp_path / "user" / name).mkdir(parents=True)
        cpsrl.environment(problem).save(tmp_path / "user" / name / "machine.csv")
    (tmp_path / "user" / "own.toml").write_text(SPEC)
    return tmp_path / "user"


def test_a_file_is_found_beside_the_specification_and_told_apart(folder):
    experiment = Experiment.read(folder / "own.toml")
    assert [e.called for e in experiment.all_environments] == ["machine", "machine-2"]
    one, other = (experiment.problem(e) for e in experiment.all_environments)
    np.testing.assert_array_equal(one.dense, cpsrl.environment("replacement").dense)
    np.testing.assert_array_equal(other.dense, cpsrl.environment("riverswim").dense)
    np.testing.assert_array_equal(other.features, np.eye(6))


def test_a_file_is_read_with_the_options_of_reading(folder):
    path = folder / "plant" / "machine.csv"
    header, first, *rest = path.read_text().splitlines()
    column, cells = header.split(",").index("probability"), first.split(",")
    cells[column] = repr(float(cells[column]) * (1 - 1e-7))
    path.write_text("\n".join([header, ",".join(cells), *rest]))
    with pytest.raises(ValueError, match=r"environment 1 \(machine\.csv\): machine\.csv: .*sum"):
        Experiment.read(folder / "own.toml")
    spec = SPEC.replace('plant/machine.csv"', 'plant/machine.csv"\nnormalise = true')
    (folder / "own.toml").write_text(spec)
    with pytest.warns(UserWarning, match=r"^machine\.csv: 1 of \d+ rows were normalised"):
        experiment = Experiment.read(folder / "own.toml")
    rows = experiment.problem(experiment.all_environments[0]).dense.sum(axis=-1)
    np.testing.assert_allclose(rows, 1.0, atol=1e-15)


def test_models_travel_with_the_results(folder, tmp_path, assert_same_results):
    run_experiment(Experiment.read(folder / "own.toml"), tmp_path / "r")
    shutil.copytree(tmp_path / "r", tmp_path / "undisturbed")
    continue_experiment(tmp_path / "undisturbed", 100)
    shutil.move(tmp_path / "r", tmp_path / "elsewhere" / "r")
    shutil.rmtree(folder)
    continue_experiment(tmp_path / "elsewhere" / "r", 100)
    assert_same_results(tmp_path / "elsewhere" / "r", tmp_path / "undisturbed")
    assert len(report(tmp_path / "elsewhere" / "r", formats=[]).rows) == 2
    again = Experiment.read(tmp_path / "elsewhere" / "r" / "spec.toml")
    run_experiment(again, tmp_path / "again")
    assert load(tmp_path / "again").environments == ("machine", "machine-2")


def test_killed_continued_moved_and_reported(folder, tmp_path, assert_same_results):
    program = (
        "import sys; from cpsrl.experiments import Experiment, run as module\n"
        "module.LEAST_STEPS, module.TASK_SECONDS, module.PROBE_SECONDS = 100, 0.0, 0.0\n"
        "module.SAVE_SECONDS, module.SAVE_SHARE = 0.0, 1e9\n"
        "module.run_experiment(Experiment.read(sys.argv[1], steps=20_000), sys.argv[2])"
    )
    command = [sys.executable, "-c", program, str(folder / "own.toml"), str(tmp_path / "r")]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("r/runs/**/*.parquet")):
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    run_experiment(Experiment.read(folder / "own.toml", steps=20_000), tmp_path / "undisturbed")
    shutil.rmtree(folder)
    shutil.move(tmp_path / "r", tmp_path / "moved")
    with pytest.warns(UserWarning, match="not finished"):
        load(tmp_path / "moved")
    continue_experiment(tmp_path / "moved")
    assert_same_results(tmp_path / "moved", tmp_path / "undisturbed")
    assert report(tmp_path / "moved", formats=[]).rows[0].environment == "machine"


def test_a_changed_model_is_refused(folder, tmp_path):
    experiment = Experiment.read(folder / "own.toml")
    run_experiment(experiment, tmp_path / "r")
    model = tmp_path / "r" / "models" / "machine.csv"
    good = model.read_bytes()
    for damage in (lambda: model.write_bytes(good + b"\n"), model.unlink):
        damage()
        for act in (load, report, continue_experiment, lambda d: run_experiment(experiment, d)):
            with pytest.raises(DamagedError, match=r"models/machine\.csv is damaged"):
                act(tmp_path / "r")
    run_experiment(experiment, tmp_path / "r", Execution(repair=True))
    assert model.read_bytes() == good
    load(tmp_path / "r")
    with (folder / "plant" / "machine.csv").open("a") as file:
        file.write("\n")
    changed = Experiment.read(folder / "own.toml")
    run_experiment(changed, tmp_path / "r")  # its runs are others, and those before lie aside
    assert [path.name[:8] for path in (tmp_path / "r" / "aside").iterdir()] == ["machine."]
    for one, other in ((experiment, changed), (changed, experiment)):
        run_experiment(replace(one, environments=one.environments[:1]), tmp_path / "r", anew=True)
        with pytest.raises(ValueError, match="holds another experiment: it shares no pair"):
            run_experiment(replace(other, environments=other.environments[:1]), tmp_path / "r")


@pytest.mark.parametrize(
    "line", ['file = "../secret.csv"\nsha256 = "0"', 'file = "models/machine.csv"']
)
def test_a_results_directory_reads_only_its_own_models(folder, tmp_path, line):
    from cpsrl.experiments.files import read_json, write_json

    run_experiment(Experiment.read(folder / "own.toml"), tmp_path / "r")
    spec = tmp_path / "r" / "spec.toml"
    lines = spec.read_text().splitlines()
    first = next(i for i, text in enumerate(lines) if text.startswith("file"))
    lines[first : first + 2] = [line]
    spec.write_text("\n".join(lines))
    header = read_json(tmp_path / "r" / "experiment.json")
    header["spec"] = spec.read_text()
    write_json(tmp_path / "r" / "experiment.json", header)
    with pytest.raises(DamagedError, match="is not in the directory"):
        load(tmp_path / "r")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("plant/machine.csv", "plant/machin.csv", r"cannot read the model .*machin\.csv: No such"),
        ("plant/machine.csv", "own.toml", r"an MDP is stored as \.npz, \.csv, \.parquet or \.drn"),
        ('features = "one-hot"', 'feature = "one-hot"', "unknown option 'feature'.*'features'"),
        ('features = "one-hot"', 'per_run = "seed"', "per_run is for environments by name"),
        ('features = "one-hot"', 'name = "x"', "environment 2 has a name and a file"),
        ('"plant/machine.csv"', "5", "environment 1: file must be a line of text, not 5"),
        ('name = "tsde"', 'file = "plant/machine.csv"', "agent 1: an agent is a name or an object"),
    ],
)
def test_a_mistake_about_a_file_is_named(folder, old, new, message):
    (folder / "own.toml").write_text(SPEC.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"(?s)own\.toml: .*{message}"):
        Experiment.read(folder / "own.toml")


def test_a_broken_model_is_told_by_its_name(folder):
    path = folder / "plant" / "machine.csv"
    path.write_text(path.read_text().replace("probability", "chance"))
    with pytest.raises(ValueError, match=r"environment 1 \(machine\.csv\): machine\.csv: ") as told:
        Experiment.read(folder / "own.toml")
    assert "tmp" not in str(told.value).partition("own.toml")[2]


def test_objects_stand_where_names_stand(tmp_path):
    river = cpsrl.environment("riverswim")
    mine = cpsrl.TabularMDP(river.transitions, river.rewards, name="my river")
    belief = cpsrl.Dirichlet(transitions=0.5, rewards=cpsrl.KnownRewards(river.rewards))
    agents = (
        cpsrl.ContinuingPSRL(gamma=0.9, belief=belief),
        cpsrl.PSRL(cpsrl.FixedLength(50), cpsrl.Average(), label="fifty"),
        cpsrl.UCRL2(),
        "tsde",
        Entry(cpsrl.TSDE(), label="again"),
    )
    experiment = Experiment("objects", (mine, Entry(mine, label="once more")), agents, 200, 2)
    run_experiment(experiment, tmp_path / "r")
    assert [path.name for path in (tmp_path / "r" / "models").iterdir()] == ["my-river.npz"]
    runs = load(tmp_path / "r")
    assert runs.environments == ("my river", "once more")
    assert runs.agents[1:] == ("fifty", agents[2].label, "TSDE", "again")
    for label, agent in zip(runs.agents, (*agents[:3], cpsrl.TSDE(), cpsrl.TSDE()), strict=True):
        expected = cpsrl.simulate(agent, mine, 200, 2).regret
        np.testing.assert_array_equal(runs.select(label, "my river").regret, expected)
    assert Experiment.read(tmp_path / "r" / "spec.toml") == experiment
    run_experiment(replace(experiment), tmp_path / "r")


@pytest.mark.parametrize("name", cpsrl.agents.AGENTS.names())
def test_every_agent_of_the_package_can_be_given_as_itself(name):
    agent = cpsrl.agents.AGENTS.make(name)
    river = Entry("riverswim", {"features": "one-hot"})
    experiment = Experiment("x", (river,), (agent,), 100, 1)
    made = experiment.agent(experiment.all_agents[0], experiment.all_environments[0])
    expected = agent.resolve(experiment.problem(experiment.all_environments[0]), 100)
    assert settings_of(made) == settings_of(expected)
    assert experiment.all_agents[0].called == expected.label


@dataclass(frozen=True)
class Unknown(Agent):
    label: str = "unknown"


@dataclass(frozen=True)
class UnknownRule(cpsrl.Rule):
    def arrays(self, first, n, rng):
        return np.zeros(n, bool), np.nan


class Plain:
    def act(self, state):
        return 0

    def observe(self, state, action, reward, next_state):
        pass


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (Plain(), r'enter it with @cpsrl\.register\("agent", NAME\)'),
        (Unknown(), r'can name Unknown once it is registered, with @cpsrl\.register\("agent"'),
        (
            cpsrl.PSRL(UnknownRule(), cpsrl.Average()),
            r'can name UnknownRule once it is registered, with @cpsrl\.register\("rule"',
        ),
        (
            cpsrl.ContinuingPSRL(schedule=lambda t: 0.5),
            "rule.schedule must be text, .*function objects do not fit",
        ),
        (Entry(cpsrl.TSDE(), {"belief": "dirichlet"}), "takes no options"),
    ],
)
def test_what_no_file_can_hold_is_told(agent, message):
    with pytest.raises(ValueError, match=f"agent 1.*{message}"):
        Experiment("x", ("riverswim",), (agent,), 100, 1)


def test_compare_needs_no_specification(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    short = ["--steps", "200", "--seeds", "2", "--agents", "tsde", "random"]
    assert main(["compare", "plant/machine.csv", *short]) == 0
    out = capsys.readouterr().out
    assert "TSDE" in out
    assert "machine" in out
    directory = folder / "results" / "compare-machine"
    assert load(directory).agents == ("TSDE", "Random")
    assert (directory / "report" / "summary.md").exists()
    assert main(["compare", "plant/machine.csv", *short[:2], "--seeds", "3", *short[4:]]) == 0
    assert len(load(directory).seeds) == 6
    assert main(["compare", "riverswim", "--variant", "tsde", "--n-states", "5", *short]) == 0
    assert load(folder / "results" / "compare-riverswim-tsde-n-states-5").regret.shape[0] == 4
    assert main(["compare", "plant/machine.csv", "--agents", "tsd"]) == 2
    assert "did you mean 'tsde'" in capsys.readouterr().err


def test_compare_leaves_out_usual_agents_that_are_not_for_the_model(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    lines = (folder / "plant/machine.csv").read_text().splitlines()
    noisy = [f"{line},{'0.1' if i else 'noise'}" for i, line in enumerate(lines)]
    (folder / "noisy.csv").write_text("\n".join(noisy))
    short = ["--steps", "100", "--seeds", "2"]
    assert main(["compare", "noisy.csv", *short]) == 0
    assert "cpsrl: ucrl2 is left out: UCRL2 is for rewards in a range" in capsys.readouterr().err
    assert "UCRL2" not in load(folder / "results" / "compare-noisy").agents
    assert main(["compare", "noisy.csv", *short, "--agents", "tsde", "ucrl2"]) == 2
