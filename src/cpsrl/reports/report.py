"""Everything there is to see of a results directory: page, figures, table, the paper's claims."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpsrl.experiments import Experiment, open_results
from cpsrl.experiments.files import write_file
from cpsrl.pages.notebook import table
from cpsrl.reports import figures, paper, sweeps
from cpsrl.reports.page import html
from cpsrl.reports.summary import HEADINGS, Row, cells, counted, markdown, summary
from cpsrl.simulation import Runs

PAGE = "report.html"


@dataclass(frozen=True)
class Report:
    """What was found, and the files it was written to."""

    experiment: Experiment
    rows: list[Row]
    findings: list[paper.Finding]
    paths: list[Path]

    def _repr_html_(self) -> str:
        found = "; ".join(map(str, self.findings))
        files = ", ".join(map(str, self.paths))
        rows = [(row.environment, *cells(row)) for row in self.rows]
        note = f"{found}{'. ' if found else ''}Files: {files}"
        return table(self.experiment.name, ("environment", *HEADINGS), rows, note)


def report(
    directory: Path | str,
    out: Path | str | None = None,
    formats: Sequence[str] = figures.FORMATS,
) -> Report:
    """Write the page, the figures and the summary of a results directory, by default below itself.

    Figures of an earlier report there, in other formats or of environments that are no more, are
    removed. Without `formats`, the summary alone is written.
    """
    results = open_results(directory)
    runs = results.load(states=False)
    out, then = Path(out) if out is not None else results.directory / "report", results.provenance
    source = {
        "command": " && ".join(entry["command"] for entry in results.commands),
        "versions": ", ".join(f"{name} {version}" for name, version in then.versions.items()),
        "cpu": then.cpu,
    }
    try:
        rows = summary(runs, _lowest(results.experiment))
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from None
    found, pairs = paper.findings(results.experiment, runs), runs.comparisons()
    paths = []
    if formats:
        text = html(results, runs, rows, pairs, found)
        (out / PAGE).unlink(missing_ok=True)  # else one of earlier runs would stand among the new
        paths = draw(results.experiment, runs, rows, out, source, formats)
        write_file(out / PAGE, text.encode())
        paths.append(out / PAGE)
        figures.remove_older(out, paths)
    lines = [f"# {results.experiment.name}", "", results.experiment.description, ""]
    lines.append(markdown(rows, pairs))
    if found:
        lines += ["## The paper's claims", "", *(f"- {finding}" for finding in found), ""]
    lines += [f"{key}: {value}  " for key, value in source.items()]
    write_file(out / "summary.md", ("\n".join(lines) + "\n").encode())
    return Report(results.experiment, rows, found, [*paths, out / "summary.md"])


def _lowest(experiment: Experiment) -> dict[str, float]:
    """Return the low end of the range of rewards of every environment, by its label."""
    places = experiment.all_environments
    return {place.called: experiment.problem(place).reward_range[0] for place in places}


def draw(
    experiment: Experiment,
    runs: Runs,
    rows: Sequence[Row],
    out: Path,
    source: Mapping[str, str],
    formats: Sequence[str],
) -> list[Path]:
    """Draw every figure that fits the experiment, made by `source`; return the paths."""
    paths = []
    everywhere = [runs.select(environment=environment) for environment in runs.environments]
    looks = figures.look([entry.called for entry in experiment.all_agents])
    with figures.style():
        for number, here in enumerate(everywhere, start=1):
            suffix, n = f"-{number:02d}" if len(everywhere) > 1 else "", len(here.agents)
            curves, (linear, logarithmic) = figures.panels(2, height=max(3.6, 1.3 + 0.19 * n))
            figures.regret_curves(linear, here, looks=looks)
            figures.regret_curves(logarithmic, here, logarithmic=True, looks=looks)
            linear.set_title(f"mean of {counted(Counter(here.agent).values())} runs, 95% bands")
            logarithmic.set_title("logarithmic axes")
            final, (ax,) = figures.panels(1, width=6.4, height=1.2 + 0.42 * n)
            figures.final_regrets(ax, here, looks)
            for name, figure in (("regret", curves), ("final", final)):
                figure.suptitle(here.environments[0], x=0.01, horizontalalignment="left")
                paths += figures.save(figure, out / f"{name}{suffix}", source, formats)
        gammas = {}
        for place in runs.environments:
            own = [row for row in rows if row.environment == place]
            for sweep in sweeps.of_agents(experiment.all_agents, own):
                if sweep.option == "gamma" and len(sweep.values) > 2:
                    gammas[place] = sweep
        if gammas:
            figure, axes = figures.panels(len(gammas), width=4.4)
            for ax, (place, sweep) in zip(axes, gammas.items(), strict=True):
                figures.regret_against(ax, sweep, int(runs.times[-1]), looks)
                ax.set_title(place)
            paths += figures.save(figure, out / "gamma", source, formats)
    return paths
