"""Bootstrapped DQN: env-steps per second against a usual PyTorch loop, and how speed grows.

    python benchmarks/deep.py            about three minutes on two cores

Every agent makes one update of every member after every step: batch 32, two hidden layers of 50,
prior functions, Adam, on RiverSwim with thermometer features, and in environments without a table.
The rivals take turns, three rounds, and medians are reported, so that what else the machine does
falls on all of them. Needs the extras `deep`, `bench`
and `worlds`.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import cpsrl
from cpsrl.mdp import TabularMDP
from cpsrl.networks import (
    DQN,
    BootstrappedDQN,
    Convolution,
    Environment,
    Heads,
    Hypermodel,
    Members,
    ValueSampling,
)
from cpsrl.objectives import Average, Discounted
from cpsrl.simulation import simulate

MEMBERS, HIDDEN, BATCH, GAMMA, SEEDS, ROUNDS = 10, 50, 32, 0.99, 50, 3


def network(n_features: int, n_actions: int) -> nn.Module:
    layers = [nn.Linear(n_features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, n_actions))


class Member(nn.Module):
    """A trained network plus a fixed random one."""

    def __init__(self, n_features: int, n_actions: int, prior_scale: float) -> None:
        super().__init__()
        self.trained = network(n_features, n_actions)
        self.prior = network(n_features, n_actions)
        self.prior_scale = prior_scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the action values."""
        with torch.no_grad():
            prior = self.prior(x)
        return self.trained(x) + self.prior_scale * prior


def torch_loop(mdp: TabularMDP, steps: int) -> float:
    """Take steps with one agent as public bootstrapped DQNs do it; return steps per second.

    A list of networks with an optimiser each, updated one after the other on a minibatch drawn from
    arrays on the host; the environment is stepped in Python.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    features = mdp.features.astype(np.float32)
    members = [Member(features.shape[1], mdp.n_actions, 10.0) for _ in range(MEMBERS)]
    targets = [copy.deepcopy(member) for member in members]
    optimisers = [torch.optim.Adam(member.trained.parameters(), lr=1e-3) for member in members]
    x, next_x = np.zeros((2, steps, features.shape[1]), np.float32)
    actions, rewards = np.zeros(steps, np.int64), np.zeros(steps, np.float32)
    simulator, active = mdp.simulator(), 0
    began = time.perf_counter()
    for t in range(steps):
        if t == 0 or rng.random() >= GAMMA:
            active = int(rng.integers(MEMBERS))
        x[t] = features[simulator.state]
        with torch.no_grad():
            actions[t] = int(members[active](torch.from_numpy(x[t])).argmax())
        rewards[t], state = simulator.step(int(actions[t]))
        next_x[t] = features[state]
        rows = rng.integers(t + 1, size=BATCH)
        batch_x, batch_next = torch.from_numpy(x[rows]), torch.from_numpy(next_x[rows])
        batch_a, batch_r = torch.from_numpy(actions[rows]), torch.from_numpy(rewards[rows])
        for member, target, optimiser in zip(members, targets, optimisers, strict=True):
            with torch.no_grad():
                aim = batch_r + GAMMA * target(batch_next).max(1).values
            q = member(batch_x).gather(1, batch_a[:, None])[:, 0]
            loss = nn.functional.mse_loss(q, aim)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if (t + 1) % 100 == 0:
            for member, target in zip(members, targets, strict=True):
                target.load_state_dict(member.state_dict())
    return steps / (time.perf_counter() - began)


class Branched(nn.Module):
    """A convolution, a hidden layer and a head for each function: what heads usually are."""

    def __init__(self, planes: int, n_actions: int, heads: int) -> None:
        super().__init__()
        self.torso = nn.Sequential(
            nn.Conv2d(planes, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 64), nn.ReLU()
        )
        self.heads = nn.ModuleList(nn.Linear(64, n_actions) for _ in range(heads))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the action values (heads, batch, actions)."""
        hidden = self.torso(x)
        return torch.stack([head(hidden) for head in self.heads])


def torch_pictures(steps: int, heads: int = 20) -> float:
    """Take steps in pictures with heads on a convolution, as `torch_loop` does; steps per second.

    The pictures are MinAtar's in size, of random bits: the environment costs nothing here.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    pictures = (rng.random((steps + 1, 4, 10, 10)) < 0.1).astype(np.float32)
    rewards = rng.random(steps).astype(np.float32)
    trained, prior = (Branched(4, 3, heads) for _ in range(2))
    target = copy.deepcopy(trained)
    optimiser, active = torch.optim.Adam(trained.parameters(), lr=3e-4), 0
    actions, each = np.zeros(steps, np.int64), torch.arange(BATCH)

    def values(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            fixed = prior(x)
        return network(x) + 5.0 * fixed

    began = time.perf_counter()
    for t in range(steps):
        if t == 0 or rng.random() >= GAMMA:
            active = int(rng.integers(heads))
        with torch.no_grad():
            seen = torch.from_numpy(pictures[t : t + 1])
            actions[t] = int(values(trained, seen)[active, 0].argmax())
        rows = rng.integers(t + 1, size=BATCH)
        with torch.no_grad():
            ahead = values(target, torch.from_numpy(pictures[rows + 1])).max(2).values
            aim = torch.from_numpy(rewards[rows]) + GAMMA * ahead
        q = values(trained, torch.from_numpy(pictures[rows]))
        taken = q[:, each, torch.from_numpy(actions[rows])]
        loss = ((taken - aim) ** 2).mean(1).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if (t + 1) % 1000 == 0:
            target.load_state_dict(trained.state_dict())
    return steps / (time.perf_counter() - began)


def pictures(steps: int) -> None:
    """Heads on a convolution in MinAtar's Breakout, environment included, against PyTorch."""
    breakout = cpsrl.environment("gymnax:Breakout-MinAtar", reward_range=(0, 1), reference=0.0)
    spec = ValueSampling(
        belief=Heads(hidden=(64,), torso=Convolution()), learning_rate=3e-4, target_every=1000
    )
    speed(spec, breakout, 1, 10, 1)
    torch_pictures(20)
    got = medians(
        {
            "torch": lambda: torch_pictures(200),
            "ours": lambda: speed(spec, breakout, 1, 2 * steps, 1),
        }
    )
    print("\n| pictures of 10 x 10 x 4, 20 heads | PyTorch | cpsrl, Breakout | times PyTorch |")
    print("| --- | --- | --- | --- |")
    ratio = got["ours"] / got["torch"]
    print(f"| steps/s, one core | {got['torch']:,.0f} | {got['ours']:,.0f} | {ratio:.1f} |")


def speed(
    spec: ValueSampling, mdp: TabularMDP | Environment, seeds: int, steps: int, threads: int
) -> float:
    """Return env-steps per second of all seeds together."""
    began = time.perf_counter()
    simulate(spec, mdp, steps, seeds=seeds, threads=threads, record=steps)
    return seeds * steps / (time.perf_counter() - began)


def river(n_states: int) -> TabularMDP:
    return cpsrl.environment("riverswim", n_states=n_states, features="thermometer")


def medians(rivals: dict[Any, Callable[[], float]]) -> dict[Any, float]:
    """Let the rivals take turns and return the median of each."""
    taken: dict[Any, list[float]] = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, run in rivals.items():
            taken[name].append(run())
    return {name: statistics.median(values) for name, values in taken.items()}


def against_torch(n_states: int, steps: int) -> None:
    mdp, spec = river(n_states), BootstrappedDQN(gamma=GAMMA, members=MEMBERS)
    speed(spec, mdp, 2, 10, 2)
    torch_loop(mdp, 50)
    got = medians(
        {
            "torch": lambda: torch_loop(mdp, 400),
            "one": lambda: speed(spec, mdp, SEEDS, steps, 1),
            "two": lambda: speed(spec, mdp, SEEDS, steps, 2),
        }
    )
    print(
        f"| {n_states} | {got['torch']:,.0f} | {got['one']:,.0f} | {got['two']:,.0f} "
        f"| {got['one'] / got['torch']:.0f} | {got['two'] / got['one']:.2f} |",
        flush=True,
    )


def growth(what: str, cases: dict[str, Callable[[], float]]) -> None:
    got = medians(cases)
    print(f"\n| {what} | " + " | ".join(got) + " |")
    print("| --- |" + " --- |" * len(got))
    print(
        "| steps/s, one core | " + " | ".join(f"{v:,.0f}" for v in got.values()) + " |", flush=True
    )


def live(world: Environment | TabularMDP, spec: ValueSampling, steps: int) -> float:
    """Return the milliseconds that `act` and `observe` of a live agent take together, a median."""
    agent, simulator, taken = cpsrl.start(spec, world), world.simulator(), []
    for _ in range(steps):
        state, began = simulator.state, time.perf_counter()
        action = agent.act(state)
        acted = time.perf_counter() - began
        reward, next_state = simulator.step(action)
        began = time.perf_counter()
        agent.observe(state, action, reward, next_state)
        taken.append(acted + time.perf_counter() - began)
    return 1000 * statistics.median(taken[steps // 10 :])


def worlds(steps: int) -> None:
    """Environments that are not tables, and the beliefs of networks in them."""
    names = {"pixel-deep-sea": {"size": 20}, "pixel-catch": {}, "pendulum": {}}
    places = {name: cpsrl.environment(name, **options) for name, options in names.items()}
    beliefs = {
        "10 networks": BootstrappedDQN(),
        "20 heads": ValueSampling(belief=Heads()),
        "hypermodel": ValueSampling(belief=Hypermodel()),
        "DQN": DQN(),
    }
    print("\n| steps/s, one core, 2 seeds | " + " | ".join(places) + " |")
    print("| --- |" + " --- |" * len(places))
    rows = {(b, p): (spec, place) for b, spec in beliefs.items() for p, place in places.items()}
    for spec, place in rows.values():
        speed(spec, place, 1, 10, 1)
    got = medians({key: lambda pair=pair: speed(*pair, 2, steps, 1) for key, pair in rows.items()})
    for belief in beliefs:
        cells = (f"{got[belief, place]:,.0f}" for place in places)
        print(f"| {belief} | " + " | ".join(cells) + " |", flush=True)
    print("\n| live: act + observe, ms | " + " | ".join(places) + " |")
    print("| --- |" + " --- |" * len(places))
    for belief, spec in beliefs.items():
        cells = (f"{live(place, spec, 200):.2f}" for place in places.values())
        print(f"| {belief} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="steps of every run")
    parser.add_argument("--only-pictures", action="store_true", help="the last table alone")
    options = parser.parse_args()
    steps = options.steps
    if options.only_pictures:
        return pictures(steps)
    print(f"Bootstrapped DQN, {MEMBERS} members, {SEEDS} seeds; env-steps per second\n")
    print(
        "| N | PyTorch, one seed | cpsrl, one core | cpsrl, two cores | times PyTorch | two/one |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for n_states in (6, 20):
        against_torch(n_states, steps)
    mdp = river(6)

    def case(
        seeds: int, n: int = steps, spec: ValueSampling | None = None, mdp: TabularMDP = mdp
    ) -> Callable[[], float]:
        spec = spec or BootstrappedDQN()
        speed(spec, mdp, 1, 10, 1)
        return lambda: speed(spec, mdp, seeds, n, 1)

    growth("seeds (N = 6)", {str(n): case(n, 2 * steps) for n in (1, 2, 5, 10)})
    sizes = {f"{k}": case(5, spec=BootstrappedDQN(members=k)) for k in (1, 5, 10, 20, 50)}
    growth("members (N = 6, 5 seeds)", sizes)
    widths = {f"{h}-{h}": BootstrappedDQN(hidden=(h, h)) for h in (25, 50, 100, 200)}
    growth("hidden layers (N = 6, 5 seeds)", {k: case(5, spec=s) for k, s in widths.items()})
    growth("DQN (N = 6)", {"5 seeds": case(5, 5 * steps, DQN())})
    beliefs = {"members": Members(20), "heads": Heads(20), "hypermodel": Hypermodel()}
    for n_states in (20, 80):  # evaluated whole, and row by row
        world = river(n_states)
        cases = {
            f"{name}, {objective.label}": case(
                2, spec=ValueSampling(objective=objective, belief=belief), mdp=world
            )
            for name, belief in beliefs.items()
            for objective in (Discounted(), Average())
        }
        growth(f"beliefs (N = {n_states}, 20 functions, 2 seeds)", cases)
    print("\n| one agent, `act` + `observe`, ms | " + " | ".join(beliefs) + " |")
    print("| --- |" + " --- |" * len(beliefs))
    taken = medians(
        {
            name: lambda b=belief: live(river(20), ValueSampling(belief=b), 1000)
            for name, belief in beliefs.items()
        }
    )
    print("| median of 1,000 | " + " | ".join(f"{v:.2f}" for v in taken.values()) + " |")
    worlds(steps)
    pictures(steps)


if __name__ == "__main__":
    main()
