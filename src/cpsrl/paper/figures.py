"""What the paper's figure 2 shows, said in words and checked against the runs of an experiment.

Xu, Dong and Van Roy (2024), section 6, of the left figure: "Continuing PSRL is on par with TSDE ...
and outperforms DS-PSRL by a large margin"; of the right one: bootstrapped DQN with random
resampling "achieves sublinear regret", while "the vanilla DQN agent incurs linear regret". The
paper gives no numbers and no criteria. The ones below are ours, chosen with such runs at hand:
"on par" means close on the scale of the paper's figure, which DS-PSRL sets, and does not mean that
no difference can be told. Every finding therefore says what it was taken to mean, and the numbers.

A criterion is a bound on a mean over runs. It held, or did not, where the whole interval of that
mean lies on one side of the bound; else the runs don't tell. So it is with a share of the runs,
whose limits are Clopper and Pearson's. Criteria that compare agents are
written as differences, which mean something however near to zero a regret is: "more than twice as
much" is x - 2 y > 0.
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
"""A large margin: more than this many times the regret."""
SUBLINEAR_SLOPE = 0.03
"""Sublinear: mean regret per step of the last tenth below this ..."""
FOUND = 0.8
"""... over the runs that lose less than a quarter of the optimal gain there, and more than this
share of the runs are such. It was .9, and was compared with the share as counted: agents with 80 to
85% such runs passed in a third of all trials with 5 runs. No interval of 50 runs is above .9 unless
49 of them are such, so the bound was changed to one that 50 runs can decide (45 do), without
looking at runs again; the results of earlier runs were known."""
LINEAR_SLOPE = 0.08
"""Linear: mean regret per step above this, over the last tenth as well as from T/10 on."""


@dataclass(frozen=True)
class Finding:
    """One statement of the paper, whether it held here, and the numbers."""

    statement: str
    held: bool | None
    """None while the runs don't tell: some are missing, or an interval has its bound inside."""
    numbers: str

    def __str__(self) -> str:
        word = {True: "HELD", False: "DID NOT HOLD", None: "UNDECIDED"}[self.held]
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


Judgement = tuple[bool | None, str]


def _on_par(runs: Runs, psrl: str, tsde: str, ds_psrl: str) -> Judgement:
    ours, theirs, doubling = (_final(runs, label) for label in (psrl, tsde, ds_psrl))
    gap, distance = statistics.mean(ours - theirs), statistics.mean(doubling - ours)
    allowed = ON_PAR * (doubling - ours)
    possible = float(runs.gain[0] * runs.times[-1])
    share = f", {gap.value / distance.value:.1%} of it" if distance.low > 0 else ""
    held = _all(_below(ours - theirs - allowed, 0), _below(theirs - ours - allowed, 0))
    return held, (
        f"Mean regret {ours.mean():,.0f} against {theirs.mean():,.0f}{_times(ours, theirs)}. The "
        f"distance to DS-PSRL is {_interval(distance)}, the difference {_interval(gap)}{share} (on "
        f"par: at most {ON_PAR:.0%}) and {gap.value / possible:.2%} of the optimal reward "
        f"{possible:,.0f}."
    )


def _outperforms(runs: Runs, psrl: str, tsde: str, ds_psrl: str) -> Judgement:
    ours, doubling = _final(runs, psrl), _final(runs, ds_psrl)
    return _below(MARGIN * ours - doubling, 0), (
        f"Mean regret {ours.mean():,.0f} against {doubling.mean():,.0f} for DS-PSRL"
        f"{_times(doubling, ours)}; less {MARGIN:g} times ours that is "
        f"{_interval(statistics.mean(doubling - MARGIN * ours))} (a large margin: above 0)."
    )


def _sublinear(runs: Runs, label: str) -> Judgement:
    one = runs.select(agent=label)
    slopes = statistics.last_tenth(one.times, one.regret)
    good = slopes[slopes < one.gain / 4]
    share = statistics.probability(len(good), len(slopes))
    enough = True if share.low > FOUND else False if share.high < FOUND else None
    low = _below(good, SUBLINEAR_SLOPE) if len(good) else None
    theirs = f", and {_interval(statistics.mean(good), 4)} in those" if len(good) else ""
    return _all(low, enough), (
        f"Regret per step over the last tenth {_interval(statistics.mean(slopes), 4)}; "
        f"{len(good)} of {len(slopes)} runs, {share.low:.0%} to {share.high:.0%}, lose less than a "
        f"quarter of the optimal gain there{theirs} (sublinear: more than {FOUND:.0%} of the runs, "
        f"and below {SUBLINEAR_SLOPE:g} in those)."
    )


def _linear(runs: Runs, label: str) -> Judgement:
    one = runs.select(agent=label)
    last = statistics.last_tenth(one.times, one.regret)
    since = statistics.slope(one.times, one.regret, 0.1)
    return _all(_below(-last, -LINEAR_SLOPE), _below(-since, -LINEAR_SLOPE)), (
        f"Regret per step {_interval(statistics.mean(since), 4)} from a tenth of the steps on and "
        f"{_interval(statistics.mean(last), 4)} over the last tenth (linear: both above "
        f"{LINEAR_SLOPE:g})."
    )


CLAIMS: dict[tuple[str, ...], dict[str, Callable[..., Judgement]]] = {
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


def _below(values: statistics.Floats, bound: float) -> bool | None:
    """Return whether the mean of `values` (runs,) is below `bound`; None if they don't tell."""
    mean = statistics.mean(values)
    return True if mean.high < bound else False if mean.low > bound else None


def _all(*held: bool | None) -> bool | None:
    return False if False in held else None if None in held else True


def _times(first: statistics.Floats, second: statistics.Floats) -> str:
    """Return how many times the second the first is; empty where the second is not far from 0."""
    ratio, below = statistics.ratio_of_means(first, second), statistics.mean(second)
    away = below.low > below.value / 4 and np.isfinite([ratio.low, ratio.high]).all()
    return f", {_interval(ratio, 1)} times as much" if away else ""


def _interval(value: statistics.Interval, digits: int = 0) -> str:
    if not np.isfinite([value.low, value.high]).all():
        return f"{value.value:,.{digits}f} (no interval)"
    return f"{value.value:,.{digits}f} [{value.low:,.{digits}f}, {value.high:,.{digits}f}]"
