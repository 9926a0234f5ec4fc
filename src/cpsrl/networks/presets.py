"""Agents with networks that have names of their own: settings of `ValueSampling`.

Bootstrapped DQN is the setting with independent networks. DQN (Mnih et al. 2015) is the one with
one of them, no prior function, and a random action with probability epsilon.
"""

from typing import Any, ClassVar

from cpsrl.agents.agent import AGENTS
from cpsrl.agents.presets import Preset
from cpsrl.networks.agent import ValueSampling
from cpsrl.networks.members import Members
from cpsrl.objectives import Discounted, Objective
from cpsrl.resampling import Bernoulli, Never, Rule, checked_rule

OF_MEMBERS = ("members", "prior_scale", "mask", "hidden")
OF_LEARNING = ("epsilon", "learning_rate", "batch", "target_every", "capacity", "anneal", "label")


@AGENTS.add("bootstrapped-dqn")
class BootstrappedDQN(ValueSampling, metaclass=Preset):
    """Bootstrapped DQN that draws a new member when a coin says so (Xu et al. 2024, section 6).

    The paper gives gamma = .99 and the coin. Members, masks and prior functions are those of Osband
    et al. (2016, 2018); the layers are bsuite's, Adam has its authors' constants, and the rest are
    common settings of DQN that were found to work on RiverSwim.

    Args:
        gamma: short for the coin `Bernoulli(gamma)`, which also gives the discount factor (.99);
            with a rule that has no gamma, short for `Discounted(gamma)`.
        rule: when to draw a new member.
        objective: what to learn; by default the return discounted by the rule's gamma.
        settings: those of `Members` and of `ValueSampling`.
    """

    wanted: ClassVar = {"belief": Members}
    handed_on: ClassVar = {Members: OF_MEMBERS, ValueSampling: OF_LEARNING}

    def __new__(
        cls,
        gamma: float | None = None,
        rule: Rule | None = None,
        objective: Objective | None = None,
        **settings: Any,
    ) -> Any:
        """Return the agent."""
        if rule is None:
            rule = Bernoulli(gamma=gamma)
        elif checked_rule(rule).has_gamma:
            if gamma not in (None, getattr(rule, "gamma", None)):
                raise ValueError(f"gamma is {gamma}, but the rule has its own: {rule.label}")
        elif objective is None:
            objective = Discounted(0.99 if gamma is None else gamma)
        elif gamma is not None:
            raise ValueError(f"gamma is {gamma}, and the objective is given: {objective!r}")
        objective = Discounted() if objective is None else objective
        belief = Members(**{name: settings.pop(name) for name in OF_MEMBERS if name in settings})
        return ValueSampling(rule, objective, belief, **settings)


@AGENTS.add("dqn")
class DQN(ValueSampling, metaclass=Preset):
    """DQN (Mnih et al. 2015): one network without a prior, and a random action now and then.

    Args:
        gamma: short for `Discounted(gamma)`, by default .99.
        epsilon: the probability of a random action.
        objective: what to learn; with `Average()`, rewards are centred.
        label: what to call the agent in tables and figures.
        settings: `hidden` of `Members`, and those of `ValueSampling`.
    """

    wanted: ClassVar = {
        "rule": Never,
        "belief": Members,
        "belief.members": 1,
        "belief.prior_scale": 0.0,
    }
    handed_on: ClassVar = {Members: ("hidden",), ValueSampling: OF_LEARNING}

    def __new__(
        cls,
        gamma: float | None = None,
        epsilon: float = 0.1,
        objective: Objective | None = None,
        label: str = "DQN",
        **settings: Any,
    ) -> Any:
        """Return the agent."""
        own = {"members": 1, "prior_scale": 0.0, "epsilon": epsilon, "label": label}
        return BootstrappedDQN(gamma, Never(), objective, **settings, **own)
