"""Where tasks are performed: threads of this machine, or a Ray cluster.

A task is some steps of a group of runs. It is a pure function: whoever performs it, and however
often, the outcome is the same, so a lost one is simply performed again.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from cpsrl.checks import checked_whole
from cpsrl.experiments.provenance import Provenance
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import Group
from cpsrl.registry import Registry
from cpsrl.simulation import Runs, simulate
from cpsrl.simulation.simulate import cores
from cpsrl.types import Ints

RETRIES = 5
"""How often Ray performs a task again whose worker was lost."""


@dataclass(frozen=True)
class Execution:
    """How an experiment is executed; no result depends on it.

    Args:
        backend: "local", threads of this machine, or "ray", a Ray cluster.
        jobs: how many tasks at once; as many as there are cores by default.
        address: of a running Ray cluster ("auto" finds one); by default one is started here.
        repair: compute damaged runs anew instead of refusing to go on.
    """

    backend: str = "local"
    jobs: int | None = None
    address: str | None = None
    repair: bool = False

    def open(self) -> "Backend":
        """Return the backend, ready for tasks."""
        if self.jobs is not None:
            checked_whole("jobs", self.jobs, 1)
        return BACKENDS[self.backend](self)


@dataclass(frozen=True)
class Task:
    """`steps` further steps of a group of runs, from `resume` or from the beginning."""

    experiment: Experiment
    group: Group
    steps: int
    record: Ints
    """The steps to record, counted from the beginning of the run."""
    resume: tuple[dict[str, Any], ...] | None
    provenance: Provenance


Advance = Callable[[int], None]
"""Is called with a number of steps taken since the last call."""


def perform(task: Task, advance: Advance | None = None, stop: Ints | None = None) -> Runs:
    """Perform `task` in this thread; raise InterruptedError if another one sets `stop` to 1."""
    if difference := task.provenance.difference():
        raise ValueError(f"a worker cannot take part in this experiment: it needs {difference}")
    stop = np.zeros(1, np.int64) if stop is None else stop
    experiment, group, n = task.experiment, task.group, len(task.group.runs)
    alike, parts = n if group.environment.per_run is None else 1, []
    for first in range(0, n, alike):
        rows = slice(first, first + alike)
        part = simulate(
            experiment.agent(group.agent, group.environment, group.runs[first]),
            experiment.problem(group.environment, group.runs[first]),
            task.steps,
            seeds=group.runs[rows],
            seed=experiment.seed,
            record=task.record,
            resume=task.resume and task.resume[rows],
            progress=advance,
            stop=stop,
        )
        parts.append(part)
    found = Runs.join(parts)
    if found.state is None:
        raise ValueError("an agent without state() and restore(state) cannot be carried on")
    labels = {"agent": (group.agent.called,) * n, "environment": (group.environment.called,) * n}
    return replace(found, **labels)  # type: ignore[arg-type]


class Backend(Protocol):
    """A place that performs tasks."""

    slots: int
    """How many tasks it can use at once."""

    def submit(self, task: Task, advance: Advance) -> "Future[Runs]":
        """Begin `task`; `advance` may be called from any thread."""

    def close(self) -> None:
        """Give up what is under way and let the place go."""


BACKENDS: Registry[Backend] = Registry("backend")


@BACKENDS.add("local")
class Threads:
    """Threads of this process; the kernels run without the interpreter lock."""

    def __init__(self, execution: Execution) -> None:
        if execution.address is not None:
            raise ValueError("an address goes with the ray backend")
        jobs = execution.jobs or cores()
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="cpsrl")
        self._stop = np.zeros(1, np.int64)
        self.slots = jobs

    def submit(self, task: Task, advance: Advance) -> "Future[Runs]":
        """Begin `task` on the next free thread."""
        return self._threads.submit(perform, task, advance, self._stop)

    def close(self) -> None:
        """Stop every task as soon as it looks; do not wait until it does."""
        self._stop[0] = 1
        self._threads.shutdown(wait=False, cancel_futures=True)


@BACKENDS.add("ray")
class Ray:
    """A Ray cluster: the running one at `address`, or one on this machine with `jobs` workers.

    A task whose worker is lost is performed again by Ray itself. Only this process writes results.
    """

    def __init__(self, execution: Execution) -> None:
        try:
            import ray
        except ModuleNotFoundError:
            raise ValueError("the ray backend needs Ray: pip install 'cpsrl[ray]'") from None
        jobs, address = execution.jobs, execution.address
        self._ray, self._own = ray, not ray.is_initialized()
        if self._own:
            own = {"log_to_driver": False, "include_dashboard": False}
            try:
                ray.init(address=address, num_cpus=None if address else jobs, **own)
            except ConnectionError as error:
                raise ValueError(f"there is no Ray cluster at {address}: {error}") from None
        self.slots = jobs or int(ray.cluster_resources().get("CPU", 1))
        self._perform = ray.remote(num_cpus=1, max_retries=RETRIES)(perform_apart)

    def submit(self, task: Task, advance: Advance) -> "Future[Runs]":
        """Begin `task` on the cluster; its steps are reported when it is done."""
        outcome: Future[Runs] = self._perform.remote(task).future()
        steps = task.steps * len(task.group.runs)
        outcome.add_done_callback(lambda done: None if done.exception() else advance(steps))
        return outcome

    def close(self) -> None:
        """Leave the cluster; shut it down if it was started here."""
        if self._own:
            self._ray.shutdown()


_kept = lru_cache(maxsize=4)(lambda experiment: experiment)


def perform_apart(task: Task) -> Runs:
    """Perform `task` in another process, which keeps what it has built of the experiment."""
    return perform(replace(task, experiment=_kept(task.experiment)))
