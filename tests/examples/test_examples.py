"""Every example runs, in a short form, and draws its picture."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (ROOT / "examples", ROOT / "docs" / "examples")
EXAMPLES = {path.stem: path for folder in FOLDERS for path in folder.glob("*.py")}
SHORT = {
    "queue_control": (120, 1),
    "inventory_from_sales": (150, 300),
    "lost_sales": (400, 3),
    "three_clients": (60,),
    "gain_against_gamma": (4,),
    "regret_curves": (300, 3),
    "pseudo_episodes": (200,),
    "posterior_shrinking": (200, 20),
    "a_bound": (300, 2),
}


def test_there_is_a_short_form_of_each():
    assert sorted(EXAMPLES) == sorted(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_it_runs(name, tmp_path):
    if name == "three_clients":
        pytest.importorskip("uvicorn")
    command = [sys.executable, EXAMPLES[name], *SHORT[name]]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (picture,) = tmp_path.glob("*.png")
    assert picture.stat().st_size > 10_000
