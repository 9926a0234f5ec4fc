"""Live agents in one file each: written whole or not at all, without pickle, checked on reading.

    cpsrl agent 1                       a line of text: what this is, and the version of the form
    0f3a...                             the SHA-256 of all that follows
    {"agent": ..., "problem": ...}      a line of JSON: the recipe, the problem, the state
    ...                                 the arrays of that tree, as NumPy's .npz

A recipe with a part that no file can hold, such as a schedule that is a function, is left out; then
`resume` must be given the agent.
"""

import os
from pathlib import Path
from typing import Any

from cpsrl.agents.codec import from_tree, to_tree
from cpsrl.seeding import Streams
from cpsrl.support.atomic import whole_file
from cpsrl.support.serialise import DamagedError, checked_file, decoding, sealed, unsealed

KIND = b"cpsrl agent "
FORMAT = 1


def save(agent: Any, path: str | os.PathLike[str]) -> None:
    """Write a live agent to `path`, whole or not at all."""
    tree = {
        "agent": stored_recipe(agent.spec),
        "problem": to_tree(agent.problem, "problem"),
        "state": agent.state(),
    }
    text, arrays, checksum = sealed(tree)
    with whole_file(Path(path)) as file:
        file.write(b"%s%d\n%s\n%s\n" % (KIND, FORMAT, checksum.encode(), text.encode()))
        file.write(arrays)


def resume(path: str | os.PathLike[str], agent: Any = None) -> Any:
    """Return the live agent that `agent.save(path)` wrote, which goes on exactly where it was.

    Args:
        path: the file.
        agent: what it was started from, where the file cannot hold that.
    """
    path = Path(path)
    head, _, rest = checked_file(path).read_bytes().partition(b"\n")
    if not head.startswith(KIND):
        raise DamagedError(path, "it is not a saved agent")
    if head != KIND + b"%d" % FORMAT:
        raise ValueError(
            f"{path} is a saved agent of format {head[len(KIND) :].decode(errors='replace')!r}, "
            f"and this version of cpsrl reads format {FORMAT}"
        )
    checksum, _, rest = rest.partition(b"\n")
    text, _, arrays = rest.partition(b"\n")
    try:
        tree = unsealed(text.decode(), arrays, checksum.decode())
    except ValueError as error:
        raise DamagedError(path, str(error)) from None
    with decoding(path):
        spec = agent or recipe_in(tree["agent"])
        live = spec.start(from_tree(tree["problem"]), Streams())
        live.restore(tree["state"])
    return live


def stored_recipe(spec: Any) -> Any:
    """Return an agent's recipe as a tree, or in words why it has none."""
    try:
        return to_tree(spec)
    except ValueError as error:
        return {"$not stored": str(error)}


def recipe_in(tree: Any) -> Any:
    """Return the agent that `stored_recipe` stored, or raise a ValueError if it could not be."""
    if "$not stored" in tree:
        raise ValueError(f"give the agent as well: {tree['$not stored']}")
    if tree["$part"][0] != "agent":
        raise ValueError(f"the stored recipe is not that of an agent but of {tree['$part']!r}")
    return from_tree(tree)
