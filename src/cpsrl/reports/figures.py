"""Figures: every function draws into the axes it is given; `save` writes them with what made them.

The look of an agent is that of `cpsrl.pages.looks`, the same in every panel.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from scipy.optimize import isotonic_regression

from cpsrl import statistics
from cpsrl.atomic import whole_file
from cpsrl.experiments.progress import short
from cpsrl.pages import COLOURS, DASHES, escaped, slots
from cpsrl.reports.sweeps import Sweep
from cpsrl.simulation import Runs
from cpsrl.simulation.runs import against_words

FORMATS = ("png", "pdf", "svg")
OURS = re.compile(rf"(regret|final|gamma)(-\d\d+)?\.({'|'.join(FORMATS)})|report\.html")
"""What the figures of a report, and the page that has them, are called."""
Looks = Mapping[str, Mapping[str, Any]]
"""Colour and line style by label, as `look` gives them."""

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
        label: {
            "color": COLOURS[slot % len(COLOURS)],
            "linestyle": (0, DASHES[slot % len(DASHES)] or None),
        }
        for label, slot in slots(labels).items()
    }


def regret_curves(
    ax: Axes,
    runs: Runs,
    logarithmic: bool = False,
    looks: Looks | None = None,
    of: Literal["regret", "resamples"] = "regret",
) -> None:
    """Draw mean regret against steps for every agent, with 95% bands, labelled at the end.

    `looks` gives the look of more agents than are here, `of` another curve than regret. With
    `logarithmic`, both axes are, and grey lines show the growth of t and of sqrt(t). The points
    where a mean is not positive are left out there. The axes end where runs have been: the bands
    of a few runs can be so wide that nothing else would be seen.
    """
    looks, curves = looks or look(runs.agents), getattr(runs, of)
    bands = {a: statistics.mean_band(getattr(runs.select(agent=a), of)) for a in runs.agents}
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
        ax.set_ylim(floor, max(min(top, 1.5 * float(curves.max())), 2 * floor))
        _growth_lines(ax)
    else:
        ax.set_xlim(0, runs.times[-1])
        (bottom, top), (least, most) = ax.get_ylim(), (curves.min(), curves.max())
        beyond = 0.05 * max(float(most - min(least, 0)), 1e-300)
        ax.set_ylim(min(0, max(bottom, least - beyond)), max(beyond, min(top, most + beyond)))
        ax.xaxis.set_major_locator(MaxNLocator(5))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda v, _: short(v, digits=6)))
    ax.set_xlabel("step")
    words = " ".join(["regret", against_words(runs.reference[0])]).strip()
    ax.set_ylabel(words if of == "regret" else "resamplings")
    _label_ends(ax, float(runs.times[-1]), ends, looks)


def final_regrets(ax: Axes, runs: Runs, looks: Looks | None = None) -> None:
    """Draw the regret at the last step of every run, with median and quartiles, one row per agent.

    The scale is linear around zero, where good agents are, and logarithmic beyond.
    """
    looks = looks or look(runs.agents)
    rng = np.random.default_rng(0)
    final = {label: runs.select(agent=label).regret[:, -1] for label in runs.agents}
    ax.set_xscale("symlog", linthresh=knee(final.values()))  # before the dots: margins go by it
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
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v, digits=6)))
    ax.set_xlabel(
        f"regret after {int(runs.times[-1]):,} steps (dots: runs; bar and ring: quartiles)"
    )


def knee(finals: Iterable[Any]) -> float:
    """Return up to where the scale of final regrets, (runs,) of every agent, is linear."""
    scale = max(1.0, min(float(np.median(np.abs(values))) for values in finals))
    return float(10 ** np.floor(np.log10(scale)))


def regret_against(ax: Axes, sweep: Sweep, steps: int, looks: Looks) -> None:
    """Draw mean final regret against a varied option; agents without the option are level lines.

    A gamma is spaced by its horizon, 1 / (1 - gamma). A point has the colour of its agent; a line
    that is one agent's, on several environments, has it too.
    """
    every = [point[2] for points in sweep.lines.values() for point in points]
    floor, top = _range([*every, *sweep.levels.values()])
    ends = [(label, level.value) for label, level in sweep.levels.items() if level.value > 0]
    own = set(looks) & set(sweep.lines)
    for name, points in sweep.lines.items():
        at, means = [sweep.place(value) for value, _, _ in points], [mean for *_, mean in points]
        line = looks[name] if name in own else {"color": "#444444", "linestyle": "-"}
        ax.plot(at, [mean.value for mean in means], zorder=3, **line)
        lows, highs = [max(m.low, floor) for m in means], [max(m.high, floor) for m in means]
        ax.fill_between(at, lows, highs, color=line["color"], alpha=0.18, linewidth=0)
        for x, (_, label, mean) in zip(at, points, strict=True):
            colour = looks.get(label, line)["color"]
            ax.plot(x, mean.value, "o", markersize=5, color=colour, zorder=4)
        if name in own and means[-1].value > 0:
            ends.append((name, means[-1].value))
    for label, level in sweep.levels.items():
        ax.axhline(level.value, linewidth=1.2, zorder=2, **looks[label])
    ax.set_xscale("log" if sweep.logarithmic else "linear")
    ax.set_yscale("log")
    ax.set_ylim(floor, top)
    marks = [f"{value:g}".removeprefix("0" if value else "") for value in sweep.values]
    ax.set_xticks(list(map(sweep.place, sweep.values)), marks, rotation=60)
    if np.floor(np.log10(top)) == np.ceil(np.log10(floor)):  # one power of ten says too little
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v, digits=6)))
    ax.minorticks_off()
    ax.set_xlabel(sweep.option)
    ax.set_ylabel(f"regret after {steps:,} steps")
    _label_ends(ax, sweep.place(sweep.values[-1]), ends, looks)


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
        with whole_file(path) as file:
            figure.savefig(file, format=ending, metadata=metadata[ending])
    return list(paths.values())


def inline(figure: Figure, name: str, label: str) -> str:
    """Return `figure` as an SVG element for a page, which has its colours, as variables.

    `name` begins its identifiers, which must differ from those of other figures on the page;
    `label` says what it shows. Places are rounded to a tenth of a point.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    for pattern in (r"<metadata>.*?</metadata>", r"<style.*?</style>", r"font-family: [^;\"]*;? ?"):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r'((?<= )id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d)\d\d+", r"\1", tag[0]), text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour.lower(), f"var({variable})")
    text = re.sub(r"\s*\n\s*", " ", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escaped(label)}"', 1)


_VARIABLES = {colour: f"--c{i}" for i, colour in enumerate(COLOURS)} | {
    "#444444": "--soft",
    "#888888": "--soft",
    "#bbbbbb": "--line",
    "#e4e4e4": "--grid",
    "#ffffff": "--paper",
}


def remove_older(folder: Path, paths: Sequence[Path]) -> None:
    """Remove the figures of a report in `folder` that are not among `paths`, and nothing else."""
    for path in set(folder.iterdir()) - set(paths):
        if OURS.fullmatch(path.name) and b"cpsrl" in path.read_bytes():
            path.unlink()


def _label_ends(ax: Axes, end: float, ends: Sequence[tuple[str, float]], looks: Looks) -> None:
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
    for power, name in ((1.0, "t"), (0.5, "√t")):
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
