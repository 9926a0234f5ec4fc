"""Tabular Markov decision processes: checked once, frozen, dense or sparse.

An MDP with S states and A actions has transition probabilities rho(s' | s, a), mean rewards
r(s, a), a distribution of the realised reward around its mean, and an initial state. Transitions
are stored as a dense array (S, A, S) or as a sparse matrix (S*A, S) whose row s*A + a is
rho(. | s, a). Where the reward depends on the transition, r(s, a) is the mean of r(s, a, s').

An action that is not available in a state has the row and the reward of the first one there that
is, its stand-in. A repeat ties with what it repeats, so it changes no value, and whatever plans or
looks at the structure need not know of it; a policy is passed through `TabularMDP.allowed`.

`cpsrl.mdp.simulator` is the environment that it describes, `cpsrl.mdp.files` its files.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cpsrl._private.compile import jit
from cpsrl.documents import Table
from cpsrl.documents.table import MOST_ROWS
from cpsrl.mdp.files import read_arguments, write_mdp
from cpsrl.mdp.problem import UNIT_RANGE, Labels, Sizes, checked_features, checked_range
from cpsrl.mdp.simulator import (
    BERNOULLI,
    GAUSSIAN,
    NO_NOISE,
    Dynamics,
    Simulator,
    entries_of_places,
    successors_of,
)
from cpsrl.mdp.transition_tables import ROW_SUM_TOLERANCE
from cpsrl.seeding import Streams
from cpsrl.support.checks import (
    WrongTypeError,
    check_finite,
    check_room,
    checked_floats,
    count,
    frozen,
    is_sparse,
    shown,
)
from cpsrl.support.types import Bools, Floats, Ints

MOST_SUCCESSORS = 4
"""So many next states of a pair are shown in a notebook, the likeliest ones."""
DENSE_STATES = 128
"""Models with more states are kept, drawn and planned for sparsely, if they have few successors."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TabularMDP:
    """A finite Markov decision process.

    Args:
        transitions: `(S, A, S)` probabilities, or a SciPy sparse matrix `(S*A, S)`, row s*A + a.
        rewards: `(S, A)` mean rewards; or, where they depend on the transition, `(S, A, S)` or a
            sparse matrix `(S*A, S)`.
        transition_rewards: those of every stored successor, beside `csr.data`, where `rewards` are
            their means: what an MDP keeps of rewards that depend on the transition.
        available: `(S, A)`, whether an action is available in a state, with at least one in each;
            None: all are. What is given for unavailable actions is not looked at.
        noise: the reward around its mean: 0 for none, a Gaussian's standard deviation (a number or
            `(S, A)`), or "bernoulli" (means in [0, 1]).
        initial: the initial state, or a distribution `(S,)` over states.
        state_names: S names.
        action_names: A names.
        features: `(S, N)`, the observation that an agent gets in each state.
        name: what to call the problem in tables and figures.
        reward_range: the least and the largest mean reward that an agent should think possible.
            None takes those of the MDP, and [0, 1] where rewards are Bernoulli.

    Its attributes are the arguments, with `rewards` `(S, A)` in any case, `transition_rewards` None
    where rewards do not depend on the transition, and `available` None where all actions are.
    """

    transitions: Any
    rewards: Floats
    transition_rewards: Floats | None
    available: Bools | None
    noise: Any
    initial: Any
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    features: Floats | None
    name: str
    reward_range: tuple[float, float]

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        *,
        transition_rewards: ArrayLike | None = None,
        available: ArrayLike | None = None,
        noise: Any = 0.0,
        initial: Any = 0,
        state_names: Any = None,
        action_names: Any = None,
        features: ArrayLike | None = None,
        name: str = "",
        reward_range: Any = None,
    ) -> None:
        given, (n_states, n_actions) = _given_rewards(rewards)
        sizes = Sizes(n_states, n_actions, available=available)
        labels = Labels(
            _checked_names("state_names", state_names, n_states),
            _checked_names("action_names", action_names, n_actions),
            n_actions,
        )
        checked = _checked_transitions(transitions, sizes, labels)
        mean, each = _mean_rewards(sizes.repeated(given), checked)
        if transition_rewards is not None:
            means = mean
            beside = sizes.repeated(_beside(transitions, transition_rewards))
            mean, each = _mean_rewards(beside, checked)
            if np.abs(mean - means).max() > 1e-8 * np.abs(beside.data).max():
                raise ValueError("rewards must be (S, A), the means of transition_rewards")
        kept = {
            "transitions": checked,
            "rewards": frozen(mean),
            "transition_rewards": each,
            "available": sizes.available,
            "noise": _checked_noise(noise, mean, each, sizes, labels),
            "initial": _checked_initial(initial, n_states),
            "state_names": labels.states,
            "action_names": labels.actions,
            "features": None if features is None else checked_features(features, n_states),
            "name": str(name),
            "reward_range": _range_of(mean, noise, reward_range, labels),
        }
        for key, value in kept.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"TabularMDP({self.name or 'unnamed'}: S={self.n_states}, A={self.n_actions}, {kind})"
        )

    def _repr_html_(self) -> str:
        rows, csr, total = [], self.csr, self.rewards.size
        for row in range(min(total, MOST_ROWS)):
            state, action = divmod(row, self.n_actions)
            places = slice(csr.indptr[row], csr.indptr[row + 1])
            order = np.argsort(-csr.data[places], kind="stable")[:MOST_SUCCESSORS]
            shown = zip(csr.indices[places][order], csr.data[places][order], strict=True)
            leads = [f"{self.state_name(s)} ({p:.4g})" for s, p in shown]
            leads += ["..."] if places.stop - places.start > len(leads) else []
            names = self.state_name(state), self.action_name(action)
            rows.append((*names, self.rewards[state, action], ", ".join(leads)))
        headings = ("state", "action", "mean reward", "next states")
        return Table(headings, rows, repr(self), total=total, left=2)._repr_html_()

    def plot(self, ax: Any = None) -> Any:
        """Draw the transition probabilities and mean rewards; return the matplotlib axes.

        A row for every available pair of a state and an action, a column for every next state.

        Args:
            ax: axes to draw into; None makes new ones.
        """
        from cpsrl.documents import figures  # it imports matplotlib

        with figures.given_or_new(ax) as ax:
            figures.transitions(ax, self)
        return ax

    def state_name(self, state: int) -> str:
        """Return the name of a state, or else its number."""
        return self.state_names[state] if self.state_names else str(state)

    def action_name(self, action: int) -> str:
        """Return the name of an action, or else its number."""
        return self.action_names[action] if self.action_names else str(action)

    @property
    def models(self) -> tuple["TabularMDP"]:
        """The models that a problem goes through: this one, for ever."""
        return (self,)

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return self.rewards.shape[0]

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return self.rewards.shape[1]

    @cached_property
    def sizes(self) -> Sizes:
        """S and A, the range of the rewards, and which actions are available."""
        return Sizes(self.n_states, self.n_actions, self.reward_range, self.available)

    @property
    def declares_range(self) -> bool:
        """Whether the range of rewards was given, and not taken from the rewards."""
        return not isinstance(self.reward_range, _RangeOfRewards)

    @cached_property
    def realised_range(self) -> tuple[float, float]:
        """The range of the rewards with what single transitions pay, but for Gaussian noise."""
        drawn = (0.0, 1.0) if self.noise_code[0] == BERNOULLI else ()
        paid = np.concatenate([self.reward_range, self.dynamics.rewards, drawn])
        return float(paid.min()), float(paid.max())

    @property
    def stand_in(self) -> Ints:
        """`(S, A)`: an available action is its own, any other's is the state's first available."""
        # not those of `self.sizes`: planners take rewards that no agent's range may hold
        return Sizes(self.n_states, self.n_actions, available=self.available).stand_in

    def allowed(self, policy: Ints) -> Ints:
        """Return `policy` `(S,)` with the stand-ins of unavailable actions, which do the same."""
        if self.available is None:
            return policy
        return self.stand_in[np.arange(self.n_states), policy]

    @property
    def is_sparse(self) -> bool:
        """Whether the transitions are stored as a sparse matrix."""
        return is_sparse(self.transitions)

    @cached_property
    def prefers_sparse(self) -> bool:
        """Whether planning should use sparse arithmetic: many states, and few successors each."""
        if self.n_states <= DENSE_STATES or self.is_sparse:
            return self.n_states > DENSE_STATES
        return np.count_nonzero(self.transitions) < self.transitions.size / 4

    @property
    def is_thin(self) -> bool:
        """`prefers_sparse`, as it was called before 0.3.0."""
        warnings.warn("is_thin is now prefers_sparse", DeprecationWarning, stacklevel=2)
        return self.prefers_sparse

    @cached_property
    def dense(self) -> Floats:
        """`(S, A, S)` transition probabilities; an unavailable action's are its stand-in's."""
        if not self.is_sparse:
            return np.asarray(self.transitions)
        shape = (self.n_states, self.n_actions, self.n_states)
        check_room("the dense transitions", *shape)
        return frozen(self.transitions.toarray().reshape(shape))

    @cached_property
    def csr(self) -> Any:
        """`(S*A, S)` transition probabilities, a SciPy sparse array without stored zeros.

        An unavailable action's are its stand-in's.
        """
        return _stored(self.transitions)

    @cached_property
    def by_successor(self) -> Floats:
        """`(S, S*A)` transition probabilities, the successor first, for `planning.steps`."""
        rows = self.dense.reshape(self.n_states * self.n_actions, self.n_states)
        return np.ascontiguousarray(rows.T)

    @cached_property
    def cdf(self) -> tuple[Ints, Ints, Floats]:
        """Row pointers `(S*A + 1,)`, successors and cumulative probabilities."""
        if not self.is_sparse:
            return _dense_cdf(self.transitions.reshape(-1, self.n_states))
        matrix = self.csr
        indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        return indptr, indices, _row_cumulative(indptr, np.array(matrix.data))

    @cached_property
    def dynamics(self) -> Dynamics:
        """What a step of the environment is made of."""
        noise, deviation = self.noise_code
        rewards = self.rewards
        if self.transition_rewards is not None:
            entries = entries_of_places(self.cdf[0])
            rewards = self.transition_rewards[slice(None) if entries is None else entries]
        successors = successors_of(*self.cdf)
        return Dynamics(successors, rewards.ravel().copy(), noise, deviation.ravel().copy())

    @cached_property
    def noise_code(self) -> tuple[int, Floats]:
        """The kind of reward noise, and its standard deviations `(S, A)`, 0 unless Gaussian."""
        deviation = np.zeros_like(self.rewards)
        if isinstance(self.noise, str):
            return BERNOULLI, deviation
        deviation += self.noise
        return (GAUSSIAN if deviation.any() else NO_NOISE), deviation

    def simulator(self, seed: int = 0, run: int = 0) -> "Simulator":
        """Return a simulator in its initial state, on the streams of run `run` of root `seed`."""
        return Simulator(self, Streams(seed, run))

    def save(self, path: Any) -> None:
        """Write the MDP to a `.npz`, `.csv`, `.parquet` or `.drn` file (see `cpsrl.mdp.files`)."""
        write_mdp(self, path)

    @staticmethod
    def load(
        path: Any,
        normalise: bool = False,
        missing_unavailable: bool = False,
        reward_model: str | None = None,
    ) -> "TabularMDP":
        """Read an MDP from a `.npz`, `.csv`, `.parquet` or `.drn` file (see `cpsrl.mdp.files`).

        Args:
            path: the file.
            normalise: divide rows whose probabilities do not quite sum to 1 by their sums, and warn
                of the largest correction.
            missing_unavailable: take actions without a transition for unavailable ones.
            reward_model: which of the rewards of a `.drn` file, by name; None for the only ones.
        """
        arguments = read_arguments(path, normalise, missing_unavailable, reward_model)
        try:
            return TabularMDP(**arguments)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


@jit
def _row_cumulative(indptr: Ints, data: Floats) -> Floats:
    for row in range(len(indptr) - 1):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += data[entry]
            data[entry] = total
    return data


@jit
def _dense_cdf(rows: Floats) -> tuple[Ints, Ints, Floats]:
    """Return `TabularMDP.cdf` of `(S*A, S)` probabilities, much sooner than SciPy."""
    indptr, size = np.zeros(len(rows) + 1, np.int64), np.count_nonzero(rows)
    indices, cumulative, entry = np.empty(size, np.int64), np.empty(size), 0
    for row in range(len(rows)):
        total = 0.0
        for j in range(rows.shape[1]):
            if rows[row, j] != 0.0:
                total += rows[row, j]
                indices[entry], cumulative[entry] = j, total
                entry += 1
        indptr[row + 1] = entry
    return indptr, indices, cumulative


def _canonical(matrix: Any) -> Any:
    if not _is_canonical(matrix):
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        matrix.sort_indices()
    if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.setflags(write=False)
    return matrix


def _is_canonical(matrix: Any) -> bool:
    """Return whether a sparse matrix is canonical, however wide, and nobody can change it."""
    return (
        matrix.format == "csr"
        and matrix.data.dtype == np.float64
        and not any(x.flags.writeable for x in (matrix.data, matrix.indices, matrix.indptr))
        and bool(matrix.has_canonical_format)
        and bool(matrix.data.all())
    )


def _given_rewards(rewards: Any) -> tuple[Any, tuple[int, int]]:
    """Return rewards as an array `(S, A)` or `(S, A, S)` or a sparse matrix, and S and A."""
    if is_sparse(rewards):
        n_actions, rest = divmod(rewards.shape[0], max(1, rewards.shape[1]))
        shape, right = (rewards.shape[1], n_actions), rest == 0
        given = scipy.sparse.csr_array(rewards, dtype=np.float64, copy=True)
        given.check_format(full_check=True)
    else:
        given = checked_floats("rewards", rewards, 2, 3)
        shape, right = given.shape[:2], given.ndim == 2 or given.shape[2] == given.shape[0]
    if min(shape) < 1 or not right:
        raise ValueError(
            "rewards must be (S, A) or (S, A, S) or a sparse matrix (S*A, S), with S, A >= 1, not "
            f"{given.shape}"
        )
    return given, shape


def _mean_rewards(given: Any, transitions: Any) -> tuple[Floats, Floats | None]:
    """Return mean rewards `(S, A)`, and those of each successor if they depend on it, else None.

    A mean is taken of the differences from a row's first reward: it is exact where all are equal.
    """
    sparse = is_sparse(given)
    check_finite("rewards", given.data if sparse else given)
    if given.ndim == 2 and not sparse:
        return given, None
    matrix = _stored(transitions)
    start = matrix.indptr[:-1]
    row_of = np.repeat(np.arange(len(start)), np.diff(matrix.indptr))
    if sparse:
        each = _values_at(given, row_of, matrix.indices)
    else:
        each = given.reshape(matrix.shape)[row_of, matrix.indices]
    first = each[start]
    excess = np.bincount(row_of, weights=matrix.data * (each - first[row_of]))
    low, high = np.minimum.reduceat(each, start), np.maximum.reduceat(each, start)
    mean = np.clip(first + excess, low, high).reshape(matrix.shape[1], -1)
    return mean, frozen(each) if (low < high).any() else None


def _beside(transitions: Any, stored: ArrayLike) -> Any:
    """Return the rewards `stored` of transitions that are not 0 as a sparse matrix `(S*A, S)`."""
    if not is_sparse(transitions):
        transitions = np.asarray(transitions, dtype=np.float64)
        transitions = transitions.reshape(-1, transitions.shape[-1])
    matrix = _canonical(scipy.sparse.csr_array(transitions, copy=True))
    each = checked_floats("transition_rewards", stored, 1)
    if len(each) != matrix.nnz:
        raise ValueError(f"transition_rewards must be ({matrix.nnz},), not {each.shape}")
    return scipy.sparse.csr_array((each, matrix.indices, matrix.indptr), shape=matrix.shape)


def _values_at(matrix: Any, rows: Ints, columns: Ints) -> Floats:
    """Return the values `(n,)` of a sparse matrix at these places, 0 where none is stored."""
    matrix.sum_duplicates()
    width, stored = matrix.shape[1], np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    keys, wanted = stored * width + matrix.indices, rows * width + columns
    values, found = np.zeros(len(wanted)), np.isin(wanted, keys)
    values[found] = matrix.data[np.searchsorted(keys, wanted[found])]
    return values


def _stored(transitions: Any) -> Any:
    """Return checked transitions as a sparse matrix `(S*A, S)` without stored zeros."""
    if is_sparse(transitions):
        return transitions
    return _canonical(scipy.sparse.csr_array(transitions.reshape(-1, transitions.shape[-1])))


def _checked_transitions(transitions: Any, sizes: Sizes, labels: Labels) -> Any:
    n_states, n_actions = sizes.n_states, sizes.n_actions
    if is_sparse(transitions):
        want: tuple[int, ...] = (n_states * n_actions, n_states)
        if transitions.shape != want:
            raise ValueError(
                f"sparse transitions must be (S*A, S) = {want} to fit the rewards "
                f"{(n_states, n_actions)}, not {transitions.shape}"
            )
        _check_indices(transitions, n_states, labels)
        matrix = sizes.repeated(_in_rows(transitions))
        _check_probabilities(matrix.data, lambda i: _place(matrix, i), labels)
        if not _is_canonical(matrix):
            matrix.sum_duplicates()
        sums = matrix.sum(axis=1)
        kept = _canonical(matrix)
    else:
        want = (n_states, n_actions, n_states)
        array = checked_floats("transitions", transitions, 3)
        if array.shape != want:
            raise ValueError(
                f"transitions must be (S, A, S) = {want} to fit the rewards "
                f"{(n_states, n_actions)}, not {array.shape}"
            )
        array = sizes.repeated(array)
        _check_probabilities(array.ravel(), lambda i: divmod(i, n_states), labels)
        sums = array.sum(axis=2).ravel()
        kept = frozen(array)
    wrong = np.flatnonzero(np.abs(sums - 1) > ROW_SUM_TOLERANCE)
    if wrong.size:
        raise ValueError(
            f"transitions from {labels.pair(wrong[0])} sum to "
            f"{float(sums[wrong[0]])!r}, not 1 ({count(wrong.size, 'such row')})"
        )
    return kept


def _in_rows(matrix: Any) -> Any:
    """Return a sparse matrix as rows with every entry as it is stored, also those stored twice."""
    kept = _is_canonical(matrix)
    if matrix.format == "coo":  # SciPy would add those
        order = np.argsort(matrix.row, kind="stable")
        ends = np.cumsum(np.bincount(matrix.row, minlength=matrix.shape[0]))
        stored = matrix.data[order], matrix.col[order], np.concatenate([[0], ends])
        matrix = scipy.sparse.csr_array(stored, shape=matrix.shape)
    return scipy.sparse.csr_array(matrix, dtype=np.float64, copy=not kept)


def _place(matrix: Any, entry: int) -> tuple[int, int]:
    """Return the row and the column of an entry of a sparse matrix."""
    row = np.searchsorted(matrix.indptr, entry, "right") - 1
    return int(row), int(matrix.indices[entry])


def _check_indices(matrix: Any, n_states: int, labels: Labels) -> None:
    """Raise a ValueError for a next state out of range, which SciPy lets pass."""
    if matrix.format == "csr":
        wrong = np.flatnonzero((matrix.indices < 0) | (matrix.indices >= n_states))
        if wrong.size:
            row, state = _place(matrix, wrong[0])
            raise ValueError(
                f"transitions from {labels.pair(row)} lead to state {state}, "
                f"which is not in 0..{n_states - 1}"
            )
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)


def _check_probabilities(data: Floats, place: Any, labels: Labels) -> None:
    wrong = np.flatnonzero(~((data >= 0) & (data <= 1 + ROW_SUM_TOLERANCE)))
    if wrong.size:
        row, successor = place(int(wrong[0]))
        raise ValueError(
            f"the probability of going from {labels.pair(row)} to {labels.state(int(successor))} "
            f"is {float(data[wrong[0]])!r}; it must be in [0, 1]"
        )


def _checked_noise(
    noise: Any, mean: Floats, each: Floats | None, sizes: Sizes, labels: Labels
) -> Any:
    if isinstance(noise, str):
        if noise != "bernoulli":
            raise ValueError(f"noise must be a standard deviation or 'bernoulli', not {noise!r}")
        wrong = np.flatnonzero(~((mean >= 0) & (mean <= 1)))
        if wrong.size:
            raise ValueError(
                f"Bernoulli rewards need means in [0, 1]; that of {labels.pair(wrong[0])} is "
                f"{mean.flat[wrong[0]]}"
            )
        if each is not None and not ((each >= 0) & (each <= 1)).all():
            raise ValueError("Bernoulli rewards need means in [0, 1], those of transitions too")
        return noise
    deviation = checked_floats("noise", noise)
    if deviation.shape not in ((), mean.shape):
        raise ValueError(f"noise must be a number or {mean.shape}, not {deviation.shape}")
    if not (np.isfinite(deviation) & (deviation >= 0)).all():
        raise ValueError("noise must be a standard deviation of at least 0")
    return float(deviation) if deviation.shape == () else frozen(sizes.repeated(deviation))


class _RangeOfRewards(tuple[float, float]):
    """A range taken from the rewards: `dataclasses.replace` with others takes it anew."""


def _range_of(mean: Floats, noise: Any, given: Any, labels: Labels) -> tuple[float, float]:
    if given is None or isinstance(given, _RangeOfRewards):
        found = UNIT_RANGE if isinstance(noise, str) else (mean.min().item(), mean.max().item())
        return _RangeOfRewards(found)
    low, high = checked_range(given)
    wrong = np.flatnonzero((mean < low) | (mean > high))
    if wrong.size:
        raise ValueError(
            f"reward_range is ({low:g}, {high:g}), but the mean reward of {labels.pair(wrong[0])} "
            f"is {mean.flat[wrong[0]]:g}: give a range that has all mean rewards in it, or None"
        )
    return low, high


def _checked_initial(initial: Any, n_states: int) -> Any:
    if isinstance(initial, int | np.integer) and not isinstance(initial, bool):
        if not 0 <= initial < n_states:
            raise ValueError(f"the initial state {initial} is not in 0..{n_states - 1}")
        return int(initial)
    distribution = checked_floats("initial", initial, 1)
    if distribution.shape != (n_states,):
        raise ValueError(f"initial must be a state or ({n_states},), not {distribution.shape}")
    if not (distribution >= 0).all() or abs(distribution.sum() - 1) > ROW_SUM_TOLERANCE:
        raise ValueError("initial must be a state or probabilities that sum to 1")
    return frozen(distribution)


def _checked_names(what: str, names: Any, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    try:
        kept = tuple(str(name) for name in names)
    except TypeError:
        raise WrongTypeError(f"{what} must be {count} names, not {shown(names)}") from None
    if len(kept) != count or len(set(kept)) != count:
        raise ValueError(f"{what} must be {count} different names, not {len(set(kept))}")
    return kept
