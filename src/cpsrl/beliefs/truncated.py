"""A belief that holds only MDPs whose optimal bias has a small span.

The posterior under a truncated prior is the truncated posterior, so a draw from it is a draw from
the belief inside, rejected while the MDP has several optimal gains or an optimal bias of a span
above the cap. The agent is still an exact posterior sampler, and Assumption 3.2 of Xu, Dong and Van
Roy (2024) holds with span <= cap. The cap is in units of the range's width, as the assumption is
for rewards in [0, 1].
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._compile import inlined, leaf
from cpsrl.beliefs.belief import BELIEFS, Belief, Inside, LiveBelief
from cpsrl.beliefs.dirichlet import DenseDirichlet, Dirichlet, DirichletArrays
from cpsrl.beliefs.dirichlet import observe as observe_inner
from cpsrl.beliefs.dirichlet import sample as sample_inner
from cpsrl.checks import checked_positive, checked_whole
from cpsrl.mdp import TabularMDP
from cpsrl.planning.kernels import Workspace, plan_average, repeat_rows, workspace
from cpsrl.sizes import Sizes, width_of
from cpsrl.types import Floats, Ints
from cpsrl.variates import Words

SAME_GAIN = 1e-9
"""An MDP whose optimal gains differ by more than this share of the range's width is not taken as
weakly communicating."""
MOST_REJECTED = 10_000


class TruncatedArrays(NamedTuple):
    """A truncated belief as compiled code reads and updates it."""

    inner: DirichletArrays
    limits: Floats
    """`(3,)` the largest span of the bias, the largest difference of gains, the range's low end"""
    rejected: Ints
    """`(1,)` how many draws were rejected so far"""
    stand_in: Ints
    """`(S, A)` for actions that are not available; empty where all are"""
    policy: Ints
    """`(S,)` scratch"""
    work: Workspace


@inlined
def observe(belief: TruncatedArrays, row: int, reward: float, next_state: int) -> None:
    """Enter a transition from `row`."""
    observe_inner(belief.inner, row, reward, next_state)


@leaf
def sample(belief: TruncatedArrays, words: Words, P: Floats, r: Floats) -> None:
    """Draw a model, P `(S*A, S)` and r `(S*A,)`, whose optimal bias has a span up to the cap."""
    n_states, policy, work = P.shape[1], belief.policy, belief.work
    n_actions = len(r) // n_states
    cap, apart, origin = belief.limits[0], belief.limits[1], belief.limits[2]
    for s in range(n_states):
        policy[s] = 0
    for _ in range(MOST_REJECTED):
        sample_inner(belief.inner, words, P, r)
        if len(belief.stand_in) > 0:
            repeat_rows(P, r, belief.stand_in)
        shaped = P.reshape((n_states, n_actions, n_states))
        for row in range(len(r)):  # far from 0, gains would differ by rounding alone
            r[row] -= origin
        plan_average(shaped, r.reshape((n_states, n_actions)), 1.0, policy, work)
        for row in range(len(r)):
            r[row] += origin
        low, high, least, most = np.inf, -np.inf, np.inf, -np.inf
        for s in range(n_states):
            low, high = min(low, work.gain[s]), max(high, work.gain[s])
            least, most = min(least, work.value[s]), max(most, work.value[s])
        if high - low <= apart and most - least <= cap:
            return
        belief.rejected[0] += 1
    raise ValueError("hardly any MDP of this prior has an optimal bias of so small a span")


class TruncatedDirichlet(LiveBelief):
    """The live form around that of the belief inside."""

    inside: ClassVar = Inside(observe, sample)

    def __init__(self, inner: DenseDirichlet, stand_in: Ints, limits: Floats) -> None:
        n_states = inner.shape[0]
        self.inner, self.shape = inner, inner.shape
        self.arrays = TruncatedArrays(
            inner.arrays,
            limits,
            np.zeros(1, np.int64),
            stand_in,
            np.zeros(n_states, np.int64),
            workspace(n_states),
        )

    def observe_many(self, states: Ints, actions: Ints, rewards: Floats, next_states: Ints) -> None:
        """Learn from transitions `(n,)`, in the order of time."""
        self.inner.observe_many(states, actions, rewards, next_states)

    def sample(self, rng: np.random.Generator | int) -> TabularMDP:
        """Draw an MDP with a generator, or with one made from a seed."""
        return self.inner.drawn(lambda words, P, r: sample(self.arrays, words, P, r), rng)

    def copy(self) -> "TruncatedDirichlet":
        """Return another one that believes the same."""
        new = TruncatedDirichlet(self.inner.copy(), self.arrays.stand_in, self.arrays.limits)
        new.arrays.rejected[:] = self.arrays.rejected
        return new

    def state(self) -> dict[str, Any]:
        """Return the state of the belief inside, and how many draws were rejected."""
        return {**self.inner.state(), "rejected": int(self.arrays.rejected[0])}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state()` returned; raise, and change nothing, if it does not fit."""
        rejected = checked_whole("the stored number of rejected draws", state.get("rejected"))
        self.inner.restore(state)
        self.arrays.rejected[0] = rejected

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the belief inside calls the transition impossible."""
        self.inner.check_possible(state, action, next_state)

    def check_problem(self, mdp: TabularMDP) -> None:
        """Raise a ValueError if the MDP makes a transition that the belief calls impossible."""
        self.inner.check_problem(mdp)


@BELIEFS.add("truncated")
@dataclass(frozen=True)
class Truncated(Belief):
    """A Dirichlet belief, less the MDPs whose optimal bias has a span above a cap.

    Args:
        span: the largest span of the optimal bias that is believed possible, in units of the width
            of the problem's range of rewards.
        belief: what is believed otherwise.
    """

    span: float = 100.0
    belief: Dirichlet = field(default_factory=Dirichlet)

    def __post_init__(self) -> None:
        checked_positive("span", self.span)
        if not isinstance(self.belief, Dirichlet):
            raise ValueError(
                f"the belief to truncate must be a Dirichlet(...), not {self.belief!r}"
            )

    def start(self, problem: TabularMDP | Sizes) -> TruncatedDirichlet:
        """Return the live form."""
        inner = self.belief.start(problem)
        if not isinstance(inner, DenseDirichlet):
            raise ValueError(
                f"a truncated belief plans in every draw, and {problem.n_states} states are too "
                "many for that"
            )
        return self.around(inner, problem)

    def around(self, inner: DenseDirichlet, problem: TabularMDP | Sizes) -> TruncatedDirichlet:
        """Return the live form around that of the belief inside."""
        width = width_of(problem.reward_range)
        limits = np.array([self.span * width, SAME_GAIN * width, problem.reward_range[0]])
        sizes = problem.sizes if isinstance(problem, TabularMDP) else problem
        return TruncatedDirichlet(inner, sizes.exchanged, limits)
