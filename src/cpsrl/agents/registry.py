"""What an agent is, the registry of agents, and what live agents check."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cpsrl.mdp import Sizes, TabularMDP
from cpsrl.registry import Registry
from cpsrl.seeding import Streams


class Agent(Protocol):
    """A live agent."""

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition and move time on."""

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here: scalars and arrays in a tree."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called."""


class AgentSpec(Protocol):
    """An agent before it is started: a frozen dataclass of its parts."""

    @property
    def label(self) -> str:
        """What to call the agent in tables and figures."""

    def start(self, problem: Any, streams: Streams) -> Any:
        """Return a live agent for a TabularMDP, or for the sizes of a problem without a model."""


AGENTS: Registry[AgentSpec] = Registry("agent")


def start(spec: AgentSpec, problem: TabularMDP | Sizes, seed: int = 0, run: int = 0) -> Any:
    """Return a live agent on the streams of run `run` of root `seed`.

    Args:
        spec: the agent.
        problem: the MDP, or `Sizes(n_states, n_actions)` where there is no model.
        seed: the root seed.
        run: the number of the run.
    """
    return spec.start(problem, Streams(seed, run))


def fitting(state: dict[str, Any], mine: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return copies of the arrays in `state`, which must be like `mine`, by name."""
    arrays = {name: np.array(state.get(name)) for name in mine}
    for name, array in arrays.items():
        if array.shape != mine[name].shape or array.dtype != mine[name].dtype:
            raise ValueError(
                f"the stored state does not fit: {name} is {array.dtype} {array.shape}, not "
                f"{mine[name].dtype} {mine[name].shape}"
            )
    return arrays
