"""Watching one run: what an agent did, believed and lost, in a terminal and on a page."""

from cpsrl.watching.film import Film
from cpsrl.watching.page import write_page

__all__ = ["Film", "write_page"]
