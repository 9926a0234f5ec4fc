"""Settings as plain trees, and back: agents, their parts and the problems they are for.

An agent is a frozen dataclass of registered parts. There is one way to encode it, and what is
stored, compared or shown is that tree:

    to_tree       everything that makes the object again, for agents' files and databases
    settings_of   its canonical form: arrays as checksums, no labels; equal for equal agents
    to_table      what a specification holds: a name, and the settings that differ from the default
    as_call       the same as the Python call that makes it

`from_tree` and `make` decode. Names are only ever looked up in registries, so reading a tree or a
specification runs no code but the package's own and what its user or an installed package has
registered.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.mdp.files import read_npz, write_npz
from cpsrl.mdp.problem import FeatureSizes, Sizes
from cpsrl.support.checks import is_sparse
from cpsrl.support.registry import REGISTRIES, Registry, unknown
from cpsrl.support.serialise import sha256

PARTS: dict[str, tuple[str, ...]] = {
    "rule": ("rule",),
    "objective": ("objective",),
    "belief": ("belief", "network belief"),
    "rewards": ("reward prior",),
    "torso": ("torso",),
}
"""Options that are themselves made by name, from a table or from the name alone, with the kinds of
the registries that the name may be in."""
NAMES = {"family": "family", "outcomes": "outcomes"}
"""Options that may be a name, which the belief that takes them looks up, with its kind."""
KINDS = ("agent", *(kind for kinds in PARTS.values() for kind in kinds))
"""The kinds of what is stored as a name and settings."""
USUAL = {"belief": "dirichlet"}
"""What is made where a table gives no name."""
SIZES = {"sizes": Sizes, "feature sizes": FeatureSizes}


def registries(*kinds: str) -> list[Registry[Any]]:
    """Return the registries of some kinds."""
    REGISTRIES["agent"][0].names()  # which imports the folders above that have registries
    return [registry for kind in kinds for registry in REGISTRIES.get(kind, ())]


def to_tree(value: Any, place: str = "agent", brief: bool = False) -> Any:
    """Return an agent, a problem or a part of one as a tree; raise a ValueError if it has none.

    Args:
        value: what to encode.
        place: what errors call it.
        brief: the canonical form (see `settings_of`), which everything has.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if brief and (is_sparse(value) or isinstance(value, np.ndarray) or _is_nested(value)):
        return _checksum(value)
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, tuple | list):
        items = [to_tree(v, f"{place}[{i}]", brief) for i, v in enumerate(value)]
        return items if brief else {"$tuple" if isinstance(value, tuple) else "$list": items}
    if isinstance(value, Mapping):
        table = {str(key): to_tree(v, f"{place}.{key}", brief) for key, v in value.items()}
        return table if brief else {"$table": table}
    if is_sparse(value):
        matrix = value.tocsr()
        parts = {name: np.asarray(getattr(matrix, name)) for name in ("data", "indices", "indptr")}
        return {"$sparse": parts | {"shape": list(matrix.shape)}}
    if isinstance(value, TabularMDP) and not brief:
        file = io.BytesIO()
        write_npz(value, file)
        return {"$mdp": np.frombuffer(file.getvalue(), np.uint8)}
    head: dict[str, Any]
    if brief:
        head, settings = {"kind": type(value).__name__}, _all_settings(value)
    elif named := _named(value):
        head = {"$part": named}
        settings = {item.name: getattr(value, item.name) for item in fields(value) if item.init}
    else:
        raise ValueError(
            f"{place} is {value!r}, which is neither a plain value nor a registered part, and so "
            "can't be stored"
        )
    if settings is None:
        return "function"
    return head | {key: to_tree(v, f"{place}.{key}", brief) for key, v in settings.items()}


def from_tree(tree: Any) -> Any:
    """Return what `to_tree` encoded; raise a ValueError if a part of it is not registered here."""
    if not isinstance(tree, dict):
        return tree
    if "$tuple" in tree:
        return tuple(map(from_tree, tree["$tuple"]))
    if "$list" in tree:
        return list(map(from_tree, tree["$list"]))
    if "$table" in tree:
        return {key: from_tree(inner) for key, inner in tree["$table"].items()}
    if "$sparse" in tree:
        import scipy.sparse

        parts = tree["$sparse"]
        arrays = (parts["data"], parts["indices"], parts["indptr"])
        return scipy.sparse.csr_array(arrays, shape=tuple(parts["shape"]))
    if "$mdp" in tree:
        return TabularMDP(**read_npz(io.BytesIO(tree["$mdp"].tobytes())))
    settings = {key: from_tree(inner) for key, inner in tree.items() if key != "$part"}
    kind, name = tree["$part"]
    if kind == "problem" and name in SIZES:
        return SIZES[name](**settings)
    for registry in registries(kind) if kind in KINDS else ():
        if name in registry and isinstance(registry[name], type):
            return registry.make(name, **settings)
    raise ValueError(
        f"the {kind} {name!r} is not registered here: import the module that registers it"
    )


def settings_of(value: Any) -> Any:
    """Return an agent's settings in their canonical form: a tree of plain values, without labels.

    Arrays are represented by a checksum; a function of t is only said to be one.
    """
    return to_tree(value, brief=True)


def given(thing: Any) -> dict[str, Any]:
    """Return the settings of a dataclass that differ from the default."""
    found = {}
    for item in (item for item in fields(thing) if item.init):
        value, usual = getattr(thing, item.name), item.default
        if item.default_factory is not MISSING:
            usual = item.default_factory()
        known = usual is not MISSING and not callable(value)
        if value is not usual and not (known and settings_of(value) == settings_of(usual)):
            found[item.name] = value
    return found


def as_call(thing: Any) -> str:
    """Return a dataclass as the Python call that makes it, without what is as by default."""
    settings = ", ".join(f"{name}={value!r}" for name, value in given(thing).items())
    return f"{type(thing).__name__}({settings})"


def to_table(thing: Any, place: str = "agent") -> dict[str, Any]:
    """Return the table of a specification that makes an object of a registered class again."""
    if (named := _named(thing)) is None:
        raise ValueError(
            f"{place}: a file can name {type(thing).__name__} once it is registered, with "
            f'@cpsrl.register("{place.rpartition(".")[2]}", NAME) above the class'
        )
    table: dict[str, Any] = {"name": named[1]}
    for option, value in given(thing).items():
        where = f"{place}.{option}"
        if option == "label":
            continue
        if value is None:
            raise ValueError(f"{where} is None, which a file cannot hold")
        part = option in PARTS and not isinstance(value, str)
        table[option] = to_table(value, where) if part else value
    return table


def make(kinds: tuple[str, ...], name: str, options: Mapping[str, Any], place: str = "") -> Any:
    """Return what is registered as `name`, its parts made by their names.

    Args:
        kinds: of the registries that the name may be in.
        name: the name.
        options: what it is made with; a part is a name, or a table with a name and options.
        place: what errors call it; empty for an agent.
    """
    known = registries(*kinds)
    registry = next((registry for registry in known if name in registry), None)
    if registry is None:
        names = [word for one in known for word in one.names()]
        if isinstance(name, str):
            raise unknown(place or kinds[0], name, names)
        raise ValueError(f"{place} needs a name, one of {', '.join(names)}")
    made, inside = dict(options), f"{place}." if place else ""
    for part in (part for part in PARTS if part in made):
        where, table = f"{inside}{part}", _table(made[part])
        if table is None:
            raise ValueError(f"{where} must be a name or a table, not {made[part]!r}")
        own = table.pop("name", USUAL.get(part))
        made[part] = make(PARTS[part], own, table, where)
    return registry.make(name, **made)


def packages(kinds: tuple[str, ...], name: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the installed packages that what `make` makes comes from; empty for a user's own."""
    yield from (registry.package(name) for registry in registries(*kinds) if name in registry)
    for option, kind in NAMES.items():
        if isinstance(options.get(option), str):
            yield from (registry.package(options[option]) for registry in registries(kind))
    for part in (part for part in PARTS if part in options):
        table = _table(options[part]) or {}
        yield from packages(PARTS[part], str(table.pop("name", USUAL.get(part))), table)


def _table(part: Any) -> dict[str, Any] | None:
    """Return the table of a part that is given as a name or a table; None if it is neither."""
    if isinstance(part, str):
        return {"name": part}
    return dict(part) if isinstance(part, Mapping) else None


def _named(thing: Any) -> list[str] | None:
    """Return the kind and the name of the registered class of an object, or None."""
    for name, known in SIZES.items():
        if type(thing) is known:
            return ["problem", name]
    for kind in KINDS if is_dataclass(thing) and not isinstance(thing, type) else ():
        for registry in registries(kind):
            if found := registry.name_of(type(thing)):
                return [kind, found]
    return None


def _all_settings(thing: Any) -> dict[str, Any] | None:
    """Return what an object consists of, without its label; None if it is a function."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {f.name: getattr(thing, f.name) for f in fields(thing) if f.name != "label"}
    return None if callable(thing) else vars(thing)


def _checksum(array: Any) -> str:
    """Return a word for an array, a sparse one or one that is given as a list of lists."""
    if is_sparse(array):
        matrix = array.tocsr()
        array = np.concatenate([matrix.shape, matrix.indptr, matrix.indices, matrix.data])
    array = np.ascontiguousarray(array)
    content = repr((array.dtype.str, array.shape)).encode() + array.tobytes()
    return f"array {sha256(content)[:16]}"


def _is_nested(value: Any) -> bool:
    """Return whether `value` is an array of more than one dimension as a list of lists."""
    try:
        return isinstance(value, list | tuple) and np.ndim(value) > 1
    except ValueError:  # its parts have different shapes
        return False
