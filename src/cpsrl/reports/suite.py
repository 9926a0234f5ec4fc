"""The table of the continuing suite: normalised regret, ranks, and where agents fail.

Normalised regret (see `cpsrl.environments.suite`) is 1 for the random policy and 0 for the optimal
one. An agent FAILS on a problem if over the last tenth of the steps it still loses, on average over
runs, more than half of what the random policy loses a step. Its rank on a problem is its place by
mean normalised regret, 1 for the least.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpsrl import statistics
from cpsrl.environments.suite import SUITE, Facts, Problem, facts, random_gain
from cpsrl.experiments import Experiment
from cpsrl.simulation import Runs
from cpsrl.statistics import Interval
from cpsrl.types import Floats

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
        here = runs.select(environment=entry.called)
        means, last = {}, {}
        for agent in here.agents:
            one = here.select(agent=agent)
            lost = one.gain - [
                random_gain(experiment.problem(entry, run)) for run in one.seeds.tolist()
            ]
            values = one.regret[:, -1] / (one.times[-1] * lost)
            normalised[agent, entry.called] = dict(zip(one.seeds.tolist(), values, strict=True))
            means[agent] = float(values.mean())
            last[agent] = float((statistics.last_tenth(one.times, one.regret) / lost).mean())
        order = sorted(means, key=means.__getitem__)
        for agent in here.agents:
            values = np.array(list(normalised[agent, entry.called].values()))
            found.append(
                Score(
                    entry.called,
                    agent,
                    statistics.mean(values),
                    last[agent],
                    order.index(agent) + 1,
                )
            )
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


def _by_run(problems: Sequence[dict[int, float]]) -> Floats:
    """Return the mean over problems for every run that each of them has."""
    common = sorted(set.intersection(*map(set, problems)))
    return np.array([np.mean([values[run] for values in problems]) for run in common])


def table(found: Sequence[Score], overall: Sequence[Overall]) -> list[list[str]]:
    """Return the cells of the table, headings first: a row a problem, a column an agent."""
    agents = [row.agent for row in overall]
    cells = {(score.environment, score.agent): _cell(score) for score in found}
    lines = [["problem", *agents]]
    for environment in dict.fromkeys(score.environment for score in found):
        lines.append([environment, *(cells.get((environment, agent), "") for agent in agents)])
    lines.append(["all: mean regret", *(_interval(row.regret) for row in overall)])
    lines.append(["all: mean rank", *(f"{row.rank:.1f}" for row in overall)])
    lines.append(["all: failures", *(str(len(row.failures)) for row in overall)])
    return lines


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

FACTS = ("problem", "S", "A", "gain", "error", "random", "span", "tau", "diameter", "gamma", "from")


def fact_table(problems: Sequence[Problem] = SUITE) -> list[list[str]]:
    """Return the certified numbers of the problems as cells, headings first."""
    lines = [list(FACTS)]
    for problem in problems:
        every = [facts(mdp) for mdp in problem.models()]
        lines.append([problem.label, *_fact_cells(every), problem.reference])
    return lines


def _fact_cells(every: Sequence[Facts]) -> list[str]:
    def cell(name: str, form: str) -> str:
        values = [getattr(one, name) for one in every]
        ends = dict.fromkeys(format(end, form) for end in (min(values), max(values)))
        return " to ".join(ends)

    error = max(one.error for one in every)
    forms = {"span": ".6g", "tau": ".6g", "diameter": ".6g", "gamma": ".8g"}
    return [
        cell("n_states", "d"),
        cell("n_actions", "d"),
        cell("gain", ".12f"),
        f"{error:.0e}",
        cell("random", ".8f"),
        *(cell(name, form) for name, form in forms.items()),
    ]


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return a table of cells, headings first, as Markdown."""
    head, *rest = lines
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rest)) + "\n"
