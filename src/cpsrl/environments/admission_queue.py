"""Admission control of an M/M/1 queue, uniformised."""

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import check_room, checked_number, checked_whole

REJECT, ADMIT = 0, 1


def queue(
    capacity: int = 20,
    arrival_rate: float = 0.8,
    service_rate: float = 1.0,
    admission_reward: float = 1.0,
    holding_cost: float = 0.2,
) -> TabularMDP:
    """An M/M/1 queue whose arrivals are admitted or rejected, for a reward and a waiting cost.

    Customers arrive at rate l = `arrival_rate` and are served at rate m = `service_rate`. An
    admitted customer pays R = `admission_reward`; each customer in the system costs
    C = `holding_cost` per unit of time. Naor (1969), "The regulation of queue size by levying
    tolls". State n: the number in the system, from 0, the start, to `capacity`, where every
    arrival is lost. The action says what happens to the next arrival.

    Uniformised at rate l + m (Lippman 1975): a step lasts 1/(l + m) on average and is an arrival
    with probability l/(l + m), else a service, idle when the system is empty. The reward of a step
    is the expected one, (l R 1{admitted} - C n) / (l + m).

    The optimal policy admits below a threshold, so the exact optimal gain per step is the largest,
    over k = 1..`capacity`, of (l R (1 - p_k) - C L_k) / (l + m), with p_n proportional to
    (l/m)^n, n = 0..k, and L_k its mean (or 0, from never admitting). With the defaults
    k = 2 and the gain is 128/549.

    Args:
        capacity: how many customers there is room for.
        arrival_rate: arrivals in a unit of time.
        service_rate: services in a unit of time.
        admission_reward: what an admitted customer pays.
        holding_cost: what each customer costs in a unit of time.
    """
    capacity = checked_whole("capacity", capacity, 1)
    arrival = checked_number("arrival_rate", arrival_rate, 0.0, open=True)
    service = checked_number("service_rate", service_rate, 0.0, open=True)
    reward = checked_number("admission_reward", admission_reward)
    cost = checked_number("holding_cost", holding_cost, 0.0)
    total = arrival + service
    check_room("the transitions", capacity + 1, 2, capacity + 1)
    n = np.arange(capacity + 1)
    transitions = np.zeros((capacity + 1, 2, capacity + 1))
    transitions[n, :, np.maximum(n - 1, 0)] = service / total
    transitions[n, REJECT, n] += arrival / total
    transitions[n, ADMIT, np.minimum(n + 1, capacity)] += arrival / total
    rewards = np.repeat(-cost * n[:, None] / total, 2, axis=1)
    rewards[:-1, ADMIT] += arrival * reward / total
    return TabularMDP(transitions, rewards, action_names=("reject", "admit"))
