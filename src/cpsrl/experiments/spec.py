"""What an experiment is: environments, agents, steps and seeds, as a dataclass or as a TOML file.

    name = "gammas"
    steps = 100_000
    seeds = 50

    [[environments]]
    name = "riverswim"
    variant = "tsde"                      # any other key is an option of the environment

    [[agents]]
    name = "continuing-psrl"
    label = "gamma = {gamma}"             # braces take the value of an option, {{ is a brace
    grid.gamma = [0.9, 0.99, 0.999]       # one agent per value; several keys make the product

An agent's `rule`, `objective` and `belief` are looked up as well: `rule = "never"`, or
`rule = {name = "bernoulli", gamma = 0.9}`, or `belief = {rewards = "known"}`.

`file = "machine.csv"` in place of an environment's name is a model of one's own, a file beside the
TOML file that `cpsrl.TabularMDP.load` reads.

An environment with `per_run = "seed"` is made anew for every run, its option `seed` being that
run's own number: Bayesian regret, where every run draws its MDP from the prior.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any

from cpsrl.agents.agent import Agent
from cpsrl.agents.codec import as_call
from cpsrl.experiments.entry import (
    Entry,
    check_text,
    labelled,
    make_agent,
    make_environment,
    packages_of,
    written,
)
from cpsrl.experiments.models import ModelFile, named_apart
from cpsrl.experiments.values import plain, toml_lines
from cpsrl.simulation.runs import STRIDE_POINTS, record_steps
from cpsrl.simulation.simulate import run_numbers
from cpsrl.support.checks import checked_whole
from cpsrl.support.registry import unknown
from cpsrl.support.serialise import DamagedError
from cpsrl.support.types import Ints

HERE = Path()
KINDS = ("environments", "agents")
KEPT = 1024
"""How many environments and agents are kept; those made for every run anew may be more."""
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "_specifications", _PACKAGE.parents[1] / "experiments")
"""Where an installed package has them, and where a checkout has them."""


@dataclass(frozen=True, repr=False)
class Experiment:
    """A complete specification: the same one gives the same curves, bit for bit.

    Everything is checked on construction, every agent on every environment included, and kept as
    TOML would give it back: NumPy's numbers and arrays, tuples and ranges may be given.

    Args:
        name: of the experiment; it names a folder.
        environments: an `Entry` each, or its name, or a TabularMDP.
        agents: an `Entry` each, or its name, or an object of a registered class.
        steps: of every run.
        seeds: a number of runs, or a list of run numbers.
        seed: the root of all randomness.
        record: which steps are kept, as in `simulate`.
        description: a sentence for lists and reports.
    """

    name: str
    environments: tuple[Any, ...]
    agents: tuple[Any, ...]
    steps: int
    seeds: int | tuple[int, ...] = 50
    seed: int = 0
    record: Any = None
    description: str = ""

    __repr__ = as_call

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in KINDS:
                value = _entries(item.name, value)
            elif value is not None:
                value = plain(item.name, value)
            object.__setattr__(self, item.name, tuple(value) if isinstance(value, list) else value)
        self._check()
        for environment in self.all_environments:
            for agent in self.all_agents:
                try:
                    self.agent(agent, environment).check(self.problem(environment))
                except ValueError as error:
                    raise ValueError(f"{agent.called} on {environment.called}: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def _check(self) -> None:
        check_text("name", self.name)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name):
            raise ValueError(
                f"name {self.name!r} must be letters, digits, '.', '_' and '-': it names a folder"
            )
        if not isinstance(self.description, str):
            raise ValueError(f"description must be text, not {self.description!r}")
        checked_whole("steps", self.steps, 1)
        checked_whole("seed", self.seed, most=None)
        if not isinstance(self.seeds, int | tuple):
            raise ValueError(f"seeds must be a number or a list of run numbers: {self.seeds!r}")
        run_numbers(self.seeds)
        self.recorded(self.steps)

    @property
    def models(self) -> tuple[ModelFile, ...]:
        """The files of the environments that are files, each once."""
        names = (entry.name for entry in self.environments)
        return tuple(dict.fromkeys(name for name in names if isinstance(name, ModelFile)))

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The packages beyond the package's own that names come from and agents compute with."""
        found = set()
        for environment in self.all_environments:
            found |= packages_of(environment, "environment")
        for agent in self.all_agents:
            made = self.agent(agent, self.all_environments[0])
            found |= packages_of(agent, "agent") | set(made.packages)
        return tuple(sorted(found))

    def check_packages(self) -> None:
        """Raise a ValueError if an agent needs a package that is not here."""
        for agent in self.all_agents:
            self.agent(agent, self.all_environments[0]).check_packages()

    @property
    def runs(self) -> tuple[int, ...]:
        """The numbers of the runs."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def with_seeds(self, seeds: int | tuple[int, ...]) -> "Experiment":
        """Return the experiment with other runs, and with all that has been built of this one."""
        other = object.__new__(Experiment)
        vars(other).update(vars(self) | {"seeds": seeds})
        return other

    def recorded(self, steps: int) -> Ints:
        """Return the recorded steps of a run of `steps`, however far it was meant to go at first.

        Without `record`, the stride is that of the steps specified, also when a run is carried on.
        """
        stride = max(1, self.steps // STRIDE_POINTS)
        return record_steps(stride if self.record is None else self.record, steps)

    @cached_property
    def all_environments(self) -> tuple[Entry, ...]:
        """The environments with every grid written out, each with a label of its own."""

        def name(entry: Entry) -> str:
            return str(self._once(make_environment, _bare(entry), 0, 0).name)

        return labelled("environment", self.environments, name)

    @cached_property
    def all_agents(self) -> tuple[Entry, ...]:
        """The agents with every grid written out, each with a label of its own."""
        first = self.all_environments[0]
        return labelled("agent", self.agents, lambda entry: self.agent(entry, first).label)

    def problem(self, environment: Entry, run: int | None = None) -> Any:
        """Return one of `all_environments` as run `run` meets it, by default the first run.

        It is a TabularMDP, or an `Environment` of pure functions.
        """
        if environment.per_run is None:
            return self._once(make_environment, _bare(environment), 0, 0)
        run = self.runs[0] if run is None else run
        return self._once(make_environment, _bare(environment), run, self.seed)

    def agent(self, agent: Entry, environment: Entry, run: int | None = None) -> Agent:
        """Return one of `all_agents` tuned to an environment and to the steps specified."""
        tuned = self._once(make_agent, _bare(agent)).resolve
        return self._once(tuned, self.problem(environment, run), self.steps)

    @cached_property
    def _once(self) -> Callable[..., Any]:
        """Return the result of a function, memoised by its arguments.

        One thread makes it while others wait: a cache alone lets two make the same.
        """
        lock, made = RLock(), lru_cache(KEPT)(lambda make, *arguments: make(*arguments))

        def once(*call: Any) -> Any:
            with lock:
                return made(*call)

        return once

    @staticmethod
    def read(path: str | Path, **changes: Any) -> "Experiment":
        """Read a specification from a TOML file; `changes` are keys in place of the file's."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"cannot read the specification {path}: {reason}") from None
        return Experiment.from_toml(text, str(path), Path(path).parent, **changes)

    @staticmethod
    def from_toml(
        text: str, place: str = "specification", folder: Path = HERE, **changes: Any
    ) -> "Experiment":
        """Read a specification from TOML text.

        Args:
            text: the TOML.
            place: what errors call it.
            folder: where the files that it names are looked for.
            changes: keys in place of the text's.
        """
        try:
            return _from_table(tomllib.loads(text) | changes, folder)
        except DamagedError:
            raise
        except tomllib.TOMLDecodeError as error:
            hint = ""
            if re.search(r"[=\[,]\s*[-+]?\.\d", text):
                hint = "; a number begins with a digit in TOML: 0.9, not .9"
            raise ValueError(f"{place} is not TOML: {error}{hint}") from None
        except RecursionError:
            raise ValueError(f"{place} is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None

    def to_toml(self) -> str:
        """Return the specification as TOML text, from which `models` lets an equal one be read."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        entries = {kind: own.pop(kind) for kind in KINDS}
        lines = toml_lines({key: value for key, value in own.items() if value not in (None, "")})
        for kind, some in entries.items():
            for entry in some:
                lines += ["", f"[[{kind}]]", *entry.to_toml()]
        return "\n".join(lines) + "\n"


def shipped() -> dict[str, Path]:
    """Return the specification files by name."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return {path.stem: path for path in sorted(folder.glob("*.toml"))} if folder else {}


def find_experiment(spec: str, **changes: Any) -> Experiment:
    """Return the experiment that `spec` names: a TOML file, or one that comes with the package.

    `changes` are keys in place of the file's.
    """
    if spec in (known := shipped()):
        return Experiment.read(known[spec], **changes)
    if Path(spec).is_dir():
        raise ValueError(
            f"{spec} is a directory, and an experiment is a TOML file; runs of a results directory "
            "are carried on by `cpsrl continue`"
        )
    if spec.endswith(".toml") or Path(spec).exists():
        return Experiment.read(spec, **changes)
    raise unknown("experiment", spec, known)


def _bare(entry: Entry) -> Entry:
    """Return an entry without its label, which does not change what is made."""
    return replace(entry, label=None)


def _entries(key: str, entries: Any) -> tuple[Entry, ...]:
    """Return the entries of an experiment as TOML would give them back, checked."""
    kind = key.removesuffix("s")
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        such = f", such as [{entries!r}]," if isinstance(entries, str) else ","
        raise ValueError(f"{key} must be a list of entries{such} not {entries!r}")
    found = []
    for number, given in enumerate(entries, start=1):
        place = f"{kind} {number}"
        try:
            entry = written(given if isinstance(given, Entry) else Entry(given), kind)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        if entry.per_run is not None and kind == "agent":
            raise ValueError(f"{place}: per_run is for environments: an agent has its own streams")
        found.append(entry.as_plain(place))
    if not found:
        raise ValueError(f"an experiment needs at least one {kind}: [[{key}]]")
    files = named_apart(entry.name for entry in found if isinstance(entry.name, ModelFile))
    return tuple(replace(entry, name=files.get(entry.name, entry.name)) for entry in found)


def _from_table(table: dict[str, Any], folder: Path) -> Experiment:
    known = [item.name for item in fields(Experiment)]
    for key in table:
        if key not in known:
            raise unknown("key", key, known)
    for key in ("name", "steps", *KINDS):
        if key not in table:
            raise ValueError(f"{key!r} is missing")
    entries = {}
    for kind in KINDS:
        if not isinstance(table[kind], list):
            raise ValueError(f"{kind} must be a list of tables: [[{kind}]]")
        entries[kind] = tuple(
            Entry.from_table(entry, f"{kind.removesuffix('s')} {number}", folder)
            for number, entry in enumerate(table[kind], start=1)
        )
    return Experiment(**{**table, **entries})
