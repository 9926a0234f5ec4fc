"""Transitions of a kind that is learned for each action: deterministic or not.

The model, in the terms of `kinds`. The pairs of an action are a group, of the share w_a. A
deterministic row has one successor, s' with the prior's mean probability alpha(s') / alpha_0,
alpha_0 = sum alpha; a noisy row is Dirichlet(alpha). So the first visit is alike for both, and of n
visits that all led to s' a noisy row has made those after the first so with the chance

    q = prod_(1 <= i < n) (alpha(s') + i) / (alpha_0 + i),      about 1/n for alpha_0 = 1.

All that is exact Bayes: the posterior of a row is a mixture of its one successor, if it has had
only one, and of Dirichlet(alpha + counts). Actions are apart because on a river, say, 'left' is
sure and 'right' is not; a share for all would say of every 'right' that stayed that it may be sure.

Draws that are sharpened (`sharpness`) take rows that were never visited as noisy ones. That has the
same mean, and a model without any noise, such as most are at first, would be periodic, with many
closed classes, and take a hundred times as long to plan in.

Where evidence fades (`forgetting`), n is a sum of weights. The kind of a row with an n below 1 is
that of one visit with the chance n, and that of none otherwise; a successor with less than RARE of
a row's weight is none.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cpsrl._private.compile import leaf
from cpsrl._private.variates import Words, uniform
from cpsrl.beliefs.kinds import draw_share, plain_chances, share_facts
from cpsrl.support.types import Floats, Ints

RARE = 1e-9
NOISY, KNOWN, NEW = range(3)


class RowKinds(NamedTuple):
    """Room for what draws find out about the kinds; empty where they are not learned."""

    repeated: Floats
    """`(S*A,)` q of each row (see `kinds`)"""
    only: Ints
    """`(S*A,)` the one successor of a row that has had only one"""
    shares: Floats
    """`(A,)` the w_a drawn"""


def row_kinds(rows: int, n_actions: int) -> RowKinds:
    """Return room for so many rows."""
    return RowKinds(np.zeros(rows), np.zeros(rows, np.int64), np.zeros(n_actions))


def copied(kinds: RowKinds) -> RowKinds:
    """Return room of one's own."""
    return RowKinds(kinds.repeated.copy(), kinds.only.copy(), kinds.shares.copy())


UNLEARNED = row_kinds(0, 0)


@leaf
def repeated_chance(n: float, alpha: float, total: float) -> float:
    """Return q after n visits, alpha(s') being `alpha` and alpha_0 `total`."""
    if n <= 1.0:
        return 1.0
    log = math.lgamma(alpha + n) - math.lgamma(alpha + 1.0)
    return math.exp(log - math.lgamma(total + n) + math.lgamma(total + 1.0))


@leaf
def draw_shares(kinds: RowKinds, words: Words) -> None:
    """Draw every w_a."""
    for action in range(len(kinds.shares)):
        kinds.shares[action] = draw_share(kinds.repeated, action, len(kinds.shares), words)


@leaf
def draw_kind(kinds: RowKinds, row: int, n: float, exact: bool, words: Words) -> int:
    """Draw whether a row visited n times is NOISY, or leads to its KNOWN or to a NEW successor.

    Only an `exact` draw has NEW ones.
    """
    w, q = kinds.shares[row % len(kinds.shares)], kinds.repeated[row]
    if n <= 0.0 or (n < 1.0 and uniform(words) >= n):
        return NEW if exact and uniform(words) < w else NOISY
    return KNOWN if q > 0.0 and uniform(words) * (w + (1.0 - w) * q) < w else NOISY


@leaf
def noisy_chance(kinds: RowKinds, row: int, n: float) -> float:
    """Return P(noisy) of a row visited n times for the w_a drawn; 1 where kinds are not learned."""
    if len(kinds.repeated) == 0 or n <= 0.0 or kinds.repeated[row] <= 0.0:
        return 1.0
    w, q = kinds.shares[row % len(kinds.shares)], kinds.repeated[row]
    return (1.0 - w) * q / (w + (1.0 - w) * q)


def mean_kinds(kinds: RowKinds, visits: Any) -> tuple[Any, Any]:
    """Return the posterior means `(S*A,)` of KNOWN and of NEW, after so many visits."""
    known, new = np.zeros((2, len(kinds.repeated)))
    for action in range(len(kinds.shares)):
        rows = slice(action, None, len(kinds.shares))
        known[rows] = plain_chances(kinds.repeated[rows])
        new[rows] = share_facts(kinds.repeated[rows])["mean"]
    seen = np.minimum(visits, 1.0)
    return known * seen, new * (1.0 - seen)


def with_rows(facts: dict[str, Any], kinds: RowKinds | None) -> dict[str, Any]:
    """Return facts with the mean and 95% interval of every w_a beside the other parameters."""
    if kinds is None:
        return facts
    n_actions = len(kinds.shares)
    shares = {
        f"share of deterministic pairs, action {action}": share_facts(
            kinds.repeated[action::n_actions]
        )
        for action in range(n_actions)
    }
    return facts | {"parameters": facts.get("parameters", {}) | shares}
