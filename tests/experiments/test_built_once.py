"""Everything is built once and read once, and what a user registers is found on disk too."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import wraps
from typing import ClassVar

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import AGENTS
from cpsrl.environments import ENVIRONMENTS
from cpsrl.experiments import (
    Entry,
    Execution,
    Experiment,
    continue_experiment,
    load,
    run_experiment,
)
from cpsrl.experiments import run as module
from cpsrl.experiments.store import Group
from cpsrl.reports import report
from cpsrl.resampling import RULES, Rule
from cpsrl.support.progress import Progress


@dataclass(frozen=True)
class Squares(Rule):
    """Resample at steps 1, 4, 9, 16, ..., each `late` steps later but the first."""

    late: int = 0

    words: ClassVar[str] = "squares"

    def arrays(self, first, n, rng):
        t = np.arange(first, first + n)
        squares = np.isin(t - self.late, np.arange(1, int(np.sqrt(first + n)) + 1) ** 2)
        return squares | (t == 1), np.full(n, np.nan)


@pytest.fixture
def squares(monkeypatch):
    """An experiment with a rule of this file."""
    monkeypatch.setitem(RULES._factories, "squares", Squares)
    options = {"rule": {"name": "squares", "late": 2}, "objective": "average"}
    agents = (Entry("psrl", options), Entry("psrl", options, label="mine"))
    return Experiment("squares", (Entry("riverswim"),), agents, 400, seeds=4, record=50)


class Interrupting(Progress):
    """Interrupts after a number of steps."""

    def __init__(self, steps):
        self.left = steps

    def advance(self, part, amount):
        self.left -= amount
        if self.left < 0:
            raise KeyboardInterrupt


def test_a_rule_of_ones_own_is_run_stopped_carried_on_and_loaded(squares, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LEAST_STEPS", 60)
    monkeypatch.setattr(module, "TASK_SECONDS", 0.0)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(squares, tmp_path, Execution(jobs=1), Interrupting(500))
    continue_experiment(tmp_path)
    continue_experiment(tmp_path, 100)
    runs = load(tmp_path)
    assert runs.agents == ("PSRL, squares, average", "mine")
    agent = cpsrl.PSRL(Squares(late=2), cpsrl.Average())
    expected = cpsrl.simulate(agent, cpsrl.environment("riverswim"), 500, 4, record=50)
    for label in runs.agents:
        np.testing.assert_array_equal(runs.select(agent=label).regret, expected.regret)
        np.testing.assert_array_equal(runs.select(agent=label).resamples, expected.resamples)
    assert report(tmp_path, formats=[]).rows[1].agent == "mine"


def test_a_rule_that_is_not_registered_is_named(squares, monkeypatch):
    monkeypatch.delitem(RULES._factories, "squares")
    with pytest.raises(ValueError, match=r"agent 1 \(psrl\): unknown rule 'squares'"):
        Experiment.from_toml(squares.to_toml())


def test_what_is_registered_as_an_agent_must_be_one(monkeypatch):
    monkeypatch.setitem(AGENTS._factories, "not-one", lambda: "agent")
    with pytest.raises(ValueError, match="'not-one' must be of Agent, and its function returned"):
        Experiment("x", (Entry("riverswim"),), (Entry("not-one"),), 10)


@pytest.fixture
def built(monkeypatch):
    """Counts what is built, by name."""
    counts = Counter()

    def counting(name, factory):
        @wraps(factory)
        def build(**options):
            counts[name] += 1
            return factory(**options)

        return build

    for registry, name in ((ENVIRONMENTS, "riverswim"), (ENVIRONMENTS, "random"), (AGENTS, "tsde")):
        monkeypatch.setitem(registry._factories, name, counting(name, registry[name]))
    return counts


def test_everything_is_built_once(built, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PROBE_SECONDS", 1e9)  # else a slow task gives up its worker
    environments = (Entry("riverswim"), Entry("random", {"n_states": 4}, per_run="seed"))
    experiment = Experiment("x", environments, (Entry("tsde"), Entry("random")), 200, seeds=5)
    assert built == {"riverswim": 1, "random": 1, "tsde": 1}
    run_experiment(experiment, tmp_path)
    run_experiment(experiment, tmp_path)
    assert built == {"riverswim": 1, "random": 5, "tsde": 1}
    built.clear()
    continue_experiment(tmp_path, 100)
    assert built == {"riverswim": 1, "random": 5, "tsde": 1}
    built.clear()
    report(tmp_path, formats=[])  # which evaluates the random policy in the model of every run
    assert built == {"riverswim": 1, "random": 5, "tsde": 1}


def test_files_are_read_to_be_checked_and_again_when_their_runs_are_carried_on(
    tmp_path, monkeypatch
):
    """So that no more than what is under way is in memory."""
    experiment = Experiment("x", (Entry("riverswim"),), (Entry("tsde"),), 200, seeds=5)
    results = run_experiment(experiment, tmp_path)
    read, reading = Counter(), Group.read

    def note(group, *some, **more):
        read[group.path] += 1
        return reading(group, *some, **more)

    monkeypatch.setattr(Group, "read", note)
    groups = dict.fromkeys((group.path for group in results.groups), 1)
    run_experiment(experiment, tmp_path)
    assert read == groups
    read.clear()
    continue_experiment(tmp_path, 100)
    assert read == dict.fromkeys(groups, 2)


def test_settings_print_as_the_call_that_makes_them():
    entry = Entry("riverswim", {"variant": "tsde"}, grid={"n_states": [4, 6]})
    assert repr(entry) == (
        "Entry(name='riverswim', options={'variant': 'tsde'}, grid={'n_states': [4, 6]})"
    )
    experiment = Experiment("x", (entry,), (Entry("tsde"),), 10, seeds=np.arange(2))
    assert repr(experiment).endswith("agents=(Entry(name='tsde'),), steps=10, seeds=(0, 1))")
    assert eval(repr(experiment)) == experiment
    assert repr(replace(experiment, seeds=50)).endswith("steps=10)")
