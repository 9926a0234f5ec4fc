"""The access-control queuing task of Sutton and Barto."""

from collections.abc import Sequence
from math import comb

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import checked_number, checked_whole

REJECT, ACCEPT = 0, 1
MOST_SERVERS = 1000
"""Larger binomial coefficients are no floats."""


def access_control(
    servers: int = 10,
    priorities: Sequence[float] = (1, 2, 4, 8),
    free_probability: float = 0.06,
) -> TabularMDP:
    """Servers shared by customers of different priorities: accept the one at the head, or not.

    Sutton and Barto (2018), "Reinforcement Learning: An Introduction", example 10.2. At every step
    the customer at the head of an endless queue is accepted, which pays its priority and takes a
    server, or rejected; without a free server it is always rejected. Then every busy server, the
    one just taken included, becomes free with probability `free_probability`, and the next
    customer's priority is uniform on `priorities`.

    State `free * len(priorities) + i`: `free` servers and a customer of priority i. Starts with
    all servers free and a customer drawn at random. With the defaults the exact optimal gain is
    2.7476419506; the book's 2.31 is the estimate of its learner, which explores and approximates.

    Args:
        servers: how many servers.
        priorities: what customers pay, each as likely.
        free_probability: the probability that a busy server becomes free in a step.
    """
    servers = checked_whole("servers", servers, 1, most=MOST_SERVERS)
    p = checked_number("free_probability", free_probability, 0.0, 1.0)
    if not isinstance(priorities, Sequence) or isinstance(priorities, str) or not priorities:
        raise ValueError(f"priorities must be a list of numbers, not {priorities!r}")
    pay = np.array(
        [checked_number(f"priorities[{i}]", value) for i, value in enumerate(priorities)]
    )
    kinds = len(pay)
    if len(set(pay)) < kinds:
        raise ValueError(f"priorities must differ from each other, not be {priorities!r}")

    # freed[f, g]: the probability that f free servers are g after the busy ones had their chance
    freed = np.zeros((servers + 1, servers + 1))
    for free in range(servers + 1):
        busy = servers - free
        for k in range(busy + 1):
            freed[free, free + k] = comb(busy, k) * p**k * (1.0 - p) ** (busy - k)

    after = np.empty((servers + 1, 2), dtype=np.int64)
    after[:, REJECT] = np.arange(servers + 1)
    after[:, ACCEPT] = np.maximum(np.arange(servers + 1) - 1, 0)
    n = (servers + 1) * kinds
    transitions = np.empty((servers + 1, kinds, 2, servers + 1, kinds))
    transitions[:] = freed[after][:, None, :, :, None] / kinds
    rewards = np.zeros((servers + 1, kinds, 2))
    rewards[1:, :, ACCEPT] = pay
    initial = np.zeros((servers + 1, kinds))
    initial[-1] = 1.0 / kinds
    return TabularMDP(
        transitions.reshape(n, 2, n),
        rewards.reshape(n, 2),
        initial=initial.ravel(),
        state_names=[
            f"{free} free, priority {value}" for free in range(servers + 1) for value in priorities
        ],
        action_names=("reject", "accept"),
    )
