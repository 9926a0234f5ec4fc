"""Tabular Markov decision processes: checked once, frozen, dense or sparse.

An MDP with S states and A actions has transition probabilities rho(s' | s, a), mean rewards
r(s, a), a distribution of the realised reward around its mean, and an initial state. Transitions
are stored as a dense array (S, A, S) or as a sparse matrix (S*A, S) whose row s*A + a is
rho(. | s, a).

`cpsrl.mdp.simulator` is the environment that it describes, `cpsrl.mdp.files` its files.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from cpsrl._compile import jit
from cpsrl.mdp.files import read_arguments, write_mdp
from cpsrl.mdp.long_form import ROW_SUM_TOLERANCE
from cpsrl.mdp.simulator import BERNOULLI, GAUSSIAN, NO_NOISE, Simulator, Successors, successors_of
from cpsrl.seeding import Streams
from cpsrl.sizes import Sizes
from cpsrl.types import Floats, Ints

DENSE_PLANNING = 100
"""Up to this many states dense arithmetic is the faster one, whatever the transitions."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TabularMDP:
    """A finite Markov decision process.

    Args:
        transitions: `(S, A, S)` probabilities, or a SciPy sparse matrix `(S*A, S)`, row s*A + a.
        rewards: `(S, A)` mean rewards.
        noise: the reward around its mean: 0 for none, a Gaussian's standard deviation (a number or
            `(S, A)`), or "bernoulli" (means in [0, 1]).
        initial: the initial state, or a distribution `(S,)` over states.
        state_names: S names.
        action_names: A names.
        features: `(S, N)`, the observation that an agent gets in each state.
        name: what to call the problem in tables and figures.
    """

    transitions: Any
    rewards: Floats
    noise: Any
    initial: Any
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    features: Floats | None
    name: str

    def __init__(
        self,
        transitions: Any,
        rewards: ArrayLike,
        *,
        noise: Any = 0.0,
        initial: Any = 0,
        state_names: Any = None,
        action_names: Any = None,
        features: ArrayLike | None = None,
        name: str = "",
    ) -> None:
        mean = _numbers("rewards", rewards, 2)
        n_states, n_actions = mean.shape
        if n_states < 1 or n_actions < 1:
            raise ValueError(f"rewards must be (S, A) with S, A >= 1, not {mean.shape}")
        labels = _Labels(
            _checked_names("state_names", state_names, n_states),
            _checked_names("action_names", action_names, n_actions),
            n_actions,
        )
        _check_finite("rewards", mean)
        kept = {
            "transitions": _checked_transitions(transitions, n_states, n_actions, labels),
            "rewards": _frozen(mean),
            "noise": _checked_noise(noise, mean, labels),
            "initial": _checked_initial(initial, n_states),
            "state_names": labels.states,
            "action_names": labels.actions,
            "features": _checked_features(features, n_states),
            "name": str(name),
        }
        for key, value in kept.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"TabularMDP({self.name or 'unnamed'}: S={self.n_states}, A={self.n_actions}, {kind})"
        )

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return self.rewards.shape[0]

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return self.rewards.shape[1]

    @property
    def sizes(self) -> Sizes:
        """S and A."""
        return Sizes(self.n_states, self.n_actions)

    @property
    def is_sparse(self) -> bool:
        """Whether the transitions are stored as a sparse matrix."""
        return bool(scipy.sparse.issparse(self.transitions))

    @cached_property
    def is_thin(self) -> bool:
        """Whether planning should use sparse arithmetic: many states, and few successors each."""
        if self.n_states <= DENSE_PLANNING or self.is_sparse:
            return self.n_states > DENSE_PLANNING
        return np.count_nonzero(self.transitions) < self.transitions.size / 4

    @cached_property
    def dense(self) -> Floats:
        """`(S, A, S)` transition probabilities."""
        if not self.is_sparse:
            return np.asarray(self.transitions)
        shape = (self.n_states, self.n_actions, self.n_states)
        return _frozen(self.transitions.toarray().reshape(shape))

    @cached_property
    def csr(self) -> Any:
        """`(S*A, S)` transition probabilities, a SciPy sparse array without stored zeros."""
        if self.is_sparse:
            return self.transitions
        shape = (self.n_states * self.n_actions, self.n_states)
        return _canonical(scipy.sparse.csr_array(self.transitions.reshape(shape)))

    @cached_property
    def by_successor(self) -> Floats:
        """`(S, S*A)` transition probabilities, the successor first, for `planning.sweeps`."""
        rows = self.dense.reshape(self.n_states * self.n_actions, self.n_states)
        return np.ascontiguousarray(rows.T)

    @cached_property
    def cdf(self) -> tuple[Ints, Ints, Floats]:
        """Row pointers `(S*A + 1,)`, successors and cumulative probabilities."""
        matrix = self.csr
        return (
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int64),
            _row_cumulative(matrix.indptr.astype(np.int64), np.array(matrix.data)),
        )

    @cached_property
    def successors(self) -> Successors:
        """The same for `draw_next`."""
        return successors_of(*self.cdf)

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
        """Write the MDP to a `.npz`, `.csv` or `.parquet` file (see `cpsrl.mdp.files`)."""
        write_mdp(self, path)

    @staticmethod
    def load(path: Any) -> "TabularMDP":
        """Read an MDP from a `.npz`, `.csv` or `.parquet` file (see `cpsrl.mdp.files`)."""
        arguments = read_arguments(path)
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


def _frozen(array: NDArray[Any]) -> Any:
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


def _canonical(matrix: Any) -> Any:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.setflags(write=False)
    return matrix


def _numbers(what: str, values: ArrayLike, dimensions: int) -> Floats:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be an array of numbers: {error}") from None
    if array.ndim != dimensions:
        raise ValueError(f"{what} must have {dimensions} dimensions, not shape {array.shape}")
    return array


def _check_finite(what: str, array: Floats) -> None:
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{what}{list(place)} is {array[place]}; it must be a finite number")


@dataclass(frozen=True)
class _Labels:
    """How errors call states and actions: by name where there are names, else by number."""

    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None
    n_actions: int

    def state(self, state: int) -> str:
        return f"state {self.states[state]!r}" if self.states else f"state {state}"

    def pair(self, row: int) -> str:
        state, action = divmod(int(row), self.n_actions)
        label = repr(self.actions[action]) if self.actions else str(action)
        return f"{self.state(state)} under action {label}"


def _checked_transitions(transitions: Any, n_states: int, n_actions: int, labels: _Labels) -> Any:
    if scipy.sparse.issparse(transitions):
        want: tuple[int, ...] = (n_states * n_actions, n_states)
        if transitions.shape != want:
            raise ValueError(
                f"sparse transitions must be (S*A, S) = {want} to fit the rewards "
                f"{(n_states, n_actions)}, not {transitions.shape}"
            )
        _check_indices(transitions, n_states, labels)
        matrix = scipy.sparse.csr_array(transitions, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        row_of = np.repeat(np.arange(want[0]), np.diff(matrix.indptr))
        _check_probabilities(matrix.data, lambda i: (row_of[i], matrix.indices[i]), labels)
        sums = np.bincount(row_of, weights=matrix.data, minlength=want[0])
        kept = _canonical(matrix)
    else:
        want = (n_states, n_actions, n_states)
        array = _numbers("transitions", transitions, 3)
        if array.shape != want:
            raise ValueError(
                f"transitions must be (S, A, S) = {want} to fit the rewards "
                f"{(n_states, n_actions)}, not {array.shape}"
            )
        _check_probabilities(array.ravel(), lambda i: divmod(i, n_states), labels)
        sums = array.sum(axis=2).ravel()
        kept = _frozen(array)
    wrong = np.flatnonzero(np.abs(sums - 1) > ROW_SUM_TOLERANCE)
    if wrong.size:
        raise ValueError(
            f"transitions from {labels.pair(wrong[0])} sum to "
            f"{float(sums[wrong[0]])!r}, not 1 ({wrong.size} such rows)"
        )
    return kept


def _check_indices(matrix: Any, n_states: int, labels: _Labels) -> None:
    """Raise a ValueError for a next state out of range, which SciPy lets pass."""
    if matrix.format == "csr":
        wrong = np.flatnonzero((matrix.indices < 0) | (matrix.indices >= n_states))
        if wrong.size:
            row = np.searchsorted(matrix.indptr, wrong[0], "right") - 1
            raise ValueError(
                f"transitions from {labels.pair(row)} lead to state {matrix.indices[wrong[0]]}, "
                f"which is not in 0..{n_states - 1}"
            )
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)


def _check_probabilities(data: Floats, place: Any, labels: _Labels) -> None:
    wrong = np.flatnonzero(~((data >= 0) & (data <= 1 + ROW_SUM_TOLERANCE)))
    if wrong.size:
        row, successor = place(int(wrong[0]))
        raise ValueError(
            f"the probability of going from {labels.pair(row)} to {labels.state(int(successor))} "
            f"is {float(data[wrong[0]])!r}; it must be in [0, 1]"
        )


def _checked_noise(noise: Any, mean: Floats, labels: _Labels) -> Any:
    if isinstance(noise, str):
        if noise != "bernoulli":
            raise ValueError(f"noise must be a standard deviation or 'bernoulli', not {noise!r}")
        wrong = np.flatnonzero(~((mean >= 0) & (mean <= 1)))
        if wrong.size:
            raise ValueError(
                f"Bernoulli rewards need means in [0, 1]; that of {labels.pair(wrong[0])} is "
                f"{mean.flat[wrong[0]]}"
            )
        return noise
    deviation = np.array(noise, dtype=np.float64)
    if deviation.shape not in ((), mean.shape):
        raise ValueError(f"noise must be a number or {mean.shape}, not {deviation.shape}")
    if not (np.isfinite(deviation) & (deviation >= 0)).all():
        raise ValueError("noise must be a standard deviation of at least 0")
    return float(deviation) if deviation.shape == () else _frozen(deviation)


def _checked_initial(initial: Any, n_states: int) -> Any:
    if isinstance(initial, int | np.integer) and not isinstance(initial, bool):
        if not 0 <= initial < n_states:
            raise ValueError(f"the initial state {initial} is not in 0..{n_states - 1}")
        return int(initial)
    distribution = _numbers("initial", initial, 1)
    if distribution.shape != (n_states,):
        raise ValueError(f"initial must be a state or ({n_states},), not {distribution.shape}")
    if not (distribution >= 0).all() or abs(distribution.sum() - 1) > ROW_SUM_TOLERANCE:
        raise ValueError("initial must be a state or probabilities that sum to 1")
    return _frozen(distribution)


def _checked_names(what: str, names: Any, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    kept = tuple(str(name) for name in names)
    if len(kept) != count or len(set(kept)) != count:
        raise ValueError(f"{what} must be {count} different names, not {len(set(kept))}")
    return kept


def _checked_features(features: ArrayLike | None, n_states: int) -> Any:
    if features is None:
        return None
    array = _numbers("features", features, 2)
    if array.shape[0] != n_states or array.shape[1] < 1:
        raise ValueError(f"features must be (S, N) with S = {n_states}, not {array.shape}")
    _check_finite("features", array)
    return _frozen(array)
