"""The study of worlds of the field: its files, and a short form of each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpsrl.experiments import Experiment, continue_experiment, load, run_experiment
from cpsrl.networks import Convolution, ValueSampling

pytest.importorskip("jax")
pytest.importorskip("gymnax")
pytest.importorskip("foragax")

FILES = sorted((Path(__file__).parents[2] / "experiments" / "field").glob("*.toml"))
named = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@named
@pytest.mark.slow
def test_a_short_form_runs_and_can_be_carried_on(path, tmp_path, assert_same_runs):
    """Every agent, in the first of the environments."""
    whole = Experiment.read(path, steps=60, seeds=1, record=10)
    whole = replace(whole, environments=whole.environments[:1])
    run_experiment(whole, tmp_path / "whole")
    run_experiment(replace(whole, steps=40), tmp_path / "parts")
    continue_experiment(tmp_path / "parts", 20)
    runs = load(tmp_path / "whole")
    assert_same_runs(load(tmp_path / "parts"), runs)
    assert len(runs.agents) == len(whole.all_agents)
    assert np.isfinite(runs.regret).all()


def test_the_files_say_what_the_study_is():
    read = {path.stem: Experiment.read(path) for path in FILES}
    assert len(read) == 8
    for name, experiment in read.items():
        pilot = name.startswith("pilot-")
        assert "Criteria were written before any run" in experiment.description
        assert len(experiment.all_agents) == (18 if pilot else 5)
        assert experiment.seed == (201 if pilot else 202)  # no run of the pilot is in the study
    for name in ("forager", "breakout"):
        assert (read[name].steps, len(read[name].runs)) == (1_000_000, 10)
    for entry in read["forager"].all_agents:
        agent = read["forager"].agent(entry, read["forager"].all_environments[0])
        assert isinstance(agent, ValueSampling)
        assert agent.belief.torso == Convolution(picture=(9, 9, 4))
