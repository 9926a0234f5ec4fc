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
compiled loop, `cpsrl.simulation.tabular`, calls the same compiled functions in the same order: the
same trajectory, bit for bit.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpsrl._compile import leaf
from cpsrl.agents.agent import AGENTS, Agent, Expected, LiveAgent, sizes_of
from cpsrl.agents.ahead import Ahead
from cpsrl.beliefs import BATCH, Dirichlet
from cpsrl.beliefs.belief import LiveBelief, checked_belief, small_model, started
from cpsrl.checks import checked_arrays
from cpsrl.mdp import TabularMDP
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
from cpsrl.sizes import Sizes, checked_transition
from cpsrl.types import Floats, Ints

STEP, START, PREVIOUS, RESAMPLES, ROW, ASKED, DUE = range(7)
"""Places in an agent's clock: the step t about to be taken, the first step t_k of the current
pseudo-episode (t_0 = 0), the length of the one before it, the number of resamplings, the row
visited last, whether the rule was asked for step t, and whether a resampling is due."""

LEAST_ROOM = 64
PENDING = ("rows", "rewards", "next_states")


class Backlog(NamedTuple):
    """Transitions that the belief is not yet told of, as compiled code writes them."""

    rows: Ints
    """`(room,)` s*A + a"""
    rewards: Floats
    """`(room,)`"""
    next_states: Ints
    """`(room,)`"""
    filled: Ints
    """`(1,)` how many there are"""


@leaf
def begin_pseudo_episode(
    clock: Ints, visits: Ints, before: Ints, policy: Ints, stand_in: Ints, n_actions: int
) -> None:
    """Set the clock for a pseudo-episode that begins at the current step with `policy`.

    Actions that are not available are exchanged for those in `stand_in` `(S, A)`, which is empty
    where all are.
    """
    for s in range(len(policy)):
        if not 0 <= policy[s] < n_actions:
            raise ValueError("the objective has planned an action that there is not")
        if len(stand_in) > 0:
            policy[s] = stand_in[s, policy[s]]
    clock[PREVIOUS] = clock[STEP] - clock[START]
    clock[START] = clock[STEP]
    clock[RESAMPLES] += 1
    clock[DUE] = 0
    for row in range(len(visits)):
        before[row] = visits[row]


class Evidence:
    """A live belief, and the transitions that it is not yet told of.

    The streams of an agent (`PSRLAgent.stream`) share one.
    """

    def __init__(self, told: LiveBelief, n_actions: int) -> None:
        self.told, self.n_actions = told, n_actions
        self.backlog = EMPTY

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the belief will call the transition impossible."""
        self.told.check_possible(state, action, next_state)
        if self.told.check_together is not None and self.backlog.filled[0]:
            states, actions, _, next_states = self.pending()
            self.told.check_together(
                np.append(states, state),
                np.append(actions, action),
                np.append(next_states, next_state),
            )

    def enter(self, row: int, reward: float, next_state: int) -> None:
        """Put a transition where the belief will find it."""
        backlog = self.backlog
        place = backlog.filled.item()
        if place == len(backlog.rows):
            backlog = self.make_room()
        backlog.rows[place] = row
        backlog.rewards[place] = reward
        backlog.next_states[place] = next_state
        backlog.filled[0] = place + 1
        if place + 1 == BATCH:
            self.hand_over()

    def hand_over(self) -> None:
        """Tell the belief of the transitions that it was not yet told of."""
        if self.backlog.filled[0]:
            self.told.observe_many(*self.pending())
            self.backlog.filled[0] = 0

    def make_room(self) -> Backlog:
        """Return the backlog with room for more."""
        room = max(LEAST_ROOM, 4 * len(self.backlog.rows))
        old, self.backlog = self.backlog, _backlog(min(BATCH, room))
        for theirs, mine in zip(old, self.backlog, strict=True):
            mine[: len(theirs)] = theirs
        return self.backlog

    def pending(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Return states, actions, rewards and next states of the transitions that wait."""
        n = int(self.backlog.filled[0])
        states, actions = np.divmod(self.backlog.rows[:n], self.n_actions)
        return states, actions, self.backlog.rewards[:n].copy(), self.backlog.next_states[:n].copy()


class Model(NamedTuple):
    """A sampled model, and what planning in it writes into."""

    P: Floats
    """`(S*A, S)`"""
    r: Floats
    """`(S*A,)`"""
    work: Workspace


class PSRLAgent(LiveAgent):
    """A live agent: `act`, `observe`, and to look at, `policy` `(S,)`, `belief` and `drawn`.

    It may act in several places at once (machines, customers, shops): `stream(name)` is an agent
    like this one that shares its belief, with a clock, a coin and a policy of its own.
    """

    kept: ClassVar = ("policy", "clock", "visits", "visits_before", "memory")

    def __init__(self, spec: "PSRL", problem: TabularMDP | Sizes, streams: Streams) -> None:
        self.sizes = sizes_of(problem, spec.label)
        rows = self.sizes.n_states * self.sizes.n_actions
        self.rule = spec.rule.resolve(rows, None)
        self.spec = replace(spec, rule=self.rule)
        self.objective = spec.objective
        self.problem = problem
        self.stand_in = self.sizes.exchanged
        self.evidence = Evidence(started(spec.belief, problem), self.sizes.n_actions)
        self.kernels: dict[Any, Any] = {}  # kept by the compiled loop
        self._begin(streams)

    def _begin(self, streams: Streams) -> None:
        n_states, rows = self.sizes.n_states, self.sizes.n_states * self.sizes.n_actions
        self._begin_stream(streams)
        self.expected = Expected(self.problem)
        self.members: dict[str, PSRLAgent] = {}
        self.model: Model | None = None
        self.work: Workspace | None = None
        self.drawn: tuple[Floats, Floats] | TabularMDP | None = None  # the model of the last `act`
        if self.told.inside is not None:
            P, r = np.empty((rows, n_states)), np.empty(rows)
            self.model = Model(P, r, workspace(n_states))

    def _begin_stream(self, streams: Streams) -> None:
        """Begin with what every stream has of its own."""
        self.streams = streams
        self.ahead = Ahead(self.rule, streams)
        self.policy = self.sizes.stand_in[:, 0].copy()
        self.clock = np.zeros(7, np.int64)
        self.clock[STEP] = 1
        rows = self.sizes.n_states * self.sizes.n_actions
        counted = rows if self.rule.needs_counts else 0
        self.visits, self.visits_before = np.zeros(counted, np.int64), np.zeros(counted, np.int64)
        self.memory = np.array(self.rule.memory(), np.float64)

    def fork(self, streams: Streams) -> "PSRLAgent":
        """Return another agent like this one was at its start; quicker than to start one."""
        if self.told.inside is None:
            return self.spec.start(self.problem, streams)
        new = object.__new__(PSRLAgent)
        new.__dict__ |= self.__dict__
        new.evidence = Evidence(self.told.copy(), self.sizes.n_actions)
        new._begin(streams)
        new.join(list(self.members))
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
        new = object.__new__(PSRLAgent)
        new.__dict__ |= self.__dict__  # evidence, and room for a model to plan in, are shared
        new.members = {}
        new._begin_stream(streams)
        return new

    @property
    def told(self) -> LiveBelief:
        """The live belief, which may lag behind."""
        return self.evidence.told

    @property
    def backlog(self) -> Backlog:
        """The transitions that it is not yet told of."""
        return self.evidence.backlog

    @property
    def step(self) -> int:
        """The number of the step about to be taken."""
        return int(self.clock[STEP])

    @property
    def resamples(self) -> int:  # type: ignore[override]
        """How often a model was drawn."""
        return int(self.clock[RESAMPLES])

    @property
    def belief(self) -> LiveBelief:
        """The live belief after all that was observed; a copy of it where it lags behind."""
        if not self.backlog.filled[0]:
            return self.told
        if self.told.inside is not None:
            self.hand_over()
            return self.told
        current = self.told.copy()
        current.observe_many(*self.evidence.pending())
        return current

    def act(self, state: int) -> int:
        """Return the action in `state`; the same one until `observe` moves time on."""
        state = self.sizes.checked("state", state)
        self.ask()
        if self.clock.item(DUE):
            self.resample()
        return self.policy.item(state)

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        row, reward, next_state = self._checked(state, action, reward, next_state)
        self.ask()
        self._enter(row, reward, next_state)
        self._move_on(asked=False)

    def decide(self, state: int) -> int:
        """Return the action in `state` and move time on.

        A rule that looks at counts has nothing to be asked about until an outcome comes.
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
        """Move time on; `asked`: there is nothing to ask the rule about at the new step."""
        self.clock[STEP] += 1
        self.clock[ASKED] = asked

    def ask(self) -> None:
        """Ask the rule, once a step, whether to resample."""
        clock = self.clock
        t, start, previous, _, row, asked, _ = clock.tolist()
        if asked:
            return
        if not self.rule.needs_counts:
            due, _ = self.ahead.step(t)
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
        own = math.nan if self.rule.needs_counts else self.ahead.step(self.step)[1]
        return self.objective.planning_gamma(own)

    def resample(self) -> None:
        """Begin a pseudo-episode: draw a model and make the policy optimal in it."""
        self.hand_over()
        gamma, told = self.planning_gamma(), self.told
        shape = (self.sizes.n_states, self.sizes.n_actions)
        if told.inside is not None:
            assert self.model is not None
            P, r, work = self.model
            with self.streams.words("belief") as (words,):
                told.inside.sample(told.arrays, words, P, r)
            if len(self.stand_in):
                repeat_rows(P, r, self.stand_in)
            self.drawn = P.reshape(*shape, -1), r.reshape(shape)
            self.objective.plan(*self.drawn, gamma, self.policy, work)
        else:
            self.drawn = None  # there need not be room for two
            self.drawn = drawn = small_model(told.sample(self.streams.belief), self.sizes)
            if isinstance(drawn, TabularMDP):
                self.policy[:] = self.objective.solve(drawn, gamma)
            else:
                self.work = self.work or workspace(shape[0])
                self.objective.plan(*drawn, gamma, self.policy, self.work)
        counts = (self.visits, self.visits_before)
        begin_pseudo_episode(self.clock, *counts, self.policy, self.stand_in, shape[1])

    def hand_over(self) -> None:
        """Tell the belief of the transitions that it was not yet told of."""
        self.evidence.hand_over()

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here: scalars and arrays in a tree."""
        if self.told.inside is not None:
            self.hand_over()
        n = int(self.backlog.filled[0])
        backlog = {name: getattr(self.backlog, name)[:n].copy() for name in PENDING}
        state = super().state() | {"belief": self.told.state(), "backlog": backlog}
        state["streams"] = self._streams_state()
        if self.members:
            state["members"] = [one._of_stream(name) for name, one in self.members.items()]
        return state

    def _streams_state(self) -> dict[str, Any]:
        streams = self.streams.state()
        if not self.rule.needs_counts:
            streams["rule"] = self.ahead.stream_before(self.step)
        return streams

    def _of_stream(self, name: str) -> dict[str, Any]:
        """Return what a stream has of its own, as a tree."""
        own = {key: getattr(self, key).copy() for key in self.kept}
        return {"name": name, "streams": self._streams_state(), **own}

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
        """Restore the belief, and what it was not yet told of."""
        if state.get("belief") is None or not isinstance(state.get("backlog"), dict):
            raise ValueError("the stored state lacks belief or backlog")
        like = {name: getattr(self.backlog, name) for name in PENDING}
        pending = checked_arrays("backlog", state["backlog"], like, PENDING)
        n, rows = len(pending["rows"]), self.sizes.n_states * self.sizes.n_actions
        limits = {"rows": rows, "next_states": self.sizes.n_states}
        sound = all(len(array) == n for array in pending.values()) and n < BATCH
        for name, limit in limits.items():
            sound = sound and (pending[name] >= 0).all() and (pending[name] < limit).all()
        if not sound or not np.isfinite(pending["rewards"]).all():
            raise ValueError("the stored backlog is damaged: it has impossible numbers")
        waiting = np.unique([pending["rows"], pending["next_states"]], axis=1)
        for row, next_state in waiting.T.tolist():  # compiled code takes them as they are
            from_state, action = divmod(row, self.sizes.n_actions)
            self.told.check_possible(from_state, action, next_state)
        stored = self._checked_members(state.get("members", []))
        self.told.restore(state["belief"])
        self.members = {name: self.members.get(name) or self._member(Streams()) for name in stored}
        for name, (streams, values) in stored.items():
            self.members[name]._restore_stream(streams, values)
        self.evidence.backlog = _backlog(max(n, LEAST_ROOM))
        for name, array in pending.items():
            getattr(self.backlog, name)[:n] = array
        self.backlog.filled[0] = n
        self.ahead = Ahead(self.rule, self.streams)

    def _checked_members(self, stored: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
        """Return the streams and the values of the members that `state()` stored, or raise."""
        needed, found = {"name", "streams", *self.kept}, {}
        like = {key: getattr(self._member(self.streams), key) for key in self.kept}
        for state in stored:
            if not isinstance(state, dict) or needed - state.keys():
                raise ValueError(f"a stored stream is damaged: it lacks one of {sorted(needed)}")
            values = checked_arrays("stream", state, like)
            self.check_sound(values)
            check_streams(state["streams"])
            found[state["name"]] = state["streams"], values
        return found

    def _restore_stream(self, streams: Any, values: dict[str, Any]) -> None:
        self.streams.restore(streams)
        self.__dict__ |= values
        self.ahead = Ahead(self.rule, self.streams)


def _backlog(room: int) -> Backlog:
    whole, count = np.zeros((2, room), np.int64), np.zeros(1, np.int64)
    return Backlog(whole[0], np.zeros(room), whole[1], count)


EMPTY = _backlog(0)
"""Where every agent begins; it is never written to, since there is no room."""


@AGENTS.add("psrl")
@dataclass(frozen=True)
class PSRL(Agent):
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
            object.__setattr__(self, "label", _label(self.rule, self.objective))

    @property
    def horizon(self) -> int | None:
        """The number of steps that the agent is tuned to, if it is to one."""
        return self.rule.horizon

    def resolve(self, problem: TabularMDP | Sizes, steps: int | None) -> "PSRL":
        """Return the agent with a rule tuned to `problem` and, if it asks for it, to `steps`."""
        sizes = sizes_of(problem, self.label)
        rule = self.rule.resolve(sizes.n_states * sizes.n_actions, steps)
        given = self.label != _label(self.rule, self.objective)
        return replace(self, rule=rule, label=self.label if given else "")

    def check(self, problem: TabularMDP | Sizes) -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        sizes_of(problem, self.label)
        started(self.belief, problem)

    def start(self, problem: TabularMDP | Sizes, streams: Streams) -> PSRLAgent:
        """Return a live agent."""
        return PSRLAgent(self, problem, streams)


NAMES = (
    (Bernoulli, Discounted(), "Continuing PSRL, {rule}"),
    (TSDEStops, Average(), "TSDE"),
    (DoublingTimes, Average(), "DS-PSRL"),
    (CountDoubling, Average(), "Count-doubling PSRL"),
    (Rule, Discounted(), "PSRL, {rule}"),
    (Rule, Objective, "PSRL, {rule}, {objective}"),
)
"""What agents are called: the first line that fits."""


def _label(rule: Rule, objective: Objective) -> str:
    """Return what the agent of these parts is called where its user gives it no label."""
    name = next(
        name
        for kind, goal, name in NAMES
        if isinstance(rule, kind) and goal in (objective, Objective)
    )
    return name.format(rule=rule.label, objective=objective.label)
