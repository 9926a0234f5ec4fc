"""The table of an experiment: one row for every agent on every environment."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cpsrl import statistics
from cpsrl.documents import Table, as_markdown
from cpsrl.environments.pure import EXACT
from cpsrl.simulation import Runs
from cpsrl.simulation.runs import against_words
from cpsrl.statistics import Interval
from cpsrl.support.checks import count
from cpsrl.support.types import Floats


@dataclass(frozen=True)
class Row:
    """What the runs of one agent on one environment came to at the last recorded step."""

    environment: str
    agent: str
    runs: int
    steps: int
    regret: Interval
    median: float
    exponent: Interval
    """Growth of the mean regret over the last decade of steps: regret ~ t^exponent."""
    last_tenth: Interval
    """Regret per step over the last tenth of the steps."""
    linear: float
    """Share of the runs whose regret is still linear."""
    rate: float = np.nan
    """Reward a step, mean over runs; NaN where the world changes."""
    share: float = np.nan
    """The rate as a share of the optimal gain; NaN where that is not positive or not known."""
    dominated: bool = False
    """Whether one run is farther from the median than four times all others together."""
    reference: str = EXACT
    """What regret is counted against (see `cpsrl.environments.pure`)."""
    unfinished: bool = False
    """Whether there are to be more runs, or more steps of them."""


def summary(runs: Runs, losses: Mapping[str, Mapping[int, float]] | None = None) -> list[Row]:
    """Return a row for every agent on every environment of `runs`.

    `losses` gives what the random policy loses a step, by environment and number of the run;
    without it, linear regret is measured by the optimal gain.
    """
    if not len(runs.times):
        raise ValueError("no recorded step has been reached by every run yet")
    rows = []
    for environment in runs.environments:
        for agent in runs.select(environment=environment).agents:
            one = runs.select(environment=environment, agent=agent)
            final, lost = one.regret[:, -1], one.gain
            if losses is not None:
                lost = np.array([losses[environment][run] for run in one.seeds.tolist()])
            rate = float(one.reward_rate[:, -1].mean())
            rows.append(
                Row(
                    environment=environment,
                    agent=agent,
                    runs=len(final),
                    steps=int(one.times[-1]),
                    regret=statistics.mean(final),
                    median=float(np.median(final)),
                    exponent=statistics.growth_exponent(one.times, one.regret),
                    last_tenth=statistics.mean(statistics.last_tenth(one.times, one.regret)),
                    linear=float(statistics.still_linear(one.times, one.regret, lost).mean()),
                    rate=rate,
                    share=rate / float(one.gain.mean()) if one.gain.mean() > 0 else np.nan,
                    dominated=_dominated(final),
                    reference=one.reference[0],
                )
            )
    return rows


def _dominated(finals: Floats) -> bool:
    """Return whether the mean of some runs is that of one run rather than of the others."""
    *others, farthest = np.sort(np.abs(finals - np.median(finals))).tolist()
    return len(others) > 3 and farthest > 4 * sum(others)


def caution(rows: Sequence[Row]) -> str:
    """Return a warning where there are few runs; empty where there are not."""
    least = min(row.runs for row in rows)
    if least >= statistics.FEW:
        return ""
    missed = 0.95**least
    return (
        f"With {least} run{'s' * (least > 1)}, rare failures may be unseen: one that "
        f"happens in a twentieth of all runs is missed with probability {missed:.0%}, and no "
        f"interval allows for it."
    )


SIGNIFICANT = 0.05


def title(rows: Sequence[Row]) -> str:
    """Return how many runs of how many steps the rows of one environment are about.

    And what regret is counted against, where that is not the optimal gain.
    """
    runs, against = counted([row.runs for row in rows]), against_words(rows[0].reference)
    steps = max(row.steps for row in rows)
    about = f"{runs} run{'s' * (runs != '1')} of {steps:,} steps"
    return f"{about}; regret {against}" if against else about


def counted(runs: Collection[int]) -> str:
    """Return the numbers of runs of several agents in words, such as "50" or "20 to 50"."""
    least, most = min(runs), max(runs)
    return f"{most}" if least == most else f"{least} to {most}"


HEADINGS = (
    *("agent", "regret", "95% interval", "median", "reward rate", "of optimum", "growth"),
    *("last tenth", "linear"),
)


def amount(regret: float, sign: str = "") -> str:
    """Return a regret as text: whole, or where it is small with two digits; "+" has its sign."""
    return f"{regret:{sign}{',.0f' if regret == 0 or abs(regret) >= 10 else '.2g'}}"


def amounts(value: float, low: float, high: float) -> str:
    """Return a regret and its interval as text."""
    return f"{amount(value)} [{amount(low)}, {amount(high)}]"


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text, in the order of `HEADINGS`."""

    def known(text: str, *values: float) -> str:
        return text if np.isfinite(values).all() else "-"

    regret, growth = row.regret, row.exponent
    interval = known(f"[{amount(regret.low)}, {amount(regret.high)}]", regret.low, regret.high)
    between = f"{growth.value:.2f} [{growth.low:.2f}, {growth.high:.2f}]"
    far = f" (unfinished: {count(row.runs, 'run')} to step {row.steps:,})" * row.unfinished
    return (
        f"{row.agent}{far}",
        amount(regret.value),
        f"{interval}{', one run dominates' if row.dominated else ''}",
        amount(row.median),
        known(f"{row.rate:.4g}", row.rate),
        known(f"{row.share:.1%}", row.share),
        known(between, growth.low, growth.high),
        f"{row.last_tenth.value:.4f}",
        f"{row.linear:.0%}",
    )


def table(rows: Sequence[Row]) -> Table:
    """Return the table of one environment."""
    return Table(HEADINGS, [cells(row) for row in rows], kind="numbers")


def markdown(
    rows: Sequence[Row], pairs: Mapping[str, Sequence[statistics.Comparison]] | None = None
) -> str:
    """Return the table as Markdown, one section for every environment, with `comparisons`."""
    lines = []
    for environment in dict.fromkeys(row.environment for row in rows):
        here = [row for row in rows if row.environment == environment]
        lines += [
            f"## {as_markdown(environment)}",
            "",
            f"{title(here)}.",
            "",
            table(here).markdown(),
        ]
        if pairs and environment in pairs:
            sure = [pair for pair in pairs[environment] if pair.p <= SIGNIFICANT]
            lines += [
                f"Of {len(pairs[environment])} pairs of agents {len(sure)} can be told apart "
                "(paired differences of regret; p-values adjusted for their number by Holm's "
                f"method, at most {SIGNIFICANT:g}){':' if sure else '.'}",
                "",
            ]
            for pair in sure:
                gap = pair.difference
                difference = amounts(gap.value, gap.low, gap.high)
                names = as_markdown(f"{pair.first} less {pair.second}")
                lines.append(f"- {names}: {difference}, {pair.p_words}")
            lines += [""] if sure else []
        if warning := caution(here):
            lines += [warning, ""]
    return "\n".join([*lines, LEGEND, ""])


LEGEND = (
    "Regret: steps times the optimal gain less the rewards received; the mean over runs with its "
    "95% interval (studentised bootstrap). One run dominates: of five runs or more one is farther "
    "from the median than four times all others together, so mean and interval say little. Reward "
    "rate: reward a step. Of optimum: the rate as a share of the optimal gain. Growth: exponent b "
    "of mean regret ~ t^b over the last decade of steps (1 is linear). Last tenth: regret a step "
    "over the last tenth of the steps. Linear: share of runs whose regret still grows: in the last "
    "tenth of the steps, and from the first tenth on, they lose more a step than 5% of what the "
    "uniformly random policy loses (5% of the optimal gain above the lowest reward where that "
    "policy loses nothing or is not evaluated: no table, or more than 10,000 states)."
)
