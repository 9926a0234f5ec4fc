"""Reward centring as published: with it, neither a constant added to rewards nor gamma matters.

    python benchmarks/centring.py            about ten minutes on a core
    python benchmarks/centring.py --quick    a minute

Discounted Q-learning with and without centring (Naik, Wan, Tomar and Sutton 2024, "Reward
Centering"), on the problems, offsets and discount factors of the authors' public configurations
(`continuing-rl-exps`): access-control with offsets from -8 to 8, Catch from -4 to 4, the pendulum
from -12 to 12. Catch and the pendulum are tables here, a board of 4 x 5 and a grid of 25 x 17
places with linear interpolation, where the authors use tile coding. alpha = .125 for access-control
and .25 for the others, eta = 1/16 and epsilon = .1; alpha and eta are among the values that they
sweep. The reward rate begins at the first reward, which their correction of its first steps does,
too. The rate is that of the second half of a run, less the offset; what is lost is counted
against the gain, in units of what a random policy loses.

It holds if, with centring, what is lost differs by at most `WITHIN` over offsets for every gamma
from .9 on, and over these gammas for every offset; and if, without, some offset costs at least
`DEGRADED` more than another. Both were said before the first run.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

import cpsrl
from cpsrl.agents import DifferentialQLearning, RandomAgent
from cpsrl.mdp import TabularMDP
from cpsrl.planning import solve_average
from cpsrl.simulation import simulate

GAMMAS = (0.9, 0.99, 0.999, 1.0)
WITHIN, DEGRADED = 0.1, 0.2


def pendulum(angles: int = 25, speeds: int = 17) -> TabularMDP:
    """Gymnasium's pendulum with three torques, on a grid of places that share a point's chance."""
    dt, most = 0.05, 8.0
    angle = -np.pi + 2 * np.pi * np.arange(angles) / angles
    speed = np.linspace(-most, most, speeds)
    P, r = np.zeros((angles * speeds, 3, angles * speeds)), np.zeros((angles * speeds, 3))
    for i, th in enumerate(angle):
        for j, om in enumerate(speed):
            for a, torque in enumerate((-2.0, 0.0, 2.0)):
                s, now, later = i * speeds + j, th, om
                for _ in range(4):  # a place is wide: four of Gymnasium's steps
                    r[s, a] -= (now**2 + 0.1 * later**2 + 0.001 * torque**2) / 4
                    later = np.clip(later + dt * (15 * np.sin(now) + 3 * torque), -most, most)
                    now = (now + dt * later + np.pi) % (2 * np.pi) - np.pi
                x, y = (now + np.pi) / (2 * np.pi) * angles, (later + most) / (2 * most)
                y = min(y * (speeds - 1), speeds - 1.000001)
                for place, chance in ((int(x), 1 - x % 1), (int(x) + 1, x % 1)):
                    row = place % angles * speeds + int(y)
                    P[s, a, row] += chance * (1 - y % 1)
                    P[s, a, row + 1] += chance * (y % 1)
    return TabularMDP(P, r, initial=speeds // 2, name="pendulum on a grid")


def problems() -> dict[str, tuple[TabularMDP, float, int, tuple[int, ...]]]:
    """Return every problem with its step size, its steps and its offsets."""
    catch = cpsrl.environment("catch", rows=4, columns=5)
    return {
        "access-control": (cpsrl.environment("access-control"), 0.125, 50_000, (-8, -4, 0, 4, 8)),
        "catch": (catch, 0.25, 20_000, (-4, -2, 0, 2, 4)),
        "pendulum": (pendulum(), 0.25, 100_000, (-12, -6, 0, 6, 12)),
    }


def rate(agent: object, mdp: TabularMDP, steps: int, seeds: int) -> float:
    """Return the mean reward of the second half of the runs."""
    runs = simulate(agent, mdp, steps, seeds=seeds, record=steps // 2)
    gained = solve_average(mdp).gain[0] * runs.times - runs.regret.mean(axis=0)
    return float((gained[-1] - gained[-2]) / (runs.times[-1] - runs.times[-2]))


def losses(name: str, seeds: int, shorter: int = 1) -> dict[bool, np.ndarray]:
    """Return what is lost `(gammas, offsets)` with and without centring, 1 for a random policy."""
    mdp, alpha, steps, offsets = problems()[name]
    gain = solve_average(mdp).gain[0]
    chance = gain - rate(RandomAgent(), mdp, steps // shorter, seeds)
    found = {True: np.zeros((len(GAMMAS), len(offsets)))}
    found[False] = found[True].copy()
    for j, offset in enumerate(offsets):
        moved = replace(mdp, rewards=mdp.rewards + offset)
        for i, gamma in enumerate(GAMMAS):
            for centred, table in found.items():
                begins = {"eta": 1 / 16, "rate": "first"} if centred else {"eta": 0.0, "rate": 0.0}
                agent = DifferentialQLearning(alpha, gamma=gamma, **begins)
                own = rate(agent, moved, steps // shorter, seeds) - offset
                table[i, j] = (gain - own) / chance
    return found


def verdict(found: dict[bool, np.ndarray]) -> tuple[float, float, float]:
    """Return the spreads over offsets and over gammas with centring, and over offsets without."""
    over_offsets = {centred: np.ptp(table, axis=1).max() for centred, table in found.items()}
    return over_offsets[True], float(np.ptp(found[True], axis=0).max()), over_offsets[False]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="runs of every agent")
    parser.add_argument("--quick", action="store_true", help="two runs, a fifth of the steps")
    parser.add_argument("--only", choices=list(problems()), help="one problem")
    options = parser.parse_args()
    for name, (_, _, _, offsets) in problems().items():
        if options.only not in (None, name):
            continue
        began = time.perf_counter()
        found = losses(name, 2 if options.quick else options.seeds, 5 if options.quick else 1)
        print(f"\n{name}: lost of what a random policy loses, by gamma and offset")
        for centred, table in found.items():
            print(
                f"\n| {'centred' if centred else 'not centred'} | " + " | ".join(map(str, offsets)),
                "|",
            )
            print("| --- |" + " ---: |" * len(offsets))
            for gamma, row in zip(GAMMAS, table, strict=True):
                print(f"| {gamma:g} | " + " | ".join(f"{x:.2f}" for x in row) + " |")
        offset, gamma, without = verdict(found)
        held = max(offset, gamma) <= WITHIN and without >= DEGRADED
        print(f"\ncentred: {offset:.2f} over offsets, {gamma:.2f} over gammas (at most {WITHIN}); ")
        print(f"not centred: {without:.2f} over offsets (at least {DEGRADED}): ", end="")
        print(f"{'HELD' if held else 'FAILED'}, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
