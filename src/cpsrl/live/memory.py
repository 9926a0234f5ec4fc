"""The agent in memory: what its events, applied in order, make of it.

A call and its repetition when the agent is opened go through the one `apply`.
"""

import time
from copy import copy
from typing import Any, cast

import numpy as np

from cpsrl.agents import Agent, Fleet
from cpsrl.agents.evolution import Kept, evolved
from cpsrl.experiments.provenance import PACKAGES, Provenance, provenance
from cpsrl.live.apprentice import check_can_be_one, tried
from cpsrl.live.events import Event, Kind, check_line
from cpsrl.live.explain import best_among
from cpsrl.live.labels import Labels
from cpsrl.live.options import Options
from cpsrl.live.totals import Totals
from cpsrl.seeding import Streams
from cpsrl.support.checks import checked_kind, checked_whole, count
from cpsrl.support.types import Bools, Ints


class Memory:
    """A live agent `live`, its `totals`, and the number and seal of the last event in them.

    It begins with a seed, or goes on from a snapshot that was `stored`.
    """

    def __init__(
        self,
        spec: Agent,
        labels: Labels,
        seed: int = 0,
        options: Options | None = None,
        stored: dict[str, Any] | None = None,
    ) -> None:
        self.labels = labels
        pairs = labels.n_states or 0, labels.n_actions
        if stored is not None and np.shape(stored["tally"]["visits"]) != pairs:
            raise ValueError("its snapshot is that of another problem")  # before that takes room
        self.live: Any = spec.start(labels.sizes, Streams(seed))
        self._settle(options or Options())
        self.totals = Totals(labels.n_states, labels.n_actions)
        self.event = self.seal = 0
        self.acted: tuple[Any, int] | None = None
        """The state and action of `act`, until time moves on."""
        self.changed = ""
        """In words, the versions that are others here than where the snapshot was written."""
        self.tried: Bools | None = None
        """The actions `(S, A)` that an apprentice that took over keeps to."""
        self.used: dict[str, float] = {}
        """When each stream has decided last, the longest ago first; those of before, on opening."""
        self.resample_seconds = 0.0
        """For how long decisions drew models, since the agent was opened."""
        if stored is not None:
            self._restore(stored)

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as a tree."""
        return {
            "event": self.event,
            "seal": self.seal,
            "agent": self.live.state(),
            "tally": self.totals.state(),
            "acted": self.acted,
            "tried": self.tried,
            "provenance": vars(provenance((*PACKAGES, *self.live.spec.packages))),
        }

    def _restore(self, stored: dict[str, Any]) -> None:
        self.live.restore(stored["agent"])
        self.totals.restore(stored["tally"])
        self.event = checked_whole("event", stored["event"])
        self.seal = checked_whole("seal", stored["seal"], 0, 2**32 - 1)
        if (acted := stored.get("acted")) is not None:
            shown = self.labels.shown(acted[0]), self.labels.shown_action(acted[1])
            self.labels.sizes.checked_action(*shown)
            self.acted = acted[0], acted[1]
        if (among := stored.get("tried")) is not None:
            self._keep_to(np.asarray(among, np.bool_))
            self.live.restore(stored["agent"])  # with its clock
        self.changed = Provenance(**stored["provenance"]).difference()
        self.used = dict.fromkeys(self.members, time.time())

    def repeat(self, event: Event, seal: int) -> None:
        """Apply an event that was written; raise a ValueError if it can't be.

        What was done then was done. Under the same versions the agent must decide so again. Under
        others, which round differently, it takes the action that was recorded.
        """
        again = self.apply(event, repeated=bool(self.changed))
        if again != event.action and not self.changed:
            raise ValueError(f"the action is {again} and was {event.action}")
        self.event, self.seal = event.n, seal

    def apply(self, event: Event, repeated: bool = False) -> Any:
        """Apply an event to the live agent; return its action.

        A decision has none yet, unless it is `repeated`. Where the agent refuses a transition by a
        ValueError, nothing has changed.
        """
        at, kind, state, stream = event.at, event.kind, event.state, event.stream
        action: Any = event.action
        reward: Any = event.reward
        totals, shown = self.totals, self.labels.shown
        if kind is Kind.DECIDE or kind is Kind.ACT:
            agent = self.live if stream is None else self.live.stream(stream)
            before, begun = agent.resamples, time.perf_counter()
            among: Any = event.next_state
            repeated |= among is not None and action is not None
            if kind is Kind.ACT:
                chosen = agent.act(shown(state))
            elif repeated:
                agent.repeat(shown(state), self.labels.shown_action(action))
            else:
                chosen = agent.decide(shown(state))
                allowed = None if among is None else [*map(self.labels.shown_action, among)]
                if allowed is not None and chosen not in allowed:
                    chosen = best_among(agent, shown(state), allowed, event.n)
            action = action if repeated else self.labels.action_number(int(chosen))
            if stream is not None:
                self.used.pop(stream, None)
                self.used[stream] = at
            if agent.resamples > before:
                self.resample_seconds += time.perf_counter() - begun
                totals.mark(event.n, at, _why(agent, before), stream)
            totals.counts["decisions"] += kind is Kind.DECIDE
        elif kind is Kind.OUTCOME or kind is Kind.OBSERVE:
            learn = self.live.observe if kind is Kind.OBSERVE else self.live.learn
            taken = self.labels.shown_action(action)
            learn(shown(state), taken, reward, shown(event.next_state))
            totals.counts["decisions"] += kind is Kind.OBSERVE
            totals.visit(state, action)
            totals.add(reward, at)
        elif kind is Kind.DISCARD:
            totals.counts["discarded"] += 1
        elif kind is Kind.TAKE_OVER:
            self._keep_to(None if reward is None else self._tried())
        elif kind is Kind.LEAVE:
            del self.live.members[stream], self.used[str(stream)]
        if kind is not Kind.VERSIONS:
            self.acted = (state, action) if kind is Kind.ACT else None
        return action

    def evolved(
        self, spec: Agent, labels: Labels, states: Ints, actions: Ints, options: Options
    ) -> tuple["Memory", Kept]:
        """Return it for a problem that has changed, and what is kept; this one stays as it is."""
        new = copy(self)
        new.live, kept = evolved(self.live, spec, labels.sizes, states, actions)
        new._settle(options)
        new.labels, new.acted = labels, None
        new.used = {name: at for name, at in self.used.items() if name in new.members}
        new.totals = self.totals.wider(labels.n_states, labels.n_actions)
        if self.tried is not None:
            new._keep_to(new._tried() if hasattr(new.live, "keep_to") else None)
        return new, kept

    def _tried(self) -> Bools:
        rows, columns = self.labels.kept
        return tried(self.totals.visits[np.ix_(rows, columns)], self.labels.sizes.available)

    def _keep_to(self, among: Bools | None) -> None:
        if self.tried is not None or among is not None:
            self.tried = among
            if hasattr(self.live, "keep_to"):
                self.live.keep_to(among)

    def _settle(self, options: Options) -> None:
        check_settings(self.live, options)
        if options.background:
            self.live.background = options.background

    @property
    def members(self) -> dict[str, Any]:
        """The agent's streams, by name."""
        return getattr(self.live, "members", {})

    def check_stream(self, stream: Any, most: int) -> None:
        """Raise a ValueError unless the agent can have a stream of that name, one of so many."""
        if stream is None or stream in self.members:
            return
        check_line("stream", stream)
        rule = getattr(self.live.spec, "rule", None)
        if not hasattr(self.live, "members") or rule is None or rule.needs_counts:
            raise ValueError(
                f"{self.live.spec.label} has no streams that share its belief: those of a table "
                "have, with a rule that does not look at the data, such as ContinuingPSRL()"
            )
        if len(self.members) >= most:
            raise ValueError(
                f"there are {count(most, 'stream')} already, so {stream!r} can't begin: open the "
                "agent with stream_within=, after which unused ones are forgotten, or most_streams="
            )

    def learn(self, state: Any, action: int, reward: float, next_state: Any) -> None:
        """Learn from a transition of a log."""
        shown = self.labels.shown
        self.live.learn(shown(state), self.labels.shown_action(action), reward, shown(next_state))
        self.totals.visit(state, action)
        self.totals.counts["learned"] += 1

    @property
    def resamples(self) -> int:
        """How many models were drawn, by the agent and by its streams."""
        return sum(one.resamples for one in (self.live, *self.members.values()))

    def facts(self) -> dict[str, Any]:
        """Return where the agent stands, as a tree of plain values."""
        counts, marks = self.totals.counts, self.totals.marks
        return {
            "agent": self.live.spec.label,
            "problem": in_words(self.labels),
            "events": self.event,
            **counts,
            "reward": self.totals.reward,
            "reward_rate": self.totals.reward / counts["outcomes"] if counts["outcomes"] else None,
            "streams": len(self.members),
            "resamples": self.resamples,
            "last_resample": marks[-1]._asdict() if marks else None,
        }


def checked_agent(agent: Any) -> Agent | None:
    """Return an agent that can be a durable one, or None; raise if it is something else."""
    checked_kind("agent", agent, Agent | None, "one such as cpsrl.ContinuingPSRL()")
    if isinstance(agent, Fleet) and agent.n > 1:
        raise ValueError(
            "a durable agent has streams by name, as many as there are: open it as "
            f"{agent.one.label} and give decide(state, stream=...) their names"
        )
    return cast(Agent | None, agent)


def check_settings(agent: Any, options: Options) -> None:
    """Raise a ValueError if a live agent can't be kept so."""
    if options.apprentice:
        check_can_be_one(agent)
    rule = getattr(agent.spec, "rule", None)
    draws = hasattr(agent, "background") and rule is not None and not rule.needs_counts
    if options.background and not draws:
        raise ValueError(
            f"{agent.spec.label} can't draw in the background: tables can, with a rule "
            "that does not look at the data, such as ContinuingPSRL()"
        )


def _why(agent: Any, before: int) -> str:
    """Return in words why an agent has resampled."""
    rule = getattr(agent.spec, "rule", None)
    if before == 0:
        return "the first step"
    if rule is None:
        return "a new episode"
    if rule.needs_counts:
        return f"the counts, by the rule {rule.label}"
    if rule.has_gamma:
        return f"the coin, {rule.label}"
    return f"the rule {rule.label}"


def in_words(labels: Labels) -> str:
    """Return how large a problem is."""
    actions = count(labels.sizes.n_actions, "action")
    if labels.n_states is None:
        return f"{count(labels.sizes.n_features, 'feature')} and {actions}"  # type: ignore[union-attr]
    return f"{count(labels.n_states, 'state')} and {actions}"
