"""Plugins: installed packages that enter environments, rules, beliefs, objectives and agents.

A package says in its metadata what is to be loaded, a module that registers when it is imported or
a function that registers when it is called:

    [project.entry-points.cpsrl]
    lamps = "lampworks.environments"

Plugins are loaded once, when a name is asked for that nobody has registered yet, or when all names
are listed. One that fails is a warning that names its package.

What may be loaded is decided by what is installed and by nothing else: specifications and results
directories hold names, and no file of theirs can say where a name is to be imported from.
"""

import threading
import warnings
from functools import cache
from importlib import metadata
from types import ModuleType

GROUP = "cpsrl"

_lock = threading.RLock()
_loaded = False
_loading = ""


def load_plugins() -> None:
    """Load the plugins that are installed, unless that was done before."""
    global _loaded, _loading
    with _lock:
        if _loaded:
            return
        _loaded = True
        points = [(p.dist.name if p.dist else "", p) for p in metadata.entry_points(group=GROUP)]
        for package, point in sorted(points, key=lambda found: (found[0], found[1].name)):
            _loading = package
            try:
                found = point.load()
                if not isinstance(found, ModuleType):
                    found()
            except (Exception, SystemExit) as error:
                version = point.dist.version if point.dist else ""
                warnings.warn(
                    f"the plugin {point.name!r} of the package {package} {version} cannot be used: "
                    f"{type(error).__name__}: {error}",
                    stacklevel=2,
                )
            finally:
                _loading = ""


def package_being_loaded() -> str:
    """Return the package whose plugin is being loaded, if one is."""
    return _loading


@cache
def package_of(module: str) -> str:
    """Return the installed package that a module belongs to; empty for a user's own."""
    root = module.partition(".")[0]
    return "cpsrl" if root == "cpsrl" else metadata.packages_distributions().get(root, [""])[0]
