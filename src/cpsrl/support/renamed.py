"""Names of the release before this one: they still work, with a DeprecationWarning, until 0.4.0.

`MODULES` says where a module went, `NAMES` where a public name of a module went, and
after a colon its name there. Everything that
was renamed is listed in docs/renamed.md.
"""

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

SAME = {
    "cpsrl -> cpsrl.support": "atomic checks plugins registry types",
    "cpsrl -> cpsrl.agents": "registration",
    "cpsrl -> cpsrl._private": "variates",
    "cpsrl.theory -> cpsrl.paper": "claims counterexamples from_prior search verdicts",
}
"""Modules that went to another folder under the same name."""
MODULES = {
    "cpsrl._compile": "cpsrl._private.compile",
    "cpsrl.pages": "cpsrl.documents",
    "cpsrl.sizes": "cpsrl.mdp.problem",
    "cpsrl.trees": "cpsrl.support.serialise",
    "cpsrl.waiting": "cpsrl.support.interruptible",
    "cpsrl.agents.ahead": "cpsrl.agents.rule_buffer",
    "cpsrl.agents.known": "cpsrl.agents.presets",
    "cpsrl.agents.recipe": "cpsrl.agents.codec",
    "cpsrl.agents.predictor": "cpsrl.agents.sb3",
    "cpsrl.agents.saved": "cpsrl.agents.checkpoint",
    "cpsrl.experiments.progress": "cpsrl.support.progress",
    "cpsrl.beliefs.gamma": "cpsrl.beliefs.gamma_variates",
    "cpsrl.beliefs.posteriors": "cpsrl.beliefs.parameter_posteriors",
    "cpsrl.live.tally": "cpsrl.live.totals",
    "cpsrl.mdp.copies": "cpsrl.mdp.vector",
    "cpsrl.mdp.long_form": "cpsrl.mdp.transition_tables",
    "cpsrl.networks.crew": "cpsrl.networks.batched",
    "cpsrl.networks.ensemble": "cpsrl.networks.members",
    "cpsrl.reports.figures": "cpsrl.documents.figures",
    "cpsrl.reports.paper": "cpsrl.paper.figures",
    "cpsrl.simulation.recording": "cpsrl.simulation.loops",
    "cpsrl.simulation.run": "cpsrl.simulation.loops",
    "cpsrl.simulation.tabular": "cpsrl.simulation.compiled",
    "cpsrl.simulation.walk": "cpsrl.simulation.stepwise",
}
for _way, _names in SAME.items():
    _old, _new = _way.split(" -> ")
    MODULES |= {f"{_old}.{name}": f"{_new}.{name}" for name in _names.split()}
NAMES = {
    ("cpsrl.theory", name): "cpsrl.paper"
    for name in ("CLAIMS", "COUNTEREXAMPLES", "Finding", "counterexample", "verify")
}
NAMES[("cpsrl.mdp.changes", "Changes")] = "cpsrl.mdp:ChangingWorld"
NAMES |= {("cpsrl.live.durable", name): "cpsrl.live.opening" for name in ("open", "view")}


def moved(module: str, name: str) -> Any:
    """Return what `module` called `name` in the release before; raise an AttributeError if none."""
    if (module, name) not in NAMES:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, _, new = NAMES[module, name].partition(":")
    _warn(f"{module}.{name}", f"{home}.{new or name}")
    return getattr(import_module(home), new or name)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=4)


class _Renamed(MetaPathFinder, Loader):
    """Finds modules by the names that they had."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return a specification for a module that has another name now."""
        return spec_from_loader(fullname, self) if fullname in MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to `import` to make a module, whose place another takes."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the present name in the place of `module`."""
        name = module.__name__
        _warn(name, MODULES[name])
        sys.modules[name] = import_module(MODULES[name])


def install() -> None:
    """Let `import` find modules by the names that they had."""
    if not any(isinstance(finder, _Renamed) for finder in sys.meta_path):
        sys.meta_path.append(_Renamed())
