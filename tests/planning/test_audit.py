"""The audit: no certificate is ever wrong, and on well-conditioned models none is loose.

Small models are solved in exact rational arithmetic, large ones are small ones blown up.
"""

import numpy as np
import pytest

import cpsrl
from planning import exact

EPS = np.finfo(np.float64).eps
SIZES = (99, 100, 101, 102, 128, 199, 201, 260)


def audited(index):
    """Return what is wrong with the solutions of model number `index`; nothing is right."""
    rng = np.random.default_rng((11, index))
    P, r, well = exact.hard_model(rng)
    S = len(r)
    small, copies = True, np.ones(S, int)
    if index % 10 >= 7:
        small, dense = False, bool(rng.integers(2))
        size = int(rng.choice(SIZES))
        copies = parts(size, S, dense, rng)
        mdp = cpsrl.TabularMDP(*exact.blown_up(P, r, copies, dense, rng))
    else:
        mdp = cpsrl.TabularMDP(P, r)
    state = np.repeat(np.arange(S), copies)
    gamma = float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.999, 1 - 1e-5, 1 - 1e-8]))
    tol = float(rng.choice([1e-14, 1e-8, 1e-8, 1e-5]))
    wrong = []

    def check(what, solution, numbers, truth, size, loosest):
        off = exact.distance(numbers, [truth[s] for s in state])
        if off > solution.error:
            wrong.append(f"{what}: off by {off} > {solution.error}")
        if solution.reached and off > tol:
            wrong.append(f"{what}: reached {tol}, off by {off}")
        tight = 1000 * (off + mdp.n_states * EPS * size) + 1e-300
        if well and solution.error > max(tight, loosest):
            wrong.append(f"{what}: loose, {solution.error} for {off}, {size}")

    stored, normal = (exact.rationals(P, n) for n in (False, True))
    found = cpsrl.solve_discounted(mdp, gamma, tol)
    size = np.abs(r).max() / (1 - gamma)
    for name, rows in (("stored", stored), ("normalised", normal)):
        if gamma * max(float(sum(row)) for x in rows for row in x) < 1:
            truth = exact.best_value(rows, r, gamma)
            # sweeps end at the tolerance asked for, and may be nearer by chance
            loosest = np.inf if gamma > 0.9995 else 0.0 if small else min(tol, 1e-5 * size)
            check(f"discounted, {name}", found, found.value, truth, size, loosest)
    gain = exact.best_gain(normal, r)
    found = cpsrl.solve_average(mdp, tol, bias_optimal=bool(rng.integers(2)) and small)
    size = np.ptp(found.bias) + np.ptp(r)
    check("average", found, found.gain, gain, size, 0.0)
    return wrong


def parts(size, n, dense, rng):
    """Return n positive whole numbers with sum `size`, powers of two if `dense`."""
    if not dense:
        cuts = np.sort(rng.choice(np.arange(1, size), n - 1, replace=False))
        return np.diff([0, *cuts, size])
    found = [1 << i for i in range(20) if size >> i & 1]
    while len(found) < n:
        largest = max(found)
        found.remove(largest)
        found += [largest // 2, largest // 2]
    while len(found) > n:  # give up the exact size
        found.remove(min(found))
    return np.array(found)


def test_bias_optimal_policies_are():
    for index in range(200):
        rng = np.random.default_rng((12, index))
        P, r, _ = exact.hard_model(rng)
        if len(r) > 3:
            continue
        mdp, rows = cpsrl.TabularMDP(P, r), exact.rationals(P)
        found = cpsrl.solve_average(mdp, bias_optimal=True)
        _, chain, rewards = next(
            x for x in exact.chains(rows, r) if x[0] == tuple(found.policy.tolist())
        )
        gain, bias = exact.gain_and_bias(chain, rewards)
        assert (gain, bias) == exact.best_bias(rows, r), index


def test_no_certificate_is_wrong_on_500_models():
    several_closed_classes_of_one_gain = 4767
    numbers = (*range(500), several_closed_classes_of_one_gain)
    failures = {i: wrong for i in numbers if (wrong := audited(i))}
    assert not failures


@pytest.mark.slow
def test_no_certificate_is_wrong_on_5000_models():
    failures = {i: wrong for i in range(500, 5_500) if (wrong := audited(i))}
    assert not failures
