"""Bootstrapped DQN with random resampling: Continuing PSRL's coin over an ensemble of networks.

    for t = 1, 2, ...
        if X_t = 0: draw a member k uniformly          the same rules as for tables
        apply A_t = argmax_a Q_k(S_t, a)               `act`
        observe R_(t+1), S_(t+1); one update           `observe`

(Xu, Dong and Van Roy 2024, section 6, after Osband et al. 2016.) The networks and their loss are
described in `cpsrl.networks.ensemble`. The target discounts by gamma_t of the step at which the
current pseudo-episode began. DQN (Mnih et al. 2015) is the setting with one member, no prior
function, and a random action with probability epsilon.

The agent sees observations: vectors, or states of a table that has a feature for each. It needs no
model and no visit counts, so rules that are decided by counts are refused.
"""

import importlib.util
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpsrl.agents.agent import AGENTS, Agent, LiveAgent, check_state, described
from cpsrl.checks import checked_gamma, checked_index, checked_number, checked_whole
from cpsrl.mdp import TabularMDP
from cpsrl.resampling import Bernoulli, Never, Rule, checked_rule
from cpsrl.seeding import Streams
from cpsrl.sizes import FeatureSizes
from cpsrl.types import Ints

MOST = 1e18
"""The largest feature or reward: networks compute in float32, where a larger square overflows."""


class StepDraws(NamedTuple):
    """What chance decides for the agent in n steps."""

    resample: NDArray[np.bool_]
    """(n,) whether a new member was drawn"""
    member: Ints
    """(n,) the member that acts"""
    gamma: NDArray[np.float64]
    """(n,) the discount factor of the pseudo-episode"""
    forced: Ints
    """(n,) an action to take whatever the member says, or -1"""
    mask: NDArray[np.bool_]
    """(n, K) which members may learn from the step's transition; (n, 0) if all may"""
    rows: Ints
    """(n, B) places in the replay of the minibatch that follows the step"""


@AGENTS.add("bootstrapped-dqn")
@dataclass(frozen=True)
class BootstrappedDQN(Agent):
    """Bootstrapped DQN that draws a new member when a coin says so (Xu et al. 2024, section 6).

    The paper gives gamma = .99 and the coin. Members, masks and prior functions are those of Osband
    et al. (2016, 2018); the layers are bsuite's, Adam has its authors' constants, and the rest are
    common settings of DQN that were found to work on RiverSwim.

    Args:
        gamma: the discount factor (.99 unless the rule has one).
        rule: when to draw a new member; by default the coin, `Bernoulli(gamma)`.
        members: K, the size of the ensemble.
        prior_scale: factor of the prior functions; 0 for none.
        mask: the probability that a member may learn from a transition.
        epsilon: the probability of a random action.
        hidden: the sizes of the hidden layers.
        learning_rate: of Adam.
        batch: B, the transitions in a minibatch; one minibatch a step.
        target_every: updates from one copy of the weights to the target networks to the next.
        capacity: transitions in the replay, after which the oldest are overwritten.
        label: what to call the agent in tables and figures.
    """

    gamma: float | None = None
    rule: Rule | None = None
    members: int = 10
    prior_scale: float = 10.0
    mask: float = 1.0
    epsilon: float = 0.0
    hidden: tuple[int, ...] = (50, 50)
    learning_rate: float = 1e-3
    batch: int = 32
    target_every: int = 100
    capacity: int = 100_000
    label: str = ""

    packages: ClassVar[tuple[str, ...]] = ("jax", "jaxlib", "optax")

    def __post_init__(self) -> None:
        rule = Bernoulli(gamma=self.gamma) if self.rule is None else checked_rule(self.rule)
        if rule.needs_counts:
            raise ValueError(
                f"the rule {rule.label!r} is decided by visit counts of state-action pairs, and an "
                "ensemble of networks has none; choose one that does not look at the data, such as "
                "bernoulli"
            )
        gamma: float | None = getattr(rule, "gamma", None)
        if not rule.has_gamma:
            gamma = checked_gamma(0.99 if self.gamma is None else self.gamma)
        elif self.gamma not in (None, gamma):
            raise ValueError(f"gamma is {self.gamma}, but the rule has its own: {rule.label}")
        for name in ("members", "batch", "target_every", "capacity"):
            object.__setattr__(self, name, checked_whole(name, getattr(self, name), 1))
        hidden = self.hidden if isinstance(self.hidden, list | tuple) else (self.hidden,)
        hidden = tuple(checked_whole("a hidden layer's size", size, 1) for size in hidden)
        checked_number("prior_scale", self.prior_scale, 0)
        checked_number("mask", self.mask, 0, 1)
        checked_number("epsilon", self.epsilon, 0, 1)
        checked_number("learning_rate", self.learning_rate, 0)
        label = self.label or f"Bootstrapped DQN, {rule.label}"
        kept = {"rule": rule, "gamma": gamma, "hidden": hidden, "label": label}
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    def resolve(self, problem: "TabularMDP | FeatureSizes", steps: int | None) -> "BootstrappedDQN":
        """Return the agent with a rule tuned to `problem` and, if it asks for it, to `steps`."""
        assert self.rule is not None
        pairs = problem.rewards.size if isinstance(problem, TabularMDP) else None
        rule = self.rule.resolve(pairs, steps)
        given = self.label != f"Bootstrapped DQN, {self.rule.label}"
        return replace(self, rule=rule, label=self.label if given else "")

    def check(self, problem: "TabularMDP | FeatureSizes") -> None:
        """Raise a ValueError if the agent is not for such a problem."""
        if isinstance(problem, FeatureSizes):
            return
        if not isinstance(problem, TabularMDP):
            raise ValueError(
                f"{self.label} learns from observations: start it with a table that has features "
                f"or with FeatureSizes(n_features, n_actions), not {problem!r}"
            )
        if problem.features is None:
            raise ValueError(
                f"{self.label} needs observations, and {problem!r} has no features: make it "
                "with some, as in cpsrl.environment('riverswim', features='thermometer')"
            )
        largest = max(np.abs(problem.features).max(), np.abs(problem.rewards).max())
        if largest > MOST:
            raise ValueError(
                f"{self.label} computes in float32, and {problem!r} has features or rewards of "
                f"{largest:g}: they must be at most {MOST:g}"
            )

    def start(self, problem: "TabularMDP | FeatureSizes", streams: Streams) -> "EnsembleAgent":
        """Return a live agent."""
        self.check(problem)
        for package in ("jax", "optax"):
            if importlib.util.find_spec(package) is None:
                raise ValueError(
                    f"{self.label} needs JAX and optax, and there is no {package} here: "
                    "pip install 'cpsrl[deep]'"
                )
        return EnsembleAgent(self, problem, streams)


@AGENTS.add("dqn")
def DQN(
    gamma: float = 0.99,
    epsilon: float = 0.1,
    hidden: tuple[int, ...] = (50, 50),
    learning_rate: float = 1e-3,
    batch: int = 32,
    target_every: int = 100,
    capacity: int = 100_000,
    label: str = "DQN",
) -> BootstrappedDQN:
    """DQN (Mnih et al. 2015): one network without a prior, and a random action now and then.

    Args:
        gamma: the discount factor.
        epsilon: the probability of a random action.
        hidden: the sizes of the hidden layers.
        learning_rate: of Adam.
        batch: the transitions in a minibatch; one minibatch a step.
        target_every: updates from one copy of the weights to the target network to the next.
        capacity: transitions in the replay.
        label: what to call the agent.
    """
    return BootstrappedDQN(
        gamma=gamma,
        rule=Never(),
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


class EnsembleAgent(LiveAgent):
    """A live agent: `act` and `observe` on vectors, or on states of a table with features.

    To look at: `ensemble`, the networks; `member`, the one that acts; `step`, the number of the
    step about to be taken.
    """

    def __init__(
        self, spec: BootstrappedDQN, problem: TabularMDP | FeatureSizes, streams: Streams
    ) -> None:
        from cpsrl.networks import ensemble as networks

        self._networks = networks
        self.features: NDArray[np.float32] | None = None
        form: tuple[int, ...] = ()
        if isinstance(problem, TabularMDP):
            assert problem.features is not None  # by `check`
            self.features = problem.features.astype(np.float32)
            n_features = problem.features.shape[1]
        else:
            n_features = problem.n_features
            form = (n_features,)
        self.spec = spec.resolve(problem, None)
        self.n_features, self.n_actions = n_features, problem.n_actions
        self.streams = streams
        sizes = (n_features, *spec.hidden, problem.n_actions)
        self.ensemble = networks.initialise(streams.model, spec.members, sizes, spec.prior_scale)
        n, kind = spec.capacity, np.float32 if form else np.int32
        self.replay: dict[str, NDArray[Any]] = {
            "observation": np.zeros((n, *form), kind),
            "action": np.zeros(n, np.int32),
            "reward": np.zeros(n, np.float32),
            "next_observation": np.zeros((n, *form), kind),
            "mask": np.zeros((n, spec.members if spec.mask < 1 else 0), np.bool_),
        }
        self.step = 1
        self.resamples = 0
        self.member = 0
        self.gamma = 0.0
        self._draws: StepDraws | None = None

    @property
    def held(self) -> int:
        """How many transitions the replay holds."""
        return min(self.step - 1, self.spec.capacity)

    def act(self, observation: Any) -> int:
        """Return the action on `observation`; the same one until `observe` moves time on."""
        x = self._vector("observation", observation)
        draws = self._tick()
        if draws.forced[0] >= 0:
            return int(draws.forced[0])
        return int(self._networks.greedy(self.ensemble, draws.member[0], x))

    def observe(self, observation: Any, action: int, reward: float, next_observation: Any) -> None:
        """Learn from a transition and move time on; raise, and change nothing, if it cannot be."""
        self._vector("observation", observation)
        self._vector("next observation", next_observation)
        action = checked_index("action", action, self.n_actions)
        reward = checked_number("reward", reward, -MOST, MOST)
        draws = self._tick()
        replay, place = self.replay, (self.step - 1) % self.spec.capacity
        entry = (observation, action, reward, next_observation, draws.mask[0])
        for column, value in zip(replay.values(), entry, strict=True):
            column[place] = value
        self._learn(draws)
        self._draws = None
        if self.step % self.spec.target_every == 0:
            self.ensemble = self.ensemble._replace(target=self.ensemble.online)
        self.step += 1

    def draw_steps(self, n: int) -> StepDraws:
        """Draw what chance decides in the n steps to come, and make the last member the current.

        Minibatches are drawn with replacement from what the replay holds after each step.
        """
        spec, streams = self.spec, self.streams
        assert spec.rule is not None
        resample, gamma = spec.rule.arrays(self.step, n, streams.rule)
        if not spec.rule.has_gamma:
            gamma = np.full(n, spec.gamma)
        drawn = np.flatnonzero(resample)
        begun = np.searchsorted(drawn, np.arange(n), side="right")
        new = (streams.belief.random(len(drawn)) * spec.members).astype(np.int64)
        member = np.concatenate([[self.member], new])[begun]
        gamma = np.concatenate([[self.gamma], gamma[drawn]])[begun]
        self.member, self.gamma = int(member[-1]), float(gamma[-1])
        self.resamples += len(drawn)

        forced = np.full(n, -1)
        if spec.epsilon > 0:
            u = streams.action.random(n) / spec.epsilon
            forced[u < 1] = (u[u < 1] * self.n_actions).astype(np.int64)

        n_masks = self.replay["mask"].shape[1]
        u = streams.model.random((n, n_masks + spec.batch))
        held = np.minimum(np.arange(self.step, self.step + n), spec.capacity)
        rows = (u[:, n_masks:] * held[:, None]).astype(np.int64)
        return StepDraws(resample, member, gamma, forced, u[:, :n_masks] < spec.mask, rows)

    def state(self) -> dict[str, Any]:
        """Return all that a new agent needs to go on from here."""
        return {
            "ensemble": self._networks.ensemble_state(self.ensemble),
            "replay": {name: column[: self.held].copy() for name, column in self.replay.items()},
            "step": self.step,
            "resamples": self.resamples,
            "member": self.member,
            "gamma": self.gamma,
            "draws": None if self._draws is None else self._draws._asdict(),
            "spec": described(self.spec),
            "streams": self.streams.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where `state()` was called; raise, and change nothing, if it does not fit."""
        check_state(
            state, self.spec, "ensemble", "replay", "step", "resamples", "member", "gamma", "draws"
        )
        step = checked_whole("the stored step", state["step"], 1)
        resamples = checked_whole("the stored number of resamplings", state["resamples"])
        member = checked_index("the stored member", state["member"], self.spec.members)
        held = min(step - 1, self.spec.capacity)
        for name, column in self.replay.items():
            stored = np.asarray(state["replay"].get(name))
            if stored.shape != column[:held].shape or stored.dtype != column.dtype:
                raise ValueError(
                    f"the stored replay's {name} does not fit: {stored.dtype} {stored.shape}, not "
                    f"{column.dtype} {column[:held].shape}"
                )
        ensemble = self._networks.restored_ensemble(state["ensemble"], self.ensemble)
        self.streams.restore(state["streams"])
        self.ensemble = ensemble
        for name, column in self.replay.items():
            column[:held] = state["replay"][name]
        self.step, self.resamples = step, resamples
        self.member, self.gamma = member, float(state["gamma"])
        self._draws = None if state["draws"] is None else StepDraws(**state["draws"])

    def _tick(self) -> StepDraws:
        """Draw, once a step, what chance decides in it."""
        if self._draws is None:
            self._draws = self.draw_steps(1)
        return self._draws

    def _learn(self, draws: StepDraws) -> None:
        rows = draws.rows[0]
        picked = {name: column[rows] for name, column in self.replay.items()}
        x, next_x = picked["observation"], picked["next_observation"]
        if self.features is not None:
            x, next_x = self.features[x], self.features[next_x]
        each = np.arange(len(rows))
        mask = picked["mask"].astype(np.float32) if self.spec.mask < 1 else np.float32(1)
        batch = self._networks.Batch(each, picked["action"], picked["reward"], each, mask)
        gamma, rate = np.float32(draws.gamma[0]), self.spec.learning_rate
        self.ensemble = self._networks.learn(self.ensemble, x, next_x, batch, gamma, rate)

    def _vector(self, what: str, observation: Any) -> NDArray[np.float32]:
        if self.features is not None:
            return np.asarray(self.features[checked_index(what, observation, len(self.features))])
        x = FeatureSizes(self.n_features, self.n_actions).checked(what, observation)
        if np.abs(x).max() > MOST:
            raise ValueError(f"{what} must have numbers of at most {MOST:g}, not {observation!r}")
        return x
