"""A film of one run: every step, and a look at the agent where a pseudo-episode begins.

The run is that of `simulate` with the same seed, step by step in the readable loop. A look draws
models from the agent's posterior with a generator of its own (`live.explain`), so that the run goes
on as if nobody had looked.

Memory is bounded: a film has at most MOST_STEPS steps, and looks are thinned out as they gather.
When there are more than fit, every second one is dropped and from then on twice as many
pseudo-episodes are passed over between two. When each pseudo-episode began is kept of all of them.

What a decision costs is exact: with g the optimal gain and h the bias, action a in state s loses
g + h(s) - r(s, a) - P h >= 0. Over a run these losses sum to the regret, up to the noise and the
difference of h between its first and last state.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cpsrl.agents import Agent
from cpsrl.agents.fleet import Fleet
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.live.explain import FEWEST, limits_of, solved_draws
from cpsrl.mdp import DENSE_STATES, ChangingWorld, Simulator, TabularMDP
from cpsrl.mdp.problem import width_of
from cpsrl.networks.agent import ValueSampling
from cpsrl.planning import (
    AverageSolution,
    PlanningGap,
    discounted_value,
    gain_and_bias,
    planning_gap,
    solve_average,
    solve_discounted,
)
from cpsrl.seeding import Streams
from cpsrl.simulation import readable
from cpsrl.simulation.loops import MOST_AT_ONCE, Recorder, Run
from cpsrl.simulation.optimum import gains_of
from cpsrl.support.checks import checked_whole
from cpsrl.support.types import Floats, Ints
from cpsrl.theory.regret import given_away

MOST_STEPS = 100_000
DRAWS, FEW_PAIRS = 79, 100
"""DRAWS models are drawn for a look where there are at most FEW_PAIRS pairs, else FEWEST; of 79 or
39 draws the 95% interval is exact."""
MOST_LOOKS, FEWEST_LOOKS, MOST_NUMBERS = 240, 12, 200_000
"""At most MOST_LOOKS are kept, or fewer where they would hold more than MOST_NUMBERS numbers."""
MOST_SUCCESSORS = 6
"""How many next states of a pair are shown, the likeliest ones; the others are "elsewhere"."""
TIE = 1e-9
"""An action that loses less, as a share of the range of rewards, is a best one."""


@dataclass(frozen=True)
class Look:
    """An agent as a pseudo-episode begins; without a posterior, the last four are None.

    Attributes:
        number: that of the pseudo-episode, from 1.
        step: its first step.
        policy: `(S,)` what it does.
        earns: its gain in the MDP, from where it begins.
        gamma: the discount factor it plans with; NaN for the average reward.
        value: `(S,)` of the policy in the model drawn: discounted, or the bias.
        optimal: `(S, A)` probability that an action is optimal.
        rewards: `(3, S, A)` median, low and high end of the mean reward.
        successors: `(3, E)` the same of the probabilities of `Film.successors`, then `(S*A,)` of
            those of all other next states.
    """

    number: int
    step: int
    policy: Ints
    earns: float
    gamma: float = np.nan
    value: Floats | None = None
    optimal: Floats | None = None
    rewards: Floats | None = None
    successors: Floats | None = None


class Film:
    """One run of an agent with tables in an MDP, to be taken step by step.

    Args:
        agent: the agent.
        mdp: the environment.
        steps: how many steps the run will have at most.
        seed: the root seed.
        run: the number of the run.
    """

    def __init__(
        self, agent: Agent, mdp: TabularMDP, steps: int, seed: int = 0, run: int = 0
    ) -> None:
        self.steps = checked_whole("steps", steps, 1)
        if steps > MOST_STEPS:
            raise ValueError(
                f"a run is watched for at most {MOST_STEPS:,} steps, not {steps:,}; `cpsrl run` and"
                " cpsrl.simulate take longer ones"
            )
        if isinstance(agent, ValueSampling):
            raise ValueError(f"{agent.label} has networks, and only agents with tables are watched")
        if isinstance(agent, Fleet) and agent.n > 1:
            raise ValueError(f"{agent.label} has many agents, and only single ones are watched")
        if isinstance(mdp, ChangingWorld):
            raise ValueError(f"{mdp!r} changes, and only worlds that stay the same are watched")
        spec = agent.resolve(mdp, steps)
        spec.check(mdp)
        self.mdp, self.seed, self.number, self.label = mdp, seed, run, str(spec.label)
        self.rule = getattr(spec, "rule", None)
        self.looks: list[Look] = []
        self.stride = 1
        self.begun: list[int] = []
        streams = Streams(seed, run)
        simulator = Simulator(mdp, streams)
        live = spec.start(mdp, streams)
        self._run = Run(live, simulator, float(gains_of(self.mdp)[simulator.state]))
        chunk = min(steps, MOST_AT_ONCE)
        nothing = np.zeros(0, np.int64)
        self._run.recorder = Recorder(nothing, chunk, trajectory=True, watch=self._look)

    @property
    def agent(self) -> Any:
        """The live agent."""
        return self._run.agent

    @property
    def state(self) -> int:
        """Where the run stands."""
        return int(self._run.simulator.state)

    @property
    def step(self) -> int:
        """How many steps have been taken."""
        return self._run.step

    @property
    def gain(self) -> float:
        """The optimal gain."""
        return self._run.gain

    @property
    def regret(self) -> float:
        """The regret so far."""
        return self.gain * self.step - self._run.reward_sum

    @cached_property
    def best(self) -> AverageSolution:
        """The truth: a bias-optimal policy, its gain and its bias."""
        return solve_average(self.mdp, bias_optimal=self.mdp.n_states <= DENSE_STATES)

    def advance(self, steps: int = 1) -> None:
        """Take some steps, as many as there are left of them."""
        steps = min(steps, self.steps - self.step)
        if steps > 0:
            go_on = np.zeros(1, np.int64)
            readable.advance(self._run, steps, lambda n: None, go_on)

    def path(self) -> tuple[Ints, Ints, Floats]:
        """Return the states `(n + 1,)`, actions and rewards `(n,)` of the steps taken."""
        if not self.step:
            return np.array([self.state]), np.zeros(0, np.int64), np.zeros(0)
        found = self._run.recorder.trajectory(self.state)
        return found["states"], found["actions"], found["rewards"]

    def regrets(self) -> Floats:
        """Return the regret `(n,)` after each step taken."""
        rewards = self.path()[2]
        times = np.arange(1, len(rewards) + 1, dtype=np.float64)
        return np.asarray(self.gain * times - np.cumsum(rewards))

    @property
    def waits(self) -> Ints:
        """`(pseudo-episodes,)` how long each has lasted so far."""
        return np.diff([*self.begun, self.step + 1])

    @cached_property
    def loss(self) -> Floats:
        """`(S, A)` what each action loses, 0 for a best one."""
        lost = given_away(self.mdp, self.best)
        return np.asarray(np.where(lost > TIE * width_of(self.mdp.reward_range), lost, 0.0))

    def losses(self) -> Floats:
        """Return what each step taken `(n,)` has lost."""
        states, actions, _ = self.path()
        return np.asarray(self.loss[states[:-1], actions])

    @property
    def gamma(self) -> float:
        """The discount factor that the agent planned with last; NaN for the average reward."""
        return self.looks[-1].gamma if self.looks else np.nan

    def gap(self) -> PlanningGap | None:
        """Return what planning with the last gamma costs; None for the average reward."""
        return None if np.isnan(self.gamma) else planning_gap(self.mdp, self.gamma, self.best)

    def true_value(self, gamma: float) -> Floats:
        """Return the optimal value `(S,)` in the MDP: discounted, or the bias where that is NaN."""
        return self.best.bias if np.isnan(gamma) else solve_discounted(self.mdp, gamma).value

    @cached_property
    def successors(self) -> tuple[Ints, Ints]:
        """Row s*A + a and next state `(E,)` of what `Look.successors` are about."""
        true = self.mdp.csr
        rows = np.repeat(np.arange(true.shape[0]), np.diff(true.indptr))
        order = np.lexsort((true.indices, -true.data, rows))
        rank = np.arange(len(rows)) - true.indptr[rows]
        kept = np.sort(order[rank < MOST_SUCCESSORS])
        return rows[kept], true.indices[kept].astype(np.int64)

    def _look(self, state: int, agent: Any) -> float:
        """Look at the agent, which has just begun a pseudo-episode."""
        self.begun.append(self.step + 1)
        number = len(self.begun)
        if (number - 1) % self.stride:
            return 0.0
        policy = np.array(agent.policy)
        earns = float(gain_and_bias(self.mdp, policy)[0][state])
        look = Look(number, self.step + 1, policy, earns)
        if isinstance(agent, PSRLAgent):
            look = self._posterior(look, agent)
        self.looks.append(look)
        numbers = 2 * len(policy) + 7 * self.mdp.rewards.size + 3 * len(self.successors[0])
        if len(self.looks) > max(FEWEST_LOOKS, min(MOST_LOOKS, MOST_NUMBERS // numbers)):
            self.stride *= 2
            self.looks = self.looks[::2]
        return 0.0

    def _posterior(self, look: Look, agent: PSRLAgent) -> Look:
        """Return the look with what the model drawn and the posterior say."""
        gamma = agent.planning_gamma() if agent.objective.discounts else np.nan
        drawn = agent.drawn
        assert drawn is not None
        model = drawn if isinstance(drawn, TabularMDP) else TabularMDP(*drawn)
        if np.isnan(gamma):
            value = gain_and_bias(model, look.policy)[1]
        else:
            value = discounted_value(model, look.policy, gamma)
        found = replace(look, gamma=gamma, value=value)
        n_states, n_actions = self.mdp.n_states, self.mdp.n_actions
        if n_states > DENSE_STATES:
            return found
        rows, next_states = self.successors
        draws = DRAWS if n_states * n_actions <= FEW_PAIRS else FEWEST
        optimal, rewards, shares = np.zeros((n_states, n_actions)), [], []
        rng, everywhere = np.random.default_rng(look.step), np.arange(n_states)
        for one in solved_draws(agent, everywhere, rng, draws):
            optimal += one.optimal / draws
            rewards.append(one.rewards)
            named = one.rows.reshape(-1, n_states)[rows, next_states]
            others = 1 - np.bincount(rows, named, n_states * n_actions)
            shares.append(np.concatenate([named, np.maximum(others, 0.0)]))
        return replace(
            found,
            optimal=optimal,
            rewards=limits_of(np.array(rewards)),
            successors=limits_of(np.array(shares)),
        )
