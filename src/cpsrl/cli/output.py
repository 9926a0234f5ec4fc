"""What commands print: laid out for a terminal, and elsewhere in whole lines without padding."""

import io
import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

ENDLESS = 100_000
"""The width, in characters, of what is not a terminal."""


def show(*things: Any, markup: bool = False) -> None:
    """Print texts and tables on standard output."""
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


def show_json(tree: Any) -> None:
    """Print a tree of values as JSON."""
    print(json.dumps(plain(tree), indent=2))


def plain(value: Any) -> Any:
    """Return a tree of plain values for JSON; numbers that are not finite become null."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
