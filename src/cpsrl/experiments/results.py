"""A results directory as a whole: made from a specification, opened again, loaded as `Runs`."""

import itertools
import json
import platform
import re
import tomllib
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl.checks import checked_whole
from cpsrl.experiments.entry import Entry
from cpsrl.experiments.files import locked, read_json, write_file, write_json
from cpsrl.experiments.models import FOLDER, ModelFile
from cpsrl.experiments.provenance import PACKAGES, Provenance, provenance
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import RESULTS_FORMAT, Group, Store
from cpsrl.experiments.values import slug
from cpsrl.mdp import TabularMDP
from cpsrl.pages.notebook import table
from cpsrl.simulation import Runs
from cpsrl.trees import DamagedError, sha256
from cpsrl.types import Ints

READERS = {1: "0.1.0"}
"""The versions of the package that read earlier formats."""
WAYS_OUT = "--anew (anew=True) sets it aside and begins anew; --out DIR is another directory"
GROUP_CELLS = 10_000
"""Runs are grouped until their tables together have about this many cells (S * A * S)."""
GROUPS = 4
"""The least number of groups that the runs of an agent are divided into, where they can be. Like
the number above it is a part of the format."""


@dataclass(frozen=True, repr=False)
class Results:
    """A results directory: its specification, its groups of runs, and how far they are to go."""

    directory: Path
    experiment: Experiment
    provenance: Provenance
    steps: int
    """How far every run is to go."""
    extension: int = 0
    """By how much the last `continue` asked to go further; 0 if there was none."""
    commands: tuple[dict[str, str], ...] = ()
    spec: str = ""
    """The specification as it was when the directory was made; `experiment` may have more runs."""
    added: tuple[int, ...] = ()
    """How many runs there were at first, and by how many they became more, each time."""
    stops: tuple[int, ...] = ()
    """How far the runs were to go before they were carried on, each time."""
    machine: tuple[str, ...] = ()
    """The system and the Python that the directory was last written by."""

    def __repr__(self) -> str:
        agents, places = self.experiment.all_agents, self.experiment.all_environments
        return (
            f"Results({self.directory}: {', '.join(entry.called for entry in agents)} on "
            f"{', '.join(entry.called for entry in places)}, {len(self.experiment.runs)} runs to "
            f"step {self.steps:,}; load() gives them)"
        )

    def _repr_html_(self) -> str:
        agents, places = self.experiment.all_agents, self.experiment.all_environments
        rows = [(place.called, agent.called) for place in places for agent in agents]
        runs = f"{len(self.experiment.runs):,} runs to step {self.steps:,} in {self.directory}"
        note = f"{runs}; load() gives them, cpsrl.reports.report(...) reports on them"
        return table(f"Results of {self.experiment.name}", ("environment", "agent"), rows, note)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of runs, the fewer runs in each the larger their tables are.

        Runs that were added later make groups of their own.
        """
        groups, experiment, runs = [], self.experiment, self.experiment.runs
        added = self.added or (len(runs),)
        for i, environment in enumerate(experiment.all_environments, start=1):
            problem = experiment.problem(environment)
            cells = 1
            if isinstance(problem, TabularMDP):
                cells = problem.n_states**2 * problem.n_actions
            parts, begin = [], 0
            for n in added:
                size = max(1, min(-(-n // GROUPS), GROUP_CELLS // cells))
                end = begin + n
                parts += [runs[k : min(k + size, end)] for k in range(begin, end, size)]
                begin = end
            for j, agent in enumerate(experiment.all_agents, start=1):
                for k, part in enumerate(parts):
                    stem = f"runs/{_folder(i, environment)}/{_folder(j, agent)}/{k:04d}"
                    groups.append(Group(environment, agent, part, stem))
        return tuple(groups)

    @cached_property
    def store(self) -> Store:
        """The files of the groups, each marked as this experiment's."""
        lines = self.spec.splitlines()
        spec = [line for line in lines if not line.startswith("description = ")]
        text = json.dumps([RESULTS_FORMAT, spec, asdict(self.provenance)], sort_keys=True)
        return Store(self.directory, identity=sha256(text.encode()))

    @cached_property
    def recorded(self) -> Ints:
        """The steps that are recorded of every run, also of those that were added later."""
        stops = (*self.stops, self.steps)
        return np.unique(np.concatenate([self.experiment.recorded(stop) for stop in stops]))

    def with_runs(self, runs: Iterable[int]) -> "Results":
        """Return the directory as it is to be with those of `runs` added that it has not yet."""
        there = self.experiment.runs
        if not (new := tuple(run for run in runs if run not in set(there))):
            return self
        together = (*there, *new)
        counted = together == tuple(range(len(together)))
        experiment = replace(self.experiment, seeds=len(together) if counted else together)
        added = (*(self.added or (len(there),)), len(new))
        return replace(self, experiment=experiment, added=added)

    def save(self) -> None:
        """Write models, specification and header: the header last, since it makes the directory."""
        for model in self.experiment.models:
            write_file(self.directory / model.place, model.content)
        write_file(self.directory / "spec.toml", self.spec.encode())
        content = {
            "format": RESULTS_FORMAT,
            "name": self.experiment.name,
            "spec": sha256(self.spec.encode()),
            "seeds": self.experiment.seeds,
            "added": list(self.added),
            "steps": self.steps,
            "stops": list(self.stops),
            "extension": self.extension,
            "commands": list(self.commands),
            "provenance": asdict(self.provenance),
            "machine": [platform.platform(), f"Python {platform.python_version()}"],
        }
        write_json(self.directory / "experiment.json", content, readable=True)

    def load(self, states: bool = True) -> Runs:
        """Return the runs, every checksum verified (see `load`)."""
        self.store.check_strangers(self.groups)
        found = [runs for g in self.groups if (runs := self.store.read(g, states)) is not None]
        if not found:
            raise ValueError(
                f"{self.directory} holds no runs yet: `cpsrl continue {self.directory}` begins them"
            )
        times = reduce(np.intersect1d, (runs.times for runs in found))
        if len(found) < len(self.groups) or len(times) < len(self.experiment.recorded(self.steps)):
            begun = sum(len(runs.seeds) for runs in found)
            planned = sum(len(group.runs) for group in self.groups)
            last = int(times[-1]) if len(times) else 0
            warnings.warn(
                f"{self.directory} is not finished: {begun} of {planned} runs begun, every one "
                f"recorded to step {last:,} of {self.steps:,}; `cpsrl continue {self.directory}` "
                "finishes it",
                stacklevel=3,
            )
        return Runs.join([runs.at(times) for runs in found])


def new(directory: Path, experiment: Experiment, device: str = "") -> Results:
    """Return the results directory that `experiment` is going to have; nothing is written.

    `device` is the accelerator that its networks are computed with, if they are.
    """
    packages = tuple(sorted({*PACKAGES, *experiment.packages}))
    spec = experiment.to_toml()
    made_with = provenance(packages, device)
    return Results(directory, experiment, made_with, experiment.steps, spec=spec)


def open_results(directory: Path | str, expected: Experiment | None = None) -> Results:
    """Return the results directory at `directory`, its header and specification checked.

    If its specification is `expected`, that is kept, with all that has been built of it.
    """
    directory = Path(directory)
    path, spec = header(directory), directory / "spec.toml"
    content = read_json(path)
    if (found := content.get("format")) != RESULTS_FORMAT:
        reader = f"read by cpsrl {READERS[found]}; " if found in READERS else ""
        raise ValueError(
            f"{directory} has format {found!r}, {reader}this version of cpsrl reads format "
            f"{RESULTS_FORMAT}"
        )
    try:
        raw = spec.read_bytes()
        then, commands = Provenance(**content["provenance"]), tuple(content["commands"])
        steps, extension = int(content["steps"]), int(content["extension"])
        added = tuple(checked_whole("added", n, 1) for n in content.get("added", ()))
        stops = tuple(checked_whole("stops", n, 1) for n in content.get("stops", ()))
        machine = tuple(map(str, content.get("machine", ())))
    except FileNotFoundError:
        raise DamagedError(spec, "it is missing") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(path, f"it is not the header of an experiment ({error})") from None
    if sha256(raw) != content.get("spec"):
        raise DamagedError(spec, "its checksum is not the one in experiment.json")
    text = raw.decode()
    if expected is None or added or expected.to_toml() != text:
        more = {"seeds": content.get("seeds")} if added else {}
        expected = _stored_experiment(spec, text, then, more)
    if added and sum(added) != len(expected.runs):
        raise DamagedError(path, f"it does not say which of {len(expected.runs)} runs were added")
    for model in expected.models:
        ModelFile.read(directory / model.place, model.sha256)
    return Results(
        directory, expected, then, steps, extension, commands, text, added, stops, machine
    )


def _stored_experiment(
    spec: Path, text: str, then: Provenance, changes: dict[str, Any]
) -> Experiment:
    """Return the experiment of a results directory, whose models are those stored beside it."""
    own = re.compile(rf"{FOLDER}/[^/\\]+")
    for entry in tomllib.loads(text)["environments"]:
        if "file" in entry and not ("sha256" in entry and own.fullmatch(str(entry["file"]))):
            raise DamagedError(spec, f"the model {entry['file']!r} is no part of the directory")
    try:
        return Experiment.from_toml(text, str(spec), spec.parent, **changes)
    except DamagedError:
        raise
    except ValueError as error:
        here = provenance(tuple(then.versions)).versions
        missing = [f"{p} {v}" for p, v in then.versions.items() if here[p] == "none" != v]
        hint = f" (this was computed with {', '.join(missing)}, which is not installed here)"
        raise ValueError(f"{error}{hint if missing else ''}") from None


def header(directory: Path) -> Path:
    """Return the file that makes `directory` a results directory, or raise if it is none."""
    path = directory / "experiment.json"
    if directory.is_file():
        raise ValueError(
            f"{directory} is a file, not a results directory; cpsrl.TabularMDP.load reads a model"
        )
    if not path.is_file():
        raise ValueError(f"{directory} is not a results directory: it has no experiment.json")
    return path


def open_or_new(directory: Path, experiment: Experiment, repair: bool, device: str = "") -> Results:
    """Return the results directory for `experiment`: what is there already, or a new one.

    It may have other runs than `experiment`. Raise if something else is there, unless no run of it
    has been stored. With `repair`, a damaged or missing header is made anew.
    """
    exists = (directory / "experiment.json").exists()
    if not exists:
        passing = re.compile(r"lock|spec\.toml|models|\..*\.tmp")
        others = sorted(p.name for p in directory.iterdir() if not passing.fullmatch(p.name))
        if not others:
            return new(directory, experiment, device)
        if not repair or not {"runs", "report"}.issuperset(others):
            raise ValueError(
                f"{directory} holds other things ({', '.join(others[:3])}): choose an empty "
                "directory or one that does not exist yet"
            )
    begun = next((directory / "runs").rglob("*.parquet"), None) is not None
    try:
        found = open_results(directory, experiment)
    except ValueError as error:
        if begun and (not repair or (exists and not isinstance(error, DamagedError))):
            raise
        return new(directory, experiment, device)
    difference = _difference(found.experiment, experiment)
    if difference and begun:
        raise ValueError(f"{directory} holds another experiment: {difference}. {WAYS_OUT}")
    changed = difference or (not begun and found.provenance.difference(device))
    return new(directory, experiment, device) if changed else found


def set_aside(directory: Path) -> Path | None:
    """Rename a results directory to NAME.1, or the next number that is free; nothing is lost."""
    if not (directory / "experiment.json").exists():
        return None
    with locked(directory):
        pass
    taken = (directory.with_name(f"{directory.name}.{n}") for n in itertools.count(1))
    aside = next(path for path in taken if not path.exists())
    directory.rename(aside)
    return aside


def load(directory: Path | str, states: bool = True) -> Runs:
    """Return the runs of a results directory, every checksum verified.

    The rows are the runs of every agent on every environment, as `simulate` gives them for one.
    `states=False` leaves `runs.state` out, which is quicker where states are large. Of a directory
    that is not finished, the points are those that every run begun so far has reached; a warning
    says so.
    """
    return open_results(directory).load(states)


def _difference(found: Experiment, wanted: Experiment) -> str:
    """Return in words the first thing in which two specifications differ."""
    for item in fields(Experiment):
        there, here = getattr(found, item.name), getattr(wanted, item.name)
        if there != here and item.name in ("environments", "agents"):
            return f"its {item.name} are not those of {wanted.name!r}"
        if there != here and item.name not in ("description", "seeds"):
            hint = " (`cpsrl continue` adds steps)" if item.name == "steps" else ""
            return f"its {item.name} is {there!r}, not {here!r}{hint}"
    return ""


def _folder(number: int, entry: Entry) -> str:
    return f"{number:02d}-{slug(entry.called)}".rstrip("-.")
