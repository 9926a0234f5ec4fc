"""What docs/live.md shows is run."""

import re
from pathlib import Path

PAGE = (Path(__file__).parent.parent.parent / "docs" / "live.md").read_text()


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(block, {})
    assert "state idle: it would take" in capsys.readouterr().out
    assert (tmp_path / "agent.db").exists()
