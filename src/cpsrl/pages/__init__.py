"""What every page and figure has in common: one file, one look, one colour for an agent."""

from cpsrl.pages.looks import COLOURS, DASHES, slots
from cpsrl.pages.page import as_json, escaped, page, rounded

__all__ = ["COLOURS", "DASHES", "as_json", "escaped", "page", "rounded", "slots"]
