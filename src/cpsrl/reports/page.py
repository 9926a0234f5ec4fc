"""The page of an experiment: `report.html`, one file to be opened from disk.

All numbers are those of `summary`, `statistics` and `sweeps`; the page arranges them. `page.js`
draws curves from the data inside, to be pointed at, switched, zoomed; without JavaScript there are
the pictures of the report's figures. Curves are thinned to what a screen can show.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpsrl import statistics
from cpsrl.documents import DASHES, Cell, Table, figures, rounded, slots
from cpsrl.documents import page as whole_page
from cpsrl.experiments.results import Results
from cpsrl.paper.figures import Finding
from cpsrl.reports import sweeps
from cpsrl.reports.summary import (
    LEGEND,
    SIGNIFICANT,
    Row,
    amount,
    amounts,
    caution,
    table,
    title,
)
from cpsrl.simulation import Runs
from cpsrl.statistics import Comparison
from cpsrl.support.checks import count
from cpsrl.support.types import Ints

POINTS = 200
"""How many recorded steps of a curve are on the page, half of them spread evenly in log t ..."""
RUN_VALUES = 60_000
"""... and how many values of single runs altogether, but at least 25 steps of a run."""
FEW = 4
"""Of this many runs or fewer, the runs themselves are shown first: their bands say little."""
DENSE = 8
"""A matrix of more agents is in small print."""
WORDS = {True: ("yes", "HELD"), False: ("no", "DID NOT HOLD"), None: ("", "UNDECIDED")}


def html(
    results: Results,
    runs: Runs,
    rows: Sequence[Row],
    pairs: Mapping[str, Sequence[Comparison]],
    findings: Sequence[Finding],
    pictures: Mapping[str, str],
    networks: Table | None = None,
) -> str:
    """Return the page of an experiment; `pictures` are its figures by `report.pictured`.

    `networks` is what agents use of theirs.
    """
    experiment = results.experiment
    labels = [entry.called for entry in experiment.all_agents]
    order = {label: i for i, label in enumerate(labels)}
    drawn, places, curves = list[sweeps.Sweep](), [], []
    for number, name in enumerate(runs.environments):
        own, compared = [row for row in rows if row.environment == name], pairs.get(name, ())
        varied = sweeps.of_agents(experiment.all_agents, own)
        curves.append(_data(runs.select(environment=name), order, len(runs.seeds)))
        place = {"number": number, "name": name, "title": title(own), "rows": own}
        place |= {"words": in_words(own, compared), "table": table(own), "pairs": compared}
        place |= {"matrix": matrix(own, compared), "scale": curves[-1]["scale"]}
        place |= {"show": "mean" if max(row.runs for row in own) > FEW else "runs"}
        places.append(place | {"sweeps": list(enumerate(varied, len(drawn)))})
        drawn += varied
    across = sweeps.of_environments(experiment.all_environments, rows)
    return whole_page(
        "reports/page.html",
        f"{experiment.name}: report",
        styles=("documents/chart.css", "reports/page.css"),
        scripts=("documents/chart.js", "reports/page.js"),
        data={
            "agents": [[label, slot] for label, slot in slots(labels).items()],
            "dashes": [list(dash) for dash in DASHES],
            "places": curves,
            "sweeps": [_sweep_data(sweep, order) for sweep in (*drawn, *across)],
        },
        experiment=experiment,
        facts=_facts(places, labels),
        unfinished=unfinished(results, rows),
        notes=runs.notes,
        places=places,
        warning=caution(rows),
        claims=[(*WORDS[finding.held], finding) for finding in findings],
        overview=overview(places, labels) if len(places) > 1 else None,
        across=list(enumerate(across, len(drawn))),
        pictures=pictures,
        networks=networks,
        significant=f"{SIGNIFICANT:g}",
        made=_made(results),
        legend_text=LEGEND,
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


def _data(runs: Runs, order: Mapping[str, int], rows: int) -> dict[str, Any]:
    """Return the curves of one environment as JSON has them."""
    runs = runs.at(runs.times[thinned(runs.times, POINTS)])
    at = runs.times[thinned(runs.times, int(np.clip(RUN_VALUES // rows, 25, 120)))]
    curves, finals, drawn = [], {}, []

    def padded(values: Any, times: Ints) -> Any:
        """Return values that end where the agent stopped as long as the others'."""
        missing = len(times) - np.shape(values)[-1]
        width = [(0, 0)] * (np.ndim(values) - 1) + [(0, missing)]
        return rounded(np.pad(np.asarray(values, np.float64), width, constant_values=np.nan))

    for agent in runs.agents:
        one = runs.select(agent=agent)
        mean, middle = statistics.mean_band(one.regret), statistics.quantile_band(one.regret)
        finals[agent] = one.regret[:, -1]
        curves.append(
            {
                "mean": padded([mean.value, mean.low, mean.high], runs.times),
                "median": padded([middle.value, middle.low, middle.high], runs.times),
                "quartiles": rounded(np.quantile(finals[agent], [0.25, 0.5, 0.75])),
                "finals": rounded(finals[agent]),
                "seeds": one.seeds.tolist(),
                "runs": padded(one.at(at).regret, at),
            }
        )
        drawn.append(padded(one.resamples.mean(axis=0), runs.times))
    return {
        "agents": [order[agent] for agent in runs.agents],
        "times": runs.times.tolist(),
        "at": at.tolist(),
        "bounds": [float(np.nanmin(runs.regret)), float(np.nanmax(runs.regret))],
        "knee": figures.knee(finals.values()),
        "scale": "symlog" if figures.bends(finals.values()) else "linear",
        "regret": curves,
        "resamples": drawn,
    }


def _sweep_data(sweep: sweeps.Sweep, order: Mapping[str, int]) -> dict[str, Any]:
    places = [sweep.place(value) for value in sweep.values]
    lines: list[dict[str, Any]] = []
    for name, points in sweep.lines.items():
        ends = {k: rounded([getattr(mean, n) for *_, mean in points]) for k, n in BOUNDS.items()}
        x, who = [sweep.place(value) for value, *_ in points], [order.get(w) for _, w, _ in points]
        lines.append({"name": name, "agent": order.get(name), "who": who, "x": x} | ends)
    for name, level in sweep.levels.items():
        line = {"name": name, "agent": order[name], "who": [], "level": True, "x": places}
        lines.append(line | {"y": rounded([level.value] * len(places))})
    return {
        "option": sweep.option,
        "log": sweep.logarithmic,
        "marks": [[sweep.place(value), f"{value:g}"] for value in sweep.values],
        "lines": lines,
    }


BOUNDS = {"y": "value", "low": "low", "high": "high"}


def _facts(places: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str:
    where = f"{len(places)} environments" if len(places) > 1 else places[0]["name"]
    counts = dict.fromkeys(place["title"] for place in places)
    return f"{count(len(labels), 'agent')} on {where}: {', '.join(counts)}."


def unfinished(results: Results, rows: Sequence[Row]) -> str:
    """Return in words what is missing, empty where nothing is."""
    experiment, here = results.experiment, {(row.agent, row.environment): row for row in rows}
    places, agents = experiment.all_environments, experiment.all_agents
    pairs = [(agent.called, place.called) for place in places for agent in agents]
    lacking = [pair for pair in pairs if pair not in here or here[pair].unfinished]
    if not lacking:
        return ""
    named = []
    for agent, place in lacking:
        row = here.get((agent, place))
        done = f"{count(row.runs, 'run')} to step {row.steps:,}" if row else "none"
        named.append(f"{agent} on {place}: {done}")
    wanted = f"{count(len(experiment.runs), 'run')} to step {results.steps:,}"
    return (
        f"{len(lacking)} of {len(pairs)} curves are unfinished ({wanted} each): {_listed(named, 6)}"
    )


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
    if own:
        if not alike:
            apart = "can be told apart from every other agent"
        elif len(alike) == len(own):
            apart = "can't be told apart from any other agent"
        else:
            apart = f"can be told apart from {len(own) - len(alike)} of {len(own)} others"
            apart += f", but not from {_listed(alike)}"
        text += f" It {apart}."
    if linear := [row.agent for row in rows if row.linear > 0.5]:
        still = "all agents" if len(linear) == len(rows) > 1 else _listed(linear)
        text += f" In most runs of {still} regret still grows linearly."
    return text


def _listed(names: Sequence[str], most: int = 4) -> str:
    comma = "; " if any("," in name for name in names) else ", "
    if len(names) > most:
        return f"{comma.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join(filter(None, [comma.join(names[:-1]), names[-1]]))


def overview(places: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> Table:
    """Return mean final regret by environment and agent, the more numerous of them as rows."""
    regret = {place["number"]: {r.agent: r.regret.value for r in place["rows"]} for place in places}
    cells: list[tuple[Any, ...]] = [("", *labels)]
    for place in places:
        own = regret[place["number"]]
        best = min(own.values())
        shown = (
            Cell(amount(own[a]), kind="best" * (own[a] == best)) if a in own else "" for a in labels
        )
        cells.append((Cell(place["name"], link=f"#e{place['number']}"), *shown))
    if len(labels) > len(places):
        cells = list(zip(*cells, strict=True))
    return Table(cells[0], cells[1:], kind="overview")


def matrix(rows: Sequence[Row], pairs: Sequence[Comparison]) -> Table | None:
    """Return the paired comparisons as a matrix, the agent with the least mean regret first.

    Agents that did not come as far as the others are not compared.
    """
    if np.isnan([pair.p for pair in pairs]).all():
        return None
    found = {(pair.first, pair.second): pair for pair in pairs}
    compared, ranked = {*itertools.chain(*found)}, sorted(rows, key=lambda row: row.regret.value)
    agents = [row.agent for row in ranked if row.agent in compared]
    head = [Cell(str(i), title=agent) for i, agent in enumerate(agents, start=1)]
    body = [
        [Cell(f"{i} {agent}"), *(_duel(found, agent, other) for other in agents)]
        for i, agent in enumerate(agents, start=1)
    ]
    return Table(("", *head), body, kind=f"matrix{' dense' * (len(agents) > DENSE)}")


def _duel(found: Mapping[tuple[str, str], Comparison], agent: str, other: str) -> Cell:
    if agent == other:
        return Cell("·")
    sign = 1 if (agent, other) in found else -1
    pair = found[(agent, other) if sign == 1 else (other, agent)]
    gap, p = pair.difference, pair.p_words.replace("<=", "≤")
    value, ends = sign * gap.value, sorted((sign * gap.low, sign * gap.high))
    mark, word, kind = "", "cannot be told from", ""
    if pair.p <= SIGNIFICANT:
        better = ("▼ ", "beats", "good")
        mark, word, kind = better if value < 0 else ("▲ ", "is beaten by", "bad")
    full = f"{agent} {word} {other}: {amounts(value, *ends)}, run by run, {p}"
    return Cell(f"{mark}{amount(value, '+')}", p, full, kind)


def _made(results: Results) -> dict[str, Any]:
    typed = [
        entry["command"] for entry in results.commands if entry["command"].startswith("cpsrl ")
    ]
    versions = (f"{name} {version}" for name, version in results.provenance.versions.items())
    return {
        "typed": bool(typed),
        "command": "\n".join(typed or ["cpsrl run spec.toml"]),
        "specification": results.spec,
        "versions": ", ".join(versions),
        "machine": "; ".join(filter(None, [results.provenance.cpu, *results.machine])),
    }
