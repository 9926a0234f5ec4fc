"""An environment or an agent of an experiment, by its registered name or as itself."""

import inspect
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cpsrl.agents.agent import Agent, shown_agent
from cpsrl.agents.codec import as_call, make, packages, settings_of, to_table
from cpsrl.environments import ENVIRONMENTS, environment, with_features
from cpsrl.environments.pure import Environment
from cpsrl.experiments.models import ModelFile
from cpsrl.experiments.values import in_words, plain, toml_lines
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.files import FILES
from cpsrl.support.registry import unknown

KEYS = ("name", "label", "grid", "per_run", "file", "sha256")
"""The keys of an entry that are not options."""


@dataclass(frozen=True, repr=False)
class Entry:
    """An environment or an agent of an experiment.

    Args:
        name: the registered name; or the environment itself, a TabularMDP or a file with one; or
            the agent itself, an object of a registered class.
        options: what the environment or agent is made with.
        label: what to call it; {option} in it stands for the value of that option, {{ and }} for
            braces.
        grid: lists of values by option: the entry stands for one entry per combination.
        per_run: (environments only) the option that takes each run's own number.
    """

    name: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    per_run: str | None = None

    __repr__ = as_call

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def called(self) -> str:
        """What to call it: its label, or else its name."""
        return self.label or str(self.name)

    @staticmethod
    def from_table(table: Any, place: str, folder: Path) -> "Entry":
        """Return the entry that a table of a TOML file in `folder` describes, at its `place`."""
        if not isinstance(table, dict):
            raise ValueError(f"{place} must be a table, not {table!r}")
        options = {key: value for key, value in table.items() if key not in KEYS}
        own = {key: table[key] for key in KEYS if key in table}
        file, expected = own.pop("file", None), own.pop("sha256", None)
        if file is not None:
            check_text(f"{place}: file", file)
            if "name" in own:
                raise ValueError(f"{place} has a name and a file: one of them is enough")
            own["name"] = ModelFile.read(folder / file, expected)
        elif "name" not in own:
            has = f" (it has {', '.join(options)})" if options else ""
            raise ValueError(f"{place} has no name{has}")
        return Entry(options=options, **own)

    def to_toml(self) -> list[str]:
        """Return the lines of the table that `from_table` reads."""
        own = {key: getattr(self, key) for key in ("name", "label", "per_run")}
        if isinstance(self.name, ModelFile):
            own = own | {"name": None, "file": self.name.place, "sha256": self.name.sha256}
        own = {key: value for key, value in own.items() if value is not None}
        return [*toml_lines(own), *toml_lines(self.options), *toml_lines(self.grid, "grid.")]

    def as_plain(self, place: str) -> "Entry":
        """Return the entry with its options and grid as TOML would give them back, checked."""
        try:
            for part in ("options", "grid"):
                if not isinstance(table := getattr(self, part), Mapping):
                    raise ValueError(f"{part} must be a table, not {table!r}")
            kept = replace(self, options=plain("", self.options), grid=plain("grid", self.grid))
            kept._check()
            return kept
        except ValueError as error:
            raise ValueError(f"{place} ({self.name}): {error}") from None

    def _check(self) -> None:
        if not isinstance(self.name, ModelFile):
            check_text("name", self.name)
        elif self.per_run is not None:
            raise ValueError("per_run is for environments by name: a file holds one model")
        if self.label is not None:
            check_text("label", self.label)
        for key in KEYS:
            if key in self.options:
                raise ValueError(
                    f"{key!r} is a part of the entry itself, and not one of its options"
                )
        for option, values in self.grid.items():
            if not isinstance(values, list) or not values:
                raise ValueError(
                    f"grid.{option} must be a list of at least one value, not {values!r}"
                )
            if option in self.options:
                raise ValueError(f"{option!r} stands both among the options and in the grid")

    def expand(self) -> Iterator["Entry"]:
        """Yield one entry without a grid for every combination of the grid's values."""

        def value(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            if match[1] not in options:
                place = f"the label {self.label!r}, where a brace itself is written twice"
                raise unknown("option", match[1], options, place)
            return in_words(options[match[1]])

        for values in itertools.product(*self.grid.values()):
            options = {**self.options, **dict(zip(self.grid, values, strict=True))}
            label = self.label and re.sub(r"\{\{|\}\}|\{([^{}]*)\}", value, self.label)
            yield replace(self, options=options, label=label, grid={})


def make_agent(entry: Entry) -> Agent:
    """Return the agent that an entry without a grid describes, its parts made by their names."""
    return make(("agent",), entry.name, entry.options)


def make_environment(entry: Entry, run: int = 0, seed: int = 0) -> TabularMDP | Environment:
    """Return the environment of run `run` under root `seed`.

    With `per_run`, the option of that name is `seed` * 2^32 + `run`: another root draws other
    models, and root 0 gives run k the model number k.
    """
    options = dict(entry.options)
    if entry.per_run is not None:
        if entry.per_run in options:
            raise ValueError(f"option {entry.per_run!r} is set per run: it takes no other value")
        options[entry.per_run] = (seed << 32) + run
    if not isinstance(entry.name, ModelFile):
        if Path(entry.name).suffix in FILES and entry.name not in ENVIRONMENTS:
            raise ValueError(
                f"{entry.name} is a file: a specification says file = {entry.name!r} in place of "
                f"name = {entry.name!r}, and Python takes cpsrl.TabularMDP.load({entry.name!r})"
            )
        return environment(entry.name, **options)
    reading = list(inspect.signature(TabularMDP.load).parameters)[1:]
    features = list(inspect.signature(with_features).parameters)[1:]
    for option in options:
        if option not in (*reading, *features):
            raise unknown("option", option, (*reading, *features), f"the model {entry.name}")
    mdp = entry.name.load(**{key: options.pop(key) for key in reading if key in options})
    return with_features(mdp, **options)


def written(entry: Entry, kind: str) -> Entry:
    """Return an entry whose environment or agent is given as itself as a file can hold it."""
    thing = entry.name
    if isinstance(thing, str):
        return entry
    if kind == "environment":
        if isinstance(thing, ModelFile):
            return entry
        if isinstance(thing, TabularMDP):
            return replace(entry, name=ModelFile.of(thing))
        raise ValueError(f"an environment is a name or a TabularMDP, not {thing!r}")
    if not isinstance(thing, Agent):
        raise ValueError(
            "an agent is a name or an object of a registered class, which a file can name (derive "
            'your own from cpsrl.agents.Agent and enter it with @cpsrl.register("agent", NAME)), '
            f"not {shown_agent(thing)}"
        )
    if entry.options or entry.grid:
        raise ValueError(f"{thing.label} is given as itself, so it takes no options and no grid")
    table = to_table(thing)
    bare = Entry(table.pop("name"), table).as_plain("agent")
    again = make_agent(bare)
    if settings_of(again) != settings_of(thing):
        raise ValueError(f"{thing.label} cannot be written as settings that make it again")
    own = re.sub(r"[{}]", r"\g<0>\g<0>", thing.label)
    label = entry.label or (None if again.label == thing.label else own)
    return replace(bare, label=label, per_run=entry.per_run)


def packages_of(entry: Entry, kind: str) -> set[str]:
    """Return the installed packages that the names in an entry without a grid come from."""
    name = entry.name if isinstance(entry.name, str) else ""
    return set(packages((kind,), name, entry.options)) - {""}


def labelled(
    kind: str, entries: Iterable[Entry], name_of: Callable[[Entry], str]
) -> tuple[Entry, ...]:
    """Return the entries with every grid written out, each with a label of its own.

    One without a label is called what `name_of` says, which is asked about every one of them.
    """
    found = []
    for number, entry in enumerate(entries, start=1):
        try:
            named = [(one, name_of(one)) for one in entry.expand()]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{kind} {number} ({entry.name}): {error}") from None
        counts = Counter(one.label or name for one, name in named)
        for one, name in named:
            label = one.label or name
            if counts[label] > 1:
                values = ", ".join(f"{key} = {in_words(one.options[key])}" for key in entry.grid)
                label = f"{label} ({values})"
            found.append(replace(one, label=label))
    for label, count in Counter(one.called for one in found).items():
        if count > 1:
            raise ValueError(f"{count} {kind}s are called {label!r}: give each a label of its own")
    return tuple(found)


def check_text(what: str, value: Any) -> None:
    """Raise a ValueError unless `value` is a line of text."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"{what} must be a line of text, not {value!r}")
