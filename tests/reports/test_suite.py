"""Normalised regret, ranks and failures of the suite."""

import numpy as np
import pytest

from cpsrl.environments.suite import random_gain
from cpsrl.experiments import Entry, Experiment
from cpsrl.planning import solve_average
from cpsrl.reports.suite import scores, table
from cpsrl.simulation import Runs

EXPERIMENT = Experiment(
    "two",
    (Entry("riverswim"), Entry("random", per_run="seed")),
    (Entry("random", label="lucky"), Entry("random", label="late")),
    steps=1000,
    seeds=[3, 5],
)
SHARES = {  # of what a random policy loses: over the first 900 steps, and over the last tenth
    ("riverswim", "lucky"): (0.5, 0.1),
    ("riverswim", "late"): (0.1, 0.6),
    ("random", "lucky"): (0.9, 0.4),
    ("random", "late"): (1.0, 1.0),
}


def runs():
    times, parts = np.array([900, 1000]), []
    for entry in EXPERIMENT.all_environments:
        for agent in ("lucky", "late"):
            first, last = SHARES[entry.called, agent]
            for run in EXPERIMENT.runs:
                mdp = EXPERIMENT.problem(entry, run)
                gain = solve_average(mdp).gain[0]
                lost = gain - random_gain(mdp)
                wobble = 10.0 if run == 3 else -10.0
                regret = lost * (np.array([900 * first, 900 * first + 100 * last]) + wobble)
                parts.append(
                    Runs(times, regret[None], np.zeros((1, 2), int), np.array([run]), (agent,),
                         (entry.called,), np.array([gain]), 0, (None,))
                )  # fmt: skip
    return Runs.join(parts)


def test_scores_are_shares_of_what_a_random_policy_loses_run_by_run():
    found, overall = scores(EXPERIMENT, runs())
    assert [(s.environment, s.agent, s.rank, s.fails) for s in found] == [
        ("riverswim", "lucky", 2, False),
        ("riverswim", "late", 1, True),
        ("random", "lucky", 1, False),
        ("random", "late", 2, True),
    ]
    for score in found:
        first, last = SHARES[score.environment, score.agent]
        assert score.regret.value == pytest.approx(0.9 * first + 0.1 * last)
        assert score.last_tenth == pytest.approx(last)
        assert score.regret.low < score.regret.value < score.regret.high
    assert [row.agent for row in overall] == ["late", "lucky"]
    late, lucky = overall
    assert late.regret.value == pytest.approx((0.15 + 1.0) / 2)
    assert lucky.regret.value == pytest.approx((0.46 + 0.85) / 2)
    assert late.failures == ("riverswim", "random")
    assert lucky.failures == ()
    assert late.rank == lucky.rank == 1.5


def test_the_table_has_a_row_a_problem_and_the_best_agent_first():
    found = table(*scores(EXPERIMENT, runs()))
    lines = found.rows
    assert found.headings == ("problem", "late", "lucky")
    assert [line[0] for line in lines] == [
        "riverswim", "random", "all: mean regret", "all: mean rank", "all: failures"
    ]  # fmt: skip
    assert lines[0][1].startswith("0.15 [")
    assert lines[0][1].endswith("(1) F")
    assert lines[0][2].endswith("(2)")
    assert lines[-1] == ["all: failures", "2", "0"]
