"""The commands that run experiments and show them."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from cpsrl.agents import AGENTS
from cpsrl.cli.model import entry_of
from cpsrl.cli.output import show as write
from cpsrl.experiments import (
    Entry,
    Execution,
    Experiment,
    continue_experiment,
    find_experiment,
    run_experiment,
    shown_progress,
)
from cpsrl.experiments.entry import make_agent
from cpsrl.experiments.results import Results
from cpsrl.experiments.values import slug
from cpsrl.mdp import TabularMDP

if TYPE_CHECKING:
    from cpsrl.reports import Report

Directory = Annotated[Positional[Path], arg(metavar="DIR")]
OptionalPath = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")]
OptionalInt = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]


@dataclass(frozen=True)
class _Execution(Execution):
    """An `Execution` whose options say themselves what they are by default."""

    jobs: OptionalInt = None
    address: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None


Options = Annotated[_Execution, arg(name="")]
DEFAULT = _Execution()
RIVALS = ("adaptive-psrl", "continuing-psrl", "tsde", "ds-psrl", "ucrl2", "random")


def run(
    spec: Annotated[Positional[str], arg(metavar="SPEC")],
    out: OptionalPath = None,
    seeds: OptionalInt = None,
    steps: OptionalInt = None,
    anew: bool = False,
    execution: Options = DEFAULT,
) -> None:
    """Run an experiment, or what is missing of it.

    For example, `cpsrl run experiments/figure2-left.toml --seeds 10`. Interrupted or killed, the
    same command again does only what is missing; with more seeds, it adds those runs.

    Args:
        spec: a TOML file, or the name of an experiment that `cpsrl list experiments` shows.
        out: where results go; results/NAME by default.
        seeds: number of runs, in place of the specification's.
        steps: steps of every run, in place of the specification's.
        anew: move what is there to NAME.1 and begin anew: after a short trial, say.
        execution: where and how.
    """
    given = {"seeds": seeds, "steps": steps}
    experiment = find_experiment(spec, **{key: n for key, n in given.items() if n is not None})
    directory = perform(experiment, out, execution, anew).directory
    write(f"results are in {directory}; `cpsrl report {directory}` draws them")


def continue_(
    directory: Directory,
    steps: OptionalInt = None,
    seeds: OptionalInt = None,
    execution: Options = DEFAULT,
) -> None:
    """Carry every run of a results directory on from where it stopped, or add runs.

    For example, `cpsrl continue results/figure2-left --steps 100000` adds 100,000 steps to every
    run, and `--seeds 100` further runs until there are 100, as long as the others; nothing is
    computed again. Without either, what was interrupted is finished.

    Args:
        directory: a results directory.
        steps: how many steps to add to every run.
        seeds: how many runs there are to be.
        execution: where and how.
    """
    results = continue_experiment(
        directory, steps, execution, shown_progress(), command_line(), seeds
    )
    write(f"every run in {directory} stands at step {results.steps:,}")


def compare(
    mdp: TabularMDP,
    agents: tuple[str, ...] = RIVALS,
    steps: int = 20_000,
    seeds: int = 10,
    out: OptionalPath = None,
    anew: bool = False,
    execution: Options = DEFAULT,
    options: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Run some agents on a model and report which does best, without a TOML file.

    For example, `cpsrl compare machine.csv`, `cpsrl compare queue --gamma .9`, or `cpsrl compare
    queue --agents tsde "continuing-psrl gamma=.9"`. What it makes is a results directory: with
    further agents or more seeds the same command computes what is missing, and `cpsrl continue`
    adds steps. Options of the agents are options of the command, for all agents that have them.
    Agents of the default that are not for such a model are left out.

    Args:
        mdp: the model.
        agents: names that `cpsrl list agents` shows, each with its own options after it, if any.
        steps: steps of every run.
        seeds: number of runs of every agent.
        out: where results go; results/compare-MODEL by default.
        anew: move what is there to NAME.1 and begin anew.
        execution: where and how.
        options: of the agents, below "agents".
    """
    from cpsrl.reports import report as write_report

    name = f"compare-{slug(mdp.name) or 'model'}".replace("=", "-")
    chosen = fitting(RIVALS, mdp) if agents == RIVALS else agents
    entries = [_with_options(words, (options or {}).get("agents", {})) for words in chosen]
    experiment = Experiment(name, (mdp,), tuple(entries), steps, seeds)
    results = perform(experiment, out, execution, anew)
    show(write_report(results.directory, formats=("png",)))


def _with_options(words: str, options: dict[str, Any]) -> Entry:
    """Return an agent of the command line, with those of `options` that it has and does not set."""
    entry = entry_of(words)
    known = AGENTS.options(entry.name) if entry.name in AGENTS else {}
    own = {key: value for key, value in options.items() if key in known}
    return replace(entry, options=own | dict(entry.options))


def fitting(names: tuple[str, ...], mdp: TabularMDP) -> tuple[str, ...]:
    """Return the names of the agents that are for such a model, and say why others are not."""
    kept = []
    for name in names:
        try:
            make_agent(Entry(name)).check(mdp)
        except ValueError as error:
            print(f"cpsrl: {name} is left out: {error}", file=sys.stderr)
        else:
            kept.append(name)
    return tuple(kept)


def report(
    directory: Directory,
    out: OptionalPath = None,
    formats: tuple[Literal["png", "pdf", "svg"], ...] = ("png", "pdf", "svg"),
) -> None:
    """Make the page and the figures of a results directory and print its summary.

    For example, `cpsrl report results/figure2-left --formats png`. The page, report.html, is one
    file that opens from disk.

    Args:
        directory: a results directory.
        out: where figures and summary go; DIR/report by default.
        formats: of the figures; with none, there is no page either: only the summary is written.
    """
    from cpsrl.reports import report as write_report

    show(write_report(directory, out, formats))


def reproduce(
    which: Annotated[
        Positional[Literal["left", "right", "all"]], arg(metavar="left|right|all")
    ] = "all",
    quick: bool = False,
    out: Annotated[Path, arg(metavar="DIR")] = Path("results"),
    jobs: OptionalInt = None,
) -> None:
    """Run the experiments of the paper's figure 2, draw it, and say which claims held.

    For example, `cpsrl reproduce left`.

    Args:
        which: the left figure (tables), the right one (networks), or both.
        quick: fewer runs and steps where the full figure takes minutes.
        out: where results go, one directory for every figure.
        jobs: how many tasks at once; as many as there are cores by default.
    """
    from cpsrl.reports import report as write_report

    for side in ("left", "right") if which == "all" else (which,):
        experiment = find_experiment(f"figure2-{side}")
        directory = out / f"{experiment.name}{'-quick' if quick else ''}"
        if quick:
            experiment = replace(experiment, **QUICK[side])
        results = perform(experiment, directory, Execution(jobs=jobs))
        show(write_report(results.directory))


QUICK: dict[str, dict[str, Any]] = {"left": {}, "right": {"seeds": 10, "steps": 10_000}}


def show(report: "Report") -> None:
    """Print the table of a report, what it says about the paper, and where its files are."""
    from rich.text import Text

    from cpsrl.reports.summary import LEGEND, caution, table, title

    for environment in dict.fromkeys(row.environment for row in report.rows):
        here = [row for row in report.rows if row.environment == environment]
        write(f"{environment}: {title(here)}\n")
        write(table(here), "")
    if warning := caution(report.rows):
        write(warning)
    for note in report.notes:
        write(f"Versions: {note}.")
    write(Text(LEGEND, style="dim"))
    for finding in report.findings:
        write(f"\n{finding}")
    files = "1 file" if len(report.paths) == 1 else f"{len(report.paths)} files"
    write(f"\n{files} in {report.paths[0].parent}")
    for path in report.paths:
        if path.suffix == ".html":
            write(f"open {path} in a browser")


def perform(
    experiment: Experiment, out: Path | None, execution: Execution, anew: bool = False
) -> Results:
    """Run an experiment in `out`, by default in results/NAME."""
    directory = out or Path("results") / experiment.name
    return run_experiment(experiment, directory, execution, shown_progress(), command_line(), anew)


def command_line() -> str:
    """Return the command line as the user typed it."""
    return shlex.join(["cpsrl", *sys.argv[1:]])
