"""The agents that have names of their own: settings of `PSRL`."""

from typing import Any

from cpsrl.agents.agent import AGENTS
from cpsrl.agents.psrl import PSRL
from cpsrl.beliefs import Dirichlet
from cpsrl.objectives import Average, Discounted, Objective
from cpsrl.resampling import (
    Bernoulli,
    CountDoubling,
    DoublingTimes,
    EveryStep,
    FixedLength,
    Rule,
    TSDEStops,
)


@AGENTS.add("continuing-psrl")
def ContinuingPSRL(
    gamma: float | None = None,
    schedule: Any = None,
    horizon: int | None = None,
    belief: Any = None,
    label: str = "",
) -> PSRL:
    """Continuing PSRL (Xu, Dong and Van Roy 2024): resample with probability 1 - gamma a step.

    Args:
        gamma: the discount factor (.99 unless there is a schedule).
        schedule: "horizon" (1 - sqrt(S A / T)), "doubling", or a function of the step.
        horizon: T of the "horizon" schedule; None takes the steps of the simulation.
        belief: what is drawn.
        label: what to call the agent.
    """
    return _psrl(Bernoulli(gamma, schedule, horizon), Discounted(), belief, label)


@AGENTS.add("tsde")
def TSDE(belief: Any = None, label: str = "") -> PSRL:
    """Thompson sampling with dynamic episodes (Ouyang et al. 2017)."""
    return _psrl(TSDEStops(), Average(), belief, label)


@AGENTS.add("ds-psrl")
def DSPSRL(belief: Any = None, label: str = "") -> PSRL:
    """Deterministically scheduled PSRL (Theocharous et al. 2018): resample at 1, 2, 4, 8, ..."""
    return _psrl(DoublingTimes(), Average(), belief, label)


@AGENTS.add("count-doubling-psrl")
def CountDoublingPSRL(belief: Any = None, label: str = "") -> PSRL:
    """PSRL that resamples when a visit count doubles (Osband, Russo and Van Roy 2013)."""
    return _psrl(CountDoubling(), Average(), belief, label)


@AGENTS.add("fixed-length-psrl")
def FixedLengthPSRL(
    length: int = 100, gamma: float | None = None, belief: Any = None, label: str = ""
) -> PSRL:
    """PSRL that resamples every `length` steps; with `gamma` it plans discounted, else average."""
    return _psrl(FixedLength(length), _objective(gamma), belief, label)


@AGENTS.add("every-step-psrl")
def EveryStepPSRL(gamma: float | None = None, belief: Any = None, label: str = "") -> PSRL:
    """PSRL that resamples at every step; with `gamma` it plans discounted, else average."""
    return _psrl(EveryStep(), _objective(gamma), belief, label)


def _psrl(rule: Rule, objective: Objective, belief: Any, label: str) -> PSRL:
    return PSRL(rule, objective, Dirichlet() if belief is None else belief, label)


def _objective(gamma: float | None) -> Objective:
    return Average() if gamma is None else Discounted(gamma)
