"""Everything there is to see of a results directory: figures, the table, and the paper's claims."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cpsrl.experiments import Experiment, open_results
from cpsrl.experiments.results import Results
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
    out = Path(out) if out is not None else results.directory / "report"
    try:
        rows = summary(runs)
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from None
    found = paper.findings(results.experiment, runs)
    paths = draw(results, runs, out, formats) if formats else []
    text = markdown(rows, comparisons(runs))
    lines = [f"# {results.experiment.name}", "", results.experiment.description, "", text]
    if found:
        lines += ["## The paper's claims", "", *(f"- {finding}" for finding in found), ""]
    lines += [f"{key}: {value}  " for key, value in made_by(results).items()]
    table = out / "summary.md"
    out.mkdir(parents=True, exist_ok=True)
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Report(results.experiment, rows, found, [*paths, table])


def draw(results: Results, runs: Runs, out: Path, formats: Sequence[str]) -> list[Path]:
    """Draw every figure that fits the experiment; return the paths."""
    source = made_by(results)
    paths = []
    with figures.style():
        for number, environment in enumerate(runs.environments, start=1):
            here = runs.select(environment=environment)
            suffix = f"-{number:02d}" if len(runs.environments) > 1 else ""
            figure, (linear, logarithmic) = figures.panels(
                2, height=max(3.6, 1.3 + 0.19 * len(here.agents))
            )
            figures.regret_curves(linear, here)
            figures.regret_curves(logarithmic, here, logarithmic=True)
            figure.suptitle(environment, x=0.01, horizontalalignment="left")
            runs_each = counted(Counter(here.agent).values())
            linear.set_title(f"mean of {runs_each} runs, 95% bands")
            logarithmic.set_title("logarithmic axes")
            paths += figures.save(figure, out / f"regret{suffix}", source, formats)
            figure, (ax,) = figures.panels(1, width=6.4, height=1.2 + 0.42 * len(here.agents))
            figures.final_regrets(ax, here)
            figure.suptitle(environment, x=0.01, horizontalalignment="left")
            paths += figures.save(figure, out / f"final{suffix}", source, formats)
        gammas = {
            entry.called: float(entry.options["gamma"])
            for entry in results.experiment.all_agents
            if isinstance(entry.options.get("gamma"), float) and entry.called in runs.agents
        }
        if len(set(gammas.values())) > 2:
            everywhere = [runs.select(environment=environment) for environment in runs.environments]
            shown = [here for here in everywhere if not gammas.keys().isdisjoint(here.agents)]
            figure, axes = figures.panels(len(shown), width=4.4)
            for ax, here in zip(axes, shown, strict=True):
                figures.regret_against_gamma(ax, here, gammas)
                ax.set_title(here.environments[0])
            paths += figures.save(figure, out / "gamma", source, formats)
    return paths


def made_by(results: Results) -> dict[str, str]:
    """Return the command and the versions that made the results, for figures and summaries."""
    then = results.provenance
    versions = ", ".join(f"{name} {version}" for name, version in then.versions.items())
    commands = " && ".join(entry["command"] for entry in results.commands)
    return {"command": commands, "versions": versions, "cpu": then.cpu}
