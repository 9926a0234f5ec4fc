"""The continuing suite: a named set of problems that go on for ever, with certified numbers.

A version of the suite is a fixed list of problems: one that is changed, added or taken away makes
a new version. For every problem the facts are

    gain        the optimal gain g*, with a bound on its error that was checked,
    random      the gain of the uniformly random policy,
    span        of the bias of a bias-optimal policy,
    tau         the reward averaging time of that policy (Xu, Dong and Van Roy 2024),
    diameter    the longest of the shortest expected ways between two states (Jaksch et al. 2010),
    gamma       above which every discount factor has a gain-optimal policy (`sufficient_gamma`),

and regret is compared between problems in units of what a random policy loses,

    normalised regret after T steps = (T g* - rewards received) / (T (g* - g_random)):

1 for the random policy and 0 for the optimal one, but for what they lose or win at the beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cpsrl.environments import environment
from cpsrl.mdp import TabularMDP
from cpsrl.planning import (
    diameter,
    gain_and_bias,
    reward_averaging_time,
    solve_average,
    span,
    sufficient_gamma,
)

VERSION = 2
CERTIFIED = 1e-9
"""The largest error of a gain."""
MODELS = 10
"""So many models of a family have their facts listed."""


@dataclass(frozen=True)
class Problem:
    """A problem of the suite.

    Args:
        label: what to call it.
        name: of the environment.
        reference: where it comes from.
        options: of the environment.
        per_run: the option that takes each run's number, for a family of models.
    """

    label: str
    name: str
    reference: str
    options: Mapping[str, Any] = field(default_factory=dict)
    per_run: str | None = None

    def models(self) -> list[TabularMDP]:
        """Return the model, or the first models of a family."""
        if self.per_run is None:
            return [environment(self.name, **self.options)]
        family = [dict(self.options) | {self.per_run: number} for number in range(MODELS)]
        return [environment(self.name, **options) for options in family]


SUITE = (
    Problem("riverswim-osband", "riverswim", "Osband, Russo and Van Roy (2013)"),
    Problem("riverswim-tsde", "riverswim", "Ouyang et al. (2017)", {"variant": "tsde"}),
    Problem("deep-sea", "deep-sea", "Osband et al. (2020)"),
    Problem("frozen-lake", "frozen-lake", "Brockman et al. (2016)"),
    Problem("taxi", "taxi", "Dietterich (2000)"),
    Problem("catch", "catch", "csuite, DeepMind (2022)"),
    Problem("windy-catch", "windy-catch", "csuite, DeepMind (2022)"),
    Problem("rooms", "rooms", "Sutton, Precup and Singh (1999)"),
    Problem("access-control", "access-control", "Sutton and Barto (2018)"),
    Problem("queue", "queue", "Naor (1969)"),
    Problem("inventory", "inventory", "Puterman (1994)"),
    Problem("replacement", "replacement", "Derman (1963)"),
    Problem("random", "random", "Xu, Dong and Van Roy (2024)", per_run="seed"),
)


def _drawn(label: str, **options: Any) -> Problem:
    """Return a family of random models, chosen by their seeds and by nobody."""
    return Problem(label, "random", "Xu, Dong and Van Roy (2024)", options, "seed")


SUITES = {
    1: SUITE,
    2: (
        *SUITE,
        Problem("river-20", "riverswim", "Osband, Russo and Van Roy (2013)", {"n_states": 20}),
        Problem("grid", "gridworld", "Russell and Norvig (1995)", {"rows": 6, "columns": 6}),
        _drawn("garnet-sparse", n_states=40, n_actions=4, successors=2),
        _drawn("garnet-deterministic", n_states=40, n_actions=4, successors=1),
        _drawn("noisy-bernoulli", n_states=20, successors=3, noise="bernoulli"),
        _drawn("noisy-gaussian", n_states=20, successors=3, noise=0.3),
    ),
}
"""The versions. Rewards of noisy-gaussian are partly outside of the range that is declared."""


@dataclass(frozen=True)
class Facts:
    """What is certain about a model of the suite; the first lines of this file say what each is."""

    n_states: int
    n_actions: int
    gain: float
    error: float
    random: float
    span: float
    tau: float
    diameter: float
    gamma: float


def facts(mdp: TabularMDP) -> Facts:
    """Return the facts of a model whose optimal gain is the same from every state.

    Raise a ValueError where it is not, or where the gain could not be certified.
    """
    best = solve_average(mdp, bias_optimal=True)
    if best.error > CERTIFIED or span(best.gain) > 2 * CERTIFIED:
        raise ValueError(
            f"{mdp!r}: the gain is {best.gain.min()} to {best.gain.max()} with an error of at most "
            f"{best.error:.0e}; a problem of the suite has one gain, certified to {CERTIFIED:.0e}"
        )
    return Facts(
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        gain=float(best.gain[0]),
        error=best.error,
        random=random_gain(mdp),
        span=span(best.bias),
        tau=reward_averaging_time(mdp, best.policy).high,
        diameter=diameter(mdp),
        gamma=sufficient_gamma(mdp).gamma,
    )


def random_gain(mdp: TabularMDP) -> float:
    """Return the gain of the uniformly random policy from the initial state."""
    allowed = np.ones(mdp.rewards.shape) if mdp.available is None else mdp.available
    uniform = allowed / allowed.sum(axis=1, keepdims=True)
    gain, _ = gain_and_bias(mdp, uniform)
    return float(gain[mdp.initial] if isinstance(mdp.initial, int) else gain @ mdp.initial)
