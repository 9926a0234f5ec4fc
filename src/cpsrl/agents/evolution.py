"""A live agent whose problem, rule, objective or belief has changed, with what it had learnt.

What was seen are counts: n(s, a, s') transitions, and of the rewards of (s, a) their number, mean m
and sum of squared deviations M2. They do not depend on a prior, a rule, an objective or a range, so
they go over to another agent, and to other states and actions: the new belief is that of its own
prior and the counts of what is still there.

A Dirichlet belief holds prior plus counts; the counts are what it has more than the same belief
that saw nothing. A transition to a state that is no more, or one that the new belief calls
impossible, is not kept. What is left of the rewards of its pair then has the same mean, and M2 in
proportion. Other beliefs can't say what was seen, and begin anew.

Time, coins and streams go on. The next decision draws a model of the new problem; until a draw in
the background is ready, the policy before goes on where its actions are still there.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cpsrl.agents.psrl import ASKED, DUE, RESAMPLES, START, STEP, PSRLAgent
from cpsrl.beliefs.belief import LiveBelief, started
from cpsrl.beliefs.rewards import KnownRewards
from cpsrl.beliefs.sparse import rows_of_entries
from cpsrl.mdp.problem import Sizes
from cpsrl.seeding import Streams
from cpsrl.support.types import Bools, Floats, Ints

REWARDS = ("seen", "reward_mean", "reward_m2")


class Counts(NamedTuple):
    """What was seen, whatever was believed before."""

    states: Ints
    """`(n,)`"""
    actions: Ints
    """`(n,)`"""
    next_states: Ints
    """`(n,)`"""
    counts: Floats
    """`(n,)` how often, or with what weight, each of these transitions was seen"""
    rewards: Floats
    """`(3, S, A)` number, mean and sum of squared deviations"""

    def among(self, kept: Bools) -> "Counts":
        """Return those of the transitions `kept` `(n,)`."""
        states, actions, after, counts = self.states, self.actions, self.next_states, self.counts
        kept_parts = states[kept], actions[kept], after[kept], counts[kept]
        return Counts(*kept_parts, self.rewards)


class Kept(NamedTuple):
    """What an agent that has changed still knows."""

    transitions: float
    """how many, or their weight"""
    seen: float
    """of how many"""
    streams: int
    """how many streams go on"""
    lost: tuple[str, ...]
    """in words, what could not be kept"""


def evolved(old: Any, spec: Any, problem: Any, states: Ints, actions: Ints) -> tuple[Any, Kept]:
    """Return the live agent of `spec` for a problem that has changed; the old one stays as it is.

    Args:
        old: the live agent.
        spec: what it becomes.
        problem: the new sizes.
        states: `(S',)` which state of the old problem each one is, -1 for a new one.
        actions: `(A',)` likewise.
    """
    rule: Any = getattr(spec, "rule", None)
    mine = getattr(getattr(old.spec, "rule", None), "pairs", None)
    if mine is not None and getattr(rule, "pairs", None) == mine:  # those of the old problem
        spec = replace(spec, rule=replace(rule, pairs=None))
    new = spec.start(problem, Streams())
    new.streams.restore(old.state()["streams"])
    members = getattr(old, "members", {})
    if hasattr(new, "background"):
        new.background = getattr(old, "background", 0)
    if not isinstance(old, PSRLAgent) or not isinstance(new, PSRLAgent):
        lost = [f"what {old.spec.label} has learnt, which {new.spec.label} can't take over"]
        lost += [f"{len(members)} streams"] * bool(members)
        return new, Kept(0.0, 1.0 if old.state() else 0.0, 0, tuple(lost))
    lost = []
    if members and not new.rule.needs_counts:
        new.join(list(members))
    elif members:
        lost.append(f"{len(members)} streams: the rule {new.rule.label} looks at counts")
    seen = counts_in(old.belief, started(old.spec.belief, old.problem), old.sizes)
    total, kept = 0.0, None
    if seen is None:
        lost.append(f"what was learnt: {old.spec.belief!r} can't say what was seen")
    else:
        total = float(seen.counts.sum())
        kept = _carried(seen, new.sizes, states, actions, new.live_belief)
        if not enter(new.live_belief, kept, new.spec.belief):
            lost.append(f"what was learnt: {new.spec.belief!r} can't take counts over")
            kept = None
    entered = 0.0 if kept is None else float(kept.counts.sum())
    if kept is not None and entered < total:
        lost.append(
            f"{total - entered:,.0f} transitions of or to what is no more, or impossible now"
        )
    for name in ("", *new.members):
        mine, theirs = (new.members[name], old.members[name]) if name else (new, old)
        _go_on(mine, theirs, states, actions)
    if new.rule.needs_counts and kept is not None:
        np.add.at(new.visits, kept.states * len(actions) + kept.actions, kept.counts.astype(int))
    return new, Kept(entered, total, len(new.members), tuple(lost))


def _go_on(new: PSRLAgent, old: PSRLAgent, states: Ints, actions: Ints) -> None:
    """Go on with the time, the coins and, where it can be had, the policy of an old stream."""
    for one in old.upcoming:
        one.wait()
    new.streams.restore(old.own_state()["streams"])
    for place in (STEP, START, RESAMPLES):
        new.clock[place] = old.clock[place]
    if old.resamples:
        new.clock[ASKED] = new.clock[DUE] = 1
    number = np.full(old.sizes.n_actions, -1)
    number[actions[actions >= 0]] = np.flatnonzero(actions >= 0)
    chosen = np.where(states >= 0, number[old.policy[states]], -1)
    there = chosen >= 0
    if new.sizes.available is not None:
        there &= new.sizes.available[np.arange(len(states)), chosen]
    new.policy[there] = chosen[there]


def counts_in(belief: LiveBelief, prior: LiveBelief, sizes: Sizes) -> Counts | None:
    """Return the counts that a belief has more than `prior`; None if it does not keep counts."""
    now = belief.state()
    if not {*REWARDS} <= now.keys():
        return None
    rewards = np.array([now[name] for name in REWARDS], np.float64)
    if "first" in now:
        rows, after = rows_of_entries(now["first"], now["following"]), now["successor"]
        counts = now["counts"].astype(np.float64)
    else:
        cells = now["counts"] if "counts" in now else now["alpha"] - prior.state()["alpha"]
        if "counts" not in now:  # which were whole before the prior was added
            cells = np.rint(cells)
        rows, after = np.nonzero(cells)
        counts = cells[rows, after]
    shape = sizes.n_states, sizes.n_actions
    return Counts(*np.divmod(rows, shape[1]), after, counts, rewards.reshape(3, *shape))


def _carried(seen: Counts, sizes: Sizes, states: Ints, actions: Ints, belief: LiveBelief) -> Counts:
    """Return what was seen by the numbers of a new problem, without what is no more."""
    state, action = (np.full(n, -1) for n in seen.rewards.shape[1:])
    state[states[states >= 0]] = np.flatnonzero(states >= 0)
    action[actions[actions >= 0]] = np.flatnonzero(actions >= 0)
    parts = state[seen.states], action[seen.actions], state[seen.next_states], seen.counts
    found = Counts(*parts, seen.rewards)
    found = found.among((parts[0] >= 0) & (parts[1] >= 0) & (parts[2] >= 0))
    if sizes.available is not None:
        found = found.among(sizes.available[found.states, found.actions])
    if belief.possible is not None:
        rows = found.states * sizes.n_actions + found.actions
        found = found.among(belief.possible(rows, found.next_states))
    rewards = np.where(
        (states >= 0)[:, None] & (actions >= 0), seen.rewards[:, states][:, :, actions], 0.0
    )
    if np.asarray(belief.state().get("seen")).dtype.kind == "i":
        found = found._replace(counts=np.rint(found.counts))  # of evidence that had faded
        found = found.among(found.counts > 0)
    left = np.zeros((sizes.n_states, sizes.n_actions))
    np.add.at(left, (found.states, found.actions), found.counts)
    share = np.divide(left, rewards[0], out=np.zeros_like(left), where=rewards[0] > 0)
    return found._replace(rewards=np.stack([left, rewards[1] * (left > 0), rewards[2] * share]))


def enter(belief: LiveBelief, seen: Counts, spec: Any) -> bool:
    """Enter counts into a belief that has seen nothing; return False if it does not keep counts."""
    state = belief.state()
    if not {*REWARDS} <= state.keys():
        return False
    n_actions = seen.rewards.shape[2]
    rows, after, counts = seen.states * n_actions + seen.actions, seen.next_states, seen.counts
    if "first" in state:
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        state["successor"], state["counts"] = after[order], counts[order].astype(np.int64)
        places = np.arange(len(rows))
        state["following"] = np.where(np.diff(rows, prepend=-1) == 0, places - 1, -1)
        state["first"][rows] = places  # the last of each row
    else:
        cells = state["counts"] if "counts" in state else state["alpha"]
        cells[rows, after] += counts
    number, mean, m2 = seen.rewards.reshape(3, -1)
    state["seen"] = number.astype(state["seen"].dtype)
    if not _knows_rewards(spec):
        state["reward_mean"], state["reward_m2"] = mean, m2
    belief.restore(state)
    return True


def _knows_rewards(belief: Any) -> bool:
    inner = getattr(belief, "belief", None)
    known = isinstance(getattr(belief, "rewards", None), KnownRewards)
    return known or (inner is not None and _knows_rewards(inner))
