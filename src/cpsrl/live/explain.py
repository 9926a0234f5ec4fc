"""Why an agent does what it does: what it believes about a state, in numbers and in words.

Models are drawn from the posterior, with a generator of their own, so that looking changes nothing.
In each of them the best actions are found, for the agent's objective; an action's probability of
being optimal is the share of models in which it is best, split where several are. Its value is
Q(s, a) for a discounted objective. For the average reward it is what is lost by taking it once,
r + P h - g - h(s), which is 0 for the best.

How far from knowing: the interval of the optimal gain. Of m draws sorted, the interval from the
k-th to the (m + 1 - k)-th, k = .025 (m + 1), contains the truth with probability 1 - 2 k / (m + 1)
where the truth has the law of the draws: for m = 999 exactly .95. That is what 95% means here: of
the problems that the prior expects, in 95 of 100.

Agents with networks have functions in place of models, and no gain. Agents that believe nothing
have their policy and the visits alone.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpsrl.agents.psrl import PSRLAgent
from cpsrl.beliefs.belief import DENSE_STATES, small_model
from cpsrl.checks import checked_whole, count
from cpsrl.mdp import TabularMDP
from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.planning import solve_average, solve_discounted
from cpsrl.planning.kernels import plan_average, plan_discounted, repeat_rows, workspace
from cpsrl.registry import unknown
from cpsrl.seeding import lent
from cpsrl.sizes import FeatureSizes, Sizes, width_of
from cpsrl.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from cpsrl.live.durable import DurableAgent

OUTSIDE = 0.025
FEWEST = 39
"""With fewer draws there is no 95% interval."""
LARGE_DRAWS = 199
TIE = 1e-9
"""Actions whose values differ by less, as a share of the largest, are alike."""


@dataclass(frozen=True)
class Interval:
    """A median and a 95% interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class ActionBelief:
    """What is believed about an action in the state: None where the agent believes nothing."""

    action: Any
    probability: float | None
    """that it is optimal"""
    value: Interval | None
    visits: int | None
    """outcomes and logged transitions of it in the state; None where states are vectors"""


@dataclass(frozen=True)
class Explanation:
    """What an agent believes about a state.

    Attributes:
        state: the state.
        action: what the agent would do in it now, by the model that it acts on.
        drawn: when that model was drawn, and why: event, at (seconds since 1970), decision, why.
        actions: what is believed about each action.
        gain: the optimal gain, if there is a belief about it.
        outcomes: how many outcomes and logged transitions are behind the belief.
        draws: how many models were drawn for this.
        objective: what the values are.
        belief: what else the belief has to tell, such as the parameters of a parametric one.
    """

    state: Any
    action: Any
    drawn: dict[str, Any] | None
    actions: tuple[ActionBelief, ...]
    gain: Interval | None
    outcomes: int
    draws: int
    objective: str
    belief: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)

    def to_json(self) -> str:
        """Return all of it as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        lines = [f"state {self.state}: it would take {self.action} now"]
        if self.drawn:
            lines[0] += f", by the model drawn at decision {self.drawn['decision'] + 1}"
            lines.append(f"  drawn because of {self.drawn['why']}")
        width = max(len(str(one.action)) for one in self.actions)
        for one in self.actions:
            words = [f"  {one.action!s:{width}}"]
            if one.probability is not None:
                words.append(f"optimal with probability {one.probability:.3f}")
            if one.value is not None:
                words.append(f"value {_in_words(one.value)}")
            if one.visits is not None:
                words.append(count(one.visits, "visit"))
            lines.append("  ".join(words))
        if self.gain is not None:
            lines.append(f"  optimal gain {_in_words(self.gain)}")
        for name, one in self.belief.get("parameters", {}).items():
            lines.append(f"  {name} {one['mean']:.4g} [{one['low']:.4g}, {one['high']:.4g}]")
        if "effective_sample_size" in self.belief:
            size, points = self.belief["effective_sample_size"], self.belief["points"]
            lines.append(f"  effective sample size {size:.4g} of {points} points")
        behind = f"  ({self.objective}; {count(self.outcomes, 'transition')}"
        lines.append(f"{behind}, {self.draws} draws)" if self.draws else f"{behind})")
        return "\n".join(lines)


def _in_words(interval: Interval) -> str:
    return f"{interval.median:.4g} [{interval.low:.4g}, {interval.high:.4g}]"


def interval_of(draws: Any) -> Interval:
    """Return the median and the 95% interval of posterior draws `(m,)`, m >= FEWEST."""
    return Interval(*map(float, limits_of(np.asarray(draws, np.float64))))


def limits_of(draws: Floats) -> Floats:
    """Return median, low and high end `(3, ...)` of draws `(m, ...)`, m >= FEWEST."""
    values = np.sort(draws, axis=0)
    outside = int(OUTSIDE * (len(values) + 1) + 1e-9)
    return np.stack([np.median(values, axis=0), values[outside - 1], values[-outside]])


def explain(
    durable: "DurableAgent", state: Any, draws: int | None = None, stream: str | None = None
) -> Explanation:
    """Return what `durable` believes about the state of number (or vector) `state`."""
    agent, labels, tally = durable.agent, durable.labels, durable.tally
    if stream is not None:
        members = getattr(agent, "members", {})
        if stream not in members:
            raise unknown("stream", stream, list(members))
        agent = members[stream]
    marks = [mark for mark in tally.marks if mark.stream == stream]
    rng, shown = np.random.default_rng(durable.event), labels.shown(state)
    few = labels.n_states is not None and labels.n_states > DENSE_STATES
    draws = (LARGE_DRAWS if few else 999) if draws is None else draws
    draws = checked_whole("draws", draws, FEWEST)
    believed: _Believed | None = None
    if isinstance(agent, PSRLAgent):
        believed = _from_models(agent, shown, rng, draws)
        action: Any = int(agent.policy[shown]) if agent.resamples else None
    elif isinstance(agent, ValueSamplingAgent):
        believed = _from_networks(agent, shown, rng, draws)
        action = None
        if agent.resamples:
            index, x = agent.index[0], np.asarray(shown, np.float32)
            action = int(agent._learning.greedy(agent.learner, index, x, agent.spec.belief))
    else:
        policy = getattr(agent, "policy", None)
        action = int(policy[shown]) if policy is not None and len(policy) else None
    visits = None if labels.n_states is None else tally.visits[state]
    actions = tuple(
        ActionBelief(
            labels.action_name(a),
            None if believed is None else float(believed.optimal[a]),
            None if believed is None else interval_of(believed.values[:, a]),
            None if visits is None else int(visits[a]),
        )
        for a in np.flatnonzero(_available(labels.sizes, state)).tolist()
    )
    objective = getattr(agent.spec, "objective", None)
    return Explanation(
        state=labels.state_name(state),
        action=None if action is None else labels.action_name(action),
        drawn=marks[-1]._asdict() if marks else None,
        actions=actions,
        gain=None if believed is None or believed.gain is None else interval_of(believed.gain),
        outcomes=tally.counts["outcomes"] + tally.counts["learned"],
        draws=0 if believed is None else draws,
        objective=agent.spec.label if objective is None else objective.label,
        belief=agent.belief.facts() if isinstance(agent, PSRLAgent) else {},
    )


def _available(sizes: Sizes | FeatureSizes, state: Any) -> Bools:
    """Return which actions there are in a state, `(A,)`, or in several, `(k, A)`."""
    if isinstance(sizes, FeatureSizes) or sizes.available is None:
        return np.ones(sizes.n_actions, np.bool_)
    return np.asarray(sizes.available[state])


class _Believed(NamedTuple):
    """What draws say about the actions in a state."""

    optimal: Floats
    """`(A,)` probability of being best"""
    values: Floats
    """`(m, A)`"""
    gain: Floats | None
    """`(m,)` the optimal gain from the state"""


def _best(values: Floats, among: Any) -> Floats:
    """Return the shares `(..., A)` of actions in being the best of those in the mask `among`."""
    least = np.where(among, values, -np.inf)
    scale = np.abs(values).max(axis=-1, keepdims=True)
    best = least >= least.max(axis=-1, keepdims=True) - TIE * scale
    return best / best.sum(axis=-1, keepdims=True)


def _from_models(agent: PSRLAgent, state: int, rng: np.random.Generator, n: int) -> _Believed:
    """Solve models drawn from the belief of an agent with tables."""
    drawn = solved_draws(agent, np.array([state]), rng, n)
    found = [(one.optimal[0], one.values[0], one.gain[0]) for one in drawn]
    optimal, values, gains = map(np.array, zip(*found, strict=True))
    return _Believed(optimal.mean(axis=0), values, gains)


class Solved(NamedTuple):
    """What a model drawn from the posterior says about k states."""

    rows: Any
    """`(k, A, S)` transition probabilities; of a large model `(k*A, S)`, sparse"""
    rewards: Floats
    """`(k, A)`"""
    values: Floats
    """`(k, A)` of each action (see above)"""
    optimal: Floats
    """`(k, A)` each action's share in being best"""
    gain: Floats
    """`(k,)` the optimal gain"""


def solved_draws(
    agent: PSRLAgent, states: Ints, rng: np.random.Generator, n: int
) -> Iterator[Solved]:
    """Yield n posterior draws of an agent with tables, solved for its objective.

    What is yielded is to be read before the next one.
    """
    discounts, n_actions = agent.objective.discounts, agent.sizes.n_actions
    gamma = agent.planning_gamma() if discounts else 1.0
    work = workspace(min(agent.sizes.n_states, DENSE_STATES))
    choice = np.zeros(agent.sizes.n_states, np.int64)
    available = _available(agent.sizes, states)
    shape = (len(states), n_actions)
    for model in _models(agent, rng, n):
        if isinstance(model, TabularMDP):
            best = solve_average(model)
            gain, bias = best.gain, best.bias
            value = solve_discounted(model, gamma).value if discounts else bias
            places = (states[:, None] * n_actions + np.arange(n_actions)).ravel()
            rows, rewards = model.csr[places], model.rewards[states]
        else:
            P, r = model
            plan_average(P, r, 1.0, choice, work)
            gain, bias = work.gain.copy(), work.value.copy()
            value = bias
            if discounts:
                plan_discounted(P, r, gamma, choice, work)
                value = work.value
            rows, rewards = P[states], r[states]
        values = rewards + gamma * (rows @ value).reshape(shape)
        among = available
        if not discounts:
            values = np.minimum(values - gain[states, None] - value[states, None], 0.0)
            kept = (rows @ gain).reshape(shape)
            among = among & (kept >= kept.max(axis=1, keepdims=True) - TIE * np.abs(gain).max())
        optimal = _best(values, among)
        if not discounts:
            values[optimal > 0] = 0.0  # but for rounding
        yield Solved(rows, rewards, values, optimal, gain[states])


def _models(agent: PSRLAgent, rng: np.random.Generator, n: int) -> Iterator[Any]:
    """Yield n posterior draws: P `(S, A, S)` and r `(S, A)`, or a large one as a TabularMDP."""
    belief, shape = agent.belief, (agent.sizes.n_states, agent.sizes.n_actions)
    if belief.inside is None:
        for _ in range(n):
            yield small_model(belief.sample(rng), agent.sizes)
        return
    P, r = np.empty((shape[0] * shape[1], shape[0])), np.empty(shape[0] * shape[1])
    with lent(rng) as words:
        for _ in range(n):
            belief.inside.sample(belief.arrays, words, P, r)
            if len(agent.stand_in):
                repeat_rows(P, r, agent.stand_in)
            yield P.reshape(*shape, -1), r.reshape(shape)


def _from_networks(
    agent: ValueSamplingAgent, x: Any, rng: np.random.Generator, n: int
) -> _Believed:
    """Evaluate functions drawn from a belief of networks."""
    belief, learner = agent.spec.belief, agent.learner
    indices, seen = belief.draw_index(rng, n), np.asarray(x, np.float32)[None]
    q = belief.outputs(learner.online, indices, seen)
    q = np.asarray(q + belief.prior_outputs(learner.prior, indices, seen))[:, 0].astype(np.float64)
    low, width = agent.sizes.reward_range[0], width_of(agent.sizes.reward_range)
    q *= width  # networks learn in units of the range
    if agent.spec.objective.discounts:
        q += low / (1 - agent.gamma)
    everything = np.ones(q.shape[1], np.bool_)
    optimal = np.mean([_best(values, everything) for values in q], axis=0)
    return _Believed(optimal, q, None)
