"""Checks of what is given: each returns the value in the wanted type, or says what is right."""

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from cpsrl.registry import unknown

LARGEST = 1e100
"""Where numbers are squared or divided by, they and their inverses may not be larger than this."""


def checked_word(what: str, value: Any, words: Collection[str], place: str = "") -> str:
    """Return `value`, one of `words`, or raise; `place` says in the error whose option it is."""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be one of {', '.join(words)}, not {value!r}")
    if value not in words:
        raise unknown(what, value, words, place)
    return value


def checked_whole(what: str, value: Any, least: int = 0) -> int:
    """Return `value` as an int of at least `least`, or raise."""
    if not _is_whole(value) or value < least:
        raise ValueError(f"{what} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def checked_index(what: str, value: Any, n: int) -> int:
    """Return `value` as an int in 0..n - 1, or raise."""
    if not _is_whole(value) or not 0 <= value < n:
        raise ValueError(f"{what} must be a whole number in 0..{n - 1}, not {value!r}")
    return int(value)


def checked_number(
    what: str, value: Any, low: float = -LARGEST, high: float = LARGEST, open: bool = False
) -> float:
    """Return `value` as a float in [low, high], or in (low, high) when `open`, or raise."""
    number = _number(value)
    if low < number < high if open else low <= number <= high:
        return number
    if high < LARGEST:
        wanted = f"a number in {'(' if open else '['}{low:g}, {high:g}{')' if open else ']'}"
    elif low > -LARGEST:
        wanted = f"a number {'above' if open else 'of at least'} {low:g}"
    else:
        wanted = f"a finite number (at most {LARGEST:g})"
    raise ValueError(f"{what} must be {wanted}, not {value!r}")


def checked_positive(what: str, value: Any) -> float:
    """Return `value` as a positive float that, like its inverse, is at most LARGEST, or raise."""
    number = _number(value)
    if not 1 / LARGEST <= number <= LARGEST:
        raise ValueError(
            f"{what} must be a positive number ({1 / LARGEST:g} to {LARGEST:g}), not {value!r}"
        )
    return number


def checked_gamma(gamma: Any, step: int | None = None) -> float:
    """Return `gamma` as a float in [0, 1), or raise."""
    number = _number(gamma)
    if not 0.0 <= number < 1.0:
        where = "" if step is None else f" of step {step}"
        raise ValueError(f"gamma{where} must be a number in [0, 1), not {gamma!r}")
    return number


def checked_arrays(
    what: str, stored: Any, like: dict[str, Any], any_length: Collection[str] = ()
) -> dict[str, Any]:
    """Return copies of the arrays in `stored`, by name, which must be like those in `like`."""
    arrays = {name: np.array(stored.get(name)) for name in like}
    for name, array in arrays.items():
        mine = like[name]
        fits = array.ndim == 1 if name in any_length else array.shape == mine.shape
        if array.dtype != mine.dtype or not fits:
            raise ValueError(
                f"the stored {what} does not fit: {name} is {array.dtype} {array.shape}, not "
                f"{mine.dtype} {mine.shape}"
            )
    return arrays


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(value: Any) -> float:
    """Return `value` as a float, NaN for what is not a number or too large for one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
