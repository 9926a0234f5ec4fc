"""MDPs as files, both ways: `.npz`, `.csv` and `.parquet`.

`.npz` keeps everything: `transitions` (S, A, S), or `transitions_data`, `transitions_indices` and
`transitions_indptr` of the sparse matrix (S*A, S); `rewards` (S, A); and, each of them optional,
`noise`, `initial`, `state_names`, `action_names`, `features` and `name`.

`.csv` and `.parquet` are tables with one line per possible transition: see `cpsrl.mdp.long_form`.

A file is read as the arguments of `TabularMDP`, which checks them; reading one never runs code.
Files are written whole or not at all.
"""

import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse

from cpsrl.atomic import whole_file
from cpsrl.mdp.long_form import read_csv, read_parquet, write_csv, write_parquet
from cpsrl.registry import unknown

__all__ = ["read_arguments", "write_mdp"]

SPARSE_PARTS = ("transitions_data", "transitions_indices", "transitions_indptr")
NUMBER_FIELDS = ("transitions", *SPARSE_PARTS, "rewards", "initial", "features")
TEXT_FIELDS = ("state_names", "action_names", "name")


def read_arguments(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the `TabularMDP` in a `.npz`, `.csv` or `.parquet` file."""
    path = Path(path)
    read = {".npz": _read_npz, ".csv": read_csv, ".parquet": read_parquet}[_suffix(path)]
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_mdp(mdp: Any, path: str | os.PathLike[str]) -> None:
    """Write `mdp` to a `.npz`, `.csv` or `.parquet` file, whole or not at all."""
    path = Path(path)
    write = {".npz": _write_npz, ".csv": write_csv, ".parquet": write_parquet}[_suffix(path)]
    with whole_file(path) as file:
        write(mdp, file)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".csv", ".parquet"):
        raise ValueError(f"{path}: an MDP is stored as .npz, .csv or .parquet, not {suffix!r}")
    return suffix


def _write_npz(mdp: Any, file: IO[bytes]) -> None:
    fields: dict[str, Any] = {
        "rewards": mdp.rewards,
        "noise": np.asarray(mdp.noise),
        "initial": np.asarray(mdp.initial),
        "name": np.asarray(mdp.name),
    }
    if mdp.is_sparse:
        matrix = mdp.transitions
        fields |= zip(SPARSE_PARTS, (matrix.data, matrix.indices, matrix.indptr), strict=True)
    else:
        fields["transitions"] = mdp.transitions
    for field in ("state_names", "action_names", "features"):
        if getattr(mdp, field) is not None:
            fields[field] = np.asarray(getattr(mdp, field))
    np.savez(file, **fields)


def _read_npz(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ValueError("not a whole .npz file")
    fields: dict[str, Any] = {}
    field = ""
    try:
        with np.load(path, allow_pickle=False) as archive:
            for field in archive.files:
                fields[field] = archive[field]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"field {field!r}: {error}") from None
    return _arguments(fields)


def _arguments(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `TabularMDP` that the arrays of a `.npz` file stand for."""
    known = (*NUMBER_FIELDS, "noise", *TEXT_FIELDS)
    for field, array in fields.items():
        if field not in known:
            raise unknown("field", field, known)
        kinds = {"noise": "Uiuf"}.get(field, "U" if field in TEXT_FIELDS else "iuf")
        if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
            raise ValueError(f"field {field!r} must be {'text' if kinds == 'U' else 'numbers'}")
    if "rewards" not in fields:
        raise ValueError("field 'rewards' is missing")
    if "transitions" not in fields:
        for part in SPARSE_PARTS:
            if part not in fields:
                raise ValueError(f"field 'transitions' is missing, and {part!r} is, too")
        fields["transitions"] = _sparse(fields)
    for field in ("noise", "initial", "name"):
        if field in fields and fields[field].ndim == 0:
            fields[field] = fields[field].item()
    for field in ("state_names", "action_names"):
        if field in fields:
            fields[field] = np.atleast_1d(fields[field]).tolist()
    return {field: value for field, value in fields.items() if field not in SPARSE_PARTS}


def _sparse(fields: dict[str, Any]) -> scipy.sparse.csr_array:
    """Return the sparse transitions of a `.npz` file with every index checked."""
    if fields["rewards"].ndim != 2:
        raise ValueError(f"field 'rewards' must be (S, A), not {fields['rewards'].shape}")
    n_states, n_actions = fields["rewards"].shape
    data, indices, indptr = (fields[part] for part in SPARSE_PARTS)
    shape = (n_states * n_actions, n_states)
    try:
        matrix = scipy.sparse.csr_array((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"fields {', '.join(SPARSE_PARTS)}: {error}") from None
    return matrix
