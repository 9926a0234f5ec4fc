"""Runs of an ensemble on a table with features, by the compiled loop in a worker process.

The loop (`cpsrl.networks.loop`) gets everything random as arrays. They are drawn here, chunk by
chunk, from the run's streams, in the order in which the live agent and the simulator draw them:
where the run stops and goes on makes no difference, and agents with tables and with networks meet
the same noise on one seed. Rewards are summed here too, in float64.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.mdp import TabularMDP
from cpsrl.mdp.simulator import BERNOULLI, GAUSSIAN
from cpsrl.networks.agent import EnsembleAgent
from cpsrl.networks.workers import CACHE, worker
from cpsrl.seeding import Streams
from cpsrl.simulation.recording import Recorder
from cpsrl.simulation.run import LOOPS, Run
from cpsrl.types import Floats, Ints

CHUNK = 1000
"""Steps of one call of the compiled loop."""

_announced: set[str] = set()


def advance(
    run: Run, recorder: Recorder, steps: int, progress: Callable[[int], None], stop: Ints
) -> None:
    """Take steps with an `EnsembleAgent` (see `run.Loop`)."""
    from cpsrl.networks.loop import Draws, Loop

    agent: EnsembleAgent = run.agent
    simulator = run.simulator
    spec, mdp, streams = agent.spec, simulator.mdp, simulator.streams
    noise = Noise(mdp)
    table = noise.table(agent.features)
    loop = Loop(agent.ensemble, _packed(agent), np.int32(simulator.state))
    settings = {
        "noise": noise.kind,
        "learning_rate": spec.learning_rate,
        "whole_table": mdp.n_states <= 2 * spec.batch,
    }
    key = _announce(loop.ensemble.online, table, spec.batch, spec.capacity, settings)
    # The loop counts in 32 bits; a call of it needs to see no copy beyond its own steps.
    period = min(spec.target_every, CHUNK + 1)
    mark = 0
    with worker() as process:
        process.call("begin", loop, spec.capacity, table, period, settings)
        while steps > 0 and not stop[0]:
            n, first, before = min(steps, CHUNK), agent.step, agent.resamples
            drawn, (ranks, variates) = agent.draw_steps(n), noise.draw(streams, n)
            draws = Draws(
                next_rank=_padded(ranks, np.int32),
                reward_noise=_padded(variates, np.float32),
                member=_padded(drawn.member, np.int32),
                gamma=_padded(drawn.gamma, np.float32),
                forced=_padded(drawn.forced, np.int32),
                mask=_padded(_words(drawn.mask), np.int32),
                rows=_padded(drawn.rows, np.int32),
            )
            left = spec.target_every - (first - 1) % spec.target_every
            slot, age = (first - 1) % spec.capacity, period - min(left, period)
            states, actions = process.call("steps", draws, n, slot, age)
            _remember(key)
            rewards = noise.rewards(states, actions, variates)
            sums = np.cumsum(np.concatenate([[run.reward_sum], rewards]))
            counts = np.cumsum(np.concatenate([[before], drawn.resample]))
            mark = _record(recorder, mark, first, sums, counts)
            _keep(recorder, first, (drawn.resample, states, actions, rewards))
            run.reward_sum = float(sums[-1])
            agent.step += n
            run.step += n
            steps -= n
            progress(n)
        loop = process.call("end", agent.held)
    agent.ensemble = loop.ensemble
    _unpack(loop.replay, agent)
    simulator.state = int(loop.state)


def _record(recorder: Recorder, mark: int, first: int, sums: Floats, counts: Ints) -> int:
    """Enter the sums and counts (n + 1,) before and after n steps; return the next mark."""
    tape = recorder.tape
    end = int(np.searchsorted(tape.marks, first + len(sums) - 1))
    reached = tape.marks[mark:end] - first + 1
    tape.reward_sums[mark:end], tape.resamples[mark:end] = sums[reached], counts[reached]
    return end


def _keep(recorder: Recorder, first: int, columns: tuple[NDArray[Any], ...]) -> None:
    """Enter what every step did, where that is asked for."""
    tape, n = recorder.tape, len(columns[0])
    kept = (tape.resampled, tape.states, tape.actions, tape.rewards)
    for column, values in zip(kept, columns, strict=True):
        if len(column):
            column[:n] = values
    recorder.collect(first, n)


class Noise:
    """The chance in an environment, for a loop that compares whole numbers.

    A uniform u decides between successors by comparison with cumulative probabilities. Its rank is
    how many of all those of the MDP are at most u; a cumulative probability's level is how many of
    them are below it. Then u is at least the cumulative probability if its rank is above the level.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self._mdp = mdp
        self.kind, self._deviations = mdp.noise_code
        self._cumulative = np.unique(mdp.cdf[2])
        self._means = np.unique(mdp.rewards)

    def table(self, features: Any) -> Any:
        """Return the environment as the loop takes it."""
        from cpsrl.networks.loop import Table

        indptr, indices, cumulative = self._mdp.cdf
        lengths = np.diff(indptr)
        j = np.arange(lengths.max())
        place = indptr[:-1, None] + np.minimum(j, lengths[:, None] - 1)
        levels = np.searchsorted(self._cumulative, cumulative[place])
        levels[j >= lengths[:, None] - 1] = len(self._cumulative)
        means = self._mdp.rewards.ravel()
        rewards = np.searchsorted(self._means, means) if self.kind == BERNOULLI else means
        return Table(
            features=features,
            successors=indices[place].astype(np.int32),
            levels=levels[:, :-1].astype(np.int32),
            rewards=rewards.astype(np.float32),
            deviations=self._deviations.ravel().astype(np.float32),
        )

    def draw(self, streams: Streams, n: int) -> tuple[Ints, Floats]:
        """Return ranks (n,) for the next states and variates (n,) for the rewards of n steps."""
        ranks = np.searchsorted(self._cumulative, streams.transition.random(n), side="right")
        variates = np.zeros(n)
        if self.kind == GAUSSIAN:
            variates = streams.reward.standard_normal(n)
        elif self.kind == BERNOULLI:
            uniform = streams.reward.random(n)
            variates += np.searchsorted(self._means, uniform, side="right")
        return ranks, variates

    def rewards(self, states: Ints, actions: Ints, variates: Floats) -> Floats:
        """Return the realised rewards (n,)."""
        means = self._mdp.rewards[states, actions]
        if self.kind == GAUSSIAN:
            return means + self._deviations[states, actions] * variates
        if self.kind == BERNOULLI:
            return (variates <= np.searchsorted(self._means, means)).astype(np.float64)
        return means


def _padded(values: NDArray[Any], kind: Any) -> NDArray[Any]:
    padded = np.zeros((CHUNK, *values.shape[1:]), kind)
    padded[: len(values)] = values
    return padded


def _words(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Pack masks (n, K) into (n, ceil(K / 32)) whole numbers, member k in bit k % 32."""
    n, members = mask.shape
    whole = np.zeros((n, -(-members // 32) * 32), np.bool_)
    whole[:, :members] = mask
    return np.packbits(whole, axis=1, bitorder="little").view("<i4")


def _packed(agent: EnsembleAgent) -> NDArray[np.int32]:
    """Return what the agent's replay holds, as the loop keeps it."""
    part = {name: column[: agent.held] for name, column in agent.replay.items()}
    columns = (part["observation"], part["action"], part["reward"].view(np.int32))
    return np.column_stack([*columns, part["next_observation"], _words(part["mask"])])


def _unpack(packed: NDArray[np.int32], agent: EnsembleAgent) -> None:
    """Put the rows of the loop's replay back into the agent's."""
    bits = np.unpackbits(packed[:, 4:].copy().view(np.uint8), axis=1, bitorder="little")
    columns = {
        "observation": packed[:, 0],
        "action": packed[:, 1],
        "reward": packed[:, 2].copy().view(np.float32),
        "next_observation": packed[:, 3],
        "mask": bits[:, : agent.replay["mask"].shape[1]],
    }
    for name, column in columns.items():
        agent.replay[name][: len(packed)] = column


def _announce(*compiled_for: Any) -> str:
    """Say once that the loop is about to be compiled, unless it is cached; return its key."""
    import jax

    shapes = jax.tree.map(lambda a: getattr(a, "shape", a), compiled_for)
    key = hashlib.sha256(f"{version('jax')} {CHUNK} {shapes}".encode()).hexdigest()[:16]
    if key not in _announced and not os.path.exists(_marker(key)):
        print("cpsrl: compiling the networks' loop (once) ...", file=sys.stderr, flush=True)
    _announced.add(key)
    return key


def _remember(key: str) -> None:
    """Note that the loop has been compiled, where the cache can be written to."""
    with suppress(OSError):
        _marker(key).touch()


def _marker(key: str) -> Path:
    return CACHE / f"{key}.ready"


LOOPS[EnsembleAgent] = advance
