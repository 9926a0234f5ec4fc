"""Where tasks are performed: threads of this machine, or a Ray cluster.

A task is some steps of a group of runs. A worker has one group under way at a time and keeps its
live agents from one task to the next. A worker that is lost with them is replaced: the group goes
on from its last checkpoint, and comes by the same numbers again.
"""

import importlib.util
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cpsrl.experiments.provenance import Provenance
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import Group
from cpsrl.networks.devices import DEVICES, described
from cpsrl.planning.parallel import cores
from cpsrl.simulation import Group as Actor
from cpsrl.simulation import Runs
from cpsrl.support.checks import checked_whole, checked_word
from cpsrl.support.interruptible import Threads
from cpsrl.support.registry import Registry
from cpsrl.support.types import Ints


@dataclass(frozen=True)
class Execution:
    """How an experiment is executed; results depend on none of it but an accelerator.

    Args:
        backend: "local", threads of this machine, or "ray", a Ray cluster.
        jobs: how many tasks at once; as many as there are cores by default.
        address: of a running Ray cluster ("auto" finds one); by default one is started here.
        repair: compute damaged runs anew instead of refusing to go on.
        device: where networks are computed: auto, cpu, gpu, tpu and others, those that the module
            `cpsrl.networks.devices` lists. Results of networks may depend on it, and only runs of
            the same device are carried on.
        accept_versions: carry on what other versions or another processor computed. The results
            say from which step on.
    """

    backend: str = "local"
    jobs: int | None = None
    address: str | None = None
    repair: bool = False
    device: str = "auto"
    accept_versions: bool = False

    def check(self) -> None:
        """Raise a ValueError if there is no such way to execute anything here."""
        if self.jobs is not None:
            checked_whole("jobs", self.jobs, 1)
        checked_word("device", self.device, DEVICES)
        remote = BACKENDS[self.backend] is BACKENDS["ray"]
        if not remote and self.address is not None:
            raise ValueError("an address goes with the ray backend")
        if remote and importlib.util.find_spec("ray") is None:
            raise ValueError("the ray backend needs Ray: pip install 'cpsrl[ray]'")

    def described(self, experiment: Experiment) -> str:
        """Return the accelerator that the experiment's networks are computed with; else empty."""
        return described(self.device) if "jax" in experiment.packages else ""

    def open(self, experiment: Experiment, provenance: Provenance) -> "Backend":
        """Return the backend, ready for tasks of `experiment` with these versions."""
        return BACKENDS[self.backend](self, experiment, provenance)


@dataclass(frozen=True)
class Task:
    """`steps` further steps of a group of runs."""

    group: Group
    steps: int
    record: Ints
    """The steps to record, counted from the beginning of the run."""
    start: tuple[dict[str, Any], ...] | None = ()
    """The checkpoint that the group goes on from; `()`: it begins; None: the worker has it."""


Advance = Callable[[int], None]
"""Is called with a number of steps taken since the last call."""


class Worker:
    """Performs tasks of one group after the other; it has the actors of one at a time.

    In another process, perhaps on another machine, the versions have to be those `needed`.
    """

    def __init__(
        self, experiment: Experiment, device: str = "auto", needed: Provenance | None = None
    ) -> None:
        self.experiment, self.device = experiment, device
        self._actors: list[Actor] = []
        here = Execution(device=device).described(experiment) if needed else ""
        self._lacks = needed.difference(here) if needed else ""

    def perform(
        self, task: Task, advance: Advance | None = None, stop: Ints | None = None
    ) -> tuple[Runs, tuple[dict[str, Any], ...]]:
        """Return what was recorded, and the checkpoint in the end.

        It is done in this thread; an InterruptedError is raised if another one sets `stop` to 1.
        """
        if self._lacks:
            raise ValueError(
                f"a worker cannot take part in this experiment: it needs {self._lacks}"
            )
        group, stop = task.group, np.zeros(1, np.int64) if stop is None else stop
        if task.start is not None:
            self._begin(group, task.start)
        parts = [a.advance(task.steps, task.record, advance, stop) for a in self._actors]
        states = [a.checkpoint() for a in self._actors]
        if None in states:
            raise ValueError("an agent without state() and restore(state) cannot be carried on")
        labels = {
            "agent": (group.agent.called,) * len(group.runs),
            "environment": (group.environment.called,) * len(group.runs),
        }
        return replace(Runs.join(parts), **labels), sum(states, ())  # type: ignore

    def _begin(self, group: Group, states: tuple[dict[str, Any], ...]) -> None:
        """Make the actors of a group: one, or where every run has its own environment, many."""
        experiment, self._actors = self.experiment, []
        alike = len(group.runs) if group.environment.per_run is None else 1
        for first in range(0, len(group.runs), alike):
            runs = group.runs[first : first + alike]
            self._actors.append(
                Actor.start(
                    experiment.agent(group.agent, group.environment, runs[0]),
                    experiment.problem(group.environment, runs[0]),
                    runs,
                    experiment.seed,
                    experiment.steps,
                    states[first : first + alike],
                    self.device,
                )
            )


class Backend(Protocol):
    """A place that performs tasks."""

    slots: int
    """How many tasks it can use at once."""
    lost: tuple[type[BaseException], ...]
    """What a task raises whose worker was lost."""

    def worker(self) -> Any:
        """Return a further worker."""

    def submit(self, worker: Any, task: Task, advance: Advance) -> "Future[tuple[Runs, Any]]":
        """Begin `task`; `advance` may be called from any thread."""

    def fetch(self, states: Any) -> tuple[dict[str, Any], ...]:
        """Return the checkpoint that a task gave, here."""

    def close(self) -> None:
        """Give up what is under way and let the place go."""


BACKENDS: Registry[Backend] = Registry("backend")


@BACKENDS.add("local")
class Local:
    """Threads of this process; the kernels run without the interpreter lock."""

    lost = ()

    def __init__(self, execution: Execution, experiment: Experiment, needed: Provenance) -> None:
        self.slots = execution.jobs or cores()
        self.worker = lambda: Worker(experiment, execution.device)
        self._threads = Threads(self.slots)
        self._stop = np.zeros(1, np.int64)

    def submit(self, worker: Worker, task: Task, advance: Advance) -> "Future[Any]":
        """Begin `task` on the next free thread."""
        return self._threads.submit(worker.perform, task, advance, self._stop)

    def fetch(self, states: Any) -> Any:
        """Return the checkpoint, which is here."""
        return states

    def close(self) -> None:
        """Stop every task as soon as it looks; do not wait until it does."""
        self._stop[0] = 1
        self._threads.close()


@BACKENDS.add("ray")
class Ray:
    """A Ray cluster: the running one at `address`, or one on this machine with `jobs` workers.

    Only this process writes results. A checkpoint stays in the cluster until it is to be stored.
    """

    def __init__(self, execution: Execution, experiment: Experiment, needed: Provenance) -> None:
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
        self.lost = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        arguments = ray.put(experiment), execution.device, needed
        remote = ray.remote(num_cpus=1)(Worker)
        self._make: Callable[[], Any] = lambda: remote.remote(*arguments)
        self._workers: list[Any] = []

    def worker(self) -> Any:
        """Return a further worker, which takes a core of the cluster until `close`."""
        self._workers.append(self._make())
        return self._workers[-1]

    def submit(self, worker: Any, task: Task, advance: Advance) -> "Future[Any]":
        """Begin `task` on the cluster; its steps are reported when it is done."""
        recorded, states = worker.perform.options(num_returns=2).remote(task)
        outcome: Future[Any] = Future()

        def receive(done: "Future[Runs]") -> None:
            try:
                runs = done.result()
                advance(task.steps * len(task.group.runs))
                outcome.set_result((runs, states))
            except BaseException as error:  # in a thread of Ray's, where nobody would hear of it
                outcome.set_exception(error)

        recorded.future().add_done_callback(receive)
        return outcome

    def fetch(self, states: Any) -> Any:
        """Return the checkpoint, wherever it is in the cluster."""
        return self._ray.get(states)

    def close(self) -> None:
        """Leave the cluster, without waiting for garbage collection; shut it down if it is ours."""
        if self._own:
            self._ray.shutdown()
        else:
            for worker in self._workers:
                self._ray.kill(worker)
