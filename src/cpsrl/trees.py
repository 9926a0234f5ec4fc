"""Trees of scalars and arrays as JSON and NumPy arrays: stored without pickle, checked on reading.

Reading a tree runs no code of its author's, and a tree that is not what was written is an error.
"""

import hashlib
import io
import json
import math
import zipfile
from collections import Counter
from collections.abc import Sequence
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


def sha256(data: Any) -> str:
    """Return the checksum of bytes."""
    return hashlib.sha256(data).hexdigest()


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


def sealed(tree: Any) -> tuple[str, bytes, str]:
    """Return a tree as JSON, the bytes of its arrays, and the checksum of both."""
    (plain,), arrays = pack([tree])
    text = json.dumps(plain)
    return text, arrays, sha256(text.encode() + b"\0" + arrays)


def unsealed(text: str, arrays: bytes, checksum: str) -> Any:
    """Return the tree that `sealed` split, or raise a ValueError if it is not what was written."""
    if sha256(text.encode() + b"\0" + arrays) != checksum:
        raise ValueError("its checksum is wrong")
    try:
        return unpack([json.loads(text)], arrays)[0]
    except (TypeError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"it does not hold what was written ({error})") from None
