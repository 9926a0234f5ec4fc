"""A results directory as a whole: made from a specification, opened again, loaded as `Runs`."""

import json
import platform
import re
import warnings
from dataclasses import asdict, dataclass, fields
from functools import cached_property, reduce
from pathlib import Path

import numpy as np

from cpsrl.experiments.entry import Entry
from cpsrl.experiments.files import DamagedError, read_json, sha256, write_file, write_json
from cpsrl.experiments.provenance import PACKAGES, Provenance, provenance
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import RESULTS_FORMAT, Group, Store
from cpsrl.simulation import Runs

READERS = {1: "0.1.0"}
"""The versions of the package that read earlier formats."""
GROUP_CELLS = 10_000
"""Runs are grouped until their tables together have about this many cells (S * A * S)."""
GROUPS = 4
"""The least number of groups that the runs of an agent are divided into, where they can be. Like
the number above it is a part of the format."""


@dataclass(frozen=True)
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

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of runs, the fewer runs in each the larger their tables are."""
        groups, experiment, runs = [], self.experiment, self.experiment.runs
        for i, environment in enumerate(experiment.all_environments, start=1):
            mdp = experiment.problem(environment)
            cells = mdp.n_states**2 * mdp.n_actions
            size = max(1, min(-(-len(runs) // GROUPS), GROUP_CELLS // cells))
            for j, agent in enumerate(experiment.all_agents, start=1):
                for k, first in enumerate(range(0, len(runs), size)):
                    stem = f"runs/{_folder(i, environment)}/{_folder(j, agent)}/{k:04d}"
                    groups.append(Group(environment, agent, runs[first : first + size], stem))
        return tuple(groups)

    @cached_property
    def store(self) -> Store:
        """The files of the groups, each marked as this experiment's."""
        lines = self.experiment.to_toml().splitlines()
        spec = [line for line in lines if not line.startswith("description = ")]
        text = json.dumps([RESULTS_FORMAT, spec, asdict(self.provenance)], sort_keys=True)
        return Store(self.directory, identity=sha256(text.encode()))

    def save(self) -> None:
        """Write the specification and the header: the header last, since it makes the directory."""
        spec = self.experiment.to_toml().encode()
        write_file(self.directory / "spec.toml", spec)
        content = {
            "format": RESULTS_FORMAT,
            "name": self.experiment.name,
            "spec": sha256(spec),
            "steps": self.steps,
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


def new(directory: Path, experiment: Experiment) -> Results:
    """Return the results directory that `experiment` is going to have; nothing is written."""
    first = experiment.all_environments[0]
    packages = set(PACKAGES).union(
        *(experiment.agent(a, first).packages for a in experiment.all_agents)
    )
    return Results(directory, experiment, provenance(tuple(packages)), experiment.steps)


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
    except FileNotFoundError:
        raise DamagedError(spec, "it is missing") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(path, f"it is not the header of an experiment ({error})") from None
    if sha256(raw) != content.get("spec"):
        raise DamagedError(spec, "its checksum is not the one in experiment.json")
    if expected is None or expected.to_toml().encode() != raw:
        expected = Experiment.from_toml(raw.decode(), str(spec))
    return Results(directory, expected, then, steps, extension, commands)


def header(directory: Path) -> Path:
    """Return the file that makes `directory` a results directory, or raise if it is none."""
    path = directory / "experiment.json"
    if not path.is_file():
        raise ValueError(f"{directory} is not a results directory: it has no experiment.json")
    return path


def open_or_new(directory: Path, experiment: Experiment, repair: bool) -> Results:
    """Return the results directory for `experiment`: what is there already, or a new one.

    Raise if something else is there. With `repair`, a damaged or missing header is made anew.
    """
    exists = (directory / "experiment.json").exists()
    if not exists:
        passing = re.compile(r"lock|spec\.toml|\..*\.tmp")
        others = sorted(p.name for p in directory.iterdir() if not passing.fullmatch(p.name))
        if not others:
            return new(directory, experiment)
        if not repair or not {"runs", "report"}.issuperset(others):
            raise ValueError(
                f"{directory} holds other things ({', '.join(others[:3])}): choose an empty "
                "directory or one that does not exist yet"
            )
    try:
        found = open_results(directory, experiment)
    except ValueError as error:
        if not repair or (exists and not isinstance(error, DamagedError)):
            raise
        found = new(directory, experiment)
    if difference := _difference(found.experiment, experiment):
        raise ValueError(
            f"{directory} holds another experiment: {difference}. Choose another directory"
        )
    return found


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
        if there != here and item.name != "description":
            hint = " (`cpsrl continue` adds steps)" if item.name == "steps" else ""
            return f"its {item.name} is {there!r}, not {here!r}{hint}"
    return ""


def _folder(number: int, entry: Entry) -> str:
    plain = re.sub(r"[^A-Za-z0-9.=]+", "-", entry.called).strip("-.")
    return f"{number:02d}-{plain[:60]}".rstrip("-.").lower()
