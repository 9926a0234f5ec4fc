"""Checks of the options of an environment: each returns the value or says what would be right."""

import math
import numbers
from collections.abc import Collection
from typing import Any

from cpsrl.registry import unknown


def word(option: str, value: Any, words: Collection[str], place: str = "") -> str:
    """Return `value`, one of `words`; `place` says in the error whose option it is."""
    if not isinstance(value, str):
        raise ValueError(f"{option} must be one of {', '.join(words)}, not {value!r}")
    if value not in words:
        raise unknown(option, value, words, place)
    return value


def whole(option: str, value: Any, least: int) -> int:
    """Return `value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{option} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def real(
    option: str, value: Any, least: float = -math.inf, most: float = math.inf, open: bool = False
) -> float:
    """Return `value` as a finite float in [least, most], or in (least, most) when `open`."""
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if good and (least < value < most if open else least <= value <= most):
        return float(value)
    if math.isfinite(most):
        wanted = f"a number in {'(' if open else '['}{least:g}, {most:g}{')' if open else ']'}"
    elif math.isfinite(least):
        wanted = f"a number {'above' if open else 'of at least'} {least:g}"
    else:
        wanted = "a finite number"
    raise ValueError(f"{option} must be {wanted}, not {value!r}")
