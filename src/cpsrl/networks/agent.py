"""Posterior sampling over value functions: Continuing PSRL's coin over networks.

    for t = 1, 2, ...
        if X_t = 0: draw an index z from the belief    the same rules as for tables
        apply A_t = argmax_a Q_z(S_t, a)               `act`
        observe R_(t+1), S_(t+1); one update           `observe`

(Xu, Dong and Van Roy 2024, section 6, after Osband et al. 2016.) The belief says what the networks
are and what an index is (`cpsrl.networks.belief`), the objective what their values should be; where
that is discounted by the rule's gamma_t, t is the step at which the current pseudo-episode began.

Rewards are learned from in units of the problem's range, (reward - low) / width, so that values,
prior functions and steps of Adam fit each other whatever the rewards are counted in; where the
objective has them centred, `low` is the first reward that the agent met.

The agent sees observations: vectors, or states of an environment or a table that has an observation
for each. It needs no model and no visit counts, so rules that are decided by counts are refused.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl.agents.agent import AGENTS, Agent, Expected, LiveAgent
from cpsrl.environments.pure import Environment, check_environment, observed
from cpsrl.mdp import Tabular
from cpsrl.mdp.problem import FeatureSizes, unavailable, width_of
from cpsrl.networks.belief import NetworkBelief, checked_belief
from cpsrl.networks.members import Members
from cpsrl.objectives import Discounted, Objective, checked_objective
from cpsrl.resampling import Bernoulli, Rule, checked_rule, rule_arrays
from cpsrl.seeding import Streams
from cpsrl.support.checks import (
    check_room,
    checked_arrays,
    checked_index,
    checked_number,
    checked_whole,
)
from cpsrl.support.types import Bools, Floats, Ints

MOST = 1e18
"""The largest feature, or reward in units of the range: networks compute in float32, where a larger
square overflows."""

Problem = Tabular | FeatureSizes | Environment
"""What an agent can be started with. With an MDP or an environment it is shown states; with the
sizes alone, observations."""


COLUMNS = ("observation", "action", "reward", "next_observation", "signature")
"""What the replay keeps of a transition."""


class Choices(NamedTuple):
    """What chance decides in n steps before the actions are taken."""

    resample: Bools
    """(n,) whether a new index was drawn"""
    acting: NDArray[Any]
    """(n, ...) the index of the function that acts"""
    gamma: Floats
    """(n,) the discount factor of the pseudo-episode"""
    forced: Ints
    """(n,) a random action that replaces the networks', or -1. Where some are not available,
    (n, A): column k - 1 has its place among the available ones if there are k of these"""


class Updates(NamedTuple):
    """What chance decides about learning from n transitions."""

    signature: NDArray[np.int32]
    """(n, words) that of the transition"""
    rows: Ints
    """(n, B) places in the replay of the minibatch that follows it"""
    learning: NDArray[Any] | None
    """(n, J, ...) the indices of those that learn from it; None for all of a finite belief"""


class StepDraws(NamedTuple):
    """What chance decides in n steps that are each learnt from at once."""

    choices: Choices
    updates: Updates


@AGENTS.add("value-sampling")
@dataclass(frozen=True)
class ValueSampling(Agent):
    """Draw an action-value function from a belief of networks when the rule says so.

    Args:
        rule: when to draw anew (see `cpsrl.resampling`).
        objective: `Discounted(gamma=None)` or `Average()`.
        belief: what the networks are, and what is drawn (see `cpsrl.networks.belief`).
        epsilon: the probability of a random action.
        anneal: the number of steps in which that falls to `epsilon`, from 1 and along a line; None
            for `epsilon` from the first step on.
        learning_rate: of Adam.
        batch: B, the transitions in a minibatch; one minibatch a step.
        target_every: updates from one copy of the weights to the target networks to the next.
        capacity: transitions in the replay, after which the oldest are overwritten.
        label: what to call the agent in tables and figures.
    """

    rule: Rule = field(default_factory=Bernoulli)
    objective: Objective = field(default_factory=Discounted)
    belief: NetworkBelief = field(default_factory=Members)
    epsilon: float = 0.0
    learning_rate: float = 1e-3
    batch: int = 32
    target_every: int = 100
    capacity: int = 100_000
    anneal: int | None = None
    label: str = ""

    packages: ClassVar[tuple[str, ...]] = ("jax", "jaxlib", "optax")
    advice: ClassVar[str] = "pip install 'cpsrl[deep]'"

    def __post_init__(self) -> None:
        rule, objective = checked_rule(self.rule), checked_objective(self.objective)
        checked_belief(self.belief)
        if rule.needs_counts:
            raise ValueError(
                f"the rule {rule.label!r} is decided by visit counts of state-action pairs, and an "
                "agent with networks has none; choose one that does not look at the data, such as "
                "bernoulli"
            )
        objective.target(0.0, 0.0, 0.0)  # raises where networks cannot learn it
        if objective.discounts and objective.gamma is None and not rule.has_gamma:
            raise ValueError(
                f"the rule {rule.label!r} has no gamma to discount by: give Discounted(gamma)"
            )
        for name in ("batch", "target_every", "capacity"):
            object.__setattr__(self, name, checked_whole(name, getattr(self, name), 1))
        if self.anneal is not None:
            object.__setattr__(self, "anneal", checked_whole("anneal", self.anneal, 1))
        checked_number("epsilon", self.epsilon, 0, 1)
        checked_number("learning_rate", self.learning_rate, 0)
        if not self.label:
            object.__setattr__(self, "label", self._own_label())

    def _own_label(self) -> str:
        """Return what the agent is called where its user gives it no label."""
        objective = self.objective
        apart = not objective.discounts or (self.rule.has_gamma and objective.gamma is not None)
        ending = f", {objective.label}" if apart else ""
        return f"{self.belief.label}, {self.rule.label}{ending}"

    def epsilons(self, first: int, n: int) -> Floats | float:
        """Return the probability of a random action at steps first, ..., first + n - 1."""
        if self.anneal is None:
            return self.epsilon
        left = 1 - (np.arange(first, first + n) - 1) / self.anneal
        return self.epsilon + (1 - self.epsilon) * np.maximum(left, 0)

    @property
    def horizon(self) -> int | None:
        """The number of steps that the agent is tuned to, if it is to one."""
        return self.rule.horizon

    def resolve(self, problem: Problem, steps: int | None) -> "ValueSampling":
        """Return the agent with a rule tuned to `problem` and, if it asks for it, to `steps`."""
        pairs = problem.n_states * problem.n_actions if isinstance(problem, Tabular) else None
        rule = self.rule.resolve(pairs, steps)
        label = "" if self.label == self._own_label() else self.label
        return replace(self, rule=rule, belief=self.belief.resolve(problem), label=label)

    def check(self, problem: Problem) -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        if isinstance(problem, Environment) or (
            isinstance(problem, FeatureSizes) and problem.features is None
        ):
            return
        if not isinstance(problem, Tabular | FeatureSizes):
            raise ValueError(
                f"{self.label} learns from vectors: a table that has features, an Environment, "
                f"FeatureSizes(n_features, n_actions) or observations that are a Box, not "
                f"{problem!r}; for numbered states there are agents with tables, such as "
                "cpsrl.TSDE()"
            )
        if problem.features is None:
            raise ValueError(
                f"{self.label} needs observations, and {problem!r} has no features: make it "
                "with some, in Python cpsrl.environment(NAME, features='one-hot'), in a "
                "specification features = 'one-hot', on the command line --features one-hot"
            )
        largest = np.abs(problem.features).max()
        if largest > MOST:
            raise ValueError(
                f"{self.label} computes in float32, and {problem!r} has features of {largest:g}: "
                f"they must be at most {MOST:g}"
            )

    def start(self, problem: Problem, streams: Streams) -> "ValueSamplingAgent":
        """Return a live agent."""
        self.check(problem)
        self.check_packages()
        return ValueSamplingAgent(self, problem, streams)


class ValueSamplingAgent(LiveAgent):
    """A live agent: `act` and `observe` on states or observations (see `Problem`).

    To look at: `learner`, the networks; `index` `(1, ...)`, that of the function that acts; `step`,
    the number of the step about to be taken; `learned`, how many transitions were learnt from;
    `origin`, the reward that counts as 0, None if that is the first one, which is to come.
    """

    kept = ("step", "learned", "resamples", "index", "gamma")

    def __init__(self, spec: ValueSampling, problem: Problem, streams: Streams) -> None:
        from cpsrl.networks import learner

        self._learning = learner
        self.spec, self.problem = spec.resolve(problem, None), problem
        self.streams = streams
        self.features: NDArray[np.float32] | None = None
        self.available: Bools | None = None
        self.whole = isinstance(problem, Environment) and problem.whole
        if isinstance(problem, Environment):
            check_environment(problem)
        elif problem.features is not None:
            self.features = np.asarray(problem.features, np.float32)
            self.available = problem.available
        if self.features is not None:
            n_features = self.features.shape[1]
        else:
            n_features = problem.n_features  # type: ignore[union-attr]
        self.sizes = FeatureSizes(n_features, problem.n_actions, problem.reward_range)
        self.expected = Expected(problem)
        belief = self.spec.belief
        centred = bool(spec.objective.centre_rate)
        self.origin: float | None = None if centred else self.sizes.reward_range[0]
        self.how = learner.Learning(belief, spec.objective, spec.learning_rate)
        parts = (belief, spec.objective)
        observation: Any = np.int32 if self.features is not None else (np.float32, (n_features,))
        if self.whole:
            observation = np.uint8, (-(-n_features // 4) * 4,)
        item: Any = np.dtype(observation)
        numbers = spec.capacity, 2, math.prod(item.shape)
        smaller = "take a smaller capacity, or a smaller problem"
        check_room("the replay", *numbers, each=item.base.itemsize, instead=smaller)
        self.learner = learner.new_learner(*parts, streams.model, n_features, problem.n_actions)
        words = belief.signatures(np.zeros((1, belief.uniforms))).shape[1]
        kinds: Any = (observation, np.int32, np.float32, observation, (np.int32, (words,)))
        self.replay = np.zeros(spec.capacity, list(zip(COLUMNS, kinds, strict=True)))
        self.step = 1
        self.learned = 0
        self.index = np.zeros_like(belief.draw_index(np.random.default_rng(0), 1))
        self.gamma = 0.0
        self._choice: Choices | None = None

    @property
    def held(self) -> int:
        """How many transitions the replay holds."""
        return min(self.learned, self.spec.capacity)

    def act(self, observation: Any) -> int:
        """Return the action on `observation`; the same one until `observe` moves time on."""
        forced, given = self.prepared(observation)
        if forced >= 0:
            return forced
        index, x, available = given
        how = (index, x, self.spec.belief, available)
        return int(self._learning.greedy(self.learner, *how))

    def prepared(self, observation: Any) -> tuple[int, tuple[Any, ...]]:
        """Return the random action of this step, or -1, and what `greedy` is called with.

        That is the index of the function that acts, the vector `(N,)` that it sees, and the actions
        that are available.
        """
        x, mine = self.shown(observation)
        choice = self.tick()
        forced = choice.forced[0]
        if mine is not None:
            place = forced[mine.sum() - 1]
            forced = place if place < 0 else np.flatnonzero(mine)[place]
        return int(forced), (choice.acting[0], x, mine)

    def shown(self, observation: Any) -> tuple[NDArray[np.float32], Bools | None]:
        """Return the vector `(N,)` that the networks see, and which actions `(A,)` are available.

        The latter is None where all actions always are.
        """
        seen = self._seen("observation", observation)
        return self.vectors(seen), None if self.available is None else self.available[seen]

    def observe(self, observation: Any, action: int, reward: float, next_observation: Any) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        entry = self.entry(observation, action, reward, next_observation)
        self.expected.look(reward)
        self.tick()
        self._learn(entry, reward)
        self.move_on()

    def learn(self, observation: Any, action: int, reward: float, next_observation: Any) -> None:
        """Learn from a transition, however late; raise, and change nothing, if it cannot be.

        Values are discounted as the pseudo-episode says that is current when the outcome comes.
        """
        entry = self.entry(observation, action, reward, next_observation)
        self.expected.look(reward)
        if not self.resamples:  # from a log, before the first decision: there is no gamma yet
            self.tick()
        self._learn(entry, reward)

    def repeat(self, observation: Any, action: int) -> None:
        """Move time on as `decide` did when it gave `action`, without asking the networks."""
        self.tick()
        self.move_on()

    def _learn(self, entry: tuple[Any, ...], reward: float) -> None:
        self.learner = self._learning.learn(self.learner, *self.keep(entry, reward), self.how)
        if self.copies_target:
            self.learner = self.learner._replace(target=self.learner.online)

    def entry(
        self, observation: Any, action: int, reward: float, next_observation: Any
    ) -> tuple[Any, ...]:
        """Return what the replay keeps of a transition, or raise."""
        entry = (
            self._seen("observation", observation),
            checked_index("action", action, self.sizes.n_actions),
            self._in_units(reward),
            self._seen("next observation", next_observation),
        )
        if self.available is not None and not self.available[entry[:2]]:
            raise unavailable(*entry[:2])
        return entry

    def keep(self, entry: tuple[Any, ...], reward: float) -> tuple[Any, ...]:
        """Put an entry into the replay, and return what `learn` is called with.

        That is observations and next observations `(B, N)` and the batch. `reward` is the entry's
        before scaling.
        """
        if self.origin is None:
            self.origin = float(reward)
        draws = self.draw_updates(1)
        self.replay[self.learned % self.spec.capacity] = (*entry, draws.signature[0])
        self.learned += 1
        picked = self.replay[draws.rows[0]]
        each = np.arange(len(picked))
        return (
            self.vectors(picked["observation"]),
            self.vectors(picked["next_observation"]),
            self._learning.Batch(
                each,
                picked["action"],
                picked["reward"],
                each,
                picked["signature"],
                np.float32(self.gamma),
                None if draws.learning is None else draws.learning[0],
                None if self.available is None else self.available[picked["next_observation"]],
            ),
        )

    @property
    def copies_target(self) -> bool:
        """Whether the weights become the target networks' after the last transition's update."""
        return self.learned % self.spec.target_every == 0

    def move_on(self) -> None:
        """Go to the next step."""
        self._choice = None
        self.step += 1

    def draw_steps(self, n: int) -> StepDraws:
        """Draw what chance decides in the n steps to come, each learnt from before the next."""
        return StepDraws(self.draw_choices(n), self.draw_updates(n))

    def draw_choices(self, n: int) -> Choices:
        """Draw the indices of the n steps to come, and make the last the current one."""
        spec, streams, belief = self.spec, self.streams, self.spec.belief
        resample, gamma = rule_arrays(spec.rule, self.step, n, streams.rule)
        drawn = np.flatnonzero(resample)
        begun = np.searchsorted(drawn, np.arange(n), side="right")
        own = np.broadcast_to(gamma, n)[drawn]
        gammas = [1.0] * len(own)
        if spec.objective.discounts:
            gammas = [spec.objective.planning_gamma(float(gamma)) for gamma in own]
        index = np.concatenate([self.index, belief.draw_index(streams.belief, len(drawn))])[begun]
        gamma = np.array([self.gamma, *gammas])[begun]
        self.index, self.gamma = index[-1:].copy(), float(gamma[-1])
        self.resamples += len(drawn)

        choices = self._random_among
        forced = np.full((n, *np.shape(choices)), -1)
        if spec.epsilon > 0 or spec.anneal is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                u = streams.action.random(n) / spec.epsilons(self.step, n)
            forced[u < 1] = np.multiply.outer(u[u < 1], choices).astype(np.int64)
        return Choices(resample, index, gamma, forced)

    @property
    def _random_among(self) -> Any:
        """Among how many actions a random one is; where some are not available, each number."""
        n_actions = self.sizes.n_actions
        return n_actions if self.available is None else np.arange(1, n_actions + 1)

    def draw_updates(self, n: int) -> Updates:
        """Draw what the n transitions to come are learnt with.

        Minibatches are drawn with replacement from what the replay holds after each of them.
        """
        spec, streams, belief = self.spec, self.streams, self.spec.belief
        u = streams.model.random((n, belief.uniforms + spec.batch))
        of_belief, of_rows = u[:, : belief.uniforms], u[:, belief.uniforms :]
        held = np.minimum(self.learned + np.arange(1, n + 1), spec.capacity)
        rows = (of_rows * held[:, None]).astype(np.int64)
        signature, learning = belief.signatures(of_belief), belief.update_indices(of_belief)
        return Updates(signature, rows, learning)

    def packed_replay(self, part: slice) -> NDArray[np.int32]:
        """Return entries of the replay, a row of words each."""
        return self.replay[part].view(np.int32).reshape(-1, self.replay.itemsize // 4)

    def unpack_replay(self, part: slice, packed: NDArray[np.int32]) -> None:
        """Put rows of words back into the replay."""
        self.replay[part] = np.ascontiguousarray(packed).view(self.replay.dtype)[:, 0]

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here."""
        held = self.replay[: self.held]
        counted = {"origin": self.origin} if self.spec.objective.centre_rate else {}
        return (
            super().state()
            | counted
            | {
                "learner": self._learning.learner_state(self.learner),
                "replay": {name: held[name].copy() for name in COLUMNS},
                "choice": None if self._choice is None else self._choice._asdict(),
            }
        )

    def check_sound(self, values: dict[str, Any]) -> None:
        """Raise a ValueError if the step, the index or the discount factor is impossible."""
        sound = min(values["step"] - 1, values["learned"]) >= 0 and 0 <= values["gamma"] <= 1
        if not sound or not self.spec.belief.is_index(values["index"]):
            raise ValueError(
                "the stored step, index or gamma is damaged: it has impossible numbers"
            )

    def restore_parts(self, state: dict[str, Any]) -> None:
        """Restore networks and replay; raise, and change nothing, if they do not fit."""
        needed, origin = {"learner", "replay", "choice"}, self.origin
        if self.spec.objective.centre_rate:
            needed |= {"origin"}
        if missing := needed - state.keys():
            raise ValueError(f"the stored state lacks {', '.join(sorted(missing))}")
        if self.spec.objective.centre_rate:
            origin = state["origin"]
            if (origin is None) != (state["learned"] == 0):
                raise ValueError("the stored origin of rewards is damaged")
            origin = origin if origin is None else checked_number("the stored origin", origin)
        held = min(state["learned"], self.spec.capacity)
        mine = self.replay[:held]
        stored = checked_arrays("replay", state["replay"], {name: mine[name] for name in COLUMNS})
        self._check_replay(**stored)
        choice = None if state["choice"] is None else self._checked_choice(state["choice"])
        self.learner = self._learning.restored_learner(state["learner"], self.learner)
        self.origin = origin
        for name, column in stored.items():
            self.replay[name][:held] = column
        self._choice = choice

    def _check_replay(
        self, observation: Any, action: Ints, reward: Floats, next_observation: Any, signature: Any
    ) -> None:
        """Raise a ValueError if the columns of a stored replay are none of this problem."""
        sound = (np.abs(reward) <= MOST).all()
        sound = sound and ((action >= 0) & (action < self.sizes.n_actions)).all()
        for seen in (observation, next_observation):
            if self.features is not None:
                sound = sound and ((seen >= 0) & (seen < len(self.features))).all()
            else:
                sound = sound and (np.abs(seen) <= MOST).all()
        if sound and self.available is not None:
            sound = self.available[observation, action].all()
        if not sound:
            raise ValueError("the stored replay is damaged: it has impossible numbers")

    def _checked_choice(self, stored: dict[str, Any]) -> Choices:
        """Return the stored choice of a step, or raise if it is none of this agent."""
        if stored.keys() != set(Choices._fields):
            raise ValueError(f"the stored choice does not fit: it is {', '.join(stored)}")
        among = self._random_among
        none = np.full((1, *np.shape(among)), -1)
        like = Choices(np.zeros(1, np.bool_), self.index, np.zeros(1), none)
        choice = Choices(**checked_arrays("choice", stored, like._asdict()))
        sound = ((choice.gamma >= 0) & (choice.gamma <= 1)).all()
        sound = sound and ((choice.forced >= -1) & (choice.forced < among)).all()
        if not sound or not self.spec.belief.is_index(choice.acting):
            raise ValueError("the stored choice is damaged: it has impossible numbers")
        return choice

    def tick(self) -> Choices:
        """Draw, once a step, what chance decides before its action."""
        if self._choice is None:
            self._choice = self.draw_choices(1)
        return self._choice

    def _seen(self, what: str, given: Any) -> Any:
        """Return what the replay keeps of what is shown: a state's number, or a vector."""
        if self.features is not None:
            return checked_index(what, given, len(self.features))
        if isinstance(self.problem, Environment):
            given = observed(self.problem, given)
        x = self.sizes.checked(what, given)
        if np.abs(x).max() > MOST:
            raise ValueError(f"{what} must have numbers of at most {MOST:g}, not {given!r}")
        return self._in_8_bits(what, x) if self.whole else x

    def _in_8_bits(self, what: str, x: Floats) -> NDArray[np.uint8]:
        """Return whole numbers in 8 bits, with zeros behind them up to a multiple of four."""
        kept = np.zeros(-(-len(x) // 4) * 4, np.uint8)
        kept[: len(x)] = x.clip(0, 255)
        if (kept[: len(x)] != x).any():
            raise ValueError(f"{what} must have whole numbers from 0 to 255, not {x}")
        return kept

    def _in_units(self, reward: Any) -> Any:
        """Return a reward as the replay keeps it; for an `Environment`, as its loop computes it."""
        kind = np.float32 if isinstance(self.problem, Environment) else np.float64
        reward, width = checked_number("reward", reward), width_of(self.sizes.reward_range)
        origin = reward if self.origin is None else self.origin
        with np.errstate(over="ignore"):
            scaled = (kind(reward) - kind(origin)) / kind(width)
        checked_number("reward in units of the range", float(scaled), -MOST, MOST)
        return scaled

    def vectors(self, seen: Any) -> NDArray[np.float32]:
        """Return the observations that the replay keeps as `seen`."""
        if self.whole:
            return seen[..., : self.sizes.n_features].astype(np.float32)
        return np.asarray(seen if self.features is None else self.features[seen])
