"""Learning by networks: one step of Adam a step, from a minibatch, towards a target.

From B transitions (x_b, a_b, r_b, x'_b) the functions z of an update (see `cpsrl.networks.belief`)
take one step of Adam on the belief's loss of Q_z(x_b, a_b) against what the objective says it
should be. Discounted, that is

    y_bz = r_b + gamma max_a Q'_z(x'_b, a) ,

Q'_z being Q_z with the weights of some updates ago, the target network's. The prior functions
stand in the prediction and in the target alike.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cpsrl.networks.belief import NetworkBelief, Weights
from cpsrl.objectives import Objective

_ADAM = optax.scale_by_adam()


class Learner(NamedTuple):
    """Networks that learn: trained weights, those of the priors and targets, Adam's state."""

    online: Weights
    prior: Weights
    target: Weights
    adam: Any


class Batch(NamedTuple):
    """B transitions whose observations are rows of arrays on which networks were evaluated."""

    row: Any
    """(B,) which row x_b is."""
    action: Any
    """(B,)"""
    reward: Any
    """(B,)"""
    next_row: Any
    """(B,) which row x'_b is."""
    signature: Any
    """(B, words)"""


def new_learner(
    belief: NetworkBelief, rng: np.random.Generator, n_features: int, n_actions: int
) -> Learner:
    """Return networks before their first update, in NumPy arrays."""
    online, prior = belief.initialise(rng, n_features, n_actions)
    zeros = jax.tree.map(np.zeros_like, online)
    adam = optax.ScaleByAdamState(np.zeros((), np.int32), zeros, zeros)
    return Learner(online, prior, online, adam)


@partial(jax.jit, static_argnames="belief")
def greedy(learner: Learner, index: Any, x: Any, belief: NetworkBelief) -> Any:
    """Return the best action on one observation `x` (N,) of the function `index` (...)."""
    one, x = index[None], x[None]
    q = belief.outputs(learner.online, one, x) + belief.prior_outputs(learner.prior, one, x)
    return jnp.argmax(q[0, 0])


def td_loss(
    q: Any,
    next_value: Any,
    batch: Batch,
    gamma: Any,
    indices: Any,
    belief: NetworkBelief,
    objective: Objective,
) -> Any:
    """Return the loss of a minibatch.

    `q` (J, M, A) are values on some M observations and `next_value` (J, M') the greedy values of
    the target networks on some M' others; `batch` says which are whose.
    """
    prediction = q[:, batch.row, batch.action]
    target = objective.target(batch.reward, next_value[:, batch.next_row], gamma)
    return belief.loss(prediction, target, batch.signature, indices)


def descend(learner: Learner, gradient: Weights, learning_rate: float) -> Learner:
    """Return the learner after one step of Adam along `gradient`."""
    step, adam = _ADAM.update(gradient, learner.adam)
    online = jax.tree.map(lambda w, d: w - learning_rate * d, learner.online, step)
    return learner._replace(online=online, adam=adam)


@partial(jax.jit, static_argnames=("belief", "objective", "learning_rate"))
def learn(
    learner: Learner,
    x: Any,
    next_x: Any,
    batch: Batch,
    gamma: Any,
    indices: Any,
    belief: NetworkBelief,
    objective: Objective,
    learning_rate: float,
) -> Learner:
    """Return the learner after an update on transitions from rows of `x` to rows of `next_x`."""
    q, pull_back = jax.vjp(lambda w: belief.outputs(w, indices, x), learner.online)
    q = q + belief.prior_outputs(learner.prior, indices, x)
    next_q = belief.outputs(learner.target, indices, next_x)
    next_value = jnp.max(next_q + belief.prior_outputs(learner.prior, indices, next_x), -1)
    slope = jax.grad(td_loss)(q, next_value, batch, gamma, indices, belief, objective)
    return descend(learner, pull_back(slope)[0], learning_rate)


def learner_state(learner: Learner) -> dict[str, Any]:
    """Return a learner as a tree of whole numbers and NumPy arrays."""
    online, prior, target, adam = jax.tree.map(np.array, learner)
    moments = {"count": int(adam.count), "mean": adam.mu, "square": adam.nu}
    return {"online": online, "prior": prior, "target": target, "adam": moments}


def restored_learner(state: dict[str, Any], like: Learner) -> Learner:
    """Return the learner that `learner_state` gave; raise unless it has the shape of `like`."""
    moments = state["adam"]
    count = np.asarray(moments["count"], np.int32)
    adam = optax.ScaleByAdamState(count, moments["mean"], moments["square"])
    learner = Learner(state["online"], state["prior"], state["target"], adam)
    wanted, found = (jax.tree.map(lambda w: (w.shape, w.dtype), e) for e in (like, learner))
    if wanted != found:
        raise ValueError(f"the stored networks do not fit: they are {found}, not {wanted}")
    return learner
