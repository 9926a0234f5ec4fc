"""A shop that has a file of past sales: an inventory learnt from the file first, then on line.

For years somebody filled the shelf up when 2 or fewer were left, and on some days
did something else; the file says what was in stock, what was ordered, what was earned. An agent
that reads the file begins where another one, which begins from nothing, is after as many days. What
the past policy was, or how often it did what, need not be known. The optimal gain is believed too
high as long as orders are left that were seldom tried: the best of what is still possible is better
than what is. The interval is one for shops as the prior expects them, and this is a poorer one; it
comes down to the truth from above.

    python examples/inventory_from_sales.py     # writes inventory.png, in well under a minute
"""

import csv
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cpsrl
from cpsrl.documents.figures import COLOURS, style

SHOP = cpsrl.environment("inventory", capacity=6, demand=2.0)
STATES = [f"{n} left" for n in range(7)]
ACTIONS = [f"order {n}" for n in range(7)]
PROBLEM = (STATES, ACTIONS, SHOP.reward_range)
REWARDS = cpsrl.NormalGamma(mu0=0.5, tau0=16.0, n_tau=10.0)
"""What is believed of rewards before any came, in units of their range: hardly any noise."""


def write_past_sales(path, days):
    """Write what the shop did before: rules of thumb, not all of them good ones."""
    world, rng = SHOP.simulator(seed=5), np.random.default_rng(6)
    with open(path, "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["state", "action", "reward", "next_state"])
        for _ in range(days):
            stock = world.state
            order = 6 - stock if stock <= 2 else 0
            if rng.random() < 0.3:
                order = int(rng.integers(7))
            reward, after = world.step(order)
            lines.writerow([STATES[stock], ACTIONS[order], reward, STATES[after]])


def run(agent, days):
    """Let an agent run the shop; return the reward of each day."""
    world, rewards = SHOP.simulator(seed=7), np.zeros(days)
    for day in range(days):
        state = STATES[world.state]
        action = agent.act(state)
        rewards[day], after = world.step(ACTIONS.index(action))
        agent.observe(state, action, float(rewards[day]), STATES[after])
    return rewards


def main(days=1000, past=3000, out="inventory.png"):
    """Compare an agent that has read `past` days of sales with one that has not, for `days`."""
    gain = cpsrl.solve_average(SHOP).gain[0]
    spec = cpsrl.ContinuingPSRL(0.98, belief=cpsrl.Dirichlet(rewards=REWARDS))
    regret, known = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        sales = Path(folder) / "sales.csv"
        write_past_sales(sales, past)
        for name in ("without the past", "with the past"):
            path = Path(folder) / f"{name}.db"
            with cpsrl.open(path, spec, PROBLEM, durability="group", seed=1) as agent:
                if name == "with the past":
                    known["before"] = agent.explain("0 left", 199).gain
                    print(agent.learn(sales), "and again:", agent.learn(sales), sep="\n  ")
                    known["the file"] = agent.explain("0 left", 199).gain
                regret[name] = np.cumsum(gain - run(agent, days))
                if name == "with the past":
                    known["on line"] = agent.explain("0 left", 199).gain
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for name, colour in zip(regret, COLOURS[1::-1], strict=True):
            left.plot(regret[name], color=colour, label=name)
        left.set(xlabel="day", ylabel="regret", title="Against the exact optimum")
        left.legend()
        for place, (name, found) in enumerate(known.items()):
            right.plot([place] * 2, [found.low, found.high], color=COLOURS[0], linewidth=4)
            right.plot(place, found.median, "o", color="white", markeredgecolor=COLOURS[0])
            right.annotate(
                name, (place, found.high), (0, 4), textcoords="offset points", ha="center"
            )
        right.axhline(gain, color=COLOURS[2], linewidth=1, label=f"truth, {gain:.3f}")
        right.set(xticks=[], ylabel="optimal gain", title="What it knows: 95% intervals")
        right.set(xlim=(-0.6, 2.6))
        right.margins(y=0.15)
        right.legend(loc="upper right")
        figure.savefig(out, dpi=150)
        plt.close(figure)
    for name, curve in regret.items():
        print(f"regret after {days} days {name}: {curve[-1]:.0f}")
    return regret, known


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
