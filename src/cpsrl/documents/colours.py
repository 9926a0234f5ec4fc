"""The look of an agent: a colour and a line style, the same in every figure and on every page.

The first seven colours are those of Okabe and Ito (2008), told apart with any colour vision; the
others are for figures with more agents. Every agent also has a line style of its own, for print in
grey. On a page colour i is the variable `--c{i}` of `page.css`, lighter where the page is dark.
"""

from collections import Counter
from collections.abc import Sequence
from zlib import crc32

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#999933", "#7A7A7A", "#6A45B5"),
)
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 1.5),
    (1.5, 1.2),
    (6, 1.5, 1.2, 1.5),
    (3, 1),
    (8, 1.5, 1.2, 1.5, 1.2, 1.5),
)
"""Lengths of line and gap by turns, in widths of the line; the first line is not broken."""
HOMES = {
    "Continuing PSRL": 0,
    "TSDE": 1,
    "DS-PSRL": 2,
    "Bootstrapped DQN": 3,
    "Adaptive PSRL": 4,
    "UCRL2": 5,
    "Random": 6,
}
"""The slots of the agents met most often."""
OKABE_ITO, SLOTS = 7, len(COLOURS) * len(DASHES)


def slots(labels: Sequence[str]) -> dict[str, int]:
    """Return the slot of every label: colour `slot % 11`, line style `slot % 6`, 66 in all.

    A label that begins with one of `HOMES` has that slot, the first of several such labels in the
    order of the alphabet. Any other has one by a hash of itself, or where that colour is in use,
    the next whose colour is in use least, the first seven before the others. So it depends on the
    company, but not on its order.
    """
    taken: dict[str, int] = {}
    for label in sorted(labels):
        home = next((slot for name, slot in HOMES.items() if label.startswith(name)), None)
        if home is not None and home not in taken.values():
            taken[label] = home
    for label in sorted(set(labels) - set(taken)):
        used, wanted = set(taken.values()), crc32(label.encode(errors="replace"))
        colours = Counter(slot % len(COLOURS) for slot in taken.values())
        every = [(wanted + step) % SLOTS for step in range(SLOTS)]
        taken[label] = min(
            [slot for slot in every if slot not in used] or every,
            key=lambda slot: (colours[slot % len(COLOURS)], slot % len(COLOURS) >= OKABE_ITO),
        )
    return {label: taken[label] for label in labels}
