"""Running an experiment, and carrying it on.

The runs of every agent on every environment are divided into groups, and a group goes forward task
by task. A task is sized by the speed measured so far to last a few seconds, which changes nothing
in the results: 100 + 100 steps are 200 steps. What a task gave is stored when it is done, so that a
crash loses the tasks under way and no more.
"""

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from cpsrl.checks import checked_whole, count
from cpsrl.experiments.backends import Backend, Execution, Task, left_by
from cpsrl.experiments.files import locked
from cpsrl.experiments.progress import Bars, Progress, short
from cpsrl.experiments.results import (
    WAYS_OUT,
    Results,
    header,
    open_or_new,
    open_results,
    set_aside,
)
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import Group, Store, reached
from cpsrl.simulation import Runs
from cpsrl.simulation.simulate import run_numbers
from cpsrl.trees import DamagedError
from cpsrl.waiting import POLL_SECONDS

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
    anew: bool = False,
) -> Results:
    """Run `experiment` in `directory`; of one that is partly there, do only what is missing.

    Runs that are not there yet are added, and brought as far as the others have come. Everything
    is checked before anything is written.

    Args:
        experiment: the specification.
        directory: where results go; made if need be.
        execution: where and how; by default threads of this machine, one for every core.
        progress: is told how far the runs have come; None draws bars if there is a terminal.
        command: what to write into the directory's history.
        anew: set what is in the directory aside, under another name beside it, and begin anew.
    """
    directory, execution = Path(directory), execution or Execution()
    experiment.check_packages()
    execution.check()
    if anew:
        directory = Path(os.path.abspath(directory))  # "." would go with what is set aside
        set_aside(directory)
    with locked(directory):
        device = execution.described(experiment)
        results = open_or_new(directory, experiment, execution.repair, device)
        jobs = _stored(results, execution)
        if execution.repair:  # of the header, whose runs may have been carried on
            results = replace(results, steps=max([results.steps, *(job.step for job in jobs)]))
            results.save()
        results = _with_runs(results, jobs, experiment.runs)
        return _carry_out(results, jobs, execution, progress or _default(), command)


def continue_experiment(
    directory: Path | str,
    steps: int | None = None,
    execution: Execution | None = None,
    progress: Progress | None = None,
    command: str = "cpsrl.experiments.continue_experiment",
    seeds: int | Sequence[int] | None = None,
) -> Results:
    """Carry every run in `directory` on for `steps` further steps, from where it stopped.

    If an earlier call was interrupted, the same call again finishes it and adds no more, and a call
    with other `steps` takes its place, as far as no run has gone beyond them; without `steps`, what
    is unfinished is finished.

    Args:
        directory: a results directory.
        steps: how many steps to add to every run.
        execution: as in `run_experiment`.
        progress: as in `run_experiment`.
        command: as in `run_experiment`.
        seeds: a number of runs, or a list of run numbers: those that are not there yet are added,
            from their first step on.
    """
    if steps is not None:
        steps = checked_whole("steps", steps, 1)
    directory, execution = Path(directory), execution or Execution()
    header(directory)
    execution.check()
    with locked(directory):
        results = open_results(directory)
        results.experiment.check_packages()
        jobs = _stored(results, execution)
        finished = all(job.step >= results.steps for job in jobs)
        furthest = max(job.step for job in jobs)
        if seeds is not None:
            results = _with_runs(results, jobs, run_numbers(seeds))
        if steps is not None and (steps != results.extension or finished):
            results = _further(results, steps, finished, furthest)
        return _carry_out(results, jobs, execution, progress or _default(), command)


def _with_runs(results: Results, jobs: list["_Job"], runs: Iterable[int]) -> Results:
    """Return the directory as it is to be with `runs` as well, and add what they are to `jobs`."""
    more, stems = results.with_runs(runs), {job.group.stem for job in jobs}
    if more is not results and all(job.step >= results.steps for job in jobs):
        more = replace(more, extension=0)
    jobs += [_Job(group) for group in more.groups if group.stem not in stems]
    return more


def _further(results: Results, steps: int, finished: bool, furthest: int) -> Results:
    """Return the directory as it is to be with `steps` added, or in place of unfinished ones."""
    if results.extension and not finished:
        begin, stops = results.steps - results.extension, results.stops
    else:
        begin, stops = results.steps, (*results.stops, results.steps)
    if (last := begin + steps) <= furthest:  # some runs are there: to where all are recorded
        later = results.recorded[results.recorded >= furthest]
        last = int(later[0]) if len(later) else furthest
    return replace(results, steps=last, extension=last - begin, stops=stops)


def _stored(results: Results, execution: Execution) -> list["_Job"]:
    """Return what is stored of every group, checked, and remove what crashes left behind.

    Where it is to repair, a damaged group is removed, and starts anew.
    """
    if difference := results.provenance.difference(execution.described(results.experiment)):
        raise ValueError(
            f"{results.directory} was computed with {difference}: its runs cannot be carried on "
            f"bit for bit here. Read it as it is, or run the specification anew: {WAYS_OUT}"
        )
    store, jobs = results.store, []
    for path in results.directory.rglob(".*.tmp"):
        path.unlink(missing_ok=True)
    store.check_strangers(results.groups)
    for group in results.groups:
        try:
            runs = store.read(group)
            store.tidy(group, runs)
            jobs.append(_Job(group, reached(runs)))
        except DamagedError as error:
            if not execution.repair:
                reason = f"{error.reason}; --repair computes it anew"
                raise DamagedError(error.path, reason) from None
            store.remove(group)
            jobs.append(_Job(group))
    return jobs


def _default() -> Progress:
    return Bars() if sys.stderr.isatty() else Progress()


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
    driver = _Driver(results, progress, execution.device)
    with closing(execution.open()) as backend:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        history = (*results.commands, {"command": command, "started": now})
        results = replace(results, commands=history)
        results.save()
        left = short(totals.total() - done.total())
        progress.begin(f"{left} steps to take, {count(len(totals), 'agent')}", totals, done)
        try:
            driver.drive(waiting, backend)
        finally:
            progress.end()
    return results


@dataclass(eq=False)
class _Job:
    """A group on its way: how far it is, and while it is under way what it has so far."""

    group: Group
    step: int = 0
    runs: Runs | None = None
    saved: bool = True
    next_save: float = 0.0
    speed: float = 0.0

    def save(self, store: Store) -> None:
        if self.runs and not self.saved:
            began = time.monotonic()
            store.write(self.group, self.runs)
            now = time.monotonic()
            self.saved = True
            self.next_save = now + max(SAVE_SECONDS, (now - began) / SAVE_SHARE)


class _Driver:
    """Keeps a backend busy with tasks of groups, and stores what they give."""

    def __init__(self, results: Results, progress: Progress, device: str) -> None:
        self.results, self.progress, self.device = results, progress, device
        self.record = results.recorded
        self.active: dict[Future[Runs], tuple[_Job, float, int]] = {}

    def drive(self, waiting: deque[_Job], backend: Backend) -> None:
        """Carry every job on to the last step; save while the backend is at work."""
        self.backend = backend
        store, due = self.results.store, list[_Job]()
        try:
            while waiting or self.active or due:
                while waiting and len(self.active) < self.backend.slots:
                    self._submit(waiting.popleft())
                while due:
                    due[-1].save(store)
                    due.pop()
                for future in wait(self.active, POLL_SECONDS, FIRST_COMPLETED).done:
                    job = self._receive(future)
                    if job.step < self.results.steps:
                        waiting.appendleft(job)
                        if time.monotonic() < job.next_save:
                            continue
                    due.append(job)
        except BaseException:
            self.backend.close()
            with suppress(OSError):
                for job in (*due, *waiting, *(job for job, *_ in self.active.values())):
                    job.save(store)
            raise

    def _submit(self, job: _Job) -> None:
        results, agent = self.results, job.group.agent.called
        steps = max(LEAST_STEPS, int(job.speed * TASK_SECONDS))
        last = min(job.step + steps, results.steps)
        if job.step and job.runs is None:  # so many at once are in memory as are under way
            job.runs = results.store.read(job.group)
        first, end = np.searchsorted(self.record, [job.step, last], side="right")
        task = Task(
            experiment=results.experiment,
            group=job.group,
            steps=last - job.step,
            record=self.record[first:end],
            resume=left_by(job.runs),
            provenance=results.provenance,
            device=self.device,
        )
        now = time.monotonic()
        job.next_save = job.next_save or now + SAVE_SECONDS
        future = self.backend.submit(task, lambda n: self.progress.advance(agent, n))
        self.active[future] = job, now, last

    def _receive(self, future: "Future[Runs]") -> _Job:
        """Return the job that a finished task carried on."""
        job, began, last = self.active[future]
        try:
            later = future.result()
        except Exception as error:
            cause = getattr(error, "cause", error)
            if not isinstance(cause, ValueError):
                raise
            where = f"{job.group.agent.called} on {job.group.environment.called}"
            raise ValueError(f"{where}: {cause}") from None
        del self.active[future]
        job.runs, job.saved = job.runs.then(later) if job.runs else later, False
        job.speed = (last - job.step) / max(time.monotonic() - began, 1e-6)
        job.step = last
        return job
