"""Kinds of values on the command line."""

from decimal import Decimal, InvalidOperation
from typing import Annotated

from tyro.constructors import PrimitiveConstructorSpec


def whole(text: str) -> int:
    """Return the whole number that `text` stands for: 100000, 100_000 or 1e5."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number.adjusted() > 18 or number != int(number):
        raise ValueError(f"{text!r} is not a whole number such as 100000, 100_000 or 1e5")
    return int(number)


Whole = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: whole(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""An int of which 1e5 is one."""
