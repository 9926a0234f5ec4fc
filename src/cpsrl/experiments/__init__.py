"""Experiments: specified, run, stored, carried on, loaded.

An `Experiment` names environments and agents, an `Entry` each; `find_experiment` gives one that
comes with the package or is in a TOML file. `run_experiment` runs it in a results directory, on
threads or as `Execution` says, `continue_experiment` carries every run of a directory on, and
`load` gives the `Runs` in it. docs/experiments.md shows them at work.
"""

from cpsrl.experiments.backends import Execution
from cpsrl.experiments.entry import Entry
from cpsrl.experiments.play import Played, play
from cpsrl.experiments.results import load, open_results
from cpsrl.experiments.run import continue_experiment, run_experiment
from cpsrl.experiments.spec import Experiment, find_experiment, shipped
from cpsrl.support.progress import shown_progress
from cpsrl.support.serialise import DamagedError

__all__ = [
    "DamagedError",
    "Entry",
    "Execution",
    "Experiment",
    "Played",
    "continue_experiment",
    "find_experiment",
    "load",
    "open_results",
    "play",
    "run_experiment",
    "shipped",
    "shown_progress",
]
