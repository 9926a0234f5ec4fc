"""A world whose model changes by the clock: which model it is when, and for how long.

The agent is told nothing: it sees states, actions and rewards, and the state stays where it is when
the model changes. Regret is dynamic: the rewards realised, against the sum over the steps of the
optimal gain of the model of the moment.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpsrl.checks import checked_whole
from cpsrl.types import Ints


@dataclass(frozen=True, eq=False)
class Changes:
    """The models of a world that changes, in their order.

    Args:
        models: `TabularMDP`s with the same states, the same actions, all of them available alike.
        lengths: how many steps each of them lasts.
        repeat: whether the first follows the last; if not, the last stays for ever.
    """

    models: tuple[Any, ...]
    lengths: tuple[int, ...]
    repeat: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        lengths = tuple(checked_whole("a length", length, 1) for length in self.lengths)
        object.__setattr__(self, "lengths", lengths)
        if len(self.models) != len(lengths) or not lengths:
            raise ValueError(f"there are {len(self.models)} models and {len(lengths)} lengths")
        first = self.models[0]
        for number, model in enumerate(self.models):
            if model.changes is not None:
                raise ValueError(f"models[{number}] changes itself")
            if model.sizes._mask != first.sizes._mask or model.rewards.shape != first.rewards.shape:
                raise ValueError(
                    f"models[{number}] has other states, actions or available actions than "
                    "models[0]"
                )

    def world(self, **options: Any) -> Any:
        """Return the world as a TabularMDP, that of its first model, with these `changes`.

        `options` are further arguments of TabularMDP. Its range of rewards is that of all models.
        """
        ranges = np.array([model.reward_range for model in self.models])
        whole = (float(ranges[:, 0].min()), float(ranges[:, 1].max()))
        return replace(self.models[0], **{"reward_range": whole, **options, "changes": self})

    def called(self, **options: Any) -> "Changes":
        """Return the same with models that have these `options` of TabularMDP."""
        return replace(self, models=tuple(replace(model, **options) for model in self.models))

    def after(self, steps: int) -> tuple[int, int | None]:
        """Return which model the next step meets, and for how many steps it stays; None: always."""
        ends = np.cumsum(self.lengths)
        if not self.repeat and steps >= ends[-1] - self.lengths[-1]:
            return len(self.models) - 1, None
        steps %= int(ends[-1])
        place = int(np.searchsorted(ends, steps, "right"))
        return place, int(ends[place]) - steps

    def spent(self, steps: Ints) -> Ints:
        """Return how many of the first `steps` `(n,)` each model has lasted, `(n, models)`."""
        steps, lengths = np.asarray(steps, np.int64)[:, None], np.array(self.lengths)
        begins = np.cumsum(lengths) - lengths
        if not self.repeat:
            lengths[-1] = max(int(steps.max(initial=0)), 1)
            return np.clip(steps - begins, 0, lengths)
        rounds, rest = np.divmod(steps, lengths.sum())
        return rounds * lengths + np.clip(rest - begins, 0, lengths)
