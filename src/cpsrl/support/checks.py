"""Checks of what is given: each returns the value in the wanted type, or says what is right."""

import math
import os
import sys
import warnings
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from cpsrl.support.registry import unknown
from cpsrl.support.types import Floats

LARGEST = 1e100
"""Where numbers are squared or divided by, they and their inverses may not be larger than this."""
LARGEST_WHOLE = 2**63 - 1
"""What an int64 can hold."""
WHOLE = (int, np.integer)
NUMBERS = (*WHOLE, float, np.floating)
LONG_TEXT = 200
"""Errors give so many characters of a value."""
COPIES = 3
"""How often an array is in memory while a model is made of it: as it comes, checked, and kept."""
LARGE_BYTES = 1 << 28
"""What takes more is not read without a word."""


class WrongTypeError(TypeError, ValueError):
    """A value of a wrong type; a ValueError, too, as it was for every wrong value before 0.3.0."""


def shown(value: Any) -> str:
    """Return what errors write for a wrong `value`; for a class, that it is to be called."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"one of {int(value.bit_length() * math.log10(2)):,} digits"
    if isinstance(value, type | FunctionType):
        kind = "class" if isinstance(value, type) else "function"
        return f"the {kind} {value.__name__}: did you mean {value.__name__}()?"
    return shortened(repr(value.item() if isinstance(value, np.number) else value))


def shortened(text: str) -> str:
    """Return a text as errors write it: of a long one, how it begins."""
    if len(text) <= LONG_TEXT:
        return text
    return f"{text[:LONG_TEXT]}... ({len(text):,} characters)"


def count(n: int, what: str) -> str:
    """Return a number of things: 1 step, 2 steps."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def checked_kind(what: str, value: Any, kind: Any, wanted: str) -> Any:
    """Return `value` if it is of the class `kind`, or of one of several, or raise."""
    if not isinstance(value, kind):
        raise WrongTypeError(f"{what} must be {wanted}, not {shown(value)}")
    return value


def checked_word(what: str, value: Any, words: Collection[str], place: str = "") -> str:
    """Return `value`, one of `words`, or raise; `place` says in the error whose option it is."""
    if checked_kind(what, value, str, f"one of {', '.join(words)}") not in words:
        raise unknown(what, value, words, place)
    return str(value)


def is_sparse(value: Any) -> bool:
    """Return whether `value` is a SciPy sparse matrix or array; importing those takes a while."""
    return "scipy.sparse" in sys.modules and bool(scipy.sparse.issparse(value))


def checked_whole(what: str, value: Any, least: int = 0, most: float | None = LARGEST_WHOLE) -> int:
    """Return `value` as an int in least..most (or without end), or raise."""
    if not _is_whole(value) or value < least:
        wanted, meant = f"a whole number of at least {least}", ""
        if isinstance(value, float | np.floating) and value.is_integer() and value >= least:
            meant = f": did you mean {int(value):_}?"
        raise _wrong(what, wanted, value, _is_whole, meant)
    if most is not None and value > most:
        raise ValueError(f"{what} must be at most {most}, not {shown(value)}")
    return int(value)


def checked_index(what: str, value: Any, n: int) -> int:
    """Return `value` as an int in 0..n - 1, or raise."""
    if not _is_whole(value) or not 0 <= value < n:
        raise _wrong(what, f"a whole number in 0..{n - 1}", value, _is_whole)
    return int(value)


def checked_number(
    what: str, value: Any, low: float = -LARGEST, high: float = LARGEST, open: bool = False
) -> float:
    """Return `value` as a float in [low, high], or in (low, high) when `open`, or raise."""
    number = _number(value)
    if low < number < high if open else low <= number <= high:
        return number
    if high < LARGEST or (low > -LARGEST and number >= high):
        wanted = f"a number in {'(' if open else '['}{low:g}, {high:g}{')' if open else ']'}"
    elif low > -LARGEST:
        wanted = f"a number {'above' if open else 'of at least'} {low:g}"
    else:
        wanted = f"a finite number (at most {LARGEST:g})"
    raise _wrong(what, wanted, value, _is_number)


def checked_positive(what: str, value: Any) -> float:
    """Return `value` as a positive float that, like its inverse, is at most LARGEST, or raise."""
    number = _number(value)
    if not 1 / LARGEST <= number <= LARGEST:
        wanted = f"a positive number ({1 / LARGEST:g} to {LARGEST:g})"
        raise _wrong(what, wanted, value, _is_number)
    return number


def checked_gamma(gamma: Any, step: int | None = None) -> float:
    """Return `gamma` as a float in [0, 1), or raise."""
    number = _number(gamma)
    if not 0.0 <= number < 1.0:
        what, limit = "gamma" if step is None else f"gamma of step {step}", ""
        if number == 1:
            limit = "; the limit of gamma = 1 is the average reward: Average(), solve_average(mdp)"
        raise _wrong(what, "a number in [0, 1)", gamma, _is_number, limit)
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


def checked_floats(what: str, values: Any, *dimensions: int) -> Floats:
    """Return `values` as a new float64 array with one of the numbers of `dimensions`, or raise."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise WrongTypeError(f"{what} must be an array of numbers: {error}") from None
    if dimensions and array.ndim not in dimensions:
        wanted = " or ".join(map(str, dimensions)) + " dimension" + "s" * (dimensions != (1,))
        raise ValueError(f"{what} must have {wanted}, not shape {array.shape}")
    return array


def check_finite(what: str, array: Floats) -> None:
    """Raise a ValueError that names the first entry of `array` that is not a finite number."""
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{what}{list(place)} is {array[place]}; it must be a finite number")


def frozen(array: NDArray[Any]) -> Any:
    """Return an array, in C order, that nobody can change: a copy, unless it is one."""
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


def check_room(
    what: str,
    *shape: int,
    each: int = COPIES * 8,
    instead: str = "use sparse transitions, or a smaller model",
) -> None:
    """Raise a ValueError if numbers of this shape have no room here: float64 ones, and copies.

    Or those that take `each` so many bytes; `instead` says what would have room.
    """
    needed, held = each * math.prod(shape), _memory()
    if needed > held:
        sizes = " x ".join(f"{n:,}" for n in shape)
        raise ValueError(
            f"{what} would be {sizes} numbers: that takes {needed / 2**30:,.1f} GiB, and there are "
            f"{held / 2**30:,.1f} GiB; {instead}"
        )


def check_unpacked(path: Any, needed: float) -> None:
    """Raise a ValueError if the bytes that a file unpacks to have no room here; say if it is long.

    A file of a few megabytes may hold gigabytes of one number.
    """
    held, size = _memory(), f"unpacks to {needed / 2**30:,.1f} GiB"
    if needed > held:
        raise ValueError(f"it {size}, and there are {held / 2**30:,.1f} GiB here")
    if needed > LARGE_BYTES:
        warnings.warn(f"{path} {size}, which takes a while", stacklevel=4)


@cache
def _memory() -> float:
    """Return the bytes of memory that there are, infinity where nobody says."""
    try:
        machine = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = math.inf
    try:
        return min(machine, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):
        return machine


def _is_whole(value: Any) -> bool:
    return isinstance(value, WHOLE) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def _wrong(
    what: str, wanted: str, value: Any, right_type: Callable[[Any], bool], hint: str = ""
) -> ValueError:
    kind = ValueError if right_type(value) else WrongTypeError
    return kind(f"{what} must be {wanted}, not {shown(value)}{hint}")


def _number(value: Any) -> float:
    """Return `value` as a float, NaN for what is not a number or too large for one."""
    if not _is_number(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
