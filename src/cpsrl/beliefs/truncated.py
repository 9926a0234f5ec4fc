"""A belief that holds only MDPs whose optimal bias has a small span.

The posterior under a truncated prior is the truncated posterior, so a draw from it is a draw from
the belief inside, rejected while the MDP has several optimal gains or an optimal bias of a span
above the cap. The agent is still an exact posterior sampler, and Assumption 3.2 of Xu, Dong and Van
Roy (2024) holds with span <= cap.
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
from cpsrl.planning.kernels import Workspace, plan_average, workspace
from cpsrl.sizes import Sizes
from cpsrl.types import Floats, Ints
from cpsrl.variates import Words

SAME_GAIN = 1e-9
"""An MDP whose optimal gains differ by more than this is not taken as weakly communicating."""
MOST_REJECTED = 10_000


class TruncatedArrays(NamedTuple):
    """A truncated belief as compiled code reads and updates it."""

    inner: DirichletArrays
    cap: Floats
    """`(1,)`"""
    rejected: Ints
    """`(1,)` how many draws were rejected so far"""
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
    for s in range(n_states):
        policy[s] = 0
    for _ in range(MOST_REJECTED):
        sample_inner(belief.inner, words, P, r)
        shaped = P.reshape((n_states, n_actions, n_states))
        plan_average(shaped, r.reshape((n_states, n_actions)), 1.0, policy, work)
        low, high, least, most = np.inf, -np.inf, np.inf, -np.inf
        for s in range(n_states):
            low, high = min(low, work.gain[s]), max(high, work.gain[s])
            least, most = min(least, work.value[s]), max(most, work.value[s])
        if high - low <= SAME_GAIN and most - least <= belief.cap[0]:
            return
        belief.rejected[0] += 1
    raise ValueError("hardly any MDP of this prior has an optimal bias of so small a span")


class TruncatedDirichlet(LiveBelief):
    """The live form around that of the belief inside."""

    inside: ClassVar = Inside(observe, sample)

    def __init__(self, inner: DenseDirichlet, n_states: int, cap: float) -> None:
        self.inner, self.shape = inner, inner.shape
        self.arrays = TruncatedArrays(
            inner.arrays,
            np.array([cap]),
            np.zeros(1, np.int64),
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
        new = TruncatedDirichlet(self.inner.copy(), len(self.arrays.policy), self.arrays.cap[0])
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
        span: the largest span of the optimal bias that is believed possible.
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
        return TruncatedDirichlet(inner, problem.n_states, self.span)
