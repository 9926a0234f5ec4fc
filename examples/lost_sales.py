"""A shop that sells out, and two agents: one knows that an empty shelf hides demand.

Sales are not demand: of a day on which all was sold, only that demand was at least that. An agent
that takes its sales for the demand thinks that few want the goods, orders less, sells out sooner,
and has it confirmed: it goes on losing for ever. `Parametric` weighs such a day with the
probability of all demands that empty the shelf.

    python examples/lost_sales.py               # writes lost_sales.png, in well under a minute
"""

import sys
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

import cpsrl
from cpsrl.beliefs import Parametric
from cpsrl.documents.figures import COLOURS, style
from cpsrl.statistics import mean, mean_band

KNOWN = {"capacity": 10, "unit_cost": 0.7, "holding_cost": 0.4, "order_cost": 0.0}
SHOP = cpsrl.environment("inventory", demand=5.0, **KNOWN)
SHAPE, RATE = 1.0, 0.1
"""The gamma prior of the mean demand, the same for both."""


@dataclass(frozen=True)
class SalesAreDemand(cpsrl.Belief):
    """Poisson demand of which every day's sales are taken for the whole."""

    def start(self, problem):
        """Return the live form."""
        return LiveSales()


class LiveSales:
    """A gamma belief about the mean of the sales."""

    def __init__(self):
        self.posterior = np.array([SHAPE, RATE])

    def observe_many(self, states, actions, rewards, next_states):
        """Count the days and what was sold."""
        sold = np.minimum(states + actions, KNOWN["capacity"]) - next_states
        self.posterior += sold.sum(), len(sold)

    def sample(self, rng):
        """Return the shop whose demand has a mean drawn from the posterior."""
        demand = max(rng.gamma(self.posterior[0]) / self.posterior[1], 1e-9)
        return cpsrl.environment("inventory", demand=demand, **KNOWN)

    def state(self):
        """Return what a new one needs."""
        return {"posterior": self.posterior}

    def restore(self, state):
        """Go on from a state."""
        self.posterior = state["posterior"]


BELIEFS = {
    "sales are demand": SalesAreDemand(),
    "an empty shelf hides demand": Parametric(
        "inventory", {"demand": ("gamma", SHAPE, RATE)}, options=KNOWN
    ),
}


def main(days=10_000, runs=50, seed=17, out="lost_sales.png"):
    """Run both for `days`, draw their regret, and return it by name, `(runs, points)`."""
    regret = {}
    with style():
        figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
        for (name, belief), colour in zip(BELIEFS.items(), COLOURS[1::-1], strict=True):
            agent = cpsrl.ContinuingPSRL(0.99, belief=belief)
            found = cpsrl.simulate(agent, SHOP, days, runs, seed=seed)
            regret[name], band = found.regret, mean_band(found.regret)
            ax.plot(found.times, band.value, color=colour, label=name)
            ax.fill_between(found.times, band.low, band.high, color=colour, alpha=0.2, linewidth=0)
            half = len(found.times) // 2
            since = days - found.times[half]
            late = mean((found.regret[:, -1] - found.regret[:, half]) / since)
            print(f"{name}: regret {mean(found.regret[:, -1])}, a day in the second half {late}")
        ax.set(xlabel="day", ylabel="regret", title="A shop that often sells out")
        ax.legend()
        figure.savefig(out, dpi=150)
        plt.close(figure)
    return regret


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
