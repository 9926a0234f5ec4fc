"""How results show themselves in a notebook: a small table, in the notebook's own colours."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from cpsrl.pages.page import escaped

MOST_ROWS = 12
STYLE = (
    ".cpsrl table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".cpsrl th,.cpsrl td{padding:.15em .7em;text-align:right;background:none;color:inherit;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.3)}"
    ".cpsrl th:first-child,.cpsrl td:first-child{text-align:left;padding-left:0}"
    ".cpsrl p{margin:.3em 0}"
)


def table(
    title: str,
    headings: Sequence[Any],
    rows: Sequence[Sequence[Any]],
    note: str = "",
    total: int | None = None,
) -> str:
    """Return a title, a table of at most MOST_ROWS rows and a note as HTML; texts are escaped.

    `total` is how many rows there are, where `rows` has but the first of them.
    """
    lines = "".join(
        f"<tr>{''.join(f'<td>{escaped(_text(cell))}</td>' for cell in row)}</tr>"
        for row in rows[:MOST_ROWS]
    )
    head = "".join(f"<th>{escaped(heading)}</th>" for heading in headings)
    left = (len(rows) if total is None else total) - MOST_ROWS
    more = f"... and {left:,} more. " if left > 0 else ""
    below = f"<p><small>{escaped(more + note)}</small></p>" if more or note else ""
    return (
        f'<div class="cpsrl"><style>{STYLE}</style><p><b>{escaped(title)}</b></p><table><thead>'
        f"<tr>{head}</tr></thead><tbody>{lines}</tbody></table>{below}</div>"
    )


def by_state(result: Any) -> str:
    """Return a dataclass of arrays `(S,)` and numbers: a row for every state, the rest below."""
    values = {item.name: getattr(result, item.name) for item in fields(result)}
    columns = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    rest = ", ".join(
        f"{name} {_text(value)}" for name, value in values.items() if name not in columns
    )
    states = range(len(next(iter(columns.values()))))
    rows = [[state, *(column[state] for column in columns.values())] for state in states]
    return table(type(result).__name__, ["state", *columns], rows, rest)


def _text(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float | np.floating) else str(value)
