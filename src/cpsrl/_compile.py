"""The one way to compile a kernel.

Numba's on-disk cache looks at the file a kernel stands in and not at the files of the functions it
calls, so an edit to a callee in another module would leave the caller's old machine code in use.
The cache directory is therefore keyed by a hash of the package's sources: an edit starts an empty
cache. Only the top floors are left out, which hold no kernel and which no kernel can import.

No kernel is compiled with fast-math: the same input gives the same bits however the code around a
kernel is composed.
"""

import atexit
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

WITHOUT_KERNELS = ("cli", "experiments", "reports")
_announced = threading.Event()


def sources_hash(package: Path) -> str:
    """Return a short hash of the Python files below `package` on which a kernel can depend."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in WITHOUT_KERNELS:
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Return the directory of all compiled code: `CPSRL_CACHE_DIR`, or the user's cache folder."""
    if chosen := os.environ.get("CPSRL_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cpsrl"


def kernel_cache() -> Path:
    """Return the directory of this version's kernels; a passing one if that can't be written."""
    path = cache_root() / f"kernels-{sources_hash(Path(__file__).parent)}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        passing = tempfile.TemporaryDirectory(prefix="cpsrl-")
        atexit.register(passing.cleanup)
        print(
            f"cpsrl: cannot write to {path} ({error.strerror}): kernels are compiled anew by every "
            "process; set CPSRL_CACHE_DIR to a directory that can be written",
            file=sys.stderr,
            flush=True,
        )
        return Path(passing.name)


KERNEL_CACHE = kernel_cache()


def _compiled(function: F, **options: Any) -> F:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(KERNEL_CACHE)
    try:
        compiled: F = numba.njit(cache=True, nogil=True, fastmath=False, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    return compiled


def jit(function: F) -> F:
    """Compile `function` with Numba: nopython, cached on disk, without the interpreter lock."""
    return _compiled(function)


def inlined(function: F) -> F:
    """Compile `function` as `jit` does, and paste it into the compiled code that calls it.

    For what an inner loop calls: handing arrays and generators to a compiled function costs 10 to
    20 ns, more than many of these functions take.
    """
    return _compiled(function, inline="always")


def announce_compilation(kernel: Callable[..., Any]) -> None:
    """Say once on standard error that `kernel` is about to be compiled, unless it is cached."""
    cached = any(KERNEL_CACHE.glob(f"**/*.{kernel.__name__}-*.nbi"))
    if not cached and not _announced.is_set():
        _announced.set()
        print("cpsrl: compiling kernels (once for this version) ...", file=sys.stderr, flush=True)
