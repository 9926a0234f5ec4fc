"""The wheel, in an environment that has nothing else."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command, cwd, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_source_and_the_licence(wheel):
    files = set(zipfile.ZipFile(wheel).namelist())
    sources = (path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".css", ".js"))
    for path in sources:
        assert path.relative_to(ROOT / "src").as_posix() in files
    assert "cpsrl/py.typed" in files
    assert any(name.endswith("/licenses/LICENSE") for name in files)


def test_the_command_runs_from_an_empty_environment(wheel, tmp_path):
    python = tmp_path / "env" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", python)
    lock = ROOT / "requirements.lock"
    run(*pip, "install", "--quiet", "--no-compile", "-c", lock, wheel, cwd=tmp_path)
    installed = run(python, "-c", "import cpsrl; print(cpsrl.__file__)", cwd=tmp_path)
    assert Path(installed.strip()).is_relative_to(tmp_path / "env")
    command = (python.with_name("cpsrl"), "solve", "riverswim", "--json")
    answer = json.loads(run(*command, cwd=tmp_path, CPSRL_CACHE_DIR=str(tmp_path / "cache")))
    assert answer["gain"] == pytest.approx(7203 / 16805, abs=1e-10)
