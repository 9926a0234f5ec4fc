"""The commands that run experiments and show them."""

import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from cpsrl.experiments import (
    Execution,
    Experiment,
    continue_experiment,
    find_experiment,
    run_experiment,
    shipped,
    shown_progress,
)

if TYPE_CHECKING:
    from cpsrl.reports import Report

Directory = Annotated[Positional[Path], arg(metavar="DIR")]
OptionalPath = Annotated[Path | None, arg(metavar="DIR")]
OptionalInt = Annotated[int | None, arg(metavar="N")]
Options = Annotated[Execution, arg(name="")]
DEFAULT = Execution()


def run(
    spec: Annotated[Positional[str], arg(metavar="SPEC")],
    out: OptionalPath = None,
    seeds: OptionalInt = None,
    steps: OptionalInt = None,
    execution: Options = DEFAULT,
) -> None:
    """Run an experiment, or what is missing of it.

    For example, `cpsrl run experiments/figure2-left.toml --seeds 10`. Interrupted or killed, the
    same command again does only what is missing.

    Args:
        spec: a TOML file, or the name of an experiment that `cpsrl list experiments` shows.
        out: where results go; results/NAME by default.
        seeds: number of runs, in place of the specification's.
        steps: steps of every run, in place of the specification's.
        execution: where and how.
    """
    given = {"seeds": seeds, "steps": steps}
    changes: dict[str, Any] = {key: n for key, n in given.items() if n is not None}
    experiment = replace(find_experiment(spec), **changes)
    directory = out or Path("results") / experiment.name
    run_experiment(experiment, directory, execution, shown_progress(), _command())
    print(f"results are in {directory}; `cpsrl report {directory}` draws them")


def continue_(
    directory: Directory, steps: OptionalInt = None, execution: Options = DEFAULT
) -> None:
    """Carry every run of a results directory on from where it stopped.

    For example, `cpsrl continue results/figure2-left --steps 100000` adds 100,000 steps to every
    run; nothing is computed again. Without --steps, what was interrupted is finished.

    Args:
        directory: a results directory.
        steps: how many steps to add to every run.
        execution: where and how.
    """
    results = continue_experiment(directory, steps, execution, shown_progress(), _command())
    print(f"every run in {directory} stands at step {results.steps:,}")


def report(
    directory: Directory,
    out: OptionalPath = None,
    formats: tuple[Literal["png", "pdf", "svg"], ...] = ("png", "pdf", "svg"),
) -> None:
    """Draw the figures of a results directory and print its summary.

    For example, `cpsrl report results/figure2-left --formats png`.

    Args:
        directory: a results directory.
        out: where figures and summary go; DIR/report by default.
        formats: of the figures; with none, the summary alone is written.
    """
    from cpsrl.reports import report as write_report

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = write_report(directory, out, formats)
    for warning in caught:
        print(f"cpsrl: {warning.message}", file=sys.stderr)
    show(found)


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
        run_experiment(experiment, directory, Execution(jobs=jobs), shown_progress(), _command())
        show(write_report(directory))


QUICK: dict[str, dict[str, Any]] = {"left": {}, "right": {"seeds": 10, "steps": 10_000}}


def list_(
    kind: Annotated[
        Positional[Literal["agents", "environments", "rules", "experiments"]],
        arg(metavar="agents|environments|rules|experiments"),
    ],
) -> None:
    """List what can be named in an experiment, with a line about each.

    For example, `cpsrl list agents`.

    Args:
        kind: what to list.
    """
    from rich.console import Console
    from rich.table import Table

    from cpsrl.agents import AGENTS
    from cpsrl.environments import ENVIRONMENTS
    from cpsrl.resampling import RULES

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    if kind == "experiments":
        for name, path in shipped().items():
            table.add_row(name, Experiment.read(path).description)
    else:
        registry: Any = {"agents": AGENTS, "environments": ENVIRONMENTS, "rules": RULES}[kind]
        for name in registry.names():
            table.add_row(name, registry.summary(name))
    Console().print(table)


def compile_() -> None:
    """Fill the kernel cache, so that later commands start at once: for clusters and CI.

    For example, `cpsrl compile` while an image is built.
    """
    import time

    from cpsrl._compile import KERNEL_CACHE
    from cpsrl.agents import AGENTS
    from cpsrl.environments import environment
    from cpsrl.planning import solve_average, solve_discounted
    from cpsrl.resampling import Bernoulli
    from cpsrl.simulation import simulate
    from cpsrl.theory.from_prior import runs_from_prior

    began = time.perf_counter()
    problems = environment("riverswim"), environment("gridworld", rows=40, columns=40)
    for name in AGENTS.names():
        agent = AGENTS.make(name)
        if not agent.packages:
            for mdp in problems:
                simulate(agent, mdp, steps=2, seeds=1)
    for mdp in (*problems, environment("random", n_states=120)):
        solve_discounted(mdp, 0.9)
        solve_average(mdp)
    runs_from_prior(2, 2, Bernoulli(gamma=0.5), steps=2, runs=1, cap=10.0)
    print(f"kernels are compiled in {KERNEL_CACHE} ({time.perf_counter() - began:.1f} s)")


def show(report: "Report") -> None:
    """Print the table of a report, what it says about the paper, and where its files are."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from cpsrl.reports.summary import HEADINGS, LEGEND, caution, cells, title

    console = Console()
    if not console.is_terminal:
        console.width = 120
    for environment in dict.fromkeys(row.environment for row in report.rows):
        here = [row for row in report.rows if row.environment == environment]
        about = f"{environment}: {title(here)}"
        table = Table(title=about, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in HEADINGS:
            table.add_column(heading, justify="left" if heading == "agent" else "right")
        for row in here:
            table.add_row(*map(Text, cells(row)))
        console.print(table)
    if warning := caution(report.rows):
        console.print(warning, highlight=False, markup=False)
    console.print(LEGEND, style="dim", highlight=False, markup=False)
    for finding in report.findings:
        console.print(f"\n{finding}", highlight=False, markup=False, soft_wrap=True)
    files = "1 file" if len(report.paths) == 1 else f"{len(report.paths)} files"
    print(f"\n{files} in {report.paths[0].parent}")


def _command() -> str:
    """Return the command line as the user typed it."""
    return shlex.join(["cpsrl", *sys.argv[1:]])
