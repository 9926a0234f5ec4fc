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
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.environments.pure import Environment, make_known, single
from cpsrl.mdp import Simulator
from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.networks.devices import ALONE, WIDTH, Layout, layout_of
from cpsrl.networks.workers import CACHE, check_importable, worker
from cpsrl.simulation.recording import Recorder
from cpsrl.simulation.run import LOOPS, TOGETHER, Loops, Run
from cpsrl.sizes import width_of
from cpsrl.types import Floats, Ints

CALL_STEPS = 1000
"""Steps of one call of the compiled loop."""

_announced: set[Path] = set()
_lock = threading.Lock()


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a `ValueSamplingAgent` (see `run.Loop`)."""
    _advance([run], [recorder], steps, progress, stop, ALONE)


def together(device: str) -> Loops | None:
    """Return the loop that takes many runs at once on a device, or None for each by itself."""
    layout = layout_of(device)
    return partial(_in_batches, layout) if layout.together else None


def _in_batches(
    layout: Layout,
    runs: Sequence[Run],
    recorders: Sequence[Recorder],
    steps: int,
    progress: Callable[[int], None],
    stop: Ints,
) -> None:
    with worker(layout) as process:
        width = WIDTH * process.call("devices")[2]
    for first in range(0, len(runs), width):
        some = slice(first, first + width)
        _advance(runs[some], recorders[some], steps, progress, stop, layout, width)


def _advance(
    runs: Sequence[Run],
    recorders: Sequence[Recorder],
    steps: int,
    progress: Callable[[int], None],
    stop: Ints,
    layout: Layout,
    width: int = 1,
) -> None:
    """Take steps of runs that stand at the same step: of one, or of a batch of up to `width`."""
    import jax

    def joined(trees: Sequence[Any]) -> Any:
        """Return what the loop takes: that of the one run, or those of all along a first axis."""
        if not layout.together:
            return trees[0]
        full = [*trees, *[trees[-1]] * (width - len(trees))]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *full)

    def apart(tree: Any) -> list[Any]:
        """Return what the loop gave, run by run."""
        if not layout.together:
            return [tree]
        return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(len(runs))]

    one: ValueSamplingAgent = runs[0].agent
    spec, agents = one.spec, [run.agent for run in runs]
    counted = [_counted(run.simulator, run.agent) for run in runs]
    environment, pure, _ = counted[0]
    table = environment.table()
    for part in (pure, spec.belief, spec.objective):
        check_importable(part)
    make_known(pure)
    carried = joined([_carried(run) for run in runs])
    settings = {
        "belief": spec.belief,
        "objective": spec.objective,
        "learning_rate": spec.learning_rate,
        "whole_table": table is not None and len(table) <= 2 * spec.batch and spec.belief.finite,
    }
    shapes = (carried._replace(replay=None), pure, spec.batch, spec.capacity, settings)
    marker = _announce(*shapes, *((layout, width) if layout.together else ()))
    # The loop counts in 32 bits; a call of it needs to see no copy beyond its own steps.
    period = min(spec.target_every, CALL_STEPS + 1)
    marks = [0] * len(runs)
    with worker(layout) as process:
        process.call("look_in", sys.path)
        where = [joined([one[k] for one in counted]) for k in (1, 2)]
        process.call("begin", carried, spec.capacity, *where, period, settings, layout.together)
        while steps > 0 and not stop[0]:
            n = min(steps, CALL_STEPS if one.origin is not None else 1)
            first, before = one.step, [agent.resamples for agent in agents]
            drawn = [agent.draw_steps(n) for agent in agents]
            noise = [counted[i][0].draw(run.simulator.streams, n) for i, run in enumerate(runs)]
            left = spec.target_every - one.learned % spec.target_every
            slot, age = one.learned % spec.capacity, period - min(left, period)
            padded = [jax.tree.map(_padded, both) for both in zip(drawn, noise, strict=True)]
            taken = apart(process.call("steps", *joined(padded), n, slot, age))
            with suppress(OSError):  # where the cache cannot be written to
                marker.touch()
            began = one.origin is None
            for i, (run, recorder) in enumerate(zip(runs, recorders, strict=True)):
                rewards = counted[i][0].realised(taken[i], noise[i])
                did = (drawn[i].resample, taken[i].states, taken[i].actions, rewards)
                sums = np.cumsum(np.concatenate([[run.reward_sum], rewards]))
                counts = np.cumsum(np.concatenate([[before[i]], drawn[i].resample]))
                marks[i] = _record(recorder, marks[i], first, sums, counts, did)
                run.reward_sum = float(sums[-1])
                _took(run, rewards)
            if began:
                counted = [_counted(run.simulator, run.agent) for run in runs]
                process.call("count", *(joined([one[k] for one in counted]) for k in (1, 2)))
            steps -= n
            progress(n * len(runs))
        ended = apart(process.call("end", one.held))
    for run, carried in zip(runs, ended, strict=True):
        run.agent.learner = carried.learner
        run.agent.unpack_replay(carried.replay)
        run.simulator.state = carried.state if table is None else int(carried.state)


def _carried(run: Run) -> Any:
    """Return where a run stands, as the loop takes it."""
    import jax

    from cpsrl.networks.loop import Carried

    state = jax.tree.map(lambda leaf: single(np.asarray(leaf)), run.simulator.state)
    return Carried(run.agent.learner, run.agent.packed_replay(), state)


def _took(run: Run, rewards: Floats) -> None:
    """Move a run on by the steps that gave these rewards."""
    agent: ValueSamplingAgent = run.agent
    for reward in (rewards.min(), rewards.max()):
        agent.expected.look(reward)
    if agent.origin is None:
        agent.origin = float(rewards[0])
    agent.step += len(rewards)
    agent.learned += len(rewards)
    run.step += len(rewards)


def _counted(
    simulator: Any, agent: ValueSamplingAgent
) -> tuple[Environment, Environment, NDArray[np.float32]]:
    """Return the environment, its pure functions, and the units that the loop takes rewards in.

    A table gives its rewards in the agent's units, from float64. The first of all rewards that
    are counted from it is 0: in units that are infinite.
    """
    origin, width = agent.origin, width_of(agent.sizes.reward_range)
    environment: Environment
    if isinstance(simulator, Simulator):
        from cpsrl.networks.table import Table

        environment, units = Table(simulator.mdp, origin), (0.0, 1.0)
    else:
        environment, units = simulator.environment, (origin or 0.0, width)
    if origin is None:
        units = (0.0, np.inf)
    return environment, environment.pure(), np.array(units, np.float32)


def _record(
    recorder: Recorder,
    mark: int,
    first: int,
    sums: Floats,
    counts: Ints,
    did: tuple[NDArray[Any], ...],
) -> int:
    """Enter n steps and return the next mark.

    `sums` and `counts` (n + 1,) are those before and after them; `did` (n,) each, what every step
    did, is kept where that is asked for.
    """
    tape, n = recorder.tape, len(sums) - 1
    end = int(np.searchsorted(tape.marks, first + n))
    reached = tape.marks[mark:end] - first + 1
    tape.reward_sums[mark:end], tape.resamples[mark:end] = sums[reached], counts[reached]
    kept = (tape.resampled, tape.states, tape.actions, tape.rewards)
    for column, values in zip(kept, did, strict=True):
        if len(column):
            column[:n] = values
    recorder.collect(first, n)
    return end


def _padded(values: Any) -> NDArray[Any]:
    """Return an array of n steps as the loop takes it: 32 bits, and always of one length."""
    values = single(np.asarray(values))
    padded = np.zeros((CALL_STEPS, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded


def _announce(*compiled_for: Any) -> Path:
    """Say once that the loop is about to be compiled, unless the marker returned is there."""
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
