"""The table of an experiment: one row for every agent on every environment."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cpsrl import statistics
from cpsrl.environments.pure import EXACT
from cpsrl.simulation import Runs
from cpsrl.simulation.runs import against_words
from cpsrl.statistics import Interval


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
    reference: str = EXACT
    """What regret is counted against (see `cpsrl.environments.pure`)."""


def summary(runs: Runs, lowest: Mapping[str, float] | None = None) -> list[Row]:
    """Return a row for every agent on every environment of `runs`.

    `lowest` gives the low end of the range of rewards by environment, where it is not 0.
    """
    if not len(runs.times):
        raise ValueError("no recorded step has been reached by every run yet")
    rows = []
    for environment in runs.environments:
        for agent in runs.select(environment=environment).agents:
            one = runs.select(environment=environment, agent=agent)
            final, gain = one.regret[:, -1], one.gain - (lowest or {}).get(environment, 0.0)
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
                    linear=float(statistics.still_linear(one.times, one.regret, gain).mean()),
                    reference=one.reference[0],
                )
            )
    return rows


def caution(rows: Sequence[Row]) -> str:
    """Return a warning where there are few runs; empty where there are not."""
    least = min(row.runs for row in rows)
    if least >= statistics.FEW:
        return ""
    missed = 0.95**least
    return (
        f"With {least} run{'s' * (least > 1)}, rare failures may be unseen: one that befalls a run "
        f"in twenty is missed with probability {missed:.0%}, and no interval allows for it."
    )


SIGNIFICANT = 0.05


def title(rows: Sequence[Row]) -> str:
    """Return how many runs of how many steps the rows of one environment are about.

    And what regret is counted against, where that is not the optimal gain.
    """
    runs, against = counted([row.runs for row in rows]), against_words(rows[0].reference)
    about = f"{runs} run{'s' * (runs != '1')} of {rows[0].steps:,} steps"
    return f"{about}; regret {against}" if against else about


def counted(runs: Collection[int]) -> str:
    """Return the numbers of runs of several agents in words, such as "50" or "20 to 50"."""
    least, most = min(runs), max(runs)
    return f"{most}" if least == most else f"{least} to {most}"


HEADINGS = ("agent", "regret", "95% interval", "median", "growth", "last tenth", "linear")


def amount(regret: float, sign: str = "") -> str:
    """Return a regret as text: whole, or where it is small with two digits; "+" has its sign."""
    return f"{regret:{sign}{',.0f' if regret == 0 or abs(regret) >= 10 else '.2g'}}"


def amounts(value: float, low: float, high: float) -> str:
    """Return a regret and its interval as text."""
    return f"{amount(value)} [{amount(low)}, {amount(high)}]"


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text, in the order of `HEADINGS`."""
    growth = "-"
    if np.isfinite([row.exponent.low, row.exponent.high]).all():
        growth = f"{row.exponent.value:.2f} [{row.exponent.low:.2f}, {row.exponent.high:.2f}]"
    known = np.isfinite([row.regret.low, row.regret.high]).all()
    return (
        row.agent,
        amount(row.regret.value),
        f"[{amount(row.regret.low)}, {amount(row.regret.high)}]" if known else "-",
        amount(row.median),
        growth,
        f"{row.last_tenth.value:.4f}",
        f"{row.linear:.0%}",
    )


def markdown(
    rows: Sequence[Row], pairs: Mapping[str, Sequence[statistics.Comparison]] | None = None
) -> str:
    """Return the table as Markdown, one section for every environment, with `comparisons`."""
    lines = []
    for environment in dict.fromkeys(row.environment for row in rows):
        here = [row for row in rows if row.environment == environment]
        lines += [
            f"## {environment}",
            "",
            f"{title(here)}.",
            "",
            "| " + " | ".join(HEADINGS) + " |",
            "| --- " + "| ---: " * (len(HEADINGS) - 1) + "|",
        ]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in here]
        lines.append("")
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
                lines.append(f"- {pair.first} less {pair.second}: {difference}, p = {pair.p:.2g}")
            lines += [""] if sure else []
        if warning := caution(here):
            lines += [warning, ""]
    return "\n".join([*lines, LEGEND, ""])


LEGEND = (
    "Regret: mean over runs of steps times the optimal gain less the reward received, with its "
    "interval (studentised bootstrap). Growth: exponent b of mean regret ~ t^b over the last "
    "decade of steps (1 is linear). Last tenth: regret per step over the last tenth of the steps. "
    "Linear: share of runs that lose more than 5% of the optimal gain (above the lowest reward) at "
    "every step, over the last tenth as well as from a tenth of the steps on."
)
