"""The figures of runs, models and reports: every function draws into the axes it is given.

The look of an agent is that of `cpsrl.documents.colours`, the same in every panel. This is the
lowest floor, and what is drawn is of upper ones: `runs` is a `Runs`, `mdp` a `TabularMDP`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import LogLocator, MaxNLocator
from scipy.optimize import isotonic_regression

from cpsrl.documents.colours import COLOURS
from cpsrl.documents.pictures import Looks, look, panels, save, style, tick
from cpsrl.statistics import Band, Interval, mean_band

__all__ = ["COLOURS", "look", "panels", "save", "style"]

MOST_SHADES, MOST_ROWS, MOST_COLUMNS = 4_000_000, 40, 16
"""A model with more cells is drawn as dots, one with more rows or columns without names."""
FLAT = 15
"""Where the largest mean regret is more than FLAT times the least, the axis is symlog."""


def regret_curves(
    ax: Axes,
    runs: Any,
    logarithmic: bool = False,
    looks: Looks | None = None,
    of: Literal["regret", "resamples"] = "regret",
) -> None:
    """Draw mean regret against steps for every agent, with 95% bands, labelled at the end.

    `looks` gives the look of more agents than are here, `of` another curve than regret. With
    `logarithmic`, both axes are, and grey lines show the growth of t and of sqrt(t). The points
    where a mean is not positive are left out there. Else the axis of regret is linear, or symlog
    where one agent would press the others flat. The axes end where runs have been: the bands of a
    few runs can be so wide that nothing else would be seen.
    """
    looks, each = looks or look(runs.agents), {a: runs.select(agent=a) for a in runs.agents}
    bands = {label: mean_band(getattr(one, of)) for label, one in each.items()}
    least = min(float(getattr(one, of).min()) for one in each.values())
    most = max(float(getattr(one, of).max()) for one in each.values())
    floor, top = _range(bands.values()) if logarithmic else (-np.inf, np.inf)
    ends = []
    for label, band in bands.items():
        shown = band.value > floor
        if not shown.any():
            continue
        times, low = each[label].times[shown], np.maximum(band.low, floor)[shown]
        ax.plot(times, band.value[shown], **looks[label], zorder=3)
        colour = looks[label]["color"]
        ax.fill_between(times, low, band.high[shown], color=colour, alpha=0.18, linewidth=0)
        ends.append((label, float(band.value[shown][-1])))
    if logarithmic:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(runs.times[0], runs.times[-1])
        ax.set_ylim(floor, max(min(top, 1.5 * most), 2 * floor))
        _growth_lines(ax)
    else:
        ax.set_xlim(0, runs.times[-1])
        finals = [one.regret[:, -1] for one in each.values()]
        bottom, top = ax.get_ylim()
        if of == "regret" and bends(finals):
            ax.set_yscale("symlog", linthresh=knee(finals))
            least = min(float(band.value.min()) for band in bands.values())
            bottom, top = least - 0.3 * knee(finals) * (least < 0), 1.5 * top
        beyond = 0.05 * max(most - min(least, 0.0), 1e-300)
        ax.set_ylim(min(0, max(bottom, least - beyond)), max(beyond, min(top, most + beyond)))
        ax.xaxis.set_major_locator(MaxNLocator(5))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(tick)
    ax.set_xlabel("step")
    words = f"regret {runs.against}".strip()
    ax.set_ylabel(words if of == "regret" else "resamplings")
    label_ends(ax, float(runs.times[-1]), ends, looks)


def final_regrets(ax: Axes, runs: Any, looks: Looks | None = None) -> None:
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
    ax.xaxis.set_major_formatter(tick)
    ax.set_xlabel(
        f"regret after {int(runs.times[-1]):,} steps (dots: runs; bar and ring: quartiles)"
    )


def knee(finals: Iterable[Any]) -> float:
    """Return up to where the scale of final regrets, (runs,) of every agent, is linear."""
    scale = max(1.0, min(float(np.median(np.abs(values))) for values in finals))
    return float(10 ** np.floor(np.log10(scale)))


def bends(finals: Iterable[Any]) -> bool:
    """Return whether a linear axis would press some agents flat: whether means differ that much."""
    sizes = [abs(float(np.mean(values))) for values in finals]
    return max(sizes) > FLAT * min(sizes)


def regret_against(ax: Axes, sweep: Any, steps: int, looks: Looks) -> None:
    """Draw a `Sweep`, mean final regret against a varied option.

    Agents without the option are level lines. A gamma is spaced by its horizon, 1 / (1 - gamma). A
    point has the colour of its agent; a line that is one agent's, on several environments, has it
    too.
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
    marks = _apart(
        sweep.values, [ax.transData.transform((sweep.place(v), 1))[0] for v in sweep.values]
    )
    names = [f"{value:g}".removeprefix("0" if value else "") for value in marks]
    ax.set_xticks(list(map(sweep.place, marks)), names, rotation=60)
    if np.floor(np.log10(top)) == np.ceil(np.log10(floor)):  # one power of ten says too little
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(tick)
    ax.minorticks_off()
    ax.set_xlabel(sweep.option)
    ax.set_ylabel(f"regret after {steps:,} steps")
    label_ends(ax, sweep.place(sweep.values[-1]), ends, looks)


@contextmanager
def given_or_new(ax: Any) -> Iterator[Any]:
    """Give `ax`, or new axes of pyplot if it is None, to be drawn into in the project's style."""
    with style():
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(figsize=(7.2, 3.6), layout="constrained")
        yield ax


def transitions(ax: Axes, mdp: Any) -> None:
    """Draw a model: pairs of a state and an action as rows, next states as columns.

    Probabilities are shades, and numbers where there is room, with the mean reward to the right.
    Of a model too large for shades there is a dot for each successor.
    """
    pairs = np.flatnonzero(np.ones(mdp.rewards.shape) if mdp.available is None else mdp.available)
    table, (rows, columns) = mdp.csr[pairs], (len(pairs), mdp.n_states)
    ax.grid(False)
    ax.set(title=mdp.name or "model", xlabel="next state", ylabel="pair of state and action")
    if rows * columns > MOST_SHADES:
        ax.spy(table, markersize=1, color=COLOURS[0], aspect="auto")
        ax.xaxis.set_ticks_position("bottom")
        return
    shades = LinearSegmentedColormap.from_list("probability", ["#ffffff", COLOURS[0]])
    dense = table.toarray()
    ax.imshow(dense, aspect="auto", cmap=shades, vmin=0, vmax=1, interpolation="none")
    if rows > MOST_ROWS or columns > MOST_COLUMNS:
        return
    names = [
        f"{mdp.state_name(s)}, {mdp.action_name(a)}"
        for s, a in (divmod(p, mdp.n_actions) for p in pairs.tolist())
    ]
    ax.set_yticks(range(rows), names)
    ax.set_xticks(range(columns), [mdp.state_name(s) for s in range(columns)])
    for row, column in np.argwhere(dense):
        p = float(dense[row, column])
        colour = "white" if p > 0.5 else "black"
        ax.text(column, row, f"{p:.3g}", ha="center", va="center", fontsize=7, color=colour)
    rewards = [f"{r + 0.0:.4g}" for r in mdp.rewards.ravel()[pairs]]
    right = ax.secondary_yaxis("right")
    right.set_yticks(range(rows), rewards)
    right.set_ylabel("mean reward")
    right.tick_params(length=0)


def reward_rates(ax: Axes, played: Any) -> None:
    """Draw the reward a step between one recorded step and the next, with a band over the rows."""
    if not len(played.times):
        raise ValueError("no step was recorded, so there is nothing to draw")
    took = np.diff(played.times, prepend=0)
    band = mean_band(np.diff(played.rewards, prepend=0.0, axis=1) / took)
    (colour,) = (one["color"] for one in look([played.label]).values())
    ax.plot(played.times, band.value, color=colour)
    ax.fill_between(played.times, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
    ax.set(xlabel="step", ylabel="reward a step", xlim=(0, played.times[-1]))
    bands = f", mean of {len(played.rewards)} copies, 95% band" if len(played.rewards) > 1 else ""
    ax.set_title(f"{played.label} in {played.environment or 'an environment'}{bands}")
    ax.xaxis.set_major_formatter(tick)


def label_ends(ax: Axes, end: float, ends: Sequence[tuple[str, float]], looks: Looks) -> None:
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


def _apart(values: Sequence[float], places: Sequence[float]) -> list[float]:
    """Return the values that are a 20th of the axis apart from the one before, the first kept."""
    kept = [0]
    for i in range(1, len(values)):
        if places[i] - places[kept[-1]] >= (places[-1] - places[0]) / 20:
            kept.append(i)
    return [values[i] for i in kept]


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


def _range(estimates: Iterable[Band | Interval]) -> tuple[float, float]:
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
