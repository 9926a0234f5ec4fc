"""One self-contained HTML file: style, script, figures and data inside, nothing from a network.

Pages are Jinja templates that extend `page.html`; every text is escaped where it is put in, unless
it is `Markup`. The Content-Security-Policy of a file forbids every request, but those of a served
page to its own server, and runs the script that the page was made with and no other, known by its
hash: even a name that slipped through unescaped could not run.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jinja2 import Environment

IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""What must not stand in a script element as it is: in JSON these are in strings alone."""


def source(path: str) -> str:
    """Return a template, style sheet or script by its path below the package."""
    return resources.files("cpsrl").joinpath(path).read_text(encoding="utf-8")


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    loader = FunctionLoader(source)
    kinds: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined}
    return Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, **kinds)


def rendered(template: str, **context: Any) -> str:
    """Return a template, by its path below the package, with its variables put in."""
    return _templates().get_template(template).render(**context)


def page(
    template: str,
    title: str,
    *,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    data: Any = None,
    asks: bool = False,
    **context: Any,
) -> str:
    """Return a whole HTML document in the look of all pages.

    Args:
        template: the path of a template that extends `documents/page.html`.
        title: plain text.
        styles: paths of style sheets beyond `documents/page.css`.
        scripts: paths of scripts, run at the end of the body. `data` is there as
            `JSON.parse(document.getElementById("data").textContent)`.
        data: what `json` takes; of arrays, what `rounded` makes.
        asks: whether the page may ask the server that it came from, and that one alone.
        context: the variables of the template.
    """
    from markupsafe import Markup

    style = "".join(map(source, ("documents/page.css", *styles)))
    script = "".join(map(source, ("documents/page.js", *scripts)))
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{known}'"
        f"; connect-src '{'self' if asks else 'none'}'; base-uri 'none'; form-action 'none'"
    )
    own = {"style": style, "script": script, "data": as_json(data), "policy": policy}
    trusted = {name: Markup(text) for name, text in own.items()}
    return rendered(template, title=title, **trusted, **context)


def as_json(data: Any) -> str:
    """Return `data` as JSON that can stand in a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(IN_SCRIPT)


def rounded(values: Any, digits: int = 5) -> Any:
    """Return an array of any shape as lists of rounded numbers; None where one is not finite.

    Whole numbers are written without a point, since most of a page's weight are numbers.
    """
    if isinstance(values, np.ndarray | list | tuple):
        return [rounded(value, digits) for value in np.asarray(values).tolist()]
    if not np.isfinite(values):
        return None
    short = float(f"{values:.{digits}g}")
    return int(short) if short.is_integer() else short
