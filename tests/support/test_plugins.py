"""Packages that enter things of their own: installed, named, loaded when they are asked for."""

import os
import subprocess
import sys
import textwrap

import pytest

import cpsrl
from cpsrl.agents.registration import KINDS
from cpsrl.environments import ENVIRONMENTS
from cpsrl.experiments import Experiment, load, open_results, run_experiment
from cpsrl.experiments.provenance import provenance
from cpsrl.support import plugins
from cpsrl.support.registry import Registry

LAMP = '''
import cpsrl

def register():
    cpsrl.register("environment", "plugged-lamp")(lamp)

def lamp(wear: float = 0.1) -> cpsrl.TabularMDP:
    """A lamp from a package."""
    burn = [[1 - wear, wear], [1 - wear, wear]]
    return cpsrl.TabularMDP([burn, [[0.0, 1.0], [1.0, 0.0]]], [[1.0, 1.0], [0.0, -3.0]])
'''
RULE = '''
from dataclasses import dataclass
import numpy as np
import cpsrl

@cpsrl.register("rule", "plugged-weekly")
@dataclass(frozen=True)
class Weekly(cpsrl.Rule):
    """Resample every seventh step."""

    def arrays(self, first, n, rng):
        return np.arange(first - 1, first - 1 + n) % 7 == 0, np.nan
'''
SPEC = """
name = "plugged"
steps = 50
seeds = 1
[[environments]]
name = "plugged-lamp"
[[agents]]
name = "psrl"
objective = "average"
rule = "plugged-weekly"
"""


def install(folder, package, version, source, point):
    """Put a package where pip would: its module, and its metadata with one entry point."""
    (folder / f"{package}.py").write_text(source)
    about = folder / f"{package}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(f"[cpsrl]\nthings = {point}\n")
    (about / "RECORD").write_text(f"{package}.py,,\n{about.name}/METADATA,,\n")


@pytest.fixture
def installed(tmp_path):
    """A folder with two packages that work and three that do not."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, "lampworks", "1.5", LAMP, "lampworks:register")
    install(folder, "ruleworks", "2.0", RULE, "ruleworks")
    install(folder, "brokenworks", "0.1", "raise RuntimeError('out of order')", "brokenworks")
    install(folder, "exitworks", "0.2", "raise SystemExit(3)", "exitworks")
    taken = "import cpsrl\ncpsrl.register('rule', 'never')(lambda: cpsrl.Never())"
    install(folder, "takenworks", "0.3", taken, "takenworks")
    return folder


def forget():
    """Look again for what is installed."""
    plugins.package_of.cache_clear()
    provenance.cache_clear()


@pytest.fixture
def plugged(installed, monkeypatch):
    """The packages are installed in this process, which has not looked for plugins yet."""
    tables = [table for r in KINDS.values() for table in (r._factories, r._packages)]
    kept = [dict(table) for table in tables]
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setattr(plugins, "_loaded", False)
    forget()
    yield
    for table, before in zip(tables, kept, strict=True):
        table.clear()
        table.update(before)
    for name in ("lampworks", "ruleworks"):
        sys.modules.pop(name, None)
    forget()


def test_plugins_are_loaded_when_a_name_is_not_known(plugged, tmp_path):
    assert "plugged-lamp" not in ENVIRONMENTS.names()
    cpsrl.environment("riverswim")
    assert "lampworks" not in sys.modules, "a name that is known loads nothing"
    with pytest.warns(UserWarning, match="cannot be used") as told:
        experiment = Experiment.from_toml(SPEC)
    words = sorted(str(warning.message) for warning in told)
    assert [word.split("the package ")[1].split(":")[0] for word in words] == [
        "brokenworks 0.1 cannot be used",
        "exitworks 0.2 cannot be used",
        "takenworks 0.3 cannot be used",
    ]
    assert "RuntimeError: out of order" in words[0]
    assert "rule 'never' is registered twice: the package cpsrl has one" in words[2]
    assert ENVIRONMENTS.package("plugged-lamp") == "lampworks"
    assert ENVIRONMENTS.package("riverswim") == "cpsrl"
    run_experiment(experiment, tmp_path / "r")
    versions = open_results(tmp_path / "r").provenance.versions
    assert (versions["lampworks"], versions["ruleworks"]) == ("1.5", "2.0")
    assert "brokenworks" not in versions
    with pytest.raises(ValueError, match=r"unknown environment 'plugged-lam'.*'plugged-lamp'"):
        cpsrl.environment("plugged-lam")


def test_what_a_user_imported_is_known_by_its_package_too(plugged):
    import ruleworks  # noqa: F401

    assert KINDS["rule"].package("plugged-weekly") == "ruleworks"


def program(installed, *arguments):
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_command_shows_them_and_another_machine_says_what_is_missing(installed, tmp_path):
    done = program(installed, "-m", "cpsrl.cli.main", "list", "environments")
    assert done.returncode == 0
    about = done.stdout.partition("plugged-lamp")[2]
    assert "A lamp from a package." in about
    assert "from the package lampworks" in about
    assert "from the package cpsrl" not in done.stdout
    assert "the package brokenworks 0.1 cannot be used" in done.stderr
    (tmp_path / "spec.toml").write_text(SPEC)
    where = [str(tmp_path / "spec.toml"), "--out", str(tmp_path / "r")]
    done = program(installed, "-m", "cpsrl.cli.main", "run", *where)
    assert done.returncode == 0, done.stderr
    message = r"unknown environment 'plugged-lamp'.*computed with lampworks 1\.5, ruleworks 2\.0,"
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "r")


def test_an_agent_with_a_part_from_a_package_goes_on_in_a_process_that_imported_nothing(
    installed, tmp_path
):
    save = (
        "import sys, cpsrl, ruleworks\n"
        "agent = cpsrl.start(cpsrl.PSRL(ruleworks.Weekly(), cpsrl.Average()), cpsrl.Sizes(2, 2))\n"
        "agent.save(sys.argv[1])"
    )
    resume = "import sys, cpsrl; print(cpsrl.resume(sys.argv[1]).spec.rule)"
    for code in (save, resume):
        done = program(installed, "-c", code, str(tmp_path / "agent"))
        assert done.returncode == 0, done.stderr
    assert done.stdout == "Weekly()\n"


def test_gymnasium_has_them_too(installed):
    pytest.importorskip("gymnasium", reason="Gymnasium is an extra: pip install 'cpsrl[gym]'")
    code = "import cpsrl.gym, gymnasium; gymnasium.make('cpsrl/PluggedLamp-v0', wear=0.2)"
    done = program(installed, "-W", "ignore", "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_workers_of_a_cluster_load_them_too(installed, tmp_path):
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'cpsrl[ray]'")
    code = f"""
        from pathlib import Path
        from cpsrl.experiments import Execution, Experiment, run_experiment
        results = run_experiment(Experiment.from_toml({SPEC!r}), {str(tmp_path / "r")!r},
                                 Execution("ray", jobs=1))
        assert results.load().times[-1] == 50
    """
    done = program(installed, "-W", "ignore", "-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr


def test_a_script_that_is_run_again_may_register_again():
    registry = Registry("shape")

    def circle():
        """A circle."""

    circle.__module__ = "__main__"
    registry.add("circle")(circle)

    def again():
        """A rounder circle."""

    again.__module__, again.__qualname__ = "__main__", circle.__qualname__
    registry.add("circle")(again)
    assert registry.summary("circle") == "A rounder circle."
    again_elsewhere = lambda: None  # noqa: E731
    with pytest.raises(ValueError, match="registered twice"):
        registry.add("circle")(again_elsewhere)


@pytest.mark.parametrize(
    ("kind", "name", "factory", "message"),
    [
        ("rules", "x", cpsrl.Never, "unknown kind 'rules': did you mean 'rule'"),
        ("rule", "a b", cpsrl.Never, "a name consists of letters"),
        ("rule", cpsrl.Never, None, "a name consists of letters.*above the class or function"),
        ("rule", "x", cpsrl.Never(), r"'x' must be a class derived from Rule .*the object Never"),
        ("rule", "x", cpsrl.PSRL, "must be a class derived from Rule or .*not the class PSRL"),
        ("environment", "x", "riverswim", "must be a class derived from TabularMDP or a function"),
        ("environment", "riverswim", lambda: None, "registered twice: the package cpsrl has one"),
        ("agent", "dqn", lambda: None, "registered twice: the package cpsrl has one"),
    ],
)
def test_what_is_registered_is_checked(kind, name, factory, message):
    with pytest.raises(ValueError, match=message):
        cpsrl.register(kind, name)(factory)


def test_what_a_function_returns_is_checked(monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS._factories, "wrong", lambda: 5)
    with pytest.raises(ValueError, match=r"'wrong' must be of TabularMDP, .*returned 5"):
        cpsrl.environment("wrong")
