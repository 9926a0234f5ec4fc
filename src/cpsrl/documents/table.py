"""A table, and what a terminal, Markdown, a page and a notebook make of it."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cpsrl.documents.page import rendered

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

MOST_ROWS = 12
"""How many rows a notebook shows."""


@dataclass(frozen=True)
class Cell:
    """A cell; all but its text is for pages.

    Attributes:
        text: what is in it.
        below: what stands under it in small print.
        title: what is shown where it is pointed at.
        kind: its CSS classes.
        link: where it leads.
    """

    text: str
    below: str = ""
    title: str = ""
    kind: str = ""
    link: str = ""


@dataclass(frozen=True)
class Table:
    """Headings and rows of cells, which are texts, numbers or `Cell`.

    Attributes:
        headings: one a column.
        rows: of as many cells each.
        title: what a notebook shows above.
        note: what a notebook shows below.
        total: how many rows there are, where `rows` has but the first of them.
        left: how many columns, from the first on, are aligned to the left.
        kind: the CSS classes of the table on a page.
    """

    headings: Sequence[Any]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: str = ""
    total: int | None = None
    left: int = 1
    kind: str = ""

    @property
    def head(self) -> list[Cell]:
        """The headings as cells."""
        return [_cell(value) for value in self.headings]

    @property
    def body(self) -> list[list[Cell]]:
        """The rows as cells."""
        return [[_cell(value) for value in row] for row in self.rows]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        head, *rest = [
            [as_markdown(cell.text).replace("|", "\\|") for cell in row]
            for row in (self.head, *self.body)
        ]
        rule = ["---" if place < self.left else "---:" for place in range(len(head))]
        return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rest))

    def _repr_html_(self) -> str:
        left = (len(self.rows) if self.total is None else self.total) - MOST_ROWS
        more = f"... and {left:,} more. " if left > 0 else ""
        shown = replace(self, rows=self.rows[:MOST_ROWS])
        return rendered("documents/notebook.html", it=shown, note=more + self.note)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        """Give the lines for a terminal: columns that don't fit come below, with the names again.

        Long names have lines of their own there.
        """
        from rich.cells import cell_len
        from rich.text import Text

        lines = [[cell.text for cell in row] for row in (self.head, *self.body)]
        first, *widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        apart = first + sum(widths) + 3 * len(widths) > options.max_width < 2 * first
        room, begin = options.max_width - (0 if apart else first), 1
        while begin == 1 or begin < len(lines[0]):
            end = begin + 1
            while (
                end < len(lines[0]) and sum(widths[begin - 1 : end]) + 3 * (end - begin + 1) <= room
            ):
                end += 1
            for row, line in enumerate(lines):
                style = "" if row else "bold"
                name = line[0] + " " * (first - cell_len(line[0]))
                if apart:
                    yield Text(line[0], style=style, overflow="fold")
                    name = ""
                for place in range(begin, min(end, len(line))):
                    space = " " * (widths[place - 1] - cell_len(line[place]))
                    left = place < self.left
                    name += f"   {line[place] + space if left else space + line[place]}"
                yield Text(name.rstrip(), style=style, overflow="fold")
            begin = end
            if begin < len(lines[0]):
                yield Text()


def as_markdown(text: str) -> str:
    """Return a text for Markdown, in which nothing of it is HTML."""
    return html.escape(text, quote=False)


def by_state(result: Any) -> str:
    """Return a dataclass of arrays `(S,)` and numbers for a notebook, with a row for each state."""
    values = {item.name: getattr(result, item.name) for item in fields(result)}
    columns = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    rest = [f"{k} {_cell(value).text}" for k, value in values.items() if k not in columns]
    rows = list(zip(range(len(next(iter(columns.values())))), *columns.values(), strict=True))
    return Table(("state", *columns), rows, type(result).__name__, ", ".join(rest))._repr_html_()


def _cell(value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    # Adding 0 makes -0 a 0.
    return Cell(f"{value + 0.0:,.6g}" if isinstance(value, float | np.floating) else str(value))
