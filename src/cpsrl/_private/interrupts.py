"""What Python has no public call for: an exception in another thread, an end without a clean-up.

`signals` is `signal` without its enumerations, which take twenty times as long as the calls.
"""

import ctypes
import os
import signal
import sys
import threading
from typing import Any

signals: Any = sys.modules.get("_signal", signal)


def raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raise `error` in `thread` soon, between two bytecodes.

    On an interpreter without this call of its C interface the thread goes on to its end.
    """
    call = getattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", None)
    if call is not None:
        call(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error))


def end_process(exit_code: int | None) -> None:
    """End the process at once with `exit_code`, or, if that is None, as an unhandled Ctrl-C does.

    `os._exit` leaves out Python's clean-up, which would free memory that threads still use.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if exit_code is not None:
        os._exit(exit_code)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
