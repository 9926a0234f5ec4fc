"""Randomness: one root seed, one generator for every run and every purpose.

The generator of a purpose (a stream) in run k of root seed s is a PCG64 seeded by
`SeedSequence(s, spawn_key=(k, number of the stream))`. Run k is therefore the same alone or among
fifty, and two agents on one run meet the same environment noise.

Where several act at once, each has streams of its own by its name: that of a purpose is seeded by
`SeedSequence(i, spawn_key=words of the name's SHA-256)`, i being the increment of the run's stream,
which is its own and never changes. So a name stands for the same streams whenever it is first met.

A stream's state is four words (see `cpsrl._private.variates`). Compiled code steps the words
themselves; Python gets a NumPy generator, made when it is first asked for, whose own memory then
holds them.
`first_words` computes the words of many runs at once, which takes a microsecond a run where NumPy's
objects take ninety.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from cpsrl._private.pcg64 import LOW, SHARED, Unseeded, as_state, as_words, memory_words
from cpsrl._private.variates import MULTIPLIER, Words
from cpsrl.support.checks import checked_whole

STREAMS = ("transition", "reward", "belief", "rule", "action", "model")
NUMBER = {name: number for number, name in enumerate(STREAMS)}
MOST_RUN = 2**32 - 1
"""A larger one would be two words of the spawn key, and could meet another root's streams."""
_ALL = 2**128 - 1


def checked_run(run: Any) -> int:
    """Return `run` as an int in 0..MOST_RUN, or raise."""
    return checked_whole("run", run, most=MOST_RUN)


def stream(seed: int, run: int, name: str) -> np.random.Generator:
    """Return the generator of stream `name` in run `run` of root seed `seed`."""
    key = (checked_run(run), NUMBER[name])
    sequence = np.random.SeedSequence(checked_whole("seed", seed, most=None), spawn_key=key)
    return np.random.Generator(np.random.PCG64(sequence))


def first_words(seed: int, runs: Sequence[int]) -> Words:
    """Return the words `(runs, streams, 4)` of the streams of some runs of a root seed."""
    seed = checked_whole("seed", seed, most=None)
    words = [(seed >> shift) & 0xFFFFFFFF for shift in range(0, max(seed.bit_length(), 1), 32)]
    words += [0] * (4 - len(words))
    shape = (len(runs), len(STREAMS))
    numbers = np.fromiter(map(checked_run, runs), np.uint32, len(runs))
    entropy = [np.full(shape, word, np.uint32) for word in words]
    entropy.append(np.broadcast_to(numbers[:, None], shape))
    entropy.append(np.broadcast_to(np.arange(len(STREAMS), dtype=np.uint32), shape))
    return _seeded(entropy)


def _seeded(entropy: list[Any]) -> Words:
    """Return the words `(..., 4)` of the PCG64s seeded by 32-bit words `(...)` of entropy.

    The hashing of `numpy.random.SeedSequence` (O'Neill's seed_seq_fe), on arrays of 32-bit words,
    and the seeding of PCG64: state = 0, a step, plus the initial state, a step.
    """
    constant = 0x43B0D7E5

    def hashed(value: Any) -> Any:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * 0x931E8875 & 0xFFFFFFFF
        value = value * np.uint32(constant)
        return value ^ (value >> np.uint32(16))

    def mixed(x: Any, y: Any) -> Any:
        value = x * np.uint32(0xCA01F9DD) - y * np.uint32(0x4973F715)
        return value ^ (value >> np.uint32(16))

    pool = [hashed(word) for word in entropy[:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in entropy[4:]:
        pool = [mixed(old, hashed(word)) for old in pool]

    constant, halves = 0x8B51F9DD, []
    for i in range(8):
        value = pool[i % 4] ^ np.uint32(constant)
        constant = constant * 0x58F38DED & 0xFFFFFFFF
        value = value * np.uint32(constant)
        halves.append((value ^ (value >> np.uint32(16))).astype(object))
    high_low = [halves[i] + (halves[i + 1] << 32) for i in (0, 2, 4, 6)]
    initial, sequence = ((high_low[i] << 64) + high_low[i + 1] for i in (0, 2))
    increment = (sequence << 1 | 1) & _ALL
    state = ((increment + initial) * MULTIPLIER + increment) & _ALL
    parts = (state & LOW, state >> 64, increment & LOW, increment >> 64)
    return np.stack([part.astype(np.uint64) for part in parts], axis=-1)


class Streams:
    """The streams of one run: a NumPy generator for every purpose, and their words.

    Args:
        seed: the root seed.
        run: the number of the run.
        words: `(streams, 4)` where the streams stand, in place of their beginning.
    """

    transition: np.random.Generator
    reward: np.random.Generator
    belief: np.random.Generator
    rule: np.random.Generator
    action: np.random.Generator
    model: np.random.Generator

    def __init__(self, seed: int = 0, run: int = 0, words: Words | None = None) -> None:
        first: Any = first_words(seed, [run])[0] if words is None else words
        self._words: list[Any] = list(first)

    def __getattr__(self, name: str) -> np.random.Generator:
        """Make the generator of a stream, when it is first asked for."""
        if name not in NUMBER:
            raise AttributeError(name)
        given: Any = Unseeded()
        generator = np.random.Generator(np.random.PCG64(given))
        generator.bit_generator.state = as_state(self._words[NUMBER[name]])
        if SHARED:
            self._words[NUMBER[name]] = None  # looked for by `words`, which takes longer
        self.__dict__[name] = generator
        return generator

    def named(self, names: Sequence[str]) -> list["Streams"]:
        """Return the streams of others that act beside the one of these streams, by their names."""
        if not names:
            return []
        own = [state["state"]["inc"] for state in self.state().values()]
        hashes = [hashlib.sha256(name.encode()).digest() for name in names]
        keys = np.array([np.frombuffer(digest[:16], "<u4") for digest in hashes])
        shape = (len(names), len(STREAMS))
        entropy = [
            np.broadcast_to(np.array([i >> shift & 0xFFFFFFFF for i in own], np.uint32), shape)
            for shift in (0, 32, 64, 96)
        ]
        entropy += [np.broadcast_to(keys[:, [place]], shape) for place in range(4)]
        return [Streams(words=words) for words in _seeded(entropy)]

    def __reduce__(self) -> Any:
        """Let copies be made of where the streams stand, not of the memory that they share."""
        return _resumed, (self.state(),)

    @contextmanager
    def words(self, *names: str) -> Iterator[tuple[Words, ...]]:
        """Give compiled code the words of some streams, which it steps in place."""
        if SHARED:
            places = [NUMBER[name] for name in names]
            for name, place in zip(names, places, strict=True):
                if self._words[place] is None:
                    self._words[place] = memory_words(getattr(self, name))
            yield tuple(self._words[place] for place in places)
            return
        with ExitStack() as stack:
            yield tuple(stack.enter_context(words_of(getattr(self, name))) for name in names)

    def state(self) -> dict[str, Any]:
        """Return where every stream stands, as a tree of strings and whole numbers."""
        return {
            name: getattr(self, name).bit_generator.state
            if name in self.__dict__
            else as_state(self._words[number])
            for name, number in NUMBER.items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Put every stream where `state()` found it; raise, and change nothing, if one can't."""
        check_streams(state)
        for name, number in NUMBER.items():
            if name in self.__dict__ or state[name]["has_uint32"]:
                getattr(self, name).bit_generator.state = state[name]
            else:
                self._words[number] = np.array(as_words(state[name]), np.uint64)


def _resumed(state: dict[str, Any]) -> Streams:
    streams = Streams(words=np.zeros((len(STREAMS), 4), np.uint64))
    streams.restore(state)
    return streams


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


@contextmanager
def words_of(rng: np.random.Generator | int) -> Iterator[Words]:
    """Give compiled code the words of a PCG64 generator, or of one made from a seed."""
    generator = np.random.default_rng(rng)
    if not isinstance(generator.bit_generator, np.random.PCG64):
        raise ValueError("the generator must be a PCG64, as numpy.random.default_rng makes them")
    if SHARED:
        yield memory_words(generator)
        return
    words = np.array(as_words(generator.bit_generator.state), np.uint64)
    before = words.copy()
    try:
        yield words
    finally:  # a generator that was used meanwhile, while its words were not, is ahead of them
        if (words != before).any():
            generator.bit_generator.state = as_state(words)
