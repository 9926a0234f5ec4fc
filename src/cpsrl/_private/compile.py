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
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.types import Boolean, Integer

from cpsrl.support.interruptible import in_thread

F = TypeVar("F", bound=Callable[..., Any])

OURS = (f"{__name__.partition('.')[0]}.", "numba.", "numpy.")
LIBRARIES = ("math", "numba", "numpy")
"""Modules whose functions stay as they are."""
PLAIN = (bool, int, float, str, bytes, type(None), np.generic, np.ndarray)
WITHOUT_KERNELS = ("cli", "experiments", "gym", "live", "documents", "reports", "watching")
MESSAGE = "compiling, once for this version: 5 to 30 s for every new kind of agent or problem ..."
SAID_AFTER = 1.0
ALLOCATES: dict[str, bool] = {}
LEAF = {"_nrt": False}
INLINED = LEAF | {"forceinline": True}
"""How `jit`, `leaf` and `inlined` compile."""
_said, _saying = threading.Event(), threading.Lock()
_folder_lock = threading.Lock()
"""Numba takes the folder from a setting of the whole process."""


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
    """Return the directory of this version's kernels; a temporary one if that can't be written."""
    path = cache_root() / f"kernels-{sources_hash(Path(__file__).parents[1])}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        temporary = tempfile.TemporaryDirectory(prefix="cpsrl-")
        atexit.register(temporary.cleanup)
        print(
            f"cpsrl: cannot write to {path} ({error.strerror}): kernels are compiled anew by every "
            "process; set CPSRL_CACHE_DIR to a directory that can be written",
            file=sys.stderr,
            flush=True,
        )
        return Path(temporary.name)


KERNEL_CACHE = kernel_cache()


def _compiled(function: F, folder: Path = KERNEL_CACHE, **options: Any) -> F:
    options |= {"nogil": True, "fastmath": False}
    if function.__module__ not in sys.modules:  # made by exec: no later process could find it
        return _guarded(numba.njit(**options)(function))
    with _folder_lock:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            compiled: F = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # it stands in no file, but in an interactive session
            compiled = numba.njit(**options)(function)
        finally:
            numba.config.CACHE_DIR = before
    return _guarded(compiled)


def jit(function: F) -> F:
    """Compile `function` with Numba: nopython, cached on disk, without the interpreter lock."""
    return _compiled(function, _folder(function))


def leaf(function: F) -> F:
    """Compile `function` as `jit` does, without reference counts; it must not make an array.

    Numba's counts are atomic, about 5 ns each, and it can't prune those around a division that may
    raise: they were half the time of a step. What a leaf calls must be a leaf, too.
    """
    return _compiled(function, _folder(function), **LEAF)


def inlined(function: F, **options: Any) -> F:
    """Compile `function` as `leaf` does, and have it pasted into the code that calls it.

    For the few lines that an inner loop is made of: a call that hands arrays on copies their
    descriptions, which takes longer than what these functions do. There, indices are made unsigned
    where they are used: of a signed one compiled code asks whether it counts from the end.
    """
    return _compiled(function, _folder(function), **INLINED, **options)


@cache
def predicate(function: Any, signature: str) -> Any:
    """Return a function of yes or no compiled as by `inlined`, or None if that can't be done."""
    try:
        compiled: Any = inlined(getattr(function, "py_func", function), boundscheck=True)
        compiled.compile(signature)
    except NumbaError:
        return None
    answer = compiled.nopython_signatures[0].return_type
    return compiled if isinstance(answer, Boolean | Integer) else None  # or it may be None at times


def specialised(template: F, how: dict[str, bool] = LEAF, **parts: Any) -> F:
    """Return what `template` is with its global names `parts` bound to these values, compiled.

    This is how a loop takes a belief or a rule as a part. A function that is handed over as an
    argument, or closed over, is never found in Numba's disk cache again; a global is, but without a
    look at what it is bound to. So each choice of parts has a folder of its own in the cache, named
    by a fingerprint of their code: an edited part is compiled anew, an unchanged one is not.
    """
    digest = _digest(sorted(parts.items()))
    # The name goes into the machine code's symbols, where two choices of parts must not meet.
    bound: Any = FunctionType(
        template.__code__,
        {**template.__globals__, **parts},
        f"{template.__name__}_{digest}",
        template.__defaults__,
    )
    bound.__qualname__ = bound.__name__
    for part in parts.values():
        module = getattr(getattr(part, "py_func", None), "__module__", __name__)
        if module not in sys.modules:
            bound.__module__ = module
    return _compiled(bound, KERNEL_CACHE / digest, **how)


def _folder(function: Callable[..., Any]) -> Path:
    """Return where compiled code is kept: for one from elsewhere, by a fingerprint of its code."""
    ours = (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    return KERNEL_CACHE if ours else KERNEL_CACHE / _digest(function)


def _digest(value: Any) -> str:
    fingerprint = _Fingerprint()
    fingerprint.enter(value)
    return fingerprint.digest.hexdigest()[:16]


class _Fingerprint:
    """A hash of all that compiled code made of a value depends on.

    What is met again is entered by its number, because which of two functions stands in a place
    matters even where both were met before.
    """

    def __init__(self) -> None:
        self.digest, self._seen = hashlib.sha256(), dict[Any, int]()

    def _met(self, key: Any) -> bool:
        """Enter the number of `key`; return whether it was met before."""
        before = key in self._seen
        self.digest.update(b"%d;" % self._seen.setdefault(key, len(self._seen)))
        return before

    def enter(self, value: Any, names: tuple[str, ...] = ()) -> None:
        """Enter functions and plain values; of a user's module, what has one of the `names`."""
        function = getattr(value, "py_func", value)
        if isinstance(function, FunctionType):
            if not self._met(function):
                self._enter_function(function)
        elif isinstance(value, list | tuple):
            for item in value:
                self.enter(item)
        elif isinstance(value, ModuleType):
            if value.__name__ not in LIBRARIES and not self._met((value, names)):
                for name in names:
                    self.enter(getattr(value, name, None), names)
        elif isinstance(value, PLAIN):
            self.digest.update(
                value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            )

    def _enter_function(self, function: FunctionType) -> None:
        self.enter((function.__defaults__, *(function.__kwdefaults__ or {}).values()))
        if function.__module__ and not function.__module__.startswith(OURS):
            source = Path(function.__code__.co_filename)
            self.digest.update(source.read_bytes() if source.is_file() else b"")
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            self.digest.update(code.co_code + repr(code.co_names + code.co_varnames).encode())
            for constant in code.co_consts:
                if isinstance(constant, CodeType):
                    codes.append(constant)
                else:
                    self.digest.update(repr(constant).encode())
            for name in code.co_names:
                if name in function.__globals__:
                    self.enter(function.__globals__[name], code.co_names)
        for cell in function.__closure__ or ():
            self.enter(cell.cell_contents)


def _guarded(dispatcher: Any) -> Any:
    """Return a dispatcher that compiles in a thread of its own, where nothing interrupts it.

    Ctrl-C in the middle of a compilation would leave the dispatcher, and the callees that it shares
    with others, without machine code permanently. A thread that holds the compiler's lock already
    compiles something that calls this one.
    """
    compile_here = dispatcher.compile

    def compile_elsewhere(signature: Any) -> Any:
        if global_compiler_lock.is_locked():
            return compile_here(signature)
        began, missed = time.monotonic(), sum(dispatcher.stats.cache_misses.values())

        def waiting() -> None:
            long = time.monotonic() - began > SAID_AFTER
            if long and sum(dispatcher.stats.cache_misses.values()) > missed:
                _say()

        with CLOCK:
            return in_thread(lambda: compile_here(signature), waiting, abandon=False)

    dispatcher.compile = compile_elsewhere
    return dispatcher


def _say() -> None:
    """Print `MESSAGE` on standard error, once."""
    with _saying:
        if not _said.is_set():
            _said.set()
            print(f"cpsrl: {MESSAGE}", file=sys.stderr, flush=True)


class CompileClock:
    """The seconds in which at least one thread waited for compiled code."""

    def __init__(self) -> None:
        self._lock, self._waiting, self._began, self._total = threading.Lock(), 0, 0.0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._waiting:
                self._began = time.monotonic()
            self._waiting += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                self._total += time.monotonic() - self._began

    @property
    def running(self) -> bool:
        """Whether a thread is waiting."""
        return self._waiting > 0

    @property
    def seconds(self) -> float:
        """How many seconds so far."""
        with self._lock:
            return self._total + (time.monotonic() - self._began if self._waiting else 0.0)


CLOCK = CompileClock()
