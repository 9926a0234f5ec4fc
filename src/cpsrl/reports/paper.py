"""What the paper's figure 2 shows, said in words and checked against the runs of an experiment.

Xu, Dong and Van Roy (2024), section 6, of the left figure: "Continuing PSRL is on par with TSDE ...
and outperforms DS-PSRL by a large margin"; of the right one: bootstrapped DQN with random
resampling "achieves sublinear regret", while "the vanilla DQN agent incurs linear regret". The
paper gives no numbers and no criteria. The ones below are ours, chosen with such runs at hand:
"on par" means close on the scale of the paper's figure, which DS-PSRL sets, and does not mean that
no difference can be told. Every finding therefore says what it was taken to mean, and the numbers.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cpsrl import statistics
from cpsrl.experiments import Experiment
from cpsrl.simulation import Runs

ON_PAR = 0.1
"""On par: the distance to TSDE is at most this share of the distance to DS-PSRL."""
MARGIN = 2.0
"""A large margin: the ratio of the mean regrets exceeds this, with its whole interval."""
SUBLINEAR_SLOPE = 0.03
"""Sublinear: mean regret per step of the last tenth below this share of a reward of 1 ..."""
FOUND = 0.9
"""... and at least this share of the runs loses less than a quarter of the optimal gain there."""
LINEAR_SLOPE = 0.08
"""Linear: mean regret per step above this, over the last tenth as well as from T/10 on."""


@dataclass(frozen=True)
class Finding:
    """One statement of the paper, whether it held here, and the numbers."""

    statement: str
    held: bool | None
    """None while runs that would decide it are missing."""
    numbers: str

    def __str__(self) -> str:
        word = {True: "HELD", False: "DID NOT HOLD", None: "NOT DECIDED YET"}[self.held]
        return f"{word}: {self.statement}. {self.numbers}"


def findings(experiment: Experiment, runs: Runs) -> list[Finding]:
    """Return what the runs say about the paper's figure 2; nothing unless they are those of it."""
    if experiment.name not in ("figure2-left", "figure2-right"):
        return []
    found = []
    for environment in runs.environments:
        here = runs.select(environment=environment)
        where = f" on {environment}" if len(runs.environments) > 1 else ""
        for names, claims in CLAIMS.items():
            called = [[a.called for a in experiment.all_agents if a.name == name] for name in names]
            for labels in itertools.product(*called):
                missing = _missing(here, labels)
                for statement, judge in claims.items():
                    held, numbers = (None, missing) if missing else judge(here, *labels)
                    found.append(Finding(f"{labels[0]} {statement}{where}", held, numbers))
    return found


def _on_par(runs: Runs, psrl: str, tsde: str, ds_psrl: str) -> tuple[bool, str]:
    ours, theirs, doubling = (_final(runs, label) for label in (psrl, tsde, ds_psrl))
    gap = statistics.paired_difference(ours, theirs)
    distance = statistics.paired_difference(doubling, ours)
    possible = float(runs.gain[0] * runs.times[-1])
    share = gap.value / distance.value if distance.value > 0 else np.inf
    times = statistics.ratio_of_means(ours, theirs)
    return abs(share) <= ON_PAR, (
        f"Mean regret {ours.mean():,.0f} against {theirs.mean():,.0f}, {_interval(times, 1)} times "
        f"as much: a difference of {_interval(gap)}, which is {gap.value / possible:.2%} of the "
        f"optimal reward {possible:,.0f} and {share:.1%} of the distance to DS-PSRL (on par: at "
        f"most {ON_PAR:.0%})."
    )


def _outperforms(runs: Runs, psrl: str, tsde: str, ds_psrl: str) -> tuple[bool, str]:
    ours, doubling = _final(runs, psrl), _final(runs, ds_psrl)
    ratio = statistics.ratio_of_means(doubling, ours)
    return ratio.low > MARGIN, (
        f"Mean regret {ours.mean():,.0f} against {doubling.mean():,.0f}: DS-PSRL has "
        f"{_interval(ratio, 1)} times as much (a large margin: more than {MARGIN:g} times, with "
        "the whole interval)."
    )


def _sublinear(runs: Runs, label: str) -> tuple[bool, str]:
    one = runs.select(agent=label)
    slopes = statistics.last_tenth(one.times, one.regret)
    slope = statistics.mean(slopes)
    found = float((slopes < one.gain / 4).mean())
    return slope.value < SUBLINEAR_SLOPE and found >= FOUND, (
        f"Regret per step over the last tenth {_interval(slope, 4)}; {found:.0%} of the runs lose "
        f"less than a quarter of the optimal gain there (sublinear: below {SUBLINEAR_SLOPE:g}, and "
        f"at least {FOUND:.0%})."
    )


def _linear(runs: Runs, label: str) -> tuple[bool, str]:
    one = runs.select(agent=label)
    last = statistics.mean(statistics.last_tenth(one.times, one.regret))
    since = statistics.mean(statistics.slope(one.times, one.regret, 0.1))
    return min(last.value, since.value) > LINEAR_SLOPE, (
        f"Regret per step {_interval(since, 4)} from a tenth of the steps on and "
        f"{_interval(last, 4)} over the last tenth (linear: both above {LINEAR_SLOPE:g})."
    )


CLAIMS: dict[tuple[str, ...], dict[str, Callable[..., tuple[bool, str]]]] = {
    ("continuing-psrl", "tsde", "ds-psrl"): {
        "is on par with TSDE": _on_par,
        "outperforms DS-PSRL by a large margin": _outperforms,
    },
    ("bootstrapped-dqn",): {"has sublinear regret": _sublinear},
    ("dqn",): {"has linear regret": _linear},
}
"""What is said of the first of some registered agents, and what judges it by runs of them all."""


def _missing(runs: Runs, labels: Sequence[str]) -> str:
    """Return in words what is missing of the runs that a claim compares; empty if nothing is."""
    begun = [label for label in labels if label in runs.agents]
    seeds = [tuple(runs.select(agent=label).seeds.tolist()) for label in begun]
    if len(begun) == len(labels) and len(set(seeds)) == 1:
        return ""
    counts = ", ".join(f"{label} ({runs.agent.count(label)})" for label in labels)
    return f"It takes the same runs of each agent; so far there are those of {counts}."


def _final(runs: Runs, label: str) -> statistics.Floats:
    return np.asarray(runs.select(agent=label).regret[:, -1])


def _interval(value: statistics.Interval, digits: int = 0) -> str:
    return f"{value.value:,.{digits}f} [{value.low:,.{digits}f}, {value.high:,.{digits}f}]"
