"""Where NumPy keeps the state of a PCG64 generator, so that compiled code can step it in place.

The layout is private to NumPy. It is compared with the generator's public state when this module is
imported; where the two differ, `SHARED` is False and states are copied back and forth instead.
"""

import ctypes
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from cpsrl._private.variates import Words

LOW = 2**64 - 1


class Unseeded(ISeedSequence):
    """A seed sequence for a generator whose words are put in afterwards."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return np.zeros(n_words, dtype)


def memory_words(generator: np.random.Generator) -> Words:
    """Return the memory of a generator's state as words (4,)."""
    state: Any = generator.bit_generator.ctypes.state_address
    place = ctypes.c_void_p.from_address(state).value
    words: Any = (ctypes.c_uint64 * 4).from_address(place or 0)
    words.generator = generator  # keeps the memory
    return np.frombuffer(words, np.uint64)


def as_words(state: Any) -> list[int]:
    """Return the four words of a state as NumPy writes it."""
    numbers = (state["state"]["state"], state["state"]["inc"])
    return [part for number in numbers for part in (number & LOW, number >> 64)]


def as_state(words: Any) -> Any:
    """Return the state as NumPy writes it of four words."""
    low, high, more, most = (int(word) for word in words)
    inner = {"state": (high << 64) + low, "inc": (most << 64) + more}
    return {"bit_generator": "PCG64", "state": inner, "has_uint32": 0, "uinteger": 0}


def _memory_is_as_expected() -> bool:
    """Return whether NumPy keeps PCG64's state where `memory_words` looks for it."""
    generator = np.random.Generator(np.random.PCG64(1))
    try:
        return list(map(int, memory_words(generator))) == as_words(generator.bit_generator.state)
    except (AttributeError, TypeError, ValueError):
        return False


SHARED = _memory_is_as_expected()
"""Whether generators and compiled code can share memory; if not, words are copied both ways."""
