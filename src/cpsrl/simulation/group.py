"""A group of runs as an actor: it starts, goes forward by some steps, and says where it stands.

`simulate` is one start and one advance. Whoever takes more tasks of the same runs keeps the group
between them, or starts another from a checkpoint: 100 + 100 steps are 200 steps, bit for bit.
"""

import copy
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from cpsrl.agents.agent import Agent, LiveAgent, shown_agent
from cpsrl.agents.fleet import Fleet
from cpsrl.agents.sb3 import Predictor, check_predict, predicts
from cpsrl.environments.pure import Environment, EnvironmentSimulator, check_environment
from cpsrl.mdp import ChangingWorld, Simulator, Tabular
from cpsrl.planning.arguments import checked_mdp
from cpsrl.planning.parallel import cores
from cpsrl.seeding import Streams, first_words
from cpsrl.simulation import compiled, readable, stepwise  # noqa: F401 (they enter their loops)
from cpsrl.simulation.fleet import FleetSimulator
from cpsrl.simulation.loops import LOOPS, TOGETHER, Loops, Recorder, Run, Watch
from cpsrl.simulation.optimum import discounted_loss, gains_of, optimum, reference_of
from cpsrl.simulation.runs import Runs, farthest, record_steps
from cpsrl.simulation.states import check_states, label_of, place_of, restore, states_of
from cpsrl.support.checks import WrongTypeError, checked_whole
from cpsrl.support.interruptible import POLL_SECONDS, Threads
from cpsrl.support.types import Ints

TASKS = 16
"""Runs are handed to every thread in about so many portions, where there are many runs."""

SET_ASIDE = 500
"""From so many runs on, they are hidden from the garbage collector, which would look at all of them
again and again and find nothing."""

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)

HALT_SECONDS = 1.0
"""How long to wait for threads that were told to stop."""

NOTICED = 1000
"""From so many steps in all on, a run step by step in Python takes noticeably long."""


class _Halted(KeyboardInterrupt):
    """Ctrl-C, where the runs have stopped."""


@dataclass(eq=False, repr=False)
class Group:
    """Runs of one agent in one environment, under way; `start` makes one.

    It may be used by one thread at a time.

    Attributes:
        agent: the agent, tuned to the environment.
        mdp: the environment.
        numbers: the number of each run.
        seed: the root seed.
        interrupted: after a KeyboardInterrupt in `advance`, the runs that came farthest, with their
            `state` if they stand where their records end; None if nothing was recorded.
    """

    agent: Any
    mdp: Tabular | Environment
    numbers: list[int]
    seed: int
    _runs: list[Run]
    _device: str
    _damaged: bool = False
    interrupted: Runs | None = None

    @classmethod
    def start(
        cls,
        agent: Any,
        mdp: Tabular | Environment,
        numbers: Sequence[int],
        seed: int = 0,
        horizon: int | None = None,
        resume: Sequence[dict[str, Any]] = (),
        device: str = "auto",
    ) -> "Group":
        """Return runs at their first step, or where a checkpoint left them.

        Args:
            agent: as in `simulate`.
            mdp: the environment, as in `simulate`.
            numbers: the number of each run.
            seed: the root seed.
            horizon: the number of steps for agents that are to be tuned to one and have none; runs
                that go on keep theirs.
            resume: a `checkpoint()` of the same runs; `()`: the runs begin.
            device: as in `simulate`.
        """
        check_parts(agent, mdp)
        if resume != ():
            check_states(resume, numbers, seed, mdp)
            horizon = resume[0]["horizon"] or horizon
        spec = agent.resolve(mdp, horizon) if isinstance(agent, Agent) else agent
        with _set_aside(len(numbers)):
            runs = _begin(spec, mdp, seed, numbers, resume)
        return cls(spec, mdp, list(numbers), seed, runs, device)

    @property
    def step(self) -> int:
        """How many steps every run has taken."""
        return self._runs[0].step

    def advance(
        self,
        steps: int,
        record: Any = None,
        progress: Callable[[int], None] | None = None,
        stop: Ints | None = None,
        threads: int | None = None,
        resample_times: bool = False,
        trajectory: bool = False,
        discounted_regret: bool = False,
        on_record: Callable[[Runs], None] | None = None,
    ) -> Runs:
        """Take `steps` further steps of every run; return what was recorded on the way.

        The arguments are those of `simulate`. An error, such as the InterruptedError where `stop`
        is set, leaves the runs at different steps: the group can't go on, and another one can be
        started from the last checkpoint. After Ctrl-C `interrupted` has what was done.

        Returns:
            The runs, a row each, without their `state`, which `checkpoint` gives.
        """
        self._check_sound()
        runs, steps, before = self._runs, checked_whole("steps", steps, 1), self.step
        marks = record_steps(record, steps, before + 1)
        fleet = isinstance(runs[0].simulator, FleetSimulator)
        if fleet and (resample_times or trajectory):
            raise ValueError("resample_times and trajectory are those of one agent, not of a fleet")
        watch = self._watch() if discounted_regret else None
        workers = cores() if threads is None else checked_whole("threads", threads, 1)
        for run in runs:
            run.recorder = Recorder(
                marks,
                resample_times=resample_times,
                trajectory=trajectory,
                states=isinstance(self.mdp, Tabular),
                watch=watch,
                lost=run.discounted_regret or 0.0,
                agents=len(run.simulator.each) if fleet else 0,
            )
        if type(runs[0].agent) not in LOOPS and steps * len(runs) >= NOTICED:
            _say_slower(label_of(self.agent))
        self._damaged = True
        progress = progress or (lambda n: None)
        reported, done = set(() if on_record is None else marks.tolist()), before
        try:
            with _set_aside(len(runs)):
                for last in sorted({*reported, before + steps}):
                    with self._recording(done + 1, last):
                        if stop is None:
                            _on_threads(runs, last - done, workers, progress, self._device)
                        else:
                            _advance(runs, last - done, progress, stop, self._device)
                            if stop[0]:
                                raise InterruptedError("the simulation was stopped")
                        done = last
                        if on_record is not None and last in reported:
                            self._report(on_record)
        except _Halted:
            self.interrupted = self._as_far_as_it_went(before)
            raise KeyboardInterrupt from None
        except KeyboardInterrupt:  # what was done before can be read, and nothing else
            kept = marks[marks <= done]
            self.interrupted = self._recorded().at(kept) if len(kept) else None
            raise
        self._damaged = False
        return self._recorded()

    def checkpoint(self) -> tuple[dict[str, Any], ...] | None:
        """Return what each run needs to go on from here; None where the agents do not say."""
        self._check_sound()
        return states_of(self._runs, self.numbers, self.seed, self.agent)

    @contextmanager
    def _recording(self, first: int, last: int) -> Iterator[None]:
        """Have every run record the steps first, ..., last, into the recorder that it has."""
        whole = [run.recorder for run in self._runs]
        marks = whole[0].tape.marks
        if len(marks) and not first <= marks[0] <= marks[-1] <= last:
            for run in self._runs:  # which costs a run of 100 steps a tenth of its time
                run.recorder = run.recorder.part(first, last)
        try:
            yield
        finally:
            for run, recorder in zip(self._runs, whole, strict=True):
                run.recorder = recorder

    def _report(self, on_record: Callable[[Runs], None]) -> None:
        """Call `on_record` with what was recorded; Ctrl-C finds that the runs have stopped."""
        try:
            on_record(self._recorded())
        except KeyboardInterrupt:
            raise _Halted from None

    def _check_sound(self) -> None:
        if self._damaged:
            raise ValueError(
                "these runs were interrupted and stand at different steps: start a group from "
                "their last checkpoint"
            )

    def _watch(self) -> Watch:
        """Return what computes the discounted regret, or raise where there is none."""
        watch = discounted_loss(self._runs[0], self.mdp)
        if any(run.discounted_regret is None for run in self._runs):
            raise ValueError(
                "the discounted regret cannot begin in the middle of a run: the earlier steps "
                "were simulated without it"
            )
        return watch

    def _as_far_as_it_went(self, before: int) -> Runs | None:
        """Return the runs that came to the step for which runs times steps are most."""
        steps = np.array([run.step for run in self._runs])
        last, marks = before + farthest(steps - before), self._runs[0].recorder.tape.marks
        if last == before or not (marks <= last).any():
            return None
        kept = np.flatnonzero(steps >= last).tolist()
        numbers, mine = [self.numbers[k] for k in kept], [self._runs[k] for k in kept]
        group = Group(self.agent, self.mdp, numbers, self.seed, mine, self._device)
        runs = group._recorded()
        if paths := runs.trajectory:
            n = last - before
            paths = tuple({k: v[: n + (k == "states")] for k, v in path.items()} for path in paths)
        if drawn := runs.resample_times:
            drawn = tuple(times[times <= last] for times in drawn)
        at_end = group.checkpoint if (steps[kept] == last).all() else None
        runs = replace(runs, trajectory=paths, resample_times=drawn, at_end=at_end)
        return runs.at(marks[marks <= last])

    def _recorded(self) -> Runs:
        """Return what the recorders of all runs have, and let go of them."""
        runs, mdp, first = self._runs, self.mdp, self._runs[0].recorder
        marks, tapes = first.tape.marks, [run.recorder.tape for run in runs]
        gain = np.array([run.gain for run in runs])
        times = paths = losses = by_agent = None
        if len(first.tape.resampled):
            times = tuple(run.recorder.resample_times for run in runs)
        if len(first.tape.actions):
            paths = tuple(run.recorder.trajectory(run.simulator.state) for run in runs)
        if first.watch is not None:
            losses = np.stack([run.recorder.losses for run in runs])
        if isinstance(runs[0].simulator, FleetSimulator):
            best = [optimum(mdp, run.simulator.gains, marks) for run in runs]
            by_agent = np.stack(best) - np.stack([tape.each.T for tape in tapes])
        for run in runs:  # which may live as long as their results
            run.recorder = None
        return Runs(
            times=marks,
            regret=optimum(mdp, gain, marks) - np.array([tape.reward_sums for tape in tapes]),
            resamples=np.array([tape.resamples for tape in tapes]),
            seeds=np.array(self.numbers, np.int64),
            agent=(label_of(self.agent),) * len(runs),
            environment=(place_of(mdp),) * len(runs),
            gain=gain,
            seed=self.seed,
            resample_times=times,
            trajectory=paths,
            discounted_regret=losses,
            by_agent=by_agent,
            reference=(reference_of(mdp).kind,) * len(runs),
        )


@contextmanager
def _set_aside(n: int) -> Iterator[None]:
    """Let the garbage collector look again, in the end, at what `gc.freeze` hid from it."""
    if n < SET_ASIDE:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _begin(
    spec: Any, mdp: Tabular | Environment, seed: int, numbers: Sequence[int], states: Any
) -> list[Run]:
    """Return the runs at their first step, or where `states` left them."""
    words, runs, reference = first_words(seed, numbers), list[Run](), reference_of(mdp)
    agent: Any = None
    for i in range(len(numbers)):
        streams = Streams(words=words[i])
        simulator: Any
        if isinstance(mdp, Tabular):
            simulator = Simulator(mdp, streams)
            gain = float(gains_of(mdp)[simulator.state])
        else:
            simulator, gain = EnvironmentSimulator(mdp, streams), reference.gain
        if not isinstance(spec, Agent) and predicts(spec):
            agent = Predictor(spec, mdp if isinstance(mdp, Environment) else checked_mdp(mdp))
        elif not isinstance(spec, Agent):
            agent = _copied(spec, streams)
        elif not isinstance(agent, LiveAgent):
            agent = spec.start(mdp, streams)
        else:
            agent = agent.fork(streams)
        if isinstance(spec, Fleet) and spec.n > 1:
            others = [one.streams for one in agent.members.values()]
            simulator = FleetSimulator(simulator, others, gains_of(mdp))
            gain = float(simulator.gains.mean())
        run = Run(agent, simulator, gain)
        if states:
            restore(run, states[i])
        runs.append(run)
        if i % SET_ASIDE == SET_ASIDE - 1:
            gc.freeze()
    return runs


def _copied(agent: Any, streams: Streams) -> Any:
    """Return a copy of a plain object for one run, with the generator of that run."""
    parts: dict[int, Any] = {}
    copied = copy.deepcopy(agent, parts)
    if callable(getattr(copied, "seed", None)):
        copied.seed(streams.action)
    elif any(isinstance(part, GENERATORS) for part in parts.values()):
        raise ValueError(
            f"{label_of(agent)} has a random generator, and its copies would act alike in all "
            "runs: give it a method seed(rng) that keeps the numpy.random.Generator of its run"
        )
    return copied


def _advance(
    runs: Sequence[Run], steps: int, progress: Callable[[int], None], stop: Ints, device: str
) -> None:
    loops = _together(runs, device)
    if loops is not None:
        loops(runs, steps, progress, stop)
    for run in runs:
        if loops is None:
            _advance_one(run, steps, progress, stop)
        run.discounted_regret = run.recorder.lost if run.recorder.watch else None


def _together(runs: Sequence[Run], device: str) -> Loops | None:
    """Return the loop that takes the runs at once on a device, if there is one."""
    found = TOGETHER.get(type(runs[0].agent))
    changing = isinstance(runs[0].simulator.world, ChangingWorld)
    return None if found is None or changing else found(device)


def _advance_one(run: Run, steps: int, progress: Callable[[int], None], stop: Ints) -> None:
    loop = LOOPS.get(type(run.simulator)) or LOOPS.get(type(run.agent), readable.advance)
    if not isinstance(run.simulator.world, ChangingWorld):
        loop(run, steps, progress, stop)
        return
    last, recorder = run.step + steps, run.recorder
    while run.step < last and not stop[0]:  # a stretch of steps in each model of the moment
        left = run.simulator.go_to(run.step)
        n = last - run.step if left is None else min(left, last - run.step)
        run.recorder = recorder.part(run.step + 1, run.step + n)
        loop(run, n, progress, stop)
    run.recorder = recorder


def _on_threads(
    runs: list[Run], steps: int, workers: int, progress: Callable[[int], None], device: str
) -> None:
    """Take `steps` steps of every run, on threads; this thread only waits.

    A kernel cannot be interrupted, so it runs elsewhere and polls `stop`. After Ctrl-C, `_Halted`
    says that all threads have stopped.
    """
    stop = np.zeros(1, np.int64)
    portion = max(1, len(runs) // (workers * TASKS))
    if _together(runs, device):
        portion = len(runs)
    taken = [0] * len(runs)

    def work(first: int) -> None:
        def count(n: int) -> None:
            taken[first] += n

        _advance(runs[first : first + portion], steps, count, stop, device)

    pool, reported = Threads(min(workers, len(runs))), 0
    pending = {pool.submit(work, i) for i in range(0, len(runs), portion)}
    try:
        while pending:
            done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            if (now := sum(taken)) > reported:
                progress(now - reported)
                reported = now
    except KeyboardInterrupt:
        stop[0] = 1
        pool.close()
        late = time.monotonic() + HALT_SECONDS
        while not all(future.done() for future in pending):
            if time.monotonic() > late:
                raise
            time.sleep(POLL_SECONDS / 10)
        raise _Halted from None
    finally:
        stop[0] = 1
        pool.close()


def check_parts(agent: Any, mdp: Any) -> None:
    """Raise a ValueError unless these are an agent that can be started or copied, and a place."""
    if isinstance(agent, Tabular):
        raise WrongTypeError("the agent comes first: simulate(agent, mdp)")
    if isinstance(mdp, Environment):
        check_environment(mdp)
        if isinstance(agent, Agent):
            agent.check(mdp)
    elif not isinstance(mdp, ChangingWorld):
        if hasattr(mdp, "step") and hasattr(mdp, "action_space"):
            raise ValueError(
                f"{mdp} is an environment of Gymnasium, which has no model to count regret "
                "against: cpsrl.play(agent, env, steps) acts in it"
            )
        checked_mdp(mdp)
    if isinstance(agent, LiveAgent):
        raise ValueError(
            f"{type(agent).__name__} is live and belongs to one run: give simulate the agent that "
            "was started, such as cpsrl.ContinuingPSRL(), and it starts one for every run"
        )
    able = all(callable(getattr(agent, name, None)) for name in ("act", "observe"))
    if isinstance(agent, type) or not (isinstance(agent, Agent) or able or predicts(agent)):
        raise ValueError(
            "an agent is one of the package's, such as cpsrl.TSDE(), or any object with "
            "act(state) and observe(state, action, reward, next_state), or with the predict "
            f"of Stable-Baselines3, not {shown_agent(agent)}"
        )
    if predicts(agent) and not isinstance(agent, Agent):
        check_predict(agent)


@cache
def _say_slower(label: str) -> None:
    """Say once that an agent is slower than those with a compiled loop."""
    print(
        f"cpsrl: {label} has no compiled loop and runs step by step in Python, which is slower\n",
        end="",  # threads print: the line and its end are one write
        file=sys.stderr,
        flush=True,
    )
