"""What CONTRIBUTING shows is run: every part of one's own, in a simulation and in an experiment."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cpsrl
from cpsrl.agents.registration import KINDS

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)

SPEC = """
name = "own"
steps = 300
seeds = 2

[[environments]]
name = "lamp"
wear = 0.2

[[agents]]
name = "psrl"
label = "weekly"
rule = "weekly"
belief = "counts"
objective = "average"

[[agents]]
name = "psrl"
label = "patience"
rule = {name = "patience", most = 20}
objective = "myopic"

[[agents]]
name = "round-robin"
"""


@pytest.fixture
def own():
    """Register what CONTRIBUTING shows, and forget it afterwards."""
    before = {kind: dict(registry._factories) for kind, registry in KINDS.items()}
    names: dict[str, object] = {"__name__": "contributing"}
    for block in BLOCKS:
        exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    yield names
    for kind, registry in KINDS.items():
        registry._factories.clear()
        registry._factories.update(before[kind])


def test_each_example_is_short():
    assert len(BLOCKS) >= 8
    for block in BLOCKS:
        assert len(block.splitlines()) < 20


def test_the_gain_in_the_docstring_is_right(own):
    wear = 0.2
    gain = cpsrl.solve_average(cpsrl.environment("lamp", wear=wear)).gain
    assert gain == pytest.approx((1 - 3 * wear) / (1 + wear))


def test_a_plain_object_runs_stops_and_goes_on(own):
    lamp, coin = cpsrl.environment("lamp"), own["Coin"]()
    whole, half = cpsrl.simulate(coin, lamp, 100, 3), cpsrl.simulate(coin, lamp, 40, 3)
    rest = cpsrl.simulate(coin, lamp, 60, 3, resume=half.state)
    assert np.array_equal(whole.regret[:, -1], rest.regret[:, -1])
    assert len(set(whole.regret[:, -1])) > 1


def test_own_parts_run_stop_and_go_on_in_an_experiment(own, tmp_path):
    experiment = cpsrl.Experiment.from_toml(SPEC)
    cpsrl.run_experiment(experiment, tmp_path / "whole")
    whole = cpsrl.load(tmp_path / "whole")
    assert set(whole.agents) == {"weekly", "patience", "Round robin"}
    cpsrl.run_experiment(replace(experiment, steps=100), tmp_path / "parts")
    cpsrl.experiments.continue_experiment(tmp_path / "parts", 200)
    parts = cpsrl.load(tmp_path / "parts")
    common = np.intersect1d(whole.times, parts.times)
    assert len(common) > 10
    for agent in whole.agents:
        a, b = (runs.select(agent).at(common).regret for runs in (whole, parts))
        assert np.array_equal(a, b)
    resampled = whole.select("weekly").resamples[:, -1]
    assert (resampled == 43).all()  # 1, 8, ..., 295
