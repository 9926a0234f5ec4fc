"""Running an experiment, and carrying it on.

The runs of every agent on every environment are divided into groups, and a group goes forward task
by task. A task is sized by the speed measured so far to last a few seconds, which changes nothing
in the results: 100 + 100 steps are 200 steps. What a task gave is stored when it is done, so that a
crash loses the tasks under way and no more.
"""

import os
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl._private.compile import CLOCK
from cpsrl.experiments.backends import Backend, Execution, Task
from cpsrl.experiments.files import locked
from cpsrl.experiments.provenance import Provenance
from cpsrl.experiments.results import (
    WAYS_OUT,
    Results,
    header,
    needed,
    open_or_new,
    open_results,
    set_aside,
)
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import Checkpoint, Group
from cpsrl.simulation.simulate import run_numbers
from cpsrl.support.checks import checked_whole, count
from cpsrl.support.interruptible import POLL_SECONDS
from cpsrl.support.progress import Progress, short, shown_progress
from cpsrl.support.serialise import DamagedError
from cpsrl.support.types import Ints

TASK_SECONDS = 10.0
PROBE_SECONDS = 0.25
"""How long the task is about that measures the speed of an agent in an environment."""
GROWTH = 10
"""A task has at most this many times the steps of those before it: a speed that was measured while
another thread compiled may be wrong."""
LEAST_STEPS = 100
"""Steps of the shortest task, and of an agent's first, before its speed is known."""
SAVE_SECONDS = 2.0
RETRIES = 5
"""How often a group may lose its worker."""
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
        progress: shows how far the runs have come; None shows it once it takes two seconds.
        command: what to write into the directory's history.
        anew: set what is in the directory aside, under another name beside it, and begin anew.
    """
    directory, execution = Path(directory), execution or Execution()
    experiment.check_packages()
    execution.check()
    device = execution.described(experiment)
    if anew:
        directory = Path(os.path.abspath(directory))  # "." would go with what is set aside
        set_aside(directory)
    with locked(directory):
        results = open_or_new(directory, experiment, execution.repair, device)
        results, jobs = _stored(results, execution)
        if execution.repair:  # of the header, whose runs may have been carried on
            results = replace(results, steps=max([results.steps, *(job.step for job in jobs)]))
        results = _with_runs(results, jobs, experiment.runs)
        return _carry_out(results, jobs, execution, progress, command)


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
        results = open_results(directory, repair=execution.repair)
        results.experiment.check_packages()
        results, jobs = _stored(results, execution)
        finished = all(job.step >= results.steps for job in jobs)
        furthest = max(job.step for job in jobs)
        if seeds is not None:
            results = _with_runs(results, jobs, run_numbers(seeds))
        if steps is not None and (steps != results.extension or finished):
            results = _further(results, steps, finished, furthest)
        return _carry_out(results, jobs, execution, progress, command)


def _with_runs(results: Results, jobs: list["_Job"], runs: Sequence[int]) -> Results:
    """Return the directory as it is to be with `runs` as well, and add what they are to `jobs`."""
    more, known = results.with_runs(runs), {job.group.path for job in jobs}
    if unasked := len(set(more.experiment.runs) - set(runs)):
        has = f"{results.directory} has {count(len(more.experiment.runs), 'run')}"
        warnings.warn(f"{has}, {unasked} more than were asked for: all of them stay", stacklevel=3)
    if more is not results and all(job.step >= results.steps for job in jobs):
        more = replace(more, extension=0)
    jobs += [_Job(group) for group in more.groups if group.path not in known]
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


def _stored(results: Results, execution: Execution) -> tuple[Results, list["_Job"]]:
    """Return what is stored of every group, checked; nothing is written.

    Where it is to repair, a damaged group starts anew. The results are those given, with the
    versions of this process where these are accepted.
    """
    device = execution.described(results.experiment)
    if difference := results.provenance.difference(device):
        if not execution.accept_versions:
            raise ValueError(
                f"{results.directory} was computed with {difference}: its runs cannot be carried "
                "on bit for bit here. --accept-versions (Execution(accept_versions=True)) carries "
                "them on, and the results say from which step on; or run the specification anew: "
                f"{WAYS_OUT}"
            )
        results = replace(results, provenance=needed(results.experiment, device))
    results.check_places()
    jobs = []
    for group in results.groups:
        try:
            found = results.located(group).read()
            jobs.append(_Job(group, found.step if found else 0))
        except DamagedError as error:
            if not execution.repair:
                reason = f"{error.reason}; --repair computes it anew"
                raise DamagedError(error.path, reason) from None
            jobs.append(_Job(group, damaged=True))
    return results, jobs


def _set_up(results: Results, jobs: list["_Job"]) -> None:
    """Make the directory what was found to be right, and remove what crashes left behind."""
    for path in results.directory.rglob(".*.tmp"):
        path.unlink(missing_ok=True)
    results.save()
    for job in jobs:
        if job.damaged:
            job.group.remove()
        else:
            job.group.mend()


def _carry_out(
    results: Results,
    jobs: list["_Job"],
    execution: Execution,
    progress: Progress | None,
    command: str,
) -> Results:
    waiting = [job for job in jobs if job.step < results.steps]
    if not waiting:
        _set_up(results, jobs)
        return results
    record = results.recorded  # which is refused, before anything is written, where it is too much
    progress = progress or shown_progress(late=True)
    totals, done = Counter[str](), Counter[str]()
    for job in jobs:
        totals[job.part[0]] += len(job.group.runs) * results.steps
        done[job.part[0]] += len(job.group.runs) * job.step
    with closing(execution.open(results.experiment, results.provenance)) as backend:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        history = (*results.commands, {"command": command, "started": now})
        results = replace(results, commands=history)
        _set_up(results, jobs)
        jobs.clear()
        left = short(totals.total() - done.total())
        progress.begin(f"{left} steps to take, {count(len(totals), 'agent')}", totals, done)
        try:
            _Driver(results, record, progress, backend, waiting).drive()
        finally:
            progress.end()
    return results


@dataclass(eq=False)
class _Job:
    """A group on its way, and while it is under way what it has so far."""

    group: Group
    step: int = 0
    damaged: bool = False
    """Whether what is stored of it is to be removed."""
    worker: Any = None
    """Has the live agents; None between them and their first task, and when they are lost."""
    checkpoint: Checkpoint | None = None
    """With its states as the backend gives them; None where it is to be read."""
    saved: bool = True
    next_save: float = 0.0
    lost: int = 0
    """How often its worker was lost."""

    @property
    def part(self) -> tuple[str, str]:
        """The agent and the environment."""
        return self.group.agent.called, self.group.environment.called


class _Driver:
    """Keeps a backend busy with tasks of groups, and stores what they give.

    First one group of every agent on every environment takes a short task, and longer ones until
    one lasts about `PROBE_SECONDS`. So what does not work is known soon, and so is how long
    everything takes. Then one group is finished after the other.
    """

    def __init__(
        self,
        results: Results,
        record: Ints,
        progress: Progress,
        backend: Backend,
        waiting: list[_Job],
    ) -> None:
        self.results, self.progress, self.backend = results, progress, backend
        self.record, self.waiting = record, waiting
        self.order = {job: place for place, job in enumerate(waiting)}
        self.idle: list[Any] = []
        self.active: dict[Future[Any], tuple[_Job, float, int]] = {}
        self.speed: dict[tuple[str, str], float] = {}
        """Of every part: steps of all its runs together that one worker takes in a second."""
        self.probed: set[tuple[str, str]] = set()
        self.longest: dict[tuple[str, str], int] = {}

    def drive(self) -> None:
        """Carry every job on to the last step; save while the backend is at work."""
        due = list[_Job]()
        try:
            while self.waiting or self.active or due:
                while self.waiting and len(self.active) < self.backend.slots:
                    self._submit(self._next())
                while due:
                    self._save(due[-1])
                    if (job := due.pop()).worker is None and job.step < self.results.steps:
                        self.waiting.append(job)
                finished = wait(self.active, POLL_SECONDS, FIRST_COMPLETED).done
                for future in finished:
                    job = self._receive(future)
                    if job.worker is None or time.monotonic() >= job.next_save:
                        due.append(job)
                    if job.worker is not None:
                        self.waiting.append(job)
                if finished:
                    self.progress.expect(self._seconds_left())
        except BaseException:
            with suppress(OSError, *self.backend.lost):
                for job in (*due, *self.waiting, *(job for job, *_ in self.active.values())):
                    self._save(job)
            raise

    def _next(self) -> _Job:
        """Return the job to submit next: of a part that is not measured yet, or else the first.

        There are never more workers than the backend uses at once: a cluster may have no room for
        another one while one waits with its job.
        """
        kept = sum(job.worker is not None for job in self.waiting)
        further = self.idle or len(self.active) + kept < self.backend.slots
        able = [job for job in self.waiting if further or job.worker is not None]
        measured = self.probed | {job.part for job, *_ in self.active.values()}
        job = min(able, key=lambda job: (job.part in measured, self.order[job]))
        self.waiting.remove(job)
        return job

    def _submit(self, job: _Job) -> None:
        group, record = job.group, self.record
        start: Any = None
        if job.worker is None:
            job.worker = self.idle.pop() if self.idle else self.backend.worker()
            job.checkpoint = group.read() if job.step else None
            start = job.checkpoint.runs.state if job.checkpoint else ()
        seconds = TASK_SECONDS if job.part in self.probed else PROBE_SECONDS
        steps = int(self.speed.get(job.part, 0.0) * seconds / len(group.runs))
        steps = min(steps, GROWTH * self.longest.get(job.part, 0))
        last = min(job.step + max(LEAST_STEPS, steps), self.results.steps)
        first, end = np.searchsorted(record, [job.step, last], side="right")
        task = Task(group, last - job.step, record[first:end], start)
        job.next_save = job.next_save or time.monotonic() + SAVE_SECONDS
        agent = job.part[0]
        future = self.backend.submit(job.worker, task, lambda n: self.progress.advance(agent, n))
        self.active[future] = job, _working_time(), last

    def _receive(self, future: "Future[Any]") -> _Job:
        """Return the job that a finished task carried on, or that lost its worker."""
        job, began, last = self.active[future]
        try:
            runs, states = future.result()
        except self.backend.lost:
            del self.active[future]
            return self._again(job)
        except Exception as error:
            cause = getattr(error, "cause", error)
            if not isinstance(cause, ValueError):
                raise
            raise ValueError(f"{' on '.join(job.part)}: {cause}") from None
        del self.active[future]
        before, now = job.checkpoint, self.results.provenance
        versions: tuple[tuple[int, Provenance], ...] = before.versions if before else ()
        if not versions or versions[-1][1].against(now, ""):
            versions += ((job.step, now),)
        runs = replace(before.runs.then(runs) if before else runs, at_end=states)
        job.checkpoint, job.saved = Checkpoint(last, runs, versions), False
        seconds, steps = max(_working_time() - began, 1e-6), last - job.step
        longest, lasted = self.longest.get(job.part, 0), seconds > PROBE_SECONDS / 2
        if lasted or steps > longest:
            self.speed[job.part] = steps * len(job.group.runs) / seconds
        probed = lasted and longest > 0 and job.part not in self.probed
        if probed:
            self.probed.add(job.part)
        self.longest[job.part] = max(steps, longest)
        job.step = last
        begun = {one.part for one, *_ in self.active.values()} | self.probed
        begun |= {one.part for one in self.waiting if one.worker is not None}
        others = any(one.part not in begun for one in self.waiting)
        if (probed and others) or last == self.results.steps:
            self.idle.append(job.worker)
            job.worker = None
        return job

    def _seconds_left(self) -> dict[str, float]:
        """Return how long every agent will still take, each environment at its own pace."""
        active = [job for job, *_ in self.active.values()]
        jobs, left = [*self.waiting, *active], dict[str, float]()
        usual = float(np.mean([1 / speed for speed in self.speed.values()] or [0.0]))
        workers = max(1, min(self.backend.slots, len(jobs)))
        for job in jobs:
            each = 1 / self.speed[job.part] if job.part in self.speed else usual
            steps = (self.results.steps - job.step) * len(job.group.runs)
            left[job.part[0]] = left.get(job.part[0], 0.0) + steps * each / workers
        now = _working_time()
        for job, began, _ in self.active.values():
            left[job.part[0]] -= (now - began) / workers
        return left

    def _again(self, job: _Job) -> _Job:
        """Let a job whose worker was lost go on from what is stored of it."""
        job.lost += 1
        if job.lost > RETRIES:
            raise ValueError(f"{' on '.join(job.part)}: its worker was lost {job.lost} times")
        found = job.group.read(states=False)
        back = job.step - (found.step if found else 0)
        self.progress.advance(job.part[0], -back * len(job.group.runs))
        job.step -= back
        job.worker, job.checkpoint, job.saved = None, None, True
        return job

    def _save(self, job: _Job) -> None:
        """Store what a job has that is not stored yet."""
        if job.checkpoint is not None and not job.saved:
            began = time.monotonic()
            states = self.backend.fetch(job.checkpoint.runs.at_end)
            runs = replace(job.checkpoint.runs, at_end=states)
            job.group.write(replace(job.checkpoint, runs=runs))
            now = time.monotonic()
            job.saved = True
            job.next_save = now + max(SAVE_SECONDS, (now - began) / SAVE_SHARE)
        if job.worker is None:
            job.checkpoint = None


def _working_time() -> float:
    """Return the time on a clock that stands while something is compiled."""
    return time.monotonic() - CLOCK.seconds
