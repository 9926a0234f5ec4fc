"""Networks on CartPole and Acrobot that never end: falls and goals per 1,000 steps.

    python benchmarks/control.py [--runs 10] [--steps 50000] [--seed 0] [--out control]

Both tasks are Gymnasium's, under `Continuing` with "same-step"; in CartPole-v1 a fall costs 1
(terminal_reward=-1). Two things are done to them that change no policy's rank: observations are
divided by constants of about their size, and the constant that every ordinary step pays (1 in
CartPole, -1 in Acrobot) is taken off, so that networks that start near 0 need not learn it first.

The agent is bootstrapped DQN with prior functions of scale 1, everything else as by default, and
the same in both tasks. The criterion, set before the runs: in the last tenth of the steps, falls
per 1,000 steps are at most a fifth of the random agent's, goals at least 5 times; the 95%
intervals over runs do not overlap.
"""

import argparse
from functools import partial

import gymnasium
import numpy as np

import cpsrl
from cpsrl import statistics
from cpsrl.documents.figures import label_ends, look, panels, style
from cpsrl.gym import Continuing

TASKS = {
    "CartPole-v1": (-1.0, 1.0, np.array([2.4, 3.0, 0.21, 3.0])),
    "Acrobot-v1": (0.0, -1.0, np.array([1.0, 1.0, 1.0, 1.0, 4 * np.pi, 9 * np.pi])),
}
"""The terminal reward, what every ordinary step pays, and the sizes of the features."""


def scaled(env, sizes):
    space = gymnasium.spaces.Box(-np.inf, np.inf, env.observation_space.shape, np.float32)
    change = lambda seen: (seen / sizes).astype(np.float32)  # noqa: E731
    return gymnasium.wrappers.TransformObservation(env, change, space)


def task(name, copies):
    """Return copies of a task as one vector environment."""
    terminal_reward, usual, sizes = TASKS[name]
    wrappers = [
        partial(Continuing, terminal_reward=terminal_reward),
        partial(scaled, sizes=sizes),
        partial(gymnasium.wrappers.TransformReward, func=lambda reward: reward - usual),
    ]
    return gymnasium.make_vec(name, num_envs=copies, vectorization_mode="sync", wrappers=wrappers)


def rates(played, tenths=10):
    """Return ends of episodes per 1,000 steps, `(rows, tenths)`."""
    edges = np.linspace(0, played.times[-1], tenths + 1).astype(int)
    ends = np.column_stack([np.zeros(len(played.ends)), played.ends])
    at = np.searchsorted(np.append(0, played.times), edges)
    return np.diff(ends[:, at], axis=1) / np.diff(edges) * 1000


def draw(ax, name, times, found):
    """Draw ends of episodes per 1,000 steps from mark to mark, means and runs."""
    looks, last = look(list(found)), []
    for label, ends in found.items():
        ends = np.column_stack([np.zeros(len(ends)), ends])
        rate = np.diff(ends, axis=1) / np.diff(np.append(0, times)) * 1000
        ax.plot(times, rate.T, color=looks[label]["color"], alpha=0.15, linewidth=0.7)
        ax.plot(times, rate.mean(axis=0), **looks[label])
        last.append((label, rate.mean(axis=0)[-1]))
    what = "falls" if name.startswith("CartPole") else "goals"
    ax.set(title=f"{name}, never ending", xlabel="step", ylabel=f"{what} per 1,000 steps")
    ax.set(xlim=(0, times[-1]), ylim=(0, None))
    label_ends(ax, times[-1], last, looks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="control")
    given = parser.parse_args()
    agents = cpsrl.RandomAgent(), cpsrl.BootstrappedDQN(prior_scale=1.0, label="Bootstrapped DQN")
    played = {name: {} for name in given.tasks}
    for name, found in played.items():
        for agent in agents:
            env = task(name, given.runs)
            played_here = cpsrl.play(agent, env, given.steps, given.seed, given.steps // 50)
            times, found[agent.label] = played_here.times, played_here.ends
            last = rates(played_here)[:, -1]
            print(f"{name}, {agent.label}: {statistics.mean(last)} per 1,000 steps", last)
        np.savez(f"{given.out}-{name}.npz", times=times, **found)
    with style():
        figure, axes = panels(len(played), height=3.0)
        for ax, (name, found) in zip(axes, played.items(), strict=True):
            draw(ax, name, times, found)
        figure.savefig(f"{given.out}.png")


if __name__ == "__main__":
    main()
