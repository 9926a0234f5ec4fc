"""Lower floors never import upper ones, and heavy libraries wait until they are used."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cpsrl
from cpsrl._compile import WITHOUT_KERNELS

FLOORS = [
    {
        "_compile",
        "atomic",
        "checks",
        "registry",
        "seeding",
        "sizes",
        "statistics",
        "types",
        "variates",
    },
    {"mdp"},
    {"environments", "planning"},
    {"beliefs", "objectives", "resampling"},
    {"agents", "registration"},
    {"simulation"},
    {"networks"},
    {"experiments", "theory"},
    {"reports"},
    {"cli", "__init__"},
]
FLOOR = {part: number for number, parts in enumerate(FLOORS) for part in parts}
SOURCES = Path(cpsrl.__file__).parent
MODULES = sorted(path.relative_to(SOURCES) for path in SOURCES.rglob("*.py"))


def part_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def imported_parts(module: Path):
    """The parts of the package that a module imports anywhere in it, with the line."""
    for node in ast.walk(ast.parse((SOURCES / module).read_text())):
        names = []
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


def test_importing_the_package_imports_no_heavy_library():
    program = "import cpsrl, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"jax", "ray", "matplotlib", "polars", "pandas"} & set(done.stdout.split())


def test_the_floors_left_out_of_the_kernels_hash_hold_no_kernel():
    for folder in WITHOUT_KERNELS:
        for path in (SOURCES / folder).rglob("*.py"):
            compiled = re.search(r"@(jit|leaf|inlined)\b|\bspecialised\(|njit", path.read_text())
            assert compiled is None, path
