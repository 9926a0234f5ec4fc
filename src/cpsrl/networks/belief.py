"""What is believed by networks: a distribution over action-value functions, named by an index.

A network belief is a family of functions Q_z(x, a), x an observation in R^N, with an index z that
the rule draws anew: to draw an index is to draw a hypothesis. Each is the sum of what is trained
and of a prior function, which never is (Osband, Aslanides and Cassirer 2018):

    Q_z(x, a) = f(x, a; theta, z) + f(x, a; theta_prior, z) .

After every step some of the functions, J of them, take one step of Adam on the belief's own loss of
a minibatch (see `cpsrl.networks.learner`). Every transition is stored with a signature, drawn once
for it: what makes the functions disagree about data that they share.

A belief is a frozen dataclass of its settings, derived from `NetworkBelief`: a file of its own and
an entry in the registry. Its random numbers are drawn on the host, in NumPy. What computes is pure,
of float32 and int32 arrays, and compiled with the loop. Weights are trees of arrays.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cpsrl.networks.torso import Torso
from cpsrl.support.checks import check_room, checked_kind, checked_number, checked_whole
from cpsrl.support.registry import Registry
from cpsrl.support.types import Floats

Weights = Any
"""A tree of arrays, as a belief makes it."""


class NetworkBelief:
    """A distribution over action-value functions; one of one's own is a subclass."""

    finite: ClassVar[bool] = True
    """Whether there are so few functions that an update is of all of them. The index is then the
    number of one, and `indices` are None where all are meant."""
    uniforms: int = 0
    """How many uniform variates a step takes for its signature and its update's indices."""

    @property
    def label(self) -> str:
        """The belief in a word or two, for tables and figures."""
        return type(self).__name__

    def resolve(self, problem: Any) -> "NetworkBelief":
        """Return the belief for the observations of `problem`."""
        return self

    def initialise(
        self, rng: np.random.Generator, n_features: int, n_actions: int
    ) -> tuple[Weights, Weights]:
        """Return the weights to train, and those of the prior functions, in NumPy arrays."""
        raise NotImplementedError

    def draw_index(self, rng: np.random.Generator, n: int) -> NDArray[Any]:
        """Return the indices `(n, ...)` of n resamplings; drawn one by one they are the same."""
        raise NotImplementedError

    def is_index(self, index: NDArray[Any]) -> bool:
        """Return whether `index`, of the right shape and kind, is one."""
        return bool(np.isfinite(index).all())

    def signatures(self, uniform: Floats) -> NDArray[np.int32]:
        """Return the signatures `(n, words)` of n transitions, given variates `(n, uniforms)`."""
        return np.zeros((len(uniform), 0), np.int32)

    def update_indices(self, uniform: Floats) -> NDArray[Any] | None:
        """Return the indices `(n, J, ...)` of n updates, given variates; None if finite."""
        return None

    def outputs(self, weights: Weights, indices: Any, x: Any) -> Any:
        """Return f `(J, M, A)` of the functions `indices` `(J, ...)` on observations `(M, N)`."""
        raise NotImplementedError

    def prior_outputs(self, weights: Weights, indices: Any, x: Any) -> Any:
        """Return the prior functions `(J, M, A)`; by default they have the form of the trained."""
        return self.outputs(weights, indices, x)

    def loss(self, prediction: Any, target: Any, signature: Any, indices: Any) -> Any:
        """Return the loss of a minibatch, summed over the functions.

        Args:
            prediction: `(J, B)` Q_z(x_b, a_b).
            target: `(J, B)` what the objective says it should be.
            signature: `(B, words)` int32
            indices: `(J, ...)`, or None for all functions of a finite belief.
        """
        return ((prediction - target) ** 2).sum() / prediction.shape[1]


class LayeredBelief(NetworkBelief):
    """Functions that are made of a torso, hidden layers and outputs, and prior functions likewise.

    Its subclasses have `hidden`, the sizes of the hidden layers, `prior_scale`, a factor of the
    prior functions, and `torso`, what stands before the hidden layers.
    """

    hidden: tuple[int, ...]
    prior_scale: float
    torso: Torso

    def __post_init__(self) -> None:
        hidden = self.hidden if isinstance(self.hidden, list | tuple) else (self.hidden,)
        sizes = tuple(checked_whole("a hidden layer's size", size, 1) for size in hidden)
        object.__setattr__(self, "hidden", sizes)
        checked_number("prior_scale", self.prior_scale, 0)
        if not isinstance(self.torso, Torso):
            raise ValueError(
                f"torso must be one of networks, such as cpsrl.networks.Convolution(), not "
                f"{self.torso!r}"
            )

    def resolve(self, problem: Any) -> "LayeredBelief":
        """Return the belief with its torso for the observations of `problem`."""
        own: Any = self
        return replace(own, torso=self.torso.resolve(getattr(problem, "picture", None)))

    def two_networks(
        self, rng: np.random.Generator, networks: int, n_features: int, n_outputs: int
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, NDArray[np.float32]]]:
        """Return the weights to train and those of the prior functions, as `forward` takes them.

        Weights are N(0, 1/fan_in), biases 0. The scale of the prior functions is worked into their
        last layer.
        """
        trained, prior = (self._layers(rng, networks, n_features, n_outputs) for _ in range(2))
        prior[f"w{len(self.hidden)}"] *= np.float32(self.prior_scale)
        return trained, prior

    def _layers(
        self, rng: np.random.Generator, networks: int, n_features: int, n_outputs: int
    ) -> dict[str, NDArray[np.float32]]:
        weights, n_features = self.torso.initialise(rng, networks, n_features)
        sizes = (n_features, *self.hidden, n_outputs)
        for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
            smaller = "take fewer or smaller networks, or a smaller problem"
            check_room("a layer of the networks", networks, n_in, n_out, instead=smaller)
            normal = rng.standard_normal((networks, n_in, n_out)) / np.sqrt(n_in)
            weights[f"w{layer}"] = normal.astype(np.float32)
            weights[f"b{layer}"] = np.zeros((networks, n_out), np.float32)
        return dict(weights)


NETWORK_BELIEFS: Registry[NetworkBelief] = Registry("network belief", NetworkBelief)


def checked_belief(belief: Any) -> NetworkBelief:
    """Return `belief`, or raise if it is not one of networks."""
    wanted = "one of networks, such as cpsrl.networks.Members()"
    right: NetworkBelief = checked_kind("belief", belief, NetworkBelief, wanted)
    return right
