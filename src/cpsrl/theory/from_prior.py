r"""Continuing PSRL on MDPs drawn from its own prior: what the theorems average over.

Every run draws a true MDP E: transition rows Dirichlet(alpha, ..., alpha), mean rewards uniform
on [0, 1] and known to the agent, as in the paper's analysis. With a `cap`, MDPs whose optimal
bias has a span above it are rejected, of the true MDP and of every posterior draw alike
(`cpsrl.beliefs.truncated`).

The agent is the package's and so is the loop. A watcher computes on the way what only an observer
who knows E can: the exact values behind the discounted regret. The last pseudo-episode is
completed: steps go on to T' >= T, the step before the first resampling after T.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cpsrl._compile import leaf
from cpsrl.agents.ahead import Ahead
from cpsrl.agents.psrl import PSRL, PSRLAgent
from cpsrl.beliefs import Dirichlet, KnownRewards, Truncated
from cpsrl.beliefs.dirichlet import DirichletArrays
from cpsrl.beliefs.truncated import TruncatedArrays
from cpsrl.mdp import Simulator, TabularMDP
from cpsrl.planning import solve_average, solve_discounted
from cpsrl.planning.kernels import Workspace, discounted_policy_value, workspace
from cpsrl.resampling import Arrays, Bernoulli
from cpsrl.seeding import Streams, first_words
from cpsrl.simulation import tabular
from cpsrl.simulation.recording import Recorder, Watcher
from cpsrl.simulation.run import Run
from cpsrl.sizes import Sizes
from cpsrl.theory.regret import given_away
from cpsrl.types import Floats, Ints
from cpsrl.waiting import Threads

LOOK_AHEAD = 1024
"""How far to look for the end of the last pseudo-episode at a time."""
STEPS_AT_ONCE = 1 << 15
"""A thread is handed so many runs at a time that they take about so many steps."""
WORTH_THREADS = 1 << 19
"""Runs of fewer steps times cells are mostly Python: threads would fight over the interpreter."""
DELTA, DELTA_TILDE, AVERAGING, LAST_STATE, CONFIDENCE = range(5)


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
    value: Floats
    """`(S,)` V*_gamma in E; empty where gamma changes with time"""
    gain: Floats
    """`(1,)` lambda_*"""
    steps: Ints
    """`(1,)` T"""
    prior: Floats
    """`(S*A, S)` the Dirichlet parameters that the agent began with"""
    alpha: Floats
    """`(S*A, S)` those of its belief as it learns"""
    seen: Ints
    """`(S*A,)` the visits that it has seen"""
    work: Workspace
    sample: Floats
    """`(S*A, S)` the last posterior draw"""
    sample_value: Floats
    """`(S,)` V*_gamma in it"""
    visits: Ints
    """`(S*A,)` visits before it"""
    totals: Floats
    """`(5,)` sums over pseudo-episodes (DELTA, DELTA_TILDE, AVERAGING), the state at the last
    resampling (LAST_STATE), and the largest deviation over width (CONFIDENCE)"""


@leaf
def note(
    notes: Notes, t: int, state: int, gamma: float, policy: Ints, belief: Any, model: Any
) -> None:
    """Note a pseudo-episode as it begins."""
    n_rows, n_states = notes.alpha.shape
    value, totals = notes.work.value, notes.totals
    for row in range(n_rows):
        notes.visits[row] = notes.seen[row]
        for j in range(n_states):
            notes.sample[row, j] = model.P[row, j]
    for s in range(n_states):
        notes.sample_value[s] = model.work.value[s]
    totals[LAST_STATE] = state
    if len(notes.value) > 0:
        discounted_policy_value(notes.transitions, notes.rewards, gamma, policy, notes.work)
        totals[DELTA] += notes.value[state] - value[state]
        totals[DELTA_TILDE] += model.work.value[state] - value[state]
        totals[AVERAGING] += notes.gain[0] / (1.0 - gamma) - notes.value[state]
        width = 14.0 * n_states * np.log(2.0 * n_rows * notes.steps[0] * (t + 0.0))
        totals[CONFIDENCE] = max(totals[CONFIDENCE], largest_deviation(notes) / np.sqrt(width))


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
    n_states: int,
    n_actions: int,
    rule: Bernoulli,
    steps: int,
    runs: int,
    seed: int = 0,
    times: Ints | None = None,
    alpha: float | None = None,
    believed: float | None = None,
    cap: float = np.inf,
    progress: Callable[[int], None] = lambda n: None,
) -> PriorRuns:
    """Run Continuing PSRL once on each of `runs` MDPs drawn from the prior.

    Args:
        n_states: S.
        n_actions: A.
        rule: the coin; a schedule is tuned to `steps`.
        steps: T.
        runs: how many MDPs.
        seed: the root seed.
        times: steps to record; the last must be T. None records T alone.
        alpha: the Dirichlet parameter of every cell, 1/S by default.
        believed: the parameter that the agent believes in; another one than `alpha` makes its prior
            wrong.
        cap: the largest span of the optimal bias that the prior allows.
        progress: called with the number of steps just taken.
    """
    times = np.array([steps]) if times is None else np.asarray(times, np.int64)
    coin = rule.resolve(n_states * n_actions, steps)
    parameter = 1 / n_states if alpha is None else alpha
    prior = _belief(n_states, n_actions, parameter if believed is None else believed, cap)
    first = PSRL(rule=coin, belief=prior).start(Sizes(n_states, n_actions), Streams())
    words = first_words(seed, range(runs))

    portion = max(1, STEPS_AT_ONCE // steps)

    def some(begin: int) -> list[Any]:
        """Return the columns of some runs, taken stage by stage, each stage's code warm."""
        streams = [Streams(words=own) for own in words[begin : begin + portion]]
        mdps = [true_mdp(n_states, n_actions, parameter, cap, own) for own in streams]
        both = zip(mdps, streams, strict=True)
        under_way = [_stages(first, mdp, own, steps, times) for mdp, own in both]
        *_, rows = zip(*under_way, strict=True)
        progress(steps * len(rows))
        return [np.array(column) for column in zip(*rows, strict=True)]

    few = steps * n_states**2 * n_actions < WORTH_THREADS
    threads = Threads(1 if few else os.cpu_count() or 1)
    try:
        portions = [threads.submit(some, begin) for begin in range(0, runs, portion)]
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
    dirichlet = _dirichlet(agent.told)
    dirichlet.rewards.mean[:] = mdp.rewards.ravel()
    yield ()
    resample, gamma = _completed(agent.ahead, steps)
    yield ()
    last, constant = len(resample), isinstance(gamma, float)
    notes = Notes(
        np.array(mdp.transitions),
        np.array(mdp.rewards),
        solve_discounted(mdp, gamma).value if isinstance(gamma, float) else np.zeros(0),
        best.gain[:1].copy(),
        np.array([steps]),
        dirichlet.alpha.copy(),
        dirichlet.alpha,
        dirichlet.rewards.seen,
        workspace(mdp.n_states),
        np.empty_like(dirichlet.alpha),
        np.empty(mdp.n_states),
        np.empty_like(dirichlet.rewards.seen),
        np.full(5, 0.0 if constant else np.nan),
    )
    yield ()
    marks = np.append(times, last) if last > steps else times
    recorder = Recorder(marks, chunk=last, trajectory=True, watch=Watcher(note, notes))
    under_way = Run(agent, Simulator(mdp, streams))
    tabular.advance(under_way, recorder, last, lambda n: None, np.zeros(1, np.int64))
    yield ()
    path = recorder.trajectory(under_way.simulator.state)
    lost = np.cumsum(given_away(mdp, best)[path["states"][:-1], path["actions"]])[times - 1]
    regret = marks * best.gain[0] - recorder.tape.reward_sums
    place = int(notes.totals[LAST_STATE])
    yield (
        regret[: len(times)],
        lost + best.bias[path["states"][times]] - best.bias[0],
        regret[-1],
        int(resample[:steps].sum()),
        *notes.totals[[DELTA, DELTA_TILDE, AVERAGING, CONFIDENCE]],
        int(agent.told.arrays.rejected[0]) if truncated else 0,
        np.ptp(best.bias),
        notes.transitions.reshape(-1, mdp.n_states),
        notes.sample,
        notes.visits,
        place,
        notes.value[place] if constant else np.nan,
        notes.sample_value[place],
    )


def _belief(n_states: int, n_actions: int, parameter: float, cap: float) -> Any:
    """Return the prior with known rewards, of 0 until others are put in their place."""
    known = KnownRewards(np.zeros((n_states, n_actions)))
    dirichlet = Dirichlet(parameter, rewards=known)
    return dirichlet if np.isinf(cap) else Truncated(cap, dirichlet)


@lru_cache(maxsize=8)
def _started(n_states: int, n_actions: int, parameter: float, cap: float) -> Any:
    """Return the live prior, to be copied: that is quicker than to start one."""
    return _belief(n_states, n_actions, parameter, cap).start(Sizes(n_states, n_actions))


def true_mdp(
    n_states: int, n_actions: int, parameter: float, cap: float, streams: Streams
) -> TabularMDP:
    """Draw an MDP from the prior."""
    prior = _started(n_states, n_actions, parameter, cap).copy()
    _dirichlet(prior).rewards.mean[:] = streams.model.random(n_states * n_actions)
    return prior.sample(streams.model)


def _dirichlet(live: Any) -> DirichletArrays:
    """Return the arrays of a live belief, those inside where it is truncated."""
    return live.arrays.inner if isinstance(live.arrays, TruncatedArrays) else live.arrays


def _completed(ahead: Ahead, steps: int) -> Arrays:
    """Return coins and gammas of the steps 1, ..., T', the last one before a resampling."""
    end = steps
    while True:
        end += LOOK_AHEAD
        resample, gamma = ahead.steps(1, end)
        if resample[steps:].any():
            return resample[: steps + int(np.argmax(resample[steps:]))], gamma
