"""The API reference: docstrings as they are written in this package, and one page for every name.

Docstrings are plain text with `code` in single backticks and displays indented by four: `as_rst`
says the same in reStructuredText. Signatures are shown as the source has them. A name of `cpsrl` is
described once, as `cpsrl.NAME`, and is an alias under its home, such as `cpsrl.agents.NAME`.
"""

import ast
import inspect
import pkgutil
import re
import textwrap
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import cpsrl
from cpsrl.support.registry import Registry

MODULES = (
    "cpsrl",
    *(f"cpsrl.{part}" for part in cpsrl.PARTS if part not in ("theory", "paper", "reports")),
    "cpsrl.agents.registration",
    "cpsrl.gym",
    "cpsrl.theory",
    "cpsrl.paper",
    "cpsrl.reports",
)
EXPLAINED = (
    "cpsrl.mdp.files",
    "cpsrl.mdp.problem",
    "cpsrl.environments.pure",
    "cpsrl.environments.toy_text",
    "cpsrl.planning.certificates",
    "cpsrl.planning.elimination",
    "cpsrl.planning.structure",
    "cpsrl.beliefs.belief",
    "cpsrl.beliefs.dirichlet",
    "cpsrl.agents.psrl",
    "cpsrl.agents.sb3",
    "cpsrl.agents.ucrl2b",
    "cpsrl.networks.belief",
    "cpsrl.live.logs",
    "cpsrl.live.schema",
    "cpsrl.experiments.store",
    "cpsrl.theory.bounds",
    "cpsrl.paper.counterexamples",
    "cpsrl.paper.from_prior",
    "cpsrl._private.variates",
    "cpsrl.support.plugins",
)
"""Modules whose names are not public and whose opening is worth reading: the mathematics, a file's
format, a protocol."""
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):$")
NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")


def public_names(module):
    """Return the names that a module is for: its `__all__`, or what it defines."""
    found = import_module(module)
    if hasattr(found, "__all__"):
        return list(found.__all__)
    return [
        name
        for name, value in vars(found).items()
        if getattr(value, "__module__", "") == module and not name.startswith(("_", "check"))
    ]


def summaries():
    """Return, for every module, the names described elsewhere and those described on its page."""
    found: dict[str, tuple[list[str], list[str]]] = {module: ([], []) for module in EXPLAINED}
    for module in MODULES:
        names = public_names(module)
        top = [name for name in names if module != "cpsrl" and name in cpsrl.__all__]
        found[module] = top, [name for name in names if name not in top]
    return found


def as_rst(lines):
    """Give the lines of a docstring in reStructuredText."""
    section = display = False
    for place, line in enumerate(lines):
        before = lines[place - 1] if place else ""
        if line and not line[0].isspace():
            if display and before:
                yield ""
            section, display = bool(SECTION.match(line)), False
        elif line.startswith("    ") and not section and not display:
            display = True
            yield from ("", "::", "")
        yield line if display else inline(line)


def inline(line):
    """Give a line of text, its `code` marked and everything else taken as it stands."""
    pieces = line.split("`")
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            pieces[place] = re.sub(r"([*|\\]|_(?!\w))", r"\\\1", piece)
        elif NAME.fullmatch(piece):
            pieces[place] = f":py:obj:`{piece.removesuffix('()')}`"
        else:
            pieces[place] = f"``{piece}``"
    return "".join(pieces)


def process_docstring(app, what, name, obj, options, lines):
    """Turn a docstring into reStructuredText before its sections are read."""
    if isinstance(obj, Registry):
        lines[:] = [f"The registry of every {obj.kind}, by name (see `cpsrl.register`).", ""]
    elif what == "data":
        lines[:] = [*text_after_assignment(name).splitlines(), ""]
    lines[:] = as_rst(lines)


def text_after_assignment(name):
    """Return the string below the assignment of a constant, wherever its package makes it."""
    module, _, constant = name.rpartition(".")
    home = Path(import_module(module).__file__)
    for path in [home, *sorted(home.parent.rglob("*.py"))]:
        body = ast.parse(path.read_text("utf-8")).body
        for statement, after in pairwise(body):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            named = any(getattr(target, "id", "") == constant for target in targets)
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return inspect.cleandoc(after.value.value)
    return ""


def process_signature(app, what, name, obj, options, signature, returned):
    """Show a signature with the names of types and defaults that the source has."""
    if what in ("class", "exception"):
        fields = getattr(obj, "__dataclass_fields__", None)
        if fields is None:
            return (signature, returned) if signature is None else _of_function(obj.__init__)
        sources = [f for kind in reversed(obj.__mro__) for f in _annotated(kind)]
        shown = dict(sources)
        return f"({', '.join(shown[name] for name in fields if fields[name].init)})", None
    if what in ("function", "method"):
        return _of_function(obj)
    return signature, returned


def _of_function(function):
    node = _source(inspect.unwrap(getattr(function, "__func__", function)))
    if not isinstance(node, ast.FunctionDef):
        return None
    given = node.args
    if given.args and given.args[0].arg in ("self", "cls"):
        del given.args[0]
    returned = ast.unparse(node.returns).strip("'") if node.returns else None
    return f"({ast.unparse(given)})", returned


def _annotated(kind):
    """Give the fields of a dataclass with how its source writes them."""
    node = _source(kind) if kind.__module__.startswith("cpsrl") else None
    for line in node.body if node else ():
        if isinstance(line, ast.AnnAssign):
            value = ast.unparse(line.value) if line.value else ""
            value = re.sub(r"field\(default_factory=(\w+)\)", r"\1()", value)
            text = f"{ast.unparse(line.target)}: {ast.unparse(line.annotation)}"
            yield line.target.id, f"{text} = {value}" if value else text


def _source(thing):
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    except (TypeError, OSError):
        return None


def add_aliases(app, env):
    """Let a name be found under its home as well."""
    domain = env.domains.python_domain
    homes = {name: home for home, names in cpsrl._HOMES.items() for name in names.split()}
    for name, home in homes.items():
        entry = domain.objects.get(f"cpsrl.{name}")
        if entry is not None:
            domain.objects[f"cpsrl.{home}.{name}"] = entry._replace(aliased=True)


def find_by_last_name(app, env, node, place):
    """Find what is described under a shorter path than the one it is called by."""
    if node.get("refdomain") != "py":
        return None
    last = node["reftarget"].rpartition(".")[2]
    known = env.domains.python_domain.objects
    fits = [name for module in MODULES if (name := f"{module}.{last}") in known]
    ours = node["reftarget"].startswith("cpsrl.")
    if ours and not fits and exists(node["reftarget"]):
        return place
    if not fits or (node["reftype"] == "obj" and not ours):
        return None
    return env.domains.python_domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", fits[0], node, place
    )


def exists(path):
    """Return whether a dotted path is a module of the package, or in one."""
    try:
        return bool(pkgutil.resolve_name(path))
    except (ImportError, AttributeError):
        return False


def setup(app):
    """Connect."""
    app.connect("autodoc-process-docstring", process_docstring, priority=100)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("env-updated", add_aliases)
    app.connect("missing-reference", find_by_last_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
