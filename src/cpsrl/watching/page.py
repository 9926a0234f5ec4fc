"""A film as one page: a slider through time, and pictures and a table where there is no script.

The columns of the run (states, actions, rewards) are inside, exactly, and the script adds the
rewards up in the order of the run, so that its regrets are those of the run to the last bit. Looks
are there as `film` kept them: rewards in float32, probabilities in steps of .4%.
"""

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from cpsrl.documents import COLOURS, DASHES, Cell, Table, page, rounded, slots
from cpsrl.documents.pictures import inline, look, panels, style, tick
from cpsrl.environments.pictures import picture_of
from cpsrl.support.atomic import whole_file
from cpsrl.support.checks import count
from cpsrl.watching.film import Film
from cpsrl.watching.words import action_name, number, story, symbols

ROWS = 10
"""Rows of the table that stands in where there is no JavaScript."""
PARTS = 250
"""A probability p is stored as the whole number nearest to PARTS p."""


def write_page(films: Sequence[Film], path: Path | str) -> Path:
    """Write one or two films of the same MDP, steps and noise to a page; return its path."""
    path, first = Path(path), films[0]
    for film in films:
        film.advance(film.steps)
    labels = [film.label for film in films]
    name = f"{first.mdp.name or 'model'}: {' and '.join(labels)}"
    looks = slots(labels)
    panels_of = []
    for film in films:
        colour = COLOURS[looks[film.label] % len(COLOURS)]
        panel = {"label": film.label, "slot": looks[film.label], "story": story(film), "film": film}
        panel |= {"marks": count(len(film.begun), "resampling")}
        panels_of.append(panel | {"picture": _picture(film.steps, _trajectory, film, colour)})
    text = page(
        "watching/page.html",
        name,
        styles=("documents/chart.css", "watching/page.css"),
        scripts=("documents/chart.js", "watching/page.js"),
        data=_data(films),
        films=panels_of,
        gain=number(first.gain),
        states=[first.mdp.state_name(s) for s in range(first.mdp.n_states)],
        actions=[action_name(first.mdp, a) for a in range(first.mdp.n_actions)],
        regret=_picture(first.steps, _regrets, films),
        table=_table(films),
    )
    with whole_file(path) as file:
        file.write(text.encode())
    return path


def _regrets(ax: Axes, films: Sequence[Film]) -> None:
    """Draw the regrets, for those without a script."""
    looks = look([film.label for film in films])
    for film in films:
        ax.plot(np.append(0.0, film.regrets()), label=film.label, **looks[film.label])
    ax.set_ylabel("regret")
    ax.legend(frameon=False)


def _trajectory(ax: Axes, film: Film, colour: str) -> None:
    """Draw the states over time, with a mark below for every resampling."""
    ax.plot(film.path()[0], color=colour, linewidth=0.8)
    ax.plot(film.begun, np.full(len(film.begun), -1), "|", color="#222222", markersize=6)
    ax.set_ylabel("state")
    if film.mdp.n_states <= 8:
        ax.set_yticks(range(film.mdp.n_states), film.mdp.state_names)


def _picture(steps: int, draw: Callable[..., None], *what: Any) -> str:
    with style():
        figure, (ax,) = panels(1, 8, 2.7)
        draw(ax, *what)
        ax.set(xlabel="step", xlim=(0, steps))
        ax.xaxis.set_major_formatter(tick)
        return inline(figure)


def _table(films: Sequence[Film]) -> Table:
    """Return the run as a table, for those without a script."""
    steps = np.unique(np.linspace(0, films[0].steps, ROWS + 1).astype(int)[1:]).tolist()
    parts = [(film, film.path()[0], film.regrets(), np.array(film.begun)) for film in films]
    rows = [[f"{step:,}"] for step in steps]
    for film, states, regrets, begun in parts:
        for row, step in zip(rows, steps, strict=True):
            row += [film.mdp.state_name(states[step]), f"{(begun <= step).sum():,}"]
            row.append(number(regrets[step - 1]))
    heads = [
        Cell(what, below=film.label) for film in films for what in ("state", "models", "regret")
    ]
    return Table(("step", *heads), rows)


def _data(films: Sequence[Film]) -> Any:
    """Return all that the script needs."""
    looks = slots([film.label for film in films])
    first = films[0]
    mdp, picture = first.mdp, picture_of(first.mdp)
    rows, next_states = first.successors
    true = np.asarray(mdp.csr[rows, next_states]).ravel()
    return {
        "steps": first.steps,
        "states": [mdp.state_name(s) for s in range(mdp.n_states)],
        "actions": [action_name(mdp, a) for a in range(mdp.n_actions)],
        "symbols": symbols(mdp),
        "places": [list(place) for place in picture.places],
        "pays": sorted(picture.best),
        "best": first.best.policy.tolist(),
        "worse": (first.loss > 0).ravel().astype(int).tolist(),
        "rewards": mdp.rewards.ravel().tolist(),
        "rows": rows.tolist(),
        "next": next_states.tolist(),
        "true": rounded(true),
        "dashes": [list(dash) for dash in DASHES],
        "films": [_columns(film, looks[film.label]) for film in films],
    }


def _columns(film: Film, slot: int) -> dict[str, Any]:
    """Return a film column by column."""
    states, actions, rewards = film.path()
    paid, codes = np.unique(rewards, return_inverse=True)
    few = len(paid) <= 256
    gammas = list(dict.fromkeys(repr(look.gamma) for look in film.looks))
    found: dict[str, Any] = {
        "label": film.label,
        "slot": slot,
        "gain": film.gain,
        "states": _packed(states),
        "actions": _packed(actions),
        "rewards": _packed(codes if few else rewards),
        "paid": paid.tolist() if few else None,
        "begun": np.diff(film.begun, prepend=0).tolist(),
        "numbers": [look.number for look in film.looks],
        "steps": [look.step for look in film.looks],
        "earns": [look.earns for look in film.looks],
        "gammas": gammas,
        "gamma": [gammas.index(repr(look.gamma)) for look in film.looks],
    }
    tables = {
        name: np.array([getattr(look, name) for look in film.looks])
        for name in ("policy", "value", "optimal", "rewards", "successors")
        if film.looks and getattr(film.looks[0], name) is not None
    }
    for name in ("optimal", "successors"):
        if name in tables:
            tables[name] = np.rint(PARTS * tables[name]).astype(np.int64)
    if "rewards" in tables:
        tables["rewards"] = tables["rewards"].astype(np.float32)
    if "value" in tables:
        found["truths"] = [film.true_value(float(gamma)).tolist() for gamma in gammas]
    found["tables"] = {name: _packed(table) for name, table in tables.items()}
    return found


def _packed(values: Any) -> dict[str, str]:
    """Return numbers as bytes in base64, row by row; whole ones in as few bytes as will do."""
    kind = values.dtype
    if kind.kind in "iu":
        kind = np.dtype(np.min_scalar_type(int(values.max(initial=0))))
    little = values.astype(kind.newbyteorder("<"))
    return {"kind": kind.str[1:], "bytes": base64.b64encode(little.tobytes()).decode()}
