"""The table of the continuing suite: normalised regret, ranks, and where agents fail.

Normalised regret (see `cpsrl.environments.suite`) is 1 for the random policy and 0 for the optimal
one. An agent FAILS on a problem if over the last tenth of the steps it still loses, on average over
runs, more than half of what the random policy loses a step. Its rank on a problem is its place by
mean normalised regret, 1 for the least.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl import statistics
from cpsrl.documents import Table
from cpsrl.environments.suite import SUITE, Facts, Problem, facts, random_gain
from cpsrl.experiments import Experiment
from cpsrl.simulation import Runs
from cpsrl.statistics import Interval
from cpsrl.support.types import Floats

FAILURE = 0.5


@dataclass(frozen=True)
class Score:
    """How an agent did on one problem."""

    environment: str
    agent: str
    regret: Interval
    """normalised, after all steps"""
    last_tenth: float
    """normalised, over the last tenth of the steps"""
    rank: int

    @property
    def fails(self) -> bool:
        """Whether it still lost more than half of what a random policy loses."""
        return self.last_tenth > FAILURE


@dataclass(frozen=True)
class Overall:
    """How an agent did on all problems."""

    agent: str
    regret: Interval
    """mean over problems of the normalised regret"""
    rank: float
    """mean over problems"""
    failures: tuple[str, ...]
    """the problems on which it fails"""


def scores(experiment: Experiment, runs: Runs) -> tuple[list[Score], list[Overall]]:
    """Return how every agent did on every problem, and on all of them, the best agent first."""
    found, normalised = [], {}
    for entry in experiment.all_environments:
        means, last = {}, {}
        for one, values, late in _normalised(experiment, entry, runs):
            agent = one.agent[0]
            normalised[agent, entry.called] = dict(zip(one.seeds.tolist(), values, strict=True))
            means[agent], last[agent] = float(values.mean()), float(late.mean())
        order = sorted(means, key=means.__getitem__)
        for agent in means:
            regret = statistics.mean(np.array(list(normalised[agent, entry.called].values())))
            rank = order.index(agent) + 1
            found.append(Score(entry.called, agent, regret, last[agent], rank))
    overall = []
    for agent in runs.agents:
        own = [score for score in found if score.agent == agent]
        by_problem = [normalised[agent, score.environment] for score in own]
        overall.append(
            Overall(
                agent,
                statistics.mean(_by_run(by_problem)),
                float(np.mean([score.rank for score in own])),
                tuple(score.environment for score in own if score.fails),
            )
        )
    return found, sorted(overall, key=lambda row: row.regret.value)


def _normalised(
    experiment: Experiment, entry: Any, runs: Runs
) -> Iterator[tuple[Runs, Floats, Floats]]:
    """Yield the runs of each agent on a problem, their regret and that of the last tenth `(n,)`."""
    here = runs.select(environment=entry.called)
    for agent in here.agents:
        one = here.select(agent=agent)
        random = [random_gain(experiment.problem(entry, run)) for run in one.seeds.tolist()]
        lost = one.gain - random
        values = one.regret[:, -1] / (one.times[-1] * lost)
        yield one, values, statistics.last_tenth(one.times, one.regret) / lost


def results_csv(version: int, experiment: Experiment, runs: Runs) -> str:
    """Return a row for every problem, agent and run, for a file that others add theirs to."""
    rows = []
    for entry in experiment.all_environments:
        for one, *normalised in _normalised(experiment, entry, runs):
            same = (version, entry.called, one.agent[0], int(runs.times[-1]), experiment.seed)
            columns = (*normalised, one.reward_rate[:, -1], one.share_of_optimum[:, -1])
            for seed, *values in zip(one.seeds.tolist(), *columns, strict=True):
                known = (f"{value:.5f}" if np.isfinite(value) else "" for value in values)
                rows.append((*same, seed, *known))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([RESULTS, *rows])
    return text.getvalue()


def _by_run(problems: Sequence[dict[int, float]]) -> Floats:
    """Return the mean over problems for every run that each of them has."""
    common = sorted(set.intersection(*map(set, problems)))
    return np.array([np.mean([values[run] for values in problems]) for run in common])


def table(found: Sequence[Score], overall: Sequence[Overall]) -> Table:
    """Return the table: a row a problem, a column an agent."""
    agents = [row.agent for row in overall]
    cells = {(score.environment, score.agent): _cell(score) for score in found}
    lines = []
    for environment in dict.fromkeys(score.environment for score in found):
        lines.append([environment, *(cells.get((environment, agent), "") for agent in agents)])
    lines.append(["all: mean regret", *(_interval(row.regret) for row in overall)])
    lines.append(["all: mean rank", *(f"{row.rank:.1f}" for row in overall)])
    lines.append(["all: failures", *(str(len(row.failures)) for row in overall)])
    return Table(("problem", *agents), lines)


def _cell(score: Score) -> str:
    return f"{_interval(score.regret)} ({score.rank}){' F' * score.fails}"


def _interval(interval: Interval) -> str:
    if not np.isfinite([interval.low, interval.high]).all():
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


LEGEND = (
    "Normalised regret, mean over runs with its 95% interval: steps times the optimal gain less "
    "the rewards received, over what the uniformly random policy loses in as many steps; 1 is "
    "random, 0 optimal. In brackets the rank on the problem. F: fails, which is to lose over the "
    f"last tenth of the steps more than {FAILURE:g} of what the random policy loses."
)

RESULTS = (
    *("suite", "problem", "agent", "steps", "root seed", "run", "regret", "last tenth"),
    *("reward rate", "of optimum"),
)
FACTS = ("problem", "S", "A", "gain", "error", "random", "span", "tau", "diameter", "gamma", "from")
DIGITS = 5


def fact_table(problems: Sequence[Problem] = SUITE, digits: int = DIGITS) -> Table:
    """Return the certified numbers of the problems, rounded to `digits` significant digits.

    A family has the smallest and the largest number of its first models.
    """
    lines = []
    for problem in problems:
        every = [facts(mdp) for mdp in problem.models()]

        def cell(name: str, every: Sequence[Facts] = every) -> str:
            values = [getattr(one, name) for one in every]
            ends = (f"{end + 0.0:.{digits}g}" for end in (min(values), max(values)))
            return " to ".join(dict.fromkeys(ends))

        error = f"{max(one.error for one in every):.0e}"
        names = ("n_states", "n_actions", "gain", "random", "span", "tau", "diameter", "gamma")
        cells = list(map(cell, names))
        lines.append([problem.label, *cells[:3], error, *cells[3:], problem.reference])
    return Table(FACTS, lines)
