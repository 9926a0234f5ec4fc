"""Numbers on the command line: as people write them, and what is said of what is none."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, get_args

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo


def whole(text: str) -> int:
    """Return the whole number that `text` stands for: 100000, 100_000 or 1e5."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number.adjusted() > 18 or number != int(number):
        raise ValueError(f"{text!r} is not a whole number such as 100000, 100_000 or 1e5")
    return int(number)


def real(text: str) -> float:
    """Return the number that `text` stands for."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number such as 0.99") from None


NUMBERS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (whole, "INT"),
    float: (real, "FLOAT"),
}
registry = ConstructorRegistry()


@registry.primitive_rule
def _number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Read a number, one that may be left out, or several: tyro's own errors speak of types."""
    for kind, (read, metavar) in NUMBERS.items():
        if info.type in (kind, kind | None):
            return _one(read, metavar)
        several = get_args(info.type) if info.type_origin is tuple else ()
        if set(several) - {...} == {kind}:
            return _several(read, metavar, None if ... in several else len(several))
    return None


def _one(read: Callable[[str], Any], metavar: str) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read(words[0]),
        is_instance=lambda value: value is None or isinstance(value, int | float),
        str_from_instance=lambda value: [str(value)],
    )


def _several(
    read: Callable[[str], Any], metavar: str, n: int | None
) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=n or "*",
        metavar=" ".join([metavar] * n) if n else f"[{metavar} ...]",
        instance_from_str=lambda words: tuple(map(read, words)),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: list(map(str, value)),
    )
