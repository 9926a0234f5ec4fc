"""Processes to be killed, forked from one that has loaded what they need: quick, no threads."""

import multiprocessing
import os
import signal
import sys
from unittest import mock

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["live.warmed"])


def die_in(seconds):
    """Let this process be killed so soon, by the system, whatever it does."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))


def was_killed(process):
    """Return, when a process has ended, whether `die_in` has ended it."""
    process.join(600)
    assert process.exitcode in (0, -signal.SIGALRM)
    return process.exitcode != 0


def forked(target, *arguments):
    """Return a process that calls `target`, started."""
    process = FORKS.Process(target=target, args=arguments)
    # The server that forks is started by the first process, and finds modules by this alone.
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        process.start()
    return process
