"""`cpsrl suite`: agents on a named set of continuing problems."""

from typing import Annotated

from tyro.conf import arg

from cpsrl.cli.experiments import DEFAULT, OptionalPath, Options, perform
from cpsrl.cli.model import entry_of
from cpsrl.cli.output import show
from cpsrl.environments.suite import SUITES, VERSION
from cpsrl.experiments.files import write_file
from cpsrl.experiments.suite import SEEDS, STEPS
from cpsrl.experiments.suite import suite as experiment_of

FEW = "(default: those of docs/suite.md)"


def suite(
    agents: Annotated[tuple[str, ...], arg(metavar="NAME ...", help_behavior_hint=FEW)] = (),
    version: Annotated[int, arg(metavar="N")] = VERSION,
    facts: bool = False,
    digits: Annotated[int, arg(metavar="N")] = 5,
    out: OptionalPath = None,
    seeds: Annotated[int, arg(metavar="N")] = SEEDS,
    seed: Annotated[int, arg(metavar="N")] = 0,
    steps: Annotated[int, arg(metavar="N")] = STEPS,
    anew: bool = False,
    execution: Options = DEFAULT,
) -> None:
    """Run agents on the continuing suite and compare them, or print its certified numbers.

    For example, `cpsrl suite`, `cpsrl suite --agents tsde imed-rl`, or `cpsrl suite --facts`. The
    results are an ordinary directory: `cpsrl continue` and `cpsrl report` take it, and the same
    command again does only what is missing.

    Args:
        agents: names that `cpsrl list agents` shows, with options as in "continuing-psrl gamma=.9".
        version: of the suite, 1 or 2: results of different versions are never compared.
        facts: print the certified numbers of every problem, as Markdown, and run nothing.
        digits: significant digits of these numbers.
        out: where results go; results/suite-VERSION by default.
        seeds: number of runs.
        seed: the root seed.
        steps: steps of every run.
        anew: move what is there to NAME.1 and begin anew.
        execution: where and how.
    """
    from cpsrl.reports.suite import LEGEND, fact_table, results_csv, scores, table

    entries = [entry_of(words) for words in agents]
    experiment = experiment_of(entries, steps, seeds, version, seed)
    if facts:
        print(fact_table(SUITES[version], digits=digits).markdown(), end="")
        return
    results = perform(experiment, out, execution, anew)
    runs = results.load(states=False)
    found, overall = scores(results.experiment, runs)
    shown = table(found, overall)
    show(shown, "")
    for row in overall:
        show(f"{row.agent} fails on: {', '.join(row.failures) or 'none'}")
    show(f"\n{LEGEND}")
    path = results.directory / "report" / "suite.md"
    write_file(path, f"{shown.markdown()}\n{LEGEND}\n".encode())
    rows = path.with_suffix(".csv")
    write_file(rows, results_csv(version, results.experiment, runs).encode())
    show(f"\nthis table is in {path}, and a row for every problem, agent and run in {rows};")
    show(f"`cpsrl report {results.directory}` draws the curves")
