"""Everything there is to see of a results directory: page, figures, table, the paper's claims."""

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from cpsrl.documents import Table, as_markdown, figures, pictures
from cpsrl.documents.pictures import FORMATS, Looks, panels, style
from cpsrl.environments.suite import random_gain
from cpsrl.experiments import Experiment, open_results
from cpsrl.experiments.files import write_file
from cpsrl.experiments.results import Results
from cpsrl.mdp import ChangingWorld, Tabular
from cpsrl.networks import ValueSampling
from cpsrl.networks.plasticity import plasticity
from cpsrl.paper import figures as paper
from cpsrl.reports import sweeps
from cpsrl.reports.page import html, unfinished
from cpsrl.reports.summary import HEADINGS, Row, cells, counted, markdown, summary
from cpsrl.seeding import Streams
from cpsrl.simulation import Runs
from cpsrl.simulation.optimum import gains_of

PAGE = "report.html"
OURS = re.compile(rf"(regret|final|gamma)(-\d\d+)?\.({'|'.join(FORMATS)})|report\.html")
"""What the figures of a report, and the page that has them, are called."""
PLASTICITY = (
    "The last hidden layer of the first run's networks, on the 512 observations that they met "
    "last: its units, how many directions carry 99% of it, and the share of units that are all but "
    "silent."
)
EVALUATED = 10_000
"""The random policy is evaluated in models of up to this many states."""


@dataclass(frozen=True)
class Report:
    """What was found, and the files it was written to."""

    experiment: Experiment
    rows: list[Row]
    findings: list[paper.Finding]
    paths: list[Path]
    notes: tuple[str, ...] = ()
    """From which step on other versions computed what."""

    def _repr_html_(self) -> str:
        found = "; ".join(map(str, (*self.notes, *self.findings)))
        files = ", ".join(map(str, self.paths))
        rows = [(row.environment, *cells(row)) for row in self.rows]
        note = f"{found}{'. ' if found else ''}Files: {files}"
        name = self.experiment.name
        return Table(("environment", *HEADINGS), rows, name, note, left=2)._repr_html_()


def report(
    directory: Path | str,
    out: Path | str | None = None,
    formats: Sequence[str] = FORMATS,
) -> Report:
    """Write the page, the figures and the summary of a results directory, by default below itself.

    Figures of an earlier report there, in other formats or of environments that are no more, are
    removed. Without `formats`, the summary alone is written.
    """
    results = open_results(directory)
    parts = results.parts()
    if not parts:
        raise ValueError(f"{directory}: no recorded step has been reached yet")
    runs = Runs.padded(parts)
    out, then = Path(out) if out is not None else results.directory / "report", results.provenance
    source = {
        "command": " && ".join(entry["command"] for entry in results.commands),
        "versions": ", ".join(f"{name} {version}" for name, version in then.versions.items()),
        "cpu": then.cpu,
    }
    planned, last = len(results.experiment.runs), int(results.recorded[-1])
    rows = [
        replace(row, unfinished=row.runs < planned or row.steps < last)
        for row in summary(runs, _losses(results.experiment, runs))
    ]
    if lacking := unfinished(results, rows):
        remedy = f"`cpsrl continue {directory}` finishes it"
        warnings.warn(f"{directory} is not finished: {lacking}; {remedy}", stacklevel=2)
    found, pairs = paper.findings(results.experiment, runs), runs.comparisons()
    used = networks(results)
    paths = []
    if formats:
        (out / PAGE).unlink(missing_ok=True)  # else one of earlier runs would stand among the new
        inline = {}
        with style():
            for name, file, figure in drawings(results.experiment, runs, rows):
                inline[name] = pictures.inline(figure) if name else ""
                paths += pictures.save(figure, out / file, source, formats) if file else []
        text = html(results, runs, rows, pairs, found, inline, used)
        write_file(out / PAGE, text.encode())
        paths.append(out / PAGE)
        _remove_older(out, paths)
    lines = [f"# {results.experiment.name}", "", as_markdown(results.experiment.description), ""]
    for note in runs.notes:
        lines += [f"Versions: {as_markdown(note)}.", ""]
    lines.append(markdown(rows, pairs))
    if used is not None:
        lines += ["## Networks", "", used.markdown(), "", used.note, ""]
    if found:
        lines += [
            "## The paper's claims",
            "",
            *(f"- {as_markdown(str(finding))}" for finding in found),
            "",
        ]
    lines += [f"{key}: {as_markdown(value)}  " for key, value in source.items()]
    write_file(out / "summary.md", ("\n".join(lines) + "\n").encode())
    return Report(results.experiment, rows, found, [*paths, out / "summary.md"], runs.notes)


def _remove_older(folder: Path, paths: Sequence[Path]) -> None:
    """Remove the figures of a report in `folder` that are not among `paths`, and nothing else."""
    for path in set(folder.iterdir()) - set(paths):
        if OURS.fullmatch(path.name) and b"cpsrl" in path.read_bytes():
            path.unlink()


def _losses(experiment: Experiment, runs: Runs) -> dict[str, dict[int, float]]:
    """Return what the random policy loses a step, by the environment's label and the run.

    Where it loses nothing or is not evaluated, the optimal gain above the lowest reward.
    """
    found: dict[str, dict[int, float]] = {}
    for place in experiment.all_environments:
        if place.called not in runs.environments:
            continue
        here = runs.select(environment=place.called)
        gains = dict(zip(here.seeds.tolist(), here.gain.tolist(), strict=True))
        once = _loss(experiment.problem(place), next(iter(gains.values()), 0.0))
        found[place.called] = {
            run: _loss(experiment.problem(place, run), gain) if place.per_run else once
            for run, gain in gains.items()
        }
    return found


def _loss(problem: Any, gain: float) -> float:
    lost = 0.0
    if isinstance(problem, Tabular) and problem.n_states <= EVALUATED:
        models, best = problem.models, [gain]
        lengths: tuple[int, ...] = (1,)
        if isinstance(problem, ChangingWorld):
            best, lengths = [float(gains_of(model).min()) for model in models], problem.lengths
        random = [random_gain(model) for model in models]
        lost = float(np.average(np.subtract(best, random), weights=lengths))
    return lost if lost > 1e-9 * abs(gain) else gain - float(problem.reward_range[0])


def networks(results: Results) -> Table | None:
    """Return what agents use of their networks where they stand; None where none has networks.

    It is left out where JAX is not installed, or a run's state cannot be read.
    """
    experiment, rows = results.experiment, []
    for group in results.groups if find_spec("jax") else ():
        run, spec = group.runs[0], experiment.agent(group.agent, group.environment)
        if not isinstance(spec, ValueSampling) or run != experiment.runs[0]:
            continue
        problem, found = experiment.problem(group.environment, run), None
        with suppress(ValueError):
            stored = group.read()
            if stored and stored.runs.state:
                live = spec.start(problem, Streams(experiment.seed, run))
                live.restore(stored.runs.state[0]["agent"])
                found = plasticity(live)
        if found is not None:
            said = (group.environment.called, group.agent.called, str(found.units))
            rows.append((*said, f"{found.rank:.1f}", f"{found.dormant:.0%}"))
    head = ("environment", "agent", "units", "rank", "dormant")
    return Table(head, rows, note=PLASTICITY, left=2) if rows else None


def drawings(
    experiment: Experiment, runs: Runs, rows: Sequence[Row]
) -> Iterator[tuple[str, str, Figure]]:
    """Give every figure that fits the experiment: its name on the page, that of its file, itself.

    A figure without a name is not on the page, one without a file there alone.
    """
    looks = figures.look([entry.called for entry in experiment.all_agents])
    swept, gammas, steps = 0, dict[str, sweeps.Sweep](), int(runs.times[-1])
    for place, name in enumerate(runs.environments):
        here, suffix = runs.select(environment=name), ""
        if len(runs.environments) > 1:
            suffix = f"-{place + 1:02d}"
        yield f"regret-{place}", f"regret{suffix}", _curves(here, looks, "regret")
        n = len(here.agents)
        figure, (ax,) = panels(1, width=6.4, height=1.2 + 0.42 * n)
        figures.final_regrets(ax, here, looks)
        yield f"final-{place}", f"final{suffix}", _titled(figure, name)
        if here.resamples[:, -1].any():
            yield f"resamples-{place}", "", _curves(here, looks, "resamples")
        for sweep in sweeps.of_agents(
            experiment.all_agents, [row for row in rows if row.environment == name]
        ):
            yield f"sweep-{swept}", "", _swept([(name, sweep)], steps, looks)
            swept += 1
            if sweep.option == "gamma" and len(sweep.values) > 2:
                gammas[name] = sweep
    for number, sweep in enumerate(
        sweeps.of_environments(experiment.all_environments, rows), swept
    ):
        yield f"sweep-{number}", "", _swept([("", sweep)], steps, looks)
    if gammas:
        yield "", "gamma", _swept(list(gammas.items()), steps, looks)


def _curves(here: Runs, looks: Looks, of: Literal["regret", "resamples"]) -> Figure:
    n = len(here.agents)
    figure, (first, logarithmic) = panels(2, height=max(3.2, 1.3 + 0.19 * n))
    figures.regret_curves(first, here, looks=looks, of=of)
    figures.regret_curves(logarithmic, here, logarithmic=True, looks=looks, of=of)
    first.set_title(f"mean of {counted(Counter(here.agent).values())} runs, 95% bands")
    logarithmic.set_title("logarithmic axes")
    return _titled(figure, here.environments[0])


def _swept(found: Sequence[tuple[str, sweeps.Sweep]], steps: int, looks: Looks) -> Figure:
    figure, axes = panels(len(found), *((3.7, 3.0, 2) if len(found) > 1 else ()))
    for ax, (name, sweep) in zip(axes, found, strict=True):
        figures.regret_against(ax, sweep, steps, looks)
        ax.set_title(name)
    return figure


def _titled(figure: Figure, name: str) -> Figure:
    figure.suptitle(name, x=0.01, horizontalalignment="left")
    return figure
