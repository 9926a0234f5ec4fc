"""An edit to a function in another module must not leave a caller's old machine code in use."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cpsrl._compile

CALLEE = """
from kernels._compile import jit

@jit
def price(x):
    return {price} * x
"""
CALLER = """
from kernels._compile import jit
from kernels.callee import price

@jit
def bill(x):
    return price(x) + 1.0
"""
PROGRAM = """
from kernels.caller import bill
print(bill(10.0), sum(bill.stats.cache_hits.values()), sum(bill.stats.cache_misses.values()))
"""


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "__init__.py").touch()
    shutil.copy(Path(cpsrl._compile.__file__), folder / "_compile.py")
    (folder / "callee.py").write_text(CALLEE.format(price=2.0))
    (folder / "caller.py").write_text(CALLER)
    return folder


def run(package):
    """The value, the cache hits and the cache misses of the caller in a new process."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "CPSRL_CACHE_DIR": str(package.parent / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    value, hits, misses = done.stdout.split()
    return float(value), int(hits), int(misses)


def test_an_edit_to_a_callee_in_another_module_is_noticed(package):
    assert run(package) == (21.0, 0, 1)
    assert run(package) == (21.0, 1, 0)
    (package / "callee.py").write_text(CALLEE.format(price=3.0))
    assert run(package) == (31.0, 0, 1)


def test_the_hash_sees_names_and_contents(package):
    before = cpsrl._compile.sources_hash(package)
    (package / "callee.py").rename(package / "other.py")
    renamed = cpsrl._compile.sources_hash(package)
    (package / "other.py").write_text(CALLEE.format(price=3.0))
    assert len({before, renamed, cpsrl._compile.sources_hash(package)}) == 3


def test_a_cache_that_cannot_be_written_is_said_and_done_without(package):
    (package.parent / "cache").touch()  # a file, where a directory is wanted
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "CPSRL_CACHE_DIR": str(package.parent / "cache"),
        "TMPDIR": str(package.parent),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == "21.0"
    assert "cannot write to" in done.stderr
    assert "CPSRL_CACHE_DIR" in done.stderr
    assert not list(package.parent.glob("cpsrl-*"))
