"""The site: `make docs` builds it offline, and a warning is an error."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
sys.path.insert(0, str(HERE.parent / "src"))

from reference import summaries  # noqa: E402

import cpsrl  # noqa: E402

project = "cpsrl"
author = "The cpsrl contributors"
release = cpsrl.__version__
html_title = "cpsrl"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "examples",
    "intervals",
    "mathml",
    "reference",
]
exclude_patterns = ["_extensions", "_templates", "examples"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", ".*"),  # in signatures: types of other libraries, and our own inner ones
    ("py:obj", r"(?!cpsrl\.).*"),  # in text: arguments, and anything else in backticks
]

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block"]
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"sidebar_hide_name": False}
pygments_style = "default"
pygments_dark_style = "monokai"

autosummary_ignore_module_all = False
autosummary_context = {"summaries": summaries()}
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
napoleon_use_ivar = True
