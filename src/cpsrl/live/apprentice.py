"""When an apprentice is better than the policy that it learns from.

An apprentice does what somebody else proposes and learns from what comes of it. What was proposed
is a policy: pi_0(a | s), the shares of the actions in what was seen. The apprentice's own candidate
pi_1 takes, in every state, the best action for the average reward in the posterior's mean model
among those that were seen there at least LEAST times, and does as pi_0 where there is none (policy
improvement with a baseline for what is not known: Laroche, Trichelair and Tachet des Combes 2019).
It is better with the probability

    P(g_M(pi_1) > g_M(pi_0))  over models M of the posterior,

g being the average reward from the states as often as they were met. At SURE it takes over. The
posterior may be looked at whenever one likes: the probability is right each time, for problems that
the prior expects. An action that was never tried speaks for nothing, so where the policy before
always does the same, its apprentice never takes over by itself.

What is better is pi_1, not a policy that looks at what nobody has tried. So from then on it draws
and plans as it always does, but among the actions pi_1 had to choose from (`tried`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl.agents.psrl import PSRLAgent
from cpsrl.beliefs.belief import small_model
from cpsrl.mdp import TabularMDP
from cpsrl.planning import gain_and_bias, solve_average
from cpsrl.support.types import Bools, Ints

LEAST = 5
SURE = 0.95
DRAWS = 199


def tried(visits: Ints, available: Bools | None) -> Bools:
    """Return which actions `(S, A)` were seen LEAST times; all in a state where none was."""
    there: Bools = np.ones(visits.shape, np.bool_) if available is None else available
    known = (visits >= LEAST) & there
    return np.where(known.any(axis=1, keepdims=True), known, there)


@dataclass(frozen=True)
class Verdict:
    """How an apprentice compares with the policy that it learns from.

    Attributes:
        probability: that its own policy has the higher average reward.
        own: the posterior mean of its average reward.
        theirs: that of the policy that it learns from.
        differs: in how many states the two differ.
    """

    probability: float
    own: float
    theirs: float
    differs: int

    @property
    def better(self) -> bool:
        """Whether it takes over."""
        return self.probability >= SURE


def verdict(agent: PSRLAgent, visits: Ints, seed: int) -> Verdict:
    """Compare an agent's own policy with the one that has made the visits `(S, A)`."""
    sizes, rng = agent.sizes, np.random.default_rng(seed)
    there: Bools = np.ones(visits.shape, np.bool_) if sizes.available is None else sizes.available
    met = visits.sum(axis=1, keepdims=True)
    theirs = np.where(met > 0, visits, there) / np.where(
        met > 0, met, there.sum(axis=1, keepdims=True)
    )
    among = tried(visits, sizes.available)
    known = among & (visits >= LEAST)
    belief: Any = agent.belief.exact()
    mean = belief.mean()
    best = solve_average(TabularMDP(mean.transitions, mean.rewards, available=among)).policy
    own = np.where(known.any(axis=1, keepdims=True), np.eye(visits.shape[1])[best], theirs)
    weights = met.ravel() / max(1, met.sum())
    gains = np.zeros((DRAWS, 2))
    for i in range(DRAWS):
        drawn = small_model(belief.sample(rng), sizes)
        model = drawn if isinstance(drawn, TabularMDP) else TabularMDP(*drawn)
        gains[i] = [weights @ gain_and_bias(model, policy)[0] for policy in (own, theirs)]
    higher = gains[:, 0] > gains[:, 1] + 1e-9 * np.abs(gains).max()
    differs = int(((np.abs(own - theirs).max(axis=1) > 0) & (met.ravel() > 0)).sum())
    mine, other = gains.mean(axis=0).tolist()
    return Verdict(float(higher.mean()), mine, other, differs)


def check_can_be_one(agent: Any) -> None:
    """Raise a ValueError if an agent can't compare itself with another policy."""
    if not isinstance(agent, PSRLAgent) or not hasattr(agent.belief, "mean"):
        raise ValueError(
            f"{agent.spec.label} can't be an apprentice: tables can, with a Dirichlet belief"
        )
