"""What a simulation gives: regret curves, one row a run, and where every run stands."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.registry import unknown
from cpsrl.types import Floats, Ints

LOG_POINTS = 32
"""Points of the "log" grid in every decade."""

STRIDE_POINTS = 200
"""About how many points are recorded where nothing else is asked for."""


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
        regret: `(rows, points)` t times the optimal gain of the run's first state, minus the
            rewards realised up to step t.
        resamples: `(rows, points)` number of resamplings up to step t.
        seeds: `(rows,)` the number of each run.
        agent: label of the agent, one a row.
        environment: name of the environment, one a row.
        gain: `(rows,)` the optimal gain.
        seed: the root seed.
        state: for each row, all that is needed to go on from there; None where that is unknown.
        resample_times: on request, for each row the steps that resampled.
        trajectory: on request, for each row `states` (n + 1,), `actions` (n,), `rewards` (n,).
        discounted_regret: on request, `(rows, points)`: the sum over pseudo-episodes k begun up to
            step t of V*(s_k) - V_k(s_k), the gamma-discounted values in the true MDP of the optimal
            policy and of that of the pseudo-episode at its first state (Xu et al. 2024, eq. 6).
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

    def __repr__(self) -> str:
        return (
            f"Runs({len(self.seeds)} rows, {len(self.times)} points: "
            f"{', '.join(self.agents)}; {', '.join(self.environments)})"
        )

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
        names = ("regret", "resamples", "discounted_regret")
        points = {n: v[:, kept] for n in names if (v := getattr(self, n)) is not None}
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
            else:
                joined[name] = np.concatenate(values)
        return replace(first, **joined)

    def then(self, later: "Runs") -> "Runs":
        """Return these points followed by the `later` ones of the same rows, which go on from here.

        What `simulate` keeps on request only is left out.
        """
        if not np.array_equal(self.seeds, later.seeds) or self.agent != later.agent:
            raise ValueError("the later points are those of other runs")
        points = {
            name: np.concatenate([getattr(self, name), getattr(later, name)], axis=-1)
            for name in ("times", "regret", "resamples")
        }
        rest = dict.fromkeys(("resample_times", "trajectory", "discounted_regret"))
        return replace(later, **points, **rest)  # type: ignore[arg-type]

    def to_pandas(self) -> Any:
        """Return the curves as a pandas data frame in long form."""
        import pandas

        return pandas.DataFrame(self._long())

    def to_polars(self) -> Any:
        """Return the curves as a polars data frame in long form."""
        import polars

        return polars.DataFrame(self._long())

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
