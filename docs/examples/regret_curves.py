"""Regret of three agents on RiverSwim: the mean over runs, with 95% bands.

They differ in when a model is drawn. On logarithmic axes a slope of 1 would be linear regret, and
the grey lines show the growth of t and of its square root.

    python docs/examples/regret_curves.py             # writes regret_curves.png
"""

import sys

import matplotlib.pyplot as plt

import cpsrl
from cpsrl.documents.figures import regret_curves, style

AGENTS = (cpsrl.ContinuingPSRL(gamma=0.99), cpsrl.TSDE(), cpsrl.DSPSRL())


def main(steps=50_000, seeds=50):
    """Simulate, and draw."""
    experiment = cpsrl.Experiment("curves", ("riverswim",), AGENTS, steps, seeds, record="log")
    cpsrl.run_experiment(experiment, "curves")
    runs = cpsrl.load("curves")
    for agent in runs.agents:
        print(f"{agent}: {cpsrl.statistics.mean(runs.select(agent).regret[:, -1])}")
    with style():
        figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        regret_curves(ax, runs, logarithmic=True)
        figure.savefig("regret_curves.png")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
