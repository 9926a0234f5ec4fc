import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where there is one: a kill leaves what the system has cached, and it is
    quick; elsewhere one on disk."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(dir=memory))
    yield made
    shutil.rmtree(made, ignore_errors=True)
