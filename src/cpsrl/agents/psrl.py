"""Posterior sampling without resets: one agent, of which the known ones are settings.

Continuing PSRL (Xu, Dong and Van Roy 2024, Algorithm 1), with the paper's symbols beside the code:

    for t = 1, 2, ...
        if X_t = 0                              the rule says so: `ask`
            sample E^k from the posterior       `resample`
            pi_k = optimal policy of E^k        for the objective
        apply A_t = pi_k(S_t)                   `act`
        observe R_(t+1), S_(t+1)                `observe`

TSDE, DS-PSRL and the others differ in the rule (when to resample) and the objective (what to plan
for); the belief (what is drawn) is a part as well. `PSRLAgent` is this loop's body in Python. The
compiled loop, `cpsrl.simulation.compiled`, calls the same compiled functions in the same order: the
same trajectory, bit for bit.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from cpsrl._private.compile import INLINED, inlined, specialised
from cpsrl._private.variates import Words
from cpsrl.agents.agent import AGENTS, Agent, Expected, LiveAgent, sizes_of
from cpsrl.agents.background import Upcoming, drawer
from cpsrl.agents.evidence import Backlog, Evidence
from cpsrl.agents.rule_buffer import RuleBuffer
from cpsrl.beliefs import Dirichlet, Inside
from cpsrl.beliefs.belief import LiveBelief, checked_belief, small_model, started
from cpsrl.mdp import Problem, TabularMDP
from cpsrl.mdp.problem import checked_transition
from cpsrl.objectives import Average, Discounted, Objective, checked_objective
from cpsrl.planning.kernels import Workspace, repeat_rows, workspace
from cpsrl.resampling import (
    Bernoulli,
    CountDoubling,
    DoublingTimes,
    Rule,
    TSDEStops,
    checked_rule,
)
from cpsrl.seeding import Streams, check_streams
from cpsrl.support.checks import checked_arrays, checked_whole
from cpsrl.support.types import Bools, Floats, Ints

STEP, START, PREVIOUS, RESAMPLES, ROW, ASKED, DUE = range(7)
"""Places in an agent's clock: the step t about to be taken, the first step t_k of the current
pseudo-episode (t_0 = 0), the length of the one before it, the number of resamplings, the row
visited last, whether the rule was asked for step t, and whether a resampling is due."""


class AgentArrays(NamedTuple):
    """What compiled code reads and writes of an agent."""

    policy: Ints
    """`(S,)`"""
    stand_in: Ints
    """`(S, A)` for actions that are not available; empty where all are"""
    clock: Ints
    """`(7,)`"""
    visits: Ints
    """`(S*A,)` visits of every row, for rules that look at the data; else empty"""
    before: Ints
    """the same before the pseudo-episode"""
    memory: Floats
    """the rule's own state"""


@inlined
def begin_pseudo_episode(agent: AgentArrays, n_actions: int) -> None:
    """Set the clock for a pseudo-episode that begins at the current step with the policy.

    Actions that are not available are replaced by their stand-ins.
    """
    policy, stand_in, clock = agent.policy, agent.stand_in, agent.clock
    visits, before = agent.visits, agent.before
    for s in range(len(policy)):
        if not 0 <= policy[s] < n_actions:
            raise ValueError("the objective has planned an action that does not exist")
        if len(stand_in) > 0:
            policy[s] = stand_in[s, policy[s]]
    clock[PREVIOUS] = clock[STEP] - clock[START]
    clock[START] = clock[STEP]
    clock[RESAMPLES] += 1
    clock[DUE] = 0
    for row in range(len(visits)):
        before[row] = visits[row]


class Model(NamedTuple):
    """A sampled model, and what planning in it writes into."""

    P: Floats
    """`(S*A, S)`"""
    r: Floats
    """`(S*A,)`"""
    work: Any
    """a `Workspace`, or whatever the objective's `plan` takes in its place"""


MASKED = True
sample: Any = None
plan: Any = None
"""Bound by `resample_of`: whether some action is not available, the belief's and the objective's
functions. What is not called is not compiled."""


def resample(
    belief: Any, model: Model, agent: AgentArrays, gamma: float, belief_words: Words
) -> None:
    """Begin a pseudo-episode: draw a model and make the policy optimal in it (a template).

    Args:
        belief: the belief's arrays.
        model: what is drawn into, and planned in.
        agent: the agent's arrays.
        gamma: the discount factor to plan with.
        belief_words: the stream of the sampled models.
    """
    n_states = len(agent.policy)
    n_actions = len(model.r) // n_states
    sample(belief, belief_words, model.P, model.r)
    if MASKED:
        repeat_rows(model.P, model.r, agent.stand_in)
    P = model.P.reshape((n_states, n_actions, n_states))
    plan(P, model.r.reshape((n_states, n_actions)), gamma, agent.policy, model.work)
    begin_pseudo_episode(agent, n_actions)


@cache
def resample_of(inside: Inside, plan: Any, masked: bool) -> Any:
    """Return `resample` for a belief with compiled functions and an objective's `plan`."""
    return specialised(resample, INLINED, sample=inside.sample, plan=plan, MASKED=masked)


class PSRLAgent(LiveAgent):
    """A live agent: `act`, `observe`, and to look at, `policy` `(S,)`, `belief` and `drawn`.

    It may act in several places at once (machines, customers, shops): `stream(name)` is an agent
    like this one that shares its belief, with a clock, a coin and a policy of its own.
    """

    kept: ClassVar = ("policy", "clock", "visits", "visits_before", "memory")
    background = 0
    """After how many steps a new policy begins, which is drawn meanwhile (`cpsrl.live.Options`)."""

    def __init__(self, spec: "PosteriorSampler", problem: Problem, streams: Streams) -> None:
        self.sizes = self.choices = sizes_of(problem, spec.label)
        rows = self.sizes.n_states * self.sizes.n_actions
        self.rule = spec.rule.resolve(rows, None)
        self.spec = spec.with_rule(self.rule)
        self.objective = spec.objective
        self.problem = problem
        self.evidence = Evidence(started(spec.belief, problem), self.sizes)
        self.expected = Expected(problem)
        self.kernels: dict[Any, Any] = {}  # kept by the compiled loop
        self._begin(streams)

    def _begin(self, streams: Streams) -> None:
        n_states, rows = self.sizes.n_states, self.sizes.n_states * self.sizes.n_actions
        self._begin_stream(streams)
        self.model: Model | None = None
        self.work: Workspace | None = None
        self.drawn: tuple[Floats, Floats] | TabularMDP | None = None  # the model of the last `act`
        if self.live_belief.inside is not None:
            P, r = np.empty((rows, n_states)), np.empty(rows)
            self.model = Model(P, r, workspace(n_states))

    def _begin_stream(self, streams: Streams) -> None:
        """Begin with what every stream has of its own."""
        self.streams = streams
        self.members: dict[str, PSRLAgent] = {}
        self.upcoming: list[Upcoming] = []
        self.rule_buffer = RuleBuffer(self.rule, streams)
        self.policy = self.sizes.stand_in[:, 0].copy()
        self.clock = np.zeros(7, np.int64)
        self.clock[STEP] = 1
        rows = self.sizes.n_states * self.sizes.n_actions
        counted = rows if self.rule.needs_counts else 0
        self.visits, self.visits_before = np.zeros(counted, np.int64), np.zeros(counted, np.int64)
        self.memory = np.array(self.rule.memory(), np.float64)

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state = self.sizes.checked("state", state)
        self.ask()
        if self.clock.item(DUE):
            if self.background and self.resamples:
                self._resample_later()
            else:
                self.resample()
        if self.upcoming and self.step >= self.upcoming[0].begins:
            self._begin_upcoming()
        return self.policy.item(state)

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        row, reward, next_state = self._checked(state, action, reward, next_state)
        self.ask()
        self._enter(row, reward, next_state)
        self._move_on(asked=False)

    def keep_to(self, among: Bools | None) -> None:
        """Act among the actions `(S, A)` only, from the next step on; None: all that there are."""
        choices = self.sizes if among is None else replace(self.sizes, available=among)
        for one in (self, *self.members.values()):
            one.choices = choices
            one.clock[DUE] = 1

    @property
    def stand_in(self) -> Ints:
        """`(S, A)` for actions that are not to be taken; empty where all may be."""
        return self.choices.kernel_stand_in

    def decide(self, state: int) -> int:
        """Return the action in `state` and move time on.

        A rule that looks at counts is not asked again until an outcome comes.
        """
        action = self.act(state)
        self._move_on(asked=self.rule.needs_counts)
        return action

    def learn(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition, however late, and ask a rule that looks at counts.

        Raise, and change nothing, if it cannot be.
        """
        row, reward, next_state = self._checked(state, action, reward, next_state)
        if self.rule.needs_counts:
            self.ask()  # about the transition before, if `observe` left that to be asked
        self._enter(row, reward, next_state)
        if self.rule.needs_counts and self.step > 1:
            self.clock[ASKED] = 0
            self.ask()

    def _checked(
        self, state: int, action: int, reward: float, next_state: int
    ) -> tuple[int, float, int]:
        """Return the row, reward and next state of a transition, or raise."""
        state, action, reward, next_state = checked_transition(
            self.sizes, state, action, reward, next_state
        )
        self.evidence.check_possible(state, action, next_state)
        self.expected.look(reward)
        return state * self.sizes.n_actions + action, reward, next_state

    def _enter(self, row: int, reward: float, next_state: int) -> None:
        """Put a transition where the belief will find it, and count it."""
        self.evidence.enter(row, reward, next_state)
        if self.rule.needs_counts:
            self.visits[row] += 1
        self.clock[ROW] = row

    def _move_on(self, asked: bool) -> None:
        """Move time on; if `asked`, the rule is not asked at the new step."""
        self.clock[STEP] += 1
        self.clock[ASKED] = asked

    def ask(self) -> None:
        """Ask the rule, once a step, whether to resample."""
        clock = self.clock
        t, start, previous, _, row, asked, _ = clock.tolist()
        if asked:
            return
        if not self.rule.needs_counts:
            due, _ = self.rule_buffer.step(t)
        elif t == 1:
            due = True
        else:
            assert self.rule.stops is not None
            visits, before = self.visits.item(row), self.visits_before.item(row)
            due = self.rule.stops(t, start, previous, visits, before, self.memory)
        clock[ASKED] = 1
        if due:
            clock[DUE] = 1

    def planning_gamma(self) -> float:
        """Return the discount factor to plan with at the current step."""
        own = math.nan if self.rule.needs_counts else self.rule_buffer.step(self.step)[1]
        return self.objective.planning_gamma(own)

    def resample(self) -> None:
        """Begin a pseudo-episode: draw a model and make the policy optimal in it."""
        self.hand_over()
        self._draw(self.planning_gamma())

    def _draw(self, gamma: float) -> Any:
        """Draw a model, make the policy optimal in it, and return the model."""
        live_belief, model = self.live_belief, self.model
        shape = (self.sizes.n_states, self.sizes.n_actions)
        if model is not None:
            with self.streams.words("belief") as (words,):
                self.compiled_resample(live_belief.arrays, model, self.arrays, gamma, words)
            self.drawn = model.P.reshape(*shape, -1), model.r.reshape(shape)
            return self.drawn
        self.drawn = None  # there need not be room for two
        self.drawn = drawn = small_model(live_belief.sample(self.streams.belief), self.choices)
        if isinstance(drawn, TabularMDP):
            self.policy[:] = self.objective.solve(drawn, gamma)
        else:
            self.work = self.work or workspace(shape[0])
            self.objective.plan(*drawn, gamma, self.policy, self.work)
        begin_pseudo_episode(self.arrays, shape[1])
        return drawn

    def _resample_later(self) -> None:
        """Begin to draw a model in a thread; its policy begins `background` steps from now."""
        self.hand_over()
        self.clock[DUE] = 0
        apart = self.snapshot()
        if self.model is not None:
            P, r = np.empty_like(self.model.P), np.empty_like(self.model.r)
            apart.model = Model(P, r, workspace(self.sizes.n_states))
        apart.work = None
        draw = drawer().submit(apart._draw, self.planning_gamma())
        self.upcoming.append(Upcoming(self.step + self.background, apart.policy, draw))

    def _begin_upcoming(self) -> None:
        """Switch to the policy that is due; wait if it is still being drawn."""
        one = self.upcoming.pop(0)
        drawn = one.wait()
        self.drawn = self.drawn if drawn is None else drawn
        self.policy[:] = one.policy
        begin_pseudo_episode(self.arrays, self.sizes.n_actions)

    def hand_over(self) -> None:
        """Give the belief the transitions that wait."""
        self.evidence.hand_over()

    @property
    def arrays(self) -> AgentArrays:
        """The arrays that compiled code writes to."""
        counts = self.visits, self.visits_before
        return AgentArrays(self.policy, self.stand_in, self.clock, *counts, self.memory)

    @property
    def compiled_resample(self) -> Any:
        """`resample` for this agent's belief and objective; None if the belief has no functions."""
        inside = self.live_belief.inside
        if inside is None:
            return None
        return resample_of(inside, type(self.objective).plan, len(self.stand_in) > 0)

    @property
    def live_belief(self) -> LiveBelief:
        """The live belief, which may lag behind."""
        return self.evidence.live_belief

    @property
    def backlog(self) -> Backlog:
        """The transitions that the belief has not received yet."""
        return self.evidence.backlog

    @property
    def step(self) -> int:
        """The number of the step about to be taken."""
        return self.clock.item(STEP)

    @property
    def resamples(self) -> int:  # type: ignore[override]
        """How often a model was drawn."""
        return self.clock.item(RESAMPLES)

    @property
    def drawing(self) -> bool:
        """Whether a policy is being drawn in the background, its own or a stream's."""
        return not all(one.done for one in self._all_upcoming())

    def _all_upcoming(self) -> list[Upcoming]:
        return [one for agent in (self, *self.members.values()) for one in agent.upcoming]

    @property
    def belief(self) -> LiveBelief:
        """The live belief after all that was observed; a copy of it where it lags behind."""
        return self.evidence.current()

    def _shallow(self) -> "PSRLAgent":
        new = object.__new__(PSRLAgent)  # `copy.copy` takes five times as long
        new.__dict__ |= self.__dict__
        return new

    def fork(self, streams: Streams) -> "PSRLAgent":
        """Return a new agent of the same parts at its first step; faster than `start`."""
        if self.live_belief.inside is None:
            return self.spec.start(self.problem, streams)
        new = self._shallow()
        new.evidence = Evidence(self.live_belief.copy(), self.sizes)
        new.expected = self.expected.again()
        new._begin(streams)
        new.join(list(self.members))
        return new

    def snapshot(self) -> "PSRLAgent":
        """Return a copy of the agent, to inspect or to draw with while this one goes on.

        What it draws for inspection is to be drawn with other streams.
        """
        new, belief = self._shallow(), self.belief
        belief = belief.copy() if belief is self.live_belief else belief
        new.evidence, new.upcoming = Evidence(belief, self.sizes), []
        for name in self.kept:
            setattr(new, name, getattr(self, name).copy())
        return new

    def stream(self, name: str) -> "PSRLAgent":
        """Return the stream called `name`, which begins when it is first asked for."""
        if name not in self.members:
            self.join([name])
        return self.members[name]

    def join(self, names: list[str]) -> None:
        """Begin the streams of these names."""
        if names and self.rule.needs_counts:
            raise ValueError(
                f"the rule {self.rule.label!r} looks at the visits of one stream, and streams that "
                "share a belief would have to agree on whose: choose a rule that does not look at "
                "the data, such as bernoulli"
            )
        for name, streams in zip(names, self.streams.named(names), strict=True):
            self.members[name] = self._member(streams)

    def _member(self, streams: Streams) -> "PSRLAgent":
        new = self._shallow()  # evidence, and room for a model to plan in, are shared
        new._begin_stream(streams)
        return new

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here: scalars and arrays in a tree."""
        for one in self._all_upcoming():
            one.wait()
        state = super().state() | self.evidence.state() | self.own_state()
        if self.members:
            members = self.members.items()
            state["members"] = [{"name": name, **one.own_state()} for name, one in members]
        return state

    def own_state(self) -> dict[str, Any]:
        """Return what a stream has of its own, as a tree."""
        own: dict[str, Any] = {name: getattr(self, name).copy() for name in self.kept}
        own["streams"] = self.streams.state()
        if not self.rule.needs_counts:
            own["streams"]["rule"] = self.rule_buffer.stream_before(self.step)
        if self.upcoming:
            own["coming"] = [[one.begins, one.policy.copy()] for one in self.upcoming]
        return own

    def _checked_upcoming(self, stored: Any) -> list[Upcoming]:
        found = []
        for begins, policy in stored:
            policy = checked_arrays("policy", {"policy": policy}, {"policy": self.policy})["policy"]
            if not self.sizes.allows(policy):
                raise ValueError("the stored policy is damaged: it has impossible numbers")
            found.append(Upcoming(checked_whole("begins", begins, 1), policy))
        return found

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if the policy, clock or counts are impossible."""
        policy, clock = values["policy"], values["clock"]
        sound = self.sizes.allows(policy)
        counts = (clock, values["visits"], values["visits_before"])
        rows = self.sizes.n_states * self.sizes.n_actions
        sound = sound and all((count >= 0).all() for count in counts)
        sound = sound and (values["visits_before"] <= values["visits"]).all()
        if not sound or clock[ROW] >= rows or clock[STEP] < max(1, clock[START]):
            raise ValueError("the stored policy or clock is damaged: it has impossible numbers")

    def restore_parts(self, state: dict[str, Any]) -> None:
        """Restore the belief, and the transitions that wait."""
        pending = self.evidence.checked(state)
        stored = self._checked_members(state.get("members", []))
        upcoming = self._checked_upcoming(state.get("coming", []))
        self.evidence.restore(state["belief"], pending)
        self.upcoming, self.rule_buffer = upcoming, RuleBuffer(self.rule, self.streams)
        self.members = {name: self.members.get(name) or self._member(Streams()) for name in stored}
        for name, (streams, values) in stored.items():
            one = self.members[name]
            one.streams.restore(streams)
            one.__dict__ |= values
            one.rule_buffer = RuleBuffer(self.rule, one.streams)

    def _checked_members(self, stored: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
        """Return the streams and the values of the members that `state()` stored, or raise."""
        needed, found = {"name", "streams", *self.kept}, {}
        like = {key: getattr(self, key) for key in self.kept}
        for state in stored:
            if not isinstance(state, dict) or needed - state.keys():
                raise ValueError(f"a stored stream is damaged: it lacks one of {sorted(needed)}")
            values = checked_arrays("stream", state, like)
            self.check_sound(values)
            values["upcoming"] = self._checked_upcoming(state.get("coming", []))
            check_streams(state["streams"])
            found[state["name"]] = state["streams"], values
        return found


class PosteriorSampler(Agent):
    """What all agents made of a rule, an objective and a belief have in common."""

    rule: Rule
    objective: Objective
    belief: Any

    @property
    def usual_label(self) -> str:
        """What the agent is called where its user gives it no label: the first of NAMES to fit."""
        name = next(
            name
            for kind, goal, name in NAMES
            if isinstance(self.rule, kind) and goal in (self.objective, Objective)
        )
        return name.format(rule=self.rule.label, objective=self.objective.label)

    def __post_init__(self) -> None:
        checked_rule(self.rule)
        checked_objective(self.objective)
        checked_belief(self.belief)
        if self.objective.discounts and self.objective.gamma is None and not self.rule.has_gamma:
            raise ValueError(
                f"the rule {self.rule.label!r} has no gamma to plan with: give "
                "Discounted(gamma) or Average()"
            )
        if not self.label:
            object.__setattr__(self, "label", self.usual_label)

    @property
    def horizon(self) -> int | None:
        """The number of steps that the agent is tuned to, if it is to one."""
        return self.rule.horizon

    def resolve(self, problem: Problem, steps: int | None) -> Self:
        """Return the agent with a rule tuned to `problem` and, if it asks for it, to `steps`."""
        sizes = sizes_of(problem, self.label)
        rule = self.rule.resolve(sizes.n_states * sizes.n_actions, steps)
        return self.with_rule(rule, "" if self.label == self.usual_label else self.label)

    def with_rule(self, rule: Rule, label: str | None = None) -> Self:
        """Return the agent with another rule, and the same label unless one is given."""
        label = self.label if label is None else label
        return replace(self, rule=rule, label=label)  # type: ignore[type-var]

    def check(self, problem: Problem) -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        sizes_of(problem, self.label)
        started(self.belief, problem)


NAMES = (
    (Bernoulli, Discounted(), "Continuing PSRL, {rule}"),
    (TSDEStops, Average(), "TSDE"),
    (DoublingTimes, Average(), "DS-PSRL"),
    (CountDoubling, Average(), "Count-doubling PSRL"),
    (Rule, Discounted(), "PSRL, {rule}"),
    (Rule, Objective, "PSRL, {rule}, {objective}"),
)
"""What agents are called: the first line that fits."""


@AGENTS.add("psrl")
@dataclass(frozen=True)
class PSRL(PosteriorSampler):
    """Posterior sampling with any rule, any objective and any belief.

    Args:
        rule: when to draw a new model (see `cpsrl.resampling`).
        objective: what to plan for, `Discounted(gamma=None)` or `Average()`.
        belief: what is drawn (see `cpsrl.beliefs`).
        label: what to call the agent in tables and figures.
    """

    rule: Rule = field(default_factory=Bernoulli)
    objective: Objective = field(default_factory=Discounted)
    belief: Any = field(default_factory=Dirichlet)
    label: str = ""

    def start(self, problem: Problem, streams: Streams) -> PSRLAgent:
        """Return a live agent."""
        return PSRLAgent(self, problem, streams)
