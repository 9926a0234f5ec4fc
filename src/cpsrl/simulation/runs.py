"""What a simulation gives: regret curves, one row a run, and where every run stands."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.environments.pure import EXACT, KNOWN, UPPER
from cpsrl.pages.notebook import table
from cpsrl.registry import unknown
from cpsrl.statistics import Comparison, mean
from cpsrl.statistics import comparisons as compared
from cpsrl.types import Floats, Ints

LOG_POINTS = 32
"""Points of the "log" grid in every decade."""

STRIDE_POINTS = 200
"""About how many points are recorded where nothing else is asked for."""


MOST_POINTS = 10_000_000
"""So many points of a run can be recorded."""


def against_words(reference: str) -> str:
    """Return what regret is counted against, in words; empty where that is the optimal gain."""
    words = {UPPER: "an upper bound of the gain", KNOWN: "the best known policy's gain"}
    return f"against {words[reference]}" if reference in words else ""


class _WhenAskedFor:
    """A field that may be given as a function, called when the field is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return None
        value = instance.__dict__[self.name]
        if callable(value):
            value = instance.__dict__[self.name] = value()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value


@dataclass(frozen=True, eq=False)
class Runs:
    """Recorded runs.

    Attributes:
        times: `(points,)` the recorded steps.
        regret: `(rows, points)` t times the optimal gain of the run's first state, or what stands
            for it, minus the rewards realised up to step t; where the world changes, the sum over
            the steps of the optimal gain of the model of the moment, minus those rewards.
        resamples: `(rows, points)` number of resamplings up to step t.
        seeds: `(rows,)` the number of each run.
        agent: label of the agent, one a row.
        environment: name of the environment, one a row.
        gain: `(rows,)` the optimal gain, or the reference that stands for it; that of the first
            model, where the world changes.
        seed: the root seed.
        state: for each row, all that is needed to go on from there; None where that is unknown.
        resample_times: on request, for each row the steps that resampled.
        trajectory: on request, for each row `states` (n + 1,), `actions` (n,), `rewards` (n,).
        discounted_regret: on request, `(rows, points)`: the sum over pseudo-episodes k begun up to
            step t of V*(s_k) - V_k(s_k), the gamma-discounted values in the true MDP of the optimal
            policy and of that of the pseudo-episode at its first state (Xu et al. 2024, eq. 6).
        reference: what `gain` is, one a row: "exact", "upper bound" or "best known policy" (see
            `cpsrl.environments.pure`).
        by_agent: of a fleet, `(rows, agents, points)`: the regret of each of its agents, whose mean
            is `regret`; None where runs of fleets of different sizes were joined.
    """

    times: Ints
    regret: Floats
    resamples: Ints
    seeds: Ints
    agent: tuple[str, ...]
    environment: tuple[str, ...]
    gain: Floats
    seed: int
    state: Any = _WhenAskedFor()
    resample_times: tuple[Ints, ...] | None = None
    trajectory: tuple[dict[str, NDArray[Any]], ...] | None = None
    discounted_regret: Floats | None = None
    by_agent: Floats | None = None
    reference: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.reference:
            object.__setattr__(self, "reference", (EXACT,) * len(self.seeds))

    def __repr__(self) -> str:
        last = f"to step {self.times[-1]:,}" if len(self.times) else "without a recorded step"
        kinds = [
            f"{agent} on {place}" for agent, place in zip(self.agent, self.environment, strict=True)
        ]
        lines = []
        for kind in dict.fromkeys(kinds):
            rows = [row for row, mine in enumerate(kinds) if mine == kind]
            runs = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
            regret = f", mean regret {self.regret[rows, -1].mean():,.6g}" if len(self.times) else ""
            against = against_words(self.reference[rows[0]])
            lines.append(f"{kind}: {runs} {last}{regret}{against and f' ({against})'}")
        return f"Runs({lines[0]})" if len(lines) == 1 else "\n    ".join(["Runs(", *lines]) + ")"

    @property
    def agents(self) -> tuple[str, ...]:
        """The labels of the agents, each once."""
        return tuple(dict.fromkeys(self.agent))

    @property
    def environments(self) -> tuple[str, ...]:
        """The names of the environments, each once."""
        return tuple(dict.fromkeys(self.environment))

    def select(self, agent: str | None = None, environment: str | None = None) -> "Runs":
        """Return the rows of one agent, or of one environment, or of both."""
        if agent is not None and agent not in self.agent:
            raise unknown("agent", agent, self.agents)
        if environment is not None and environment not in self.environment:
            raise unknown("environment", environment, self.environments)
        return self._rows(
            [
                row
                for row in range(len(self.seeds))
                if agent in (None, self.agent[row]) and environment in (None, self.environment[row])
            ]
        )

    def at(self, times: Ints) -> "Runs":
        """Return the same rows at those of `times` that were recorded."""
        kept = np.isin(self.times, times)
        names = ("regret", "resamples", "discounted_regret", "by_agent")
        points = {n: v[..., kept] for n in names if (v := getattr(self, n)) is not None}
        return replace(self, times=self.times[kept], **points)

    def _rows(self, rows: list[int]) -> "Runs":
        picked: dict[str, Any] = {}
        for name in _BY_ROW:
            values = getattr(self, name)
            if isinstance(values, tuple):
                picked[name] = tuple(values[row] for row in rows)
            elif values is not None:
                picked[name] = values[rows]
        return replace(self, **picked)

    @staticmethod
    def join(parts: Sequence["Runs"]) -> "Runs":
        """Return all rows of `parts`, which must have the same times and root seed."""
        if not parts:
            raise ValueError("there are no runs to join")
        first = parts[0]
        for part in parts[1:]:
            if not np.array_equal(part.times, first.times):
                raise ValueError("runs that were recorded at different steps cannot be joined")
            if part.seed != first.seed:
                raise ValueError(
                    f"runs of different root seeds ({first.seed}, {part.seed}) cannot be joined"
                )
        joined: dict[str, Any] = {}
        for name in _BY_ROW:
            values = [getattr(part, name) for part in parts]
            if any(value is None for value in values):
                joined[name] = None
            elif isinstance(values[0], tuple):
                joined[name] = sum(values, ())
            elif len({value.shape[1:] for value in values}) > 1:  # of fleets of different sizes
                joined[name] = None
            else:
                joined[name] = np.concatenate(values)
        return replace(first, **joined)

    def then(self, later: "Runs") -> "Runs":
        """Return these points followed by the `later` ones of the same rows, which go on from here.

        What `simulate` keeps on request only is left out.
        """
        if not np.array_equal(self.seeds, later.seeds) or self.agent != later.agent:
            raise ValueError("the later points are those of other runs")
        fields: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(later, name)], axis=-1)
            for name in ("times", "regret", "resamples")
        }
        fields |= dict.fromkeys(("resample_times", "trajectory", "discounted_regret", "by_agent"))
        return replace(later, **fields, state=later.state_as_given)

    @property
    def state_as_given(self) -> Any:
        """The state, or the function that gives it, not called yet."""
        return self.__dict__["_state"]

    def _repr_html_(self) -> str:
        rows = []
        for environment in self.environments if len(self.times) else ():
            here = self.select(environment=environment)
            for agent in here.agents:
                one = here.select(agent=agent)
                regret = mean(one.regret[:, -1])
                known = np.isfinite([regret.low, regret.high]).all()
                interval = f"[{regret.low:,.6g}, {regret.high:,.6g}]" if known else "-"
                drawn = one.resamples[:, -1].mean()
                rows.append((environment, agent, len(one.seeds), regret.value, interval, drawn))
        title = f"Runs to step {self.times[-1]:,}" if rows else repr(self)
        headings = "environment", "agent", "runs", "mean regret", "95% interval", "resamplings"
        note = f"root seed {self.seed}; plot() draws them, compare() compares them"
        return table(title, headings, rows, note)

    def plot(self, ax: Any = None, logarithmic: bool = False) -> Any:
        """Draw mean regret with 95% bands; return the matplotlib axes.

        Args:
            ax: axes to draw into; None makes new ones.
            logarithmic: both axes are.
        """
        if len(self.environments) != 1 or not len(self.times):
            raise ValueError(
                f"a plot is of recorded runs on one environment, and here are "
                f"{', '.join(self.environments) or 'none'}: take runs.select(environment=...)"
            )
        figures = import_module("cpsrl.reports.figures")  # upstairs, and matplotlib with it
        with figures.style():
            if ax is None:
                pyplot = import_module("matplotlib.pyplot")
                _, ax = pyplot.subplots(figsize=(7.2, 3.6), layout="constrained")
            figures.regret_curves(ax, self, logarithmic)
            runs = np.unique(self.agent, return_counts=True)[1]
            each = f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
            ax.set_title(f"{self.environments[0]}: mean of {each} runs, 95% bands")
        return ax

    def comparisons(self) -> dict[str, list[Comparison]]:
        """Return all pairs of agents by environment, where the agents have the same runs."""
        found = {}
        for environment in self.environments if len(self.times) else ():
            here = self.select(environment=environment)
            finals = {}
            for agent in here.agents:
                one = here.select(agent=agent)
                last = one.regret[:, -1].tolist()
                finals[agent] = dict(zip(one.seeds.tolist(), last, strict=True))
            if len({frozenset(final) for final in finals.values()}) == 1 and len(finals) > 1:
                seeds = sorted(next(iter(finals.values())))
                values = {agent: [final[s] for s in seeds] for agent, final in finals.items()}
                found[environment] = compared(values)
        return found

    def compare(self) -> Any:
        """Return the paired comparisons of regret at the last step as a pandas data frame.

        A row for each pair of agents on the same runs of an environment: the mean of the first
        less the second, its 95% interval, and the p-value adjusted for all pairs there. Below 0,
        the first is better.
        """
        found = self.comparisons()
        if not found:
            raise ValueError(
                "there are no two agents with the same runs on one environment: compare takes runs "
                "of several, such as Runs.join([simulate(a, mdp), simulate(b, mdp)])"
            )
        rows = [
            {
                "environment": environment,
                "first": pair.first,
                "second": pair.second,
                "difference": pair.difference.value,
                "low": pair.difference.low,
                "high": pair.difference.high,
                "p": pair.p,
                "runs": len(self.select(pair.first, environment).seeds),
            }
            for environment, pairs in found.items()
            for pair in pairs
        ]
        return _needed("pandas").DataFrame(rows)

    def to_pandas(self) -> Any:
        """Return the curves as a pandas data frame in long form."""
        return _needed("pandas").DataFrame(self._long())

    def to_polars(self) -> Any:
        """Return the curves as a polars data frame in long form."""
        return _needed("polars").DataFrame(self._long())

    def _long(self) -> dict[str, Any]:
        rows, points = self.regret.shape
        return {
            "environment": np.repeat(np.array(self.environment, dtype=object), points),
            "agent": np.repeat(np.array(self.agent, dtype=object), points),
            "seed": np.repeat(self.seeds, points),
            "step": np.tile(self.times, rows),
            "regret": self.regret.ravel(),
            "resamples": self.resamples.ravel(),
        }


def _needed(package: str) -> Any:
    """Return a package that is not among the package's own needs, or say how to get it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"{package} is not installed: `pip install {package}`, or use the arrays of the runs "
            "(times, regret, resamples, seeds)",
            name=package,
        ) from None


_BY_ROW = tuple(f.name for f in fields(Runs) if f.name not in ("times", "seed"))


def record_steps(record: Any, steps: int, first: int = 1) -> Ints:
    """Return which of the steps first, ..., first + steps - 1 are recorded.

    Args:
        record: a stride k (the multiples of k), "log" (a grid with 32 points a decade, anchored at
            step 1), or None for a stride that gives about 200 points, each with the last step as
            well; or an array of exactly the steps to record.
        steps: how many steps are taken.
        first: the first of them.
    """
    last = first + steps - 1
    if record is None:
        record = max(1, steps // STRIDE_POINTS)
    if isinstance(record, str):
        if record != "log":
            raise unknown("record", record, ("log",))
        points = np.arange(int(np.ceil(LOG_POINTS * np.log10(last))) + 1)
        wanted = np.append(np.rint(10.0 ** (points / LOG_POINTS)), last)
    elif isinstance(record, int | np.integer) and not isinstance(record, bool):
        if record < 1:
            raise ValueError(f"record must be a stride of at least 1, not {record}")
        begin = -(-first // int(record)) * int(record)
        if (last - begin) // int(record) >= MOST_POINTS:
            raise ValueError(
                f"a record of every {record} steps of {last:,} is more than {MOST_POINTS:,} "
                "points a run: give a longer stride, or take fewer steps"
            )
        wanted = np.append(np.arange(begin, last + 1, int(record)), last)
    else:
        wanted = np.asarray(record)
        if wanted.size == 0:
            wanted = wanted.astype(np.int64)
        if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer) or (wanted < 1).any():
            raise ValueError(
                'record must be a stride, "log", or an array of steps, which count from 1; '
                f"not {record!r}"
            )
    return np.unique(wanted[(wanted >= first) & (wanted <= last)]).astype(np.int64)
