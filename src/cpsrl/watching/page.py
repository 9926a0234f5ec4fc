"""A film as one page: figures that need no script, and a slider through time for those who have it.

The columns of the run (states, actions, rewards) are inside, exactly, and the script adds the
rewards up in the order of the run, so that its regrets are those of the run to the last bit. Looks
are there as `film` kept them: values in float32, probabilities in steps of .4%. Curves
are drawn with at most POINTS points, each stretch of steps by its lowest and highest value.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl.atomic import whole_file
from cpsrl.checks import count
from cpsrl.environments.pictures import picture_of
from cpsrl.pages import DASHES, escaped, page, rounded, slots
from cpsrl.pages.page import source
from cpsrl.types import Floats, Ints
from cpsrl.watching.film import Film
from cpsrl.watching.words import action_name, number, story, symbols

POINTS = 1000
ROWS = 10
"""Lines of the table for those without a script."""
PARTS = 250
"""A probability is stored as a whole number of so many parts."""


def write_page(films: Sequence[Film], path: Path | str) -> Path:
    """Write one or two films of the same MDP, steps and noise to a page; return its path."""
    path, first = Path(path), films[0]
    looks = slots([film.label for film in films])
    for film in films:
        film.advance(film.steps)
    name = first.mdp.name or "model"
    labels = " and ".join(film.label for film in films)
    noise = "on the same noise " if len(films) > 1 else ""
    intro = (
        f"One run of {first.steps:,} steps {noise}(run {first.number} of seed {first.seed}). The "
        f"best policy earns {number(first.gain)} a step, and regret is what is missing to that. "
        "One run does not say who is better: <code>cpsrl compare</code> takes many."
    )
    panels = "".join(_panel(film, i, _style(looks[film.label])) for i, film in enumerate(films))
    body = f"""<header><h1>{escaped(name)}: {escaped(labels)}</h1><p>{intro}</p></header>
{_controls(first)}
<main>
<section><h2>Regret</h2>{_regret_chart(films, looks)}</section>
<section class="films">{panels}</section>
<section class="static"><h2>The run in numbers</h2>{_table(films)}</section>
</main>"""
    text = page(
        f"{name}: {labels}",
        body,
        style=source("page.css", "cpsrl.watching"),
        script=source("page.js", "cpsrl.watching"),
        data=_data(films),
    )
    with whole_file(path) as file:
        file.write(text.encode())
    return path


def _style(slot: int) -> str:
    dash = " ".join(f"{2 * length:g}" for length in DASHES[slot % len(DASHES)])
    return f"--mine:var(--c{slot % 7});--dash:{dash or 'none'}"


def _controls(film: Film) -> str:
    pairs = [
        ("state", [film.mdp.state_name(s) for s in range(film.mdp.n_states)]),
        ("action", [action_name(film.mdp, a) for a in range(film.mdp.n_actions)]),
    ]
    chosen = "".join(
        f'<label>{what} <select id="{what}">'
        + "".join(f'<option value="{i}">{escaped(name)}</option>' for i, name in enumerate(names))
        + "</select></label>"
        for what, names in pairs
    )
    return f"""<div class="time only-js" role="group" aria-label="time">
<div class="controls"><button id="play" aria-pressed="false">play</button>
<button id="back" aria-label="to the resampling before">&#8592; model</button>
<button id="next" aria-label="to the next resampling">model &#8594;</button>
<label>speed <select id="speed"><option value="10">10 steps/s</option>
<option value="60" selected>60 steps/s</option><option value="600">600 steps/s</option></select>
</label>{chosen}
<output id="now" for="step"></output></div>
<input type="range" id="step" min="0" max="{film.steps}" value="0" aria-label="step"></div>
"""


def _panel(film: Film, index: int, style: str) -> str:
    told = "".join(f"<li>{escaped(sentence)}</li>" for sentence in story(film))
    every = f", of one pseudo-episode in {film.stride}" if film.stride > 1 else ""
    looks = f"As believed when the model was drawn{every}." if film.looks else ""
    return f"""<article id="film{index}" style="{style}">
<h2><svg class="swatch" viewBox="0 0 30 10"><path class="curve" d="M0 5H30"/></svg>
{escaped(film.label)}</h2>
<ul>{told}</ul>
<div class="only-js"><p class="here"></p><div class="world"></div></div>
<div><h3>Where it was</h3>{_trajectory_chart(film)}</div>
<div class="only-js"><h3>The last steps</h3><div class="recent"></div></div>
<div class="only-js"><h3>Model <span class="model"></span>beside the truth</h3>
<div class="wide believed"></div></div>
<div class="only-js"><h3>What it believes about <span class="pair"></span></h3>
<div class="posterior"></div><p class="note">{looks}</p></div></article>
"""


def _chart(drawn: str, box: tuple[float, float, float, float], labels: Any, what: str) -> str:
    """Return a figure that is as wide as there is room; its labels keep their size.

    Args:
        drawn: SVG in the coordinates of the data, y upwards as -y.
        box: least and largest x and y.
        labels: of the y axis, by height.
        what: the figure in words.
    """
    left, right, low, high = box
    heights = [(y, 100 * (y - low) / (high - low)) for y in labels]
    ticks = "".join(
        f'<span class="y" style="bottom:{at:.2f}%">{escaped(labels[y])}</span>' for y, at in heights
    )
    for i, x in enumerate(_ticks(left, right)):
        kind, at = f"x{' odd' * (i % 2)}{' end' * (x == right)}", 100 * (x - left) / (right - left)
        ticks += f'<span class="{kind}" style="left:{at:.2f}%">{x:,.0f}</span>'
    grid = "".join(f"M{left:g} {-y:g}H{right:g}" for y in labels)
    return f"""<figure class="chart"><div><svg viewBox="{left:g} {-high:g} {right - left:g} \
{high - low:g}" preserveAspectRatio="none" role="img" aria-label="{escaped(what)}">
<path class="grid" d="{grid}"/>{drawn}</svg>{ticks}</div></figure>"""


def _ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, about `most` of them."""
    rough = max(high - low, 1e-300) / most
    unit = 10.0 ** np.floor(np.log10(rough))
    step = next(unit * size for size in (1, 2, 5, 10) if unit * size >= rough)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(i * step) for i in range(int(first), int(last) + 1)]


def _thinned(curve: Floats) -> tuple[Ints, Floats]:
    """Return steps and values `(points,)` of a curve over 0, 1, ..., at most about POINTS."""
    if len(curve) <= POINTS:
        return np.arange(len(curve)), curve
    kept = [0, len(curve) - 1]
    for part in np.array_split(np.arange(len(curve)), POINTS // 2):
        kept += [part[curve[part].argmin()], part[curve[part].argmax()]]
    steps = np.unique(kept)
    return steps, curve[steps]


def _line(curve: Any) -> str:
    """Return the path of a curve over the steps 0, 1, ..."""
    steps, values = _thinned(np.asarray(curve, np.float64))
    points = zip(steps.tolist(), rounded(-values, 5), strict=True)
    return "M" + "L".join(f"{x} {y:g}" for x, y in points)


def _regret_chart(films: Sequence[Film], looks: dict[str, int]) -> str:
    curves = [np.append(0.0, film.regrets()) for film in films]
    low = min(0.0, *(float(curve.min()) for curve in curves))
    high = max(1e-9, *(float(curve.max()) for curve in curves))
    drawn = "".join(
        f'<g style="{_style(looks[film.label])}"><path class="curve" d="{_line(curve)}"/></g>'
        for film, curve in zip(films, curves, strict=True)
    )
    names = "".join(
        f'<span style="{_style(looks[film.label])}"><svg class="swatch" viewBox="0 0 30 10">'
        f'<path class="curve" d="M0 5H30"/></svg> {escaped(film.label)} '
        f'<b class="regret">{number(film.regret)}</b></span>'
        for film in films
    )
    steps = films[0].steps
    labels = {y: f"{y:,.6g}" for y in _ticks(low, high)}
    what = "; ".join(f"{film.label}: {number(film.regret)} after {steps:,} steps" for film in films)
    chart = _chart(drawn, (0, steps, low, high), labels, f"regret: {what}")
    return f'<p class="legend">{names}</p>{chart}'


def _trajectory_chart(film: Film) -> str:
    """Return the states over time, with a mark below for every resampling."""
    states, last = film.path()[0], film.mdp.n_states - 1
    marks = "".join(f"M{step - 1} 0" + "v1" for step in film.begun)
    room = max(1.0, 0.16 * last)
    drawn = f'<path class="path" d="{_line(states)}"/>'
    drawn += (
        f'<g transform="translate(0 {0.35 * room:g}) scale(1 {0.6 * room:g})">'
        f'<path class="mark" d="{marks}"/></g>'
    )
    box = (0, film.steps, -room, last + 0.04 * room + 1e-9)
    wanted = _ticks(0, last, 6) if film.mdp.n_states > 8 else range(last + 1)
    names = {int(s): film.mdp.state_name(int(s)) for s in wanted if s == int(s)}
    labels = {s: name if len(name) <= 6 else f"{name[:5]}…" for s, name in names.items()}
    what = f"states of {film.label} over {film.steps:,} steps"
    each = -(-2 * (film.steps + 1) // POINTS)
    thinned = f" {count(each, 'step')} to a stroke." if film.steps >= POINTS else ""
    many = count(len(film.begun), "resampling")
    marks = f"; marks below: {many}" if film.begun else ""
    note = f'<p class="note">The state at each step{marks}.{thinned}</p>'
    return _chart(drawn, box, labels, what) + note


def _table(films: Sequence[Film]) -> str:
    """Return the run as a table, for those without a script."""
    steps = np.unique(np.linspace(0, films[0].steps, ROWS + 1).astype(int)[1:])
    heads = "".join(
        f'<th colspan="3" scope="colgroup">{escaped(film.label)}</th>' for film in films
    )
    below = '<th scope="col">state</th><th scope="col">models</th><th scope="col">regret</th>'
    parts = [(film.path()[0], film.regrets(), np.array(film.begun)) for film in films]
    rows = ""
    for step in steps.tolist():
        cells = "".join(
            f"<td>{escaped(films[0].mdp.state_name(states[step]))}</td>"
            f"<td>{int((begun <= step).sum()):,}</td><td>{number(regrets[step - 1])}</td>"
            for states, regrets, begun in parts
        )
        rows += f'<tr><th scope="row">{step:,}</th>{cells}</tr>'
    return f"""<div class="wide"><table><thead><tr><td></td>{heads}</tr><tr>
<th scope="col">step</th>{below * len(films)}</tr></thead><tbody>{rows}</tbody></table></div>"""


def _data(films: Sequence[Film]) -> Any:
    """Return all that the script needs."""
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
        "rewards": rounded(mdp.rewards.ravel()),
        "rows": rows.tolist(),
        "next": next_states.tolist(),
        "true": rounded(true),
        "films": [_columns(film) for film in films],
    }


def _columns(film: Film) -> dict[str, Any]:
    """Return a film column by column."""
    states, actions, rewards = film.path()
    paid, codes = np.unique(rewards, return_inverse=True)
    few = len(paid) <= 256
    gammas = list(dict.fromkeys(repr(look.gamma) for look in film.looks))
    found: dict[str, Any] = {
        "label": film.label,
        "gain": film.gain,
        "states": _packed(states),
        "actions": _packed(actions),
        "rewards": _packed(codes if few else rewards),
        "paid": paid.tolist() if few else None,
        "begun": np.diff(film.begun, prepend=0).tolist(),
        "numbers": [look.number for look in film.looks],
        "steps": [look.step for look in film.looks],
        "earns": rounded([look.earns for look in film.looks]),
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
    for name in ("value", "rewards"):
        if name in tables:
            tables[name] = tables[name].astype(np.float32)
    if "value" in tables:
        found["truths"] = [rounded(film.true_value(float(gamma))) for gamma in gammas]
    found["tables"] = {name: _packed(table) for name, table in tables.items()}
    return found


def _packed(values: Any) -> dict[str, str]:
    """Return numbers as bytes in base64, row by row; whole ones in as few bytes as will do."""
    kind = values.dtype
    if kind.kind in "iu":
        kind = np.dtype(np.min_scalar_type(int(values.max(initial=0))))
    little = values.astype(kind.newbyteorder("<"))
    return {"kind": kind.str[1:], "bytes": base64.b64encode(little.tobytes()).decode()}
