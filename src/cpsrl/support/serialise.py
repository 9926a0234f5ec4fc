"""Trees of scalars and arrays as JSON and NumPy arrays: stored without pickle, checked on reading.

Reading a tree runs no code of its author's, and a tree that is not what was written is an error.
"""

import hashlib
import io
import json
import math
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DamagedError(ValueError):
    """A file is not what was written there."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason


MISREAD = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError),
    *(NotImplementedError, RecursionError, TypeError, zipfile.BadZipFile, zlib.error),
)
"""What the readers of a tree raise where it is not one that was written for them."""
_ONE_BY_ONE = threading.Lock()
"""NumPy parses what is at the head of an array as Python, which two threads at once could not do
before Python 3.11.8 and 3.12.2 (python/cpython#106905)."""


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Raise a ValueError that names the file for whatever its content makes the block raise."""
    try:
        yield
    except DamagedError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    except MISREAD as error:
        what = f"{type(error).__name__}: {error}"
        raise DamagedError(path, f"it does not hold what was written ({what})") from None


def checked_file(path: Path) -> Path:
    """Return `path`, or raise if a folder is there, or a pipe, which would be waited for."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file but a folder, a pipe or a device")
    return path


def sha256(data: Any) -> str:
    """Return the checksum of bytes."""
    return hashlib.sha256(data).hexdigest()


def canonical(content: Any) -> bytes:
    """Return plain values as JSON that is the same for equal ones."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _pack(tree: Any) -> tuple[Any, bytes]:
    """Split a tree of scalars and arrays into JSON, and a file of one flat array for every type.

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

    plain, file = split(tree), io.BytesIO()
    flat = {kind: np.concatenate(arrays) for kind, arrays in parts.items()}
    np.savez(file, allow_pickle=False, **flat)
    return plain, file.getvalue()


def _unpack(plain: Any, data: bytes) -> Any:
    """Return the tree that `_pack` split; nothing in it is larger than it is in `data`."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = file.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("its arrays are compressed, and they never are")
    if sum(entry.file_size for entry in entries) > len(data):
        raise ValueError("its arrays are larger than the file")
    with _ONE_BY_ONE, np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = dict(archive)
    left = {name: array.size for name, array in arrays.items()}

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"$array"}:
                kind, offset, shape = value["$array"]
                size = math.prod(shape)
                left[kind] -= size
                if size < 0 or left[kind] < 0:
                    raise ValueError("it asks for more arrays than it has")
                return arrays[kind][offset : offset + size].reshape(shape).copy()
            return {key: whole(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [whole(inner) for inner in value]
        return value

    return whole(plain)


def sealed(tree: Any) -> tuple[str, bytes, str]:
    """Return a tree as JSON, the bytes of its arrays, and the checksum of both."""
    plain, arrays = _pack(tree)
    text = json.dumps(plain)
    return text, arrays, sha256(text.encode() + b"\0" + arrays)


def unsealed(text: str, arrays: bytes, checksum: str) -> Any:
    """Return the tree that `sealed` split, or raise a ValueError if it is not what was written."""
    if sha256(text.encode() + b"\0" + arrays) != checksum:
        raise ValueError("its checksum is wrong")
    try:
        return _unpack(json.loads(text), arrays)
    except (OSError, *MISREAD) as error:
        raise ValueError(f"it does not hold what was written ({error})") from None
