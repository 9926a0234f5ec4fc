"""Stepping our environments through Gymnasium: a vector environment against a Python loop.

    python benchmarks/gym.py            a few seconds

A copy-step is one step of one copy. The loop steps one environment, as `gymnasium.make` gives it
and bare; the vector environments are ours, which steps all copies in one call of compiled code, and
Gymnasium's own `SyncVectorEnv`. The rivals take turns; processor time, medians of the rounds.
"""

import statistics
import time

import gymnasium
import numpy as np

COPIES, ROUNDS = 1000, 5


def loop(env, steps):
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=steps).tolist()
    began = time.process_time()
    for action in actions:
        env.step(action)
    return (time.process_time() - began) / steps


def vector(envs, steps):
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(
        envs.single_action_space.n, size=(steps, envs.num_envs)
    )
    envs.step(actions[0])
    began = time.process_time()
    for row in actions:
        envs.step(row)
    return (time.process_time() - began) / steps / envs.num_envs


def main():
    print(f"ns a copy-step, {COPIES:,} copies; the ratio is that of the loop as made to ours")
    print(f"{'environment':<24}{'loop':>10}{'loop, bare':>12}{'Sync':>10}{'ours':>8}{'ratio':>8}")
    for name in ("RiverSwim", "GridWorld", "Queue", "Inventory", "AccessControl"):
        made = gymnasium.make(f"cpsrl.gym:cpsrl/{name}-v0")
        ours = gymnasium.make_vec(f"cpsrl.gym:cpsrl/{name}-v0", num_envs=COPIES)
        theirs = gymnasium.make_vec(
            f"cpsrl.gym:cpsrl/{name}-v0", num_envs=50, vectorization_mode="sync"
        )
        rounds = [
            (loop(made, 5000), loop(made.unwrapped, 5000), vector(theirs, 50), vector(ours, 1000))
            for _ in range(ROUNDS)
        ]
        a, b, c, d = (1e9 * statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:<24}{a:>10,.0f}{b:>12,.0f}{c:>10,.0f}{d:>8.1f}{a / d:>8.0f}")


if __name__ == "__main__":
    main()
