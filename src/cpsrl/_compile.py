"""The one way to compile a kernel.

Numba's on-disk cache looks at the file a kernel stands in and not at the files of the functions it
calls, so an edit to a callee in another module would leave the caller's old machine code in use.
The cache directory is therefore keyed by a hash of every source file of the package: any edit
starts an empty cache.

No kernel is compiled with fast-math: the same input gives the same bits however the code around a
kernel is composed.
"""

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

_announced = threading.Event()


def sources_hash(package: Path) -> str:
    """Return a short hash of the names and contents of every Python file below `package`."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Return the directory of all compiled code: `CPSRL_CACHE_DIR`, or the user's cache folder."""
    if chosen := os.environ.get("CPSRL_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cpsrl"


KERNEL_CACHE = cache_root() / f"kernels-{sources_hash(Path(__file__).parent)}"


def jit(function: F) -> F:
    """Compile `function` with Numba: nopython, cached on disk, without the interpreter lock."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(KERNEL_CACHE)
    try:
        compiled: F = numba.njit(cache=True, nogil=True, fastmath=False)(function)
    finally:
        numba.config.CACHE_DIR = before
    return compiled


def announce_compilation(kernel: Callable[..., Any]) -> None:
    """Say once on standard error that `kernel` is about to be compiled, unless it is cached."""
    name = f"{kernel.__name__}-"
    cached = KERNEL_CACHE.is_dir() and any(
        path.name.rpartition(".")[0] and name in path.name for path in KERNEL_CACHE.rglob("*.nbi")
    )
    if not cached and not _announced.is_set():
        _announced.set()
        print("cpsrl: compiling kernels (once for this version) ...", file=sys.stderr, flush=True)
