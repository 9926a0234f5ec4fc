"""Posterior sampling without resets: one agent, of which the known ones are settings.

Continuing PSRL (Xu, Dong and Van Roy 2024, Algorithm 1), with the paper's symbols beside the code:

    for t = 1, 2, ...
        if X_t = 0                              the rule says so: `tick`
            sample E^k from the posterior       `resample`
            pi_k = optimal policy of E^k        for the objective
        apply A_t = pi_k(S_t)                   `act`
        observe R_(t+1), S_(t+1)                `observe`

TSDE, DS-PSRL and the others differ in the rule (when to resample) and the objective (what to plan
for). `PSRLAgent` is this loop's body in Python. The compiled loop, `cpsrl.simulation.tabular`,
calls the same compiled functions in the same order: the same trajectory, bit for bit.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cpsrl._compile import jit
from cpsrl.agents.agent import (
    AGENTS,
    Agent,
    LiveAgent,
    check_state,
    described,
    fitting,
    sizes_of,
)
from cpsrl.beliefs import Posterior, Prior
from cpsrl.beliefs.belief import Belief, sample_mean_rewards
from cpsrl.beliefs.dirichlet import sample_dense
from cpsrl.checks import checked_index
from cpsrl.mdp import TabularMDP
from cpsrl.objectives import Average, Discounted, Objective, checked_objective
from cpsrl.planning import solve_average, solve_discounted
from cpsrl.planning.kernels import plan_average, plan_discounted
from cpsrl.resampling import (
    Arrays,
    Bernoulli,
    CountDoubling,
    DoublingTimes,
    EveryStep,
    FixedLength,
    Rule,
    TSDEStops,
    checked_rule,
)
from cpsrl.seeding import Streams
from cpsrl.sizes import Sizes
from cpsrl.types import Floats, Ints

IN_ADVANCE, TSDE_STOPS, COUNT_DOUBLING = 0, 1, 2
STEP, START, PREVIOUS, RESAMPLES, ROW, DRAWN, DUE = range(7)
"""Places in an agent's clock: the step t about to be taken, the first step t_k of the current
pseudo-episode (t_0 = 0), the length of the one before it, the number of resamplings, the row
visited last, whether the rule was asked for step t, and whether a resampling is due."""

TOLERANCE = 1e-8
"""Error of the value of a large sampled model, or of its gain, as a share of the largest reward."""


class Model(NamedTuple):
    """A sampled dense model and the planner's scratch (empty where the belief is sparse)."""

    transitions: Floats
    """`(S*A, S)`"""
    rewards: Floats
    """`(S*A,)`"""
    value: Floats
    """`(S,)`"""
    gain: Floats
    """`(S,)`"""
    matrix: Floats
    """`(S, S)`"""


@jit
def stops(code: int, t: int, start: int, previous_length: int, visits: int, before: int) -> bool:
    """Return whether a count rule ends the pseudo-episode at the start of step t."""
    if code == TSDE_STOPS:
        return t > start + previous_length or visits > 2 * before
    return visits - before >= max(1, before)


@jit
def stops_now(code: int, clock: Ints, visits: Ints, before: Ints) -> bool:
    """Return whether a count rule resamples at the current step."""
    row = clock[ROW]
    if clock[STEP] == 1:
        return True
    return stops(code, clock[STEP], clock[START], clock[PREVIOUS], visits[row], before[row])


@jit
def begin_pseudo_episode(code: int, clock: Ints, visits: Ints, before: Ints) -> None:
    """Set the clock for a pseudo-episode that begins at the current step."""
    clock[PREVIOUS] = clock[STEP] - clock[START]
    clock[START] = clock[STEP]
    clock[RESAMPLES] += 1
    clock[DUE] = 0
    if code != IN_ADVANCE:
        for row in range(len(visits)):
            before[row] = visits[row]


@jit
def resample_dense(
    belief: Belief,
    model: Model,
    average: bool,
    gamma: float,
    policy: Ints,
    rng: np.random.Generator,
) -> None:
    """Draw a model from a dense belief and make `policy` `(S,)` optimal in it."""
    sample_dense(belief.alpha, belief.visits, belief.small, rng, model.transitions)
    sample_mean_rewards(belief, rng, model.rewards)
    n_states = len(policy)
    n_actions = len(model.rewards) // n_states
    P = model.transitions.reshape((n_states, n_actions, n_states))
    r = model.rewards.reshape((n_states, n_actions))
    if average:
        plan_average(P, r, policy, model.gain, model.value, model.matrix)
    else:
        plan_discounted(P, r, gamma, policy, model.value, model.matrix)


class PSRLAgent(LiveAgent):
    """A live agent: `act`, `observe`, and to look at, `policy` `(S,)` and `posterior`."""

    def __init__(self, spec: "PSRL", problem: TabularMDP | Sizes, streams: Streams) -> None:
        sizes = sizes_of(problem, spec.label)
        n_states, n_actions = sizes.n_states, sizes.n_actions
        self.rule = spec.rule.resolve(n_states * n_actions, None)
        self.code = (
            0 if not self.rule.needs_counts else 1 if isinstance(self.rule, TSDEStops) else 2
        )
        self.spec = replace(spec, rule=self.rule)
        self.average = isinstance(spec.objective, Average)
        self.gamma = fixed_gamma(spec.objective)
        self.streams = streams
        self.posterior = Posterior(spec.prior, problem)
        self.policy = np.zeros(n_states, np.int64)
        self.clock = np.zeros(7, np.int64)
        self.clock[STEP] = 1
        self.before = np.zeros(n_states * n_actions if self.rule.needs_counts else 0, np.int64)
        rows, cells = (n_states * n_actions, n_states) if self.posterior.is_dense else (0, 0)
        self.model = Model(
            np.empty((rows, cells)),
            np.empty(rows),
            np.empty(cells),
            np.empty(cells),
            np.empty((cells, cells)),
        )
        self._gamma = np.nan

    @property
    def step(self) -> int:
        """The number of the step about to be taken."""
        return int(self.clock[STEP])

    @property
    def resamples(self) -> int:  # type: ignore[override]
        """How often a model was drawn."""
        return int(self.clock[RESAMPLES])

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state = checked_index("state", state, self.posterior.n_states)
        self.tick()
        if self.clock[DUE]:
            self.resample(self.planning_gamma(self._gamma))
        return int(self.policy[state])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        self.posterior.checked(state, action, reward, next_state)
        self.tick()
        self.clock[ROW] = self.posterior.observe(state, action, reward, next_state)
        self.clock[STEP] += 1
        self.clock[DRAWN] = 0

    def in_advance(self, n: int) -> Arrays:
        """Return the rule's arrays of the next n steps, empty if it looks at visit counts."""
        if self.rule.needs_counts:
            return np.zeros(0, np.bool_), np.zeros(0)
        resample, gamma = self.rule.arrays(self.step, n, self.streams.rule)
        kinds = resample.dtype == np.bool_ and gamma.dtype == np.float64
        if not kinds or not resample.shape == gamma.shape == (n,):
            raise ValueError(
                f"the rule {self.rule.label!r} must give {n} booleans and {n} floats, not "
                f"{resample.dtype} {resample.shape} and {gamma.dtype} {gamma.shape}"
            )
        return resample, gamma

    def tick(self) -> None:
        """Ask the rule, once a step, whether to resample."""
        if self.clock[DRAWN]:
            return
        if self.rule.needs_counts:
            visits = self.posterior.arrays.visits
            due = stops_now(self.code, self.clock, visits, self.before)
        else:
            resample, gamma = self.in_advance(1)
            due, self._gamma = resample[0], gamma[0]
        self.clock[DRAWN] = 1
        self.clock[DUE] |= due

    def planning_gamma(self, gamma: float) -> float:
        """Return the discount factor to plan with where the rule's is `gamma`."""
        return gamma if math.isnan(self.gamma) else self.gamma

    def resample(self, gamma: float) -> None:
        """Begin a pseudo-episode: draw a model and plan in it, with `gamma` if discounted."""
        if self.posterior.is_dense:
            belief, rng = self.posterior.arrays, self.streams.belief
            resample_dense(belief, self.model, self.average, gamma, self.policy, rng)
        else:
            model = self.posterior.sample(self.streams.belief)
            tol = TOLERANCE * max(1.0, float(np.abs(model.rewards).max()))
            if self.average:
                self.policy[:] = solve_average(model, tol).policy
            else:
                self.policy[:] = solve_discounted(model, gamma, tol).policy
        begin_pseudo_episode(self.code, self.clock, self.posterior.arrays.visits, self.before)

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here."""
        return {
            "belief": self.posterior.state(),
            "policy": self.policy.copy(),
            "clock": self.clock.copy(),
            "before": self.before.copy(),
            "spec": described(self.spec),
            "streams": self.streams.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        check_state(state, self.spec, "belief")
        mine = {"policy": self.policy, "clock": self.clock, "before": self.before}
        arrays = fitting(state, mine)
        policy, clock = arrays["policy"], arrays["clock"]
        n_actions, n_rows = self.posterior.n_actions, len(self.posterior.arrays.visits)
        sound = (policy >= 0).all() and (policy < n_actions).all() and (clock >= 0).all()
        if not sound or clock[ROW] >= n_rows or clock[STEP] < 1:
            raise ValueError("the stored policy or clock is damaged: it has impossible numbers")
        self.posterior.restore(state["belief"])
        self.streams.restore(state["streams"])
        for name, array in arrays.items():
            mine[name][:] = array


def fixed_gamma(objective: Objective) -> float:
    """Return the objective's own discount factor: NaN if it is the rule's, 0 if there is none."""
    if isinstance(objective, Average):
        return 0.0
    return math.nan if objective.gamma is None else objective.gamma


@AGENTS.add("psrl")
@dataclass(frozen=True)
class PSRL(Agent):
    """Posterior sampling with any rule and any objective.

    Args:
        rule: when to draw a new model (see `cpsrl.resampling`).
        objective: `Discounted(gamma=None)` or `Average()`.
        prior: the belief at the start.
        label: what to call the agent in tables and figures.
    """

    rule: Rule = field(default_factory=Bernoulli)
    objective: Objective = field(default_factory=Discounted)
    prior: Prior = field(default_factory=Prior)
    label: str = ""

    def __post_init__(self) -> None:
        checked_rule(self.rule)
        checked_objective(self.objective)
        if not isinstance(self.prior, Prior):
            raise ValueError(f"prior must be a Prior(...), not {self.prior!r}")
        fixed = isinstance(self.objective, Average) or self.objective.gamma is not None
        if not fixed and not self.rule.has_gamma:
            raise ValueError(
                f"the rule {self.rule.label!r} has no gamma to plan with: give "
                "Discounted(gamma) or Average()"
            )
        if not self.label:
            object.__setattr__(self, "label", _label(self.rule, self.objective))

    def resolve(self, problem: TabularMDP | Sizes, steps: int | None) -> "PSRL":
        """Return the agent with a rule tuned to `problem` and, if it asks for it, to `steps`."""
        rule = self.rule.resolve(problem.n_states * problem.n_actions, steps)
        given = self.label != _label(self.rule, self.objective)
        return replace(self, rule=rule, label=self.label if given else "")

    def check(self, problem: TabularMDP | Sizes) -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        sizes_of(problem, self.label)
        Posterior(self.prior, problem)

    def start(self, problem: TabularMDP | Sizes, streams: Streams) -> PSRLAgent:
        """Return a live agent."""
        return PSRLAgent(self, problem, streams)


@AGENTS.add("continuing-psrl")
def ContinuingPSRL(
    gamma: float | None = None,
    schedule: Any = None,
    horizon: int | None = None,
    prior: Prior | None = None,
    label: str = "",
) -> PSRL:
    """Continuing PSRL (Xu, Dong and Van Roy 2024): resample with probability 1 - gamma a step.

    Args:
        gamma: the discount factor (.99 unless there is a schedule).
        schedule: "horizon" (1 - sqrt(S A / T)), "doubling", or a function of the step.
        horizon: T of the "horizon" schedule; None takes the steps of the simulation.
        prior: the belief at the start.
        label: what to call the agent.
    """
    rule = Bernoulli(gamma=gamma, schedule=schedule, horizon=horizon)
    return PSRL(rule, Discounted(), prior or Prior(), label)


@AGENTS.add("tsde")
def TSDE(prior: Prior | None = None, label: str = "") -> PSRL:
    """Thompson sampling with dynamic episodes (Ouyang et al. 2017)."""
    return PSRL(TSDEStops(), Average(), prior or Prior(), label)


@AGENTS.add("ds-psrl")
def DSPSRL(prior: Prior | None = None, label: str = "") -> PSRL:
    """Deterministically scheduled PSRL (Theocharous et al. 2018): resample at 1, 2, 4, 8, ..."""
    return PSRL(DoublingTimes(), Average(), prior or Prior(), label)


@AGENTS.add("count-doubling-psrl")
def CountDoublingPSRL(prior: Prior | None = None, label: str = "") -> PSRL:
    """PSRL that resamples when a visit count doubles (Osband, Russo and Van Roy 2013)."""
    return PSRL(CountDoubling(), Average(), prior or Prior(), label)


@AGENTS.add("fixed-length-psrl")
def FixedLengthPSRL(
    length: int = 100, gamma: float | None = None, prior: Prior | None = None, label: str = ""
) -> PSRL:
    """PSRL that resamples every `length` steps; with `gamma` it plans discounted, else average."""
    objective = Average() if gamma is None else Discounted(gamma)
    return PSRL(FixedLength(length), objective, prior or Prior(), label)


@AGENTS.add("every-step-psrl")
def EveryStepPSRL(gamma: float | None = None, prior: Prior | None = None, label: str = "") -> PSRL:
    """PSRL that resamples at every step; with `gamma` it plans discounted, else average."""
    objective = Average() if gamma is None else Discounted(gamma)
    return PSRL(EveryStep(), objective, prior or Prior(), label)


NAMES = {
    (Bernoulli, Discounted()): "Continuing PSRL, {rule}",
    (TSDEStops, Average()): "TSDE",
    (DoublingTimes, Average()): "DS-PSRL",
    (CountDoubling, Average()): "Count-doubling PSRL",
}
"""What the known settings are called."""


def _label(rule: Rule, objective: Objective) -> str:
    """Return what the agent of these parts is called where its user gives it no label."""
    known = NAMES.get((type(rule), objective))
    if known is None:
        known = "PSRL, {rule}" if objective == Discounted() else "PSRL, {rule}, {objective}"
    return known.format(rule=rule.label, objective=objective.label)
