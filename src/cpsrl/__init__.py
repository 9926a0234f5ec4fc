"""Posterior sampling for environments that never reset.

The names that most programs need. The rest is in the folders: `cpsrl.planning`, `cpsrl.beliefs`,
`cpsrl.agents`, `cpsrl.networks`, `cpsrl.simulation`, `cpsrl.live`, `cpsrl.experiments`,
`cpsrl.theory`, `cpsrl.reports`, and `cpsrl.statistics`. Everything is imported when it is first
used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cpsrl.support import renamed

if TYPE_CHECKING:
    __version__: str
    from cpsrl.agents import (
        DSPSRL,
        PSRL,
        TSDE,
        UCRL2,
        AdaptivePSRL,
        ContinuingPSRL,
        RandomAgent,
        resume,
        start,
    )
    from cpsrl.agents.registration import register
    from cpsrl.beliefs import Belief, Dirichlet, KnownRewards, NormalGamma
    from cpsrl.environments import environment
    from cpsrl.experiments import Entry, Experiment, load, run_experiment
    from cpsrl.experiments.play import play
    from cpsrl.live import open
    from cpsrl.mdp import TabularMDP
    from cpsrl.mdp.problem import Sizes
    from cpsrl.networks import DQN, BootstrappedDQN
    from cpsrl.objectives import Average, Discounted
    from cpsrl.planning import planning_gap, solve_average, solve_discounted, span
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
    from cpsrl.simulation.simulate import simulate

__all__ = [
    "DQN", "DSPSRL", "PSRL", "TSDE", "UCRL2", "AdaptivePSRL", "Average", "Belief", "Bernoulli",
    "BootstrappedDQN",
    "ContinuingPSRL", "CountDoubling", "Dirichlet", "Discounted", "DoublingTimes", "Entry",
    "EveryStep", "Experiment", "FixedLength", "KnownRewards", "Never", "NormalGamma",
    "RandomAgent", "Rule", "Sizes", "TSDEStops", "TabularMDP", "environment", "load", "open",
    "planning_gap", "play", "register", "resume", "run_experiment", "simulate", "solve_average",
    "solve_discounted", "span", "start",
]  # fmt: skip

_HOMES = {
    "mdp": "TabularMDP",
    "environments": "environment",
    "planning": "planning_gap solve_average solve_discounted span",
    "resampling": "Bernoulli CountDoubling DoublingTimes EveryStep FixedLength Never Rule "
    "TSDEStops",
    "objectives": "Average Discounted",
    "beliefs": "Belief Dirichlet KnownRewards NormalGamma",
    "agents": "AdaptivePSRL DSPSRL PSRL TSDE UCRL2 ContinuingPSRL RandomAgent resume start",
    "simulation": "simulate",
    "networks": "DQN BootstrappedDQN",
    "live": "open",
    "experiments": "Entry Experiment load play run_experiment",
    "mdp.problem": "Sizes",
    "agents.registration": "register",
}
"""Where the public names are; a name that is nowhere here may be in one of PARTS."""
MORE = ("statistics", "seeding", "theory", "paper", "reports")
PARTS = (*(home for home in _HOMES if "." not in home), *MORE)
RENAMED = {"Prior": "Dirichlet"}
ELSEWHERE = {"make": "environment", "env": "environment", "evaluate": "simulate", "run": "simulate"}
"""What these are called here."""


renamed.install()

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a public name, a part of the package or its version; of others say where."""
        if name in PARTS or f"{__name__}.{name}" in renamed.MODULES:
            return import_module(f"{__name__}.{name}")
        for home, names in _HOMES.items():
            if name in names.split():
                value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
                return value
        if name == "__version__":
            found = import_module("importlib.metadata").distributions(name=__name__)
            return next((distribution.version for distribution in found), "unknown")
        hint = f"; it is called cpsrl.{RENAMED[name]} now" if name in RENAMED else ""
        if name in ELSEWHERE:
            hint = f": did you mean cpsrl.{ELSEWHERE[name]}?"
        known = hint or name.startswith("_") or find_spec(f"{__name__}.{name}")
        for part in () if known else PARTS:
            there = getattr(import_module(f"{__name__}.{part}"), name, None)
            if getattr(there, "__module__", "").startswith("cpsrl."):
                hint = f"; it is cpsrl.{part}.{name}"
                break
        else:
            get_close_matches = import_module("difflib").get_close_matches
            lower = {word.lower(): word for word in (*__all__, *PARTS)}
            if not known and (near := get_close_matches(name.lower(), lower, 1, 0.75)):
                hint = f": did you mean cpsrl.{lower[near[0]]}?"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__all__, *PARTS]
