"""Intervals such as [.12, .34] in tables are not broken over two lines."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

INTERVAL = re.compile(r"\[([^\[\]\s]+), ([^\[\]\s]+)\]")


class WholeIntervals(SphinxTransform):
    """Put a space that does not break after the comma of an interval."""

    default_priority = 900

    def apply(self, **options):
        """Change the text of every cell."""
        for cell in self.document.findall(nodes.entry):
            for text in list(cell.findall(nodes.Text)):
                whole = INTERVAL.sub("[\\1,\u00a0\\2]", text.astext())
                text.parent.replace(text, nodes.Text(whole))


def setup(app):
    """Add the transform."""
    app.add_transform(WholeIntervals)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
