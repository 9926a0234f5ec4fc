r"""Continuing PSRL on MDPs drawn from its own prior: what the theorems average over.

Every run draws a true MDP E: transition rows Dirichlet(alpha, ..., alpha), mean rewards uniform
on [0, 1] and known to the agent, as in the paper's analysis. With a `cap`, MDPs whose optimal
bias has a span above it are rejected, of the true MDP and of every posterior draw alike: the
posterior under the truncated prior is the truncated posterior, so Assumption 3.2 then holds with
span <= cap and the agent is still an exact posterior sampler.

The loop is that of `cpsrl.simulation.tabular` for a rule known in advance, made of the same
compiled functions in the same order on the same streams; without a cap it takes the same steps.
On the way it computes what only an observer who knows E can: the exact values behind the
discounted regret. The last pseudo-episode is completed: steps go on to T' >= T, the step before
the first resampling after T.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl._compile import announce_compilation, jit
from cpsrl.beliefs.dirichlet import sample_dense
from cpsrl.beliefs.gamma import SmallGamma, small_gamma
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.simulator import draw_next
from cpsrl.planning import solve_average, solve_discounted, span
from cpsrl.planning.average import expected_change
from cpsrl.planning.kernels import discounted_policy_value, plan_average, plan_discounted
from cpsrl.resampling import Bernoulli
from cpsrl.seeding import Streams
from cpsrl.simulation.tabular import World, world_of
from cpsrl.types import Floats, Ints

SAME_GAIN = 1e-9
"""An MDP whose optimal gains differ by more than this is not taken as weakly communicating."""

MOST_REJECTED = 10_000

DELTA, DELTA_TILDE, AVERAGING, LAST_STATE, REJECTED, CONFIDENCE = range(6)


@dataclass(frozen=True, eq=False)
class Draws:
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


@jit
def draw_capped(
    alpha: Floats,
    visits: Ints,
    small: SmallGamma,
    rewards: Floats,
    cap: float,
    rng: np.random.Generator,
    out: Floats,
) -> int:
    """Draw transitions `(S*A, S)` until the span of the optimal bias is at most `cap`.

    Returns the number of draws rejected; a cap of infinity accepts the first and plans nothing.
    """
    n_states = alpha.shape[1]
    P, r = out.reshape((n_states, -1, n_states)), rewards.reshape((n_states, -1))
    policy = np.zeros(n_states, np.int64)
    gain, bias, matrix = np.empty(n_states), np.empty(n_states), np.empty((n_states, n_states))
    rejected = 0
    while True:
        sample_dense(alpha, visits, small, rng, out)
        if np.isinf(cap):
            return rejected
        plan_average(P, r, policy, gain, bias, matrix)
        if gain.max() - gain.min() <= SAME_GAIN and bias.max() - bias.min() <= cap:
            return rejected
        rejected += 1
        if rejected == MOST_REJECTED:
            raise ValueError("hardly any MDP of this prior has an optimal bias of so small a span")


class Truth(NamedTuple):
    """What an observer knows of the true MDP E."""

    transitions: Floats
    """`(S*A, S)`"""
    gain: float
    """lambda_*"""
    bias: Floats
    """`(S,)` h"""
    loss: Floats
    """`(S*A,)` lambda_* + h(s) - r(s, a) - P h(s, a)"""
    value: Floats
    """`(S,)` V*_gamma; empty where gamma changes with time"""


class Record(NamedTuple):
    """What a run leaves behind (see `Draws`)."""

    times: Ints
    """`(points,)` steps to record"""
    regret: Floats
    """`(points,)`"""
    expected_regret: Floats
    """`(points,)`"""
    sample: Floats
    """`(S*A, S)` the last posterior draw"""
    value: Floats
    """`(S,)` V*_gamma in it"""
    visits: Ints
    """`(S*A,)` visits before it"""
    totals: Floats
    """`(6,)` sums over pseudo-episodes (DELTA, DELTA_TILDE, AVERAGING, REJECTED), the state at the
    last resampling (LAST_STATE), and the largest deviation over width (CONFIDENCE)"""


@jit
def observed_run(
    world: World,
    truth: Truth,
    prior: Floats,
    small: SmallGamma,
    cap: float,
    resample: NDArray[np.bool_],
    gamma: Floats,
    steps: int,
    record: Record,
    transition_rng: np.random.Generator,
    belief_rng: np.random.Generator,
) -> float:
    """Take len(resample) steps of Continuing PSRL and return the regret after the last.

    Args:
        world: the true MDP as `simulation.tabular` has it.
        truth: the same for the observer.
        prior: `(S*A, S)` Dirichlet parameters that the agent believes in.
        small: for drawing cells with the prior's parameter.
        cap: the largest span of the optimal bias that it believes possible.
        resample: `(n,)` whether each step resamples.
        gamma: `(n,)` the discount factor of each step.
        steps: T; later steps complete the last pseudo-episode.
        record: out.
        transition_rng: one uniform a step.
        belief_rng: posterior draws.
    """
    n_states, n_rows = len(truth.bias), len(world.rewards)
    n_actions = n_rows // n_states
    P, r = record.sample.reshape((n_states, -1, n_states)), world.rewards.reshape((n_states, -1))
    true_P = truth.transitions.reshape((n_states, -1, n_states))
    alpha, visits = prior.copy(), np.zeros(n_rows, np.int64)
    policy, matrix = np.zeros(n_states, np.int64), np.empty((n_states, n_states))
    value, totals = np.empty(n_states), record.totals
    state, mark, reward_sum, lost = 0, 0, 0.0, 0.0
    for i in range(len(resample)):
        if resample[i]:
            totals[REJECTED] += draw_capped(
                alpha, visits, small, world.rewards, cap, belief_rng, record.sample
            )
            plan_discounted(P, r, gamma[i], policy, record.value, matrix)
            record.visits[:] = visits
            totals[LAST_STATE] = state
            if len(truth.value) > 0:
                discounted_policy_value(true_P, r, gamma[i], policy, value, matrix)
                totals[DELTA] += truth.value[state] - value[state]
                totals[DELTA_TILDE] += record.value[state] - value[state]
                totals[AVERAGING] += truth.gain / (1.0 - gamma[i]) - truth.value[state]
                width = 14.0 * n_states * np.log(2.0 * n_rows * steps * (i + 1.0))
                ratio = largest_deviation(alpha - prior, visits, truth.transitions) / np.sqrt(width)
                totals[CONFIDENCE] = max(totals[CONFIDENCE], ratio)
        row = state * n_actions + policy[state]
        reward_sum += world.rewards[row]
        lost += truth.loss[row]
        state = draw_next(
            world.indptr, world.indices, world.cumulative, row, transition_rng.random()
        )
        alpha[row, state] += 1.0
        visits[row] += 1
        if mark < len(record.times) and record.times[mark] == i + 1:
            record.regret[mark] = (i + 1) * truth.gain - reward_sum
            record.expected_regret[mark] = lost + truth.bias[state] - truth.bias[0]
            mark += 1
    return len(resample) * truth.gain - reward_sum


@jit
def largest_deviation(counts: Floats, visits: Ints, transitions: Floats) -> float:
    """Return the largest sqrt(N) |P - empirical|_1 of a visited row; `(S*A, S)`, `(S*A,)`."""
    most = 0.0
    for row in range(len(visits)):
        if visits[row] > 0:
            deviation = 0.0
            for j in range(counts.shape[1]):
                deviation += abs(counts[row, j] / visits[row] - transitions[row, j])
            most = max(most, deviation * np.sqrt(visits[row]))
    return most


def bayesian_runs(
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
    progress: Callable[[int], None] | None = None,
) -> Draws:
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
    marks = np.array([steps]) if times is None else np.asarray(times, np.int64)
    coin = rule.resolve(n_states * n_actions, steps)
    parameter = 1 / n_states if alpha is None else alpha
    agent_parameter = parameter if believed is None else believed
    announce_compilation(observed_run)

    def one(run: int) -> tuple[object, ...]:
        result = _one(
            n_states, n_actions, coin, steps, seed, run, marks, parameter, agent_parameter, cap
        )
        if progress is not None:
            progress(steps)
        return result

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(one, range(runs)))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Draws(marks, **dict(zip([f.name for f in fields(Draws)][1:], columns, strict=True)))


def _one(
    n_states: int,
    n_actions: int,
    coin: Bernoulli,
    steps: int,
    seed: int,
    run: int,
    times: Ints,
    parameter: float,
    agent_parameter: float,
    cap: float,
) -> tuple[object, ...]:
    streams = Streams(seed, run)
    shape = (n_states * n_actions, n_states)
    mdp, truth = _true_mdp(n_states, n_actions, parameter, cap, streams.model)
    resample, gamma = _completed(coin, steps, streams.rule)
    constant = coin.schedule in (None, "horizon")
    if constant:
        truth = truth._replace(value=solve_discounted(mdp, float(gamma[0])).value)
    record = Record(
        times,
        np.empty(len(times)),
        np.empty(len(times)),
        np.empty(shape),
        np.empty(n_states),
        np.empty(shape[0], np.int64),
        np.zeros(6),
    )
    completed = observed_run(
        world_of(mdp),
        truth,
        np.full(shape, agent_parameter),
        small_gamma(agent_parameter),
        cap,
        resample,
        gamma,
        steps,
        record,
        streams.transition,
        streams.belief,
    )
    totals, last = record.totals, int(record.totals[LAST_STATE])
    if not constant:
        totals[[DELTA, DELTA_TILDE, AVERAGING, CONFIDENCE]] = np.nan
    return (
        record.regret,
        record.expected_regret,
        completed,
        int(resample[:steps].sum()),
        totals[DELTA],
        totals[DELTA_TILDE],
        totals[AVERAGING],
        totals[CONFIDENCE],
        int(totals[REJECTED]),
        span(truth.bias),
        truth.transitions,
        record.sample,
        record.visits,
        last,
        truth.value[last] if constant else np.nan,
        record.value[last],
    )


def _true_mdp(
    n_states: int, n_actions: int, parameter: float, cap: float, rng: np.random.Generator
) -> tuple[TabularMDP, Truth]:
    """Draw an MDP from the prior; return it with what an observer knows of it."""
    rows = n_states * n_actions
    rewards, transitions = rng.random(rows), np.empty((rows, n_states))
    prior, visits = np.full((rows, n_states), parameter), np.zeros(rows, np.int64)
    draw_capped(prior, visits, small_gamma(parameter), rewards, cap, rng, transitions)
    mdp = TabularMDP(
        transitions.reshape(n_states, n_actions, n_states), rewards.reshape(n_states, n_actions)
    )
    best = solve_average(mdp)
    loss = best.gain[:, None] - mdp.rewards - expected_change(mdp, best.bias)
    return mdp, Truth(transitions, float(best.gain[0]), best.bias, loss.ravel(), np.empty(0))


def _completed(
    coin: Bernoulli, steps: int, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], Floats]:
    """Return coins and gammas of the steps 1, ..., T', the last one before a resampling."""
    resample, gamma = coin.arrays(1, steps, rng)
    while True:
        more, more_gamma = coin.arrays(len(resample) + 1, 1024, rng)
        stay = int(np.argmax(more)) if more.any() else len(more)
        resample = np.concatenate([resample, more[:stay]])
        gamma = np.concatenate([gamma, more_gamma[:stay]])
        if more.any():
            return resample, gamma
