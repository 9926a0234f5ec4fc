"""Posterior sampling over value functions: Continuing PSRL's coin over networks.

    for t = 1, 2, ...
        if X_t = 0: draw an index z from the belief    the same rules as for tables
        apply A_t = argmax_a Q_z(S_t, a)               `act`
        observe R_(t+1), S_(t+1); one update           `observe`

(Xu, Dong and Van Roy 2024, section 6, after Osband et al. 2016.) The belief says what the networks
are and what an index is (`cpsrl.networks.belief`), the objective what their values should be; where
that is discounted by the rule's gamma_t, t is the step at which the current pseudo-episode began.

Bootstrapped DQN is the setting with independent networks. DQN (Mnih et al. 2015) is the one with
one of them, no prior function, and a random action with probability epsilon.

Rewards are learned from in units of the problem's range, (reward - low) / width, so that values,
prior functions and steps of Adam fit each other whatever the rewards are counted in; where the
objective has them centred, `low` is the first reward that the agent met.

The agent sees observations: vectors, or states of an environment or a table that has an observation
for each. It needs no model and no visit counts, so rules that are decided by counts are refused.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl.agents.agent import AGENTS, Agent, Expected, LiveAgent
from cpsrl.checks import checked_arrays, checked_index, checked_number, checked_whole
from cpsrl.environments.pure import Environment, check_environment, observed
from cpsrl.mdp import TabularMDP
from cpsrl.networks.belief import NetworkBelief, checked_belief
from cpsrl.networks.members import Members
from cpsrl.objectives import Discounted, Objective, checked_objective
from cpsrl.resampling import Bernoulli, Never, Rule, asked, checked_rule
from cpsrl.seeding import Streams
from cpsrl.sizes import FeatureSizes, unavailable, width_of
from cpsrl.types import Bools, Floats, Ints

MOST = 1e18
"""The largest feature, or reward in units of the range: networks compute in float32, where a larger
square overflows."""

Problem = TabularMDP | FeatureSizes | Environment
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
    """(n,) an action to take whatever the networks say, or -1. Where some are not available, (n, A)
    the place of the one to take among those that are, if these are 1, ..., A"""


class Updates(NamedTuple):
    """What chance decides about learning from n transitions."""

    signature: NDArray[np.int32]
    """(n, words) that of the transition"""
    rows: Ints
    """(n, B) places in the replay of the minibatch that follows it"""
    learning: NDArray[Any] | None
    """(n, J, ...) the indices of those that learn from it; None for all of a finite belief"""


class StepDraws(NamedTuple):
    """Both, for n steps that are each learnt from at once."""

    resample: Bools
    acting: NDArray[Any]
    gamma: Floats
    forced: Ints
    signature: NDArray[np.int32]
    rows: Ints
    learning: NDArray[Any] | None


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
        pairs = problem.rewards.size if isinstance(problem, TabularMDP) else None
        rule = self.rule.resolve(pairs, steps)
        return replace(self, rule=rule, label="" if self.label == self._own_label() else self.label)

    def check(self, problem: Problem) -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        if isinstance(problem, FeatureSizes | Environment):
            return
        if not isinstance(problem, TabularMDP):
            raise ValueError(
                f"{self.label} learns from observations: start it with a table that has features, "
                f"an Environment, or FeatureSizes(n_features, n_actions), not {problem!r}"
            )
        if problem.features is None:
            raise ValueError(
                f"{self.label} needs observations, and {problem!r} has no features: make it "
                "with some, as in cpsrl.environment('riverswim', features='thermometer')"
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


@AGENTS.add("bootstrapped-dqn")
def BootstrappedDQN(
    gamma: float | None = None,
    rule: Rule | None = None,
    objective: Objective | None = None,
    members: int = 10,
    prior_scale: float = 10.0,
    mask: float = 1.0,
    epsilon: float = 0.0,
    hidden: tuple[int, ...] = (50, 50),
    learning_rate: float = 1e-3,
    batch: int = 32,
    target_every: int = 100,
    capacity: int = 100_000,
    label: str = "",
) -> ValueSampling:
    """Bootstrapped DQN that draws a new member when a coin says so (Xu et al. 2024, section 6).

    The paper gives gamma = .99 and the coin. Members, masks and prior functions are those of Osband
    et al. (2016, 2018); the layers are bsuite's, Adam has its authors' constants, and the rest are
    common settings of DQN that were found to work on RiverSwim.

    Args:
        gamma: short for the coin `Bernoulli(gamma)`, which also gives the discount factor (.99);
            with a rule that has no gamma, short for `Discounted(gamma)`.
        rule: when to draw a new member.
        objective: what to learn; by default the return discounted by the rule's gamma.
        members, prior_scale, mask, hidden: as in `Members`.
        epsilon, learning_rate, batch, target_every, capacity, label: as in `ValueSampling`.
    """
    if rule is None:
        rule = Bernoulli(gamma=gamma)
    elif checked_rule(rule).has_gamma:
        if gamma not in (None, getattr(rule, "gamma", None)):
            raise ValueError(f"gamma is {gamma}, but the rule has its own: {rule.label}")
    elif objective is None:
        objective = Discounted(0.99 if gamma is None else gamma)
    elif gamma is not None:
        raise ValueError(f"gamma is {gamma}, and the objective is given: {objective!r}")
    return ValueSampling(
        rule=rule,
        objective=Discounted() if objective is None else objective,
        belief=Members(members, prior_scale, mask, hidden),
        epsilon=epsilon,
        learning_rate=learning_rate,
        batch=batch,
        target_every=target_every,
        capacity=capacity,
        label=label,
    )


@AGENTS.add("dqn")
def DQN(
    gamma: float | None = None,
    epsilon: float = 0.1,
    hidden: tuple[int, ...] = (50, 50),
    learning_rate: float = 1e-3,
    batch: int = 32,
    target_every: int = 100,
    capacity: int = 100_000,
    objective: Objective | None = None,
    anneal: int | None = None,
    label: str = "DQN",
) -> ValueSampling:
    """DQN (Mnih et al. 2015): one network without a prior, and a random action now and then.

    Args:
        gamma: short for `Discounted(gamma)`, by default .99.
        objective: what to learn; with `Average()`, rewards are centred.
        anneal: the number of steps in which the probability of a random action falls from 1 to
            `epsilon`; None for `epsilon` from the first step on.
        epsilon, hidden, learning_rate, batch, target_every, capacity, label: as in
            `BootstrappedDQN`.
    """
    spec = BootstrappedDQN(
        gamma=gamma,
        rule=Never(),
        objective=objective,
        members=1,
        prior_scale=0.0,
        epsilon=epsilon,
        hidden=hidden,
        learning_rate=learning_rate,
        batch=batch,
        target_every=target_every,
        capacity=capacity,
        label=label,
    )
    return replace(spec, anneal=anneal)


class ValueSamplingAgent(LiveAgent):
    """A live agent: `act` and `observe` on states or observations (see `Problem`).

    To look at: `learner`, the networks; `index` `(1, ...)`, that of the function that acts; `step`,
    the number of the step about to be taken; `learned`, how many transitions were learnt from;
    `origin`, the reward that counts as 0, None if it is the first and that is to come.
    """

    kept = ("step", "learned", "resamples", "index", "gamma")

    def __init__(self, spec: ValueSampling, problem: Problem, streams: Streams) -> None:
        from cpsrl.networks import learner

        self._learning = learner
        self.spec, self.problem = spec.resolve(problem, None), problem
        self.streams = streams
        self.features: NDArray[np.float32] | None = None
        self.available: Bools | None = None
        if isinstance(problem, Environment):
            check_environment(problem)
        if isinstance(problem, TabularMDP):
            assert problem.features is not None  # by `check`
            self.features = problem.features.astype(np.float32)
            self.available = problem.available
            n_features = problem.features.shape[1]
        else:
            n_features = problem.n_features
        self.sizes = FeatureSizes(n_features, problem.n_actions, problem.reward_range)
        self.expected = Expected(problem)
        belief = spec.belief
        centred = bool(spec.objective.centre_rate)
        self.origin: float | None = None if centred else self.sizes.reward_range[0]
        parts = (belief, spec.objective)
        self.learner = learner.new_learner(*parts, streams.model, n_features, problem.n_actions)
        observation: Any = np.int32 if self.features is not None else (np.float32, (n_features,))
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
        forced, given = self.asked(observation)
        if forced >= 0:
            return forced
        index, x, available = given
        how = (index, x, self.spec.belief, available)
        return int(self._learning.greedy(self.learner, *how))

    def asked(self, observation: Any) -> tuple[int, tuple[Any, ...]]:
        """Return the action that chance takes, or -1, and what `greedy` takes of this step.

        That is the index of the function that acts, the vector `(N,)` that it sees, and the actions
        that are available.
        """
        seen, mine = self._seen("observation", observation), None
        choice = self.tick()
        forced = choice.forced[0]
        if self.available is not None:
            mine = self.available[seen]
            place = forced[mine.sum() - 1]
            forced = place if place < 0 else np.flatnonzero(mine)[place]
        return int(forced), (choice.acting[0], self._vectors(seen), mine)

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
        self._learn(entry, reward)

    def _learn(self, entry: tuple[Any, ...], reward: float) -> None:
        spec, update = self.spec, self.keep(entry, reward)
        how = (spec.belief, spec.objective, spec.learning_rate)
        self.learner = self._learning.learn(self.learner, *update, *how)
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
        """Put an entry into the replay, and return what `learn` takes of the update that follows.

        That is observations and next observations `(B, N)`, the batch, gamma and the indices.
        `reward` is the entry's as it came.
        """
        if self.origin is None:
            self.origin = float(reward)
        draws = self.draw_updates(1)
        self.replay[self.learned % self.spec.capacity] = (*entry, draws.signature[0])
        self.learned += 1
        picked = self.replay[draws.rows[0]]
        each = np.arange(len(picked))
        return (
            self._vectors(picked["observation"]),
            self._vectors(picked["next_observation"]),
            self._learning.Batch(
                each,
                picked["action"],
                picked["reward"],
                each,
                picked["signature"],
                None if self.available is None else self.available[picked["next_observation"]],
            ),
            np.float32(self.gamma),
            None if draws.learning is None else draws.learning[0],
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
        return StepDraws(*self.draw_choices(n), *self.draw_updates(n))

    def draw_choices(self, n: int) -> Choices:
        """Draw the indices of the n steps to come, and make the last the current one."""
        spec, streams, belief = self.spec, self.streams, self.spec.belief
        resample, gamma = asked(spec.rule, self.step, n, streams.rule)
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

        choices: Any = self.sizes.n_actions
        if self.available is not None:
            choices = np.arange(1, choices + 1)
        forced = np.full((n, *np.shape(choices)), -1)
        if spec.epsilon > 0 or spec.anneal is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                u = streams.action.random(n) / spec.epsilons(self.step, n)
            forced[u < 1] = np.multiply.outer(u[u < 1], choices).astype(np.int64)
        return Choices(resample, index, gamma, forced)

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

    def packed_replay(self) -> NDArray[np.int32]:
        """Return what the replay holds, a row of words each."""
        held = self.replay[: self.held]
        return held.view(np.int32).reshape(len(held), held.itemsize // 4)

    def unpack_replay(self, packed: NDArray[np.int32]) -> None:
        """Put rows of words back into the replay."""
        rows = np.ascontiguousarray(packed).view(self.replay.dtype)
        self.replay[: len(rows)] = rows[:, 0]

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
        """Raise a ValueError if the step or the index to restore is impossible."""
        counts = min(values["step"] - 1, values["learned"])
        if counts < 0 or not self.spec.belief.is_index(values["index"]):
            raise ValueError("the stored step or index is damaged: it has impossible numbers")

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
        choice = state["choice"]
        if choice is not None and choice.keys() != set(Choices._fields):
            raise ValueError(f"the stored choice does not fit: it is {', '.join(choice)}")
        self.learner = self._learning.restored_learner(state["learner"], self.learner)
        self.origin = origin
        for name, column in stored.items():
            self.replay[name][:held] = column
        self._choice = None if choice is None else Choices(**choice)

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
        return x

    def _in_units(self, reward: Any) -> Any:
        """Return a reward as the replay keeps it; for an `Environment`, as its loop computes it."""
        kind = np.float32 if isinstance(self.problem, Environment) else np.float64
        reward, width = checked_number("reward", reward), width_of(self.sizes.reward_range)
        origin = reward if self.origin is None else self.origin
        with np.errstate(over="ignore"):
            scaled = (kind(reward) - kind(origin)) / kind(width)
        checked_number("reward in units of the range", float(scaled), -MOST, MOST)
        return scaled

    def _vectors(self, seen: Any) -> NDArray[np.float32]:
        """Return the observations that the replay keeps as `seen`."""
        return np.asarray(seen if self.features is None else self.features[seen])
