"""What stands before the dense layers: nothing for vectors, convolutions for pictures.

A torso takes observations x (M, N) to features (K, M, F), one row of them for each of K networks:
heads and hypermodel have one that all functions share, members each have their own. With
`normalise`, every hidden layer, dense or not, is normalised before its ReLU,

    h <- (h - mean h) / sqrt(var h + 1e-5)     over its units

(Ba, Kiros and Hinton 2016, without the learned scales): networks that learn for long keep more of
their plasticity with it (Lyle et al. 2023).

A convolution is a product with all patches of a picture, each a row: on CPUs, and for several
networks at once, that is faster than XLA's own.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsrl.support.checks import checked_whole
from cpsrl.support.registry import Registry


@dataclass(frozen=True)
class Torso:
    """What stands before the dense layers; one of one's own is a subclass.

    Args:
        normalise: whether hidden layers are normalised.
    """

    normalise: bool = field(default=False, kw_only=True)

    def resolve(self, picture: Any) -> "Torso":
        """Return the torso for observations that are pictures (rows, columns, planes), or None."""
        return self

    def initialise(
        self, rng: np.random.Generator, networks: int, n_features: int
    ) -> tuple[dict[str, NDArray[np.float32]], int]:
        """Return weights, each with a first axis of `networks`, and F."""
        return {}, n_features

    def features(self, weights: dict[str, Any], x: Any, networks: int) -> Any:
        """Return the features (K, M, F) of observations (M, N)."""
        import jax.numpy as jnp

        return jnp.broadcast_to(x, (networks, *x.shape))


TORSOS: Registry[Torso] = Registry("torso", Torso)
TORSOS.add("vector")(Torso)


@TORSOS.add("convolution")
@dataclass(frozen=True)
class Convolution(Torso):
    """Convolutions with ReLUs, without padding, for observations that are pictures.

    By default MinAtar's (Young and Tian 2019): 16 channels, 3 x 3 places, one layer.

    Args:
        channels: the channels of each layer.
        size: the rows and columns of places that a channel looks at.
        picture: the rows, columns and planes of an observation; None takes the environment's.
        normalise: whether hidden layers are normalised.
    """

    channels: tuple[int, ...] = (16,)
    size: int = 3
    picture: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        given = self.channels if isinstance(self.channels, list | tuple) else (self.channels,)
        channels = tuple(checked_whole("channels", n, 1) for n in given)
        object.__setattr__(self, "channels", channels)
        checked_whole("size", self.size, 1)
        if self.picture is None:
            return
        if len(self.picture) != 3:
            raise ValueError(f"picture must be (rows, columns, planes), not {self.picture!r}")
        picture = tuple(checked_whole("picture", n, 1) for n in self.picture)
        object.__setattr__(self, "picture", picture)
        if min(picture[:2]) <= len(channels) * (self.size - 1):
            raise ValueError(
                f"{len(channels)} convolutions of size {self.size} leave nothing of a picture of "
                f"{picture[0]} x {picture[1]}"
            )

    def resolve(self, picture: Any) -> "Convolution":
        """Return the torso with the picture of the environment."""
        if self.picture is None and picture is None:
            raise ValueError(
                "a convolution needs observations that are pictures: give its `picture`, (rows, "
                "columns, planes) of an observation row by row"
            )
        return self if self.picture else replace(self, picture=picture)

    def initialise(
        self, rng: np.random.Generator, networks: int, n_features: int
    ) -> tuple[dict[str, NDArray[np.float32]], int]:
        """Return `k0` (K, size^2 C, C_1), `c0` (K, C_1), ..., N(0, 1/fan_in) and 0."""
        rows, columns, planes = self.resolve(None).picture or (0, 0, 0)
        if rows * columns * planes != n_features:
            raise ValueError(
                f"an observation of {n_features} numbers is not a picture of {self.picture}"
            )
        weights = {}
        for layer, channels in enumerate(self.channels):
            patch = self.size**2 * planes
            normal = rng.standard_normal((networks, patch, channels)) / np.sqrt(patch)
            weights[f"k{layer}"] = normal.astype(np.float32)
            weights[f"c{layer}"] = np.zeros((networks, channels), np.float32)
            rows, columns, planes = rows - self.size + 1, columns - self.size + 1, channels
        return weights, rows * columns * planes

    def features(self, weights: dict[str, Any], x: Any, networks: int) -> Any:
        """Return the last layer (K, M, F), place by place."""
        import jax.numpy as jnp

        from cpsrl.networks.layers import activated, dense

        assert self.picture is not None  # by `initialise`
        hidden, m = x.reshape(1, len(x), *self.picture), len(x)
        for layer in range(len(self.channels)):
            rows, columns = (n - self.size + 1 for n in hidden.shape[2:4])
            shifted = [
                hidden[:, :, i : i + rows, j : j + columns]
                for i in range(self.size)
                for j in range(self.size)
            ]
            patches = jnp.concatenate(shifted, axis=-1).reshape(len(hidden), m * rows * columns, -1)
            kernel = weights[f"k{layer}"]
            patches = jnp.broadcast_to(patches, (networks, *patches.shape[1:]))
            hidden = dense(patches, kernel) + weights[f"c{layer}"][:, None, :]
            hidden = hidden.reshape(networks, m, rows, columns, -1)
            hidden = activated(hidden, self.normalise, axes=(2, 3, 4))
        return hidden.reshape(networks, m, -1)
