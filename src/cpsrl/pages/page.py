"""One self-contained HTML file: style, script, figures and data inside, nothing from a network.

The file's Content-Security-Policy forbids every request, but those of a served page to its own
server, and runs the script that the page was made with and no other, known by its hash: even a name
that slipped through unescaped could not run.
"""

import base64
import hashlib
import json
from html import escape
from importlib import resources
from typing import Any

import numpy as np


def page(
    title: str,
    body: str,
    *,
    style: str = "",
    script: str = "",
    data: Any = None,
    asks: bool = False,
) -> str:
    """Return a whole HTML document in the look of all pages.

    Args:
        title: plain text.
        body: HTML; every text in it that comes from a user has been through `escaped`.
        style: CSS beyond `page.css`.
        script: JavaScript, run at the end of the body, of our own only. `data` is there as
            `JSON.parse(document.getElementById("data").textContent)`. The class `js` of the
            root element says that scripts run at all: `.static` is what is shown without.
        data: what `json` takes; of arrays, what `rounded` makes.
        asks: whether the page may ask the server that it came from, and that one alone.
    """
    script = f'document.documentElement.classList.add("js");\n{script}'
    runs = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{runs}'; "
        f"connect-src '{'self' if asks else 'none'}'; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="cpsrl">
<title>{escaped(title)}</title>
<style>
{source("page.css")}{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{as_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def escaped(text: Any) -> str:
    """Return `text` such that HTML shows it as it is, in an element as well as in an attribute."""
    return escape(str(text), quote=True)


def as_json(data: Any) -> str:
    """Return `data` as JSON that can stand in a script element: it has no `<`."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def rounded(values: Any, digits: int = 5) -> Any:
    """Return an array of any shape as lists of numbers with so many digits; None where not finite.

    Whole numbers are written without a point, since most of a page's weight are numbers.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        if not np.isfinite(value):
            return None
        short = float(f"{value:.{digits}g}")
        return int(short) if short.is_integer() else short

    return plain(np.asarray(values).tolist())


def source(name: str, package: str = "cpsrl.pages") -> str:
    """Return a style sheet or script that lies in the folder of `package`."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
