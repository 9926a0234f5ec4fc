"""How often the intervals that are printed cover what they estimate, by simulation; and how often
a verdict is wrong.

Samples of n runs are drawn from known distributions, and from 4,000 runs of our own agents on
RiverSwim (10,000 steps), whose mean takes the place of the truth; an interval should cover it in
95% of the samples. The percentile bootstrap stands beside as the method not used.

    python benchmarks/intervals.py            # about ten minutes
    python benchmarks/intervals.py --quick    # a tenth of the samples
    python benchmarks/intervals.py --errors   # the verdicts alone

Verdicts: how often some pair of 5 or 8 agents that do not differ is called different (p <= .05
after Holm's method, as in `statistics.comparisons`), and how often "has sublinear regret" is called
HELD of agents that are outside of one of its two bounds (`cpsrl.paper.figures`).
"""

import argparse
from collections.abc import Callable
from itertools import combinations

import numpy as np

import cpsrl
from cpsrl import statistics
from cpsrl.paper import figures as paper
from cpsrl.simulation import Runs

RUNS = (10, 20, 50, 200)
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def rare(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Uniform on [0, 1], and 20 more in a run out of twenty."""
    return rng.random(shape) + 20 * (rng.random(shape) < 0.05)


KNOWN: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, shape: rng.normal(1.0, 1.0, shape), 1.0),
    "exponential": (lambda rng, shape: rng.exponential(1.0, shape), 1.0),
    "lognormal": (lambda rng, shape: rng.lognormal(0.0, 1.0, shape), float(np.exp(0.5))),
    "5% rare large values": (rare, 1.5),
}


def populations() -> dict[str, tuple[Draw, float]]:
    """Return the final regrets of our agents as distributions."""
    river, found = cpsrl.environment("riverswim"), {}
    for label, agent in (
        ("regret of Continuing PSRL, .99", cpsrl.ContinuingPSRL(gamma=0.99)),
        ("regret of TSDE", cpsrl.TSDE()),
        ("regret of DS-PSRL", cpsrl.DSPSRL()),
    ):
        final = cpsrl.simulate(agent, river, 10_000, 4_000, record=[10_000]).regret[:, -1]
        found[label] = (
            lambda rng, shape, final=final: rng.choice(final, shape),
            float(final.mean()),
        )
    return found


def mean_coverage(draw: Draw, truth: float, runs: int, samples: int) -> tuple[float, float]:
    """Return the coverage of the studentised and of the percentile bootstrap."""
    rng, covered, plain = np.random.default_rng(runs), 0, 0
    for part in range(10):
        curves = draw(rng, (runs, samples // 10))
        band = statistics.mean_band(curves, draws=1_000, seed=part)
        covered += int(((band.low <= truth) & (truth <= band.high)).sum())
        means = statistics._weights(runs, 1_000, part) @ curves
        low, high = np.quantile(means, [0.025, 0.975], axis=0)
        plain += int(((low <= truth) & (truth <= high)).sum())
    return covered / samples, plain / samples


def smooth_coverage(draw: Draw, truth: float, runs: int, samples: int) -> tuple[float, ...]:
    """Return the coverage of a paired difference, a ratio of means, an exponent, a 99% limit."""
    rng, times = np.random.default_rng(runs), np.array([100, 1_000, 10_000])
    counts = np.zeros(4)
    for sample in range(samples):
        first, second, third = draw(rng, (3, runs))
        difference = statistics.paired_difference(first, second, draws=500, seed=sample)
        ratio = statistics.ratio_of_means(2 * first, second, draws=500, seed=sample)
        curves = np.stack([first, second, third], axis=1) * np.sqrt(times)
        power = statistics.exponent(times, curves, draws=500, seed=sample)
        limit = statistics.upper_mean(first, 0.99)
        counts += [
            difference.low <= 0 <= difference.high,
            ratio.low <= 2 <= ratio.high,
            power.low <= 0.5 <= power.high,
            limit >= truth,
        ]
    return tuple(counts / samples)


LIKE: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(0.0, 1.0, shape),
    "lognormal": lambda rng, shape: rng.lognormal(0.0, 1.0, shape),
    "Student, 3 degrees": lambda rng, shape: rng.standard_t(3, shape),
    "one agent with a large spread": lambda rng, shape: (
        rng.normal(0.0, 1.0, shape) * np.where(np.arange(shape[0]) == 0, 20.0, 1.0)[:, None]
    ),
}


def family_wise(draw: Draw, agents: int, runs: int, families: int) -> float:
    """Return the share of families of agents without a difference in which some pair has one."""
    rng, wrong, at_once = np.random.default_rng([agents, runs]), 0, 20
    for seed in range(families // at_once):  # a bootstrap's draws serve 20 families
        gaps = [
            np.stack([a - b for a, b in combinations(draw(rng, (agents, runs)), 2)], axis=1)
            for _ in range(at_once)
        ]
        p = statistics.p_values(np.hstack(gaps), 5_000, seed).reshape(at_once, -1)
        wrong += sum(bool((statistics.holm(own) <= 0.05).any()) for own in p)
    return wrong / (families // at_once * at_once)


TIMES = np.arange(500, 10_001, 500)
GAIN = 0.4286


def held(share: float, slope: float, runs: int, trials: int) -> float:
    """Return how often an agent is called HELD that finds the optimum in a share of its runs.

    Those lose `slope` a step over the last tenth, give or take .03, and others .9 of the gain.
    """
    rng, count = np.random.default_rng([runs, round(1000 * share), round(1e4 * slope)]), 0
    for _ in range(trials):
        good = rng.random(runs) < share
        lost = np.where(good, slope + rng.normal(0, 0.03, runs), 0.9 * GAIN)
        curves = lost[:, None] * TIMES
        one = Runs(
            times=TIMES,
            regret=curves,
            resamples=np.ones(curves.shape, np.int64),
            seeds=np.arange(runs),
            agent=("agent",) * runs,
            environment=("river",) * runs,
            gain=np.full(runs, GAIN),
            seed=0,
        )
        count += paper._sublinear(one, "agent")[0] is True
    return count / trials


def errors(part: int) -> None:
    """Print how often verdicts are wrong."""
    cases = [(agents, runs) for agents in (5, 8) for runs in (5, 10, 20)]
    print("| some pair differs | " + " | ".join(f"{a} agents, n = {n}" for a, n in cases) + " |")
    print("| --- " * (len(cases) + 1) + "|")
    for name, draw in LIKE.items():
        cells = [shown(family_wise(draw, *case, 4_000 // part)) for case in cases]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    runs = (5, 10, 20, 50)
    print("\n| share, slope | " + " | ".join(f"n = {n}" for n in runs) + " |")
    print("| --- " * (len(runs) + 1) + "|")
    for share, slope in HELD:
        cells = [shown(held(share, slope, n, 1_000 // part)) for n in runs]
        print(f"| {share:g}, {slope:g} | " + " | ".join(cells) + " |", flush=True)


HELD = [(0.5, 0.0), (0.7, 0.0), (0.75, 0.0), (0.8, 0.0), (0.8, 0.03), (0.9, 0.03), (1.0, 0.03)]
HELD += [(1.0, 0.035), (1.0, 0.05), (0.9, 0.0), (0.95, 0.0), (1.0, 0.0), (1.0, 0.02)]
"""The first nine are outside of a bound, or on it."""


def shown(x: float) -> str:
    return f"{x:.3f}".lstrip("0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--errors", action="store_true", help="how often verdicts are wrong, alone")
    given = parser.parse_args()
    share = 10 if given.quick else 1
    if given.errors:
        errors(share)
        return
    everything = KNOWN | populations()
    print("| mean of | " + " | ".join(f"n = {n}" for n in RUNS) + " |")
    print("| --- " * (len(RUNS) + 1) + "|")
    for name, (draw, truth) in everything.items():
        found = [mean_coverage(draw, truth, n, 20_000 // share) for n in RUNS]
        cells = [f"{shown(ours)} ({shown(plain)})" for ours, plain in found]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    kinds = ("paired difference", "ratio of means", "exponent", "99% upper limit of a mean")
    print("\n| n = 10, n = 50 | " + " | ".join(kinds) + " |")
    print("| --- " * (len(kinds) + 1) + "|")
    for name, (draw, truth) in everything.items():
        if name == "normal":  # means of ratios and exponents must be positive
            draw, truth = (lambda rng, shape: rng.normal(5.0, 1.0, shape)), 5.0
        pair = [smooth_coverage(draw, truth, n, 2_000 // share) for n in (10, 50)]
        cells = [f"{shown(a)}, {shown(b)}" for a, b in zip(*pair, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print()
    errors(share)


if __name__ == "__main__":
    main()
