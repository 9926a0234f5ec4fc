"""Inventory control with lost sales."""

import numpy as np
import scipy

from cpsrl.mdp import TabularMDP
from cpsrl.support.checks import check_room, checked_number, checked_whole


def inventory(
    capacity: int = 20,
    demand: float = 5.0,
    price: float = 1.0,
    unit_cost: float = 0.5,
    holding_cost: float = 0.05,
    order_cost: float = 1.0,
) -> TabularMDP:
    """A shop that orders every evening and loses the sales it has no stock for.

    In the evening s units are in stock, 0..`capacity`, and a are ordered; what exceeds `capacity`
    is not delivered, so that x = min(s + a, capacity) are there in the morning. The day's demand D
    is Poisson with mean `demand`; min(D, x) is sold, the rest of the demand is lost, and
    (x - D)^+ stays. The reward of a day is its expectation

        price E[min(D, x)] - unit_cost (x - s) - holding_cost s - order_cost 1{x > s}.

    Transitions are exact: the whole tail P(D >= x) goes to an empty shop. Starts empty.
    Puterman (1994), "Markov Decision Processes", section 3.2; with lost sales as in Szepesvari
    (2010), "Algorithms for Reinforcement Learning". With the defaults the optimal gain is
    1.7572135376, by ordering up to 17 when at most 3 are left.

    Args:
        capacity: how many units there is room for.
        demand: the mean demand of a day.
        price: of a sold unit.
        unit_cost: of an ordered unit.
        holding_cost: of a unit that is in stock in the evening.
        order_cost: of an order, whatever its size.
    """
    capacity = checked_whole("capacity", capacity, 1)
    mean = checked_number("demand", demand, 0.0, open=True)
    price, unit_cost = checked_number("price", price), checked_number("unit_cost", unit_cost, 0.0)
    holding, fixed = (
        checked_number("holding_cost", holding_cost, 0.0),
        checked_number("order_cost", order_cost, 0.0),
    )

    check_room("the transitions", capacity + 1, capacity + 1, capacity + 1)
    units = np.arange(capacity + 1)
    more = scipy.special.pdtrc(units, mean)
    at_least = np.concatenate(([1.0], more[:-1]))
    exactly = np.diff(scipy.special.pdtr(units, mean), prepend=0.0)
    exactly = np.where(units > mean, at_least - more, exactly)  # in the tail that is the smaller
    left_over = np.zeros((capacity + 1, capacity + 1))
    for x in units:
        left_over[x, 0] = at_least[x]
        left_over[x, 1 : x + 1] = exactly[:x][::-1]
    sold = np.cumsum(at_least) - 1.0

    stock = units[:, None]
    morning = np.minimum(stock + units[None, :], capacity)
    bought = morning - stock
    rewards = price * sold[morning] - unit_cost * bought - holding * stock - fixed * (bought > 0)
    return TabularMDP(left_over[morning], rewards)
