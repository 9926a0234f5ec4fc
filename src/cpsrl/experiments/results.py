"""A results directory as a whole: made from a specification, opened again, loaded as `Runs`."""

import itertools
import platform
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl.documents import Table
from cpsrl.experiments.entry import Entry
from cpsrl.experiments.files import locked, read_json, write_file, write_json
from cpsrl.experiments.models import FOLDER, ModelFile
from cpsrl.experiments.provenance import PACKAGES, Provenance, provenance
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import RESULTS_FORMAT, Checkpoint, Group, check_strangers, stored_files
from cpsrl.experiments.values import in_words, slug
from cpsrl.mdp import Tabular
from cpsrl.simulation import Runs
from cpsrl.simulation.runs import farthest
from cpsrl.support.checks import checked_whole
from cpsrl.support.serialise import DamagedError, canonical, sha256
from cpsrl.support.types import Ints

READERS = {1: "0.1.0", 2: "0.2.0"}
"""The versions of the package that read earlier formats."""
WAYS_OUT = "--anew (anew=True) sets it aside and begins anew; --out DIR is another directory"
REMEDY = f"; `cpsrl run SPEC --out DIR --repair` makes it anew from the specification; {WAYS_OUT}"
GROUP_CELLS = 10_000
"""Runs are grouped until their tables together have about this many cells (S * A * S)."""
GROUPS = 4
"""The least number of groups that the runs of an agent are divided into, where they can be. Like
the number above it is a part of the format."""
RUNS, ASIDE = "runs", "aside"
"""The folders of the runs of the specification, and of those that it has no more."""


@dataclass(frozen=True, repr=False)
class Results:
    """A results directory: its specification, its groups of runs, and how far they are to go."""

    directory: Path
    experiment: Experiment
    provenance: Provenance
    """What its runs are carried on with."""
    steps: int
    """How far every run is to go."""
    extension: int = 0
    """By how much the last `continue` asked to go further; 0 if there was none."""
    commands: tuple[dict[str, str], ...] = ()
    added: tuple[int, ...] = ()
    """How many runs there were at first, and by how many they became more, each time."""
    stops: tuple[int, ...] = ()
    """How far the runs were to go before they were carried on, each time."""
    machine: tuple[str, ...] = ()
    """The system and the Python that the directory was last written by."""
    leaving: tuple[Group, ...] = field(default=(), compare=False)
    """Groups that the header names and the specification has no more; `save` moves them aside."""

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
        title = f"Results of {self.experiment.name}"
        return Table(("environment", "agent"), rows, title, note, left=2)._repr_html_()

    @property
    def spec(self) -> str:
        """The specification as TOML."""
        return self.experiment.to_toml()

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of runs, the fewer runs in each the larger their tables are.

        Runs that were added later make groups of their own. Where a group is stored follows from
        what computes it, and neither from its labels nor from what else there is.
        """
        groups, experiment, runs = [], self.experiment, self.experiment.runs
        own = [RESULTS_FORMAT, experiment.seed, experiment.steps, experiment.record]
        agents = list(_marked(experiment.all_agents, own))
        for environment, folder, mark in _marked(experiment.all_environments, own):
            problem = experiment.problem(environment)
            cells = 1
            if isinstance(problem, Tabular):
                cells = problem.n_states**2 * problem.n_actions
            parts, begin = [], 0
            for n in self.added or (len(runs),):
                size = max(1, min(-(-n // GROUPS), GROUP_CELLS // cells))
                end = begin + n
                parts += [runs[k : min(k + size, end)] for k in range(begin, end, size)]
                begin = end
            for agent, inner, its in agents:
                for k, part in enumerate(parts):
                    path = self.directory / RUNS / folder / inner / f"{k:04d}"
                    groups.append(Group(environment, agent, part, path, mark + its))
        return tuple(groups)

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
        experiment = self.experiment.with_seeds(len(together) if counted else together)
        added = (*(self.added or (len(there),)), len(new))
        return replace(self, experiment=experiment, added=added)

    def save(self) -> None:
        """Make the directory what this says, in an order that a crash may cut anywhere.

        Runs that leave are moved aside, then the header is written, then runs that come back are
        moved. So the header always names all that is among the runs, and the next command brings
        back what it names and finds aside.
        """
        for folder in self._folders(self.leaving):
            if folder.is_dir():
                _move(folder, self._aside(folder))
        self._save_header()
        for folder in self._folders(self.groups):
            if self._returns(folder):
                _move(self._aside(folder), folder)

    def check_places(self) -> None:
        """Raise if there are runs that nothing here has written, or that cannot be moved aside."""
        check_strangers(self.directory, (*self.groups, *self.leaving))
        for folder in self._folders(self.leaving):
            if folder.is_dir() and (aside := self._aside(folder)).exists():
                raise ValueError(
                    f"{folder} is to be moved to {aside}, which is there already: move one of the "
                    "two elsewhere"
                )

    def lying(self, group: Group) -> Group:
        """Return a group as it lies now: aside, if it is to come back."""
        folder = group.path.parent
        if not self._returns(folder):
            return group
        return replace(group, path=self._aside(folder) / group.path.name)

    def _folders(self, groups: Iterable[Group]) -> list[Path]:
        return sorted({group.path.parent for group in groups})

    def _aside(self, folder: Path) -> Path:
        return self.directory / ASIDE / folder.relative_to(self.directory / RUNS)

    def _returns(self, folder: Path) -> bool:
        return self._aside(folder).is_dir() and not folder.exists()

    def _save_header(self) -> None:
        """Write what has changed of models, header and specification; the header is what counts."""
        path, text = self.directory / "experiment.json", self.spec
        before: dict[str, Any] = {}
        with suppress(FileNotFoundError, DamagedError):
            before = read_json(path)
        content = {
            "format": RESULTS_FORMAT,
            "name": self.experiment.name,
            "spec": text,
            "added": list(self.added),
            "steps": self.steps,
            "stops": list(self.stops),
            "extension": self.extension,
            "commands": list(self.commands),
            "provenance": asdict(self.provenance),
            "machine": [platform.platform(), f"Python {platform.python_version()}"],
            "replaced": before.get("replaced"),
        }
        spec = self.directory / "spec.toml"
        if content == before and spec.exists() and spec.read_bytes() == text.encode():
            return
        for model in self.experiment.models:
            write_file(self.directory / model.place, model.content)
        if before.get("spec") not in (None, text):
            content["replaced"] = sha256(before["spec"].encode())  # until spec.toml is written
        write_json(path, content, readable=True)
        write_file(spec, text.encode())

    def stored(self, states: bool = True) -> list[tuple[Group, Checkpoint]]:
        """Return the groups that are begun, and what is stored of them, checked."""
        check_strangers(self.directory, self.groups)
        try:
            every = [(group, group.read(states)) for group in self.groups]
        except DamagedError as error:
            remedy = f"`cpsrl continue {self.directory} --repair` computes it anew"
            raise DamagedError(error.path, f"{error.reason}; {remedy}") from None
        found = [(group, one) for group, one in every if one is not None]
        if not found:
            raise ValueError(
                f"{self.directory} holds no runs yet: `cpsrl continue {self.directory}` begins them"
            )
        return found

    def load(self, states: bool = True) -> Runs:
        """Return the runs, every checksum verified (see `load`)."""
        runs = _joined(self.stored(states))
        planned = sum(len(group.runs) for group in self.groups)
        if len(runs.seeds) < planned or len(runs.times) < len(self.recorded):
            last = runs.times[-1] if len(runs.times) else 0
            warnings.warn(
                f"{self.directory} is not finished: {len(runs.seeds)} of {planned} runs are here, "
                f"to step {last:,} of {self.steps:,}; `cpsrl continue {self.directory}` "
                "finishes it",
                stacklevel=3,
            )
        return runs

    def parts(self, states: bool = False) -> list[Runs]:
        """Return the runs of every agent on every environment that came farthest.

        Their `notes` say from which step on other versions computed them than the first ones.
        """
        found = self.stored(states)
        first, parts = found[0][1].versions[0][1], []
        for _, here in itertools.groupby(found, lambda pair: pair[0].path.parent):
            runs = _joined(list(here), first)
            if len(runs.times):
                parts.append(runs)
        return parts


Stored = list[tuple[Group, Checkpoint]]


def _joined(found: Stored, first: Provenance | None = None) -> Runs:
    """Return the runs that came farthest (the most runs times steps), as far as all of them came.

    Their `notes` say from which step on they were computed with other versions than `first`, by
    default those of the first of them.
    """
    steps = [[one.step] * len(group.runs) for group, one in found]
    last = farthest(np.concatenate(steps))
    kept = [(group, one) for group, one in found if one.step >= last]
    times = reduce(np.intersect1d, (one.runs.times for _, one in kept))
    runs = Runs.join([one.runs.at(times) for _, one in kept])
    return replace(runs, notes=_changes(kept, first or kept[0][1].versions[0][1]))


def _changes(found: Stored, first: Provenance) -> tuple[str, ...]:
    """Return in words from which step on runs were computed with other versions than `first`."""
    words = dict[str, int]()
    for group, one in found:
        for since, there in one.versions:
            if other := first.against(there, "then"):
                what = f"{group.agent.called} on {group.environment.called}"
                key = f"{what} was computed with other versions: {other}"
                words[key] = min(words.get(key, since), since)
    return tuple(f"from step {since + 1:,} on, {key}" for key, since in words.items())


def needed(experiment: Experiment, device: str) -> Provenance:
    """Return what this process computes `experiment` with, networks on `device` (or "")."""
    return provenance(tuple(sorted({*PACKAGES, *experiment.packages})), device)


def open_results(
    directory: Path | str, expected: Experiment | None = None, repair: bool = False
) -> Results:
    """Return the results directory at `directory`, its header and specification checked.

    If its specification is `expected`, that is kept, with all that has been built of it. With
    `repair`, spec.toml may be missing or another: the header has the specification, too.
    """
    directory = Path(directory)
    path, spec = header(directory), directory / "spec.toml"
    try:
        content = read_json(path)
    except DamagedError as error:
        raise DamagedError(path, f"{error.reason}{REMEDY}") from None
    if (found := content.get("format")) != RESULTS_FORMAT:
        reader = f"read by cpsrl {READERS[found]}; " if found in READERS else ""
        raise ValueError(
            f"{directory} has format {found!r}, {reader}this version of cpsrl reads format "
            f"{RESULTS_FORMAT}"
        )
    try:
        then, commands = Provenance(**content["provenance"]), tuple(content["commands"])
        steps, extension = int(content["steps"]), int(content["extension"])
        added = tuple(checked_whole("added", n, 1) for n in content["added"])
        stops = tuple(checked_whole("stops", n, 1) for n in content["stops"])
        machine, text = tuple(map(str, content["machine"])), content["spec"]
        checksum = sha256(spec.read_bytes()) if spec.exists() else "missing"
        same = checksum in (sha256(text.encode()), content["replaced"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(path, f"not the header of an experiment ({error}){REMEDY}") from None
    if not same and not repair:
        raise DamagedError(
            spec,
            f"it is not what was run, which experiment.json has; `cpsrl run {spec} --out DIR` runs "
            "it elsewhere, and --repair writes it again",
        )
    if expected is None or expected.to_toml() != text:
        expected = _stored_experiment(path, text, then)
    if added and sum(added) != len(expected.runs):
        raise DamagedError(path, f"it does not say which of {len(expected.runs)} runs were added")
    for model in expected.models:
        ModelFile.read(directory / model.place, model.sha256)
    return Results(directory, expected, then, steps, extension, commands, added, stops, machine)


def _stored_experiment(path: Path, text: str, then: Provenance) -> Experiment:
    """Return the experiment of a results directory, whose models are those stored beside it."""
    own = re.compile(rf"{FOLDER}/[^/\\]+")
    for entry in tomllib.loads(text)["environments"]:
        if "file" in entry and not ("sha256" in entry and own.fullmatch(str(entry["file"]))):
            raise DamagedError(path, f"the model {entry['file']!r} is not in the directory")
    try:
        return Experiment.from_toml(text, str(path), path.parent)
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
        folder = directory if directory.is_dir() else directory.parent
        there = [str(one.parent) for one in sorted(folder.glob("*/experiment.json"))]
        hint = f"; near it are {', '.join(there[:9])}" if there else ""
        raise ValueError(f"{directory} is not a results directory: it has no experiment.json{hint}")
    return path


def open_or_new(directory: Path, experiment: Experiment, repair: bool, device: str = "") -> Results:
    """Return the results directory for `experiment`: what is there already, or a new one.

    It may have other runs than `experiment`, and had other agents and environments. Raise if
    something else is there, unless no run of it has been stored. With `repair`, a damaged or
    missing header is made anew.
    """
    fresh = Results(directory, experiment, needed(experiment, device), experiment.steps)
    exists = (directory / "experiment.json").exists()
    if not exists:
        passing = re.compile(r"lock|spec\.toml|models|\..*\.tmp")
        others = sorted(p.name for p in directory.iterdir() if not passing.fullmatch(p.name))
        if not others:
            return fresh
        if not repair or not {RUNS, ASIDE, "report"}.issuperset(others):
            raise ValueError(
                f"{directory} holds other things ({', '.join(others[:3])}): choose an empty "
                "directory or one that does not exist yet"
            )
    begun = bool(stored_files(directory))
    try:
        found = open_results(directory, experiment, repair)
    except ValueError as error:
        if begun and (not repair or (exists and not isinstance(error, DamagedError))):
            raise
        return fresh
    if not begun:
        same = found.experiment == experiment and not found.provenance.difference(device)
        return found if same else fresh
    wanted = replace(found, experiment=experiment.with_seeds(found.experiment.seeds))
    if difference := _difference(found, wanted):
        raise ValueError(f"{directory} holds another experiment: {difference}. {WAYS_OUT}")
    versions = fresh.provenance.versions | found.provenance.versions
    kept = {group.path for group in wanted.groups}
    leaving = tuple(group for group in found.groups if group.path not in kept)
    then = replace(found.provenance, versions=versions)
    return replace(wanted, provenance=then, leaving=leaving)


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
    that is not finished, these are the runs that came farthest, as far as all of them came; a
    warning says so.
    """
    return open_results(directory).load(states)


def _difference(found: Results, wanted: Results) -> str:
    """Return in words why the runs of one directory are not those of the other."""
    for name in ("seed", "record", "steps"):
        there, here = getattr(found.experiment, name), getattr(wanted.experiment, name)
        if there != here:
            hint = " (`cpsrl continue` adds steps)" if name == "steps" else ""
            return f"its specification has {name} = {there!r}, not {here!r}{hint}"
    if {group.identity for group in found.groups}.isdisjoint(g.identity for g in wanted.groups):
        return f"it shares no pair of agent and environment with {wanted.experiment.name!r}"
    return ""


def _marked(entries: Iterable[Entry], own: list[Any]) -> Iterator[tuple[Entry, str, str]]:
    """Yield entries with the folder and the mark of each: what makes it, and nothing else."""
    seen: Counter[str] = Counter()
    for entry in entries:
        model = entry.name.sha256 if isinstance(entry.name, ModelFile) else entry.name
        mark = sha256(canonical([*own, model, entry.options, entry.per_run]))
        seen[mark] += 1
        if seen[mark] > 1:  # the same under another label
            mark = sha256(f"{mark} {seen[mark]}".encode())
        options = " ".join(f"{key}={in_words(value)}" for key, value in entry.options.items())
        yield entry, f"{slug(f'{entry.name} {options}')}-{mark[:8]}", mark


def _move(path: Path, to: Path) -> None:
    """Move a folder ENV/AGENT, and remove those above it that it leaves empty."""
    to.parent.mkdir(parents=True, exist_ok=True)
    path.rename(to)
    for folder in (path.parent, path.parent.parent):
        if not any(folder.iterdir()):
            folder.rmdir()
