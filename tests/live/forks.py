"""Processes to be killed, forked from one that has loaded what they need: quick, no threads."""

import multiprocessing
import os
import sys
from unittest import mock

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["live.warmed"])


def forked(target, *arguments):
    """Return a process that calls `target`, started."""
    process = FORKS.Process(target=target, args=arguments)
    # The server that forks is started by the first process, and finds modules by this alone.
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        process.start()
    return process
