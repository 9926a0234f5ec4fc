"""Learning by networks: one step of Adam a step, from a minibatch, towards a target.

From B transitions (x_b, a_b, r_b, x'_b) the functions z of an update (see `cpsrl.networks.belief`)
take one step of Adam on the belief's loss of Q_z(x_b, a_b) against what the objective says it
should be. Discounted, that is

    y_bz = r_b + gamma max_a Q'_z(x'_b, a)     over the actions that are available ,

Q'_z being Q_z with the weights of some updates ago, the target network's. The prior functions
stand in the prediction and in the target alike.

For the average reward it is

    y_bz = r_b - rbar + max_a Q'_z(x'_b, a)

(reward centring: Naik, Wan, Tomar and Sutton 2024, after Wan, Naik and Sutton 2021). rbar follows
the errors, rbar += eta mean_bz (y_bz - Q_z(x_b, a_b)). At rest, where the errors have mean 0, it
would be the average reward of the greedy policy; but the targets are of older weights, and the
level of Q, which the equation leaves free, drifts with rbar. So it is no estimate of the gain: on
RiverSwim `tsde`, whose gain is .2229, rbar was .29 to .37 in four runs after 5,000 steps, .20 to
.29 after 20,000, and .214 to .222 after 40,000. Actions depend on differences of Q alone. Rewards
are counted from the first one that was seen, and rbar starts at 0: adding a number to all rewards
changes nothing.
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
    centre: Any = None
    """rbar, where the objective has rewards centred."""


class Learning(NamedTuple):
    """How networks learn, the same at every step: constants of the compiled code."""

    belief: NetworkBelief
    objective: Objective
    rate: float
    """the learning rate of Adam"""


class Batch(NamedTuple):
    """What an update is made of: B transitions whose observations are rows of arrays of them."""

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
    gamma: Any
    """the discount factor; 1 where there is none"""
    indices: Any = None
    """(J, ...) the functions that learn; None: all of a finite belief"""
    next_available: Any = None
    """(B, A) whether an action is available after the transition; None: all are."""


def new_learner(
    belief: NetworkBelief,
    objective: Objective,
    rng: np.random.Generator,
    n_features: int,
    n_actions: int,
) -> Learner:
    """Return networks before their first update, in NumPy arrays."""
    online, prior = belief.initialise(rng, n_features, n_actions)
    zeros = jax.tree.map(np.zeros_like, online)
    adam = optax.ScaleByAdamState(np.zeros((), np.int32), zeros, zeros)
    centre = np.zeros((), np.float32) if objective.centre_rate else None
    return Learner(online, prior, online, adam, centre)


def only(available: Any, q: Any) -> Any:
    """Return values `q` (..., A), -inf where they are not `available` (..., A); None: all are."""
    return q if available is None else jnp.where(available, q, -jnp.inf)


@partial(jax.jit, static_argnames="belief")
def greedy(
    learner: Learner, index: Any, x: Any, belief: NetworkBelief, available: Any = None
) -> Any:
    """Return the best action on one observation `x` (N,) of the function `index` (...).

    `available` (A,) says which actions there are; None: all.
    """
    one, x = index[None], x[None]
    q = belief.outputs(learner.online, one, x) + belief.prior_outputs(learner.prior, one, x)
    return jnp.argmax(only(available, q[0, 0]))


def td_loss(q: Any, next_value: Any, batch: Batch, centre: Any, how: Learning) -> tuple[Any, Any]:
    """Return the loss of a minibatch and the mean of what the targets are above the predictions.

    `q` (J, M, A) are values on some M observations and `next_value` (J, M') the greedy values of
    the target networks on some M' others; `batch` says which are whose.
    """
    prediction = q[:, batch.row, batch.action]
    reward = batch.reward if centre is None else batch.reward - centre
    target = how.objective.target(reward, next_value[:, batch.next_row], batch.gamma)
    loss = how.belief.loss(prediction, target, batch.signature, batch.indices)
    return loss, jnp.mean(target - prediction)


def descend(
    learner: Learner, q: Any, pull_back: Any, next_value: Any, batch: Batch, how: Learning
) -> Learner:
    """Return the learner after one step of Adam on the loss of a minibatch.

    `q` and `next_value` are as in `td_loss`; `pull_back` takes a gradient with respect to `q` to
    that with respect to the weights.
    """
    given = (q, next_value, batch, learner.centre, how)
    slope, error = jax.grad(td_loss, has_aux=True)(*given)
    step, adam = _ADAM.update(pull_back(slope)[0], learner.adam)
    online = jax.tree.map(lambda w, d: w - how.rate * d, learner.online, step)
    centre = learner.centre
    if centre is not None:
        centre = centre + how.objective.centre_rate * error
    return learner._replace(online=online, adam=adam, centre=centre)


@partial(jax.jit, static_argnames="how")
def learn(learner: Learner, x: Any, next_x: Any, batch: Batch, how: Learning) -> Learner:
    """Return the learner after an update on transitions from rows of `x` to rows of `next_x`."""
    belief, indices = how.belief, batch.indices
    q, pull_back = jax.vjp(lambda w: belief.outputs(w, indices, x), learner.online)
    q = q + belief.prior_outputs(learner.prior, indices, x)
    next_q = belief.outputs(learner.target, indices, next_x)
    next_q = next_q + belief.prior_outputs(learner.prior, indices, next_x)
    next_value = jnp.max(only(batch.next_available, next_q), -1)
    return descend(learner, q, pull_back, next_value, batch, how)


def learner_state(learner: Learner) -> dict[str, Any]:
    """Return a learner as a tree of whole numbers and NumPy arrays."""
    online, prior, target, adam, centre = jax.tree.map(np.array, learner)
    moments = {"count": int(adam.count), "mean": adam.mu, "square": adam.nu}
    state = {"online": online, "prior": prior, "target": target, "adam": moments}
    return state if centre is None else state | {"centre": centre}


def restored_learner(state: dict[str, Any], like: Learner) -> Learner:
    """Return the learner that `learner_state` gave; raise unless it has the shape of `like`."""
    moments = state["adam"]
    count = np.asarray(moments["count"], np.int32)
    adam = optax.ScaleByAdamState(count, moments["mean"], moments["square"])
    weights = (state["online"], state["prior"], state["target"])
    learner = Learner(*weights, adam, state.get("centre"))
    wanted, found = (jax.tree.map(lambda w: (w.shape, w.dtype), e) for e in (like, learner))
    if wanted != found:
        raise ValueError(f"the stored networks do not fit: they are {found}, not {wanted}")
    return learner
