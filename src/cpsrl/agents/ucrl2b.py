"""UCRL2B: optimism with empirical Bernstein bounds (Fruit, Pirotta and Lazaric 2020).

UCRL2 bounds every row of transitions as a whole, by a radius that grows with the square root of the
number of states. UCRL2B bounds every cell of it by its own variance, and regret then grows with the
square root of the number of successors that are possible. At the start of an episode, with N visits
(at least 1) to a pair, frequencies p^, and rewards of mean r^ and variance v in units of their
range, the plausible MDPs are those with

    |r(s, a) - r^|         <= 2 sqrt(v L / N) + 6 L / N,             L = log(6 S A N / delta),
    |p(s' | s, a) - p^(s')| <= 2 sqrt(p^(s') (1 - p^(s')) L / N) + 6 L / N     for every s'.

(Fruit, Pirotta and Lazaric 2020, "Improved analysis of UCRL2 with empirical Bernstein inequality".)
The best plausible row for a value u is a fractional knapsack: every cell begins at its lower bound,
and what is left of the mass goes to the cells in the order of u, largest first, up to their upper
bounds. Episodes, and where extended value iteration stops, are those of UCRL2; it begins where the
last one ended, which changes how long it takes and not what it guarantees.

With `span` = c the values are cut, after every sweep, at the smallest of them plus c: the operator
of SCAL (Fruit, Pirotta, Lazaric and Ortner 2018), which keeps optimism from imagining more than an
MDP can hold whose optimal bias is known to have a span of at most c. `width` scales all bounds: the
theory is for 1, and smaller ones are what is done in practice.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._private.compile import ALLOCATES, jit, specialised
from cpsrl.agents.agent import AGENTS
from cpsrl.agents.ucrl2 import UCRL2, UCRL2Agent, iterate
from cpsrl.mdp import Problem
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_number
from cpsrl.support.types import Floats, Ints


class Cells(NamedTuple):
    """Plausible rows of transitions: those between a lower and an upper bound for every cell."""

    starts: Ints
    """`(S*A + 1,)` where each row begins in `seen` and `least`"""
    seen: Ints
    """the successors that were observed, whose lower bounds may be above 0"""
    least: Floats
    """their lower bounds"""
    room: Floats
    """`(S*A, S)` upper less lower bounds"""
    spare: Floats
    """`(S*A,)` 1 less the sum of the lower bounds"""


@jit
def bounded_mean(plausible: Cells, row: int, value: Floats, order: Ints) -> float:
    """Return the largest mean of `value` over the plausible distributions of a row.

    `order` `(S,)` lists the states from the largest value to the smallest.
    """
    total = 0.0
    for k in range(plausible.starts[row], plausible.starts[row + 1]):
        total += plausible.least[k] * value[plausible.seen[k]]
    spare, room = plausible.spare[row], plausible.room[row]
    for state in order:
        if spare <= 0.0:
            break
        given = min(room[state], spare)
        total += given * value[state]
        spare -= given
    return float(total)


bounded_value_iteration = specialised(iterate, ALLOCATES, mean=bounded_mean)


class UCRL2BAgent(UCRL2Agent):
    """A live UCRL2B agent: UCRL2's, with other bounds."""

    spec: "UCRL2B"
    kept: ClassVar[tuple[str, ...]] = (*UCRL2Agent.kept, "reward_squares", "value")

    def __init__(self, spec: "UCRL2B", problem: Problem, streams: Streams) -> None:
        super().__init__(spec, problem, streams)
        self.reward_squares = np.zeros_like(self.reward_sums)
        self.value = np.zeros(self.sizes.n_states)

    def learn(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition, however late; raise, and change nothing, if it cannot be."""
        super().learn(state, action, reward, next_state)
        self.reward_squares[state, action] += ((reward - self.low) / self.width) ** 2

    def plan(self) -> None:
        """Make the policy of the episode that begins."""
        n_states, n_actions = self.visits.shape
        seen = np.maximum(1, self.visits)
        weight = np.log(6 * n_states * n_actions * seen / self.spec.delta) / seen
        mean = self.reward_sums / seen
        variance = np.maximum(0.0, self.reward_squares / seen - mean**2)
        rewards = mean + self.spec.width * (2 * np.sqrt(variance * weight) + 6 * weight)
        cells = self.counts.reshape(-1, n_states)
        rows, successors = np.nonzero(cells)
        frequency = cells[rows, successors] / seen.ravel()[rows]
        weights = weight.ravel()
        width = 2 * np.sqrt(frequency * (1 - frequency) * weights[rows]) + 6 * weights[rows]
        width *= self.spec.width
        least = np.maximum(0.0, frequency - width)
        room = np.repeat(np.minimum(1.0, 6 * self.spec.width * weights)[:, None], n_states, axis=1)
        room[rows, successors] = np.minimum(1.0, frequency + width) - least
        starts, spare = np.searchsorted(rows, np.arange(len(cells) + 1)), np.ones(len(cells))
        np.subtract.at(spare, rows, least)
        plausible = Cells(starts, successors, least, room, spare)
        limits = np.inf if self.spec.span is None else self.spec.span, 1 / np.sqrt(self.step)
        self.policy = bounded_value_iteration(plausible, self.allowed(rewards), *limits, self.value)

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if counts, rewards, values, step or policy are impossible."""
        super().check_sound(values)
        if not all(np.isfinite(values[name]).all() for name in ("reward_squares", "value")):
            raise ValueError("the stored rewards or values are damaged")


@AGENTS.add("ucrl2b")
@dataclass(frozen=True)
class UCRL2B(UCRL2):
    """UCRL2 with empirical Bernstein bounds (Fruit, Pirotta and Lazaric 2020).

    Args:
        delta: the probability with which the true MDP may be implausible.
        label: what to call the agent.
        width: what all bounds are multiplied by.
        span: the largest span that the optimal bias can have, in units of the rewards' range, if
            that is known.
    """

    label: str = "UCRL2B"
    width: float = 1.0
    span: float | None = None

    live: ClassVar[type[UCRL2BAgent]] = UCRL2BAgent

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_number("width", self.width, 0.0, open=True)
        if self.span is not None:
            checked_number("span", self.span, 0.0, open=True)
