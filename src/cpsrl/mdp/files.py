"""MDPs as files, both ways: `.npz`, `.csv`, `.parquet` and `.drn`.

`.npz` keeps everything: `transitions` (S, A, S), or `transitions_data`, `transitions_indices` and
`transitions_indptr` of the sparse matrix (S*A, S); `rewards` (S, A); and, each of them optional,
`transition_rewards` (one for every transition that is not 0, in the order of s, a and s'),
`available` (S, A), `noise`, `initial`, `state_names`, `action_names`, `features`, `name` and
`reward_range`.

`.csv` and `.parquet` are tables with one line per possible transition: see
`cpsrl.mdp.transition_tables`. `.drn` is the explicit format of the model checker Storm: see
`cpsrl.mdp.drn`.

A file is read as the arguments of `TabularMDP`, which checks them; reading one never runs code.
Files are written whole or not at all.
"""

import os
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy

from cpsrl.mdp.drn import read_drn, write_drn
from cpsrl.mdp.transition_tables import ROUNDED, read_csv, read_parquet, write_csv, write_parquet
from cpsrl.support.atomic import whole_file
from cpsrl.support.checks import COPIES, check_unpacked, is_sparse
from cpsrl.support.registry import unknown
from cpsrl.support.serialise import MISREAD, checked_file

__all__ = ["read_arguments", "write_mdp"]

FILES = (".npz", ".csv", ".parquet", ".drn")
SPARSE_PARTS = ("transitions_data", "transitions_indices", "transitions_indptr")
REWARD_FIELDS = ("rewards", "transition_rewards", "reward_range")
NUMBER_FIELDS = ("transitions", *SPARSE_PARTS, *REWARD_FIELDS, "initial", "features")
TEXT_FIELDS = ("state_names", "action_names", "name")


def read_arguments(
    path: str | os.PathLike[str],
    normalise: bool = False,
    missing_unavailable: bool = False,
    reward_model: str | None = None,
) -> dict[str, Any]:
    """Return the arguments of the `TabularMDP` in a file, read with the options of its `load`."""
    path = Path(path)
    suffix = _suffix(path)
    if reward_model is not None and suffix != ".drn":
        raise ValueError(f"{path}: only a .drn file has reward models to choose from")
    if not checked_file(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        chosen = (reward_model,) if suffix == ".drn" else ()
        read, _ = FORMATS[suffix]
        arguments: dict[str, Any] = read(path, normalise, missing_unavailable, *chosen)
        return _normalised(path, arguments) if normalise else arguments
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_mdp(mdp: Any, path: str | os.PathLike[str]) -> None:
    """Write `mdp` to a `.npz`, `.csv`, `.parquet` or `.drn` file, whole or not at all."""
    path = Path(path)
    _, write = FORMATS[_suffix(path)]
    with whole_file(path) as file:
        write(mdp, file)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FILES:
        raise ValueError(
            f"{path}: an MDP is stored as .npz, .csv, .parquet or .drn, not {suffix!r}"
        )
    return suffix


def write_npz(mdp: Any, file: IO[bytes]) -> None:
    """Write `mdp` to an open `.npz` file."""
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
    for field in ("transition_rewards", "available", "state_names", "action_names", "features"):
        if getattr(mdp, field) is not None:
            fields[field] = np.asarray(getattr(mdp, field))
    if mdp.declares_range:
        fields["reward_range"] = np.asarray(mdp.reward_range)
    np.savez(file, **fields)


def _normalised(path: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with rows that sum to 1, and warn of the largest correction."""
    given = arguments["transitions"]
    if given.ndim < 2:
        return arguments  # which `TabularMDP` refuses
    rows = given if is_sparse(given) else given.reshape(-1, given.shape[-1])
    sums = np.asarray(rows.sum(axis=1)).ravel()
    used = np.ones(len(sums), np.bool_)
    if (mask := arguments.get("available")) is not None and np.size(mask) == len(sums):
        used = np.ravel(mask).astype(np.bool_)
    off = np.where(used, np.abs(sums - 1.0), 0.0)
    if (off > ROUNDED).any():
        raise ValueError(f"row {np.argmax(off)} of the transitions sums to {sums[np.argmax(off)]}")
    scale = np.where(off > 0.0, 1.0 / np.where(used, sums, 1.0), 1.0)
    if is_sparse(given):
        arguments["transitions"] = scipy.sparse.diags_array(scale) @ given
    else:
        arguments["transitions"] = (rows * scale[:, None]).reshape(given.shape)
    warnings.warn(
        f"{path}: {np.count_nonzero(off)} of {np.count_nonzero(used)} rows were normalised; the "
        f"largest correction was {off.max():.3g}",
        stacklevel=4,
    )
    return arguments


def read_npz(
    path: Path | IO[bytes], normalise: bool = False, missing_unavailable: bool = False
) -> dict[str, Any]:
    """Return the arguments of the MDP of a `.npz` file, by its path or open."""
    if not zipfile.is_zipfile(path):
        raise ValueError("not a whole .npz file")
    with zipfile.ZipFile(path) as file:
        check_unpacked(path, COPIES * sum(float(entry.file_size) for entry in file.infolist()))
    if not isinstance(path, Path):
        path.seek(0)
    fields: dict[str, Any] = {}
    field = ""
    try:
        with np.load(path, allow_pickle=False) as archive:
            for field in archive.files:
                fields[field] = archive[field]
    except (ValueError, OSError, *MISREAD) as error:
        raise ValueError(f"field {field!r}: {error}") from None
    arguments = _arguments(fields)
    if missing_unavailable:
        rows = arguments["transitions"]
        sums = rows.sum(axis=1 if is_sparse(rows) else 2)
        found = np.asarray(sums).reshape(arguments["rewards"].shape[:2]) > 0.0
        arguments["available"] = found & np.asarray(arguments.get("available", True))
    return arguments


def _arguments(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `TabularMDP` that the arrays of a `.npz` file stand for."""
    known = (*NUMBER_FIELDS, "available", "noise", *TEXT_FIELDS)
    for field, array in fields.items():
        if field not in known:
            raise unknown("field", field, known)
        kinds = {"noise": "Uiuf", "available": "biu"}.get(
            field, "U" if field in TEXT_FIELDS else "iuf"
        )
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


def _sparse(fields: dict[str, Any]) -> Any:
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


FORMATS: dict[str, Any] = {
    ".npz": (read_npz, write_npz),
    ".csv": (read_csv, write_csv),
    ".parquet": (read_parquet, write_parquet),
    ".drn": (read_drn, write_drn),
}
"""How files are read and written, by their suffix."""
