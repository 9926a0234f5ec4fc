"""Dirichlet belief about the transition rows, all cells drawn.

Row s*A + a of `alpha` `(S*A, S)` holds the prior plus the counts of the successors; cells with
alpha = 0 are impossible. A row is drawn as independent Gamma(alpha_j) variates over their sum.

Most cells keep the prior's small shape for ever; `gamma` says how these are drawn. A variate below
FLUSH counts as 0: where the parameters of a row sum to 1 or more, as they do once it was visited,
the variates sum to less than z with probability z at most.

Where the parameters have a smaller sum, all variates may underflow, and they are drawn as
logarithms. For shapes a < 1, Gamma(a) has the law of Gamma(1 + a) U^(1/a), and

    x_j = G_j exp(L_j),   L_j = 0 and G_j ~ Gamma(alpha_j)                  if alpha_j >= 1,
                          L_j = -E_j / alpha_j and G_j ~ Gamma(1 + alpha_j) otherwise,

is divided by exp(max L), which leaves the shares as they are: no row is ever all zeros.
"""

import math

import numpy as np

from cpsrl._compile import jit
from cpsrl.beliefs.gamma import LAYERS, SmallGamma, draw_beside, draw_gamma, raised
from cpsrl.types import Floats, Ints

FLUSH = 2e-22
ENOUGH = 1 - 1e-9  # 1 but for rounding


@jit
def sample_dense(
    alpha: Floats, visits: Ints, small: SmallGamma, rng: np.random.Generator, out: Floats
) -> None:
    """Draw every transition row into `out` `(S*A, S)`.

    Args:
        alpha: `(S*A, S)` Dirichlet parameters; every row has a positive one.
        visits: `(S*A,)` how often each row was visited.
        small: the shape of most cells that were not observed.
        rng: where the variates come from.
        out: `(S*A, S)`.
    """
    common, power, widths, heights = small.shape, small.power, small.widths, small.heights
    for row in range(len(alpha)):
        shapes, cells = alpha[row], out[row]
        if visits[row] == 0 and shapes.sum() < ENOUGH:
            sample_in_logs(shapes, rng, cells)
            continue
        total = 0.0
        for j in range(len(shapes)):
            a = shapes[j]
            if a == common:
                # The ziggurat of `gamma`, here because a call would take longer than the draw.
                x = -1.0
                while x < 0.0:
                    v = LAYERS * rng.random()
                    i = int(v)
                    y = (v - i) * widths[i]
                    if y < widths[i + 1]:
                        x = raised(y, power)
                    else:
                        x = draw_beside(i, y, common, power, heights, rng)
            else:
                x = draw_gamma(a, rng)
            if x <= FLUSH:
                x = 0.0
            cells[j] = x
            total += x
        scale = 1.0 / total
        for j in range(len(shapes)):
            cells[j] *= scale


@jit
def sample_in_logs(shapes: Floats, rng: np.random.Generator, cells: Floats) -> None:
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
