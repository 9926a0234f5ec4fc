"""What every page and figure has in common: one table, one chart, one colour for an agent."""

from cpsrl.documents.colours import COLOURS, DASHES, slots
from cpsrl.documents.page import as_json, page, rendered, rounded, source
from cpsrl.documents.table import Cell, Table, as_markdown, by_state

__all__ = [
    "COLOURS",
    "DASHES",
    "Cell",
    "Table",
    "as_json",
    "as_markdown",
    "by_state",
    "page",
    "rendered",
    "rounded",
    "slots",
    "source",
]
