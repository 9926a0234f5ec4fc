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

One thing is looked for longer: states never left, of a problem that says how many states it has.
Where a river of fifty states has shown 47 of them, a row of n visits leaves the other three 3/50 of
a share of 1 / (1 + f n), and no draw swims that far. But every state of a problem can be reached,
as a rule. So each draw supposes that one state s' never left, chosen at random, is reached from the
pair (s, a) of a state left before of which that is most probable,

    argmax P(noisy | data) alpha(s') / (alpha_0 + f n),    noisy as in `row_kinds`,

and gives it c visits more that led to s'. A pair chosen at random in place of the most probable one
would be another in each draw, and what one draw sets out for, the next would turn away from.

The former is a power of the likelihood, a tempered ("cold") posterior, and with the latter no
posterior at all: draws say what to try, not how sure the belief is. `exact` of a live belief draws
from the posterior. k = 1 is the posterior itself, bit for bit.
"""

from cpsrl._private.compile import inlined, leaf
from cpsrl._private.variates import Words, uniform
from cpsrl.support.types import Floats, Ints

EXACT = (1.0, 0.0)
"""k and c of draws from the posterior."""


@inlined
def weight_of(visits: float, sharp: Floats) -> float:
    """Return f for a row with so many visits; `sharp` `(2,)` is k and c."""
    after = sharp[1]
    if sharp[0] == 1.0 or visits <= after:
        return 1.0
    return (after + sharp[0] * (visits - after)) / visits


@leaf
def never_left(visits: Ints, state: int, n_actions: int) -> bool:
    """Return whether no pair of a state was visited; `visits` `(S*A,)`."""
    total = 0.0
    for row in range(state * n_actions, (state + 1) * n_actions):
        total += visits[row]
    return total <= 0.0


@leaf
def draw_never_left(visits: Ints, n_actions: int, words: Words) -> int:
    """Draw one of the states never left; -1 where there is none."""
    chosen, n = -1, 0
    for state in range(len(visits) // n_actions):
        if never_left(visits, state, n_actions):
            n += 1
            if n == 1 or uniform(words) * n < 1.0:
                chosen = state
    return chosen


@leaf
def likelier(
    best: tuple[float, int, int], share: float, row: int, words: Words
) -> tuple[float, int, int]:
    """Return the best share so far, a row that has it, drawn among all, and how many do."""
    most, chosen, ties = best
    if share > most:
        return share, row, 1
    if share == most and share > 0.0:
        ties += 1
        if uniform(words) * ties < 1.0:
            chosen = row
    return most, chosen, ties
