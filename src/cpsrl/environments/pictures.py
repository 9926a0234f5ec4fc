"""Pictures of where an environment stands: a river, a grid, a level, or a row of states.

A picture has two forms, a text and an array of pixels. Which one an MDP gets is decided by the
environment's options (rows and columns make a grid), by its name, and by the names of its states
("row 2, column 5"); any other MDP is shown as a row of its states.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.environments import ENVIRONMENTS
from cpsrl.mdp import TabularMDP
from cpsrl.support.types import Floats

Pixels = NDArray[np.uint8]
Last = tuple[int, float] | None
"""The action that was taken last, and its reward."""

MARGIN, LINE, LARGEST = 12, 30, 48
WIDEST, MOST_CELLS = 960, 4000
WHITE, INK, GREY, LIGHT = (255, 255, 255), (40, 44, 52), (150, 156, 166), (230, 233, 238)
BLUE, WATER, GOLD = (31, 119, 180), (205, 230, 247), (230, 170, 20)


class Picture:
    """Cells in rows, the agent in one of them, and a line that says the same in words.

    Args:
        mdp: the MDP.
        columns: the cells of a row; state s is cell s, unless
        places: gives the row and the column of every state.
    """

    def __init__(
        self, mdp: TabularMDP, columns: int, places: Sequence[tuple[int, int]] | None = None
    ) -> None:
        self.mdp = mdp
        self.places = places or [divmod(s, columns) for s in range(mdp.n_states)]
        self.rows, columns = (1 + max(place) for place in zip(*self.places, strict=True))
        self.columns = columns
        self.size = max(4, min(LARGEST, (WIDEST - 2 * MARGIN) // columns))
        self.best = _best_pairs(mdp)

    def words(self, state: int, last: Last) -> str:
        """Return the line below the picture: the state, the last action and its reward."""
        mdp = self.mdp
        where = mdp.state_names[state] if mdp.state_names else f"{state} of 0..{mdp.n_states - 1}"
        said = f"state {where}"
        if last is not None:
            action = mdp.action_names[last[0]] if mdp.action_names else f"action {last[0]}"
            said += f", after {action}, reward {last[1] + 0.0:g}"
        return said

    def text(self, state: int, last: Last = None) -> str:
        """Return the picture in characters."""
        if self.mdp.n_states > MOST_CELLS:
            return self.words(state, last)
        cells = [[" "] * self.columns for _ in range(self.rows)]
        for s, (row, column) in enumerate(self.places):
            cells[row][column] = "@" if s == state else self.mark(s)
        return "\n".join([*(" ".join(line).rstrip() for line in cells), self.words(state, last)])

    def pixels(self, state: int, last: Last = None) -> Pixels:
        """Return the picture as an array `(height, width, 3)`."""
        from PIL import Image, ImageDraw

        rows = 0 if self.mdp.n_states > MOST_CELLS else self.rows
        words = self.words(state, last)
        width = max(self.columns * self.size, int(_font().getlength(words)) + 2) + 2 * MARGIN
        height = rows * self.size + LINE + 2 * MARGIN
        image = Image.new("RGB", (width, height), WHITE)
        draw = ImageDraw.Draw(image)
        if rows:
            for s in range(self.mdp.n_states):
                self.draw_cell(draw, s, self.box(s))
            self.draw_agent(draw, self.box(state))
        place = (MARGIN, height - LINE - MARGIN // 2 + 6)
        draw.text(place, words, fill=INK, font=_font())
        return np.array(image)

    def box(self, state: int) -> tuple[int, int, int, int]:
        """Return the corners of a state's cell: left, top, right, bottom."""
        row, column = self.places[state]
        left, top = MARGIN + column * self.size, MARGIN + row * self.size
        return left, top, left + self.size - 1, top + self.size - 1

    def mark(self, state: int) -> str:
        """Return the character of a state's cell where the agent is not."""
        return "$" if state in self.best else "."

    def draw_cell(self, draw: Any, state: int, box: Any) -> None:
        """Draw a state's cell; the states that pay most are golden."""
        fill = (255, 236, 179) if state in self.best else LIGHT
        draw.rectangle(box, fill=fill, outline=WHITE)
        if self.size >= 24 and self.mdp.n_states <= 1000:
            draw.text((box[0] + 4, box[1] + 3), str(state), fill=GREY, font=_font(11))

    def draw_agent(self, draw: Any, box: Any) -> None:
        """Draw the agent in a cell."""
        inset = max(1, self.size // 5)
        draw.ellipse(_smaller(box, inset), fill=BLUE, outline=INK)


class River(Picture):
    """A river with its current, a swimmer in it, and a coin wherever something is paid."""

    def mark(self, state: int) -> str:
        """Return water, or a coin."""
        paid = self.mdp.rewards[state].max()
        if paid <= 0:
            return "~"
        return "$" if state in self.best else "c"

    def draw_cell(self, draw: Any, state: int, box: Any) -> None:
        """Draw water that flows to the left, and a coin as large as what is paid here."""
        draw.rectangle(box, fill=WATER)
        left, top, right, _ = box
        for i in range(3):
            y = top + (2 * i + 1) * self.size // 6
            waves = [(x, y + (x // 6 % 2) * 3) for x in range(left, right + 1, 6)]
            draw.line(waves, fill=(160, 205, 235), width=2)
        paid = self.mdp.rewards[state].max()
        if paid > 0:
            r = max(4, int(self.size * 0.2 * (1.0 if state in self.best else 0.6)))
            x = right - r - 2
            draw.ellipse((x - r, top + 2, x + r, top + 2 + 2 * r), fill=GOLD, outline=INK)

    def draw_agent(self, draw: Any, box: Any) -> None:
        """Draw a swimmer: a head, a body and an arm out of the water."""
        left, top, right, bottom = box
        size, y = self.size, (top + bottom) // 2
        body = (left + size // 10, y + 2, right - size // 5, y + size // 4)
        draw.ellipse(body, fill=(214, 69, 65), outline=INK)
        head = (right - size // 3, y - size // 8, right - size // 12, y + size // 8)
        draw.ellipse(head, fill=(255, 205, 160), outline=INK)
        arm = [(left + size // 2, y + 4), (right - size // 3, y - size // 4)]
        draw.line([*arm, (right - size // 12, y - size // 5)], fill=INK, width=max(2, size // 14))


class Level(Picture):
    """A number of things, of at most S - 1: a queue's customers, an inventory's stock.

    Args:
        mdp: the MDP; state n is the number n.
        things: what they are called.
    """

    def __init__(self, mdp: TabularMDP, things: str) -> None:
        super().__init__(mdp, mdp.n_states)
        self.things = things

    def words(self, state: int, last: Last) -> str:
        """Return how many there are, the last action and its reward."""
        _, _, rest = super().words(state, last).partition(",")
        return (
            f"{state} of at most {self.mdp.n_states - 1} {self.things}{',' if rest else ''}{rest}"
        )

    def text(self, state: int, last: Last = None) -> str:
        """Return the picture in characters."""
        if self.mdp.n_states > MOST_CELLS:
            return self.words(state, last)
        shown = "|" + "o" * state + "." * (self.mdp.n_states - 1 - state) + "|"
        return f"{shown}\n{self.words(state, last)}"

    def pixels(self, state: int, last: Last = None) -> Pixels:
        """Return the picture as an array `(height, width, 3)`."""
        self._filled = state
        return super().pixels(state, last)

    def draw_cell(self, draw: Any, state: int, box: Any) -> None:
        """Draw a place, the first one being what serves them, with somebody in it or not."""
        if state == 0:
            draw.rectangle(_smaller(box, self.size // 8), fill=GREY, outline=INK, width=2)
            return
        taken = state <= self._filled
        draw.rectangle(box, fill=LIGHT, outline=WHITE)
        if taken:
            draw.ellipse(_smaller(box, max(1, self.size // 5)), fill=BLUE, outline=INK)

    def draw_agent(self, draw: Any, box: Any) -> None:
        """Draw nothing: the level is the state."""


LEVELS = {"queue": "in the queue", "inventory": "in stock"}


def picture_of(mdp: TabularMDP) -> Picture:
    """Return what draws an MDP, by its name, the options in its name, and its states' names."""
    name, _, said = mdp.name.partition(" ")
    known = ENVIRONMENTS.options(name) if name in ENVIRONMENTS else {}
    options = {key: parameter.default for key, parameter in known.items()}
    options |= {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", said)}
    if name == "riverswim":
        return River(mdp, mdp.n_states)
    if name in LEVELS:
        return Level(mdp, LEVELS[name])
    found = [re.fullmatch(r"row (\d+), column (\d+)", s) for s in mdp.state_names or ("",)]
    places = [(int(match[1]), int(match[2])) for match in found if match]
    if len(places) == mdp.n_states:
        return Picture(mdp, 0, places)
    rows, columns = options.get("rows"), options.get("columns")
    if name == "access-control":  # a row for every number of free servers
        columns = sum(named.startswith("0 free,") for named in mdp.state_names or ()) or None
    if isinstance(columns, int) and rows in (None, mdp.n_states // columns):
        return Picture(mdp, columns)
    return Picture(mdp, min(mdp.n_states, 20 if mdp.n_states <= 400 else 80))


def _best_pairs(mdp: TabularMDP) -> set[int]:
    """Return the states in which the most is paid, if that is not everywhere the same."""
    most: Floats = mdp.rewards.max(axis=1)
    return set() if most.max() == most.min() else set(np.flatnonzero(most == most.max()).tolist())


def _smaller(box: tuple[int, int, int, int], inset: int) -> tuple[int, int, int, int]:
    left, top, right, bottom = box
    return left + inset, top + inset, right - inset, bottom - inset


@lru_cache
def _font(size: int = 15) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
