"""ReLU layers of several networks at once: one compiled product serves them all."""

from typing import Any

import jax
import jax.numpy as jnp


def forward(weights: dict[str, Any], x: Any) -> Any:
    """Return the outputs (K, M, A) of K networks on observations `x` (M, N).

    `weights` are `w0` (K, N, H_1), `b0` (K, H_1), `w1` (K, H_1, H_2), ...; the last layer has A
    outputs.
    """
    layers = len(weights) // 2
    hidden = jnp.broadcast_to(x, (weights["w0"].shape[0], *x.shape))
    for layer in range(layers):
        hidden = _dense(hidden, weights[f"w{layer}"]) + weights[f"b{layer}"][:, None, :]
        if layer < layers - 1:
            hidden = jax.nn.relu(hidden)
    return hidden


def branches(weights: dict[str, Any], x: Any, n: int) -> Any:
    """Return the outputs (n, M, A) of one network with n*A of them on observations `x` (M, N)."""
    return jnp.swapaxes(forward(weights, x)[0].reshape(len(x), n, -1), 0, 1)


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _dense(x: Any, w: Any) -> Any:
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


_dense.defvjp(_dense_forward, _dense_backward)
