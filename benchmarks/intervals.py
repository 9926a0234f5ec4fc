"""How often the intervals that are printed cover what they estimate, by simulation.

Samples of n runs are drawn from known distributions, and from 4,000 runs of our own agents on
RiverSwim (10,000 steps), whose mean takes the place of the truth; an interval should cover it in
95% of the samples. The percentile bootstrap stands beside as the method not used.

    python benchmarks/intervals.py            # about two minutes
    python benchmarks/intervals.py --quick    # a tenth of the samples
"""

import argparse
from collections.abc import Callable

import numpy as np

import cpsrl
from cpsrl import statistics

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


def shown(x: float) -> str:
    return f"{x:.3f}".lstrip("0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    share = 10 if parser.parse_args().quick else 1
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


if __name__ == "__main__":
    main()
