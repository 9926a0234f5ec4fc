"""Formulas as MathML, which browsers draw without a script, a font or a network."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def inline(self, node):
    """Write a formula in a line of text."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def display(self, node):
    """Write a formula of its own line."""
    self.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Add the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
