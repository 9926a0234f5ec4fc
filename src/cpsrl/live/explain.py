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

Drawing and solving takes seconds where a model is large. It is done with a copy of the belief, so
that decisions do not wait, and can be stopped between two draws.

Agents with networks have functions in place of models, and no gain. Agents that believe nothing
have their policy and the visits alone.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cpsrl.agents.psrl import PSRLAgent
from cpsrl.beliefs.belief import small_model
from cpsrl.live.labels import Labels
from cpsrl.live.totals import Totals
from cpsrl.mdp import DENSE_STATES, TabularMDP
from cpsrl.mdp.problem import FeatureSizes, Sizes, width_of
from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.planning import solve_average, solve_discounted
from cpsrl.planning.kernels import plan_average, plan_discounted, repeat_rows, workspace
from cpsrl.seeding import words_of
from cpsrl.support.checks import checked_whole, count
from cpsrl.support.registry import unknown
from cpsrl.support.types import Bools, Floats, Ints

OUTSIDE = 0.025
FEWEST = 39
"""With fewer draws there is no 95% interval."""
LARGE_DRAWS = 199
SHARED_DRAWS = 200_000
"""A service draws models of at most so many states in all for one explanation."""
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
        now = (
            "no action is chosen yet" if self.action is None else f"it would take {self.action} now"
        )
        lines = [f"state {self.state}: {now}"]
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


class Stopped(Exception):
    """The explanation is not wanted any more."""


def most_draws(n_states: int | None) -> int:
    """Return how many draws a service makes at most, in a model of so many states."""
    return max(FEWEST, min(999, SHARED_DRAWS // (n_states or 1)))


def explain(
    agent: Any,
    labels: Labels,
    totals: Totals,
    state: Any,
    seed: int,
    draws: int | None = None,
    stream: str | None = None,
) -> Callable[[threading.Event | None], Explanation]:
    """Return what explains the state of number (or vector) `state`, as the agent is now.

    It may be called later, in any thread, with an event that stops it, or None.
    """
    if stream is not None:
        members = getattr(agent, "members", {})
        if stream not in members:
            raise unknown("stream", stream, list(members))
        agent = members[stream]
    marks = [mark for mark in totals.marks if mark.stream == stream]
    rng, shown = np.random.default_rng(seed), labels.shown(state)
    place = state if labels.features is not None else shown
    few = labels.n_states is not None and labels.n_states > DENSE_STATES
    draws = (LARGE_DRAWS if few else 999) if draws is None else draws
    draws = checked_whole("draws", draws, FEWEST)
    solve, at_once = None, None
    if isinstance(agent, PSRLAgent):
        agent = agent.snapshot()
        gamma = agent.planning_gamma() if agent.objective.discounts else 1.0
        solve = partial(_from_models, agent, shown, rng, draws, gamma)
    elif isinstance(agent, ValueSamplingAgent):
        at_once = _from_networks(agent, shown, rng, draws)  # it takes milliseconds
    action = _action_now(agent, shown)
    visits = None if labels.n_states is None else totals.visits[state].tolist()
    outcomes = totals.counts["outcomes"] + totals.counts["learned"]
    objective = getattr(agent.spec, "objective", None)

    def explained(stop: threading.Event | None) -> Explanation:
        believed = at_once if solve is None else solve(stop)
        actions = tuple(
            ActionBelief(
                labels.action_name(number),
                None if believed is None else float(believed.optimal[a]),
                None if believed is None else interval_of(believed.values[:, a]),
                None if visits is None else visits[number],
            )
            for a in np.flatnonzero(_available(labels.sizes, place)).tolist()
            for number in (labels.action_number(a),)
        )
        return Explanation(
            state=labels.state_name(state),
            action=None if action is None else labels.action_name(labels.action_number(action)),
            drawn=marks[-1]._asdict() if marks else None,
            actions=actions,
            gain=None if believed is None or believed.gain is None else interval_of(believed.gain),
            outcomes=outcomes,
            draws=0 if believed is None else draws,
            objective=agent.spec.label if objective is None else objective.label,
            belief=_named(agent.belief.facts(), labels) if isinstance(agent, PSRLAgent) else {},
        )

    return explained


def _named(facts: dict[str, Any], labels: Labels) -> dict[str, Any]:
    """Return facts of a belief with the names of actions in place of their numbers."""

    def name(found: re.Match[str]) -> str:
        return str(labels.action_name(labels.action_number(int(found[0]))))

    known = facts.get("parameters", {})
    named = {re.sub(r"(?<=, action )\d+$", name, key): value for key, value in known.items()}
    return facts | {"parameters": named} if known else facts


def _action_now(agent: Any, shown: Any) -> int | None:
    """Return what an agent would do in a state, if that is known before it decides."""
    if isinstance(agent, ValueSamplingAgent | PSRLAgent) and not agent.resamples:
        return None
    if isinstance(agent, ValueSamplingAgent):
        x, available = agent.shown(shown)
        given = (agent.learner, agent.index[0], x, agent.spec.belief, available)
        return int(agent._learning.greedy(*given))
    policy = getattr(agent, "policy", None)
    return int(policy[shown]) if policy is not None and len(policy) else None


def _available(sizes: Sizes | FeatureSizes, state: Any) -> Bools:
    """Return which actions there are in a state, `(A,)`, or in several, `(k, A)`."""
    if sizes.available is None:
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


def check_chooses(agent: Any) -> None:
    """Raise a ValueError if an agent can't choose among some of its actions."""
    if not isinstance(agent, PSRLAgent | ValueSamplingAgent):
        raise ValueError(f"{agent.spec.label} can't choose among some actions only")


def best_among(agent: Any, shown: Any, actions: list[int], seed: int) -> int:
    """Return the best of some actions in a model, or a function, that is drawn for this."""
    rng = np.random.default_rng(seed)
    if len(actions) == 1:
        return actions[0]
    if isinstance(agent, PSRLAgent):
        values = _from_models(agent.snapshot(), shown, rng, 1, None, None).values
    else:
        values = _from_networks(agent, shown, rng, 1).values
    return max(actions, key=values[0].item)


def _from_models(
    agent: PSRLAgent,
    state: int,
    rng: np.random.Generator,
    n: int,
    gamma: float | None,
    stop: threading.Event | None,
) -> _Believed:
    """Solve models drawn from the belief of an agent with tables."""
    found = []
    for one in solved_draws(agent, np.array([state]), rng, n, gamma):
        found.append((one.optimal[0], one.values[0], one.gain[0]))
        if stop is not None and stop.is_set():
            raise Stopped("the explanation was stopped")
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
    agent: PSRLAgent, states: Ints, rng: np.random.Generator, n: int, gamma: float | None = None
) -> Iterator[Solved]:
    """Yield n posterior draws of an agent with tables, solved for its objective.

    What is yielded is to be read before the next one. `gamma` None is that of the current step.
    """
    discounts, n_actions = agent.objective.discounts, agent.sizes.n_actions
    if gamma is None:
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
    belief, shape = agent.belief.exact(), (agent.sizes.n_states, agent.sizes.n_actions)
    if belief.inside is None:
        for _ in range(n):
            yield small_model(belief.sample(rng), agent.sizes)
        return
    P, r = np.empty((shape[0] * shape[1], shape[0])), np.empty(shape[0] * shape[1])
    with words_of(rng) as words:
        for _ in range(n):
            belief.inside.sample(belief.arrays, words, P, r)
            if len(agent.stand_in):
                repeat_rows(P, r, agent.stand_in)
            yield P.reshape(*shape, -1), r.reshape(shape)


def _from_networks(
    agent: ValueSamplingAgent, shown: Any, rng: np.random.Generator, n: int
) -> _Believed:
    """Evaluate functions drawn from a belief of networks."""
    belief, learner = agent.spec.belief, agent.learner
    (x, available), indices = agent.shown(shown), belief.draw_index(rng, n)
    seen = x[None]
    q = belief.outputs(learner.online, indices, seen)
    q = np.asarray(q + belief.prior_outputs(learner.prior, indices, seen))[:, 0].astype(np.float64)
    low, width = agent.sizes.reward_range[0], width_of(agent.sizes.reward_range)
    q *= width  # networks learn in units of the range
    if agent.spec.objective.discounts:
        q += low / (1 - agent.gamma)
    among = np.ones(q.shape[1], np.bool_) if available is None else available
    optimal = np.mean([_best(values, among) for values in q], axis=0)
    return _Believed(optimal, q, None)
