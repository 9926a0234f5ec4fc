"""The compiled loop of networks in an environment of pure functions: many steps in one call.

Belief, objective and environment are parts that it is given. Everything random was drawn beforehand
(see `cpsrl.networks.run`) and comes in as plain arrays, one entry a step.

If the environment is a table of S observations, a transition is kept as the numbers of its states.
If S is small, too, and the belief finite, the networks are evaluated on all S observations once a
step. That one pass serves the action and, its rows being gathered by state, the minibatch; the
gradient is the minibatch's, since that of a gather is a sum over equal rows. The priors and the
target networks, which do not change from step to step, are evaluated on all S observations once a
call and once a copy. Otherwise the action and the minibatch are evaluated on the observations they
need, as the live agent does.

Whether a stretch of steps is taken in one call or in several does not change a bit of it: the
number of steps is data, not a constant of the compiled code, and whatever is derived from the
state is derived at one place of it.
"""

import sys
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from cpsrl.environments.pure import Environment, make_known
from cpsrl.networks.agent import StepDraws
from cpsrl.networks.belief import NetworkBelief
from cpsrl.networks.learner import Batch, Learner, descend, greedy, learn, only
from cpsrl.objectives import Objective


class Carried(NamedTuple):
    """What a run carries from step to step."""

    learner: Learner
    replay: Any
    """(capacity, w + 2 + w + words) int32: observation, action, the reward's bits, next
    observation, signature. An observation is a state's number or the bits of N float32. XLA
    updates one such array in place, but copied several at every step."""
    state: Any
    """the environment's"""


class Taken(NamedTuple):
    """What was done in n steps, (n,) each."""

    actions: Any
    states: Any = None
    """where the environment is a table"""
    rewards: Any = None
    """where it is not"""


@partial(
    jax.jit,
    static_argnames=("belief", "objective", "learning_rate", "whole_table"),
    donate_argnums=0,
)
def take_steps(
    carried: Carried,
    draws: StepDraws,
    noise: Any,
    environment: Environment,
    units: Any,
    n: Any,
    slot: Any,
    age: Any,
    target_every: Any,
    *,
    belief: NetworkBelief,
    objective: Objective,
    learning_rate: float,
    whole_table: bool,
) -> tuple[Carried, Taken]:
    """Take the first `n` of the steps that were drawn.

    Args:
        carried: where the run stands.
        draws: what chance decides for the agent, (m, ...) each, m >= n.
        noise: what it decides for the environment, likewise.
        environment: the environment's pure functions.
        units: (2,) where its rewards count as 0, and by how much more they count as 1.
        n: how many steps to take.
        slot: the place in the replay of the first step.
        age: how many updates ago the target was copied.
        target_every: updates from one copy to the next.
        belief: what the networks are.
        objective: what they learn.
        learning_rate: of Adam.
        whole_table: whether to evaluate all S observations of a table at once.
    """
    table, available = environment.table(), environment.available
    x = table if whole_table else None
    prior_q = belief.prior_outputs(carried.learner.prior, None, x) if whole_table else None

    def step(t: Any, target_value: Any, carried: Carried) -> tuple[Carried, Taken]:
        learner, replay, state = carried
        mine = None if available is None else available[state]
        if whole_table:
            q, pull_back = jax.vjp(lambda w: belief.outputs(w, None, x), learner.online)
            q = q + prior_q
            choice = jnp.argmax(only(mine, q[draws.acting[t], state]))
        else:
            seen = environment.observation(state) if table is None else table[state]
            choice = greedy(learner, draws.acting[t], seen, belief, mine)
        forced = draws.forced[t]
        if mine is not None:
            rank = forced[jnp.sum(mine) - 1]
            forced = jnp.where(rank < 0, -1, jnp.argmax(jnp.cumsum(mine) > rank))
        action = jnp.where(forced < 0, choice, forced).astype(jnp.int32)
        noise_t = jax.tree.map(lambda values: values[t], noise)
        reward, next_state = environment.step(state, action, noise_t)
        reward = jnp.asarray(reward, jnp.float32)
        scaled = (reward - units[0]) / units[1]
        parts = (
            _words(environment, state),
            jnp.stack([action, lax.bitcast_convert_type(scaled, jnp.int32)]),
            _words(environment, next_state),
            draws.signature[t],
        )
        place = jnp.remainder(slot + t, replay.shape[0])
        entry = jnp.concatenate(parts)[None]
        replay = lax.dynamic_update_slice(replay, entry, (place, jnp.int32(0)))
        observed, batch = _batch(replay[draws.rows[t]], len(parts[0]))
        indices = None if draws.learning is None else draws.learning[t]
        how = (draws.gamma[t], indices, belief, objective, learning_rate)
        if whole_table:
            batch = batch._replace(row=observed[0][:, 0], next_row=observed[1][:, 0])
            learner = descend(learner, q, pull_back, target_value, batch, *how)
        else:
            seen, seen_next = (_observations(table, words) for words in observed)
            if available is not None:
                batch = batch._replace(next_available=available[observed[1][:, 0]])
            learner = learn(learner, seen, seen_next, batch, *how)
        told = Taken(action, rewards=reward) if table is None else Taken(action, state)
        return Carried(learner, replay, next_state), told

    def until_copy(so_far: Any) -> Any:
        """Take steps until the target is copied, or to the end."""
        t, age, carried, taken = so_far
        target_value = None
        if whole_table:
            target_q = belief.outputs(carried.learner.target, None, x) + prior_q
            target_value = jnp.max(only(available, target_q), -1)

        def body(t: Any, so_far: Any) -> Any:
            carried, taken = so_far
            carried, told = step(t, target_value, carried)
            return carried, jax.tree.map(lambda all, new: all.at[t].set(new), taken, told)

        last = jnp.minimum(n, t + target_every - age)
        carried, taken = lax.fori_loop(t, last, body, (carried, taken))
        age += last - t
        copy = age == target_every
        learner = carried.learner
        weights = (learner.online, learner.target)
        target = jax.tree.map(lambda new, old: jnp.where(copy, new, old), *weights)
        carried = carried._replace(learner=learner._replace(target=target))
        return last, jnp.where(copy, 0, age), carried, taken

    blank = jnp.zeros(draws.resample.shape, jnp.int32)
    numbers = blank.astype(jnp.float32)
    taken = Taken(blank, rewards=numbers) if table is None else Taken(blank, blank)
    so_far = (jnp.int32(0), age, carried, taken)
    *_, carried, taken = lax.while_loop(lambda c: c[0] < n, until_copy, so_far)
    return carried, taken


def _words(environment: Environment, state: Any) -> Any:
    """Return the observation in `state` as the replay keeps it, (w,)."""
    if environment.table() is not None:
        return state[None]
    x = jnp.asarray(environment.observation(state), jnp.float32)
    return lax.bitcast_convert_type(x, jnp.int32)


def _observations(table: Any, words: Any) -> Any:
    """Return the observations (B, N) that the replay keeps as `words` (B, w)."""
    if table is not None:
        return table[words[:, 0]]
    return lax.bitcast_convert_type(words, jnp.float32)


def _batch(entries: Any, width: int) -> tuple[tuple[Any, Any], Batch]:
    """Return observations and next observations of some rows of the replay, and the rest of them.

    Every transition is taken to have a row of its own.
    """
    ends = (width, width + 1, width + 2, 2 * width + 2)
    observed, action, bits, following, signature = jnp.split(entries, ends, axis=1)
    each = jnp.arange(len(entries))
    reward = lax.bitcast_convert_type(bits[:, 0], jnp.float32)
    return (observed, following), Batch(each, action[:, 0], reward, each, signature)


@lru_cache
def take_together(n_devices: int, **settings: Any) -> Any:
    """Return `take_steps` for a batch of runs: of all but n, slot, age and target_every.

    The batch is divided between the devices, each of which takes its part by itself.
    """
    mesh = Mesh(np.array(jax.devices()[:n_devices]), ("runs",))
    each, all_alike = PartitionSpec("runs"), PartitionSpec()
    batch = jax.vmap(partial(take_steps, **settings), in_axes=(0,) * 5 + (None,) * 4)
    specs = (each,) * 5 + (all_alike,) * 4
    divided = jax.shard_map(batch, mesh=mesh, in_specs=specs, out_specs=each, check_vma=False)
    return jax.jit(divided, donate_argnums=0)


class Session:
    """A run in a worker process, or a batch of them: the arrays stay there from call to call."""

    def devices(self) -> tuple[str, str, int]:
        """Return the kind of the devices that there are, their platform and how many there are."""
        try:
            found = jax.devices()
        except RuntimeError as error:
            asked = jax.config.jax_platforms
            raise ValueError(f"JAX has no device of the platform {asked!r} here: {error}") from None
        return found[0].device_kind, found[0].platform, len(found)

    def look_in(self, path: list[str]) -> None:
        """Look for modules in these places too, after all others."""
        sys.path += [place for place in path if place not in sys.path]

    def begin(
        self,
        carried: Carried,
        capacity: int,
        environment: Environment,
        units: Any,
        target_every: int,
        settings: dict[str, Any],
        together: bool,
    ) -> None:
        """Take over a run where it stands, with the rows of the replay that are filled.

        `settings` are the static arguments of `take_steps`. With `together`, the arrays are those
        of several runs, along a first axis.
        """
        *batch, held, _ = carried.replay.shape
        room = [*([(0, 0)] * len(batch)), (0, capacity - held), (0, 0)]
        carried = carried._replace(replay=np.pad(carried.replay, room))
        make_known(environment)
        self._take = partial(take_steps, **settings)
        if together:
            self._take = take_together(len(jax.devices()), **settings)
        self._carried, self._environment = jax.tree.map(jnp.array, (carried, environment))
        self._units, self._target_every = units, target_every

    def steps(self, draws: StepDraws, noise: Any, n: int, slot: int, age: int) -> Taken:
        """Take `n` steps; return what was done in them."""
        how = (self._environment, self._units, n, slot, age, self._target_every)
        self._carried, taken = self._take(self._carried, draws, noise, *how)
        told: Taken = jax.tree.map(lambda column: np.asarray(column)[..., :n], taken)
        return told

    def count(self, environment: Environment, units: Any) -> None:
        """Count rewards in other units from now on."""
        self._environment, self._units = jax.tree.map(jnp.array, environment), units

    def end(self, held: int) -> Carried:
        """Give the run back, with the first `held` rows of the replay."""
        carried: Carried = jax.tree.map(np.asarray, self._carried)
        del self._carried
        return carried._replace(replay=carried.replay[..., :held, :])
