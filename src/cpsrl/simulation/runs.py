"""What a simulation gives: regret curves, one row a run, and where every run stands."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.documents import Table
from cpsrl.environments.pure import EXACT, KNOWN, UPPER
from cpsrl.statistics import Comparison, mean
from cpsrl.statistics import comparisons as compared
from cpsrl.support.registry import unknown
from cpsrl.support.types import Floats, Ints

LOG_POINTS = 32
"""Points of the "log" grid in every decade."""

STRIDE_POINTS = 200
"""About how many points are recorded by default."""

MOST_POINTS = 10_000_000
"""The most points of a run that can be recorded."""

ON_REQUEST = ("resample_times", "trajectory", "discounted_regret", "by_agent")
"""What `Runs` may lack."""

CHANGING = "gain of the moment"
"""The reference where the world changes: the optimal gain of the model of each step."""


def against_words(reference: str) -> str:
    """Return what regret is counted against, in words; empty where that is the optimal gain."""
    words = {UPPER: "an upper bound of the gain", KNOWN: "the best known policy's gain"}
    words[CHANGING] = "the optimal gain of each step's model"
    return f"against {words[reference]}" if reference in words else ""


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
        at_end: the value of `state`, or a function that returns it, called on first use.
        resample_times: on request, for each row the steps that resampled.
        trajectory: on request, for each row `states` (n + 1,), `actions` (n,), `rewards` (n,).
        discounted_regret: on request, `(rows, points)`: the sum over pseudo-episodes k begun up to
            step t of V*(s_k) - V_k(s_k), the gamma-discounted values in the true MDP of the optimal
            policy and of that of the pseudo-episode at its first state (Xu et al. 2024, eq. 6).
        reference: what regret is counted against, one a row: "exact", "upper bound" or "best known
            policy" (see `cpsrl.environments.pure`), or "gain of the moment" where the world
            changes.
        by_agent: of a fleet, `(rows, agents, points)`: the regret of each of its agents, whose mean
            is `regret`; None where runs of fleets of different sizes were joined.
        notes: what a reader must know of these runs, such as that they were interrupted.
    """

    times: Ints
    regret: Floats
    resamples: Ints
    seeds: Ints
    agent: tuple[str, ...]
    environment: tuple[str, ...]
    gain: Floats
    seed: int
    at_end: Any = None
    resample_times: tuple[Ints, ...] | None = None
    trajectory: tuple[dict[str, NDArray[Any]], ...] | None = None
    discounted_regret: Floats | None = None
    by_agent: Floats | None = None
    reference: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.reference:
            object.__setattr__(self, "reference", (EXACT,) * len(self.seeds))

    @cached_property
    def state(self) -> Any:
        """For each row, all that is needed to go on from there; None where that is unknown.

        A row of an agent that was interrupted, whose runs stand at different steps, has None.
        """
        return self.at_end() if callable(self.at_end) else self.at_end

    def __repr__(self) -> str:
        kinds = [
            f"{agent} on {place}" for agent, place in zip(self.agent, self.environment, strict=True)
        ]
        lines = []
        for kind in dict.fromkeys(kinds):
            rows = [row for row, mine in enumerate(kinds) if mine == kind]
            runs = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
            last, against = "without a recorded step", against_words(self.reference[rows[0]])
            if len(reached := np.flatnonzero(~np.isnan(self.regret[rows]).all(axis=0))):
                regret = self.regret[rows, reached[-1]].mean()
                last = f"to step {self.times[reached[-1]]:,}, mean regret {regret:,.6g}"
            lines.append(f"{kind}: {runs} {last}{against and f' ({against})'}")
        lines += self.notes
        return f"Runs({lines[0]})" if len(lines) == 1 else "\n    ".join(["Runs(", *lines]) + ")"

    @property
    def agents(self) -> tuple[str, ...]:
        """The labels of the agents, each once."""
        return tuple(dict.fromkeys(self.agent))

    @property
    def environments(self) -> tuple[str, ...]:
        """The names of the environments, each once."""
        return tuple(dict.fromkeys(self.environment))

    @property
    def against(self) -> str:
        """What the regret of the first row is counted against (see `against_words`)."""
        return against_words(self.reference[0])

    @property
    def reward_rate(self) -> Floats:
        """`(rows, points)`: reward a step up to step t; NaN where the world changes."""
        rate = self.gain[:, None] - self.regret / self.times
        rate[np.array(self.reference) == CHANGING] = np.nan
        return rate

    @property
    def share_of_optimum(self) -> Floats:
        """`(rows, points)`: the reward rate as a share of the gain; NaN if that is not positive."""
        gain = np.where(self.gain > 0, self.gain, np.nan)
        return self.reward_rate / gain[:, None]

    def __add__(self, more: "Runs") -> "Runs":
        """Return these rows and those of `more` (see `join`)."""
        return Runs.join([self, more]) if isinstance(more, Runs) else NotImplemented

    def select(self, agent: str | None = None, environment: str | None = None) -> "Runs":
        """Return the rows of one agent, or of one environment, or of both."""
        if agent is not None and agent not in self.agent:
            raise unknown("agent", agent, self.agents)
        if environment is not None and environment not in self.environment:
            raise unknown("environment", environment, self.environments)
        rows = [
            row
            for row in range(len(self.seeds))
            if agent in (None, self.agent[row]) and environment in (None, self.environment[row])
        ]
        found = self._rows(rows)
        if len(self.times) and np.isnan(found.regret[:, -1]).all():
            return found.at(self.times[~np.isnan(found.regret).all(axis=0)])
        return found

    def at(self, times: Ints) -> "Runs":
        """Return the same rows at those of `times` that were recorded."""
        kept = np.isin(self.times, times)
        points = {name: values[..., kept] for name, values in self._curves().items()}
        return replace(self, times=self.times[kept], **points)

    def _curves(self) -> dict[str, Any]:
        """Return what has a value for each recorded step, `(..., points)`, by its name."""
        names = ("regret", "resamples", "discounted_regret", "by_agent")
        return {n: values for n in names if (values := getattr(self, n)) is not None}

    def _rows(self, rows: list[int]) -> "Runs":
        picked: dict[str, Any] = {}
        for name in _BY_ROW:
            values = self.state if name == "at_end" else getattr(self, name)
            if isinstance(values, tuple):
                picked[name] = tuple(values[row] for row in rows)
            elif values is not None:
                picked[name] = values[rows]
        return replace(self, **picked)

    @staticmethod
    def join(parts: Sequence["Runs"]) -> "Runs":
        """Return all rows of `parts`: different runs with the same times and root seed."""
        if not parts:
            raise ValueError("there are no runs to join")
        first = parts[0]
        for part in parts[1:]:
            if not np.array_equal(part.times, first.times):
                raise ValueError(
                    "runs that were recorded at different steps cannot be joined: take of each "
                    "runs.at(times) those that both have"
                )
            if part.seed != first.seed:
                raise ValueError(
                    f"runs of different root seeds ({first.seed}, {part.seed}) cannot be joined"
                )
        joined: dict[str, Any] = {}
        for name in _BY_ROW:
            values = [part.state if name == "at_end" else getattr(part, name) for part in parts]
            if any(value is None for value in values):
                joined[name] = None
            elif isinstance(values[0], tuple):
                joined[name] = sum(values, ())
            elif len({value.shape[1:] for value in values}) > 1:  # of fleets of different sizes
                joined[name] = None
            else:
                joined[name] = np.concatenate(values)
        whose = Counter(
            row
            for part in parts
            for row in zip(part.agent, part.environment, part.seeds, strict=True)
        )
        (agent, place, run), times = whose.most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"run {run} of {agent} on {place} occurs {times} times: join runs of other "
                "seeds, or of agents with labels of their own"
            )
        notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
        return replace(first, **joined, notes=notes)

    @staticmethod
    def padded(parts: Sequence["Runs"]) -> "Runs":
        """Return all rows of `parts`, which came unequally far on the same recorded steps.

        Beyond the last step of a row its regret is NaN. `select` gives the steps that were reached
        by any of the rows it selects.
        """
        times = max((part.times for part in parts), key=len)
        known, equal = any(part.at_end is not None for part in parts), []
        for part in parts:
            state = part.state or (None,) * len(part.seeds) if known else None
            padded = dict[str, Any]()
            for name, values in part._curves().items():
                more = [(0, 0)] * (values.ndim - 1) + [(0, len(times) - len(part.times))]
                beyond: Any = {"constant_values": np.nan}
                if name == "resamples":
                    beyond = {"mode": "edge"}
                padded[name] = np.pad(values, more, **beyond)
            equal.append(replace(part, times=times, at_end=state, **padded))
        return Runs.join(equal)

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
        return replace(later, **fields | dict.fromkeys(ON_REQUEST))

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
                rate, share = one.reward_rate[:, -1].mean(), one.share_of_optimum[:, -1].mean()
                shown = [
                    "-" if np.isnan(x) else f"{x:{form}}"
                    for x, form in ((rate, ".4g"), (share, ".1%"))
                ]
                row = (environment, agent, len(one.seeds), regret.value, interval, *shown, drawn)
                rows.append(row)
        title = f"Runs to step {self.times[-1]:,}" if rows else repr(self)
        about = ("environment", "agent", "runs", "mean regret", "95% interval")
        headings = (*about, "reward rate", "of optimum", "resamplings")
        note = f"root seed {self.seed}; plot() draws them, compare() compares them"
        note = "; ".join((*self.notes, note))
        return Table(headings, rows, title, note, left=2)._repr_html_()

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
        from cpsrl.documents import figures  # it imports matplotlib

        with figures.given_or_new(ax) as ax:
            figures.regret_curves(ax, self, logarithmic)
            runs = np.unique(self.agent, return_counts=True)[1]
            each = f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
            ax.set_title(f"{self.environments[0]}: mean of {each} runs, 95% bands")
        return ax

    def comparisons(self) -> dict[str, list[Comparison]]:
        """Return all pairs of agents by environment, of those that came farthest there.

        Of these they are the most that have the same runs, so that one that is not finished leaves
        the others comparable.
        """
        found = {}
        for environment in self.environments if len(self.times) else ():
            here = self.select(environment=environment)
            finals = dict[str, dict[int, float]]()
            for agent in here.agents:
                one = here.select(agent=agent)
                last = one.regret[:, -1].tolist()
                if one.times[-1] == here.times[-1]:
                    finals[agent] = dict(zip(one.seeds.tolist(), last, strict=True))
            alike = Counter(frozenset(final) for final in finals.values())
            common = max(alike, key=lambda runs: (alike[runs], len(runs)))
            if alike[common] > 1:
                values = {
                    agent: [final[s] for s in sorted(common)]
                    for agent, final in finals.items()
                    if final.keys() == common
                }
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
                "of several, such as simulate([a, b], mdp)"
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
        return needed("pandas").DataFrame(rows)

    def to_pandas(self) -> Any:
        """Return the curves as a pandas data frame in long form."""
        return needed("pandas").DataFrame(self._long())

    def to_polars(self) -> Any:
        """Return the curves as a polars data frame in long form."""
        return needed("polars").DataFrame(self._long())

    def _long(self) -> dict[str, Any]:
        names = {"environment": self.environment, "agent": self.agent}
        points = len(self.times)
        words = {key: np.repeat(np.array(v, dtype=object), points) for key, v in names.items()}
        return words | self.numbers()

    def numbers(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the curves in long form that are numbers, `(rows * points,)`."""
        rows, points = self.regret.shape
        return {
            "seed": np.repeat(self.seeds, points),
            "step": np.tile(self.times, rows),
            "regret": self.regret.ravel(),
            "resamples": self.resamples.ravel(),
            "reward_rate": self.reward_rate.ravel(),
            "share_of_optimum": self.share_of_optimum.ravel(),
        }


def needed(package: str) -> Any:
    """Return an optional package, or raise an error that says how to install it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"{package} is not installed: `pip install {package}`, or use the arrays themselves, "
            "such as `times` and `resamples`",
            name=package,
        ) from None


_BY_ROW = tuple(f.name for f in fields(Runs) if f.name not in ("times", "seed", "notes"))


def farthest(steps: Ints) -> int:
    """Return the step that maximises itself times the number of runs that reached it.

    `steps` `(runs,)` is how far each run came.
    """
    ordered = np.sort(steps)[::-1]
    return int(ordered[np.argmax(ordered * np.arange(1, len(ordered) + 1))])


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
