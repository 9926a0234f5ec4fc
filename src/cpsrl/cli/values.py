"""Numbers on the command line, as people write them, and the errors for other words."""

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
            return _spec(read, metavar, 1, several=False)
        inside = get_args(info.type) if info.type_origin is tuple else ()
        if set(inside) - {...} == {kind}:
            return _spec(read, metavar, None if ... in inside else len(inside), several=True)
    return None


def _spec(
    read: Callable[[str], Any], metavar: str, n: int | None, several: bool
) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=n or "*",
        metavar=" ".join([metavar] * n) if n else f"[{metavar} ...]",
        instance_from_str=lambda words: tuple(map(read, words)) if several else read(words[0]),
        is_instance=lambda value: isinstance(value, tuple if several else int | float | None),
        str_from_instance=lambda value: list(map(str, value if several else [value])),
    )
