"""The belief of an agent without tables: an ensemble of networks.

Member k of K estimates action values as Q_k(x, a) = f(x, a; theta_k) + p_k(x, a), where x is an
observation in R^N, f a network with ReLU layers and p_k a prior function: a network of the same
shape with random weights that are never trained (Osband, Aslanides and Cassirer 2018). Where data
are scarce the members differ as their priors do; to draw a member is to draw a hypothesis.

From a minibatch of B transitions (x_b, a_b, r_b, x'_b), with masks m_bk in {0, 1} drawn once for
every transition and member (Osband et al. 2016), member k takes one step of Adam on

    (1/B) sum_b m_bk (Q_k(x_b, a_b) - r_b - gamma max_a Q'_k(x'_b, a))^2 ,

Q'_k being Q_k with the weights of some updates ago, the target network's. The prior functions
stand in the prediction and in the target alike. Weights start as N(0, 1/fan_in), biases as 0.

Everything is a pure function of float32 arrays with the members on the first axis, so that one
compiled call serves them all.
"""

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

Params = dict[str, Any]
"""`w0` (K, N, H_1), `b0` (K, H_1), `w1` (K, H_1, H_2), ...; the last layer has A outputs."""

_ADAM = optax.scale_by_adam()


class Ensemble(NamedTuple):
    """K members: trained weights, fixed priors, target weights, and the state of Adam."""

    online: Params
    prior: Params
    target: Params
    adam: Any


class Batch(NamedTuple):
    """B transitions whose observations are rows of arrays on which the members were evaluated."""

    row: Any
    """(B,) which row x_b is."""
    action: Any
    """(B,)"""
    reward: Any
    """(B,)"""
    next_row: Any
    """(B,) which row x'_b is."""
    mask: Any
    """(B, K), or the number 1 for no masks."""


def initialise(
    rng: np.random.Generator, members: int, sizes: tuple[int, ...], prior_scale: float
) -> Ensemble:
    """Return a new ensemble of layers `sizes` = (N, H_1, ..., A) in NumPy arrays.

    The scale of the prior functions is worked into their last layer.
    """

    def random() -> dict[str, NDArray[np.float32]]:
        params = {}
        for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
            normal = rng.standard_normal((members, n_in, n_out)) / np.sqrt(n_in)
            params[f"w{layer}"] = normal.astype(np.float32)
            params[f"b{layer}"] = np.zeros((members, n_out), np.float32)
        return params

    online, prior = random(), random()
    prior[f"w{len(sizes) - 2}"] *= np.float32(prior_scale)
    zeros = {name: np.zeros_like(array) for name, array in online.items()}
    adam = optax.ScaleByAdamState(np.zeros((), np.int32), zeros, zeros)
    return Ensemble(online, prior, online, adam)


def values(params: Params, x: Any) -> Any:
    """Return the outputs (K, M, A) of the networks `params` on observations `x` (M, N)."""
    layers = len(params) // 2
    hidden = jnp.broadcast_to(x, (params["w0"].shape[0], *x.shape))
    for layer in range(layers):
        hidden = _dense(hidden, params[f"w{layer}"]) + params[f"b{layer}"][:, None, :]
        if layer < layers - 1:
            hidden = jax.nn.relu(hidden)
    return hidden


def td_loss(q: Any, next_value: Any, batch: Batch, gamma: Any) -> Any:
    """Return the squared loss of a minibatch, summed over the members.

    `q` (K, M, A) are the members' values on some M observations and `next_value` (K, M') the
    greedy values of the target networks on some M' others; `batch` says which are whose.
    """
    prediction = q[:, batch.row, batch.action]
    target = batch.reward + gamma * next_value[:, batch.next_row]
    return jnp.sum(jnp.transpose(batch.mask) * (prediction - target) ** 2) / batch.row.shape[0]


def descend(ensemble: Ensemble, gradient: Params, learning_rate: float) -> Ensemble:
    """Return the ensemble after one step of Adam along `gradient`."""
    step, adam = _ADAM.update(gradient, ensemble.adam)
    online = jax.tree.map(lambda w, d: w - learning_rate * d, ensemble.online, step)
    return ensemble._replace(online=online, adam=adam)


@jax.jit  # type: ignore[untyped-decorator]
def greedy(ensemble: Ensemble, member: Any, x: Any) -> Any:
    """Return the best action of one member on one observation `x` (N,)."""
    online, prior = jax.tree.map(lambda w: w[member][None], (ensemble.online, ensemble.prior))
    return jnp.argmax((values(online, x[None]) + values(prior, x[None]))[0, 0])


@partial(jax.jit, static_argnames="learning_rate")
def learn(
    ensemble: Ensemble, x: Any, next_x: Any, batch: Batch, gamma: Any, learning_rate: float
) -> Ensemble:
    """Return the ensemble after an update on transitions from rows of `x` to rows of `next_x`."""
    q, pull_back = jax.vjp(lambda online: values(online, x), ensemble.online)
    q = q + values(ensemble.prior, x)
    next_value = jnp.max(values(ensemble.target, next_x) + values(ensemble.prior, next_x), -1)
    (gradient,) = pull_back(jax.grad(td_loss)(q, next_value, batch, gamma))
    return descend(ensemble, gradient, learning_rate)


def ensemble_state(ensemble: Ensemble) -> dict[str, Any]:
    """Return an ensemble as a tree of whole numbers and NumPy arrays."""
    online, prior, target, adam = jax.tree.map(np.array, ensemble)
    moments = {"count": int(adam.count), "mean": adam.mu, "square": adam.nu}
    return {"online": online, "prior": prior, "target": target, "adam": moments}


def restored_ensemble(state: dict[str, Any], like: Ensemble) -> Ensemble:
    """Return the ensemble that `ensemble_state` gave; raise unless it has the shape of `like`."""
    moments = state["adam"]
    count = np.asarray(moments["count"], np.int32)
    adam = optax.ScaleByAdamState(count, moments["mean"], moments["square"])
    ensemble = Ensemble(state["online"], state["prior"], state["target"], adam)
    wanted, found = (jax.tree.map(lambda w: (w.shape, w.dtype), e) for e in (like, ensemble))
    if wanted != found:
        raise ValueError(f"the stored networks do not fit: they are {found}, not {wanted}")
    return ensemble


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _dense(x: Any, w: Any) -> Any:
    """Return x w for every member: (K, M, n) times (K, n, o)."""
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
