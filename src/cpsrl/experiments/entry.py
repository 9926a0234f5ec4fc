"""An environment or an agent of an experiment, by its registered name or as itself."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cpsrl.experiments.models import ModelFile
from cpsrl.experiments.values import in_words, plain, toml_lines
from cpsrl.registry import unknown

KEYS = ("name", "label", "grid", "per_run", "file", "sha256")
"""The keys of an entry that are not options."""


def as_call(settings: Any) -> str:
    """Return a dataclass as the call that makes it, without what is as by default."""
    given = []
    for item in fields(settings):
        value = getattr(settings, item.name)
        made = item.default_factory
        if value != (item.default if made is MISSING else made()):
            given.append(f"{item.name}={value!r}")
    return f"{type(settings).__name__}({', '.join(given)})"


@dataclass(frozen=True, repr=False)
class Entry:
    """An environment or an agent of an experiment.

    Args:
        name: the registered name; or the environment itself, a TabularMDP or a file with one; or
            the agent itself, an object of a registered class.
        options: what the environment or agent is made with.
        label: what to call it; {option} in it stands for the value of that option.
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
            if match[1] not in options:
                raise unknown("option", match[1], options, f"the label {self.label!r}")
            return in_words(options[match[1]])

        for values in itertools.product(*self.grid.values()):
            options = {**self.options, **dict(zip(self.grid, values, strict=True))}
            label = self.label and re.sub(r"\{([^{}]*)\}", value, self.label)
            yield replace(self, options=options, label=label, grid={})


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
