"""When models are drawn: the resamplings of five rules in one run of 2,000 steps on RiverSwim.

The coin and the fixed length go on for ever at the same rate, the growing coin slows down, doubling
times all but stop, and TSDE looks at the visits.

    python docs/examples/pseudo_episodes.py           # writes pseudo_episodes.png
"""

import sys

import matplotlib.pyplot as plt

import cpsrl
from cpsrl.documents.figures import look, style

RULES = (
    cpsrl.Bernoulli(gamma=0.99),
    cpsrl.Bernoulli(schedule="doubling"),
    cpsrl.FixedLength(100),
    cpsrl.TSDEStops(),
    cpsrl.DoublingTimes(),
)


def main(steps=2_000):
    """Draw a line of marks for every rule."""
    river = cpsrl.environment("riverswim")
    agents = [cpsrl.PSRL(rule, cpsrl.Average()) for rule in RULES]
    looks = look([agent.label for agent in agents])
    with style():
        figure, ax = plt.subplots(figsize=(7.4, 2.6), layout="constrained")
        for row, agent in enumerate(agents):
            runs = cpsrl.simulate(agent, river, steps, seeds=1, resample_times=True)
            (times,) = runs.resample_times
            ax.vlines(
                times, row - 0.35, row + 0.35, color=looks[agent.label]["color"], linewidth=0.8
            )
            print(f"{agent.rule.label}: {len(times)} models drawn")
        ax.set_yticks(range(len(agents)), [agent.rule.label for agent in agents])
        ax.set(xlabel="step", xlim=(0, steps), ylim=(len(agents) - 0.5, -0.5))
        ax.grid(False)
        figure.savefig("pseudo_episodes.png")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
