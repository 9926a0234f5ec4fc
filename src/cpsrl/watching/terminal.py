"""A film in the terminal: live, with keys, or as plain lines that end."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cpsrl.documents import Table
from cpsrl.environments.pictures import picture_of
from cpsrl.support.checks import count
from cpsrl.support.types import Floats
from cpsrl.watching.film import Film
from cpsrl.watching.words import action_name, number, policy_words, story, symbols

NARROW = 72
"""On fewer columns than this there are plain lines."""
FRAMES = 12
"""Pictures a second."""
FIRST_SPEED, FASTEST = 8, 4096
LINES = 20
MOST_LISTED, MOST_ACTIONS = 8, 4
KEYS = "space pause   s step   + faster   - slower   q quit"
LEVELS = " ▁▂▃▄▅▆▇█"


def can_be_live(console: Console) -> bool:
    """Return whether a film can move here: a terminal wide enough, with keys (not on Windows)."""
    keys = sys.stdin is not None and sys.stdin.isatty() and find_spec("termios") is not None
    moves = console.is_terminal and not console.is_dumb_terminal
    return bool(moves and keys and console.width >= NARROW)


def plain_lines(films: Sequence[Film]) -> Iterator[str]:
    """Take the films to their end, and give lines of at most 60 characters about it."""
    film = films[0]
    yield f"{film.mdp.name or 'model'}, run {film.number} of seed {film.seed}"
    for mark, one in zip("AB", films, strict=False):
        yield f"{mark}: {one.label}"
    names = "".join(f"{f'regret of {mark}':>15}" for mark, _ in zip("AB", films, strict=False))
    yield f"{'step':>8}{'A is in':>10}{'models':>10}{names}"
    for step in np.unique(np.linspace(0, film.steps, LINES + 1).astype(int)[1:]).tolist():
        for one in films:
            one.advance(step - one.step)
        where = film.mdp.state_name(film.state)
        where = where if len(where) <= 9 else f"{where[:7]}.."
        regrets = "".join(f"{number(one.regret):>15}" for one in films)
        yield f"{step:>8,}{where:>10}{len(film.begun):>10,}{regrets}"


def ending(films: Sequence[Film]) -> Iterator[str]:
    """Give what was to be seen, paragraph by paragraph."""
    for film in films:
        yield ""
        yield f"{film.label}: {' '.join(story(film))}"
        if len(policy := _policy(film)):
            yield f"Its policy now: {policy_words(film.mdp, policy)}."
    yield f"The best policy: {policy_words(films[0].mdp, films[0].best.policy)}."


def _policy(film: Film) -> Any:
    policy = getattr(film.agent, "policy", None)
    return np.zeros(0, np.int64) if policy is None or not film.step else np.asarray(policy)


@contextlib.contextmanager
def keyboard() -> Iterator[Callable[[float], str]]:
    """Give a function that waits some seconds for a key; "" if none was pressed."""
    import select
    import termios
    import tty

    place = sys.stdin.fileno()
    before = termios.tcgetattr(place)

    def read(seconds: float) -> str:
        ready = select.select([place], [], [], max(seconds, 0.0))[0]
        return os.read(place, 64).decode("ascii", "ignore")[-1:] if ready else ""

    try:
        tty.setcbreak(place)
        yield read
    finally:
        termios.tcsetattr(place, termios.TCSADRAIN, before)


def play(films: Sequence[Film], console: Console) -> None:
    """Show the films as they are taken, until they end or somebody quits."""
    speed, paused, owed, seen, flash = float(FIRST_SPEED), False, 0.0, 0, 0
    with (
        keyboard() as read,
        Live(console=console, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while films[0].step < films[0].steps:
            key, taken = read(1 / FRAMES), 0
            if key == "q":
                break
            if key == " ":
                paused = not paused
            elif key in ("+", "="):
                speed = min(2 * speed, FASTEST)
            elif key in ("-", "_"):
                speed = max(speed / 2, 1.0)
            elif key == "s":
                paused, taken = True, 1
            if not paused:
                owed += speed / FRAMES
                taken, owed = int(owed), owed % 1
            for film in films:
                film.advance(taken)
            fresh, seen = len(films[0].begun) > seen, len(films[0].begun)
            flash = FRAMES // 2 if fresh else flash - (taken > 0)
            pace = "paused" if paused else f"{speed:g} steps a second"
            live.update(frame(films, console.size, pace, flash > 0), refresh=True)


def frame(films: Sequence[Film], size: tuple[int, int], pace: str, fresh: bool) -> Group:
    """Return the picture of this moment for a terminal of some columns and lines.

    `fresh`: a pseudo-episode has just begun.
    """
    film, (width, height) = films[0], size
    head = f"{film.mdp.name or 'model'}: {film.label}"
    right = f"step {film.step:,} of {film.steps:,}, {pace}"
    space = " " * max(2, width - len(head) - len(right))
    parts = [Text.assemble((head, "bold"), space, right, no_wrap=True), Text()]
    parts += [_world(film, width, height - 14), _trail(film, width), Text(), _episode(film, fresh)]
    parts += [_sureness(film, width), Text(), *_regrets(films, width)]
    return Group(*parts, Text(), Text(KEYS, style="dim"))


def _world(film: Film, width: int, most_rows: int) -> Text:
    """Return the states in their places, each with the action of the policy, the agent in one."""
    mdp, policy, picture = film.mdp, _policy(film), picture_of(film.mdp)
    marks = symbols(mdp)
    at = f"in state {mdp.state_name(film.state)}"
    if picture.columns * 3 > width or picture.rows > most_rows:
        does = f", where it does {action_name(mdp, policy[film.state])}" if len(policy) else ""
        return Text(f"{at}{does}")
    cells = [[Text("   ")] * picture.columns for _ in range(picture.rows)]
    for state, (row, column) in enumerate(picture.places):
        mark = marks[policy[state]] if len(policy) else picture.mark(state)
        paid = "bold yellow" if state in picture.best else ""
        here = state == film.state
        cells[row][column] = Text(f"[{mark}]" if here else f" {mark} ", "reverse" if here else paid)
    lines = [Text.assemble("  ", *line) for line in cells]
    caption = "the policy of the model believed now" if len(policy) else "$ pays most"
    if len(policy) and mdp.n_actions <= MOST_ACTIONS:
        caption += ": " + ", ".join(f"{m} {action_name(mdp, a)}" for a, m in enumerate(marks))
    return Text("\n").join([*lines, Text(f"  {caption}", style="dim", no_wrap=True)])


def _trail(film: Film, width: int) -> Text:
    """Return the states of the last steps, with a bar before each that resampled."""
    if film.mdp.n_states > 36:
        return Text()
    first = max(0, film.step - width // 2 + 12)
    begun = {step - 1 for step in film.begun if step > first}
    states = enumerate(film.path()[0][first:].tolist(), first)
    steps = [("|" if t in begun else " ") + np.base_repr(state, 36).lower() for t, state in states]
    return Text(f"  last states {''.join(steps)}", no_wrap=True)


def _episode(film: Film, fresh: bool) -> Text:
    if not film.begun:
        return Text("It draws no models." if film.step else "")
    since = count(film.step - film.begun[-1], "step")
    text = Text(f"model {len(film.begun):,}, drawn at step {film.begun[-1]:,}, {since} ago ")
    return text.append(" RESAMPLED " if fresh else "", "bold reverse")


def _sureness(film: Film, width: int) -> Any:
    """Return how probably each action is the best one, in all states or in the one it is in."""
    look = film.looks[-1] if film.looks else None
    if look is None or look.optimal is None:
        return ""
    mdp, actions = film.mdp, np.arange(film.mdp.n_actions)
    states = range(mdp.n_states) if mdp.n_states <= MOST_LISTED else [film.state]
    ago = f" at step {look.step:,}" if look.step != film.begun[-1] else ""
    if mdp.n_actions > MOST_ACTIONS:
        actions = np.sort(np.argsort(-look.optimal[film.state], kind="stable")[:MOST_ACTIONS])
    room = max(4, min(16, (width - 30) // len(actions) - 9))
    rows = [
        [
            f"{'>' if state == film.state else ' '} state {mdp.state_name(state)}",
            *(_bar(look.optimal[state, action], room) for action in actions),
        ]
        for state in states
    ]
    names = (action_name(mdp, action) for action in actions.tolist())
    return Table((f"sure{ago} that it is best:", *names), rows, left=1 + len(actions))


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    full, rest = divmod(eighths, 8)
    return f"{'█' * full}{'▏▎▍▌▋▊▉'[rest - 1] if rest else ''}".ljust(room) + f"{share:5.0%}"


def _regrets(films: Sequence[Film], width: int) -> list[Text]:
    """Return a line for each film: its regret so far, and how it came about."""
    curves = [film.regrets() for film in films]
    top = max((float(curve.max(initial=0.0)) for curve in curves), default=0.0)
    names = max(len(film.label) for film in films)
    room = max(10, min(40, width - names - 24))
    return [
        Text(
            f"regret {number(film.regret):>9}  {film.label:<{names}}  {_spark(curve, top, room)}",
            no_wrap=True,
        )
        for film, curve in zip(films, curves, strict=True)
    ]


def _spark(curve: Floats, top: float, room: int) -> str:
    """Return a curve as a row of bars, the whole run so far on a common scale."""
    if not len(curve) or top <= 0:
        return ""
    places = np.unique(np.linspace(0, len(curve) - 1, room).astype(int))
    levels = np.clip(np.rint(curve[places] / top * 8), 0, 8).astype(int)
    return "".join(LEVELS[level] for level in levels)
