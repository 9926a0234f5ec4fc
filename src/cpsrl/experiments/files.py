"""The files of a results directory: written whole or not at all, checked on reading.

Reading uses JSON, Parquet, and NumPy arrays without pickle: opening a directory runs no code of
its author's.
"""

import fcntl
import hashlib
import io
import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.atomic import whole_file
from cpsrl.simulation import Runs

COLUMNS = ("environment", "agent", "seed", "step", "regret", "resamples")
"""The columns of curves as Parquet, in the long form that `Runs.to_polars` has too."""


class DamagedError(ValueError):
    """A file of a results directory is not what was written there."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold `directory` against other writers; raise at once if another process holds it."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise ValueError(
                f"{directory} is in use: {holder} is working on it; wait until it is "
                "done or choose another directory"
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def write_file(path: Path, data: Any) -> None:
    """Write `data` to `path` whole or not at all, and durably."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from None


def write_json(path: Path, content: dict[str, Any], readable: bool = False) -> None:
    """Write `content` as JSON that carries its own checksum; `readable` lays it out in lines."""
    sealed = {"sha256": sha256(_canonical(content)), "content": content}
    write_file(path, f"{json.dumps(sealed, indent=1 if readable else None)}\n".encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file that `write_json` wrote."""
    raw = path.read_bytes()
    try:
        sealed = json.loads(raw)
        content, checksum = sealed["content"], sealed["sha256"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DamagedError(path, "it is not the JSON that was written") from None
    if not isinstance(content, dict) or sha256(_canonical(content)) != checksum:
        raise DamagedError(path, "its checksum is wrong")
    return content


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


def pack(states: Sequence[Any]) -> tuple[list[Any], bytes]:
    """Split trees of scalars and arrays into JSON, and a file of one flat array for every type.

    In the JSON, `{"$array": [type, offset, shape]}` says where an array went.
    """
    parts: dict[str, list[NDArray[Any]]] = {}
    sizes: Counter[str] = Counter()

    def split(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            kind, offset = value.dtype.str, sizes[value.dtype.str]
            parts.setdefault(kind, []).append(value.ravel())
            sizes[kind] += value.size
            return {"$array": [kind, offset, list(value.shape)]}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, dict):
            return {str(key): split(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [split(inner) for inner in value]
        return value

    trees, file = [split(state) for state in states], io.BytesIO()
    flat = {kind: np.concatenate(arrays) for kind, arrays in parts.items()}
    np.savez(file, allow_pickle=False, **flat)
    return trees, file.getvalue()


def unpack(trees: Sequence[Any], data: bytes) -> tuple[Any, ...]:
    """Return the trees that `pack` split."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"$array"}:
                kind, offset, shape = value["$array"]
                size = math.prod(shape)
                return arrays[kind][offset : offset + size].reshape(shape).copy()
            return {key: whole(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [whole(inner) for inner in value]
        return value

    return tuple(whole(tree) for tree in trees)


def sha256(data: Any) -> str:
    """Return the checksum of bytes."""
    return hashlib.sha256(data).hexdigest()


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
