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

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cpsrl.agents.recipe import PARTS
from cpsrl.checks import checked_whole
from cpsrl.registry import Registry
from cpsrl.types import Floats

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


def random_layers(
    rng: np.random.Generator, networks: int, sizes: Sequence[int]
) -> dict[str, NDArray[np.float32]]:
    """Return layers of networks as `layers.forward` takes them: N(0, 1/fan_in), biases 0."""
    weights = {}
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        normal = rng.standard_normal((networks, n_in, n_out)) / np.sqrt(n_in)
        weights[f"w{layer}"] = normal.astype(np.float32)
        weights[f"b{layer}"] = np.zeros((networks, n_out), np.float32)
    return weights


def checked_layers(hidden: Any) -> tuple[int, ...]:
    """Return the sizes of hidden layers, or raise if they are not."""
    sizes = hidden if isinstance(hidden, list | tuple) else (hidden,)
    return tuple(checked_whole("a hidden layer's size", size, 1) for size in sizes)


NETWORK_BELIEFS: Registry[NetworkBelief] = Registry("network belief", NetworkBelief)
PARTS[NETWORK_BELIEFS.kind] = NETWORK_BELIEFS


def checked_belief(belief: Any) -> NetworkBelief:
    """Return `belief`, or raise if it is not one of networks."""
    if not isinstance(belief, NetworkBelief):
        raise ValueError(
            f"belief must be one of networks, such as cpsrl.networks.Members(), not {belief!r}"
        )
    return belief
