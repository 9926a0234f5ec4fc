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
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.mdp import Simulator
from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.networks.environment import Environment, single
from cpsrl.networks.workers import CACHE, check_importable, worker
from cpsrl.simulation.recording import Recorder
from cpsrl.simulation.run import LOOPS, Run
from cpsrl.types import Floats, Ints

CALL_STEPS = 1000
"""Steps of one call of the compiled loop."""

_announced: set[Path] = set()
_lock = threading.Lock()


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with a `ValueSamplingAgent` (see `run.Loop`)."""
    import jax

    from cpsrl.networks.loop import Carried

    agent: ValueSamplingAgent = run.agent
    simulator, spec = run.simulator, agent.spec
    environment = _environment_of(simulator)
    pure, table = environment.pure(), environment.table()
    for part in (pure, spec.belief, spec.objective):
        check_importable(part)
    carried = Carried(
        agent.learner,
        agent.packed_replay(),
        jax.tree.map(lambda leaf: single(np.asarray(leaf)), simulator.state),
    )
    settings = {
        "belief": spec.belief,
        "objective": spec.objective,
        "learning_rate": spec.learning_rate,
        "whole_table": table is not None and len(table) <= 2 * spec.batch and spec.belief.finite,
    }
    marker = _announce(carried._replace(replay=None), pure, spec.batch, spec.capacity, settings)
    # The loop counts in 32 bits; a call of it needs to see no copy beyond its own steps.
    period = min(spec.target_every, CALL_STEPS + 1)
    mark = 0
    with worker() as process:
        process.call("look_in", sys.path)
        process.call("begin", carried, spec.capacity, pure, period, settings)
        while steps > 0 and not stop[0]:
            n, first, before = min(steps, CALL_STEPS), agent.step, agent.resamples
            drawn, noise = agent.draw_steps(n), environment.draw(simulator.streams, n)
            left = spec.target_every - (first - 1) % spec.target_every
            slot, age = (first - 1) % spec.capacity, period - min(left, period)
            padded = jax.tree.map(_padded, (drawn, noise))
            taken = process.call("steps", *padded, n, slot, age)
            with suppress(OSError):  # where the cache cannot be written to
                marker.touch()
            rewards = environment.realised(taken, noise)
            sums = np.cumsum(np.concatenate([[run.reward_sum], rewards]))
            counts = np.cumsum(np.concatenate([[before], drawn.resample]))
            states = np.zeros(n, np.int64) if taken.states is None else taken.states
            did = (drawn.resample, states, taken.actions, rewards)
            mark = _record(recorder, mark, first, sums, counts, did)
            run.reward_sum = float(sums[-1])
            agent.step += n
            run.step += n
            steps -= n
            progress(n)
        carried = process.call("end", agent.held)
    agent.learner = carried.learner
    agent.unpack_replay(carried.replay)
    simulator.state = carried.state if table is None else int(carried.state)


def _environment_of(simulator: Any) -> Environment:
    if not isinstance(simulator, Simulator):
        return simulator.environment
    from cpsrl.networks.table import Table

    return Table(simulator.mdp)


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
