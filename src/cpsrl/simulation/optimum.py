"""What regret is counted against: the optimal gain, or what stands for it."""

from functools import lru_cache
from typing import Any

import numpy as np

from cpsrl.agents.psrl import PSRLAgent
from cpsrl.environments.pure import EXACT, Environment, Reference, checked_reference
from cpsrl.mdp import ChangingWorld, Tabular
from cpsrl.mdp.problem import width_of
from cpsrl.planning import discounted_value, solve_average, solve_discounted
from cpsrl.simulation.fleet import FleetSimulator
from cpsrl.simulation.loops import Run, Watch
from cpsrl.simulation.runs import CHANGING
from cpsrl.support.types import Floats, Ints


def reference_of(mdp: Tabular | Environment) -> Reference:
    """Return what regret is counted against; of a table, whose gains are exact, by its state."""
    if isinstance(mdp, Tabular):
        return Reference(np.nan, CHANGING if isinstance(mdp, ChangingWorld) else EXACT)
    return checked_reference(mdp)


@lru_cache(maxsize=8)
def gains_of(mdp: Tabular) -> Floats:
    """Return the optimal gain of every state (memoised); of the first model, if it changes."""
    return solve_average(mdp.models[0]).gain


@lru_cache(maxsize=8)
def _gains_of_models(mdp: ChangingWorld) -> Floats:
    """Return the optimal gain of every model of a world that changes."""
    gains = [solve_average(model).gain for model in mdp.models]
    for number, gain in enumerate(gains):
        if np.ptp(gain) > 1e-9 * width_of(mdp.reward_range):
            raise ValueError(
                f"the optimal gain of model {number} of {mdp!r} is not the same from every state, "
                "and so there is no dynamic regret"
            )
    return np.array([gain[0] for gain in gains])


def optimum(mdp: Tabular | Environment, gain: Floats, marks: Ints) -> Floats:
    """Return what could be gained up to every mark, `(rows, points)`."""
    if not isinstance(mdp, ChangingWorld):
        return gain[:, None] * marks
    gained = mdp.spent(marks) * _gains_of_models(mdp)
    # summed one model after the other: a matrix product rounds by how many marks there are
    return np.tile(np.cumsum(gained, axis=1)[:, -1], (len(gain), 1))


def discounted_loss(run: Run, mdp: Any) -> Watch:
    """Return the regret of a pseudo-episode: V*(s) - V_pi(s), gamma-discounted, in `mdp`."""
    one = not isinstance(run.simulator, FleetSimulator)
    if not one or not isinstance(run.agent, PSRLAgent) or not run.agent.objective.discounts:
        raise ValueError("the discounted regret is that of an agent that plans discounted")
    if isinstance(mdp, ChangingWorld):
        raise ValueError("the discounted regret is that of a world that does not change")

    @lru_cache(maxsize=1024)
    def best(gamma: float) -> Floats:
        return solve_discounted(mdp, gamma).value

    @lru_cache(maxsize=4096)
    def achieved(policy: bytes, gamma: float) -> Floats:
        return discounted_value(mdp, np.frombuffer(policy, np.int64), gamma)

    def loss(state: int, agent: PSRLAgent) -> float:
        gamma = agent.planning_gamma()
        return float(best(gamma)[state] - achieved(agent.policy.tobytes(), gamma)[state])

    return loss
