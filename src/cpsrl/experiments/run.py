"""Running an experiment, and carrying it on.

The runs of every agent on every environment are divided into groups, and a group goes forward task
by task. A task is sized by the speed measured so far to last a few seconds, which changes nothing
in the results: 100 + 100 steps are 200 steps. What a task gave is stored when it is done, so that a
crash loses the tasks under way and no more.
"""

import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from cpsrl.checks import checked_whole
from cpsrl.experiments.backends import Backend, Execution, Task
from cpsrl.experiments.files import DamagedError, locked
from cpsrl.experiments.progress import Progress, short
from cpsrl.experiments.results import Results, header, open_or_new, open_results
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import Group, Store, reached
from cpsrl.simulation import Runs

TASK_SECONDS = 10.0
LEAST_STEPS = 100
"""Steps of the shortest task, and of an agent's first, before its speed is known."""
SAVE_SECONDS = 2.0
SAVE_SHARE = 0.05
"""Storing may take this share of the time: large states on slow disks are stored less often."""


def run_experiment(
    experiment: Experiment,
    directory: Path | str,
    execution: Execution | None = None,
    progress: Progress | None = None,
    command: str = "cpsrl.experiments.run_experiment",
) -> Results:
    """Run `experiment` in `directory`; of one that is partly there, do only what is missing.

    Args:
        experiment: the specification.
        directory: where results go; made if need be.
        execution: where and how; by default threads of this machine, one for every core.
        progress: is told how far the runs have come.
        command: what to write into the directory's history.
    """
    directory, execution = Path(directory), execution or Execution()
    with locked(directory):
        results = open_or_new(directory, experiment, execution.repair)
        jobs = _stored(results, execution.repair)
        if execution.repair:  # of the header, whose runs may have been carried on
            results = replace(results, steps=max([results.steps, *(job.step for job in jobs)]))
            results.save()
        return _carry_out(results, jobs, execution, progress or Progress(), command)


def continue_experiment(
    directory: Path | str,
    steps: int | None = None,
    execution: Execution | None = None,
    progress: Progress | None = None,
    command: str = "cpsrl.experiments.continue_experiment",
) -> Results:
    """Carry every run in `directory` on for `steps` further steps, from where it stopped.

    The other arguments are those of `run_experiment`. If an earlier call was interrupted, the same
    call again finishes it and adds no more; without `steps`, what is unfinished is finished.
    """
    if steps is not None:
        steps = checked_whole("steps", steps, 1)
    directory, execution = Path(directory), execution or Execution()
    header(directory)
    with locked(directory):
        results = open_results(directory)
        jobs = _stored(results, execution.repair)
        finished = all(job.step >= results.steps for job in jobs)
        if steps is not None and (steps != results.extension or finished):
            results = replace(results, steps=results.steps + steps, extension=steps)
        return _carry_out(results, jobs, execution, progress or Progress(), command)


def _stored(results: Results, repair: bool) -> list["_Job"]:
    """Return what is stored of every group, checked, and remove what crashes left behind.

    With `repair`, a damaged group is removed, and starts anew.
    """
    if difference := results.provenance.difference():
        raise ValueError(
            f"{results.directory} was computed with {difference}: its runs cannot be carried on "
            "bit for bit here. Read it as it is, or run the specification anew elsewhere"
        )
    store, jobs = results.store, []
    for path in results.directory.rglob(".*.tmp"):
        path.unlink(missing_ok=True)
    store.check_strangers(results.groups)
    for group in results.groups:
        try:
            jobs.append(_Job(group, store.read(group)))
            store.tidy(group, jobs[-1].runs)
        except DamagedError as error:
            if not repair:
                reason = f"{error.reason}; --repair computes it anew"
                raise DamagedError(error.path, reason) from None
            store.remove(group)
            jobs.append(_Job(group, None))
    return jobs


def _carry_out(
    results: Results,
    jobs: list["_Job"],
    execution: Execution,
    progress: Progress,
    command: str,
) -> Results:
    totals: Counter[str] = Counter()
    done: Counter[str] = Counter()
    for job in jobs:
        totals[job.group.agent.called] += len(job.group.runs) * results.steps
        done[job.group.agent.called] += len(job.group.runs) * job.step
    waiting = deque(job for job in jobs if job.step < results.steps)
    jobs.clear()
    if not waiting:
        return results
    with closing(execution.open()) as backend:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        history = (*results.commands, {"command": command, "started": now})
        results = replace(results, commands=history)
        results.save()
        left = short(totals.total() - done.total())
        progress.begin(f"{left} steps to take, {len(totals)} agents", totals, done)
        try:
            _Driver(results, backend, progress).drive(waiting)
        finally:
            progress.end()
    return results


@dataclass(eq=False)
class _Job:
    """A group on its way: what it has so far, and whether that is stored."""

    group: Group
    runs: Runs | None
    saved: bool = True
    next_save: float = 0.0
    speed: float = 0.0

    @property
    def step(self) -> int:
        return reached(self.runs)

    def save(self, store: Store) -> None:
        if self.runs and not self.saved:
            began = time.monotonic()
            store.write(self.group, self.runs)
            now = time.monotonic()
            self.saved = True
            self.next_save = now + max(SAVE_SECONDS, (now - began) / SAVE_SHARE)


class _Driver:
    """Keeps a backend busy with tasks of groups, and stores what they give."""

    def __init__(self, results: Results, backend: Backend, progress: Progress) -> None:
        self.results, self.backend, self.progress = results, backend, progress
        self.record = results.experiment.recorded(results.steps)
        self.active: dict[Future[Runs], tuple[_Job, float]] = {}

    def drive(self, waiting: deque[_Job]) -> None:
        """Carry every job on to the last step; save while the backend is at work."""
        store, due = self.results.store, list[_Job]()
        try:
            while waiting or self.active or due:
                while waiting and len(self.active) < self.backend.slots:
                    self._submit(waiting.popleft())
                while due:
                    due[-1].save(store)
                    due.pop()
                for future in wait(self.active, return_when=FIRST_COMPLETED).done:
                    job = self._receive(future)
                    if job.step < self.results.steps:
                        waiting.appendleft(job)
                        if time.monotonic() < job.next_save:
                            continue
                    due.append(job)
        except BaseException:
            self.backend.close()
            with suppress(OSError):
                for job in (*due, *waiting, *(job for job, _ in self.active.values())):
                    job.save(store)
            raise

    def _submit(self, job: _Job) -> None:
        results, agent = self.results, job.group.agent.called
        steps = max(LEAST_STEPS, int(job.speed * TASK_SECONDS))
        last = min(job.step + steps, results.steps)
        first, end = np.searchsorted(self.record, [job.step, last], side="right")
        task = Task(
            experiment=results.experiment,
            group=job.group,
            steps=last - job.step,
            record=self.record[first:end],
            resume=job.runs.state if job.runs else None,
            provenance=results.provenance,
        )
        now = time.monotonic()
        job.next_save = job.next_save or now + SAVE_SECONDS
        future = self.backend.submit(task, lambda n: self.progress.advance(agent, n))
        self.active[future] = job, now

    def _receive(self, future: "Future[Runs]") -> _Job:
        """Return the job that a finished task carried on."""
        job, began = self.active[future]
        try:
            later = future.result()
        except Exception as error:
            cause = getattr(error, "cause", error)
            if not isinstance(cause, ValueError):
                raise
            where = f"{job.group.agent.called} on {job.group.environment.called}"
            raise ValueError(f"{where}: {cause}") from None
        del self.active[future]
        step = job.step
        job.runs, job.saved = job.runs.then(later) if job.runs else later, False
        job.speed = (job.step - step) / max(time.monotonic() - began, 1e-6)
        return job
