"""A live belief, and the transitions that wait for it.

Nobody reads a belief between two resamplings, so transitions gather in a backlog, which compiled
code can write to, and are handed over in batches. Agents that act in several places at once share
one `Evidence`.
"""

from typing import Any, NamedTuple

import numpy as np

from cpsrl.beliefs import BATCH
from cpsrl.beliefs.belief import LiveBelief
from cpsrl.mdp.problem import Sizes
from cpsrl.support.checks import checked_arrays
from cpsrl.support.types import Floats, Ints

LEAST_ROOM = 64


class Backlog(NamedTuple):
    """Transitions that the belief has not received yet, as compiled code writes them."""

    rows: Ints
    """`(room,)` s*A + a"""
    rewards: Floats
    """`(room,)`"""
    next_states: Ints
    """`(room,)`"""
    filled: Ints
    """`(1,)` how many there are"""


def new_backlog(room: int) -> Backlog:
    """Return an empty backlog with room for so many transitions."""
    whole, count = np.zeros((2, room), np.int64), np.zeros(1, np.int64)
    return Backlog(whole[0], np.zeros(room), whole[1], count)


EMPTY = new_backlog(0)
"""Where every agent begins; it is never written to, since there is no room."""
PENDING = ("rows", "rewards", "next_states")


class Evidence:
    """A live belief, and the transitions that it has not received yet.

    Args:
        live_belief: the live belief.
        sizes: of the problem.
    """

    def __init__(self, live_belief: LiveBelief, sizes: Sizes) -> None:
        self.live_belief, self.sizes = live_belief, sizes
        self.backlog = EMPTY

    def check_possible(self, state: int, action: int, next_state: int) -> None:
        """Raise a ValueError if the belief will call the transition impossible."""
        self.live_belief.check_possible(state, action, next_state)
        if self.live_belief.check_together is not None and self.backlog.filled[0]:
            states, actions, _, next_states = self.pending()
            self.live_belief.check_together(
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
        """Give the belief the transitions that wait."""
        if self.backlog.filled[0]:
            self.live_belief.observe_many(*self.pending())
            self.backlog.filled[0] = 0

    def make_room(self) -> Backlog:
        """Return the backlog with room for more."""
        room = max(LEAST_ROOM, 4 * len(self.backlog.rows))
        old, self.backlog = self.backlog, new_backlog(min(BATCH, room))
        for theirs, mine in zip(old, self.backlog, strict=True):
            mine[: len(theirs)] = theirs
        return self.backlog

    def pending(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Return states, actions, rewards and next states of the transitions that wait."""
        n = int(self.backlog.filled[0])
        states, actions = np.divmod(self.backlog.rows[:n], self.sizes.n_actions)
        return states, actions, self.backlog.rewards[:n].copy(), self.backlog.next_states[:n].copy()

    def current(self) -> LiveBelief:
        """Return the belief after all transitions; a copy of it where it lags behind."""
        if self.live_belief.inside is not None:
            self.hand_over()
        if not self.backlog.filled[0]:
            return self.live_belief
        current = self.live_belief.copy()
        current.observe_many(*self.pending())
        return current

    def state(self) -> dict[str, Any]:
        """Return the belief's state and the transitions that wait, as a tree."""
        if self.live_belief.inside is not None:
            self.hand_over()
        n = int(self.backlog.filled[0])
        backlog = {name: getattr(self.backlog, name)[:n].copy() for name in PENDING}
        return {"belief": self.live_belief.state(), "backlog": backlog}

    def checked(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Return the stored transitions that wait, or raise if they are none of this problem's."""
        if stored.get("belief") is None or not isinstance(stored.get("backlog"), dict):
            raise ValueError("the stored state lacks belief or backlog")
        like = {name: getattr(self.backlog, name) for name in PENDING}
        pending = checked_arrays("backlog", stored["backlog"], like, PENDING)
        rows, next_states = pending["rows"], pending["next_states"]
        n, n_states, n_actions = len(rows), self.sizes.n_states, self.sizes.n_actions
        sound = n < BATCH and all(len(array) == n for array in pending.values())
        for places, limit in ((rows, n_states * n_actions), (next_states, n_states)):
            sound = sound and (places >= 0).all() and (places < limit).all()
        if not sound or not np.isfinite(pending["rewards"]).all():
            raise ValueError("the stored backlog is damaged: it has impossible numbers")
        for row, next_state in np.unique([rows, next_states], axis=1).T.tolist():
            state, action = divmod(row, n_actions)
            self.live_belief.check_possible(state, action, next_state)
        return pending

    def restore(self, belief: dict[str, Any], pending: dict[str, Any]) -> None:
        """Go on from the state of a belief, and transitions that are `checked`."""
        self.live_belief.restore(belief)
        n = len(pending["rows"])
        self.backlog = new_backlog(max(n, LEAST_ROOM))
        for name, array in pending.items():
            getattr(self.backlog, name)[:n] = array
        self.backlog.filled[0] = n
