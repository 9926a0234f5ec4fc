"""An edit to a function in another module must not leave a caller's old machine code in use."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numba
import pytest

import cpsrl._private.compile
from cpsrl.beliefs.truncated import sample
from cpsrl.planning.kernels import plan_average, plan_discounted

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
    shutil.copy(Path(cpsrl._private.compile.__file__), folder / "_compile.py")
    (folder / "callee.py").write_text(CALLEE.format(price=2.0))
    (folder / "caller.py").write_text(CALLER)
    return folder


def run(package):
    """The value, the cache hits and the cache misses of the caller in a new process."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path]),
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
    before = cpsrl._private.compile.sources_hash(package)
    (package / "callee.py").rename(package / "other.py")
    renamed = cpsrl._private.compile.sources_hash(package)
    (package / "other.py").write_text(CALLEE.format(price=3.0))
    assert len({before, renamed, cpsrl._private.compile.sources_hash(package)}) == 3


def test_a_cache_that_cannot_be_written_is_said_and_done_without(package):
    (package.parent / "cache").touch()  # a file, where a directory is wanted
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path]),
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


def test_threads_that_compile_at_once_keep_their_folders_apart():
    def one(x):
        return x + 1.0

    def other(x):
        return x + 2.0

    before = numba.config.CACHE_DIR
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(cpsrl._private.compile.leaf, [one, other] * 300))
    finally:
        sys.setswitchinterval(interval)
    assert before == numba.config.CACHE_DIR
    for compiled in made:
        folder = Path(compiled._cache.cache_path).parent
        assert folder == cpsrl._private.compile._folder(compiled.py_func)


FINGERPRINTED = """
import helper
from helper import first
LEVEL = 3
def outer(x, y=1, *, z=2):
    total = first(x) + helper.second(x) + helper.RATE + LEVEL + y + z
    return total + 7
"""
HELPER = """
from deeper import deepest
RATE = 0.5
def first(x):
    return x + 1
def second(x, more=10):
    return deepest(x) + more
"""
DEEPER = """
def deepest(x):
    return x - 11
"""


def digest(monkeypatch, sources):
    """The fingerprint of `outer`, where its modules have these sources."""
    for name, source in zip(("deeper", "helper", "outer"), reversed(sources), strict=True):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(source, module.__dict__)
    return cpsrl._private.compile._digest(module.outer)


@pytest.mark.parametrize(
    "change",
    [
        "+ 7|+ 8",
        "y=1|y=2",
        "z=2|z=3",
        "LEVEL = 3|LEVEL = 4",
        "LEVEL + y|LEVEL - y",
        "x + 1|x * 1",
        "RATE = 0.5|RATE = 2",
        "more=10|more=9",
        "x - 11|x - 12",
    ],
)
def test_the_fingerprint_sees_whatever_a_function_depends_on(monkeypatch, change):
    sources = [FINGERPRINTED, HELPER, DEEPER]
    changed = [source.replace(*change.split("|")) for source in sources]
    assert changed != sources
    assert digest(monkeypatch, changed) != digest(monkeypatch, sources)
    assert digest(monkeypatch, sources) == digest(monkeypatch, [f"import math{s}" for s in sources])


TEMPLATE = """
import math

def part(x):
    raise NotImplementedError

def inner(x, n):
    total, i = 0.0, 0
    while i < n:
        y = part(x)
        if y > 1e6:
            y = math.sqrt(y) + math.sin(y) * math.exp(-y)
        elif y < -1e6:
            y = math.log(-y) - math.cos(y) / math.cosh(y)
        total += y
        i += 1
    return total

def loop(x):
    first, second = inner(x, 1), 0.0
    for n in range(2):
        second += inner(x + 0.0 * first, n + 0)
    return first + second + inner(x, int(x) - 9)
"""
PARTS = """
from kernels._compile import leaf

@leaf
def single(x):
    return x

@leaf
def double(x):
    return 2.0 * x
"""
SPECIALISED = """
import sys
from kernels._compile import specialised
from kernels import parts, template

def made(name):
    inner = specialised(template.inner, part=getattr(parts, name))
    return specialised(template.loop, inner=inner)

found = [made(name) for name in sys.argv[1:]]
print(*(loop(10.0) for loop in found))
print(*(sum(loop.stats.cache_misses.values()) for loop in found))
"""


def specialised(package, *names):
    """The values of the loops with these parts in a new process, and which it had to compile."""
    done = subprocess.run(
        [sys.executable, "-c", SPECIALISED, *names],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path]),
            "CPSRL_CACHE_DIR": str(package.parent / "cache"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    values, misses = done.stdout.splitlines()
    return [float(value) for value in values.split()], [int(miss) for miss in misses.split()]


def test_specialisations_of_different_processes_do_not_meet_in_a_third(package):
    (package / "template.py").write_text(TEMPLATE)
    (package / "parts.py").write_text(PARTS)
    assert specialised(package, "single") == ([30.0], [1])
    assert specialised(package, "double") == ([60.0], [1])
    assert specialised(package, "single", "double") == ([30.0, 60.0], [0, 0])
    assert specialised(package, "double", "single") == ([60.0, 30.0], [0, 0])


MINE = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import limits
from cpsrl import Belief, Rule
from cpsrl._private.compile import inlined, leaf
from cpsrl.beliefs import Inside, LiveBelief
from cpsrl.objectives import Objective
from cpsrl._private.variates import uniform
from shapes import shape

@dataclass(frozen=True)
class Own(Rule):
    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        return t > start + limits.patience(visits)

@leaf
def plan(P, r, gamma, policy, work):
    for s in range(len(policy)):
        policy[s] = 0 if r[s, 0] > r[s, 1] else 1
    return 1

class Greedy(Objective):
    plan = staticmethod(plan)
    def planning_gamma(self, rules):
        return np.nan

@inlined
def observe(arrays, row, reward, next_state):
    arrays[0][row] += reward

@leaf
def sample(arrays, words, P, r):
    for row in range(len(r)):
        r[row] = shape(arrays[0][row]) * uniform(words)
        for j in range(P.shape[1]):
            P[row, j] = 1.0 / P.shape[1]

class Live(LiveBelief):
    inside = Inside(observe, sample)
    def __init__(self, rows):
        self.arrays, self.shape = (np.zeros(rows),), (rows // 2, 2)
    def observe_many(self, states, actions, rewards, next_states):
        np.add.at(self.arrays[0], states * 2 + actions, rewards)
    def state(self):
        return {"sums": self.arrays[0].copy()}
    def restore(self, state):
        self.arrays[0][:] = state["sums"]

@dataclass(frozen=True)
class Counting(Belief):
    def start(self, problem):
        return Live(problem.n_states * problem.n_actions)
"""
LIMITS = """
from cpsrl._private.compile import inlined
@inlined
def patience(visits, most={most}):
    return min(visits, most)
"""
SHAPES = """
from cpsrl._private.compile import inlined
SCALE = {scale}
@inlined
def shape(total):
    return 1.0 + SCALE * total
"""
OWN = """
import hashlib, json
import cpsrl
from cpsrl.simulation import compiled
from mine import Counting, Greedy, Own
river = cpsrl.environment("riverswim")
for spec in (
    cpsrl.PSRL(Own(), Greedy(), cpsrl.Dirichlet()),
    cpsrl.PSRL(cpsrl.FixedLength(7), Greedy(), Counting()),
):
    runs = cpsrl.simulate(spec, river, 200, 1, trajectory=True)
    stats = compiled.kernel_of(cpsrl.start(spec, river), False).stats
    print(json.dumps([
        hashlib.sha256(runs.trajectory[0]["actions"].tobytes()).hexdigest(),
        sum(stats.cache_hits.values()),
        sum(stats.cache_misses.values()),
    ]))
"""


def test_a_changed_rule_or_belief_is_recompiled_and_an_unchanged_one_is_not(tmp_path):
    kept = cpsrl._private.compile.KERNEL_CACHE
    shutil.copytree(kept, tmp_path / "cache" / kept.name)  # so that the package's own are there
    (tmp_path / "mine.py").write_text(MINE)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CPSRL_CACHE_DIR": str(tmp_path / "cache"),
    }

    def run(most, scale):
        (tmp_path / "limits.py").write_text(LIMITS.format(most=most))
        (tmp_path / "shapes.py").write_text(SHAPES.format(scale=scale))
        done = subprocess.run(
            [sys.executable, "-c", OWN], env=environment, capture_output=True, text=True, check=True
        )
        (rule, *first), (belief, *second) = map(json.loads, done.stdout.splitlines())
        return rule, first, belief, second

    compiled, found = [0, 1], [1, 0]
    rule, *rest = run(30, 5.0)
    belief = rest[1]
    assert rest == [compiled, belief, compiled]
    assert run(30, 5.0) == (rule, found, belief, found)
    assert (other := run(11, 5.0)) == (other[0], compiled, belief, found)
    assert other[0] != rule
    assert (other := run(11, 90.0)) == (other[0], found, other[2], compiled)
    assert other[2] != belief
    assert run(30, 5.0) == (rule, found, belief, found)


COMPILED = """
import sys
import numpy as np
import cpsrl._private.compile as module
module.SAID_AFTER = 0.0
from slow import first, second
print(first(np.arange(5.0)), second(np.arange(5.0)))
"""
SLOW = """
import numpy as np
from cpsrl._private.compile import jit

@jit
def first(x):
    return np.sort(x)[2]

@jit
def second(x):
    return 2.0 * first(x)
"""
INTERRUPTED = """
import signal
import numpy as np
from slow import second

interruptions = 0
while True:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        value = second(np.arange(5.0))
        break
    except KeyboardInterrupt:
        interruptions += 1
signal.setitimer(signal.ITIMER_REAL, 0.0)
print(value, interruptions > 0)
"""


def run_slow(folder, program):
    (folder / "slow.py").write_text(SLOW)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "CPSRL_CACHE_DIR": str(folder / "cache"),
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )


def test_that_something_is_compiled_is_said_once_and_not_when_it_is_kept(tmp_path):
    cold, warm = run_slow(tmp_path, COMPILED), run_slow(tmp_path, COMPILED)
    assert cold.stdout == warm.stdout == "2.0 4.0\n"
    assert cold.stderr == f"cpsrl: {cpsrl._private.compile.MESSAGE}\n"
    assert warm.stderr == ""


def test_what_is_interrupted_while_it_is_compiled_works_afterwards(tmp_path):
    """Begun anew each time, it would never be compiled, interrupted twenty times a second."""
    program = "import signal\nsignal.signal(signal.SIGALRM, signal.default_int_handler)\n"
    done = run_slow(tmp_path, program + INTERRUPTED)
    assert done.stdout == "4.0 True\n", done.stderr


def test_two_choices_of_parts_never_share_a_kernel():
    """Also where both plan with functions that one of them has met before, in the belief."""
    digest = cpsrl._private.compile._digest
    choices = [[("f", sample), ("plan", plan)] for plan in (plan_average, plan_discounted)]
    assert digest(choices[0]) != digest(choices[1])
