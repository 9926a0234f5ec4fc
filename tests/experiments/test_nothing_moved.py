"""The shipped tabular experiments give the bits that were recorded, for every agent and run.

Bits depend on versions and on the processor's family, so hashes are recorded for each family.
`python tests/experiments/test_nothing_moved.py` records those of the family that it runs on. A
change that must move bits records them anew, in a commit of its own that says why, with means
within three standard errors of the old ones.
"""

import hashlib
import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from cpsrl.experiments import find_experiment, load, run_experiment
from cpsrl.experiments.provenance import Provenance, provenance

FILE = Path(__file__).with_name("nothing_moved.json")
FAMILIES = json.loads(FILE.read_text())
NAMES = tuple(FAMILIES[0]["experiments"])
LONG = ("changing", "structure-grid")
"""Five runs of these take more than ten seconds."""
DIFFERENCES = [Provenance(**family["provenance"]).difference() for family in FAMILIES]
RECORDED = FAMILIES[DIFFERENCES.index("")]["experiments"] if "" in DIFFERENCES else {}

recorded_here = pytest.mark.skipif(
    not RECORDED, reason=f"the bits were recorded with {'; with '.join(DIFFERENCES)}"
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


def computed(name, part, directory):
    experiment = find_experiment(name)
    run_experiment(replace(experiment, seeds=5) if part == "five" else experiment, directory)
    return hashes(load(directory))


def recorded(name, part):
    return {
        environment: {agent: entry[part] for agent, entry in agents.items()}
        for environment, agents in RECORDED[name].items()
    }


@recorded_here
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in NAMES],
)
def test_five_runs_of_every_agent_are_what_they_were(name, tmp_path):
    assert computed(name, "five", tmp_path) == recorded(name, "five")


@recorded_here
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_runs_of_every_agent_are_what_they_were(name, tmp_path):
    assert computed(name, "all", tmp_path) == recorded(name, "all")


def record():
    """Record the hashes of this processor's family in place of older ones of it."""
    own, found = asdict(provenance()), {}
    del own["versions"]["cpsrl"]
    for name in NAMES:
        parts = {}
        for part in ("five", "all"):
            with tempfile.TemporaryDirectory() as folder:
                parts[part] = computed(name, part, Path(folder) / name)
        found[name] = {
            environment: {
                agent: {part: parts[part][environment][agent] for part in parts} for agent in agents
            }
            for environment, agents in parts["five"].items()
        }
        print(name)
    others = [family for family in FAMILIES if family["provenance"] != own]
    FILE.write_text(
        json.dumps([*others, {"provenance": own, "experiments": found}], indent=1) + "\n"
    )


if __name__ == "__main__":
    record()
