"""The files of a results directory: written whole or not at all, checked on reading.

Reading uses JSON, Parquet, and NumPy arrays without pickle: opening a directory runs no code of
its author's.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.simulation import Runs
from cpsrl.support.atomic import try_lock, whole_file
from cpsrl.support.serialise import DamagedError, canonical, checked_file, sha256


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold `directory` against other writers; raise at once if another process holds it."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ValueError(
                f"{path} is a link, a pipe or a device, and what is written to it would be "
                "elsewhere: a results directory holds files and folders"
            )
    with open(directory / "lock", "a+") as lock:
        if not try_lock(lock):
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise ValueError(
                f"{directory} is in use: {holder} is working on it; wait until it is "
                "done or choose another directory"
            )
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def write_file(path: Path, data: Any) -> None:
    """Write `data` to `path` whole or not at all, and durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(data)


def write_json(path: Path, content: dict[str, Any], readable: bool = False) -> None:
    """Write `content` as JSON that carries its own checksum; `readable` lays it out in lines."""
    sealed = {"sha256": sha256(canonical(content)), "content": content}
    write_file(path, f"{json.dumps(sealed, indent=1 if readable else None)}\n".encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file that `write_json` wrote."""
    raw = checked_file(path).read_bytes()
    try:
        sealed = json.loads(raw)
        content, checksum = sealed["content"], sealed["sha256"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DamagedError(path, "it is not the JSON that was written") from None
    if not isinstance(content, dict) or sha256(canonical(content)) != checksum:
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

    def text(value: str) -> Any:
        raw = value.encode()
        word = array(pyarrow.string(), 1, np.array([0, len(raw)], np.int32), raw)
        places = numbers(np.zeros(runs.regret.size, np.int32))
        return pyarrow.DictionaryArray.from_arrays(places, word)

    words = {"environment": text(runs.environment[0]), "agent": text(runs.agent[0])}
    columns = words | {name: numbers(values) for name, values in runs.numbers().items()}
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.Table.from_arrays(list(columns.values()), names=list(columns))
    pyarrow.parquet.write_table(table, sink, store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data
