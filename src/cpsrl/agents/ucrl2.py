"""UCRL2: optimism in the face of uncertainty, for bounded rewards (Jaksch, Ortner and Auer 2010).

Rewards are taken in units of the range that they can have: one counts as (reward - low) / width,
which is in [0, 1]. At the start t of an episode, with N(s, a) visits so far, empirical means r^ and
frequencies p^, the plausible MDPs are those with

    |r(s, a) - r^(s, a)|       <= sqrt(7 log(2 S A t / delta) / (2 max(1, N(s, a)))),
    |p(. | s, a) - p^(. | s, a)|_1 <= sqrt(14 S log(2 A t / delta) / max(1, N(s, a))).

Extended value iteration plans in the best of them: u <- max over a of r~ + max over plausible p of
p u, until the largest and smallest change of u differ by less than 1 / sqrt(t). The policy is kept
until, in the state at hand, its pair has been visited in this episode as often as before it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._private.compile import ALLOCATES, jit, specialised
from cpsrl.agents.agent import AGENTS, Agent, Expected, LiveAgent, sizes_of
from cpsrl.mdp import Problem, models_of
from cpsrl.mdp.problem import width_of
from cpsrl.mdp.simulator import GAUSSIAN
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_number
from cpsrl.support.types import Floats, Ints

MOST_STATES = 2000
MOST_SWEEPS = 100_000

mean: Any = None
"""Bound by `specialised`: the largest mean of the values over the plausible rows of a pair."""


class L1Balls(NamedTuple):
    """Plausible rows of transitions: those within a radius of the observed frequencies."""

    frequencies: Floats
    """`(S*A, S)`"""
    radius: Floats
    """`(S*A,)` in L1"""


@jit
def optimistic_mean(plausible: L1Balls, row: int, value: Floats, order: Ints) -> float:
    """Return the largest mean of `value` over the plausible distributions of a row.

    `order` `(S,)` lists the states from the largest value to the smallest. Mass radius / 2 moves to
    the first of them and is taken from the last. For a pair that was never visited the row is all
    zeros and the radius above 2: the mean is that of the first state.
    """
    chances, best = plausible.frequencies[row], order[0]
    added = min(0.5 * plausible.radius[row], 1.0 - chances[best])
    total = (chances[best] + added) * value[best]
    surplus = added
    for k in range(len(order) - 1, 0, -1):
        j = order[k]
        taken = min(chances[j], surplus)
        surplus -= taken
        total += (chances[j] - taken) * value[j]
    return float(total)


def iterate(
    plausible: Any, rewards: Floats, most_span: float, tolerance: float, value: Floats
) -> Ints:
    """Return an optimistic policy `(S,)`, and leave its relative values in `value` (a template).

    Args:
        plausible: the plausible rows of transitions, as `mean` takes them.
        rewards: `(S, A)` largest plausible mean rewards; -inf: the action is not available.
        most_span: where values are cut above their smallest; infinite for nowhere.
        tolerance: where to stop.
        value: `(S,)` where to begin.
    """
    n_states, n_actions = rewards.shape
    step = np.empty(n_states)
    policy = np.zeros(n_states, np.int64)
    for _ in range(MOST_SWEEPS):
        order = np.argsort(-value)
        for s in range(n_states):
            step[s] = -np.inf
            for a in range(n_actions):
                total = rewards[s, a] + mean(plausible, s * n_actions + a, value, order)
                if total > step[s]:
                    step[s] = total
                    policy[s] = a
        base = step.min()
        low, high = np.inf, -np.inf
        for s in range(n_states):
            step[s] = min(step[s], base + most_span)
            low = min(low, step[s] - value[s])
            high = max(high, step[s] - value[s])
        for s in range(n_states):
            value[s] = step[s] - base
        if high - low < tolerance:
            break
    return policy


extended_value_iteration = specialised(iterate, ALLOCATES, mean=optimistic_mean)


class UCRL2Agent(LiveAgent):
    """A live UCRL2 agent; `policy` `(S,)` is that of the current episode.

    A reward outside the range gives one warning: the plausible MDPs may then lack the true one.
    """

    kept: ClassVar[tuple[str, ...]] = (
        "step", "resamples", "counts", "reward_sums", "visits", "visits_before", "policy"
    )  # fmt: skip

    def __init__(self, spec: "UCRL2", problem: Problem, streams: Streams) -> None:
        self.sizes = sizes_of(problem, spec.label)
        shape = (self.sizes.n_states, self.sizes.n_actions)
        self.spec, self.problem = spec, problem
        self.streams = streams
        bounds = getattr(problem, "realised_range", self.sizes.reward_range)
        self.low, self.width = bounds[0], width_of(bounds)
        self.expected = Expected(problem, margin=0.0)
        self.step = 1
        self.resamples = 0
        self.counts = np.zeros((*shape, shape[0]), np.int64)
        self.reward_sums = np.zeros(shape)
        self.visits = np.zeros(shape, np.int64)
        self.visits_before = np.zeros(shape, np.int64)
        self.policy = self.sizes.stand_in[:, 0].copy()

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state = self.sizes.checked("state", state)
        pair = (state, self.policy[state])
        visited = self.visits[pair] - self.visits_before[pair]
        if self.resamples == 0 or visited >= max(1, self.visits_before[pair]):
            self.plan()
            self.visits_before = self.visits.copy()
            self.resamples += 1
        return int(self.policy[state])

    def plan(self) -> None:
        """Make the policy of the episode that begins."""
        n_states, n_actions = self.visits.shape
        seen = np.maximum(1, self.visits)
        wide = np.log(2 * n_states * n_actions * self.step / self.spec.delta)
        narrow = np.log(2 * n_actions * self.step / self.spec.delta)
        rewards = self.reward_sums / seen + np.sqrt(7 * wide / (2 * seen))
        frequencies = (self.counts / seen[:, :, None]).reshape(-1, n_states)
        plausible = L1Balls(frequencies, np.sqrt(14 * n_states * narrow / seen).ravel())
        limits = np.inf, 1 / np.sqrt(self.step)
        first = np.zeros(n_states)
        self.policy = extended_value_iteration(plausible, self.allowed(rewards), *limits, first)

    def allowed(self, rewards: Floats) -> Floats:
        """Return rewards `(S, A)` with -inf for the actions that are not available."""
        available = self.sizes.available
        return rewards if available is None else np.where(available, rewards, -np.inf)

    def move_on(self) -> None:
        """Move time on."""
        self.step += 1

    def learn(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition, however late; raise, and change nothing, if it cannot be."""
        state, action, reward, next_state = self.checked(state, action, reward, next_state)
        self.counts[state, action, next_state] += 1
        self.reward_sums[state, action] += (reward - self.low) / self.width
        self.visits[state, action] += 1

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if counts, rewards, step or policy are impossible."""
        sound = self.sizes.allows(values["policy"])
        counts = [values[name] for name in ("counts", "visits", "visits_before")]
        finite = np.isfinite(values["reward_sums"]).all() and values["step"] >= 1
        if not sound or not finite or any((n < 0).any() for n in counts):
            raise ValueError("the stored counts or policy are damaged")


@AGENTS.add("ucrl2")
@dataclass(frozen=True)
class UCRL2(Agent):
    """UCRL2 (Jaksch, Ortner and Auer 2010), for rewards in the problem's range.

    Args:
        delta: the probability with which the true MDP may be implausible.
        label: what to call the agent.
    """

    delta: float = 0.05
    label: str = "UCRL2"

    live: ClassVar[type[UCRL2Agent]] = UCRL2Agent

    def __post_init__(self) -> None:
        if not 0 < checked_number("delta", self.delta, 0, 1) < 1:
            raise ValueError(f"delta must be in (0, 1), not {self.delta!r}")

    def check(self, problem: Problem) -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        sizes = sizes_of(problem, self.label)
        if sizes.n_states > MOST_STATES:
            raise ValueError(
                f"UCRL2 keeps a count for every cell: {sizes.n_states} states are more than "
                f"{MOST_STATES}"
            )
        if any(model.noise_code[0] == GAUSSIAN for model in models_of(problem)):
            raise ValueError(
                f"UCRL2 is for rewards in a range, and those of {problem!r} have Gaussian noise, "
                "which is unbounded"
            )

    def start(self, problem: Problem, streams: Streams) -> UCRL2Agent:
        """Return a live agent."""
        self.check(problem)
        return self.live(self, problem, streams)
