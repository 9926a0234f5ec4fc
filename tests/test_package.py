"""The wheel and the sdist: what they hold, and that each works where nothing else is installed.

`make release-check` sets CPSRL_DIST, the folder of those to be released; else they are built here.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = "Scripts" if os.name == "nt" else "bin"


def run(*command, cwd, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(kind, folder):
    """Return the one file of a kind, "wheel" or "sdist", made of this state of the sources."""
    given = os.environ.get("CPSRL_DIST")
    if given is None:
        run(sys.executable, "-m", "build", f"--{kind}", "--outdir", folder, ROOT, cwd=folder)
    (found,) = (ROOT / given if given else folder).glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_every_source_the_licence_and_no_test(wheel):
    files = set(zipfile.ZipFile(wheel).namelist())
    kinds = (".py", ".css", ".js", ".html")
    for path in (path for path in (ROOT / "src").rglob("*") if path.suffix in kinds):
        assert path.relative_to(ROOT / "src").as_posix() in files
    assert "cpsrl/py.typed" in files
    assert any(name.endswith("/licenses/LICENSE") for name in files)
    assert {name.split("/")[0].split("-")[0] for name in files} == {"cpsrl"}
    assert not [name for name in files if "/tests/" in name or "test_" in name]


def test_its_metadata_names_authors_status_and_only_pages_that_exist(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(metadata).decode()
    assert "\nAuthor: The cpsrl contributors\n" in text
    assert "\nClassifier: Development Status :: " in text
    assert re.findall(r"Project-URL: .*", text) == [
        "Project-URL: Paper, https://arxiv.org/abs/2211.15931"
    ]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    described = (ROOT / "docs/install.md").read_text()
    assert all(f"`{extra}`" in described for extra in extras)


def works(archive, folder):
    """Check that an archive, installed where there is nothing else, imports and solves."""
    python = folder / "env" / BIN / "python"
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    pip = (sys.executable, "-m", "pip", "--python", python)
    lock = ROOT / "requirements.lock"
    run(*pip, "install", "--quiet", "--no-compile", "-c", lock, archive, cwd=folder)
    installed = run(python, "-c", "import cpsrl; print(cpsrl.__file__)", cwd=folder)
    assert Path(installed.strip()).is_relative_to(folder / "env")
    command = (python.with_name("cpsrl"), "solve", "riverswim", "--json")
    answer = json.loads(run(*command, cwd=folder, CPSRL_CACHE_DIR=str(folder / "cache")))
    assert answer["gain"] == pytest.approx(7203 / 16805, abs=1e-10)


def test_the_command_runs_from_an_empty_environment(wheel, tmp_path):
    works(wheel, tmp_path)


@pytest.mark.slow
def test_the_sdist_holds_what_the_tests_need_and_installs_by_itself(tmp_path):
    sdist = built("sdist", tmp_path)
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run("git", "ls-files", cwd=ROOT).splitlines() if (ROOT / ".git").exists() else []
    hidden = {name for name in tracked if name.startswith(".")}
    assert files >= set(tracked) - hidden
    works(sdist, tmp_path)
