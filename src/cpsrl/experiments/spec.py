"""What an experiment is: environments, agents, steps and seeds, as dataclasses or as a TOML file.

    name = "gammas"
    steps = 100_000
    seeds = 50

    [[environments]]
    name = "riverswim"
    variant = "tsde"                      # any other key is an option of the environment

    [[agents]]
    name = "continuing-psrl"
    label = "gamma = {gamma}"             # braces take the value of an option
    grid.gamma = [0.9, 0.99, 0.999]       # one agent per value; several keys make the product

An agent's `rule`, `objective` and `prior` are looked up as well: `rule = "never"`, or
`rule = {name = "bernoulli", gamma = 0.9}`, or `prior = {rewards = "known"}`.

An environment with `per_run = "seed"` is made anew for every run, its option `seed` being that
run's own number: Bayesian regret, where every run draws its MDP from the prior.

Names are only ever looked up in the package's registries, so reading a specification runs no code
but the package's own.
"""

import itertools
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.agents import AGENTS
from cpsrl.beliefs import BELIEFS, REWARDS
from cpsrl.checks import checked_whole
from cpsrl.environments import environment
from cpsrl.mdp import TabularMDP
from cpsrl.objectives import OBJECTIVES
from cpsrl.registry import Registry, unknown
from cpsrl.resampling import RULES
from cpsrl.simulation.runs import STRIDE_POINTS, record_steps

PARTS: dict[str, Registry[Any]] = {
    "rule": RULES,
    "objective": OBJECTIVES,
    "belief": BELIEFS,
    "rewards": REWARDS,
}
"""Options of an agent that are themselves made by name, from a table or from the name alone."""

_ENTRY_KEYS = ("name", "label", "grid", "per_run")
_ANY_PROBLEM = TabularMDP([[[1.0]]], [[0.0]])
"""Stands for the problem where an agent's label is asked for, which depends on none."""


@dataclass(frozen=True)
class Entry:
    """An environment or an agent of an experiment, by its registered name.

    `grid` maps options to lists of values; an entry with a grid stands for one entry per
    combination. `per_run` (environments only) names the option that takes each run's own number.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    per_run: str | None = None

    def __hash__(self) -> int:
        return hash(repr(self))

    def expand(self) -> Iterator["Entry"]:
        """Yield one entry without a grid for every combination of the grid's values."""
        for values in itertools.product(*self.grid.values()):
            options = {**self.options, **dict(zip(self.grid, values, strict=True))}
            yield replace(self, options=options, label=_filled(self.label, options), grid={})


@dataclass(frozen=True)
class Experiment:
    """A complete specification: the same one gives the same curves, bit for bit.

    `seeds` is a number of runs or a list of run numbers, `seed` the root of all randomness, and
    `record` says which steps are kept, as in `simulate`. Everything is checked on construction, and
    kept as TOML would give it back: NumPy's numbers and arrays, tuples and ranges may be given.
    """

    name: str
    environments: tuple[Entry, ...]
    agents: tuple[Entry, ...]
    steps: int
    seeds: int | tuple[int, ...] = 50
    seed: int = 0
    record: Any = None
    description: str = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("environments", "agents"):
                value = _plain_entries(item.name, value)
            elif value is not None:
                value = _plain(item.name, value)
            object.__setattr__(self, item.name, tuple(value) if isinstance(value, list) else value)
        _check(self)

    @property
    def runs(self) -> tuple[int, ...]:
        """The numbers of the runs."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def recorded(self, steps: int) -> NDArray[np.int64]:
        """Return the recorded steps of a run of `steps`, however far it was meant to go at first.

        Without `record`, the stride is that of the steps specified, also when a run is carried on.
        """
        record = self.record
        if record is None:
            record = max(1, self.steps // STRIDE_POINTS)
        return record_steps(record, steps)

    @cached_property
    def all_environments(self) -> tuple[Entry, ...]:
        """The environments with every grid written out, each with a label of its own."""
        return _labelled(self.environments, "environment", lambda e: make_environment(e).name)

    @cached_property
    def all_agents(self) -> tuple[Entry, ...]:
        """The agents with every grid written out, each with a label of its own."""

        def own(entry: Entry) -> str:
            return str(tuned(make_agent(entry), _ANY_PROBLEM, self.steps).label)

        return _labelled(self.agents, "agent", own)

    @staticmethod
    def read(path: str | Path) -> "Experiment":
        """Read a specification from a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read the specification {path}: {_reason(error)}") from None
        return Experiment.from_toml(text, str(path))

    @staticmethod
    def from_toml(text: str, place: str = "specification") -> "Experiment":
        """Read a specification from TOML text; `place` is what errors call it."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{place} is not TOML: {error}") from None
        try:
            return _from_table(table)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None

    def to_toml(self) -> str:
        """Return the specification as TOML text that reads back as an equal one."""
        return _to_toml(self)


def make_agent(entry: Entry) -> Any:
    """Return the agent that an entry without a grid describes."""
    return AGENTS.make(entry.name, **_made_parts(entry.options))


def tuned(agent: Any, problem: TabularMDP, steps: int) -> Any:
    """Return `agent` tuned to `problem` and to a horizon of `steps`, where it asks for that."""
    return agent.resolve(problem, steps) if hasattr(agent, "resolve") else agent


def _made_parts(options: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return `options` with every part made; `place` is what errors write before its key."""
    made = dict(options)
    for part, registry in PARTS.items():
        if part not in made:
            continue
        value, where = made[part], f"{place}{part}"
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} must be a name or a table, not {value!r}")
        known = registry.names()
        name = value.get("name", known[0] if len(known) == 1 else None)
        if not isinstance(name, str):
            raise ValueError(f"{where} needs a name, one of {', '.join(known)}")
        inner = {key: inner for key, inner in value.items() if key != "name"}
        made[part] = registry.make(name, **_made_parts(inner, f"{where}."))
    return made


def make_environment(entry: Entry, run: int = 0, seed: int = 0) -> TabularMDP:
    """Return the environment of run `run` under root `seed`.

    With `per_run`, the option of that name is `seed` * 2^32 + `run`: another root draws other
    models, and root 0 gives run k the model number k.
    """
    options = dict(entry.options)
    if entry.per_run is not None:
        if entry.per_run in options:
            raise ValueError(f"option {entry.per_run!r} is set per run: it takes no other value")
        options[entry.per_run] = (seed << 32) + run
    return environment(entry.name, **options)


def _check(experiment: Experiment) -> None:
    _check_text("name", experiment.name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", experiment.name):
        raise ValueError(
            f"name {experiment.name!r} must be letters, digits, '.', '_' and '-': it names a folder"
        )
    if not isinstance(experiment.description, str):
        raise ValueError(f"description must be text, not {experiment.description!r}")
    checked_whole("steps", experiment.steps, 1)
    checked_whole("seed", experiment.seed, 0)
    if not isinstance(experiment.seeds, int | tuple):
        raise ValueError(f"seeds must be a number or a list of run numbers: {experiment.seeds!r}")
    if isinstance(experiment.seeds, int):
        checked_whole("seeds", experiment.seeds, 1)
    for run in experiment.runs:
        checked_whole("seeds", run, 0)
    if len(set(experiment.runs)) != len(experiment.runs) or not experiment.runs:
        raise ValueError("seeds must be a number of runs or a list of different run numbers")
    experiment.recorded(experiment.steps)
    for kind in ("environment", "agent"):
        entries: tuple[Entry, ...] = getattr(experiment, f"{kind}s")
        if not entries:
            raise ValueError(f"an experiment needs at least one {kind}: [[{kind}s]]")
        for number, entry in enumerate(entries, start=1):
            try:
                _check_entry(entry, kind)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{kind} {number} ({entry.name}): {error}") from None
        _ = getattr(experiment, f"all_{kind}s")
    _check_pairs(experiment)


def _check_pairs(experiment: Experiment) -> None:
    """Raise if an agent that has a say in it does not fit an environment."""
    agents = [(str(entry.label), make_agent(entry)) for entry in experiment.all_agents]
    agents = [(label, agent) for label, agent in agents if hasattr(agent, "check")]
    for entry in experiment.all_environments if agents else ():
        problem = make_environment(entry, experiment.runs[0], experiment.seed)
        for label, agent in agents:
            try:
                agent.check(problem)
            except ValueError as error:
                raise ValueError(f"{label} on {entry.label}: {error}") from None


def _check_entry(entry: Entry, kind: str) -> None:
    _check_text("name", entry.name)
    if entry.label is not None:
        _check_text("label", entry.label)
    if entry.per_run is not None and kind == "agent":
        raise ValueError("per_run is for environments: an agent has its own streams in every run")
    for key in _ENTRY_KEYS:
        if key in entry.options:
            raise ValueError(f"{key!r} is a part of the entry itself, and not one of its options")
    for option, values in entry.grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"grid.{option} must be a list of at least one value, not {values!r}")
        if option in entry.options:
            raise ValueError(f"{option!r} stands both among the options and in the grid")
    for one in entry.expand():
        _ = make_environment(one) if kind == "environment" else make_agent(one)


def _check_text(what: str, value: Any) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"{what} must be a line of text, not {value!r}")


def _plain_entries(key: str, entries: Any) -> tuple[Entry, ...]:
    """Return `entries` with their options and grids as TOML would give them back."""
    if not isinstance(entries, Iterable):
        raise ValueError(f"{key} must be a list of entries, not {entries!r}")
    plain = []
    for number, entry in enumerate(entries, start=1):
        place = f"{key[:-1]} {number}"
        if not isinstance(entry, Entry):
            raise ValueError(f"{place} must be an Entry, not {entry!r}")
        tables: dict[str, Any] = {}
        for part in ("options", "grid"):
            table = getattr(entry, part)
            if not isinstance(table, Mapping):
                raise ValueError(f"{place} ({entry.name}): {part} must be a table, not {table!r}")
            try:
                tables[part] = _plain("grid" if part == "grid" else "", table)
            except ValueError as error:
                raise ValueError(f"{place} ({entry.name}): {error}") from None
        plain.append(replace(entry, **tables))
    return tuple(plain)


def _plain(place: str, value: Any) -> Any:
    """Return `value` as TOML would give it back, or raise if TOML cannot hold it."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{place or 'options'}: a key must be text, not {key!r}")
        inside = f"{place}." if place else ""
        return {_plain(place, k): _plain(f"{inside}{k}", inner) for k, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(place, inner) for inner in value]
    if type(value) not in (str, bool, int, float):
        raise ValueError(
            f"{place} must be text, a number, true or false, a list or a table: a specification is "
            f"a file, and {type(value).__name__} objects do not fit into one"
        )
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{place} must be a number, not nan")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{place} must be text that UTF-8 can hold, not {value!r}") from None
    return value


def _from_table(table: dict[str, Any]) -> Experiment:
    known = [f.name for f in fields(Experiment)]
    for key in table:
        if key not in known:
            raise unknown("key", key, known)
    for key in ("name", "steps", "environments", "agents"):
        if key not in table:
            raise ValueError(f"{key!r} is missing")
    values = dict(table)
    for kind in ("environments", "agents"):
        if not isinstance(table[kind], list):
            raise ValueError(f"{kind} must be a list of tables: [[{kind}]]")
        values[kind] = tuple(
            _entry_from_table(entry, f"{kind[:-1]} {number}")
            for number, entry in enumerate(table[kind], start=1)
        )
    return Experiment(**values)


def _entry_from_table(table: Any, place: str) -> Entry:
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table, not {table!r}")
    if "name" not in table:
        keys = [key for key in table if key not in _ENTRY_KEYS]
        raise ValueError(f"{place} has no name" + (f" (it has {', '.join(keys)})" if keys else ""))
    if not isinstance(table.get("grid", {}), dict):
        raise ValueError(f"{place}: grid must be a table of lists, not {table['grid']!r}")
    options = {key: value for key, value in table.items() if key not in _ENTRY_KEYS}
    kept = {key: value for key, value in table.items() if key in _ENTRY_KEYS}
    return Entry(options=options, **kept)


def _labelled(
    entries: Iterable[Entry], kind: str, own: Callable[[Entry], str]
) -> tuple[Entry, ...]:
    labelled = []
    for entry in entries:
        expanded = [replace(e, label=e.label or own(e)) for e in entry.expand()]
        counts = Counter(e.label for e in expanded)
        for one in expanded:
            if counts[one.label] > 1:
                values = ", ".join(f"{key} = {_text(one.options[key])}" for key in entry.grid)
                one = replace(one, label=f"{one.label} ({values})")
            labelled.append(one)
    for label, count in Counter(e.label for e in labelled).items():
        if count > 1:
            raise ValueError(f"{count} {kind}s are called {label!r}: give each a label of its own")
    return tuple(labelled)


def _filled(label: str | None, options: Mapping[str, Any]) -> str | None:
    """Return `label` with every {option} replaced by that option's value."""
    if label is None:
        return None

    def value(match: re.Match[str]) -> str:
        if match[1] not in options:
            raise unknown("option", match[1], options, f"the label {label!r}")
        return _text(options[match[1]])

    return re.sub(r"\{([^{}]*)\}", value, label)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k} = {_text(v)}" for k, v in value.items() if k != "name")
        return " ".join(filter(None, [str(value.get("name", "")), inner]))
    if isinstance(value, list | tuple):
        return ", ".join(_text(v) for v in value)
    return str(value)


def _to_toml(experiment: Experiment) -> str:
    lines = []
    for item in fields(Experiment):
        value = getattr(experiment, item.name)
        if item.name not in ("environments", "agents") and value not in (None, ""):
            lines.append(f"{item.name} = {_toml(value)}")
    for kind in ("environments", "agents"):
        for entry in getattr(experiment, kind):
            lines += ["", f"[[{kind}]]", f"name = {_toml(entry.name)}"]
            for key in ("label", "per_run"):
                if getattr(entry, key) is not None:
                    lines.append(f"{key} = {_toml(getattr(entry, key))}")
            lines += [f"{_toml_key(key)} = {_toml(v)}" for key, v in entry.options.items()]
            lines += [f"grid.{_toml_key(key)} = {_toml(v)}" for key, v in entry.grid.items()]
    return "\n".join(lines) + "\n"


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
