"""The table of an experiment: one row for every agent on every environment."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from cpsrl.reports import statistics
from cpsrl.reports.statistics import Interval
from cpsrl.simulation import Runs


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


def summary(runs: Runs) -> list[Row]:
    """Return a row for every agent on every environment of `runs`."""
    if not len(runs.times):
        raise ValueError("no recorded step has been reached by every run yet")
    rows = []
    for environment in runs.environments:
        for agent in runs.select(environment=environment).agents:
            one = runs.select(environment=environment, agent=agent)
            final = one.regret[:, -1]
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
                    linear=float(statistics.still_linear(one.times, one.regret, one.gain).mean()),
                )
            )
    return rows


def title(rows: Sequence[Row]) -> str:
    """Return how many runs of how many steps the rows of one environment are about."""
    return f"{counted([row.runs for row in rows])} runs of {rows[0].steps:,} steps"


def counted(runs: Collection[int]) -> str:
    """Return the numbers of runs of several agents in words, such as "50" or "20 to 50"."""
    least, most = min(runs), max(runs)
    return f"{most}" if least == most else f"{least} to {most}"


HEADINGS = ("agent", "regret", "95% interval", "median", "growth", "last tenth", "linear")


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text, in the order of `HEADINGS`."""
    growth = "-"
    if np.isfinite([row.exponent.low, row.exponent.high]).all():
        growth = f"{row.exponent.value:.2f} [{row.exponent.low:.2f}, {row.exponent.high:.2f}]"
    return (
        row.agent,
        f"{row.regret.value:,.0f}",
        f"[{row.regret.low:,.0f}, {row.regret.high:,.0f}]",
        f"{row.median:,.0f}",
        growth,
        f"{row.last_tenth.value:.4f}",
        f"{row.linear:.0%}",
    )


def markdown(rows: Sequence[Row]) -> str:
    """Return the table as Markdown, one section for every environment."""
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
    return "\n".join([*lines, LEGEND, ""])


LEGEND = (
    "Regret: mean over runs of steps times the optimal gain less the reward received, with its "
    "bootstrap interval. Growth: exponent b of mean regret ~ t^b over the last decade of steps (1 "
    "is linear). Last tenth: regret per step over the last tenth of the steps. Linear: share of "
    "runs that lose more than 5% of the optimal gain at every step, over the last tenth as well as "
    "from a tenth of the steps on."
)
