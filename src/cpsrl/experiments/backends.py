"""Where tasks are performed: threads of this machine, or a Ray cluster.

A task is a chunk of steps of a group of runs. It is a pure function: whoever performs it, and
however often, the outcome is the same, so a lost one is simply performed again.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cpsrl.checks import checked_whole
from cpsrl.experiments.origin import Origin, origin
from cpsrl.experiments.spec import Entry, make_agent, make_environment, tuned
from cpsrl.experiments.store import Curves
from cpsrl.mdp import TabularMDP
from cpsrl.registry import Registry
from cpsrl.simulation import Runs, simulate
from cpsrl.simulation.simulate import cores

RETRIES = 5
"""How often Ray performs a task again whose worker was lost."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Task:
    """`steps` further steps of `runs`, from `start` or from the beginning."""

    environment: Entry
    agent: Entry
    runs: tuple[int, ...]
    seed: int
    horizon: int
    """The steps of the experiment as specified, to which agents are tuned."""
    steps: int
    record: NDArray[np.int64]
    """The steps to record, counted from the beginning of the run."""
    start: tuple[Any, ...] | None
    origin: Origin


@dataclass(frozen=True)
class Outcome:
    """What a task gives: its points, where its runs stand now, and the time it took."""

    curves: Curves
    gain: tuple[float, ...]
    state: tuple[Any, ...]
    seconds: float


def perform(task: Task, progress: Progress | None = None) -> Outcome:
    """Perform `task` on one thread."""
    here = origin(tuple(name for name, _ in task.origin.versions))
    if difference := task.origin.difference(here):
        raise ValueError(f"a worker cannot take part in this experiment: it needs {difference}")
    began = time.perf_counter()
    agent = make_agent(task.agent)
    rows = range(len(task.runs))
    alike = [rows] if task.environment.per_run is None else [range(i, i + 1) for i in rows]
    parts = []
    for rows in alike:
        mdp = _environment(task.environment, task.runs[rows[0]], task.seed)
        part = simulate(
            tuned(agent, mdp, task.horizon),
            mdp,
            task.steps,
            seeds=[task.runs[i] for i in rows],
            seed=task.seed,
            record=task.record,
            start=None if task.start is None else tuple(task.start[i] for i in rows),
            threads=1,
            progress=progress,
        )
        parts.append(part)
    runs = Runs.join(parts)
    assert runs.state is not None
    kept = np.isin(runs.times, task.record)
    curves = Curves(runs.times[kept], runs.regret[:, kept], runs.resamples[:, kept])
    gain = tuple(float(g) for g in runs.gain)
    return Outcome(curves, gain, tuple(runs.state), time.perf_counter() - began)


@lru_cache(maxsize=64)
def _environment(entry: Entry, run: int, seed: int) -> TabularMDP:
    """Return an environment, kept so that what is computed of it once serves every chunk."""
    return make_environment(entry, run, seed)


class Pool(Protocol):
    """A place that performs tasks."""

    slots: int
    """How many tasks it can use at once."""

    def submit(self, task: Task, progress: Progress) -> "Future[Outcome]":
        """Begin `task`; `progress` may be called with numbers of steps as they are taken."""

    def close(self) -> None:
        """Give up what is under way and let the place go."""


BACKENDS: Registry[Pool] = Registry("backend")


class Stopped(Exception):
    """Raised inside a task that nobody waits for any more."""


@BACKENDS.add("local")
class Threads:
    """Threads of this process; the kernels run without the interpreter lock."""

    def __init__(self, jobs: int | None = None, address: str | None = None) -> None:
        _check_jobs(jobs)
        if address is not None:
            raise ValueError("an address goes with the ray backend")
        jobs = jobs or cores()
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="cpsrl")
        self._stop = threading.Event()
        self.slots = jobs + 1

    def submit(self, task: Task, progress: Progress) -> "Future[Outcome]":
        """Begin `task` on the next free thread."""

        def advance(steps: int) -> None:
            if self._stop.is_set():
                raise Stopped
            progress(steps)

        return self._threads.submit(perform, task, advance)

    def close(self) -> None:
        """Stop every task at its next report of progress."""
        self._stop.set()
        self._threads.shutdown(wait=True, cancel_futures=True)


@BACKENDS.add("ray")
class Ray:
    """A Ray cluster: the running one at `address`, or one on this machine with `jobs` workers.

    A task whose worker is lost is performed again by Ray itself. Only this process writes results.
    """

    def __init__(self, jobs: int | None = None, address: str | None = None) -> None:
        _check_jobs(jobs)
        try:
            import ray
        except ModuleNotFoundError:
            raise ValueError("the ray backend needs Ray: pip install 'cpsrl[ray]'") from None
        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            cores = None if address else jobs
            try:
                ray.init(
                    address=address, num_cpus=cores, log_to_driver=False, include_dashboard=False
                )
            except ConnectionError as error:
                raise ValueError(f"there is no Ray cluster at {address}: {error}") from None
        self.slots = jobs or int(ray.cluster_resources().get("CPU", 1)) + 1
        self._perform = ray.remote(num_cpus=1, max_retries=RETRIES)(perform)

    def submit(self, task: Task, progress: Progress) -> "Future[Outcome]":
        """Begin `task` on the cluster; its steps are reported when it is done."""
        outcome: Future[Outcome] = self._perform.remote(task).future()
        steps = task.steps * len(task.runs)
        outcome.add_done_callback(lambda done: None if done.exception() else progress(steps))
        return outcome

    def close(self) -> None:
        """Leave the cluster; shut it down if it was started here."""
        if self._own:
            self._ray.shutdown()


def _check_jobs(jobs: int | None) -> None:
    if jobs is not None:
        checked_whole("jobs", jobs, 1)
