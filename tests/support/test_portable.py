"""The package where POSIX is not: the import, a run, and the lock, in a process of its own."""

import ast
import subprocess
import sys
from pathlib import Path

import cpsrl

WITHOUT_POSIX = """
import builtins, os, sys, types
import concurrent.futures, multiprocessing, subprocess, tempfile  # which are at home on POSIX
import numba, numpy, pyarrow.csv, pyarrow.parquet, scipy.sparse.linalg

hidden = {"fcntl", "grp", "pwd", "resource", "termios", "pty"}
real_import = builtins.__import__

def windows_import(name, globals=None, locals=None, fromlist=(), level=0):
    if name in hidden and (globals or {}).get("__name__", "").startswith("cpsrl"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real_import(name, globals, locals, fromlist, level)

builtins.__import__ = windows_import
lockf, F_TLOCK = os.lockf, os.F_TLOCK
real_open = os.open
for name in ("register_at_fork", "sched_getaffinity", "sysconf", "O_DIRECTORY", "lockf"):
    delattr(os, name)

def open_file(path, *rest, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return real_open(path, *rest, **more)

os.open = open_file
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK = 2
msvcrt.locking = lambda fd, mode, n: lockf(fd, F_TLOCK, n)
sys.modules["msvcrt"] = msvcrt
"""

EXPERIMENT = """
import cpsrl
from cpsrl.experiments import continue_experiment

experiment = cpsrl.Experiment(
    "tiny", [cpsrl.Entry("riverswim")], [cpsrl.Entry("random")], steps=50, seeds=2
)
cpsrl.run_experiment(experiment, "results")
continue_experiment("results", 50)
cpsrl.environment("riverswim").save("river.csv")
print(cpsrl.load("results").times[-1], cpsrl.TabularMDP.load("river.csv").n_states)
"""

HELD = """
import subprocess
from pathlib import Path
from cpsrl.experiments.files import locked

again = '''
from pathlib import Path
from cpsrl.experiments.files import locked
with locked(Path("held")):
    print("had it")
'''
with locked(Path("held")):
    print("mine")
    other = subprocess.run([sys.executable, "-c", PREPARE + again], capture_output=True, text=True)
    assert f"is in use: process {os.getpid()} is working on it" in other.stderr, other.stderr
with locked(Path("held")):
    print("again")
"""


def run(program, folder):
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_run_without_what_only_posix_has(tmp_path):
    assert run(WITHOUT_POSIX + EXPERIMENT, tmp_path) == ["100", "6"]


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path):
    program = f"{WITHOUT_POSIX}\nPREPARE = {WITHOUT_POSIX!r}\n{HELD}"
    assert run(program, tmp_path) == ["mine", "again"]


def test_no_module_needs_posix_when_it_is_imported():
    posix = {"fcntl", "resource", "pwd", "grp", "termios", "pty"}
    for path in Path(cpsrl.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                assert not posix & {alias.name for alias in node.names}, path
