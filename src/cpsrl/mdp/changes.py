"""A world whose model changes by the clock: which model it is when, and for how long.

The agent is not informed: it sees states, actions and rewards, and the state stays where it is when
the model changes. Regret is dynamic: the rewards realised, against the sum over the steps of the
optimal gain of the model of the moment.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpsrl.mdp.model import TabularMDP
from cpsrl.mdp.simulator import Simulator
from cpsrl.seeding import Streams
from cpsrl.support.checks import WrongTypeError, checked_kind, checked_whole, shown
from cpsrl.support.renamed import moved
from cpsrl.support.types import Floats, Ints

SHARED = {"n_states", "n_actions", "available", "sizes", "stand_in", "reward_range", "initial"}
SHARED |= {"state_names", "action_names", "state_name", "action_name"}


@dataclass(frozen=True, eq=False, repr=False)
class ChangingWorld:
    """The models of a world that changes, in their order.

    What they share is the world's: sizes, names, available actions, the initial state of the first,
    and the range of rewards, which becomes that of all models together.

    Args:
        models: one `TabularMDP` each, with the same states and the same available actions.
        lengths: how many steps each of them lasts.
        repeat: whether the first follows the last; if not, the last stays for ever.
        name: what to call the world; "" takes the name of its first model.
        features: `(S, N)`, the observation in each state; None takes those of its first model.
    """

    models: tuple[Any, ...]
    lengths: tuple[int, ...]
    repeat: bool = True
    name: str = ""
    features: Floats | None = None

    def __post_init__(self) -> None:
        models, lengths = _listed("models", self.models), _listed("lengths", self.lengths)
        if len(models) != len(lengths) or not lengths:
            raise ValueError(f"there are {len(models)} models and {len(lengths)} lengths")
        lengths = tuple(checked_whole("a length", length, 1) for length in lengths)
        first = models[0]
        for number, model in enumerate(models):
            if isinstance(model, ChangingWorld):
                raise ValueError(f"models[{number}] changes itself")
            checked_kind(f"models[{number}]", model, TabularMDP, "a TabularMDP")
            if model.sizes._mask != first.sizes._mask or model.rewards.shape != first.rewards.shape:
                raise ValueError(
                    f"models[{number}] has other states, actions or available actions than "
                    "models[0]"
                )
        checked_kind("repeat", self.repeat, bool, "True or False")
        ranges = np.array([model.reward_range for model in models])
        given = {
            "reward_range": (float(ranges[:, 0].min()), float(ranges[:, 1].max())),
            "name": self.name or first.name,
            "features": first.features if self.features is None else self.features,
            "state_names": first.state_names,
            "action_names": first.action_names,
        }
        models = tuple(replace(model, **given) for model in models)
        kept = {"models": models, "lengths": lengths, "name": given["name"]}
        for name, value in (kept | {"features": models[0].features}).items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in ("moments", "changes"):
            warnings.warn(f"{name} is now models of a ChangingWorld", DeprecationWarning, 2)
            return self.models if name == "moments" else self
        if name not in SHARED:
            models_have = hasattr(TabularMDP, name) or name in TabularMDP.__dataclass_fields__
            hint = ": take that of a model, such as world.models[0]" if models_have else ""
            raise AttributeError(f"a ChangingWorld has no attribute {name!r}{hint}")
        return getattr(self.models[0], name)

    def __repr__(self) -> str:
        sizes = f"S={self.n_states}, A={self.n_actions}"
        return f"ChangingWorld({self.name or 'unnamed'}: {sizes}, {len(self.models)} models)"

    @property
    def realised_range(self) -> tuple[float, float]:
        """The range of what single transitions of all models pay, but for Gaussian noise."""
        lows, highs = zip(*(model.realised_range for model in self.models), strict=True)
        return min(lows), max(highs)

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

    def simulator(self, seed: int = 0, run: int = 0) -> Simulator:
        """Return a simulator in its initial state, on the streams of run `run` of root `seed`."""
        return Simulator(self, Streams(seed, run))

    def world(self, **options: Any) -> "ChangingWorld":
        """Return the world with these options: what made one of `Changes` before 0.3.0."""
        return replace(self, **options)


def _listed(what: str, values: Any) -> tuple[Any, ...]:
    """Return a list as a tuple, or raise if it is none."""
    try:
        return tuple(values)
    except TypeError:
        raise WrongTypeError(f"{what} must be a list, not {shown(values)}") from None


def __getattr__(name: str) -> Any:
    return moved(__name__, name)
