"""What planning with gamma loses: the gain of the best gamma-optimal policy, against gamma.

0 is the uniformly random policy, 1 the optimal one. Each curve is exact and ends in a step to 1, at
the gamma that is large enough for the problem.

    python docs/examples/gain_against_gamma.py        # writes gain_against_gamma.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import cpsrl
from cpsrl.documents.figures import look, style
from cpsrl.planning import gain_and_bias, sufficient_gamma

PROBLEMS = {
    "riverswim (osband)": cpsrl.environment("riverswim"),
    "riverswim (tsde)": cpsrl.environment("riverswim", variant="tsde"),
    "access control": cpsrl.environment("access-control"),
    "machine replacement": cpsrl.environment("replacement"),
}


def uniform(mdp):
    """Return the gain of choosing uniformly among all actions."""
    one = cpsrl.TabularMDP(
        mdp.dense.mean(axis=1, keepdims=True), mdp.rewards.mean(axis=1, keepdims=True)
    )
    return gain_and_bias(one, np.zeros(mdp.n_states, np.int64))[0][0]


def main(points=60):
    """Draw the curves at `points` gammas."""
    horizons = np.geomspace(1.5, 1000, points)
    looks = look(list(PROBLEMS))
    with style():
        figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        for name, mdp in PROBLEMS.items():
            best = cpsrl.solve_average(mdp)
            low = uniform(mdp)
            gaps = [cpsrl.planning_gap(mdp, 1 - 1 / h, best).gap for h in horizons]
            share = 1 - np.array(gaps) / (best.gain[0] - low)
            ax.step(horizons, share, where="post", label=name, **looks[name])
            print(f"{name}: sufficient from gamma = {sufficient_gamma(mdp).gamma:.5f}")
        ax.set(xscale="log", xlabel="1 / (1 - gamma)", ylabel="share of the optimal gain")
        ax.legend(loc="lower right")
        figure.savefig("gain_against_gamma.png")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
