"""A results directory as a whole: made from a specification, opened again, loaded as `Runs`."""

import hashlib
import itertools
import json
import re
import warnings
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl.experiments.origin import PACKAGES, Origin, machine, origin
from cpsrl.experiments.spec import Entry, Experiment, make_agent, make_environment
from cpsrl.experiments.store import (
    FORMAT,
    DamagedError,
    Group,
    Store,
    Stored,
    read_json,
    write_file,
    write_json,
)
from cpsrl.simulation import Runs

GROUP_CELLS = 10_000
"""Runs are grouped until their tables together have about this many cells (S * A * S)."""
GROUPS = 4
"""The least number of groups that the runs of an agent are divided into, where they can be."""


@dataclass(frozen=True)
class Results:
    """A results directory: its specification, its groups of runs, and how far they are to go."""

    directory: Path
    experiment: Experiment
    origin: Origin
    groups: tuple[Group, ...]
    steps: int
    """How far every run is to go."""
    extension: int
    """By how much the last `continue` asked to go further; 0 if there was none."""
    commands: tuple[dict[str, str], ...]
    identity: str
    """Marks every file as this experiment's."""

    @cached_property
    def store(self) -> Store:
        """The files of the groups."""
        return Store(self.directory, self.identity)

    def save(self) -> None:
        """Write the specification and the header: the header last, since it makes the directory."""
        spec = self.experiment.to_toml().encode()
        write_file(self.directory / "spec.toml", spec)
        content = {
            "format": FORMAT,
            "name": self.experiment.name,
            "identity": self.identity,
            "spec": hashlib.sha256(spec).hexdigest(),
            "steps": self.steps,
            "extension": self.extension,
            "commands": list(self.commands),
            "origin": self.origin.as_dict(),
            "machine": machine(),
            "groups": [
                {"environment": g.environment, "agent": g.agent, "runs": g.runs, "stem": g.stem}
                for g in self.groups
            ],
        }
        write_json(self.directory / "experiment.json", content, readable=True)

    def check_origin(self) -> None:
        """Raise unless this process computes what the one that made the directory did."""
        here = origin(tuple(name for name, _ in self.origin.versions))
        if difference := self.origin.difference(here):
            raise ValueError(
                f"{self.directory} was computed with {difference}: its runs cannot be carried on "
                "bit for bit here. Read it as it is, or run the specification anew elsewhere"
            )

    def with_command(self, command: str) -> "Results":
        """Return the same with one more line in the history."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return replace(self, commands=(*self.commands, {"command": command, "started": now}))


def new(directory: Path, experiment: Experiment) -> Results:
    """Return the results directory that `experiment` is going to have; nothing is written."""
    agents = experiment.all_agents
    extra = (getattr(make_agent(entry), "packages", ()) for entry in agents)
    packages = {*PACKAGES, *itertools.chain.from_iterable(extra)}
    groups = []
    for i, environment in enumerate(experiment.all_environments, start=1):
        mdp = make_environment(environment)
        size = _group_size(len(experiment.runs), mdp.n_states**2 * mdp.n_actions)
        for j, agent in enumerate(agents, start=1):
            for k, first in enumerate(range(0, len(experiment.runs), size)):
                stem = f"runs/{_folder(i, environment)}/{_folder(j, agent)}/{k:04d}"
                runs = experiment.runs[first : first + size]
                groups.append(Group(str(environment.label), str(agent.label), runs, stem))
    here = origin(tuple(sorted(packages)))
    identity = _identity(experiment, here)
    return Results(directory, experiment, here, tuple(groups), experiment.steps, 0, (), identity)


def open_results(directory: Path | str) -> Results:
    """Return the results directory at `directory`, its header and specification checked."""
    directory = Path(directory)
    path = directory / "experiment.json"
    if not path.is_file():
        raise ValueError(f"{directory} is not a results directory: it has no experiment.json")
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise ValueError(
            f"{directory} has format {content.get('format')!r}; this version of cpsrl reads "
            f"format {FORMAT}"
        )
    spec = directory / "spec.toml"
    try:
        raw = spec.read_bytes()
        groups = tuple(
            Group(g["environment"], g["agent"], tuple(g["runs"]), _checked_stem(g["stem"]))
            for g in content["groups"]
        )
        origin_then, commands = Origin.from_dict(content["origin"]), tuple(content["commands"])
        steps, extension = int(content["steps"]), int(content["extension"])
        identity = str(content["identity"])
    except FileNotFoundError:
        raise DamagedError(spec, "it is missing") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(path, f"it is not the header of an experiment ({error})") from None
    if hashlib.sha256(raw).hexdigest() != content.get("spec"):
        raise DamagedError(spec, "its checksum is not the one in experiment.json")
    experiment = Experiment.from_toml(raw.decode(), str(spec))
    return Results(directory, experiment, origin_then, groups, steps, extension, commands, identity)


def claim(directory: Path, experiment: Experiment, repair: bool) -> Results:
    """Return the results directory for `experiment`: what is there already, or a new one.

    Raise if something else is there. With `repair`, a damaged or missing header is made anew.
    """
    wanted = new(directory, experiment)
    header = directory / "experiment.json"
    if not header.exists():
        passing = re.compile(r"lock|spec\.toml|\..*\.tmp")
        others = sorted(p.name for p in directory.iterdir() if not passing.fullmatch(p.name))
        if not others:
            return wanted
        if not repair or not {"runs", "report"}.issuperset(others):
            raise ValueError(
                f"{directory} holds other things ({', '.join(others[:3])}): choose an empty "
                "directory or one that does not exist yet"
            )
    try:
        found = open_results(directory)
    except ValueError as error:
        if not repair or (header.exists() and not isinstance(error, DamagedError)):
            raise
        found = replace(wanted, steps=max(wanted.steps, _furthest(wanted)))
        found.save()
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
    results = open_results(directory)
    results.store.check_strangers(results.groups)
    found = [(g, s) for g in results.groups if (s := results.store.read(g, states)) is not None]
    if not found:
        raise ValueError(f"{directory} holds no runs yet: `cpsrl continue {directory}` begins them")
    reached = min(stored.step for _, stored in found)
    if reached < results.steps or len(found) < len(results.groups):
        begun, all_runs = (
            sum(len(g.runs) for g in gs) for gs in ([g for g, _ in found], results.groups)
        )
        warnings.warn(
            f"{directory} is not finished: {begun} of {all_runs} runs begun, every one of them to "
            f"step {reached:,} of {results.steps:,}; `cpsrl continue {directory}` finishes it",
            stacklevel=2,
        )
    times = found[0][1].curves.times
    for _, stored in found[1:]:
        times = np.intersect1d(times, stored.curves.times, assume_unique=True)
    return Runs.join([_as_runs(results, group, stored, times) for group, stored in found])


def _as_runs(results: Results, group: Group, stored: Stored, times: Any) -> Runs:
    kept = np.isin(stored.curves.times, times)
    rows = len(group.runs)
    return Runs(
        times=times,
        regret=stored.curves.regret[:, kept],
        resamples=stored.curves.resamples[:, kept],
        seeds=np.asarray(group.runs, dtype=np.int64),
        agent=(group.agent,) * rows,
        environment=(group.environment,) * rows,
        gain=np.asarray(stored.gain, dtype=np.float64),
        seed=results.experiment.seed,
        state=stored.state,
    )


def _identity(experiment: Experiment, where: Origin) -> str:
    lines = experiment.to_toml().splitlines()
    spec = [line for line in lines if not line.startswith("description = ")]
    text = json.dumps([FORMAT, spec, where.as_dict()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


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


def _furthest(results: Results) -> int:
    """Return the last step that any group with sound files has reached."""
    steps = [0]
    for group in results.groups:
        try:
            stored = results.store.read(group, state=False)
        except DamagedError:
            continue
        steps.append(stored.step if stored else 0)
    return max(steps)


def _group_size(runs: int, cells: int) -> int:
    """Return how many runs move on together, the fewer the larger their tables are."""
    return max(1, min(-(-runs // GROUPS), GROUP_CELLS // cells))


def _folder(number: int, entry: Entry) -> str:
    plain = re.sub(r"[^A-Za-z0-9.=]+", "-", str(entry.label)).strip("-.")
    return f"{number:02d}-{plain[:60]}".rstrip("-.").lower()


def _checked_stem(stem: str) -> str:
    if not re.fullmatch(r"runs/[A-Za-z0-9][A-Za-z0-9.=-]*/[A-Za-z0-9][A-Za-z0-9.=-]*/\d+", stem):
        raise ValueError(f"{stem!r} is no place for runs")
    return stem
