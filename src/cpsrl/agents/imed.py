"""IMED-RL: the action whose being best would need the least evidence (Pesquerel and Maillard 2022).

With N visits to a pair, the mean reward and the frequencies of its successors are estimated as

    r^ = (1/2 + sum of rewards) / (N + 1),   p^(s') = (1/S + N(s')) / (N + 1),

rewards being in units of the problem's range. Value iteration gives the bias phi (with minimum 0)
of the best policy on the skeleton: in every state the actions with N(s, a) >= log^2(max_b N(s, b)).
With q(a) = r^(s, a) + p^ phi, mu = max q, M = 1 + max phi and V = R + phi(S'), R and S' drawn
independently from what was observed of (s, a), the agent takes, of all actions, one with the
smallest index

    log N                                                        if q(a) = mu,
    N max over 0 <= x <= M/(M - mu) - .01 of E log(M - (V - mu) x)  + log N     otherwise,

and in a state with actions never taken one of those taken least; ties are broken at random.

This is the algorithm as its authors run it (statisticalRL-learners 2.2507), to which it is equal in
distribution. The index of their paper has log(1 - (V - mu) x / (M - mu)); the code has M there
instead, which makes that of every action that is not best larger by about N log M.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._private.compile import leaf
from cpsrl._private.variates import Words, uniform
from cpsrl.agents.agent import AGENTS, Agent, Expected, LiveAgent, sizes_of
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.problem import Sizes, width_of
from cpsrl.planning.kernels import largest
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_arrays, checked_number
from cpsrl.support.types import Bools, Floats, Ints

TOLERANCE, MOST_SWEEPS = 1e-3, 3000
MARGIN = 1e-2
NEWTON_STEPS = 60
LEVELS = float(1 << 40)
"""Rewards are rounded to so many levels of the range: equal ones stay equal in all units."""
MOST_STATES = 2000


class Tallies(NamedTuple):
    """Distinct items observed of every row, in a pool of linked entries, and how often."""

    first: Ints
    """`(S*A,)` each row's first entry, or -1"""
    following: Ints
    """`(room,)` the next entry of the same row, or -1"""
    rows: Ints
    """`(room,)` whose entry it is"""
    items: Floats
    """`(room,)` rewards or states"""
    counts: Ints
    """`(room,)`"""
    filled: Ints
    """`(1,)` how many entries are in use"""


ENTRIES = ("rows", "items", "counts")
"""What the other fields follow from."""


class IMEDArrays(NamedTuple):
    """What compiled code reads and writes of an agent."""

    visits: Ints
    """`(S*A,)`"""
    reward_sums: Floats
    """`(S*A,)` in units of the range"""
    skeleton: Bools
    """`(S*A,)`"""
    available: Bools
    """`(S*A,)`"""
    successors: Tallies
    rewards: Tallies
    n_actions: int
    low: float
    """the low end of the range"""
    width: float
    """its width"""
    bias: Floats
    """`(S,)` phi"""
    next_bias: Floats
    """`(S,)` scratch, as all that follow"""
    row: Floats
    """`(S,)`"""
    indices: Floats
    """`(A,)`"""


@leaf
def tally(tallies: Tallies, row: int, item: float, count: int) -> None:
    """Count an item of `row`, `count` times; there must be room for one more entry."""
    entry = tallies.first[row]
    while entry >= 0:
        if tallies.items[entry] == item:
            tallies.counts[entry] += count
            return
        entry = tallies.following[entry]
    entry = tallies.filled[0]
    tallies.filled[0] = entry + 1
    tallies.rows[entry], tallies.items[entry], tallies.counts[entry] = row, item, count
    tallies.following[entry], tallies.first[row] = tallies.first[row], entry


@leaf
def observe(agent: IMEDArrays, row: int, reward: float, next_state: int) -> None:
    """Enter a transition from `row`, its reward rounded in units of the range, and within it."""
    n_actions, visits = agent.n_actions, agent.visits
    reward = min(1.0, max(0.0, (reward - agent.low) / agent.width))
    reward = round(reward * LEVELS) / LEVELS
    visits[row] += 1
    agent.reward_sums[row] += reward
    tally(agent.successors, row, float(next_state), 1)
    tally(agent.rewards, row, reward, 1)
    begin = row - row % n_actions
    most = 0
    for other in range(begin, begin + n_actions):
        most = max(most, visits[other])
    for other in range(begin, begin + n_actions):
        enough = visits[other] >= math.log(most) ** 2
        agent.skeleton[other] = enough and agent.available[other]


@leaf
def expected_bias(agent: IMEDArrays, row: int, mean: float) -> float:
    """Return p^ phi of a row, `mean` being the mean of phi over all states."""
    total, entry = mean, agent.successors.first[row]
    while entry >= 0:
        state = int(agent.successors.items[entry])
        total += agent.successors.counts[entry] * agent.bias[state]
        entry = agent.successors.following[entry]
    return total / (agent.visits[row] + 1)


@leaf
def average(values: Floats) -> float:
    """Return the mean of `values` `(n,)`."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


@leaf
def iterate_values(agent: IMEDArrays) -> None:
    """Make `bias` that of the best policy on the skeleton, beginning where it stands."""
    bias, step, n_actions = agent.bias, agent.next_bias, agent.n_actions
    for _ in range(MOST_SWEEPS):
        mean = average(bias)
        least = np.inf
        for s in range(len(bias)):
            best = -np.inf
            for row in range(s * n_actions, (s + 1) * n_actions):
                if agent.skeleton[row]:
                    reward = (0.5 + agent.reward_sums[row]) / (agent.visits[row] + 1)
                    best = max(best, reward + expected_bias(agent, row, mean))
            step[s] = best
            least = min(least, best)
        change = 0.0
        for s in range(len(bias)):
            change = max(change, abs(step[s] - least - bias[s]))
            bias[s] = step[s] - least
        if change < TOLERANCE:
            return


@leaf
def evidence(agent: IMEDArrays, row: int, mu: float, top: float) -> float:
    """Return the largest E log(M - (V - mu) x) over x, M being `top`."""
    chances, n_states = agent.row, len(agent.bias)
    share = 1.0 / (agent.visits[row] + 1)
    for s in range(n_states):
        chances[s] = share / n_states
    entry = agent.successors.first[row]
    while entry >= 0:
        chances[int(agent.successors.items[entry])] += share * agent.successors.counts[entry]
        entry = agent.successors.following[entry]
    low, high = 0.0, top / (top - mu) - MARGIN
    x = 0.5 * high
    for _ in range(NEWTON_STEPS):  # the derivative falls in x, and is positive at 0
        slope, bend, _ = derivatives(agent, row, mu, top, x, False)
        if slope > 0.0:
            low = x
        else:
            high = x
        nearer = x + slope / bend
        if not low < nearer < high:
            nearer = 0.5 * (low + high)
        near = abs(nearer - x) <= 1e-9 * high
        x = nearer
        if near:
            break
    return derivatives(agent, row, mu, top, x, True)[2]


@leaf
def derivatives(
    agent: IMEDArrays, row: int, mu: float, top: float, x: float, logs: bool
) -> tuple[float, float, float]:
    """Return the first derivative of E log(M - (V - mu) x), less its second, and with `logs` it."""
    rewards, slope, bend, value = agent.rewards, 0.0, 0.0, 0.0
    share, entry = 1.0 / (agent.visits[row] + 1), rewards.first[row]
    reward, weight = 0.5, share
    while True:
        for s in range(len(agent.bias)):
            gap = agent.bias[s] + reward - mu
            left, chance = top - gap * x, weight * agent.row[s]
            ratio = gap / left
            slope -= chance * ratio
            bend += chance * ratio * ratio
            if logs:
                value += chance * math.log(left)
        if entry < 0:
            return slope, bend, value
        reward, weight = rewards.items[entry], share * rewards.counts[entry]
        entry = rewards.following[entry]


@leaf
def choose(agent: IMEDArrays, state: int, u: float, planned: bool) -> int:
    """Return the action in `state`, ties being broken by the uniform `u`.

    `planned`: another state was asked about at this step, and phi stays as it is.
    """
    index, visits, n_actions = agent.indices, agent.visits, agent.n_actions
    begin = state * n_actions
    new = False
    for a in range(n_actions):
        index[a] = visits[begin + a] if agent.available[begin + a] else np.inf
        new = new or index[a] == 0.0
    if not new:
        if not planned:
            iterate_values(agent)
        mean, most = average(agent.bias), largest(agent.bias)
        mu = -np.inf
        for a in range(n_actions):
            if agent.available[begin + a]:
                row = begin + a
                reward = (0.5 + agent.reward_sums[row]) / (visits[row] + 1)
                index[a] = reward + expected_bias(agent, row, mean)
                mu = max(mu, index[a])
        for a in range(n_actions):
            if agent.available[begin + a]:
                n, behind = visits[begin + a], index[a] < mu
                index[a] = math.log(n)
                if behind:
                    index[a] += n * evidence(agent, begin + a, mu, 1.0 + most)
    least, ties = np.inf, 0
    for a in range(n_actions):
        least = min(least, index[a])
    for a in range(n_actions):
        ties += index[a] == least
    left = int(u * ties)
    for a in range(n_actions):
        if index[a] == least:
            if left == 0:
                return a
            left -= 1
    return 0


@leaf
def choose_anew(agent: IMEDArrays, state: int, words: Words) -> int:
    """Return the action in `state` at a new step."""
    return choose(agent, state, uniform(words), False)


class IMEDAgent(LiveAgent):
    """A live IMED-RL agent; a reward outside the range counts as the end that is nearer."""

    kept: ClassVar = ("step", "chosen", "uniform")
    compiled: ClassVar = choose_anew, observe
    at_once: ClassVar = 1024
    """Steps between two looks at whether to stop: one may take milliseconds."""

    def __init__(self, spec: "IMEDRL", problem: TabularMDP | Sizes, streams: Streams) -> None:
        self.sizes, self.spec, self.problem = sizes_of(problem, spec.label), spec, problem
        self.streams, self.expected = streams, Expected(problem, margin=0.0)
        bounds = getattr(problem, "realised_range", self.sizes.reward_range)
        n_states, n_actions = self.sizes.n_states, self.sizes.n_actions
        rows, mask = n_states * n_actions, self.sizes.available
        available = np.ones(rows, np.bool_) if mask is None else mask.ravel().copy()
        self.arrays = IMEDArrays(
            np.zeros(rows, np.int64),
            np.zeros(rows),
            available.copy(),
            available,
            _tallies(rows),
            _tallies(rows),
            n_actions,
            float(bounds[0]),
            width_of(bounds),
            np.zeros(n_states),
            np.zeros(n_states),
            np.zeros(n_states),
            np.zeros(n_actions),
        )
        self.step, self.chosen = 1, 0  # the row chosen and one, or 0
        self.uniform: float | None = None

    @property
    def policy(self) -> Ints:
        """The best policy `(S,)` on the skeleton, by what is estimated now."""
        a, mean = self.arrays, float(self.arrays.bias.mean())
        rewards = (0.5 + a.reward_sums) / (a.visits + 1)
        values = [r + expected_bias(a, row, mean) for row, r in enumerate(rewards)]
        allowed = np.where(a.skeleton, values, -np.inf)
        return np.asarray(allowed.reshape(self.sizes.n_states, -1).argmax(axis=1))

    @property
    def action(self) -> int | None:
        """The action chosen at this step, if one is."""
        return (self.chosen - 1) % self.sizes.n_actions if self.chosen else None

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until time moves on."""
        state, n_actions = self.sizes.checked("state", state), self.sizes.n_actions
        if self.uniform is None:
            self.uniform = self.streams.action.random()
        if not self.chosen or (self.chosen - 1) // n_actions != state:
            action = choose(self.arrays, state, self.uniform, self.chosen > 0)
            self.chosen = 1 + state * n_actions + action
        return (self.chosen - 1) % n_actions

    def move_on(self) -> None:
        """Move time on."""
        self.step, self.chosen, self.uniform = self.step + 1, 0, None

    def learn(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition, however late; raise, and change nothing, if it cannot be."""
        state, action, reward, next_state = self.checked(state, action, reward, next_state)
        self.make_room(1)
        row = state * self.sizes.n_actions + action
        observe(self.arrays, row, reward, next_state)

    def make_room(self, steps: int) -> None:
        """Make room for what `steps` further steps can reveal."""
        for name in ("successors", "rewards"):
            old: Tallies = getattr(self.arrays, name)
            if len(old.counts) - old.filled[0] < steps:
                room = 2 * len(old.counts) + steps
                grown = {key: np.resize(getattr(old, key), room) for key in ("following", *ENTRIES)}
                larger: Any = {name: old._replace(**grown)}
                self.arrays = self.arrays._replace(**larger)

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here."""
        a = self.arrays
        mine: Any = {name: getattr(a, name).copy() for name in ("reward_sums", "bias")}
        for name in ("successors", "rewards"):
            tallies: Tallies = getattr(a, name)
            used = slice(tallies.filled[0])
            mine[name] = {key: getattr(tallies, key)[used].copy() for key in ENTRIES}
        return super().state() | {"learned": mine}

    def restore_parts(self, state: dict[str, Any]) -> None:
        """Restore what was learned; raise, and change nothing, if it is damaged."""
        stored, a = state.get("learned"), self.arrays
        if not isinstance(stored, dict):
            raise ValueError("the stored state lacks what was learned")
        if state["uniform"] is not None:
            checked_number("the stored uniform variate", state["uniform"], 0, 1)
        if state["chosen"] > len(a.visits) or state["step"] < 1:
            raise ValueError("the stored step or choice is damaged")
        own: Any = checked_arrays("learned", stored, {"reward_sums": a.reward_sums, "bias": a.bias})
        found, visits = [], []
        for name, most in (("successors", self.sizes.n_states - 1), ("rewards", 1)):
            like = {key: getattr(a.successors, key) for key in ENTRIES}
            entries = checked_arrays(name, stored.get(name) or {}, like, ENTRIES)
            found.append(_tallied(entries, len(a.visits), most))
            visits.append(np.bincount(entries["rows"], entries["counts"], len(a.visits)))
        if not (visits[0] == visits[1]).all():
            raise ValueError("the stored tallies are damaged: their visits differ")
        if not all(np.isfinite(array).all() for array in own.values()):
            raise ValueError("the stored rewards or values are damaged")
        a = self.arrays = a._replace(**own, successors=found[0], rewards=found[1])
        a.visits[:] = visits[0]
        by_state = a.visits.reshape(self.sizes.n_states, -1)
        most_visits = np.maximum(by_state.max(axis=1, keepdims=True), 1)
        a.skeleton[:] = (by_state >= np.log(most_visits) ** 2).ravel() & a.available


def _tallies(rows: int, room: int = 0) -> Tallies:
    following, owners, counts = np.zeros((3, room), np.int64)
    first = np.full(rows, -1, np.int64)
    return Tallies(first, following, owners, np.zeros(room), counts, np.zeros(1, np.int64))


def _tallied(entries: dict[str, Any], n_rows: int, most: float) -> Tallies:
    """Return the tallies of stored entries, whose items are in 0..most; raise if they can't be."""
    rows, items, counts = (entries[name] for name in ENTRIES)
    same = len(rows) == len(items) == len(counts)
    if same and ((rows >= 0) & (rows < n_rows) & (items >= 0) & (items <= most)).all():
        tallies = _tallies(n_rows, len(rows))
        for row, item, count in zip(rows, items, counts, strict=True):
            tally(tallies, row, item, count)
        if (counts >= 1).all() and tallies.filled[0] == len(rows):
            return tallies
    raise ValueError("the stored tallies are damaged: they have impossible numbers")


@AGENTS.add("imed-rl")
@dataclass(frozen=True)
class IMEDRL(Agent):
    """IMED-RL (Pesquerel and Maillard 2022): index policy by the least evidence.

    Args:
        label: what to call the agent.
    """

    label: str = "IMED-RL"

    def check(self, problem: TabularMDP | Sizes) -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        sizes = sizes_of(problem, self.label)
        if sizes.n_states > MOST_STATES:
            raise ValueError(
                f"IMED-RL iterates values at every step: {sizes.n_states} states are more than "
                f"{MOST_STATES}"
            )

    def start(self, problem: TabularMDP | Sizes, streams: Streams) -> IMEDAgent:
        """Return a live agent."""
        self.check(problem)
        return IMEDAgent(self, problem, streams)
