"""Random variates for compiled code, drawn from the bare state of a NumPy generator.

PCG64 (O'Neill 2014) has a state and an increment of 128 bits each, here four 64-bit words: state,
then increment, the lower half first. A step is

    state <- state * MULTIPLIER + increment   modulo 2^128,

and its output the exclusive or of the state's halves, rotated right by the state's upper 6 bits. To
step the words themselves takes 2 ns, where handing a generator to compiled code costs 13 us a call.

The normal, exponential and gamma variates are Numba's, which are NumPy's, with the words in place
of the generator: a stream gives the same variates here as through NumPy, bit for bit.
"""

from types import FunctionType
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic
from numba.np.random import distributions
from numpy.typing import NDArray

from cpsrl._private.compile import inlined

Words = NDArray[np.uint64]

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
UNIT = 1.0 / 2**53
ZERO, ONE, TWO, THREE = map(np.uint64, range(4))


@intrinsic  # type: ignore[untyped-decorator]
def pcg64_step(typing: Any, low: Any, high: Any, more: Any, most: Any) -> Any:
    """Return the halves of the next state, the lower first, and the output of the step.

    `low` and `high` are the halves of the state, `more` and `most` those of the increment.
    """
    three = numba.types.UniTuple(numba.types.uint64, 3)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        half = ir.Constant(wide, 64)

        def whole(lower: Any, upper: Any) -> Any:
            return builder.or_(
                builder.zext(lower, wide), builder.shl(builder.zext(upper, wide), half)
            )

        product = builder.mul(whole(*arguments[:2]), ir.Constant(wide, MULTIPLIER))
        state = builder.add(product, whole(*arguments[2:]))
        lower, upper = builder.trunc(state, word), builder.trunc(builder.lshr(state, half), word)
        mixed, turn = builder.xor(upper, lower), builder.lshr(upper, ir.Constant(word, 58))
        back = builder.and_(builder.neg(turn), ir.Constant(word, 63))
        output = builder.or_(builder.lshr(mixed, turn), builder.shl(mixed, back))
        return context.make_tuple(builder, three, [lower, upper, output])

    return three(low, high, more, most), generate


@inlined
def next_uint64(words: Words) -> int:
    """Step a stream and return its next 64 bits."""
    low, high, output = pcg64_step(words[ZERO], words[ONE], words[TWO], words[THREE])
    words[ZERO] = low
    words[ONE] = high
    return output


@inlined
def uniform(words: Words) -> float:
    """Return a uniform variate on [0, 1)."""
    return (next_uint64(words) >> np.uint64(11)) * UNIT


def _on_words(name: str, **callees: Any) -> Any:
    """Return one of Numba's variates as a leaf on words."""
    theirs = getattr(distributions, name)
    drawn = {"next_uint64": next_uint64, "next_double": uniform, **callees}
    bound: Any = FunctionType(theirs.__code__, {**theirs.__globals__, **drawn}, f"{name}_on_words")
    bound.__qualname__ = bound.__name__
    return inlined(bound)


standard_exponential = _on_words("random_standard_exponential")
standard_normal = _on_words("random_standard_normal")
standard_gamma = _on_words(
    "random_standard_gamma",
    random_standard_exponential=standard_exponential,
    random_standard_normal=standard_normal,
)
"""A gamma variate: `standard_gamma(words, shape)`."""
