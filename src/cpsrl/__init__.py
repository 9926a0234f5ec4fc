"""Posterior sampling for environments that never reset.

The names that most programs need. The rest is in the folders: `cpsrl.planning`, `cpsrl.beliefs`,
`cpsrl.agents`, `cpsrl.networks`, `cpsrl.simulation`, `cpsrl.live`, `cpsrl.experiments`,
`cpsrl.theory`, `cpsrl.reports`, and `cpsrl.statistics`. Everything is imported when it is first
used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from cpsrl.agents import DSPSRL, PSRL, TSDE, UCRL2, ContinuingPSRL, RandomAgent, resume, start
    from cpsrl.beliefs import Belief, Dirichlet, KnownRewards, NormalGamma
    from cpsrl.environments import environment
    from cpsrl.experiments import Entry, Experiment, load, play, run_experiment
    from cpsrl.live import open
    from cpsrl.mdp import TabularMDP
    from cpsrl.networks import DQN, BootstrappedDQN
    from cpsrl.objectives import Average, Discounted
    from cpsrl.planning import planning_gap, solve_average, solve_discounted, span
    from cpsrl.registration import register
    from cpsrl.resampling import (
        Bernoulli,
        CountDoubling,
        DoublingTimes,
        EveryStep,
        FixedLength,
        Never,
        Rule,
        TSDEStops,
    )
    from cpsrl.simulation import simulate
    from cpsrl.sizes import Sizes

__all__ = [
    "DQN",
    "DSPSRL",
    "PSRL",
    "TSDE",
    "UCRL2",
    "Average",
    "Belief",
    "Bernoulli",
    "BootstrappedDQN",
    "ContinuingPSRL",
    "CountDoubling",
    "Dirichlet",
    "Discounted",
    "DoublingTimes",
    "Entry",
    "EveryStep",
    "Experiment",
    "FixedLength",
    "KnownRewards",
    "Never",
    "NormalGamma",
    "RandomAgent",
    "Rule",
    "Sizes",
    "TSDEStops",
    "TabularMDP",
    "environment",
    "load",
    "open",
    "planning_gap",
    "play",
    "register",
    "resume",
    "run_experiment",
    "simulate",
    "solve_average",
    "solve_discounted",
    "span",
    "start",
]

_HOMES = {
    "mdp": "TabularMDP",
    "environments": "environment",
    "planning": "planning_gap solve_average solve_discounted span",
    "resampling": "Bernoulli CountDoubling DoublingTimes EveryStep FixedLength Never Rule "
    "TSDEStops",
    "objectives": "Average Discounted",
    "beliefs": "Belief Dirichlet KnownRewards NormalGamma",
    "agents": "DSPSRL PSRL TSDE UCRL2 ContinuingPSRL RandomAgent resume start",
    "simulation": "simulate",
    "networks": "DQN BootstrappedDQN",
    "live": "open",
    "experiments": "Entry Experiment load play run_experiment",
    "sizes": "Sizes",
    "registration": "register",
}
"""Where the public names are; a name that is nowhere here may be in one of PARTS."""
PARTS = (*_HOMES, "statistics", "seeding", "theory", "reports")
RENAMED = {"Prior": "Dirichlet"}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a public name, a part of the package or its version; of others say where."""
        if name in PARTS:
            return import_module(f"{__name__}.{name}")
        for home, names in _HOMES.items():
            if name in names.split():
                value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
                return value
        if name == "__version__":
            found = import_module("importlib.metadata").distributions(name=__name__)
            return next((distribution.version for distribution in found), "unknown")
        hint = f"; it is called cpsrl.{RENAMED[name]} now" if name in RENAMED else ""
        known = hint or name.startswith("_") or find_spec(f"{__name__}.{name}")
        for part in () if known else PARTS:
            there = getattr(import_module(f"{__name__}.{part}"), name, None)
            if getattr(there, "__module__", "").startswith("cpsrl."):
                hint = f"; it is cpsrl.{part}.{name}"
                break
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__all__, *PARTS]
