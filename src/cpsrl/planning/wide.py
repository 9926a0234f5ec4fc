"""Numbers with the precision of float64 and a range without end, and sums of them without loss.

A *wide* number is a pair (m, k), m 2^(512 k), with m = 0 or 2^-256 <= |m| < 2^256: sums and
products need a comparison, no logarithm, and nothing overflows or underflows.

*Places* are fixed-point numbers of any length: 32 bits in each of L integers, least significant
first, the last of them signed; `lowest` is the power of 2 that the first counts. Two states in one
nearly closed class can have biases of 1e300 that differ by 1. As places their difference is
known to full precision, and as wide numbers it is computed with.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, jit
from cpsrl.support.types import Floats, Ints

STEP = 512
HUGE, SMALL = 2.0**256, 2.0**-256
UP, DOWN = 2.0**512, 2.0**-512
BITS = 32
MASK = (1 << BITS) - 1
FULL = 48
"""Bits of a number that places keep at least, or they are too coarse."""


class Places(NamedTuple):
    """Fixed-point numbers `(n, L)`, and a 0 behind them."""

    digits: Any
    lowest: int


class Wide(NamedTuple):
    """An array of wide numbers."""

    m: Floats
    k: Ints


@inlined
def normal(m: float, k: int) -> tuple[float, int]:
    """Return (m, k) with m where it belongs, if it was out by at most one step."""
    if abs(m) >= HUGE:
        return m * DOWN, k + 1
    if abs(m) < SMALL:
        return (m * UP, k - 1) if m != 0.0 else (0.0, 0)
    return m, k


@inlined
def wide(x: float) -> tuple[float, int]:
    """Return a finite float as a wide number."""
    m, k = normal(x, 0)
    return normal(m, k)


@inlined
def plus(m: float, k: int, n: float, j: int) -> tuple[float, int]:
    """Return m 2^(512 k) + n 2^(512 j)."""
    if k == j:
        return normal(m + n, k)
    if n == 0.0 or (k > j + 1 and m != 0.0):
        return m, k
    if m == 0.0 or j > k + 1:
        return n, j
    if k > j:
        return normal(m + n * DOWN, k)
    return normal(m * DOWN + n, j)


@inlined
def times(m: float, k: int, n: float, j: int) -> tuple[float, int]:
    """Return the product."""
    return normal(m * n, k + j)


@inlined
def over(m: float, k: int, n: float, j: int) -> tuple[float, int]:
    """Return the quotient; n is not 0."""
    return normal(m / n, k - j)


@inlined
def above(m: float, k: int, n: float, j: int) -> bool:
    """Return whether the first is larger than the second."""
    difference, _ = plus(m, k, -n, j)
    return difference > 0.0


@inlined
def exponent(m: float, k: int) -> int:
    """Return the e with 2^(e-1) <= |number| < 2^e, for one that is not 0."""
    return math.frexp(m)[1] + STEP * k


@jit
def widened(x: Floats) -> Wide:
    """Return floats `(n,)` as wide numbers."""
    found = Wide(np.empty(len(x)), np.empty(len(x), np.int64))
    for i in range(len(x)):
        found.m[i], found.k[i] = wide(x[i])
    return found


@inlined
def apart(digits: Any, lowest: int, i: int, j: int) -> tuple[float, int]:
    """Return number i less number j of places `(n + 1, L)`, rounded once."""
    top = digits.shape[1] - 1
    while top >= 0 and digits[i, top] == digits[j, top]:
        top -= 1
    if top < 0:
        return 0.0, 0
    total = 0.0
    while top >= 0 and abs(total) < 2.0**40:
        total = total * 2.0**BITS + (digits[i, top] - digits[j, top])
        top -= 1
    if top >= 0:
        total = total * 2.0**BITS + (digits[i, top] - digits[j, top])
        top -= 1
    power = BITS * (top + 1) + lowest
    k = power // STEP
    return normal(math.ldexp(total, power - STEP * k), k)


@inlined
def put(digits: Any, lowest: int, i: int, m: float, k: int) -> tuple[bool, bool]:
    """Add a wide number to number i of places; return whether it fits, and in FULL precision."""
    if m == 0.0:
        return True, True
    fraction, power = math.frexp(abs(m))
    whole = np.uint64(fraction * 2.0**53)
    shift = power - 53 + STEP * k - lowest
    fine = shift >= FULL - 53
    if shift < 0:
        out = np.uint64(min(-shift, 60))
        whole = (whole + (np.uint64(1) << (out - np.uint64(1)))) >> out
        shift = 0
    first, up, last = shift // BITS, np.uint64(shift % BITS), digits.shape[1] - 1
    if first + 3 > last:
        return False, fine
    low = (whole & np.uint64(MASK)) << up
    high = ((whole >> np.uint64(BITS)) << up) + (low >> np.uint64(BITS))
    carry = 0
    for place in range(first, last + 1):
        if place == first:
            part = np.int64(low & np.uint64(MASK))
        elif place == first + 1:
            part = np.int64(high & np.uint64(MASK))
        elif place == first + 2:
            part = np.int64(high >> np.uint64(BITS))
        elif carry == 0:
            break
        else:
            part = np.int64(0)
        value = digits[i, place] + carry + (part if m > 0.0 else -part)
        if place < last:
            digits[i, place], carry = value & MASK, value >> BITS
        else:
            digits[i, place] = value
    return True, fine


def finer(places: Places, more: int) -> Places:
    """Return places of the same numbers with so many more integers below."""
    digits, lowest = places
    below = np.zeros((len(digits), more), np.int64)
    return Places(np.concatenate((below, digits), axis=1), lowest - BITS * more)


def less(places: Places, others: Places) -> Places:
    """Return the differences of places `(n + 1, L)` with one `lowest`."""
    limbs = max(places.digits.shape[1], others.digits.shape[1])
    return Places(_less(places.digits, others.digits, limbs), places.lowest)


@jit
def _less(digits: Any, others: Any, limbs: int) -> Any:
    found = np.empty((len(digits), limbs), np.int64)
    for i in range(len(digits)):
        carry = 0
        for place in range(limbs):
            value = _digit(digits, i, place) - _digit(others, i, place) + carry
            if place < limbs - 1:
                found[i, place], carry = value & MASK, value >> BITS
            else:
                found[i, place] = value
    return found


@inlined
def _digit(digits: Any, i: int, place: int) -> int:
    """Return a digit of number i, as if it had as many as are asked for."""
    return digits[i, place] if place < digits.shape[1] else 0
