"""Where tasks are performed: threads of this machine, or a Ray cluster.

A task is some steps of a group of runs. It is a pure function: whoever performs it, and however
often, the outcome is the same, so a lost one is simply performed again.
"""

import importlib.util
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from cpsrl.checks import checked_whole, checked_word
from cpsrl.experiments.provenance import Provenance
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import Group
from cpsrl.networks.devices import DEVICES, described
from cpsrl.registry import Registry
from cpsrl.simulation import Runs, simulate
from cpsrl.simulation.simulate import cores
from cpsrl.types import Ints
from cpsrl.waiting import Threads

RETRIES = 5
"""How often Ray performs a task again whose worker was lost."""


@dataclass(frozen=True)
class Execution:
    """How an experiment is executed; results depend on none of it but an accelerator.

    Args:
        backend: "local", threads of this machine, or "ray", a Ray cluster.
        jobs: how many tasks at once; as many as there are cores by default.
        address: of a running Ray cluster ("auto" finds one); by default one is started here.
        repair: compute damaged runs anew instead of refusing to go on.
        device: where networks are computed: auto, cpu, gpu, tpu and others (see
            `cpsrl.networks.devices`). Only there may results depend on it, and only runs of the
            same device are carried on.
    """

    backend: str = "local"
    jobs: int | None = None
    address: str | None = None
    repair: bool = False
    device: str = "auto"

    def check(self) -> None:
        """Raise a ValueError if there is no such way to execute anything here."""
        if self.jobs is not None:
            checked_whole("jobs", self.jobs, 1)
        checked_word("device", self.device, DEVICES)
        if BACKENDS[self.backend] is not Ray and self.address is not None:
            raise ValueError("an address goes with the ray backend")
        if BACKENDS[self.backend] is Ray and importlib.util.find_spec("ray") is None:
            raise ValueError("the ray backend needs Ray: pip install 'cpsrl[ray]'")

    def described(self, experiment: Experiment) -> str:
        """Return the accelerator that the experiment's networks are computed with; else empty."""
        return described(self.device) if "jax" in experiment.packages else ""

    def open(self) -> "Backend":
        """Return the backend, ready for tasks."""
        self.check()
        return BACKENDS[self.backend](self)


@dataclass(frozen=True)
class Task:
    """`steps` further steps of a group of runs, from `resume` or from the beginning."""

    experiment: Experiment
    group: Group
    steps: int
    record: Ints
    """The steps to record, counted from the beginning of the run."""
    resume: "tuple[dict[str, Any], ...] | Elsewhere"
    provenance: Provenance
    device: str = "auto"


@dataclass(frozen=True)
class Elsewhere:
    """The state of runs in an object store, which a call brings here."""

    reference: Any
    get: Callable[[Any], Any]

    def __call__(self) -> Any:
        """Return the state."""
        return self.get(self.reference)


def left_by(runs: Runs | None) -> Any:
    """Return what a task can go on from after `runs`: their state, or where it is."""
    if runs is None:
        return ()
    return runs.state_as_given if isinstance(runs.state_as_given, Elsewhere) else runs.state


Advance = Callable[[int], None]
"""Is called with a number of steps taken since the last call."""


def perform(task: Task, advance: Advance | None = None, stop: Ints | None = None) -> Runs:
    """Perform `task` in this thread; raise InterruptedError if another one sets `stop` to 1."""
    here = Execution(device=task.device).described(task.experiment)
    if difference := task.provenance.difference(here):
        raise ValueError(f"a worker cannot take part in this experiment: it needs {difference}")
    stop = np.zeros(1, np.int64) if stop is None else stop
    experiment, group, n = task.experiment, task.group, len(task.group.runs)
    alike, parts = n if group.environment.per_run is None else 1, []
    resume = task.resume() if isinstance(task.resume, Elsewhere) else task.resume
    for first in range(0, n, alike):
        rows = slice(first, first + alike)
        part = simulate(
            experiment.agent(group.agent, group.environment, group.runs[first]),
            experiment.problem(group.environment, group.runs[first]),
            task.steps,
            seeds=group.runs[rows],
            seed=experiment.seed,
            record=task.record,
            resume=resume[rows],
            progress=advance,
            stop=stop,
            device=task.device,
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
class Local:
    """Threads of this process; the kernels run without the interpreter lock."""

    def __init__(self, execution: Execution) -> None:
        jobs = execution.jobs or cores()
        self._threads = Threads(jobs)
        self._stop = np.zeros(1, np.int64)
        self.slots = jobs

    def submit(self, task: Task, advance: Advance) -> "Future[Runs]":
        """Begin `task` on the next free thread."""
        return self._threads.submit(perform, task, advance, self._stop)

    def close(self) -> None:
        """Stop every task as soon as it looks; do not wait until it does."""
        self._stop[0] = 1
        self._threads.close()


@BACKENDS.add("ray")
class Ray:
    """A Ray cluster: the running one at `address`, or one on this machine with `jobs` workers.

    A task whose worker is lost is performed again by Ray itself. Only this process writes results.
    The state of runs goes from task to task through the object store, and comes here to be stored.
    """

    def __init__(self, execution: Execution) -> None:
        import ray

        jobs, address = execution.jobs, execution.address
        self._ray, self._own = ray, not ray.is_initialized()
        if self._own:
            own = {"log_to_driver": False, "include_dashboard": False}
            try:
                ray.init(address=address, num_cpus=None if address else jobs, **own)
            except ConnectionError as error:
                raise ValueError(f"there is no Ray cluster at {address}: {error}") from None
        self.slots = jobs or int(ray.cluster_resources().get("CPU", 1))
        self._perform = ray.remote(num_cpus=1, max_retries=RETRIES, num_returns=2)(perform_apart)

    def submit(self, task: Task, advance: Advance) -> "Future[Runs]":
        """Begin `task` on the cluster; its steps are reported when it is done."""
        start = task.resume.reference if isinstance(task.resume, Elsewhere) else task.resume
        curves, left = self._perform.remote(replace(task, resume=()), start)
        outcome: Future[Runs] = Future()

        def receive(done: "Future[Runs]") -> None:
            try:
                runs = replace(done.result(), state=Elsewhere(left, self._ray.get))
                advance(task.steps * len(task.group.runs))
                outcome.set_result(runs)
            except BaseException as error:  # in a thread of Ray's, where nobody would hear of it
                outcome.set_exception(error)

        curves.future().add_done_callback(receive)
        return outcome

    def close(self) -> None:
        """Leave the cluster; shut it down if it was started here."""
        if self._own:
            self._ray.shutdown()


_kept = lru_cache(maxsize=4)(lambda experiment: experiment)


def perform_apart(task: Task, resume: Any) -> tuple[Runs, Any]:
    """Perform `task` from `resume` in another process, and return the state apart from the rest.

    The process keeps what it has built of the experiment.
    """
    found = perform(replace(task, experiment=_kept(task.experiment), resume=resume))
    return replace(found, state=None), found.state
