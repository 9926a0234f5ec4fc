"""Agents and problems as trees of plain values and arrays, and back: what they are made of, stored.

An agent is a frozen dataclass of registered parts, so a part is stored as its kind, its registered
name and its settings, and made again by calling what is registered. Nothing else is ever called:
reading a tree runs no code that this process has not registered.
"""

import io
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from cpsrl.agents.agent import AGENTS
from cpsrl.beliefs import BELIEFS
from cpsrl.beliefs.rewards import REWARDS
from cpsrl.checks import is_sparse
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.files import read_npz, write_npz
from cpsrl.objectives import OBJECTIVES
from cpsrl.registry import Registry
from cpsrl.resampling import RULES
from cpsrl.sizes import FeatureSizes, Sizes

PARTS: dict[str, Registry[Any]] = {
    registry.kind: registry for registry in (AGENTS, RULES, OBJECTIVES, BELIEFS, REWARDS)
}
"""The registries that agents' parts come from, by kind; folders above add theirs."""
SIZES = {"sizes": Sizes, "feature sizes": FeatureSizes}


def to_tree(value: Any, place: str = "agent") -> Any:
    """Return an agent, a problem or a part of one as a tree; raise a ValueError if it has none."""
    if value is None or isinstance(value, str | bool | int | float | np.ndarray):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        kind = "$tuple" if isinstance(value, tuple) else "$list"
        return {kind: [to_tree(v, f"{place}[{i}]") for i, v in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"$table": {str(k): to_tree(v, f"{place}.{k}") for k, v in value.items()}}
    if is_sparse(value):
        matrix = value.tocsr()
        parts = {name: np.asarray(getattr(matrix, name)) for name in ("data", "indices", "indptr")}
        return {"$sparse": parts | {"shape": list(matrix.shape)}}
    if isinstance(value, TabularMDP):
        file = io.BytesIO()
        write_npz(value, file)
        return {"$mdp": np.frombuffer(file.getvalue(), np.uint8)}
    if is_dataclass(value) and not isinstance(value, type):
        for kind, name, known in _classes():
            if known is type(value):
                settings = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
                inner = {k: to_tree(v, f"{place}.{k}") for k, v in settings.items()}
                return {"$part": [kind, name], **inner}
    raise ValueError(
        f"{place} is {value!r}, which is neither a plain value nor a registered part, and so can't "
        "be stored"
    )


def from_tree(tree: Any) -> Any:
    """Return what `to_tree` stored; raise a ValueError if a part of it is not registered here."""
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
    wanted = tuple(tree["$part"])
    for kind, name, known in _classes():
        if (kind, name) == wanted:
            return known(**settings)
    raise ValueError(
        f"the {wanted[0]} {wanted[1]!r} is not registered here: import the module that registers it"
    )


def _classes() -> Any:
    for kind, registry in PARTS.items():
        for name in registry.names():
            if isinstance(registry[name], type):
                yield kind, name, registry[name]
    for name, known in SIZES.items():
        yield "problem", name, known
