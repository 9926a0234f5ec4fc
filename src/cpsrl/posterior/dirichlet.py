"""Dirichlet belief about the transition rows, all cells drawn.

Row s*A + a of `alpha` `(S*A, S)` holds the prior plus the counts of the successors; cells with
alpha = 0 are impossible. A row is drawn as independent Gamma(alpha_j) variates over their sum.

Most cells keep the prior's small shape for ever, and there NumPy's sampler is slow. For a shape
a <= 1/2 the rejection method of Liu, Martin and Syring (2017) needs little more than an exponential
E and a uniform U. With w = a / (e (1 - a)), c = log(1 + w) and e = E - c,

    e >= 0:     x = exp(-e / a) <= 1,         accepted if U < exp(-x),
    otherwise:  x = V^(-1 / (1 - a)) > 1,     accepted if U < x exp(1 - x),

where V = (1 - exp(-E)) / (1 - exp(-c)) is then uniform. A share Gamma(1 + a) / (1 + w) of the draws
is accepted: .65 at a = 1/2, all in the limit of a = 0. A cell with e / a >= 50, less than 2e-22, is
set to 0. That is nothing beside a cell that was observed, whose shape is at least 1.

In a row that was never visited all shapes may be tiny and all variates may underflow. There, for
shapes a < 1, Gamma(a) has the law of Gamma(1 + a) U^(1/a), and

    x_j = G_j exp(L_j),   L_j = 0 and G_j ~ Gamma(alpha_j)                  if alpha_j >= 1,
                          L_j = -E_j / alpha_j and G_j ~ Gamma(1 + alpha_j) otherwise,

is divided by exp(max L), which leaves the shares as they are: no row is ever all zeros.
"""

import math

import numpy as np

from cpsrl._compile import jit
from cpsrl.mdp import Floats, Ints

SMALL_SHAPE = 0.5
FLUSH = 50.0


@jit
def sample_dense(alpha: Floats, visits: Ints, rng: np.random.Generator, out: Floats) -> None:
    """Draw every transition row into `out` `(S*A, S)`.

    Args:
        alpha: `(S*A, S)` Dirichlet parameters; every row has a positive one.
        visits: `(S*A,)` how often each row was visited.
        rng: where the variates come from.
        out: `(S*A, S)`.
    """
    n_cells = alpha.shape[1]
    exponentials = np.empty(n_cells)
    kept = np.empty(n_cells, np.int64)
    shape = c = 0.0
    for row in range(len(alpha)):
        shapes, cells = alpha[row], out[row]
        if visits[row] == 0:
            sample_unvisited(shapes, rng, cells)
            continue
        # The list of kept cells is made without a branch: at the prior 1/S it would be a coin toss,
        # and a wrong guess costs the processor more than the cell does.
        n_kept = 0
        for j in range(n_cells):
            a = shapes[j]
            if a != shape and a <= SMALL_SHAPE:
                shape = a
                c = math.log1p(a / (math.e * (1.0 - a)))
            e = rng.standard_exponential() - c if a <= SMALL_SHAPE else 0.0
            exponentials[j] = e
            cells[j] = 0.0
            kept[n_kept] = j
            n_kept += e < FLUSH * a
        total = 0.0
        for k in range(n_kept):
            j = kept[k]
            a = shapes[j]
            if a > SMALL_SHAPE:
                x = rng.standard_gamma(a)
            else:
                if a != shape:
                    shape = a
                    c = math.log1p(a / (math.e * (1.0 - a)))
                e = exponentials[j]
                while True:
                    u = rng.random()
                    if e >= 0.0:
                        x = math.exp(-e / a)
                        if u < 1.0 - x or u < math.exp(-x):  # the first implies the second
                            break
                    else:
                        x = (math.expm1(-e - c) / math.expm1(-c)) ** (-1.0 / (1.0 - a))
                        if u < x * math.exp(1.0 - x):
                            break
                    e = -math.log1p(-rng.random()) - c
            cells[j] = x
            total += x
        scale = 1.0 / total
        for j in range(n_cells):
            cells[j] *= scale


@jit
def sample_unvisited(shapes: Floats, rng: np.random.Generator, cells: Floats) -> None:
    """Draw a row whose parameters `shapes` `(S,)` may all be tiny into `cells` `(S,)`."""
    top = -math.inf
    for j in range(len(shapes)):
        log = 0.0
        if shapes[j] < 1.0:
            log = -rng.standard_exponential() / shapes[j] if shapes[j] > 0.0 else -math.inf
        cells[j] = log
        if log > top:
            top = log
    total = 0.0
    for j in range(len(shapes)):
        x = math.exp(cells[j] - top)
        if x > 0.0:
            x *= rng.standard_gamma(shapes[j] if shapes[j] >= 1.0 else 1.0 + shapes[j])
        cells[j] = x
        total += x
    for j in range(len(shapes)):
        cells[j] /= total


@jit
def mean_dense(alpha: Floats, out: Floats) -> None:
    """Put the posterior mean of every transition row into `out` `(S*A, S)`."""
    for row in range(len(alpha)):
        total = 0.0
        for j in range(alpha.shape[1]):
            total += alpha[row, j]
        for j in range(alpha.shape[1]):
            out[row, j] = alpha[row, j] / total
