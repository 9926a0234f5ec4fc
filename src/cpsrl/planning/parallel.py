"""Work on large sparse models, shared among threads by blocks of states or rows.

A block is a range of states with about as many entries as any other. What a kernel does to one does
not depend on the others, so the result is the same for any number of threads.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.support.interruptible import Threads, once_a_process

T = TypeVar("T")

PARALLEL_ENTRIES = 500_000
"""Models with fewer transitions than this are stepped through by one thread."""


@once_a_process
def _threads() -> Threads:
    return Threads(cores())


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blocks(mdp: TabularMDP) -> list[tuple[int, int]]:
    """Return the ranges of states, first and past the last, that threads take in a sparse model."""
    starts, n_states = mdp.csr.indptr, mdp.n_states
    many = cores() if len(mdp.csr.data) >= PARALLEL_ENTRIES else 1
    if many == 1:
        return [(0, n_states)]
    goals = np.linspace(0, starts[-1], many + 1)[1:-1]
    inner = np.searchsorted(starts[:: mdp.n_actions], goals).tolist()
    cuts = [0, *inner, n_states]
    return list(pairwise(cuts))


def in_parallel(
    kernel: Callable[..., T], arguments: tuple[Any, ...], parts: list[Any]
) -> Iterator[T]:
    """Yield what `kernel` gives for `arguments` followed by each of the `parts`, in their order."""
    rest = deque(_threads().submit(kernel, *arguments, *part) for part in parts[1:])
    yield kernel(*arguments, *parts[0])
    while rest:
        yield rest.popleft().result()
