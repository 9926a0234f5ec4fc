"""The arrays that functions take and return, by what they hold, and how results print."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def brief(result: Any) -> str:
    """Return a dataclass of numbers and arrays in a few words, whatever the size of its arrays."""
    with np.printoptions(precision=6, threshold=10, edgeitems=3, linewidth=10_000):
        parts = [f"{item.name}={_in_brief(getattr(result, item.name))}" for item in fields(result)]
    return f"{type(result).__name__}({', '.join(parts)})"


def _in_brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        more = f", ... {len(value) - 3} more" if len(value) > 3 else ""
        return f"({', '.join(map(str, value[:3]))}{more})"
    return str(value) if isinstance(value, np.ndarray) else repr(value)
