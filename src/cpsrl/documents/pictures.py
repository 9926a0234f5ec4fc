"""What figures have in common: style, panels, the look of an agent, files, pictures in pages."""

import base64
import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from cpsrl.documents.colours import COLOURS, DASHES, slots
from cpsrl.support.atomic import whole_file
from cpsrl.support.progress import short

FORMATS = ("png", "pdf", "svg")
INLINE_DPI, INLINE_COLOURS = 90, 48
"""Of pictures for pages without JavaScript, which are to be small: about 20 kB for two panels."""
Looks = Mapping[str, Mapping[str, Any]]
"""Colour and line style by label, as `look` gives them."""

_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.8,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "cpsrl",
    "pdf.fonttype": 42,
}


def style() -> AbstractContextManager[None]:
    """Return a context inside which drawing is in the project's style."""
    return matplotlib.rc_context(_STYLE)


def panels(
    number: int, width: float = 6.2, height: float = 3.4, columns: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `number` panels of a size in inches, in rows of `columns`.

    Six inches are what a page of text has room for: wider figures have letters too small to read.
    """
    columns = min(number, columns)
    rows = -(-number // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(number)]


def look(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and line style of every label."""
    return {
        label: {
            "color": COLOURS[slot % len(COLOURS)],
            "linestyle": (0, DASHES[slot % len(DASHES)] or None),
        }
        for label, slot in slots(labels).items()
    }


def tick(value: float, place: float = 0.0) -> str:
    """Return what axes write for a number: 20k, 1.5M."""
    return short(value, digits=6)


def save(
    figure: Figure, stem: Path, source: Mapping[str, str], formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write `figure` to `stem` with every ending in `formats`; return the paths.

    `source` (the command, the versions, ...) goes into every file's metadata. The same figure gives
    the same bytes: no dates.
    """
    text = "; ".join(f"{key}: {value}" for key, value in source.items())
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": "cpsrl", "Title": stem.name, "Description": text},
        "pdf": {"Creator": "cpsrl", "Title": stem.name, "Subject": text, "CreationDate": None},
        "svg": {"Creator": "cpsrl", "Title": stem.name, "Description": text, "Date": None},
    }
    for ending in formats:
        if ending not in metadata:
            raise ValueError(f"figures are written as {', '.join(FORMATS)}, not {ending!r}")
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = {ending: stem.with_suffix(f".{ending}") for ending in formats}
    for ending, path in paths.items():
        with whole_file(path) as file:
            figure.savefig(file, format=ending, metadata=metadata[ending])
    return list(paths.values())


def inline(figure: Figure) -> str:
    """Return `figure` as the address of a PNG that a page has inside, in few colours."""
    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=INLINE_DPI)
    picture = Image.open(drawn).convert("RGB").quantize(INLINE_COLOURS)
    picture.save(packed, format="png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(packed.getvalue()).decode()}"
