"""Examples that are run when the site is built: the directive `example`.

    ```{example} examples/gain_against_gamma.py
    ```

runs the script (a path below docs/) in an empty folder and shows its docstring, the picture it
draws, what it prints, and its code. A script that fails, or draws nothing, fails the build.
"""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes

PICTURES = "gallery"


class Example(SphinxDirective):
    """Run a script and show what it does."""

    required_arguments = 1

    def run(self):
        """Return the text, the picture, the output and the code."""
        script = (Path(self.env.srcdir) / self.arguments[0]).resolve()
        self.env.note_dependency(str(script))
        code = script.read_text("utf-8")
        picture, printed = self._run_script(script)
        about = ast.get_docstring(ast.parse(code)).partition("\n\n    python ")[0]
        return [
            *nested_parse_to_nodes(self.state, about, source=str(script)),
            nodes.image(uri=f"/{PICTURES}/{picture}", alt=about.partition(":")[0]),
            nodes.literal_block(printed, printed, language="output"),
            nodes.raw("", f"<details><summary>{script.name}</summary>", format="html"),
            nodes.literal_block(code, code, language="python"),
            nodes.raw("", "</details>", format="html"),
        ]

    def _run_script(self, script):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, script],
                cwd=folder,
                capture_output=True,
                text=True,
                env=os.environ | {"MPLBACKEND": "agg"},
            )
            if done.returncode:
                raise self.error(f"{script.name} failed:\n{done.stderr}")
            (drawn,) = Path(folder).glob("*.png")
            kept = Path(self.env.srcdir) / PICTURES / f"{script.stem}.png"
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(drawn.read_bytes())
        return kept.name, done.stdout


def setup(app):
    """Add the directive."""
    app.add_directive("example", Example)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
