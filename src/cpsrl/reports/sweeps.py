"""Options that an experiment varies, and regret against each of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cpsrl.experiments.entry import Entry
from cpsrl.experiments.values import in_words
from cpsrl.reports.summary import Row
from cpsrl.statistics import Interval

Point = tuple[float, str, Interval]
"""A value of the option, the agent or environment that has it, and the mean final regret."""


@dataclass(frozen=True)
class Sweep:
    """Mean final regret against a numeric option of agents or of environments.

    Attributes:
        option: its name; one of a part of an agent is written `part.option`.
        lines: the points of entries that differ in nothing else, in the order of their values.
        levels: the agents that don't have the option, by label.
    """

    option: str
    lines: dict[str, list[Point]]
    levels: dict[str, Interval]

    @property
    def values(self) -> list[float]:
        """All values of the option, in order."""
        return sorted({value for points in self.lines.values() for value, _, _ in points})

    def place(self, value: float) -> float:
        """Return where a value stands on the axis: a gamma at its horizon 1 / (1 - gamma)."""
        return 1 / (1 - value) if self.logarithmic and self._gamma else value

    @property
    def logarithmic(self) -> bool:
        """Whether the axis is: for every gamma below 1, and for numbers of different size."""
        least, most = self.values[0], self.values[-1]
        return most < 1 if self._gamma else 0 < 8 * least <= most

    @property
    def _gamma(self) -> bool:
        return self.option.rpartition(".")[2] == "gamma"


def of_agents(entries: Sequence[Entry], rows: Sequence[Row]) -> list[Sweep]:
    """Return the options that agents differ in, against their `rows` on one environment."""
    regret = {row.agent: row.regret for row in rows}
    found = []
    for option, lines in _varied([entry for entry in entries if entry.called in regret]).items():
        points = {
            name: [(value, label, regret[label]) for value, label in line]
            for name, line in lines.items()
        }
        inside = {label for line in lines.values() for _, label in line}
        levels = {label: value for label, value in regret.items() if label not in inside}
        found.append(Sweep(option, points, levels))
    return found


def of_environments(entries: Sequence[Entry], rows: Sequence[Row]) -> list[Sweep]:
    """Return the options that environments differ in, each with a line for every agent."""
    regret = {(row.agent, row.environment): row.regret for row in rows}
    agents = dict.fromkeys(row.agent for row in rows)
    found = []
    for option, lines in _varied(entries).items():
        for line in lines.values():
            points = {
                agent: [
                    (v, place, regret[agent, place])
                    for v, place in line
                    if (agent, place) in regret
                ]
                for agent in agents
            }
            kept = {agent: some for agent, some in points.items() if len(some) > 1}
            if kept:
                found.append(Sweep(option, kept, {}))
    return found


def _varied(entries: Iterable[Entry]) -> dict[str, dict[str, list[tuple[float, str]]]]:
    """Return values and labels of entries that differ in one numeric option, by option and rest."""
    found: dict[str, dict[str, list[tuple[float, str]]]] = {}
    for entry in entries:
        flat = dict(_flat(entry.options))
        for option, value in flat.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = [f"{k} = {in_words(v)}" for k, v in sorted(flat.items()) if k != option]
                lines = found.setdefault(option, {})
                lines.setdefault(", ".join([str(entry.name), *rest]), []).append(
                    (value, entry.called)
                )
    varied = {
        option: {rest: sorted(line) for rest, line in lines.items() if len(line) > 1}
        for option, lines in found.items()
    }
    return {option: lines for option, lines in varied.items() if lines}


def _flat(options: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
