r"""Continuing PSRL on MDPs drawn from its own prior: what the theorems average over.

Every run draws a true MDP E: transition rows Dirichlet(alpha, ..., alpha), mean rewards uniform
on [0, 1] and known to the agent, as in the paper's analysis. With a `cap`, MDPs whose optimal
bias has a span above it are rejected, of the true MDP and of every posterior draw alike
(`cpsrl.beliefs.truncated`).

The agent is the package's and so is the loop. Its objective is `Observed`: it plans for the
discounted return, and then computes what only an observer who knows E can, the exact values behind
the discounted regret. The last pseudo-episode is completed: steps go on to T' >= T, the step before
the first resampling after T.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._private.compile import leaf
from cpsrl.agents.psrl import PSRL, PSRLAgent
from cpsrl.agents.rule_buffer import RuleBuffer
from cpsrl.beliefs import Dirichlet, KnownRewards, Truncated
from cpsrl.beliefs.dirichlet import DirichletArrays
from cpsrl.beliefs.truncated import TruncatedArrays
from cpsrl.mdp import Simulator, TabularMDP
from cpsrl.mdp.problem import Sizes
from cpsrl.objectives import Discounted
from cpsrl.planning import solve_average, solve_discounted
from cpsrl.planning.kernels import Workspace, discounted_policy_value, plan_discounted, workspace
from cpsrl.resampling import Arrays, Bernoulli
from cpsrl.seeding import Streams, first_words
from cpsrl.simulation import compiled
from cpsrl.simulation.loops import Recorder, Run
from cpsrl.support.checks import WrongTypeError
from cpsrl.support.interruptible import Threads
from cpsrl.support.types import Floats, Ints
from cpsrl.theory.regret import given_away

LOOK_AHEAD = 1024
"""How far to look for the end of the last pseudo-episode at a time."""
STEPS_AT_ONCE = 1 << 15
"""A thread is handed so many runs at a time that they take about so many steps."""
WORTH_THREADS = 1 << 19
"""Runs of fewer steps times cells are mostly Python: threads would fight over the interpreter."""


@dataclass(frozen=True)
class Prior:
    """A prior on MDPs.

    Args:
        n_states: S.
        n_actions: A.
        alpha: the Dirichlet parameter of every cell; None: 1/S.
        cap: the largest span of the optimal bias.
    """

    n_states: int
    n_actions: int
    alpha: float | None = None
    cap: float = np.inf

    @property
    def sizes(self) -> Sizes:
        """S and A."""
        return Sizes(self.n_states, self.n_actions)

    @property
    def belief(self) -> Any:
        """The prior with known rewards, of 0 until others are put in their place."""
        known = KnownRewards(np.zeros((self.n_states, self.n_actions)))
        alpha = 1 / self.n_states if self.alpha is None else self.alpha
        dirichlet = Dirichlet(alpha, rewards=known)
        return dirichlet if np.isinf(self.cap) else Truncated(self.cap, dirichlet)

    @cached_property
    def _started(self) -> Any:
        return self.belief.start(self.sizes)

    def draw(self, streams: Streams) -> TabularMDP:
        """Draw an MDP."""
        live = self._started.copy()  # faster than to start another
        _dirichlet(live).rewards.mean[:] = streams.model.random(self.n_states * self.n_actions)
        drawn: TabularMDP = live.sample(streams.model)
        return drawn


@dataclass(frozen=True, eq=False)
class PriorRuns:
    """One row for every MDP drawn from the prior.

    Attributes:
        times: `(points,)` recorded steps, the last of them T.
        regret: `(runs, points)` t lambda_* minus the rewards realised (eq. 2).
        expected_regret: `(runs, points)` the same in mean and with less variance:
            sum of lambda_* + h(s) - r(s, a) - P h(s, a), plus h(S_{t+1}) - h(S_1).
        completed_regret: `(runs,)` the regret at T'.
        pseudo_episodes: `(runs,)` K.
        delta: `(runs,)` sum of V*(s_k) - V_k(s_k): the discounted regret of eq. 6.
        delta_tilde: `(runs,)` sum of the value of pi_k in E^k minus its value in E.
        averaging: `(runs,)` sum of lambda_*/(1 - gamma) - V*(s_k): (a) of appendix C.
        confidence: `(runs,)` largest |P - empirical|_1 / beta_k(s, a), at all t_k, visited pairs.
        rejected: `(runs,)` posterior draws rejected by the cap.
        span: `(runs,)` span of the optimal bias of E.
        truth: `(runs, S*A, S)` the transitions of E.
        sample: `(runs, S*A, S)` those of the last posterior draw E^K.
        visits: `(runs, S*A)` N at t_K.
        last_start: `(runs,)` the state at t_K.
        true_value, sample_value: `(runs,)` V*_gamma at that state in E and in E^K.

    The discounted quantities are NaN where gamma changes with time.
    """

    times: Ints
    regret: Floats
    expected_regret: Floats
    completed_regret: Floats
    pseudo_episodes: Ints
    delta: Floats
    delta_tilde: Floats
    averaging: Floats
    confidence: Floats
    rejected: Ints
    span: Floats
    truth: Floats
    sample: Floats
    visits: Ints
    last_start: Ints
    true_value: Floats
    sample_value: Floats


class Notes(NamedTuple):
    """What an observer knows of the true MDP E, and what it notes of a run."""

    transitions: Floats
    """`(S, A, S)` of E"""
    rewards: Floats
    """`(S, A)`"""
    starts: Ints
    """`(K,)` the first step of every pseudo-episode; empty where gamma changes with time"""
    horizon: int
    """T"""
    prior: Floats
    """`(S*A, S)` the Dirichlet parameters that the agent began with"""
    alpha: Floats
    """`(S*A, S)` those of its belief as it learns"""
    seen: Ints
    """`(S*A,)` the visits that it has seen"""
    sampled: Workspace
    """what the agent plans in; its `value` `(S,)` is V*_gamma in the last posterior draw"""
    true: Workspace
    """what its policy is evaluated in"""
    visits: Ints
    """`(S*A,)` visits before the last draw"""
    values: Floats
    """`(2, K, S)` the values of every pseudo-episode's policy in its posterior draw and in E"""
    confidence: Floats
    """`(1,)` the largest deviation over width so far"""
    filled: Ints
    """`(1,)` how many pseudo-episodes there were"""


@leaf
def plan_observed(P: Floats, r: Floats, gamma: float, policy: Ints, notes: Notes) -> None:
    """Plan as `Discounted` does, and note the pseudo-episode that begins."""
    plan_discounted(P, r, gamma, policy, notes.sampled)
    n_rows, n_states = notes.alpha.shape
    k = notes.filled[0]
    notes.filled[0] = k + 1
    for row in range(n_rows):
        notes.visits[row] = notes.seen[row]
    if len(notes.starts) > 0:
        discounted_policy_value(notes.transitions, notes.rewards, gamma, policy, notes.true)
        for s in range(n_states):
            notes.values[0, k, s] = notes.sampled.value[s]
            notes.values[1, k, s] = notes.true.value[s]
        width = 14.0 * n_states * np.log(2.0 * n_rows * notes.horizon * (notes.starts[k] + 0.0))
        deviation = largest_deviation(notes) / np.sqrt(width)
        notes.confidence[0] = max(notes.confidence[0], deviation)


class Observed(Discounted):
    """The discounted return, and an observer who knows the true MDP."""

    plan: ClassVar[Any] = staticmethod(plan_observed)


@leaf
def largest_deviation(notes: Notes) -> float:
    """Return the largest sqrt(N) |P - empirical|_1 of a visited row."""
    n_rows, n_states = notes.alpha.shape
    n_actions = n_rows // n_states
    most = 0.0
    for row in range(n_rows):
        visits = notes.seen[row]
        if visits > 0:
            true, deviation = notes.transitions[row // n_actions, row % n_actions], 0.0
            for j in range(n_states):
                deviation += abs((notes.alpha[row, j] - notes.prior[row, j]) / visits - true[j])
            most = max(most, deviation * np.sqrt(visits))
    return most


def runs_from_prior(
    prior: Prior,
    rule: Bernoulli,
    steps: int,
    runs: int,
    seed: int = 0,
    times: Ints | None = None,
    believed: float | None = None,
    progress: Callable[[int], None] = lambda n: None,
) -> PriorRuns:
    """Run Continuing PSRL once on each of `runs` MDPs drawn from the prior.

    Args:
        prior: what MDPs are drawn from.
        rule: the coin; a schedule is tuned to `steps`.
        steps: T.
        runs: how many MDPs.
        seed: the root seed.
        times: steps to record; the last must be T. None records T alone.
        believed: the Dirichlet parameter that the agent believes in; another one than that of the
            prior makes its belief wrong.
        progress: called with the number of steps just taken.
    """
    if not isinstance(prior, Prior):
        raise WrongTypeError("prior must be cpsrl.paper.from_prior.Prior(S, A, alpha, cap)")
    times = np.array([steps]) if times is None else np.asarray(times, np.int64)
    coin = rule.resolve(prior.n_states * prior.n_actions, steps)
    belief = prior.belief if believed is None else replace(prior, alpha=believed).belief
    first = PSRL(coin, Observed(), belief, label="observed").start(prior.sizes, Streams())
    words = first_words(seed, range(runs))

    portion = max(1, STEPS_AT_ONCE // steps)

    def columns_from(begin: int) -> list[Any]:
        """Return the columns of a portion of the runs.

        All of them take a stage before the next, so that its code stays in the processor's caches.
        """
        streams = [Streams(words=own) for own in words[begin : begin + portion]]
        mdps = [prior.draw(own) for own in streams]
        both = zip(mdps, streams, strict=True)
        under_way = [_stages(first, mdp, own, steps, times) for mdp, own in both]
        *_, rows = zip(*under_way, strict=True)
        progress(steps * len(rows))
        return [np.array(column) for column in zip(*rows, strict=True)]

    few = steps * prior.n_states**2 * prior.n_actions < WORTH_THREADS
    threads = Threads(1 if few else os.cpu_count() or 1)
    try:
        portions = [threads.submit(columns_from, begin) for begin in range(0, runs, portion)]
        parts = zip(*(columns.result() for columns in portions), strict=True)
        columns = [np.concatenate(part) for part in parts]
    finally:
        threads.close()
    return PriorRuns(times, *columns)


def _stages(
    first: PSRLAgent, mdp: TabularMDP, streams: Streams, steps: int, times: Ints
) -> Iterator[tuple[object, ...]]:
    """Yield after every stage of a run of an agent like `first`; at last its row of `PriorRuns`."""
    best = solve_average(mdp)
    yield ()
    agent: Any = first.fork(streams)
    truncated = isinstance(first.spec.belief, Truncated)
    dirichlet = _dirichlet(agent.live_belief)
    dirichlet.rewards.mean[:] = mdp.rewards.ravel()
    yield ()
    resample, gamma = _completed(agent.rule_buffer, steps)
    yield ()
    last, constant = len(resample), isinstance(gamma, float)
    starts = np.flatnonzero(resample)
    notes = _notes(mdp, dirichlet, agent.model.work, starts, steps, constant)
    agent.model = agent.model._replace(work=notes)
    value = solve_discounted(mdp, gamma).value if isinstance(gamma, float) else None
    yield ()
    marks = np.append(times, last) if last > steps else times
    recorder = Recorder(marks, chunk=last, trajectory=True)
    under_way = Run(agent, Simulator(mdp, streams), recorder=recorder)
    compiled.advance(under_way, last, lambda n: None, np.zeros(1, np.int64))
    yield ()
    path = recorder.trajectory(under_way.simulator.state)
    lost = np.cumsum(given_away(mdp, best)[path["states"][:-1], path["actions"]])[times - 1]
    regret = marks * best.gain[0] - recorder.tape.reward_sums
    begun = path["states"][starts]
    totals = np.full(3, np.nan)
    if value is not None:
        totals = _totals(notes, begun, value[begun], best.gain[0] / (1.0 - gamma))
    place = int(begun[-1])
    yield (
        regret[: len(times)],
        lost + best.bias[path["states"][times]] - best.bias[0],
        regret[-1],
        int(resample[:steps].sum()),
        *totals,
        notes.confidence[0],
        int(agent.live_belief.arrays.rejected[0]) if truncated else 0,
        np.ptp(best.bias),
        notes.transitions.reshape(-1, mdp.n_states),
        agent.model.P,
        notes.visits,
        place,
        np.nan if value is None else value[place],
        notes.sampled.value[place],
    )


def _notes(
    mdp: TabularMDP,
    dirichlet: DirichletArrays,
    sampled: Workspace,
    starts: Ints,
    steps: int,
    constant: bool,
) -> Notes:
    """Return empty notes of a run whose pseudo-episodes begin after `starts` `(K,)` steps.

    `constant`: whether gamma is the same at all steps.
    """
    return Notes(
        transitions=np.array(mdp.transitions),
        rewards=np.array(mdp.rewards),
        starts=starts + 1 if constant else starts[:0],
        horizon=steps,
        prior=dirichlet.alpha.copy(),
        alpha=dirichlet.alpha,
        seen=dirichlet.rewards.seen,
        sampled=sampled,
        true=workspace(mdp.n_states),
        visits=np.empty_like(dirichlet.rewards.seen),
        values=np.empty((2, len(starts), mdp.n_states)),
        confidence=np.full(1, 0.0 if constant else np.nan),
        filled=np.zeros(1, np.int64),
    )


def _totals(notes: Notes, begun: Ints, value: Floats, level: float) -> Floats:
    """Return `delta`, `delta_tilde` and `averaging` of `PriorRuns`.

    Pseudo-episodes began in the states `begun` `(K,)` of the value V* `value` `(K,)`; `level` is
    lambda_*/(1 - gamma).
    """
    sampled, true = notes.values[:, np.arange(len(begun)), begun]
    each = np.array([value - true, sampled - true, level - value])
    return np.asarray(np.cumsum(each, axis=1)[:, -1])  # added in the order of time


def _dirichlet(live: Any) -> DirichletArrays:
    """Return the arrays of a live belief, those inside where it is truncated."""
    return live.arrays.inner if isinstance(live.arrays, TruncatedArrays) else live.arrays


def _completed(ahead: RuleBuffer, steps: int) -> Arrays:
    """Return coins and gammas of the steps 1, ..., T', the last one before a resampling."""
    end = steps
    while True:
        end += LOOK_AHEAD
        resample, gamma = ahead.steps(1, end)
        if resample[steps:].any():
            return resample[: steps + int(np.argmax(resample[steps:]))], gamma
