"""A results directory: written whole or not at all, checked on reading, safe to open.

    DIR/experiment.json          format, versions, machine, commands, how far the runs are to go
    DIR/spec.toml                the specification as run
    DIR/lock                     held by the one process that may write
    DIR/runs/ENV/AGENT/GROUP.parquet      curves of a group of runs, from the first step on
    DIR/runs/ENV/AGENT/GROUP-STEP.json    where those runs stand, and the checksums of both others
    DIR/runs/ENV/AGENT/GROUP-STEP.npz     the arrays of that state

A file is written under a temporary name, flushed to the disk and renamed, so it is never there in
part. A group moves on in three such writes: arrays, then JSON, then curves. The last is the moment
of commitment: the JSON whose checksum of the curves is the right one is the state that counts, and
whatever else a crash left behind is removed by the next writer. One Parquet file per group is
replaced, never added to, so `DIR/**/*.parquet` holds every point exactly once at any moment.

Reading uses JSON, Parquet, and NumPy arrays without pickle: opening a directory runs no code of
its author's.
"""

import fcntl
import hashlib
import io
import json
import math
import os
import re
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.atomic import whole_file

FORMAT = 1
PATIENCE = (0.0, 0.05, 0.2)
"""Seconds to wait before each attempt to read files that another process may be replacing."""
COLUMNS = ("environment", "agent", "seed", "step", "regret", "resamples")


class DamagedError(ValueError):
    """A file of a results directory is not what was written there."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True)
class Group:
    """Runs of one agent on one environment that move on and are stored together."""

    environment: str
    agent: str
    runs: tuple[int, ...]
    stem: str
    """Path of the group's files below the directory, without their endings."""


@dataclass(frozen=True)
class Curves:
    """The recorded points of a group: `times` (points,), the others (runs, points)."""

    times: NDArray[np.int64]
    regret: NDArray[np.float64]
    resamples: NDArray[np.int64]

    def then(self, later: "Curves") -> "Curves":
        """Return these points followed by `later` ones."""
        return Curves(
            np.concatenate([self.times, later.times]),
            np.concatenate([self.regret, later.regret], axis=1),
            np.concatenate([self.resamples, later.resamples], axis=1),
        )


@dataclass(frozen=True)
class Stored:
    """What the directory holds of a group: its curves, and where its runs stand."""

    step: int
    curves: Curves
    gain: tuple[float, ...]
    state: tuple[Any, ...] | None


class Store:
    """The files of one results directory; `identity` marks every file as this experiment's."""

    def __init__(self, directory: Path, identity: str) -> None:
        self.directory = directory
        self.identity = identity

    def write(self, group: Group, stored: Stored) -> None:
        """Make `stored` what the directory holds of `group`, durably and all at once."""
        assert stored.state is not None
        curves, arrays = _parquet(group, stored.curves), io.BytesIO()
        trees, loose = pack(stored.state)
        np.savez(arrays, allow_pickle=False, **loose)
        head = {
            "format": FORMAT,
            "experiment": self.identity,
            "environment": group.environment,
            "agent": group.agent,
            "runs": list(group.runs),
            "step": stored.step,
            "gain": list(stored.gain),
            "curves": _sha256(curves),
            "arrays": _sha256(arrays.getbuffer()),
            "state": trees,
        }
        base = f"{group.stem}-{stored.step:012d}"
        write_file(self.directory / f"{base}.npz", arrays.getbuffer())
        write_json(self.directory / f"{base}.json", head)
        write_file(self.directory / f"{group.stem}.parquet", curves)
        for path in self._states(group):
            if path.stem != Path(base).name:
                path.unlink(missing_ok=True)

    def read(self, group: Group, state: bool = True) -> Stored | None:
        """Return what is stored of `group`, checked, or None; `state=False` leaves that out.

        A writer may be at work in the same directory: files that do not fit together are looked
        at again before they are called damaged.
        """
        for wait in PATIENCE:
            time.sleep(wait)
            try:
                return self._read(group, state)
            except (DamagedError, FileNotFoundError) as error:
                last = error
        if isinstance(last, FileNotFoundError):
            raise DamagedError(Path(last.filename), "it is missing")
        raise last

    def remove(self, group: Group) -> None:
        """Remove everything stored of `group`: its curves first, so that no state outlives them."""
        (self.directory / f"{group.stem}.parquet").unlink(missing_ok=True)
        for path in self._states(group):
            path.unlink(missing_ok=True)

    def sweep(self, groups: Sequence[Group]) -> None:
        """Remove what crashes left behind: temporary files, and states without their curves.

        Only the holder of the lock may call this. A group whose curves fit no state is left as it
        is, for `read` to report.
        """
        for path in self.directory.rglob(".*.tmp"):
            path.unlink(missing_ok=True)
        for group in groups:
            curves, states = self.directory / f"{group.stem}.parquet", self._states(group)
            current = set()
            if curves.exists():
                checksum = _sha256(curves.read_bytes())
                heads = [path for path in states if path.suffix == ".json"]
                current = {p.stem for p in heads if _try_json(p).get("curves") == checksum}
                if not current:
                    continue
            for path in states:
                if path.stem not in current:
                    path.unlink(missing_ok=True)

    def check_strangers(self, groups: Sequence[Group]) -> None:
        """Raise if a Parquet file lies among the runs that is none of this experiment's."""
        ours = {self.directory / f"{group.stem}.parquet" for group in groups}
        for path in sorted((self.directory / "runs").rglob("*.parquet")):
            if path not in ours:
                raise DamagedError(path, "it is no part of this experiment; move it away")

    def _states(self, group: Group) -> list[Path]:
        stem = self.directory / group.stem
        pattern = re.compile(re.escape(stem.name) + r"-\d+\.(json|npz)")
        if not stem.parent.is_dir():
            return []
        return sorted(path for path in stem.parent.iterdir() if pattern.fullmatch(path.name))

    def _read(self, group: Group, state: bool) -> Stored | None:
        path = self.directory / f"{group.stem}.parquet"
        if not path.exists():
            return None
        raw = path.read_bytes()
        heads = {p: read_json(p) for p in self._states(group) if p.suffix == ".json"}
        if not heads:
            raise DamagedError(path, "the file with its checksum, beside it, is missing")
        fitting = [p for p, head in heads.items() if head.get("curves") == _sha256(raw)]
        if not fitting:
            raise DamagedError(path, f"its checksum is not the one in {max(heads).name}")
        where = fitting[-1]
        head = heads[where]
        self._check_head(group, where, head)
        curves = _curves(path, raw, group)
        if not state:
            return Stored(head["step"], curves, tuple(head["gain"]), None)
        arrays = where.with_suffix(".npz")
        data = arrays.read_bytes()
        if _sha256(data) != head["arrays"]:
            raise DamagedError(arrays, f"its checksum is not the one in {where.name}")
        try:
            trees = unpack(head["state"], _arrays(data))
        except (ValueError, TypeError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise DamagedError(arrays, f"it does not hold the arrays written ({error})") from None
        return Stored(head["step"], curves, tuple(head["gain"]), trees)

    def _check_head(self, group: Group, where: Path, head: dict[str, Any]) -> None:
        mine = {
            "format": FORMAT,
            "experiment": self.identity,
            "environment": group.environment,
            "agent": group.agent,
            "runs": list(group.runs),
        }
        for key, value in mine.items():
            if head.get(key) != value:
                raise DamagedError(where, f"its {key} is {head.get(key)!r}, not {value!r}")
        for key, kind in {"step": int, "gain": list, "arrays": str, "state": list}.items():
            if not isinstance(head.get(key), kind):
                raise DamagedError(where, f"its {key} is {head.get(key)!r}")


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
    sealed = {"sha256": _sha256(_canonical(content)), "content": content}
    text = json.dumps(sealed, indent=1 if readable else None)
    text = re.sub(r"\[\s+(\d[\d,\s]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    write_file(path, f"{text}\n".encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file that `write_json` wrote."""
    raw = path.read_bytes()
    try:
        sealed = json.loads(raw)
        content, checksum = sealed["content"], sealed["sha256"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DamagedError(path, "it is not the JSON that was written") from None
    if not isinstance(content, dict) or _sha256(_canonical(content)) != checksum:
        raise DamagedError(path, "its checksum is wrong")
    return content


def pack(states: Sequence[Any]) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """Split trees of scalars and arrays into JSON and one flat array for every type of number.

    In the JSON, `{"$array": [type, offset, shape]}` says where an array went.
    """
    parts: dict[str, list[NDArray[Any]]] = {}
    sizes: Counter[str] = Counter()

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            kind, offset = value.dtype.str, sizes[value.dtype.str]
            parts.setdefault(kind, []).append(value.ravel())
            sizes[kind] += value.size
            return {"$array": [kind, offset, list(value.shape)]}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, dict):
            return {str(key): plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return value

    trees = [plain(state) for state in states]
    return trees, {kind: np.concatenate(arrays) for kind, arrays in parts.items()}


def unpack(trees: Sequence[Any], arrays: dict[str, NDArray[Any]]) -> tuple[Any, ...]:
    """Return the trees that `pack` split."""

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


def _parquet(group: Group, curves: Curves) -> bytes:
    import pyarrow
    import pyarrow.parquet

    # Built from buffers, since pyarrow.array imports pandas wherever it is installed.
    def numbers(values: NDArray[Any]) -> Any:
        kind = pyarrow.from_numpy_dtype(values.dtype)
        return pyarrow.Array.from_buffers(kind, len(values), [None, pyarrow.py_buffer(values)])

    def text(value: str, times: int) -> Any:
        raw = value.encode()
        buffers = [
            None,
            pyarrow.py_buffer(np.array([0, len(raw)], np.int32)),
            pyarrow.py_buffer(raw),
        ]
        words = pyarrow.Array.from_buffers(pyarrow.string(), 1, buffers)
        return pyarrow.DictionaryArray.from_arrays(numbers(np.zeros(times, np.int32)), words)

    runs, points = curves.regret.shape
    columns = [
        text(group.environment, runs * points),
        text(group.agent, runs * points),
        numbers(np.repeat(np.asarray(group.runs, dtype=np.int64), points)),
        numbers(np.tile(curves.times, runs)),
        numbers(curves.regret.ravel()),
        numbers(curves.resamples.ravel()),
    ]
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.Table.from_arrays(columns, names=list(COLUMNS))
    pyarrow.parquet.write_table(table, sink, store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _curves(path: Path, raw: bytes, group: Group) -> Curves:
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
        raise DamagedError(path, f"it is not the table that was written ({error})") from None
    runs = len(group.runs)
    points = len(step) // runs
    times = np.asarray(step[:points], dtype=np.int64)
    if not (
        points * runs == len(step)
        and np.array_equal(step, np.tile(times, runs))
        and np.array_equal(seed, np.repeat(group.runs, points))
    ):
        raise DamagedError(path, "its rows are not those of these runs")
    return Curves(
        times,
        np.asarray(regret, dtype=np.float64).reshape(runs, points),
        np.asarray(resamples, dtype=np.int64).reshape(runs, points),
    )


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _try_json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (DamagedError, FileNotFoundError):
        return {}


def _sha256(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
