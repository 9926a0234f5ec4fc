import shutil
import signal
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


@pytest.fixture(autouse=True, scope="session")
def heeds_ctrl_c():
    """What a shell starts in the background begins with Ctrl-C ignored, and would never end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
