"""Random models with Dirichlet rows."""

import numpy as np
import scipy

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import check_room, checked_number, checked_whole


def random_mdp(
    n_states: int = 10,
    n_actions: int = 3,
    concentration: float = 1.0,
    successors: int | None = None,
    noise: float | str = 0.0,
    seed: int = 0,
) -> TabularMDP:
    """A model drawn at random: Dirichlet transition rows, mean rewards uniform on [0, 1].

    Every row is Dirichlet(a/n, ..., a/n) over its n possible successors with a = `concentration`:
    by default over all states, which is the prior of Xu, Dong and Van Roy (2024), section 6. With
    `successors` = k every row has its own k states, a uniformly random subset, and the model is
    sparse. `noise` is that of the rewards, as in `TabularMDP`: a standard deviation or
    "bernoulli". The same `seed` gives the same model. Starts in state 0. The range of rewards is
    declared as [0, 1], whatever was drawn.

    Args:
        n_states: how many states.
        n_actions: how many actions.
        concentration: a, the mass of the Dirichlet distribution of a row.
        successors: how many states a row can lead to; None for all.
        noise: that of the rewards: a standard deviation, or "bernoulli".
        seed: of the drawn model.
    """
    n_states, n_actions = (
        checked_whole("n_states", n_states, 1),
        checked_whole("n_actions", n_actions, 1),
    )
    concentration = checked_number("concentration", concentration, 0.0, open=True)
    rng = np.random.default_rng(checked_whole("seed", seed, most=None))
    n_rows = n_states * n_actions
    check_room("the rewards", n_states, n_actions)
    rewards = rng.random((n_states, n_actions))
    if successors is None:
        check_room("the transitions", n_states, n_actions, n_states)
        rows = rng.dirichlet(np.full(n_states, concentration / n_states), size=n_rows)
        transitions = rows.reshape(n_states, n_actions, n_states)
        return TabularMDP(transitions, rewards, noise=noise, reward_range=(0.0, 1.0))
    k = checked_whole("successors", successors, 1)
    if k > n_states:
        raise ValueError(f"successors must be at most n_states = {n_states}, not {k}")
    indices = np.sort(random_subsets(rng, n_rows, n_states, k), axis=1).ravel()
    data = rng.dirichlet(np.full(k, concentration / k), size=n_rows).ravel()
    indptr = np.arange(0, n_rows * k + 1, k)
    transitions = scipy.sparse.csr_array((data, indices, indptr), shape=(n_rows, n_states))
    return TabularMDP(transitions, rewards, noise=noise, reward_range=(0.0, 1.0))


def random_subsets(rng: np.random.Generator, count: int, n: int, k: int) -> np.ndarray:
    """Return `count` uniformly random k-subsets of {0, ..., n - 1}, shape (count, k).

    Floyd's algorithm (Bentley and Floyd 1987), all subsets at once: the element for
    j = n - k, ..., n - 1 is uniform on {0, ..., j}, or j itself if that one is already taken.
    """
    chosen = np.empty((count, k), dtype=np.int64)
    for i, j in enumerate(range(n - k, n)):
        drawn = rng.integers(0, j + 1, size=count)
        taken = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, j, drawn)
    return chosen
