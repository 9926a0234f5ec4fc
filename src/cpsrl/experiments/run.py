"""Running an experiment, and carrying it on.

The runs of every agent on every environment are divided into groups, and a group goes forward in
chunks of steps. A chunk is sized by the speed measured so far to last a few seconds, which changes
nothing in the results: 100 + 100 steps are 200 steps. What a chunk gave is stored when it is done,
so that a crash loses the chunks under way and no more.
"""

import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from cpsrl.checks import checked_whole
from cpsrl.experiments.backends import BACKENDS, Outcome, Pool, Task
from cpsrl.experiments.progress import Progress, Silent
from cpsrl.experiments.results import Results, claim, open_results
from cpsrl.experiments.spec import Experiment
from cpsrl.experiments.store import DamagedError, Group, Store, Stored, locked

CHUNK_SECONDS = 10.0
LEAST_CHUNK = 100
"""Steps of the shortest chunk, and of an agent's first, before its speed is known."""
SAVE_SECONDS = 2.0
SAVE_SHARE = 0.05
"""Storing may take this share of the time: large states on slow disks are stored less often."""


def run_experiment(
    experiment: Experiment,
    directory: Path | str,
    *,
    backend: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    repair: bool = False,
    progress: Progress | None = None,
    command: str = "cpsrl.run_experiment",
) -> Results:
    """Run `experiment` in `directory`; of one that is partly there, do only what is missing.

    Args:
        experiment: the specification.
        directory: where results go; made if need be.
        backend: "local" (threads) or "ray".
        jobs: how many tasks at once; as many as there are cores by default.
        address: of a running Ray cluster; by default one is started on this machine.
        repair: compute damaged runs anew instead of refusing to go on.
        progress: is told how far the runs have come.
        command: what to write into the directory's history.
    """
    directory = Path(directory)
    with locked(directory):
        results = claim(directory, experiment, repair)
        return _carry_out(results, backend, jobs, address, repair, progress or Silent(), command)


def continue_experiment(
    directory: Path | str,
    steps: int | None = None,
    *,
    backend: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    repair: bool = False,
    progress: Progress | None = None,
    command: str = "cpsrl.continue_experiment",
) -> Results:
    """Carry every run in `directory` on for `steps` further steps, from where it stopped.

    The other arguments are those of `run_experiment`. If an earlier call was interrupted, the same
    call again finishes it and adds no more; without `steps`, what is unfinished is finished.
    """
    if steps is not None:
        steps = checked_whole("steps", steps, 1)
    directory = Path(directory)
    open_results(directory)
    with locked(directory):
        results = open_results(directory)
        if steps is not None and (steps != results.extension or _finished(results)):
            results = replace(results, steps=results.steps + steps, extension=steps)
        return _carry_out(results, backend, jobs, address, repair, progress or Silent(), command)


def _finished(results: Results) -> bool:
    stored = (results.store.read(group, state=False) for group in results.groups)
    return all(s is not None and s.step >= results.steps for s in stored)


def _carry_out(
    results: Results,
    backend: str,
    jobs: int | None,
    address: str | None,
    repair: bool,
    progress: Progress,
    command: str,
) -> Results:
    results.check_origin()
    store = results.store
    store.sweep(results.groups)
    store.check_strangers(results.groups)
    reached = {group: _reached(results, group, repair) for group in results.groups}
    missing = [group for group in results.groups if reached[group] < results.steps]
    if not missing:
        return results
    pool = BACKENDS.make(backend, jobs=jobs, address=address)
    try:
        results = results.with_command(command)
        results.save()
        totals: Counter[str] = Counter()
        done: Counter[str] = Counter()
        for group in results.groups:
            totals[group.agent] += len(group.runs) * results.steps
            done[group.agent] += len(group.runs) * reached[group]
        progress.begin(totals, done)
        try:
            _Driver(results, pool, progress).drive(missing)
        finally:
            progress.end()
    finally:
        pool.close()
    return results


def _reached(results: Results, group: Group, repair: bool) -> int:
    """Return the step that a group has reached; with `repair`, a damaged one starts anew."""
    try:
        stored = results.store.read(group)
    except DamagedError as error:
        if not repair:
            raise DamagedError(error.path, f"{error.reason}; --repair computes it anew") from None
        results.store.remove(group)
        return 0
    return stored.step if stored else 0


class _Job:
    """A group on its way: what it has so far, and whether that is stored."""

    def __init__(self, group: Group, stored: Stored | None) -> None:
        self.group = group
        self.stored = stored
        self.saved = True
        self.next_save = time.monotonic() + SAVE_SECONDS

    @property
    def step(self) -> int:
        return self.stored.step if self.stored else 0

    def take(self, task: Task, outcome: Outcome) -> None:
        curves = self.stored.curves.then(outcome.curves) if self.stored else outcome.curves
        self.stored = Stored(self.step + task.steps, curves, outcome.gain, outcome.state)
        self.saved = False

    def save(self, store: Store) -> None:
        if self.stored and not self.saved:
            began = time.monotonic()
            store.write(self.group, self.stored)
            now = time.monotonic()
            self.saved = True
            self.next_save = now + max(SAVE_SECONDS, (now - began) / SAVE_SHARE)


class _Driver:
    """Keeps a pool busy with chunks of groups, and stores what they give."""

    def __init__(self, results: Results, pool: Pool, progress: Progress) -> None:
        self.results = results
        self.pool = pool
        self.progress = progress
        self.store = results.store
        self.record = results.experiment.recorded(results.steps)
        self.environments = {e.label: e for e in results.experiment.all_environments}
        self.agents = {e.label: e for e in results.experiment.all_agents}
        self.speed: dict[tuple[str, str], float] = {}
        self.active: dict[Future[Outcome], tuple[_Job, Task]] = {}

    def drive(self, groups: list[Group]) -> None:
        """Carry `groups` on to the last step."""
        waiting = deque(groups)
        try:
            while waiting or self.active:
                while waiting and len(self.active) < self.pool.slots:
                    group = waiting.popleft()
                    self._submit(_Job(group, self.store.read(group)))
                done, _ = wait(self.active, return_when=FIRST_COMPLETED)
                for future in done:
                    self._receive(future)
        except BaseException:
            self.pool.close()
            with suppress(OSError):
                for job, _ in self.active.values():
                    job.save(self.store)
            raise

    def _submit(self, job: _Job) -> None:
        group = job.group
        speed = self.speed.get((group.environment, group.agent), 0.0)
        steps = max(LEAST_CHUNK, int(speed * CHUNK_SECONDS / len(group.runs)))
        last = min(job.step + steps, self.results.steps)
        first, end = np.searchsorted(self.record, [job.step, last], side="right")
        experiment = self.results.experiment
        task = Task(
            environment=self.environments[group.environment],
            agent=self.agents[group.agent],
            runs=group.runs,
            seed=experiment.seed,
            horizon=experiment.steps,
            steps=last - job.step,
            record=self.record[first:end],
            start=job.stored.state if job.stored else None,
            origin=self.results.origin,
        )
        future = self.pool.submit(task, lambda n: self.progress.advance(group.agent, n))
        self.active[future] = job, task

    def _receive(self, future: "Future[Outcome]") -> None:
        job, task = self.active[future]
        try:
            outcome = future.result()
        except Exception as error:
            raise _explained(error, job.group) from None
        del self.active[future]
        job.take(task, outcome)
        pair = job.group.environment, job.group.agent
        self.speed[pair] = task.steps * len(task.runs) / max(outcome.seconds, 1e-6)
        finished = job.step >= self.results.steps
        if not finished:
            self._submit(job)
        if finished or time.monotonic() >= job.next_save:
            job.save(self.store)


def _explained(error: Exception, group: Group) -> Exception:
    """Return a user's error with the group it arose in; any other error as it is."""
    cause = getattr(error, "cause", error)
    if isinstance(cause, ValueError):
        return ValueError(f"{group.agent} on {group.environment}: {cause}")
    return error
