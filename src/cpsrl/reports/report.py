"""Everything there is to see of a results directory: figures, the table, and the paper's claims."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpsrl.experiments import Experiment, open_results
from cpsrl.reports import figures, paper
from cpsrl.reports.summary import Row, comparisons, counted, markdown, summary
from cpsrl.simulation import Runs


@dataclass(frozen=True)
class Report:
    """What was found, and the files it was written to."""

    experiment: Experiment
    rows: list[Row]
    findings: list[paper.Finding]
    paths: list[Path]


def report(
    directory: Path | str,
    out: Path | str | None = None,
    formats: Sequence[str] = figures.FORMATS,
) -> Report:
    """Draw the figures of a results directory and write its summary, by default below itself.

    Without `formats`, the summary alone is written.
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
        rows = summary(runs)
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from None
    found = paper.findings(results.experiment, runs)
    paths = draw(results.experiment, runs, out, source, formats) if formats else []
    text = markdown(rows, comparisons(runs))
    lines = [f"# {results.experiment.name}", "", results.experiment.description, "", text]
    if found:
        lines += ["## The paper's claims", "", *(f"- {finding}" for finding in found), ""]
    lines += [f"{key}: {value}  " for key, value in source.items()]
    table = out / "summary.md"
    out.mkdir(parents=True, exist_ok=True)
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Report(results.experiment, rows, found, [*paths, table])


def draw(
    experiment: Experiment, runs: Runs, out: Path, source: Mapping[str, str], formats: Sequence[str]
) -> list[Path]:
    """Draw every figure that fits the experiment, made by `source`; return the paths."""
    paths = []
    everywhere = [runs.select(environment=environment) for environment in runs.environments]
    with figures.style():
        for number, here in enumerate(everywhere, start=1):
            suffix, n = f"-{number:02d}" if len(everywhere) > 1 else "", len(here.agents)
            curves, (linear, logarithmic) = figures.panels(2, height=max(3.6, 1.3 + 0.19 * n))
            figures.regret_curves(linear, here)
            figures.regret_curves(logarithmic, here, logarithmic=True)
            linear.set_title(f"mean of {counted(Counter(here.agent).values())} runs, 95% bands")
            logarithmic.set_title("logarithmic axes")
            final, (ax,) = figures.panels(1, width=6.4, height=1.2 + 0.42 * n)
            figures.final_regrets(ax, here)
            for name, figure in (("regret", curves), ("final", final)):
                figure.suptitle(here.environments[0], x=0.01, horizontalalignment="left")
                paths += figures.save(figure, out / f"{name}{suffix}", source, formats)
        gammas = {
            entry.called: float(entry.options["gamma"])
            for entry in experiment.all_agents
            if isinstance(entry.options.get("gamma"), float) and entry.called in runs.agents
        }
        if len(set(gammas.values())) > 2:
            shown = [here for here in everywhere if not gammas.keys().isdisjoint(here.agents)]
            figure, axes = figures.panels(len(shown), width=4.4)
            for ax, here in zip(axes, shown, strict=True):
                figures.regret_against_gamma(ax, here, gammas)
                ax.set_title(here.environments[0])
            paths += figures.save(figure, out / "gamma", source, formats)
    return paths
