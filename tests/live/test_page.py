"""What docs/live.md shows is run."""

import re
from pathlib import Path

PAGE = (Path(__file__).parent.parent.parent / "docs" / "live.md").read_text()


def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), {})
    said = capsys.readouterr().out
    assert "state idle: it would take" in said
    assert "transitions are kept" in said
    assert (tmp_path / "agent.db").exists()
