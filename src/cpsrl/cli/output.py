"""What commands print: laid out for a terminal, and elsewhere in whole lines without padding."""

import io
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

ENDLESS = 100_000
"""The width, in characters, of what is not a terminal."""


def show(*things: Any, markup: bool = False) -> None:
    """Print text or rich's tables on standard output."""
    from rich.console import Console

    settings: dict[str, Any] = {"highlight": False, "markup": markup, "emoji": False}
    console = Console(**settings)
    if console.is_terminal:
        for thing in things:
            console.print(thing)
        return
    lines = io.StringIO()
    console = Console(**settings, file=lines, width=ENDLESS)
    for thing in things:
        console.print(thing)
    for line in lines.getvalue().splitlines():
        print(line.rstrip())


def facts(rows: dict[str, Any]) -> Any:
    """Return a table with a bold name and what there is to say about it in every row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows.items():
        table.add_row(Text(name), words if isinstance(words, Text) else Text(str(words)))
    return table


def name_and_numbers(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return rows of a name and numbers as a table; names, or all, get lines where need be."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    lines = [list(map(str, line)) for line in (headings, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    console = Console()
    room = console.width if console.is_terminal else ENDLESS
    table = Text(no_wrap=True)
    if sum(widths[1:]) + 3 * len(widths[1:]) > room:
        width = max(map(cell_len, headings[1:])) + 3
        for name, *numbers in lines[1:]:
            table.append(f"{name}\n", style="bold")
            for heading, number in zip(headings[1:], numbers, strict=True):
                table.append(f"   {heading.ljust(width)}{number}\n")
        return table
    narrow = sum(widths) + 3 * len(widths) > room
    for i, (name, *numbers) in enumerate(lines):
        start = f"{name}\n" if narrow else name + " " * (widths[0] - cell_len(name))
        rest = "".join(f"   {n.rjust(w)}" for n, w in zip(numbers, widths[1:], strict=True))
        table.append(f"{start}{rest}\n", style="bold" if i == 0 else "")
    return table


def fits(table: Any) -> bool:
    """Return whether a table of rich's is no wider than the terminal, if there is one."""
    from rich.console import Console

    console = Console()
    return not console.is_terminal or console.measure(table).maximum <= console.width


@contextmanager
def wrapped() -> Iterator[None]:
    """Let the text that is printed inside be broken between words where a terminal is narrow."""
    from rich.text import Text

    class Paper(io.StringIO):
        isatty = sys.stdout.isatty

    paper = Paper()
    try:
        with redirect_stdout(paper):
            yield
    finally:
        for line in paper.getvalue().splitlines():
            show(Text.from_ansi(line))


@contextmanager
def plain_speech() -> Iterator[None]:
    """Let every name be printed, whatever the locale, and warnings be a line like any other."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            ascii_only = stream.encoding.lower() in ("ascii", "us-ascii", "ansi_x3.4-1968")
            # UTF-8 is ASCII where that is enough; a name that came in as bytes goes out as such.
            if ascii_only:
                stream.reconfigure(encoding="utf-8", errors="surrogateescape")
            else:
                stream.reconfigure(errors="backslashreplace")

    if os.environ.get("TERM") in ("dumb", "unknown") and sys.stdout.isatty():
        # rich takes every dumb terminal for 80 columns wide unless it is told.
        columns, lines = shutil.get_terminal_size()
        os.environ.setdefault("COLUMNS", str(columns))
        os.environ.setdefault("LINES", str(lines))

    def tell(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        print("cpsrl:", *str(message).split(), file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield
