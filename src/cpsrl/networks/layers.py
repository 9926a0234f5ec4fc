"""ReLU layers of several networks at once: one compiled product serves them all."""

from typing import Any

import jax
import jax.numpy as jnp


def forward(weights: dict[str, Any], x: Any, torso: Any) -> Any:
    """Return the outputs (K, M, A) of K networks on observations `x` (M, N).

    `weights` are those of the torso, and `w0` (K, F, H_1), `b0` (K, H_1), `w1` (K, H_1, H_2), ...;
    the last layer has A outputs.
    """
    *hidden, last = dense_layers(weights)
    return _dense_layer(weights, last, trunk(weights, x, torso, len(hidden)))


def trunk(weights: dict[str, Any], x: Any, torso: Any, layers: int) -> Any:
    """Return the last hidden layer (K, M, H), after `layers` dense ones."""
    hidden = torso.features(weights, x, len(weights["w0"]))
    for layer in range(layers):
        hidden = activated(_dense_layer(weights, layer, hidden), torso.normalise)
    return hidden


def dense_layers(weights: dict[str, Any]) -> range:
    """Return the numbers of the dense layers."""
    return range(sum(name.startswith("w") for name in weights))


def _dense_layer(weights: dict[str, Any], layer: int, x: Any) -> Any:
    return dense(x, weights[f"w{layer}"]) + weights[f"b{layer}"][:, None, :]


def activated(hidden: Any, normalise: bool, axes: Any = (-1,)) -> Any:
    """Return a hidden layer after its ReLU, normalised over `axes` before it or not."""
    if normalise:
        centred = hidden - hidden.mean(axes, keepdims=True)
        hidden = centred * jax.lax.rsqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    return jax.nn.relu(hidden)


def branches(weights: dict[str, Any], x: Any, n: int, torso: Any) -> Any:
    """Return the outputs (n, M, A) of one network with n*A of them on observations `x` (M, N)."""
    return jnp.swapaxes(forward(weights, x, torso)[0].reshape(len(x), n, -1), 0, 1)


@jax.custom_vjp  # type: ignore[untyped-decorator]
def dense(x: Any, w: Any) -> Any:
    """Return x w for every network: (K, M, n) times (K, n, o)."""
    return x @ w


def _dense_forward(x: Any, w: Any) -> Any:
    return x @ w, (x, w)


def _dense_backward(kept: Any, g: Any) -> Any:
    x, w = kept
    # The barrier makes XLA write x' out: it multiplies by an array that is transposed in place
    # so slowly that whole training steps took a third longer.
    x_transposed = jax.lax.optimization_barrier(jnp.swapaxes(x, 1, 2))
    return g @ jnp.swapaxes(w, 1, 2), x_transposed @ g


dense.defvjp(_dense_forward, _dense_backward)
