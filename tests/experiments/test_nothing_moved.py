"""The shipped tabular experiments give the bits that were recorded, for every agent and run.

A change that must move bits records them anew, in a commit of its own that says why, with means
within three standard errors of the old ones.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpsrl.experiments import find_experiment, load, run_experiment
from cpsrl.experiments.provenance import Provenance

RECORDED = json.loads(Path(__file__).with_name("nothing_moved.json").read_text())
DIFFERENCE = Provenance(**RECORDED["provenance"]).difference()

pytestmark = pytest.mark.skipif(
    bool(DIFFERENCE), reason=f"the bits were recorded with {DIFFERENCE}"
)


def hashes(runs):
    """A hash of times, seeds, regret and resamplings for every agent on every environment."""
    found = {}
    for environment in runs.environments:
        here = runs.select(environment=environment)
        for agent in here.agents:
            one = here.select(agent)
            arrays = (one.times, one.seeds, one.regret, one.resamples)
            content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
            found.setdefault(environment, {})[agent] = hashlib.sha256(content).hexdigest()[:16]
    return found


def recorded(name, part):
    return {
        environment: {agent: entry[part] for agent, entry in agents.items()}
        for environment, agents in RECORDED["experiments"][name].items()
    }


@pytest.mark.parametrize("name", RECORDED["experiments"])
def test_five_runs_of_every_agent_are_what_they_were(name, tmp_path):
    run_experiment(replace(find_experiment(name), seeds=5), tmp_path)
    assert hashes(load(tmp_path)) == recorded(name, "five")


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED["experiments"])
def test_all_runs_of_every_agent_are_what_they_were(name, tmp_path):
    run_experiment(find_experiment(name), tmp_path)
    assert hashes(load(tmp_path)) == recorded(name, "all")
