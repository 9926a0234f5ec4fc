"""What README shows is run."""

import re
from pathlib import Path

import numpy as np

from cpsrl import TabularMDP

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_examples_run(capsys):
    for block in blocks("python"):
        exec(block, {})
    printed = capsys.readouterr().out
    assert "optimal gain 0.2229357798" in printed
    assert "gamma = .99 loses 0.0229 a step" in printed


def test_the_file_example_is_read(tmp_path):
    (text,) = (block for block in blocks("text") if block.startswith("state,"))
    (tmp_path / "machine.csv").write_text(text)
    mdp = TabularMDP.load(tmp_path / "machine.csv")
    assert mdp.state_names == ("idle", "busy")
    np.testing.assert_array_equal(mdp.dense[1, 0], [0.3, 0.7])
