"""Runs of networks by the compiled loop, in a worker process.

The loop (`cpsrl.networks.loop`) gets everything random as arrays. They are drawn here, call by
call, from the run's streams, in the order in which the live agent and the simulator draw them:
where the run stops and goes on makes no difference, and agents with tables and with networks meet
the same noise on one seed. Rewards are summed here too, in float64.
"""

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.environments.pure import make_known, single
from cpsrl.mdp import Simulator
from cpsrl.mdp.problem import width_of
from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.networks.devices import WIDTH, layout_of
from cpsrl.networks.workers import ALONE, CACHE, Layout, Worker, check_importable, worker
from cpsrl.simulation.loops import LOOPS, TOGETHER, Loops, Run
from cpsrl.support.types import Ints

CALL_STEPS = 1000
"""Steps of one call of the compiled loop."""
PART_ROWS = 1 << 14
"""Rows of the replay that go from one process to the other at once: whole, it would be there as
often as there are steps on its way."""

_announced: set[Path] = set()
_lock = threading.Lock()


def advance(run: Run, steps: int, progress: Callable[[int], None], stop: Ints) -> None:
    """Take steps with a `ValueSamplingAgent` (see `loops.Loop`)."""
    _Batch([_OneRun(run)]).advance(steps, progress, stop)


def together(device: str) -> Loops | None:
    """Return the loop that takes many runs at once on a device, or None for each by itself."""
    layout = layout_of(device)
    return partial(_in_batches, layout) if layout.together else None


def _in_batches(layout: Layout, runs: Sequence[Run], *how: Any) -> None:
    with worker(layout) as process:
        width = WIDTH * process.call("devices")[2]
    for first in range(0, len(runs), width):
        some = runs[first : first + width]
        _Batch([_OneRun(run) for run in some], layout, width).advance(*how)


class _Batch:
    """Runs at the same step, which every call of the loop takes further: one, or up to `width`."""

    def __init__(self, runs: Sequence["_OneRun"], layout: Layout = ALONE, width: int = 1) -> None:
        self.runs, self.layout, self.width = runs, layout, width
        self.agent = runs[0].agent
        spec, world = self.agent.spec, runs[0].world
        for part in (world.environment, spec.belief, spec.objective):
            check_importable(part)
        make_known(world.environment)
        table = world.environment.table()
        small = table is not None and len(table) <= 2 * spec.batch
        self.settings = {"how": self.agent.how, "whole_table": small and spec.belief.finite}
        # The loop counts in 32 bits; a call of it needs to see no copy beyond its own steps.
        self.period = min(spec.target_every, CALL_STEPS + 1)

    def joined(self, trees: Iterable[Any]) -> Any:
        """Return what the loop takes: that of the one run, or those of all along a first axis."""
        import jax

        if not self.layout.together:
            return next(iter(trees))
        full = [*trees]
        full += full[-1:] * (self.width - len(full))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *full)

    def apart(self, tree: Any) -> list[Any]:
        """Return what the loop gave, run by run."""
        import jax

        if not self.layout.together:
            return [tree]
        return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(len(self.runs))]

    def parts(self) -> Iterator[slice]:
        """Yield where the replay is filled, in parts of one length, which may overlap."""
        n = min(PART_ROWS, self.agent.spec.capacity)
        for first in range(0, self.agent.held, n):
            first = min(first, self.agent.spec.capacity - n)
            yield slice(first, first + n)

    def advance(self, steps: int, progress: Callable[[int], None], stop: Ints) -> None:
        """Take steps of every run (see `loops.Loops`)."""
        agent, capacity = self.agent, self.agent.spec.capacity
        carried = self.joined(run.carried() for run in self.runs)
        world = self.joined(run.world for run in self.runs)
        shapes = (carried, world, agent.spec.batch, capacity)
        marker = _announce(*shapes, self.settings, self.layout)
        with worker(self.layout) as process:
            process.call("extend_path", sys.path)
            how = (self.period, self.settings, self.layout.together)
            together = (self.width,) if self.layout.together else ()
            room = (*together, capacity, agent.replay.itemsize // 4)
            process.call("begin", carried, room, world, *how)
            for part in self.parts():
                rows = self.joined(run.agent.packed_replay(part) for run in self.runs)
                process.call("fill", part.start, rows)
            while steps > 0 and not stop[0]:
                n = min(steps, CALL_STEPS if agent.origin is not None else 1)
                self.take(process, n)
                with suppress(OSError):  # where the cache cannot be written to
                    marker.touch()
                steps -= n
                progress(n * len(self.runs))
            for part in self.parts():
                rows = self.apart(process.call("rows", part))
                for run, mine in zip(self.runs, rows, strict=True):
                    run.agent.unpack_replay(part, mine)
            ended = self.apart(process.call("end"))
        for run, left in zip(self.runs, ended, strict=True):
            run.end(left)

    def take(self, process: Worker, n: int) -> None:
        """Take `n` steps by one call of the loop, and record them."""
        one, spec, origin = self.agent, self.agent.spec, self.agent.origin
        drawn = self.joined([run.draw(n) for run in self.runs])
        left = spec.target_every - one.learned % spec.target_every
        slot, age = one.learned % spec.capacity, self.period - min(left, self.period)
        taken = self.apart(process.call("steps", *drawn, n, slot, age))
        for run, did in zip(self.runs, taken, strict=True):
            run.record(did)
        if origin is None:
            process.call("move", self.joined(run.world for run in self.runs))


class _OneRun:
    """A run in the loop: what it draws for the steps of a call, and what it records of them."""

    def __init__(self, run: Run) -> None:
        self.run, self.mark = run, 0
        self.agent: ValueSamplingAgent = run.agent
        self.find_units()

    def find_units(self) -> None:
        """Set the environment and its pure functions, with the units of rewards in the loop.

        A table gives its rewards in the agent's units, from float64. Where rewards are counted from
        the first one, that is 0: until it is known, the units are infinite.
        """
        from cpsrl.networks.loop import World

        origin, width = self.agent.origin, width_of(self.agent.sizes.reward_range)
        simulator = self.run.simulator
        if isinstance(simulator, Simulator):
            from cpsrl.networks.table import Table

            self.place, units = Table(simulator.mdp, origin), (0.0, 1.0)
        else:
            self.place, units = simulator.world, (origin or 0.0, width)
        if origin is None:
            units = (0.0, np.inf)
        self.world = World(self.place.pure(), np.array(units, np.float32))

    def carried(self) -> Any:
        """Return where the run is, as the loop takes it, without its replay."""
        import jax

        from cpsrl.networks.loop import Carried

        state = jax.tree.map(_in_its_kind, self.run.simulator.state)
        return Carried(self.agent.learner, None, state)

    def draw(self, n: int) -> Any:
        """Draw all that is random in the n steps to come, and return it as the loop takes it."""
        import jax

        self.before, self.draws = self.agent.resamples, self.agent.draw_steps(n)
        self.noise = self.place.draw(self.run.simulator.streams, n)
        return jax.tree.map(_padded, (self.draws, self.noise))

    def record(self, taken: Any) -> None:
        """Write down the steps that were taken, and move the run on by them."""
        agent, run, first = self.agent, self.run, self.agent.step
        rewards = self.place.realised(taken, self.noise)
        sums = np.cumsum(np.concatenate([[run.reward_sum], rewards]))
        counts = np.cumsum(np.concatenate([[self.before], self.draws.choices.resample]))
        tape, n = run.recorder.tape, len(rewards)
        points = slice(self.mark, int(np.searchsorted(tape.marks, first + n)))
        reached = tape.marks[points] - first + 1
        tape.reward_sums[points], tape.resamples[points] = sums[reached], counts[reached]
        did = (self.draws.choices.resample, taken.states, taken.actions, rewards)
        kept = (tape.resampled, tape.states, tape.actions, tape.rewards)
        for column, values in zip(kept, did, strict=True):
            if len(column):
                column[:n] = values
        run.recorder.collect(first, n)
        self.mark, run.reward_sum, run.step = points.stop, float(sums[-1]), run.step + n
        for reward in (rewards.min(), rewards.max()):
            agent.expected.look(reward)
        agent.step, agent.learned = agent.step + n, agent.learned + n
        if agent.origin is None:
            agent.origin = float(rewards[0])
            self.find_units()

    def end(self, carried: Any) -> None:
        """Give the agent and the environment what the loop carried."""
        self.agent.learner = carried.learner
        is_table = self.place.table() is not None
        self.run.simulator.state = int(carried.state) if is_table else carried.state


def _in_its_kind(leaf: Any) -> NDArray[Any]:
    """Return an array of the state in its own dtype, or in 32 bits where that has 64."""
    array = np.asarray(leaf)
    return single(array) if array.itemsize == 8 else array


def _padded(values: Any) -> NDArray[Any]:
    """Return an array of n steps as the loop takes it: 32 bits, and always of one length."""
    values = single(np.asarray(values))
    padded = np.zeros((CALL_STEPS, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded


def _announce(*compiled_for: Any) -> Path:
    """Say that the loop is about to be compiled unless its marker exists; return the marker."""
    import jax

    shapes = jax.tree.map(lambda a: getattr(a, "shape", a), compiled_for)
    key = hashlib.sha256(f"{version('jax')} {CALL_STEPS} {shapes}".encode()).hexdigest()[:16]
    marker = CACHE / f"{key}.ready"
    with _lock:
        if marker not in _announced and not os.path.exists(marker):
            print("cpsrl: compiling the networks' loop (once) ...", file=sys.stderr, flush=True)
        _announced.add(marker)
    return marker


LOOPS[ValueSamplingAgent] = advance
TOGETHER[ValueSamplingAgent] = together
