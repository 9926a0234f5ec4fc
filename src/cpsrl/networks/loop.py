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
from numpy.typing import NDArray

from cpsrl.environments.pure import Environment, make_known
from cpsrl.networks.agent import StepDraws
from cpsrl.networks.belief import NetworkBelief
from cpsrl.networks.learner import Batch, Learner, Learning, descend, greedy, learn, only


class Carried(NamedTuple):
    """What a run carries from step to step."""

    learner: Learner
    replay: Any
    """(capacity, w + 2 + w + words) int32: observation, action, the reward's bits, next
    observation, signature. An observation is a state's number, the bits of N float32, or where they
    are whole numbers those of N uint8. XLA updates one such array in place, but copied several at
    every step."""
    state: Any
    """the environment's"""


class Taken(NamedTuple):
    """What was done in n steps, (n,) each."""

    actions: Any
    states: Any = None
    """where the environment is a table"""
    rewards: Any = None
    """where it is not"""


class World(NamedTuple):
    """Where a run takes its steps."""

    environment: Environment
    """its pure functions"""
    units: Any
    """(2,) the reward that counts as 0, and how much more counts as 1"""


class Stretch(NamedTuple):
    """The steps of a call, and where they begin."""

    n: Any
    """how many steps to take, at most as many as were drawn"""
    slot: Any
    """the place in the replay of the first step"""
    age: Any
    """how many updates ago the target was copied"""
    target_every: Any
    """updates from one copy to the next"""


@partial(jax.jit, static_argnames=("how", "whole_table"), donate_argnums=0)
def take_steps(
    carried: Carried,
    draws: StepDraws,
    noise: Any,
    world: World,
    stretch: Stretch,
    *,
    how: Learning,
    whole_table: bool,
) -> tuple[Carried, Taken]:
    """Take the first `stretch.n` of the steps that were drawn.

    Args:
        carried: where the run is.
        draws: the random draws of the agent, (m, ...) each.
        noise: those of the environment, likewise.
        world: the environment.
        stretch: how many steps to take, and where they begin.
        how: what the networks learn.
        whole_table: whether to evaluate all S observations of a table at once.
    """
    belief, table = how.belief, world.environment.table()
    prior_q = None
    if whole_table:
        prior_q = belief.prior_outputs(carried.learner.prior, None, table)

    def until_copy(so_far: Any) -> Any:
        """Take steps until the target is copied, or to the end."""
        t, age, carried, taken = so_far
        target_value = None
        if whole_table:
            target_q = belief.outputs(carried.learner.target, None, table) + prior_q
            target_value = jnp.max(only(world.environment.available, target_q), -1)

        def body(t: Any, so_far: Any) -> Any:
            carried, taken = so_far
            draw, noise_t = jax.tree.map(lambda values: values[t], (draws, noise))
            evaluated = None
            if whole_table:
                q, pull_back = jax.vjp(
                    lambda w: belief.outputs(w, None, table), carried.learner.online
                )
                evaluated = _Evaluated(q + prior_q, pull_back, target_value)
            action = _action(carried, draw, world.environment, evaluated, belief)
            place = jnp.remainder(stretch.slot + t, carried.replay.shape[0])
            carried, did = _step(carried, action, noise_t, world, draw.updates.signature, place)
            learner = _learnt(carried, draw, world.environment, evaluated, how)
            taken = jax.tree.map(lambda all, new: all.at[t].set(new), taken, did)
            return carried._replace(learner=learner), taken

        last = jnp.minimum(stretch.n, t + stretch.target_every - age)
        carried, taken = lax.fori_loop(t, last, body, (carried, taken))
        age += last - t
        copy = age == stretch.target_every
        learner = carried.learner
        weights = (learner.online, learner.target)
        target = jax.tree.map(lambda new, old: jnp.where(copy, new, old), *weights)
        carried = carried._replace(learner=learner._replace(target=target))
        return last, jnp.where(copy, 0, age), carried, taken

    blank = jnp.zeros(draws.choices.resample.shape, jnp.int32)
    numbers = blank.astype(jnp.float32)
    taken = Taken(blank, rewards=numbers) if table is None else Taken(blank, blank)
    so_far = (jnp.int32(0), stretch.age, carried, taken)
    *_, carried, taken = lax.while_loop(lambda c: c[0] < stretch.n, until_copy, so_far)
    return carried, taken


class _Evaluated(NamedTuple):
    """Networks on all observations of a table."""

    q: Any
    """(J, S, A) the values"""
    pull_back: Any
    """takes a gradient with respect to `q` to that with respect to the trained weights"""
    target_value: Any
    """(J, S) the greedy values of the target networks"""


def _action(
    carried: Carried,
    draw: StepDraws,
    environment: Environment,
    evaluated: _Evaluated | None,
    belief: NetworkBelief,
) -> Any:
    """Return the action of one step: the random one, if there is one, or else the greedy one."""
    state, table = carried.state, environment.table()
    mine = None if environment.available is None else environment.available[state]
    if evaluated:
        choice = jnp.argmax(only(mine, evaluated.q[draw.choices.acting, state]))
    else:
        seen = environment.observation(state) if table is None else table[state]
        choice = greedy(carried.learner, draw.choices.acting, seen, belief, mine)
    forced = draw.choices.forced
    if mine is not None:
        rank = forced[jnp.sum(mine) - 1]
        forced = jnp.where(rank < 0, -1, jnp.argmax(jnp.cumsum(mine) > rank))
    return jnp.where(forced < 0, choice, forced).astype(jnp.int32)


def _step(
    carried: Carried, action: Any, noise: Any, world: World, signature: Any, place: Any
) -> tuple[Carried, Taken]:
    """Take one step and put the transition into the replay at `place`."""
    environment, units = world
    learner, replay, state = carried
    reward, next_state = environment.step(state, action, noise)
    reward = jnp.asarray(reward, jnp.float32)
    scaled = (reward - units[0]) / units[1]
    parts = (
        _words(environment, state),
        jnp.stack([action, lax.bitcast_convert_type(scaled, jnp.int32)]),
        _words(environment, next_state),
        signature,
    )
    entry = jnp.concatenate(parts)[None]
    replay = lax.dynamic_update_slice(replay, entry, (place, jnp.int32(0)))
    known = {"rewards": reward} if environment.table() is None else {"states": state}
    return Carried(learner, replay, next_state), Taken(action, **known)


def _learnt(
    carried: Carried,
    draw: StepDraws,
    environment: Environment,
    evaluated: _Evaluated | None,
    how: Learning,
) -> Learner:
    """Return the learner after the update of one step."""
    available, learner = environment.available, carried.learner
    before, after, batch = _batch(carried.replay[draw.updates.rows], draw)
    if evaluated:
        batch = batch._replace(row=before[:, 0], next_row=after[:, 0])
        return descend(learner, *evaluated, batch, how)
    if available is not None:
        batch = batch._replace(next_available=available[after[:, 0]])
    seen = (_observations(environment, words) for words in (before, after))
    return learn(learner, *seen, batch, how)


def _words(environment: Environment, state: Any) -> Any:
    """Return the observation in `state` as the replay keeps it, (w,)."""
    if environment.table() is not None:
        return state[None]
    x = jnp.asarray(environment.observation(state), jnp.float32)
    if environment.whole:
        bytes_ = jnp.pad(x.astype(jnp.uint8), (0, -len(x) % 4)).reshape(-1, 4)
        return lax.bitcast_convert_type(bytes_, jnp.int32)
    return lax.bitcast_convert_type(x, jnp.int32)


def _observations(environment: Environment, words: Any) -> Any:
    """Return the observations (B, N) that the replay keeps as `words` (B, w)."""
    table = environment.table()
    if table is not None:
        return table[words[:, 0]]
    if environment.whole:
        kept = lax.bitcast_convert_type(words, jnp.uint8).reshape(len(words), -1)
        return kept[:, : environment.n_features].astype(jnp.float32)
    return lax.bitcast_convert_type(words, jnp.float32)


def _batch(entries: Any, draw: StepDraws) -> tuple[Any, Any, Batch]:
    """Return observations and next observations of some rows of the replay, and the rest of them.

    Every transition is taken to have a row of its own.
    """
    words = (entries.shape[1] - 2 - draw.updates.signature.shape[0]) // 2
    ends = (words, words + 1, words + 2, 2 * words + 2)
    before, action, bits, after, signature = jnp.split(entries, ends, axis=1)
    each = jnp.arange(len(entries))
    reward = lax.bitcast_convert_type(bits[:, 0], jnp.float32)
    rest = (each, action[:, 0], reward, each, signature, draw.choices.gamma, draw.updates.learning)
    return before, after, Batch(*rest)


@lru_cache
def take_together(n_devices: int, **settings: Any) -> Any:
    """Return `take_steps` for a batch of runs: of all but the stretch, which they have in common.

    The batch is divided between the devices, each of which takes its part by itself.
    """
    mesh = Mesh(np.array(jax.devices()[:n_devices]), ("runs",))
    each, all_alike = PartitionSpec("runs"), PartitionSpec()
    batch = jax.vmap(partial(take_steps, **settings), in_axes=(0,) * 4 + (None,))
    specs = (each,) * 4 + (all_alike,)
    divided = jax.shard_map(batch, mesh=mesh, in_specs=specs, out_specs=each, check_vma=False)
    return jax.jit(divided, donate_argnums=0)


@partial(jax.jit, donate_argnums=0)
def _filled(replay: Any, rows: Any, first: Any) -> Any:
    """Return a replay (..., capacity, w) with these rows from place `first` on."""
    return lax.dynamic_update_slice_in_dim(replay, rows, first, -2)


class Session:
    """A run in a worker process, or a batch of them: the arrays stay there from call to call."""

    def devices(self) -> tuple[str, str, int]:
        """Return the kind of the devices that there are, their platform and how many there are."""
        try:
            found = jax.devices()
        except RuntimeError as error:
            wanted = jax.config.jax_platforms
            raise ValueError(
                f"JAX has no device of the platform {wanted!r} here: {error}"
            ) from None
        return found[0].device_kind, found[0].platform, len(found)

    def extend_path(self, path: list[str]) -> None:
        """Append the folders in `path` that are missing from `sys.path`."""
        sys.path += [place for place in path if place not in sys.path]

    def begin(
        self,
        carried: Carried,
        room: tuple[int, ...],
        world: World,
        target_every: int,
        settings: dict[str, Any],
        together: bool,
    ) -> None:
        """Take over a run where it is, with `room` for its replay, which `fill` fills.

        `settings` are the static arguments of `take_steps`. With `together`, the arrays are those
        of several runs, along a first axis.
        """
        make_known(world.environment)
        self._take = partial(take_steps, **settings)
        if together:
            self._take = take_together(len(jax.devices()), **settings)
        replay = jnp.zeros(room, jnp.int32)
        self._carried = jax.tree.map(jnp.array, carried)._replace(replay=replay)
        self._target_every = target_every
        self.move(world)

    def fill(self, first: int, rows: Any) -> None:
        """Put rows into the replay, from place `first` on."""
        replay = _filled(self._carried.replay, rows, first)
        self._carried = self._carried._replace(replay=replay)

    def move(self, world: World) -> None:
        """Go on in this world: the same environment with rewards in other units."""
        self._world = World(jax.tree.map(jnp.array, world.environment), world.units)

    def steps(self, draws: StepDraws, noise: Any, n: int, slot: int, age: int) -> Taken:
        """Take `n` steps; return what was done in them."""
        stretch = Stretch(n, slot, age, self._target_every)
        self._carried, taken = self._take(self._carried, draws, noise, self._world, stretch)
        did: Taken = jax.tree.map(lambda column: np.asarray(column)[..., :n], taken)
        return did

    def rows(self, part: slice) -> NDArray[np.int32]:
        """Return rows of the replay."""
        return np.asarray(self._carried.replay)[..., part, :]

    def end(self) -> Carried:
        """Give the run back, without its replay."""
        carried: Carried = jax.tree.map(np.asarray, self._carried._replace(replay=None))
        del self._carried
        return carried
