"""What is believed before the first step."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from cpsrl.checks import LARGEST, checked_number, checked_positive
from cpsrl.types import Floats


@dataclass(frozen=True)
class NormalGamma:
    """Normal-gamma prior on every mean reward (see `cpsrl.beliefs.normal_gamma`).

    Args:
        mu0: prior guess of the mean reward.
        n_mu: how many rewards that guess is worth.
        tau0: prior guess of the precision, one over the variance, of a reward.
        n_tau: how many rewards that guess is worth.
    """

    mu0: float = 1.0
    n_mu: float = 1.0
    tau0: float = 1.0
    n_tau: float = 1.0

    def __post_init__(self) -> None:
        checked_number("mu0", self.mu0)
        for name in ("n_mu", "tau0", "n_tau"):
            checked_positive(name, getattr(self, name))


@dataclass(frozen=True)
class KnownRewards:
    """The mean rewards are known.

    Args:
        means: `(S, A)`; None takes those of the problem.
    """

    means: ArrayLike | None = None


@dataclass(frozen=True)
class Prior:
    """Independent Dirichlet priors on the transition rows, and a prior on the rewards.

    Args:
        transitions: the Dirichlet parameter of every cell: a number, or an array `(S, A, S)` (0 for
            a successor that is impossible). None spreads one pseudo-observation a row evenly over
            its possible successors: 1/S per cell where all are possible.
        support: which successors are possible: a boolean array `(S, A, S)`, or a sparse matrix
            `(S*A, S)` with row s*A + a whose stored entries are the possible ones. None: all.
        rewards: `NormalGamma(...)` or `KnownRewards()`.
    """

    transitions: ArrayLike | None = None
    support: Any = None
    rewards: NormalGamma | KnownRewards = field(default_factory=NormalGamma)

    def __post_init__(self) -> None:
        if not isinstance(self.rewards, NormalGamma | KnownRewards):
            raise ValueError(
                f"rewards must be NormalGamma(...) or KnownRewards(), not {self.rewards!r}"
            )
        if self.transitions is not None:
            values = np.asarray(self.transitions, dtype=np.float64)
            if values.ndim == 0:
                checked_positive("transitions", values.item())
            if values.ndim and self.support is not None:
                raise ValueError(
                    "give an array of transitions or a support, not both: the array's zeros are "
                    "the impossible successors"
                )

    @property
    def is_array(self) -> bool:
        """Whether every cell has its own Dirichlet parameter."""
        return self.transitions is not None and np.ndim(self.transitions) > 0

    def array(self, n_states: int, n_actions: int) -> Floats:
        """Return the Dirichlet parameters `(S*A, S)` of all cells."""
        shape = (n_states, n_actions, n_states)
        if self.is_array:
            values = np.array(self.transitions, dtype=np.float64)
            if values.shape != shape:
                raise ValueError(f"transitions must be (S, A, S) = {shape}, not {values.shape}")
            fits = (values >= 1 / LARGEST) & (values <= LARGEST)
            wrong = np.argwhere(~(fits | (values == 0)))
            if wrong.size:
                place = tuple(int(i) for i in wrong[0])
                raise ValueError(
                    f"transitions{list(place)} is {values[place]}; it must be 0 or a positive "
                    f"number ({1 / LARGEST:g} to {LARGEST:g})"
                )
            _check_rows(values.any(axis=2), "transitions are all 0", n_actions)
            return values.reshape(n_states * n_actions, n_states)
        cells = self.cell(n_states, n_actions)[:, None]
        candidates = self.candidates(n_states, n_actions)
        if candidates is None:
            return np.repeat(cells, n_states, axis=1)
        return np.asarray(candidates.toarray() * cells)

    def candidates(self, n_states: int, n_actions: int) -> Any:
        """Return the support as a sparse matrix `(S*A, S)` of ones; None: all is possible."""
        if self.support is None:
            return None
        rows = n_states * n_actions
        if scipy.sparse.issparse(self.support):
            matrix = scipy.sparse.csr_array(self.support, copy=True)
        else:
            mask = np.asarray(self.support)
            if mask.shape != (n_states, n_actions, n_states):
                raise ValueError(
                    f"support must be (S, A, S) = {(n_states, n_actions, n_states)}, "
                    f"not {mask.shape}"
                )
            matrix = scipy.sparse.csr_array(mask.reshape(rows, n_states) != 0)
        if matrix.shape != (rows, n_states):
            raise ValueError(f"support must be (S*A, S) = {(rows, n_states)}, not {matrix.shape}")
        wrong = np.flatnonzero((matrix.indices < 0) | (matrix.indices >= n_states))
        if wrong.size:  # which SciPy lets pass
            raise ValueError(
                f"support has a successor {matrix.indices[wrong[0]]}, which is not in "
                f"0..{n_states - 1}"
            )
        matrix.sum_duplicates()
        matrix.data = np.ones(matrix.nnz)
        _check_rows(np.diff(matrix.indptr) > 0, "there is no possible successor", n_actions)
        return matrix

    def cell(self, n_states: int, n_actions: int) -> Floats:
        """Return the Dirichlet parameter `(S*A,)` that the possible cells of each row share."""
        rows = n_states * n_actions
        if self.transitions is not None:
            return np.full(rows, float(self.transitions))  # type: ignore[arg-type]
        candidates = self.candidates(n_states, n_actions)
        sizes = np.full(rows, n_states) if candidates is None else np.diff(candidates.indptr)
        return 1.0 / sizes


def _check_rows(ok: Any, what: str, n_actions: int) -> None:
    wrong = np.flatnonzero(~np.asarray(ok).ravel())
    if wrong.size:
        state, action = divmod(int(wrong[0]), n_actions)
        raise ValueError(f"{what} from state {state} under action {action}")
