"""The agents that have names of their own: settings of `PSRL`.

Each is a class to call and to ask for, as in `isinstance(agent, TSDE)`. Calling it gives a `PSRL`:
what is stored, printed and compared is the rule, the objective and the belief.
"""

import inspect
from dataclasses import fields
from operator import attrgetter
from typing import Any, ClassVar

from cpsrl.agents.agent import AGENTS
from cpsrl.agents.psrl import PSRL
from cpsrl.beliefs import Dirichlet, InRange
from cpsrl.objectives import Average, Discounted, Objective
from cpsrl.resampling import (
    Bernoulli,
    CountDoubling,
    Discoveries,
    DoublingTimes,
    EveryStep,
    FixedLength,
    Rule,
    TSDEStops,
)


class Preset(type):
    """The class of classes that are settings of their base class, of which `__new__` gives objects.

    Any object of the base class is an instance if its parts are those `wanted`, each of a class or
    equal to a value. `**settings` of `__new__` are the fields of classes that `handed_on` names.
    """

    wanted: ClassVar[dict[str, Any]] = {}
    handed_on: ClassVar[dict[type, tuple[str, ...]]] = {}

    def __instancecheck__(cls, agent: Any) -> bool:
        """Return whether an agent has these settings, however it was made."""
        return isinstance(agent, cls.__mro__[1]) and all(
            isinstance(attrgetter(name)(agent), part)
            if isinstance(part, type)
            else attrgetter(name)(agent) == part
            for name, part in cls.wanted.items()
        )

    @property
    def __signature__(cls) -> inspect.Signature:
        """What the class is called with, all settings written out."""
        _, *own = inspect.signature(cls.__new__).parameters.values()
        taken = {one.name: one for one in own if one.kind is not one.VAR_KEYWORD}
        for source, names in cls.handed_on.items():
            for item in fields(source):
                if item.name in names and item.name not in taken:
                    kind = inspect.Parameter.KEYWORD_ONLY
                    taken[item.name] = inspect.Parameter(
                        item.name, kind, default=item.default, annotation=item.type
                    )
        return inspect.Signature(list(taken.values()))


@AGENTS.add("adaptive-psrl")
class AdaptivePSRL(PSRL, metaclass=Preset):
    """Posterior sampling that learns what kind of world it is in; nothing has to be chosen.

    It plans for the average reward. Mean rewards lie in the problem's range, and whether rewards
    are noisy is learned across pairs (`InRange`); whether transitions are deterministic is learned
    for each action (`cpsrl.beliefs.row_kinds`). From the fourth visit to a pair on each counts ten
    times where models are drawn, and these look for states never left (`cpsrl.beliefs.sharpness`).

    Args:
        rule: when to draw; None for `Discoveries()`, which looks at the data. (A coin would repeat
            a useless step until it falls: docs/results.md.) Streams that share a belief need a
            coin: `Bernoulli(schedule="doubling", pairs=16)`.
        label: what to call the agent.
    """

    wanted: ClassVar = {
        "objective": Average,
        "belief": Dirichlet(rewards=InRange(), sharpness=10.0, kinds=True),
    }

    def __new__(cls, rule: Any = None, label: str = "") -> Any:
        """Return the agent."""
        chosen = Discoveries() if rule is None else rule
        name = "Adaptive PSRL" if rule is None else f"Adaptive PSRL, {chosen.label}"
        return PSRL(chosen, Average(), cls.wanted["belief"], label or name)


@AGENTS.add("continuing-psrl")
class ContinuingPSRL(PSRL, metaclass=Preset):
    """Continuing PSRL (Xu, Dong and Van Roy 2024): resample with probability 1 - gamma a step.

    Args:
        gamma: the discount factor (.99 unless there is a schedule).
        schedule: "horizon" (1 - sqrt(S A / T)), "doubling", or a function of the step.
        horizon: T of the "horizon" schedule; None takes the steps of the simulation.
        belief: what is believed, and so drawn (`cpsrl list beliefs`).
        label: what to call the agent.
    """

    wanted: ClassVar = {"rule": Bernoulli, "objective": Discounted()}

    def __new__(
        cls,
        gamma: float | None = None,
        schedule: Any = None,
        horizon: int | None = None,
        belief: Any = None,
        label: str = "",
    ) -> Any:
        """Return the agent."""
        return _psrl(Bernoulli(gamma, schedule, horizon), Discounted(), belief, label)


@AGENTS.add("tsde")
class TSDE(PSRL, metaclass=Preset):
    """Thompson sampling with dynamic episodes (Ouyang et al. 2017)."""

    wanted: ClassVar = {"rule": TSDEStops, "objective": Average}

    def __new__(cls, belief: Any = None, label: str = "") -> Any:
        """Return the agent."""
        return _psrl(TSDEStops(), Average(), belief, label)


@AGENTS.add("ds-psrl")
class DSPSRL(PSRL, metaclass=Preset):
    """Deterministically scheduled PSRL (Theocharous et al. 2018): resample at 1, 2, 4, 8, ..."""

    wanted: ClassVar = {"rule": DoublingTimes, "objective": Average}

    def __new__(cls, belief: Any = None, label: str = "") -> Any:
        """Return the agent."""
        return _psrl(DoublingTimes(), Average(), belief, label)


@AGENTS.add("count-doubling-psrl")
class CountDoublingPSRL(PSRL, metaclass=Preset):
    """PSRL that resamples when a visit count doubles (Osband, Russo and Van Roy 2013)."""

    wanted: ClassVar = {"rule": CountDoubling, "objective": Average}

    def __new__(cls, belief: Any = None, label: str = "") -> Any:
        """Return the agent."""
        return _psrl(CountDoubling(), Average(), belief, label)


@AGENTS.add("fixed-length-psrl")
class FixedLengthPSRL(PSRL, metaclass=Preset):
    """PSRL that resamples every `length` steps.

    Args:
        length: how many steps there are from one resampling to the next.
        gamma: the discount factor to plan with; None plans for the average reward.
        belief: what is believed, and so drawn (`cpsrl list beliefs`).
        label: what to call the agent.
    """

    wanted: ClassVar = {"rule": FixedLength}

    def __new__(
        cls, length: int = 100, gamma: float | None = None, belief: Any = None, label: str = ""
    ) -> Any:
        """Return the agent."""
        return _psrl(FixedLength(length), _objective(gamma), belief, label)


@AGENTS.add("every-step-psrl")
class EveryStepPSRL(PSRL, metaclass=Preset):
    """PSRL that resamples at every step.

    Args:
        gamma: the discount factor to plan with; None plans for the average reward.
        belief: what is believed, and so drawn (`cpsrl list beliefs`).
        label: what to call the agent.
    """

    wanted: ClassVar = {"rule": EveryStep}

    def __new__(cls, gamma: float | None = None, belief: Any = None, label: str = "") -> Any:
        """Return the agent."""
        return _psrl(EveryStep(), _objective(gamma), belief, label)


def _psrl(rule: Rule, objective: Objective, belief: Any, label: str) -> PSRL:
    return PSRL(rule, objective, Dirichlet() if belief is None else belief, label)


def _objective(gamma: float | None) -> Objective:
    return Average() if gamma is None else Discounted(gamma)
