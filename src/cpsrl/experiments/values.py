"""Values as a TOML file holds them: made plain, written as TOML, in words, in file names."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(place: str, value: Any) -> Any:
    """Return `value` as TOML would give it back; raise, naming `place`, if TOML cannot hold it."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{place or 'options'}: a key must be text, not {key!r}")
        inside = f"{place}." if place else ""
        return {plain(place, k): plain(f"{inside}{k}", inner) for k, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(place, inner) for inner in value]
    if type(value) not in (str, bool, int, float):
        raise ValueError(
            f"{place} must be text, a number, true or false, a list or a table: a specification is "
            f"a file, and {type(value).__name__} objects do not fit into one"
        )
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{place} must be a number, not nan")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{place} must be text that UTF-8 can hold, not {value!r}") from None
    return value


def toml(value: Any) -> str:
    """Return a plain value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(toml_lines(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return repr(value)


def toml_lines(table: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return a table as lines of TOML, each key after `prefix`."""
    bare = re.compile(r"[A-Za-z0-9_-]+")
    keys = (word if bare.fullmatch(word) else toml(word) for word in table)
    return [f"{prefix}{k} = {toml(v)}" for k, v in zip(keys, table.values(), strict=True)]


def in_words(value: Any) -> str:
    """Return a plain value as a label has it."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k} = {in_words(v)}" for k, v in value.items() if k != "name")
        return " ".join(filter(None, [str(value.get("name", "")), inner]))
    if isinstance(value, list | tuple):
        return ", ".join(in_words(v) for v in value)
    return str(value)


def slug(text: str) -> str:
    """Return `text` as a part of a file's name, empty if nothing of it can stand in one."""
    return re.sub(r"[^A-Za-z0-9.=]+", "-", text).strip("-.")[:60].rstrip("-.").lower()
