"""The look of an agent: a colour and a line style, the same in every figure and on every page.

Colours are those of Okabe and Ito (2008), told apart with any colour vision; every agent also has
a line style of its own, for print in grey. On a page colour i is the variable `--c{i}` of
`page.css`, which is lighter where the page is dark.
"""

from collections.abc import Sequence

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 1.5),
    (1.5, 1.2),
    (6, 1.5, 1.2, 1.5),
    (3, 1),
    (8, 1.5, 1.2, 1.5, 1.2, 1.5),
)
"""Lengths of line and gap by turns, in widths of the line; the first line is not broken."""
HOMES = {"Continuing PSRL": 0, "TSDE": 1, "DS-PSRL": 2, "Bootstrapped DQN": 3, "Random": 6}
"""The slots that the agents met most often have to themselves, whatever the company."""


def slots(labels: Sequence[str]) -> dict[str, int]:
    """Return the slot of every label: colour `slot % 7`, line style `slot % 6`, 42 in all.

    A label that begins with one of `HOMES` has that slot, the first such label where there are
    several; the others have the slots that are left, in their order.
    """
    taken: dict[str, int] = {}
    for label in labels:
        home = next((slot for name, slot in HOMES.items() if label.startswith(name)), None)
        if home is not None and home not in taken.values():
            taken[label] = home
    free = iter(slot for slot in range(len(labels) + len(HOMES)) if slot not in taken.values())
    return {label: taken[label] if label in taken else next(free) for label in labels}
