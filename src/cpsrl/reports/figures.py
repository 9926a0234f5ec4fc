"""Figures: every function draws into the axes it is given; `save` writes them with what made them.

Colours are those of Okabe and Ito (2008), told apart with any colour vision; every agent also has
a line style of its own, for print in grey. The same agent looks the same in every panel.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from scipy.optimize import isotonic_regression

from cpsrl import statistics
from cpsrl.experiments.progress import short
from cpsrl.simulation import Runs

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 1.5)),
    (0, (1.5, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (3, 1)),
    (0, (8, 1.5, 1.2, 1.5, 1.2, 1.5)),
)
FORMATS = ("png", "pdf", "svg")

_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.8,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "cpsrl",
    "pdf.fonttype": 42,
}


def style() -> AbstractContextManager[None]:
    """Return a context inside which drawing is in the project's style."""
    return matplotlib.rc_context(_STYLE)


def panels(number: int, width: float = 5.2, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with `number` panels of a size in inches, in rows of at most three."""
    columns = min(number, 3)
    rows = -(-number // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(number)]


def look(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and line style of every label."""
    return {
        label: {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}
        for i, label in enumerate(labels)
    }


def regret_curves(ax: Axes, runs: Runs, logarithmic: bool = False) -> None:
    """Draw mean regret against steps for every agent, with 95% bands, labelled at the end.

    With `logarithmic`, both axes are, and grey lines show the growth of t and of sqrt(t). The
    points where a mean is not positive are left out there.
    """
    looks = look(runs.agents)
    bands = {a: statistics.mean_band(runs.select(agent=a).regret) for a in runs.agents}
    floor, top = _range(bands.values()) if logarithmic else (-np.inf, np.inf)
    ends = []
    for label, band in bands.items():
        shown = band.value > floor
        if not shown.any():
            continue
        times, low = runs.times[shown], np.maximum(band.low, floor)[shown]
        ax.plot(times, band.value[shown], **looks[label], zorder=3)
        colour = looks[label]["color"]
        ax.fill_between(times, low, band.high[shown], color=colour, alpha=0.18, linewidth=0)
        ends.append((label, float(band.value[shown][-1])))
    if logarithmic:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(runs.times[0], runs.times[-1])
        ax.set_ylim(floor, top)
        _growth_lines(ax)
    else:
        ax.set_xlim(0, runs.times[-1])
        ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
        ax.xaxis.set_major_locator(MaxNLocator(5))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda v, _: short(v, digits=6)))
    ax.set_xlabel("step")
    ax.set_ylabel("regret")
    _label_ends(ax, float(runs.times[-1]), ends, looks)


def final_regrets(ax: Axes, runs: Runs) -> None:
    """Draw the regret at the last step of every run, with median and quartiles, one row per agent.

    The scale is linear around zero, where good agents are, and logarithmic beyond.
    """
    looks = look(runs.agents)
    rng = np.random.default_rng(0)
    final = {label: runs.select(agent=label).regret[:, -1] for label in runs.agents}
    scale = max(1.0, min(float(np.median(np.abs(values))) for values in final.values()))
    for row, label in enumerate(runs.agents):
        values, colour = final[label], looks[label]["color"]
        jitter = row + rng.uniform(-0.22, 0.22, len(values))
        ax.plot(values, jitter, "o", markersize=3.2, color=colour, alpha=0.45, markeredgewidth=0)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        ax.plot(
            [low, high], [row, row], color=colour, linewidth=5, alpha=0.9, solid_capstyle="butt"
        )
        ax.plot(middle, row, "o", color="white", markeredgecolor=colour, markersize=6, zorder=4)
    ax.set_yticks(range(len(final)), list(final))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(final) - 0.5, -0.5)
    ax.grid(False, axis="y")
    ax.set_xscale("symlog", linthresh=10 ** np.floor(np.log10(scale)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v, digits=6)))
    ax.set_xlabel(
        f"regret after {int(runs.times[-1]):,} steps (dots: runs; bar and ring: quartiles)"
    )


def regret_against_gamma(ax: Axes, runs: Runs, gammas: Mapping[str, float]) -> None:
    """Draw mean final regret on one environment against gamma, spaced by 1 / (1 - gamma).

    `gammas` gives the gamma of the agents that have one, by label; the others are level lines.
    """
    means = {a: statistics.mean(runs.select(agent=a).regret[:, -1]) for a in runs.agents}
    others = [label for label in means if label not in gammas]
    looks = look(["", *others])
    curve = looks.pop("")
    points = sorted((gamma, label) for label, gamma in gammas.items() if label in means)
    if not points:
        raise ValueError(f"no agent here has a gamma: {', '.join(means)}")
    horizon = [1 / (1 - gamma) for gamma, _ in points]
    drawn = [means[label] for _, label in points]
    ax.plot(horizon, [m.value for m in drawn], marker="o", markersize=4, zorder=3, **curve)
    floor, top = _range(means.values())
    lows, highs = [max(m.low, floor) for m in drawn], [max(m.high, floor) for m in drawn]
    ax.fill_between(horizon, lows, highs, color=curve["color"], alpha=0.18, linewidth=0)
    for label, line in looks.items():
        ax.axhline(means[label].value, linewidth=1.2, zorder=2, **line)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(floor, top)
    ax.set_xticks(horizon, [f"{gamma:g}".lstrip("0") for gamma, _ in points], rotation=60)
    ax.minorticks_off()
    ax.set_xlabel("gamma")
    ax.set_ylabel(f"regret after {int(runs.times[-1]):,} steps")
    ends = [(label, means[label].value) for label in others if means[label].value > 0]
    _label_ends(ax, horizon[-1], ends, looks)


def save(
    figure: Figure, stem: Path, source: Mapping[str, str], formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write `figure` to `stem` with every ending in `formats`; return the paths.

    `source` (the command, the versions, ...) goes into every file's metadata. The same figure gives
    the same bytes: no dates.
    """
    text = "; ".join(f"{key}: {value}" for key, value in source.items())
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": "cpsrl", "Title": stem.name, "Description": text},
        "pdf": {"Creator": "cpsrl", "Title": stem.name, "Subject": text, "CreationDate": None},
        "svg": {"Creator": "cpsrl", "Title": stem.name, "Description": text, "Date": None},
    }
    for ending in formats:
        if ending not in metadata:
            raise ValueError(f"figures are written as {', '.join(FORMATS)}, not {ending!r}")
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = {ending: stem.with_suffix(f".{ending}") for ending in formats}
    for ending, path in paths.items():
        figure.savefig(path, metadata=metadata[ending])
    return list(paths.values())


def _label_ends(
    ax: Axes, end: float, ends: Sequence[tuple[str, float]], looks: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write every label to the right of the axes, at its curve's height or as near as it can be."""
    ax.autoscale_view()
    to_axes = ax.transData + ax.transAxes.inverted()
    heights = np.array([to_axes.transform((end, value))[1] for _, value in ends])
    (_, bottom), (_, top) = ax.transAxes.transform([(0, 0), (0, 1)])
    line = 11.5 * matplotlib.rcParams["figure.dpi"] / 72
    placed = _spread(heights, gap=line / (top - bottom))
    for (label, _), height, place in zip(ends, heights, placed, strict=True):
        colour = {"color": looks[label]["color"]}
        arrow = {"arrowstyle": "-", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0, **colour}
        ax.annotate(
            label,
            xy=(1.0, height),
            xytext=(1.045, place),
            xycoords=ax.transAxes,
            fontsize=8,
            va="center",
            arrowprops={"relpos": (0, 0.5), **arrow},
            **colour,
        )


def _spread(heights: Any, gap: float) -> Any:
    """Return places at least `gap` apart, in the order of `heights` and as near to them as can be.

    The least-squares answer is isotonic regression of the heights less their rank times the gap.
    """
    order, ranks = np.argsort(heights), np.arange(len(heights))
    placed = np.array(heights, dtype=np.float64)
    if len(placed):
        placed[order] = isotonic_regression(placed[order] - ranks * gap).x + ranks * gap
    placed -= max(0.0, placed.max(initial=0.0) - 1)
    return placed + max(0.0, -placed.min(initial=0.0))


def _range(estimates: Iterable[statistics.Band | statistics.Interval]) -> tuple[float, float]:
    """Return the limits of a logarithmic axis that shows all positive values of `estimates`."""
    kept = list(estimates)
    values = np.concatenate([np.atleast_1d(e.value) for e in kept])
    highest = float(np.nanmax(np.concatenate([values, *(np.atleast_1d(e.high) for e in kept)])))
    positive = values[values > 0]
    return (float(positive.min()) / 2, highest * 1.5) if len(positive) else (1.0, 10.0)


def _growth_lines(ax: Axes) -> None:
    """Draw the slopes of linear and of square-root growth behind the curves of a log-log plot."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    x = np.array([left, right])
    for power, name in ((1.0, "t"), (0.5, r"$\sqrt{t}$")):
        y = top * (x / right) ** power
        ax.plot(x, y, color="#bbbbbb", linewidth=0.8, zorder=1)
        start = np.exp(np.log(right) + (np.log(bottom) - np.log(top)) / power)
        place = max(left, start) * (right / max(left, start)) ** 0.12
        ax.annotate(
            name,
            (place, top * (place / right) ** power),
            color="#888888",
            fontsize=8,
            xytext=(-3, 3),
            textcoords="offset points",
            ha="right",
        )
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
