"""Experiments: specified, run, stored, carried on, loaded."""

from cpsrl.experiments.progress import shown_progress
from cpsrl.experiments.results import load, open_results
from cpsrl.experiments.run import continue_experiment, run_experiment
from cpsrl.experiments.shipped import find_experiment, shipped
from cpsrl.experiments.spec import Entry, Experiment
from cpsrl.experiments.store import DamagedError

__all__ = [
    "DamagedError",
    "Entry",
    "Experiment",
    "continue_experiment",
    "find_experiment",
    "load",
    "open_results",
    "run_experiment",
    "shipped",
    "shown_progress",
]
