"""The compiled loop of an ensemble on a table with features: a chunk of steps in one call.

The table has S observations, the rows of `features` (S, N), so a transition is kept as the numbers
of its states. Everything random was drawn beforehand (see `cpsrl.networks.run`) and comes in as
plain arrays, one entry a step.

If S is small the members are evaluated on all S observations once a step. That one pass serves the
action and, its rows being gathered by state, the minibatch; the gradient is the minibatch's, since
that of a gather is a sum over equal rows. The priors and the target networks, which do not change
from step to step, are evaluated on all S observations once a call and once a copy. If S is large
the action and the minibatch are evaluated on the observations they need, as the live agent does.

Whether a stretch of steps is taken in one call or in several does not change a bit of it: the
number of steps is data, not a constant of the compiled code, and whatever is derived from the
state is derived at one place of it.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cpsrl.mdp.simulator import BERNOULLI
from cpsrl.networks.ensemble import Batch, Ensemble, descend, greedy, learn, td_loss, values


class Table(NamedTuple):
    """The environment, float32 and int32.

    Uniform variates come as ranks and are compared with levels, in whole numbers, so that the next
    states and Bernoulli rewards are those of `mdp.draw_next` and `mdp.draw_reward`.
    """

    features: Any
    """(S, N)"""
    successors: Any
    """(S*A, W), the possible next states of row s*A + a, padded"""
    levels: Any
    """(S*A, W - 1): successor j is passed over if its level is below the variate's rank"""
    rewards: Any
    """(S*A,) mean rewards; where rewards are Bernoulli, levels for the variate's rank"""
    deviations: Any
    """(S*A,) standard deviations of Gaussian rewards"""


class Draws(NamedTuple):
    """What chance decides in a chunk of n steps, float32 and int32."""

    next_rank: Any
    """(n,) the rank of the uniform that decides the next state"""
    reward_noise: Any
    """(n,) a standard normal, or the rank of a uniform where rewards are Bernoulli"""
    member: Any
    """(n,) the member that acts"""
    gamma: Any
    """(n,) the discount factor of the pseudo-episode"""
    forced: Any
    """(n,) an action to take whatever the member says, or -1"""
    mask: Any
    """(n, words) bit k % 32 of word k // 32 is member k's mask; no words if all masks are 1"""
    rows: Any
    """(n, B) places in the replay of the minibatch"""


class Loop(NamedTuple):
    """What a run carries from step to step."""

    ensemble: Ensemble
    replay: Any
    """(capacity, 4 + words) int32: state, action, the reward's bits, next state, masks. XLA
    updates one such array in place, but copied several at every step."""
    state: Any
    """()"""


@partial(jax.jit, static_argnames=("noise", "learning_rate", "whole_table"), donate_argnums=0)
def take_steps(
    loop: Loop,
    draws: Draws,
    table: Table,
    n: Any,
    slot: Any,
    age: Any,
    target_every: Any,
    *,
    noise: int,
    learning_rate: float,
    whole_table: bool,
) -> tuple[Loop, Any, Any]:
    """Take the first `n` steps of a chunk; return the loop, and the states and actions.

    Args:
        loop: where the run stands.
        draws: the chunk's random numbers.
        table: the environment.
        n: how many steps to take.
        slot: the place in the replay of the first step.
        age: how many updates ago the target was copied.
        target_every: updates from one copy to the next.
        noise: the kind of reward noise (`TabularMDP.noise_code`).
        learning_rate: of Adam.
        whole_table: whether to evaluate all S observations at once.
    """
    n_actions = table.rewards.shape[0] // table.features.shape[0]
    prior_q = values(loop.ensemble.prior, table.features) if whole_table else None

    def step(t: Any, target_value: Any, loop: Loop) -> tuple[Loop, Any]:
        ensemble, replay, state = loop
        if whole_table:
            q, pull_back = jax.vjp(lambda w: values(w, table.features), ensemble.online)
            q = q + prior_q
            choice = jnp.argmax(q[draws.member[t], state])
        else:
            choice = greedy(ensemble, draws.member[t], table.features[state])
        forced = draws.forced[t]
        action = jnp.where(forced < 0, choice, forced).astype(jnp.int32)
        reward, next_state = _respond(table, draws, t, noise, state * n_actions + action)
        reward_bits = lax.bitcast_convert_type(reward, jnp.int32)
        entry = jnp.stack([state, action, reward_bits, next_state])
        entry = jnp.concatenate([entry, draws.mask[t]])
        place = jnp.remainder(slot + t, replay.shape[0])
        replay = lax.dynamic_update_slice(replay, entry[None], (place, jnp.int32(0)))
        batch = _batch(replay[draws.rows[t]], ensemble.online["b0"].shape[0])
        if whole_table:
            (gradient,) = pull_back(jax.grad(td_loss)(q, target_value, batch, draws.gamma[t]))
            ensemble = descend(ensemble, gradient, learning_rate)
        else:
            x, next_x = table.features[batch.row], table.features[batch.next_row]
            each = jnp.arange(x.shape[0])
            batch = batch._replace(row=each, next_row=each)
            ensemble = learn(ensemble, x, next_x, batch, draws.gamma[t], learning_rate)
        return Loop(ensemble, replay, next_state), action

    def until_copy(carry: Any) -> Any:
        """Take steps until the target is copied, or to the end."""
        t, age, loop, states, actions = carry
        target_value = None
        if whole_table:
            target_q = values(loop.ensemble.target, table.features) + prior_q
            target_value = jnp.max(target_q, -1)

        def body(t: Any, carry: Any) -> Any:
            loop, states, actions = carry
            states = states.at[t].set(loop.state)
            loop, action = step(t, target_value, loop)
            return loop, states, actions.at[t].set(action)

        last = jnp.minimum(n, t + target_every - age)
        loop, states, actions = lax.fori_loop(t, last, body, (loop, states, actions))
        age += last - t
        copy = age == target_every
        ensemble = loop.ensemble
        target = jax.tree.map(
            lambda new, old: jnp.where(copy, new, old), ensemble.online, ensemble.target
        )
        loop = loop._replace(ensemble=ensemble._replace(target=target))
        return last, jnp.where(copy, 0, age), loop, states, actions

    blank = jnp.zeros(draws.member.shape, jnp.int32)
    carry = (jnp.int32(0), age, loop, blank, blank)
    _, _, loop, states, actions = lax.while_loop(lambda c: c[0] < n, until_copy, carry)
    return loop, states, actions


def _respond(table: Table, draws: Draws, t: Any, noise: int, row: Any) -> tuple[Any, Any]:
    """Return the environment's reward and next state for row s*A + a."""
    passed = jnp.sum(table.levels[row] < draws.next_rank[t])
    variate = draws.reward_noise[t]
    if noise == BERNOULLI:
        reward = (variate <= table.rewards[row]).astype(jnp.float32)
    else:
        reward = table.rewards[row] + table.deviations[row] * variate
    return reward, table.successors[row, passed]


def _batch(entries: Any, members: int) -> Batch:
    """Return the transitions of some rows of the replay, states standing for observations."""
    state, action, reward_bits, next_state = entries[:, :4].T
    mask: Any = jnp.float32(1)
    if entries.shape[1] > 4:
        k = jnp.arange(members)
        mask = ((entries[:, 4 + k // 32] >> (k % 32)) & 1).astype(jnp.float32)
    reward = lax.bitcast_convert_type(reward_bits, jnp.float32)
    return Batch(state, action, reward, next_state, mask)


class Session:
    """A run in a worker process: its arrays stay there from chunk to chunk."""

    def begin(
        self, loop: Loop, capacity: int, table: Table, target_every: int, settings: dict[str, Any]
    ) -> None:
        """Take over a run where it stands.

        Args:
            loop: the run, with the rows of the replay that are filled.
            capacity: how many rows the replay has.
            table: the environment.
            target_every: updates from one copy of the target to the next.
            settings: the static arguments of `take_steps`.
        """
        room = capacity - len(loop.replay)
        loop = loop._replace(replay=np.pad(loop.replay, ((0, room), (0, 0))))
        self._loop = jax.tree.map(jnp.array, loop)
        self._table = jax.tree.map(jnp.array, table)
        self._target_every = target_every
        self._settings = settings

    def steps(self, draws: Draws, n: int, slot: int, age: int) -> tuple[Any, Any]:
        """Take `n` steps; return the states and actions (n,)."""
        self._loop, states, actions = take_steps(
            self._loop, draws, self._table, n, slot, age, self._target_every, **self._settings
        )
        return np.asarray(states)[:n], np.asarray(actions)[:n]

    def end(self, held: int) -> Loop:
        """Give the run back, with the first `held` rows of the replay."""
        loop: Loop = jax.tree.map(np.asarray, self._loop)
        del self._loop
        return loop._replace(replay=loop.replay[:held])
