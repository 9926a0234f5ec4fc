"""Randomness: one root seed, one generator for every run and every purpose.

The generator of a purpose (a stream) in run k of root seed s is seeded by
`SeedSequence(s, spawn_key=(k, number of the stream))`. Run k is therefore the same alone or among
fifty, and two agents on one run meet the same environment noise. A run number of 2^32 or more would
take two words of the sequence, and could meet the streams of another root seed (seed 5, run
7 * 2^32 + 3 those of seed 5 + 3 * 2^128, run 7): it is refused.
"""

from typing import Any

import numpy as np

from cpsrl.checks import checked_whole

MOST_RUNS = 2**32
STREAMS = ("transition", "reward", "belief", "rule", "action", "model")


def stream(seed: int, run: int, name: str) -> np.random.Generator:
    """Return the generator of stream `name` in run `run` of root seed `seed`."""
    if checked_whole("run", run) >= MOST_RUNS:
        raise ValueError(
            f"run must be below 2^32, not {run}: larger ones share other seeds' streams"
        )
    key = (int(run), STREAMS.index(name))
    sequence = np.random.SeedSequence(checked_whole("seed", seed), spawn_key=key)
    return np.random.Generator(np.random.PCG64(sequence))


class Streams:
    """The generators of one run, one attribute per stream."""

    transition: np.random.Generator
    reward: np.random.Generator
    belief: np.random.Generator
    rule: np.random.Generator
    action: np.random.Generator
    model: np.random.Generator

    def __init__(self, seed: int = 0, run: int = 0) -> None:
        for name in STREAMS:
            setattr(self, name, stream(seed, run, name))

    def state(self) -> dict[str, Any]:
        """Return where every generator stands, as a tree of strings and whole numbers."""
        return {name: getattr(self, name).bit_generator.state for name in STREAMS}

    def restore(self, state: dict[str, Any]) -> None:
        """Put every generator where `state()` found it; raise, and change nothing, if one can't."""
        check_streams(state)
        for name in STREAMS:
            getattr(self, name).bit_generator.state = state[name]


def check_streams(state: Any) -> None:
    """Raise a ValueError unless `state` is what `Streams.state` returns."""
    if not isinstance(state, dict) or sorted(state) != sorted(STREAMS):
        got = ", ".join(sorted(map(str, state))) if isinstance(state, dict) else repr(state)
        raise ValueError(f"streams are {', '.join(STREAMS)}; got {got}")
    spare = np.random.PCG64(0)
    for name in STREAMS:
        try:
            spare.state = state[name]
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise ValueError(f"the stored state of the stream {name!r} is damaged") from error
