"""Regret curves as Parquet, in the long form that `Runs.to_polars` has too."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.simulation import Runs

COLUMNS = ("environment", "agent", "seed", "step", "regret", "resamples")


def to_parquet(runs: Runs) -> bytes:
    """Return the points of runs of one agent on one environment as a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    # Built from buffers, since pyarrow.array imports pandas wherever it is installed.
    def array(kind: Any, length: int, *buffers: Any) -> Any:
        raw = [None, *map(pyarrow.py_buffer, buffers)]
        return pyarrow.Array.from_buffers(kind, length, raw)

    def numbers(values: NDArray[Any]) -> Any:
        return array(pyarrow.from_numpy_dtype(values.dtype), len(values), values)

    rows, points = runs.regret.shape

    def text(value: str) -> Any:
        raw = value.encode()
        word = array(pyarrow.string(), 1, np.array([0, len(raw)], np.int32), raw)
        places = numbers(np.zeros(rows * points, np.int32))
        return pyarrow.DictionaryArray.from_arrays(places, word)

    columns = [
        text(runs.environment[0]),
        text(runs.agent[0]),
        numbers(np.repeat(runs.seeds, points)),
        numbers(np.tile(runs.times, rows)),
        numbers(runs.regret.ravel()),
        numbers(runs.resamples.ravel()),
    ]
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.Table.from_arrays(columns, names=list(COLUMNS))
    pyarrow.parquet.write_table(table, sink, store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_parquet(raw: bytes, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return `times`, `regret` and `resamples` of the runs `seeds`, or raise a ValueError."""
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(raw))
        table = file.read(columns=list(COLUMNS[2:]))
        seed, step, regret, resamples = (
            np.concatenate([np.from_dlpack(chunk) for chunk in table[name].chunks])
            for name in COLUMNS[2:]
        )
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is not the table that was written ({error})") from None
    rows, points = len(seeds), len(step) // len(seeds)
    times = np.asarray(step[:points], dtype=np.int64)
    same = np.array_equal(step, np.tile(times, rows))
    if not same or not np.array_equal(seed, np.repeat(seeds, points)):
        raise ValueError("its rows are not those of these runs")
    return {
        "times": times,
        "regret": np.asarray(regret, dtype=np.float64).reshape(rows, points),
        "resamples": np.asarray(resamples, dtype=np.int64).reshape(rows, points),
    }
