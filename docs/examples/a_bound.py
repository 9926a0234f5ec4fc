"""The bound of Theorem 4.1 beside what is measured: three versions of it, T itself, and an agent.

"paper" is as printed, "corrected" what a complete proof gives, "sharp" the same with the narrowest
confidence set. Below the line of T a bound says something. The agent is Continuing PSRL on
RiverSwim.

    python docs/examples/a_bound.py                   # writes a_bound.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import cpsrl
from cpsrl.documents.figures import look, style
from cpsrl.planning import reward_averaging_time
from cpsrl.theory import horizon_gamma, theorem_4_1

VERSIONS = ("paper", "corrected", "sharp")


def main(steps=100_000, seeds=20):
    """Compute the bounds from T = 100 to 1e10, and the regret up to `steps`."""
    river = cpsrl.environment("riverswim")
    S, A = river.n_states, river.n_actions
    best = cpsrl.solve_average(river, bias_optimal=True)
    tau, span = float(reward_averaging_time(river, best.policy)), cpsrl.span(best.bias)
    horizons = np.geomspace(100, 1e10, 60).astype(int).tolist()
    looks = look([*VERSIONS, "measured"])
    with style():
        figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
        for version in VERSIONS:
            totals = [
                theorem_4_1(S, A, T, horizon_gamma(S, A, T), tau, span, version).total
                for T in horizons
            ]
            ax.plot(horizons, totals, label=f"Theorem 4.1, {version}", **looks[version])
            useful = next(T for T, total in zip(horizons, totals, strict=True) if total < T)
            print(f"{version}: below T from about {useful:.1g} steps on")
        agent = cpsrl.ContinuingPSRL(schedule="doubling")
        runs = cpsrl.simulate(agent, river, steps, seeds, record="log")
        mean, late = runs.regret.mean(axis=0), runs.times >= 100
        ax.plot(runs.times[late], mean[late], label=f"measured, {seeds} runs", **looks["measured"])
        ax.plot(horizons, horizons, color="#777777", linewidth=1, label="T")
        print(f"measured at {steps:,} steps: {mean[-1]:.0f}")
        ax.set(xscale="log", yscale="log", xlabel="T", ylabel="regret")
        ax.legend()
        figure.savefig("a_bound.png")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
