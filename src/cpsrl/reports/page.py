"""The page of an experiment: `report.html`, one file to be opened from disk.

All numbers are those of `summary`, `statistics` and `sweeps`; the page arranges them. Without
JavaScript its figures are those of `figures`; with it, `page.js` draws the same curves from the
data inside, to be pointed at, switched, zoomed. Curves are thinned to what a screen can show.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl import statistics
from cpsrl.experiments.results import Results
from cpsrl.pages import DASHES, escaped, rounded, slots
from cpsrl.pages import page as whole_page
from cpsrl.pages.page import source
from cpsrl.reports import figures, sweeps
from cpsrl.reports.paper import Finding
from cpsrl.reports.summary import (
    HEADINGS,
    LEGEND,
    SIGNIFICANT,
    Row,
    amount,
    amounts,
    caution,
    cells,
    title,
)
from cpsrl.simulation import Runs
from cpsrl.statistics import Comparison
from cpsrl.types import Ints

POINTS = 200
"""So many recorded steps of a curve are on the page, half of them spread evenly in log t ..."""
STATIC_POINTS = 80
"""... so many of a figure without JavaScript ..."""
RUN_VALUES = 60_000
"""... and so many values of single runs altogether, but no fewer than 25 steps of a run."""
FEW = 4
"""Of so many runs or fewer, the runs themselves are shown first: their bands say little."""
WORDS = {True: ("yes", "HELD"), False: ("no", "DID NOT HOLD"), None: ("", "UNDECIDED")}


@dataclass(frozen=True)
class Place:
    """One environment: its number on the page, its runs at all recorded steps, and its numbers."""

    number: int
    runs: Runs
    rows: list[Row]
    pairs: Sequence[Comparison]

    @property
    def name(self) -> str:
        """What the environment is called."""
        return self.runs.environments[0]


def html(
    results: Results,
    runs: Runs,
    rows: Sequence[Row],
    pairs: Mapping[str, Sequence[Comparison]],
    findings: Sequence[Finding],
) -> str:
    """Return the page of an experiment as one HTML document."""
    experiment = results.experiment
    labels = [entry.called for entry in experiment.all_agents]
    looks, order = figures.look(labels), {label: i for i, label in enumerate(labels)}
    places = [
        Place(
            i, runs.select(environment=e), [r for r in rows if r.environment == e], pairs.get(e, ())
        )
        for i, e in enumerate(runs.environments)
    ]
    drawn: list[sweeps.Sweep] = []
    parts = []
    for place in places:
        own = sweeps.of_agents(experiment.all_agents, place.rows)
        parts.append(_section(place, own, len(drawn), looks, order))
        drawn += own
    across = sweeps.of_environments(experiment.all_environments, rows)
    steps = int(runs.times[-1])
    figured = _sweeps(across, len(drawn), steps, looks, _legend(labels, order))
    drawn += across
    names = {f"e{place.number}": place.name for place in places}
    if across:
        names["across"] = "Across environments"
        parts.append(f'<section id="across"><h2>Across environments</h2>{figured}</section>')
    links = {"words": "In words", **names, "made": "How it was made"}
    body = [
        '<a class="skip" href="#words">To the summary</a>',
        f"<header><h1>{escaped(experiment.name)}</h1>",
        f"<p>{escaped(experiment.description)}</p>" if experiment.description else "",
        f'<p class="facts">{escaped(_facts(places, labels))}</p>',
        _unfinished(results, runs),
        "</header>",
        '<nav aria-label="Sections">',
        *(f'<a href="#{key}">{escaped(name)}</a>' for key, name in links.items()),
        "</nav><main>",
        _words(places, findings),
        _overview(places, labels) if len(places) > 1 else "",
        *parts,
        _made(results),
        "</main>",
    ]
    data = {
        "agents": [[label, slot] for label, slot in slots(labels).items()],
        "dashes": [list(dash) for dash in DASHES],
        "places": [_data(place, order, len(runs.seeds)) for place in places],
        "sweeps": [_sweep_data(sweep, order) for sweep in drawn],
    }
    return whole_page(
        f"{experiment.name}: report",
        "\n".join(filter(None, body)),
        style=source("chart.css") + source("page.css", "cpsrl.reports"),
        script=source("chart.js") + source("page.js", "cpsrl.reports"),
        data=data,
    )


def thinned(times: Ints, points: int) -> Ints:
    """Return the numbers of about `points` of `times`, the last among them.

    Half are spread evenly over the steps, half over their logarithms.
    """
    if len(times) <= points:
        return np.arange(len(times))
    wanted = [
        np.linspace(times[0], times[-1], points // 2),
        np.geomspace(times[0], times[-1], points // 2),
    ]
    found = np.searchsorted(times, np.concatenate(wanted) * (1 - 1e-12))
    return np.unique(np.minimum(found, len(times) - 1))


def _data(place: Place, order: Mapping[str, int], rows: int) -> dict[str, Any]:
    """Return the curves of one environment as JSON has them."""
    runs = place.runs.at(place.runs.times[thinned(place.runs.times, POINTS)])
    at = runs.times[thinned(runs.times, int(np.clip(RUN_VALUES // rows, 25, 120)))]
    curves, finals = [], {}
    for agent in runs.agents:
        one = runs.select(agent=agent)
        mean, middle = statistics.mean_band(one.regret), statistics.quantile_band(one.regret)
        finals[agent] = one.regret[:, -1]
        curves.append(
            {
                "mean": rounded([mean.value, mean.low, mean.high]),
                "median": rounded([middle.value, middle.low, middle.high]),
                "quartiles": rounded(np.quantile(finals[agent], [0.25, 0.5, 0.75])),
                "seeds": one.seeds.tolist(),
                "runs": rounded(one.at(at).regret),
            }
        )
    return {
        "agents": [order[agent] for agent in runs.agents],
        "times": runs.times.tolist(),
        "at": at.tolist(),
        "bounds": [float(runs.regret.min()), float(runs.regret.max())],
        "knee": figures.knee(finals.values()),
        "regret": curves,
        "resamples": rounded([runs.select(agent=a).resamples.mean(axis=0) for a in runs.agents]),
    }


def _sweep_data(sweep: sweeps.Sweep, order: Mapping[str, int]) -> dict[str, Any]:
    places = [sweep.place(value) for value in sweep.values]
    lines: list[dict[str, Any]] = []
    for name, points in sweep.lines.items():
        means = [mean for *_, mean in points]
        line = {
            "name": name,
            "agent": order.get(name),
            "who": [order.get(who) for _, who, _ in points],
            "x": [sweep.place(value) for value, *_ in points],
        }
        lines.append(line | {k: rounded([getattr(m, n) for m in means]) for k, n in BOUNDS.items()})
    for name, level in sweep.levels.items():
        line = {"name": name, "agent": order[name], "who": [], "level": True, "x": places}
        ends = {k: rounded([getattr(level, n)] * len(places)) for k, n in BOUNDS.items()}
        lines.append(line | {"y": ends["y"]})
    return {
        "option": sweep.option,
        "log": sweep.logarithmic,
        "marks": [[sweep.place(value), f"{value:g}"] for value in sweep.values],
        "lines": lines,
    }


BOUNDS = {"y": "value", "low": "low", "high": "high"}


def _facts(places: Sequence[Place], labels: Sequence[str]) -> str:
    agents = f"{len(labels)} agent{'s' * (len(labels) > 1)}"
    where = f"{len(places)} environments" if len(places) > 1 else places[0].name
    counts = dict.fromkeys(title(place.rows) for place in places)
    return f"{agents} on {where}: {', '.join(counts)}."


def _unfinished(results: Results, runs: Runs) -> str:
    experiment = results.experiment
    planned = len(experiment.all_agents) * len(experiment.all_environments) * len(experiment.runs)
    if len(runs.seeds) == planned and runs.times[-1] >= results.recorded[-1]:
        return ""
    return (
        f'<p class="warn"><strong>Not finished:</strong> {len(runs.seeds)} of {planned} runs '
        f"begun, every one recorded to step {runs.times[-1]:,} of {results.steps:,}.</p>"
    )


def _words(places: Sequence[Place], findings: Sequence[Finding]) -> str:
    lines = ['<section id="words"><h2>In words</h2><ul class="words">']
    for place in places:
        where = f"<strong>{escaped(place.name)}</strong>: " if len(places) > 1 else ""
        lines.append(f"<li>{where}{escaped(in_words(place.rows, place.pairs))}</li>")
    lines.append("</ul>")
    if warning := caution([row for place in places for row in place.rows]):
        lines.append(f'<p class="warn">{escaped(warning)}</p>')
    if findings:
        lines.append('<h3>The paper’s claims</h3><ul class="claims">')
        for finding in findings:
            kind, word = WORDS[finding.held]
            lines.append(
                f'<li><span class="held {kind}">{word}</span> {escaped(finding.statement)}.<br>'
                f'<span class="note">{escaped(finding.numbers)}</span></li>'
            )
        lines.append("</ul>")
    return "\n".join([*lines, "</section>"])


def in_words(rows: Sequence[Row], pairs: Sequence[Comparison]) -> str:
    """Return in sentences who has the least regret on an environment, and how surely."""
    best = min(rows, key=lambda row: row.regret.value)
    number = amount(best.regret.value)
    if np.isfinite([best.regret.low, best.regret.high]).all():
        number = amounts(best.regret.value, best.regret.low, best.regret.high)
    if len(rows) == 1:
        text = f"{best.agent} has a mean regret of {number} after {best.steps:,} steps."
    else:
        text = f"{best.agent} has the least mean regret after {best.steps:,} steps, {number}."
    own = [pair for pair in pairs if best.agent in (pair.first, pair.second)]
    alike = [
        pair.second if pair.first == best.agent else pair.first
        for pair in own
        if not pair.p <= SIGNIFICANT
    ]
    if own and len(alike) == len(own):
        text += " It can't be told apart from any other agent."
    elif own and not alike:
        text += " It can be told apart from every other agent."
    elif own:
        apart = f"It can be told apart from {len(own) - len(alike)} of {len(own)} others"
        text += f" {apart}, but not from {_listed(alike)}."
    if linear := [row.agent for row in rows if row.linear > 0.5]:
        still = "all agents" if len(linear) == len(rows) > 1 else _listed(linear)
        text += f" In most runs of {still} regret still grows linearly."
    return text


def _listed(names: Sequence[str], most: int = 4) -> str:
    comma = "; " if any("," in name for name in names) else ", "
    if len(names) > most:
        return f"{comma.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join(filter(None, [comma.join(names[:-1]), names[-1]]))


def _overview(places: Sequence[Place], labels: Sequence[str]) -> str:
    """Return mean final regret by environment and agent, the more numerous of them as rows."""
    own = {(place.name, row.agent): row.regret.value for place in places for row in place.rows}
    least = {place.name: min(row.regret.value for row in place.rows) for place in places}
    links = {
        place.name: f'<a href="#e{place.number}">{escaped(place.name)}</a>' for place in places
    }
    names = {label: escaped(label) for label in labels}

    def cell(place: str, label: str) -> str:
        value = own.get((place, label))
        best = ' class="best"' if value == least[place] else ""
        return "<td></td>" if value is None else f"<td{best}>{amount(value)}</td>"

    if turned := len(labels) > len(places):
        rows, columns = names, links
    else:
        rows, columns = links, names
    head = "".join(f'<th scope="col">{name}</th>' for name in columns.values())
    body = "".join(
        f'<tr><th scope="row">{name}</th>'
        + "".join(cell(*((column, row) if turned else (row, column))) for column in columns)
        + "</tr>"
        for row, name in rows.items()
    )
    return (
        '<section id="overview"><h2>All environments</h2><p class="note">Mean final regret; the '
        'least of each environment in bold.</p><div class="wide" tabindex="0">'
        f'<table class="overview"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div></section>"
    )


def _section(
    place: Place,
    own: Sequence[sweeps.Sweep],
    first: int,
    looks: figures.Looks,
    order: Mapping[str, int],
) -> str:
    """Return everything about one environment; `first` is the number of its first sweep."""
    few = place.runs.at(place.runs.times[thinned(place.runs.times, STATIC_POINTS)])
    name, steps = f"e{place.number}", int(place.runs.times[-1])
    tall = max(3.4, 1.0 + 0.17 * len(few.agents))

    def curves(of: Any, scale: bool) -> str:
        figure, (ax,) = figures.panels(1, height=tall)
        figures.regret_curves(ax, few, scale, looks, of)
        ax.set_title("logarithmic axes" if scale else "mean and 95% band")
        kind = f"{'regret' if of == 'regret' else 'resamplings'} against steps"
        axes = ", logarithmic axes" if scale else ""
        return figures.inline(figure, f"{name}-{of}-{int(scale)}", f"{kind}{axes}, {place.name}")

    def finals() -> str:
        figure, (ax,) = figures.panels(1, width=6.4, height=1.0 + 0.36 * len(few.agents))
        figures.final_regrets(ax, few, looks)
        return figures.inline(figure, f"{name}-finals", f"final regret of every run, {place.name}")

    with figures.style():
        regret = curves("regret", False) + curves("regret", True)
        drawn = (few.resamples[:, -1] > 0).any()
        resamples = curves("resamples", False) + curves("resamples", True) if drawn else ""
        distribution = finals()
    again = (
        _chart(
            "resamples",
            place.number,
            f"Resamplings over time on {place.name}",
            resamples,
            "Mean number of resamplings up to a step, over runs.",
            scale="log",
        )
        if drawn
        else '<p class="note">No agent resampled.</p>'
    )
    return "\n".join(
        [
            f'<section id="{name}"><h2>{escaped(place.name)}</h2>',
            f"<p>{escaped(title(place.rows))}.</p>",
            "<h3>Regret</h3>",
            _legend(few.agents, order),
            _chart(
                "regret",
                place.number,
                f"Regret curves on {place.name}",
                regret,
                '<span class="only-js">Point at a curve for its values, drag to zoom, double-click '
                "to see all. With the keyboard: arrows for values, + and - to zoom, 0 to see all."
                "</span>",
                show="mean" if max(row.runs for row in place.rows) > FEW else "runs",
            ),
            _table(place.rows),
            '<div class="columns"><div>',
            "<h3>Final regret of every run</h3>",
            _chart(
                "finals",
                place.number,
                f"Final regret of every run on {place.name}",
                distribution,
                "Dots are runs, the bar reaches from quartile to quartile, the ring is the median.",
            ),
            "</div>",
            _matrix(place),
            "</div>",
            _sweeps(own, first, steps, looks, _legend(few.agents, order)),
            "<h3>Resamplings</h3>",
            _legend(few.agents, order) if drawn else "",
            again,
            "</section>",
        ]
    )


def _legend(agents: Sequence[str], order: Mapping[str, int]) -> str:
    """Return the switches of agents; those of an agent, wherever they are, go together."""
    boxes = "".join(
        f'<label><input type="checkbox" checked data-agent="{order[agent]}">'
        f"{_swatch(order, agent)}<span>{escaped(agent)}</span></label>"
        for agent in agents
    )
    return (
        '<div class="controls legend only-js" role="group" aria-label="Agents shown"><fieldset>'
        f'{boxes}</fieldset><fieldset><button type="button" data-all="on">All</button>'
        '<button type="button" data-all="off">None</button></fieldset></div>'
    )


def _swatch(order: Mapping[str, int], agent: str) -> str:
    slot = slots(list(order))[agent]
    dash = " ".join(f"{2.4 * length:g}" for length in DASHES[slot % len(DASHES)]) or "none"
    return (
        '<svg class="swatch" viewBox="0 0 30 8" aria-hidden="true"><path d="M0 4H30" style="fill:'
        f'none;stroke:var(--c{slot % 7});stroke-width:2.4;stroke-dasharray:{dash}"/></svg>'
    )


def _chart(
    kind: str,
    number: int,
    label: str,
    static: str,
    caption: str,
    scale: str = "linear",
    show: str = "",
) -> str:
    """Return a figure: `static` SVG without JavaScript, else what `page.js` draws."""
    own = f"{kind}-{number}"
    controls = []
    if kind in ("regret", "resamples"):
        axes = {"linear": "linear", "log": "log-log"}
        controls.append(_choice(f"{own}-scale", "scale", "Axes", axes, scale))
    if show:
        curves = {"mean": "mean, 95% band", "median": "median, 10–90%", "runs": "single runs"}
        controls.append(_choice(f"{own}-show", "show", "Curves", curves, show))
    if controls:
        controls.append(
            '<fieldset aria-label="Zoom"><button type="button" data-do="in">Zoom in</button>'
            '<button type="button" data-do="out">Zoom out</button>'
            '<button type="button" data-do="reset" disabled>See all</button></fieldset>'
        )
    tools = f'<div class="controls only-js">{"".join(controls)}</div>' if controls else ""
    return (
        f'<figure class="chart" data-kind="{kind}" data-place="{number}">{tools}'
        f'<div class="canvas only-js" role="group" aria-label="{escaped(label)}"></div>'
        f'<div class="static pair">{static}</div><figcaption>{caption}</figcaption></figure>'
    )


def _choice(name: str, kind: str, label: str, options: Mapping[str, str], chosen: str) -> str:
    inputs = "".join(
        f'<label class="choice"><input type="radio" name="{name}" data-choice="{kind}" '
        f'value="{value}"{" checked" * (value == chosen)}><span>{text}</span></label>'
        for value, text in options.items()
    )
    return f'<fieldset role="radiogroup" aria-label="{label}">{inputs}</fieldset>'


def _table(rows: Sequence[Row]) -> str:
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in HEADINGS)
    body = "".join(
        f'<tr><th scope="row">{escaped(name)}</th>'
        + "".join(f"<td>{escaped(cell)}</td>" for cell in rest)
        + "</tr>"
        for name, *rest in map(cells, rows)
    )
    return (
        f'<div class="wide" tabindex="0"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _matrix(place: Place) -> str:
    """Return the paired comparisons as a matrix, the agent with the least mean regret first."""
    heading = "<h3>Who beats whom</h3>"
    if len(place.rows) == 1:
        return ""
    if not place.pairs or np.isnan([pair.p for pair in place.pairs]).all():
        reason = "of one run each" if place.pairs else "that have different runs"
        return f"<div>{heading}<p>Agents {reason} are not compared.</p></div>"
    found = {(pair.first, pair.second): pair for pair in place.pairs}
    agents = [row.agent for row in sorted(place.rows, key=lambda row: row.regret.value)]
    numbers = range(1, len(agents) + 1)
    heads = "".join(
        f'<th scope="col"><abbr title="{escaped(agent)}">{i}</abbr></th>'
        for i, agent in zip(numbers, agents, strict=True)
    )
    lines = []
    for i, agent in zip(numbers, agents, strict=True):
        cells_of = [_duel(found, agent, other) for other in agents]
        lines.append(f'<tr><th scope="row">{i} {escaped(agent)}</th>{"".join(cells_of)}</tr>')
    sure, dense = sum(pair.p <= SIGNIFICANT for pair in place.pairs), " dense" * (len(agents) > 8)
    return (
        f'<div>{heading}<div class="wide" tabindex="0"><table class="matrix{dense}">'
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        '<p class="note">Mean regret of the agent in the row less that in the column, run by run, '
        f"and how surely they differ. ▼ beats, ▲ is beaten: {sure} of {len(place.pairs)} pairs, "
        f"with p-values adjusted for their number by Holm’s method, at most {SIGNIFICANT:g}.</p>"
        "</div>"
    )


def _duel(found: Mapping[tuple[str, str], Comparison], agent: str, other: str) -> str:
    if agent == other:
        return "<td>·</td>"
    sign = 1 if (agent, other) in found else -1
    pair = found[(agent, other) if sign == 1 else (other, agent)]
    gap = pair.difference
    value, ends = sign * gap.value, sorted((sign * gap.low, sign * gap.high))
    sure = pair.p <= SIGNIFICANT
    less = value < 0
    word = ("beats" if less else "is beaten by") if sure else "cannot be told from"
    full = f"{agent} {word} {other}: {amounts(value, *ends)}"
    kind = f' class="{"good" if less else "bad"}"' if sure else ""
    mark = ("▼ " if less else "▲ ") if sure else ""
    return (
        f'<td{kind} title="{escaped(full)}, p = {pair.p:.2g}">{mark}'
        f"{amount(value, '+')}<small>{_p(pair.p)}</small></td>"
    )


def _p(p: float) -> str:
    if np.isnan(p):
        return "p unknown"
    return "p &lt; .001" if p < 0.001 else f"p = {p:.2g}".replace("0.", ".")


def _sweeps(
    own: Iterable[sweeps.Sweep], first: int, steps: int, looks: figures.Looks, legend: str
) -> str:
    lines = []
    for number, sweep in enumerate(own, start=first):
        with figures.style():
            figure, (ax,) = figures.panels(1)
            figures.regret_against(ax, sweep, steps, looks)
            static = figures.inline(figure, f"s{number}", f"final regret against {sweep.option}")
        spaced = " It is spaced by its horizon." if sweep.place(0.5) != 0.5 else ""
        spaced += " Level lines are agents without it." if sweep.levels else ""
        lines += [
            f"<h3>Regret against {escaped(sweep.option)}</h3>",
            legend,
            _chart(
                "sweep",
                number,
                f"Final regret against {sweep.option}",
                static,
                f"Mean final regret and its 95% interval against {escaped(sweep.option)}.{spaced}",
            ),
        ]
    return "\n".join(lines)


def _made(results: Results) -> str:
    typed = [
        entry["command"] for entry in results.commands if entry["command"].startswith("cpsrl ")
    ]
    note = "Made from Python; with the specification below as spec.toml, this does the same."
    from_python = "" if typed else f'<p class="note">{note}</p>'
    commands = "\n".join(typed or ["cpsrl run spec.toml"])
    versions = ", ".join(f"{name} {v}" for name, v in results.provenance.versions.items())
    machine = "; ".join(filter(None, [results.provenance.cpu, *results.machine]))
    return f"""<section id="made"><h2>How it was made</h2>
<h3>The command</h3>
{_copied("command", commands)}{from_python}
<h3>The specification</h3>
{_copied("specification", results.spec)}
<dl><dt>versions</dt><dd>{escaped(versions)}</dd><dt>machine</dt><dd>{escaped(machine)}</dd></dl>
<p class="note">{escaped(LEGEND)}</p></section>"""


def _copied(name: str, text: str) -> str:
    return (
        f'<div class="copied"><pre id="{name}" tabindex="0">{escaped(text)}</pre>'
        f'<button type="button" class="only-js" data-copy="{name}">Copy</button></div>'
    )
