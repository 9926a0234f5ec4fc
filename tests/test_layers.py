"""Lower floors never import upper ones, and heavy libraries wait until they are used."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cpsrl
from cpsrl._private.compile import WITHOUT_KERNELS

FLOORS = [
    {"_private", "documents", "seeding", "statistics", "support"},
    {"mdp"},
    {"environments", "planning"},
    {"beliefs", "objectives", "resampling"},
    {"agents"},
    {"gym", "simulation"},
    {"networks"},
    {"experiments", "live", "theory"},
    {"paper"},
    {"reports", "watching"},
    {"cli", "__init__", "__main__"},
]
FLOOR = {part: number for number, parts in enumerate(FLOORS) for part in parts}
SOURCES = Path(cpsrl.__file__).parent
MODULES = sorted(path.relative_to(SOURCES) for path in SOURCES.rglob("*.py"))


def part_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def imported_by_name(node) -> list[str]:
    """The module that a call of `import_module` with a plain text names."""
    if not isinstance(node, ast.Call):
        return []
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    given = [one.value for one in node.args if isinstance(one, ast.Constant)]
    return given if name == "import_module" else []


def imported_parts(module: Path):
    """The parts of the package that a module imports anywhere in it, with the line."""
    for node in ast.walk(ast.parse((SOURCES / module).read_text())):
        names = imported_by_name(node)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "cpsrl":
                part = rest.partition(".")[0]
                yield node.lineno, part if part in FLOOR else "__init__"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_imports_only_from_its_floor_and_below(module):
    assert part_of(module) in FLOOR, f"{module} has no floor: give it one in FLOORS"
    for line, part in imported_parts(module):
        assert FLOOR[part] <= FLOOR[part_of(module)], f"{module}:{line} imports {part}"


def dotted(module: Path) -> str:
    parts = ("cpsrl", *module.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {dotted(module): module for module in MODULES}


def imported_modules(module: Path):
    """The modules of the package that a module names in an import anywhere in it."""
    for node in ast.walk(ast.parse((SOURCES / module).read_text())):
        found = imported_by_name(node)
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name if name in NAMES else node.module for name in inner]
        yield from (name for name in found if name in NAMES and name != dotted(module))


def cycles(arrows):
    """The groups of modules of which each leads to all others, of two or more."""

    def reached(start):
        found, waiting = set(), [start]
        while waiting:
            new = arrows[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    ahead = {name: reached(name) for name in arrows}
    groups = {
        frozenset(other for other in there if name in ahead[other]) for name, there in ahead.items()
    }
    return sorted(sorted(group) for group in groups if group)


WALKS = re.findall(
    r"((?:^\d+\. .*\n)+)", (SOURCES.parents[1] / "CONTRIBUTING.md").read_text(), re.M
)


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.splitlines()[0])
def test_a_walk_leads_down_and_never_back(walk):
    """Every module but the first is imported by one above it, and none imports one above it."""
    names = [f"cpsrl.{name}" for name in re.findall(r"^\d+\. `([\w.]+)`:", walk, re.M)]
    assert len(names) == len(set(names)) == walk.count("\n") > 2
    # what a package hands on is where its `__init__` has it from
    arrows = {name: set(imported_modules(module)) for name, module in NAMES.items()}
    for name in NAMES:
        arrows[name] |= {
            other
            for package in arrows[name]
            if package.count(".") == 1
            for other in arrows[package]
        }
    for place, name in enumerate(names):
        assert not arrows[name] & set(names[:place]), f"{name} leads back"
        assert not place or any(name in arrows[above] for above in names[:place]), name


PUBLIC = {"llvmlite.binding"}


@pytest.mark.parametrize("module", [m for m in MODULES if part_of(m) != "_private"], ids=str)
def test_what_numba_keeps_to_itself_is_behind_one_door(module):
    for node in ast.walk(ast.parse((SOURCES / module).read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        wrong = [
            name for name in names if name.partition(".")[0] in ("numba", "llvmlite", "ctypes")
        ]
        assert [name for name in wrong if name not in PUBLIC] == [], f"{module}:{node.lineno}"


def test_no_modules_import_each_other_in_a_circle():
    """Imports within functions, and those for the type checker alone, count as well."""
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["b", "c"]]
    found = cycles({name: set(imported_modules(module)) for name, module in NAMES.items()})
    assert found == []


HEAVY = {"jax", "ray", "matplotlib", "polars", "pandas", "pyarrow", "scipy.sparse", "scipy.stats"}
HEAVY |= {"gymnasium", "PIL"}
HELP = "import cpsrl.cli.main as cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("from cpsrl import *; environment('riverswim')", HEAVY),
        ("import cpsrl", {"numpy", "numba"}),
        (HELP, {"numpy", "numba"}),
    ],
    ids=["use", "import", "help"],
)
def test_heavy_libraries_are_imported_where_they_are_used_alone(program, unwanted):
    loaded = run(f"{program}\nimport sys; print(*sys.modules)").splitlines()[-1]
    assert not unwanted & set(loaded.split())


def test_every_public_name_is_found_where_the_type_checker_finds_it():
    tree = ast.parse((SOURCES / "__init__.py").read_text())
    (typed,) = (node.body for node in tree.body if isinstance(node, ast.If) and len(node.body) > 5)
    imports = [node for node in typed if isinstance(node, ast.ImportFrom)]
    names = {alias.name: node.module for node in imports for alias in node.names}
    assert sorted(names) == sorted(cpsrl.__all__)
    for name, module in names.items():
        assert getattr(cpsrl, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        cpsrl.simulat  # noqa: B018
    assert run("import cpsrl; print(cpsrl.planning.span([1, 3]))") == "2.0\n"


def test_a_registry_knows_the_names_that_upper_floors_enter():
    names = run("from cpsrl.agents import AGENTS; print(*AGENTS.names())").split()
    assert {"tsde", "dqn"} <= set(names)


def run(program):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_floors_left_out_of_the_kernels_hash_hold_no_kernel():
    for folder in WITHOUT_KERNELS:
        for path in (SOURCES / folder).rglob("*.py"):
            compiled = re.search(r"@(jit|leaf|inlined)\b|\bspecialised\(|njit", path.read_text())
            assert compiled is None, path
