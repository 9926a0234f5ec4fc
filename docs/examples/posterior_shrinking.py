"""A posterior that shrinks: draws of two transition probabilities after 100 to 10,000 steps.

The agent is Continuing PSRL on RiverSwim. It learns what it needs: the right action at the right
bank is tried thousands of times, and the left one there hardly ever, so
its probability stays unknown.

    python docs/examples/posterior_shrinking.py       # writes posterior_shrinking.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import cpsrl
from cpsrl.documents.figures import COLOURS, style

RIVER = cpsrl.environment("riverswim")
LAST = RIVER.n_states - 1
PLACES = {"right at the right bank": (LAST, 1, LAST), "left at the right bank": (LAST, 0, LAST - 1)}


def main(most=10_000, draws=400):
    """Let an agent learn for `most` steps, and look at its belief on the way."""
    agent, world = cpsrl.start(cpsrl.ContinuingPSRL(), RIVER, seed=2), RIVER.simulator(seed=2)
    moments, rng, seen = (most // 100, most // 10, most), np.random.default_rng(0), {}
    for t in range(1, most + 1):
        state = world.state
        action = agent.act(state)
        reward, after = world.step(action)
        agent.observe(state, action, reward, after)
        if t in moments:
            seen[t] = np.array([agent.belief.sample(rng).dense for _ in range(draws)])
    with style():
        figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.2), layout="constrained", sharey=True)
        for ax, (name, place) in zip(axes, PLACES.items(), strict=True):
            for colour, (t, models) in zip(COLOURS, seen.items(), strict=False):
                values = np.sort(models[(slice(None), *place)])
                ax.plot(values, np.linspace(0, 1, draws), color=colour, label=f"{t:,} steps")
                print(f"{name}, {t:,} steps: {values.mean():.3f}, sd {values.std():.3f}")
            ax.axvline(RIVER.dense[place], color="#777777", linewidth=1, linestyle=":")
            ax.set(title=name, xlabel="probability (dotted: true)", xlim=(-0.02, 1.02))
        axes[0].set_ylabel("share of draws below")
        axes[1].legend(loc="center left", bbox_to_anchor=(0.1, 0.4))
        figure.savefig("posterior_shrinking.png")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
