"""A belief that holds only MDPs whose optimal bias has a small span.

The posterior under a truncated prior is the truncated posterior, so a draw from it is a draw from
the belief inside, rejected while the MDP has several optimal gains or an optimal bias of a span
above the cap. The agent is still an exact posterior sampler, and Assumption 3.2 of Xu, Dong and Van
Roy (2024) holds with span <= cap. The cap is in units of the range's width, as the assumption is
for rewards in [0, 1].
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._private.compile import inlined, leaf
from cpsrl._private.variates import Words
from cpsrl.beliefs.belief import BELIEFS, Belief, Inside
from cpsrl.beliefs.dirichlet import DenseDirichlet, Dirichlet, DirichletArrays
from cpsrl.beliefs.dirichlet import observe as observe_inner
from cpsrl.beliefs.dirichlet import sample as sample_inner
from cpsrl.mdp import DENSE_STATES, Problem
from cpsrl.mdp.problem import width_of
from cpsrl.planning.kernels import Workspace, plan_average, repeat_rows, workspace
from cpsrl.support.checks import checked_kind, checked_positive, checked_whole
from cpsrl.support.types import Floats, Ints

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


class TruncatedDirichlet(DenseDirichlet):
    """The live form, of which every draw is truncated.

    Args:
        limits: see `TruncatedArrays`.
        stand_in: see `TruncatedArrays`.
        dense: what a `DenseDirichlet` takes.
    """

    compiled: ClassVar = Inside(observe, sample)

    def __init__(self, limits: Floats, stand_in: Ints, *dense: Any) -> None:
        super().__init__(*dense)
        self._wrap(limits, stand_in, 0)

    def _wrap(self, limits: Floats, stand_in: Ints, rejected: int) -> None:
        n_states = self.shape[0]
        policy, work = np.zeros(n_states, np.int64), workspace(n_states)
        count = np.array([rejected])
        self.arrays = TruncatedArrays(self.dense, limits, count, stand_in, policy, work)

    def copy(self) -> "TruncatedDirichlet":
        """Return another one that believes the same."""
        new: TruncatedDirichlet = super().copy()
        new._wrap(self.arrays.limits, self.arrays.stand_in, self.arrays.rejected[0])
        return new

    def state(self) -> dict[str, Any]:
        """Return copies of the arrays learned, and how many draws were rejected."""
        return {**super().state(), "rejected": int(self.arrays.rejected[0])}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state()` returned; raise, and change nothing, if it does not fit."""
        # before 0.3.0, evidence that fades was stored without
        rejected = state.get("rejected", 0 if self.fades else None)
        rejected = checked_whole("the stored number of rejected draws", rejected)
        super().restore(state)
        self.arrays.rejected[0] = rejected


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
        checked_kind("the belief to truncate", self.belief, Dirichlet, "a Dirichlet(...)")

    def start(self, problem: Problem) -> TruncatedDirichlet:
        """Return the live form."""
        return self.start_forgetting(problem, math.inf)

    def start_forgetting(self, problem: Problem, half_life: float) -> TruncatedDirichlet:
        """Return the live form, whose evidence fades if the half-life is finite."""
        sizes, belief = problem.sizes, self.belief
        if sizes.n_states > DENSE_STATES and not belief.is_array and half_life == math.inf:
            raise ValueError(
                f"a truncated belief plans in every draw, and {problem.n_states} states are too "
                "many for that"
            )
        width = width_of(problem.reward_range)
        limits = np.array([self.span * width, SAME_GAIN * width, problem.reward_range[0]])
        dense = belief.array(sizes), belief.rewards.arrays(problem), half_life, belief.sharp
        return TruncatedDirichlet(limits, sizes.kernel_stand_in, *dense, belief.row_kinds(sizes))
