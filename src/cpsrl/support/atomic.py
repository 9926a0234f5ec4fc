"""Files that are written whole or not at all, and files that one process holds at a time.

Both on POSIX and on Windows, which can't sync a folder and has locks of its own.
"""

import importlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, EISDIR
from pathlib import Path
from typing import IO, Any

LOCKED_BYTE = 2**30
"""Far behind what is written: on Windows nobody else can read a byte that is locked."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that becomes `path` when the block ends, and leaves no trace if it fails."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, f"cannot write {path}: it is a folder")
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, f"cannot write {path}: it is a pipe or a device")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:  # which would name the temporary file
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # where nothing can be written, nothing is there
            temporary.unlink()
    if not hasattr(os, "O_DIRECTORY"):
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file against other processes until it is closed; return whether that worked."""
    try:
        import fcntl
    except ImportError:
        windows: Any = importlib.import_module("msvcrt")
        place = file.tell()
        file.seek(LOCKED_BYTE)
        try:
            windows.locking(file.fileno(), windows.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            file.seek(place)
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
