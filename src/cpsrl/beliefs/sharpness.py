"""Counts that weigh more than they are worth: draws that explore less than the posterior's.

A draw of a model takes every row by itself, and the best policy of it is best among many sums of
independent errors: its value is too high by what the luckiest of them adds. Each visit to a row
takes away little of that, so that posterior sampling looks at every row again and again, long after
the loss that could be hidden there is smaller than the cost of looking. On problems of some dozens
to hundreds of rows, 10,000 steps are too few for that to pay.

Sharpness k makes the draws narrower. Of n visits to a row those beyond the first c count k times,

    counts N(s') -> f N(s'),   f = (c + k (n - c)) / n   for n > c, else 1,

and the prior's parameters as they are: the variance of a drawn probability falls about k times
faster from there on, and so does the share of the successors that were never seen. The first
visits count once, because a few can mislead: where the way up a river shows once in three tries, a
row that is believed after two is given up.

This is a power of the likelihood, a tempered ("cold") posterior and not a posterior: its draws say
what to try, not how sure the belief is. `exact` of a live belief draws from the posterior. k = 1 is
the posterior itself, bit for bit.
"""

from cpsrl._private.compile import inlined
from cpsrl.support.types import Floats

EXACT = (1.0, 0.0)
"""k and c of draws from the posterior."""


@inlined
def weight_of(visits: float, sharp: Floats) -> float:
    """Return f for a row with so many visits; `sharp` `(2,)` is k and c."""
    after = sharp[1]
    if sharp[0] == 1.0 or visits <= after:
        return 1.0
    return (after + sharp[0] * (visits - after)) / visits
