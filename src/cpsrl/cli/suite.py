"""`cpsrl suite`: agents on a named set of continuing problems."""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from cpsrl.cli.experiments import DEFAULT, OptionalPath, Options, command_line
from cpsrl.cli.output import facts as facts_table
from cpsrl.cli.output import fits, show
from cpsrl.experiments import open_results, run_experiment, shown_progress
from cpsrl.experiments.files import write_file
from cpsrl.experiments.suite import SEEDS, STEPS
from cpsrl.experiments.suite import suite as experiment_of


def suite(
    agents: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = (),
    facts: bool = False,
    out: OptionalPath = None,
    seeds: Annotated[int, arg(metavar="N")] = SEEDS,
    steps: Annotated[int, arg(metavar="N")] = STEPS,
    execution: Options = DEFAULT,
) -> None:
    """Run agents on the continuing suite and compare them, or list what is certain about it.

    For example, `cpsrl suite`, `cpsrl suite --agents tsde ucrl2b`, or `cpsrl suite --facts`. The
    results are an ordinary directory: `cpsrl continue` and `cpsrl report` take it, and the same
    command again does only what is missing.

    Args:
        agents: registered agents, as `cpsrl list agents` names them; a chosen few by default.
        facts: print the certified numbers of every problem, as Markdown, and run nothing.
        out: where results go; results/suite-VERSION by default.
        seeds: number of runs.
        steps: steps of every run.
        execution: where and how.
    """
    from cpsrl.reports.suite import LEGEND, fact_table, markdown, scores, table

    if facts:
        print(markdown(fact_table()), end="")
        return
    experiment = experiment_of(agents, steps, seeds)
    directory = out or Path("results") / experiment.name
    run_experiment(experiment, directory, execution, shown_progress(), command_line())
    results = open_results(directory, experiment)
    found, overall = scores(results.experiment, results.load(states=False))
    cells = table(found, overall)
    _show(cells)
    for row in overall:
        show(f"{row.agent} fails on: {', '.join(row.failures) or 'none'}")
    show(f"\n{LEGEND}")
    path = directory / "report" / "suite.md"
    write_file(path, f"{markdown(cells)}\n{LEGEND}\n".encode())
    show(f"\nthis table is in {path}; `cpsrl report {directory}` draws the curves")


def _show(cells: list[list[str]]) -> None:
    """Print the table, or where a terminal is too narrow for it, one table for every problem."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, heading in enumerate(cells[0]):
        shown.add_column(heading, justify="right" if place else "left", no_wrap=True)
    for line in cells[1:]:
        shown.add_row(*map(Text, line))
    if fits(shown):
        show(shown)
        return
    for line in cells[1:]:
        show(f"\n{line[0]}", facts_table(dict(zip(cells[0][1:], line[1:], strict=True))))
