"""Live agents with networks of one kind, side by side: one compiled call for all of them.

Each agent keeps its replay and its streams and draws what it would draw alone; only acting and
learning are computed together, one agent after the other inside the compiled code, so that every
one does what it would do by itself.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.networks.learner import greedy, learn


@partial(jax.jit, static_argnames="belief")
def _greedy(learners: Any, given: Any, belief: Any) -> Any:
    def one(learner: Any, index: Any, x: Any, available: Any) -> Any:
        return greedy(learner, index, x, belief, available)

    return lax.map(lambda each: one(each[0], *each[1]), (learners, given))


@partial(jax.jit, static_argnames="how")
def _learn(learners: Any, updates: Any, how: Any) -> Any:
    return lax.map(lambda one: learn(one[0], *one[1], how), (learners, updates))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


class Crew:
    """Agents that act and learn together, until `disband` gives each its networks back.

    Args:
        agents: live agents of one spec, at the same step.
    """

    def __init__(self, agents: Sequence[ValueSamplingAgent]) -> None:
        self.agents, self.spec = agents, agents[0].spec
        self._learners = _stacked([agent.learner for agent in agents])

    def act(self, observations: Sequence[Any]) -> list[int]:
        """Return every agent's action on its own observation."""
        both = zip(self.agents, observations, strict=True)
        forced, given = zip(*(agent.prepared(seen) for agent, seen in both), strict=True)
        best = _greedy(self._learners, _stacked(given), self.spec.belief)
        chosen = np.where(np.array(forced) < 0, np.asarray(best), forced)
        return [int(action) for action in chosen]

    def observe(
        self,
        observations: Sequence[Any],
        actions: Sequence[int],
        rewards: Sequence[float],
        next_observations: Sequence[Any],
    ) -> None:
        """Let every agent learn from its own transition and move on."""
        transitions = zip(observations, actions, rewards, next_observations, strict=True)
        both = list(zip(self.agents, transitions, strict=True))
        entries = [agent.entry(*transition) for agent, transition in both]
        for agent, reward in zip(self.agents, rewards, strict=True):
            agent.expected.look(reward)
        kept = zip(self.agents, entries, rewards, strict=True)
        updates = _stacked([agent.keep(entry, reward) for agent, entry, reward in kept])
        learners = _learn(self._learners, updates, self.agents[0].how)
        if self.agents[0].copies_target:
            learners = learners._replace(target=learners.online)
        self._learners = learners
        for agent in self.agents:
            agent.move_on()

    def disband(self) -> None:
        """Give every agent its networks back."""
        learners = jax.tree.map(np.asarray, self._learners)
        for i, agent in enumerate(self.agents):
            agent.learner = jax.tree.map(lambda leaf, i=i: leaf[i], learners)
