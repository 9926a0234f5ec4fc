"""The published and exactly computed numbers of the five RiverSwims with six states."""

from fractions import Fraction

import numpy as np
import pytest

import cpsrl

RIVERS = {
    # optimal gain, span, diameter, tau, smallest sufficient gamma; the decimals that are known
    "osband": ((7203 / 16805, 10), (6.3103, 4), (14.722, 3), (60541215 / 11296321, 7), 0.614301),
    "tsde": ((243 / 1090, 10), (5.0183, 4), (22.51, 2), (89181 / 23762, 7), 0.993474),
    "statrl": ((0.9075003039, 10), (8.10, 2), (8.926, 3), (7.950009, 6), 0.755083),
    "srl": ((0.8750033379, 10), (12.1429, 4), (13.878, 3), (11.785874, 6), 0.582061),
    "gym-riverswim": (
        (0.6686320755, 10),
        (13.1486, 4),
        (19.665, 3),
        (4158945 / 359552, 7),
        0.632516,
    ),
}
every = pytest.mark.parametrize("variant", RIVERS)


def close(found, known):
    number, decimals = known
    return abs(found - number) <= 0.5001 * 10.0**-decimals


@every
def test_gain_span_diameter_and_tau(variant):
    gain, span, diameter, tau, _ = RIVERS[variant]
    mdp = cpsrl.environment("riverswim", variant=variant)
    best = cpsrl.solve_average(mdp, bias_optimal=True)
    assert close(best.gain.min(), gain)
    assert close(best.gain.max(), gain)
    assert best.reached
    assert close(cpsrl.span(best.bias), span)
    assert close(cpsrl.planning.diameter(mdp), diameter)
    bracket = cpsrl.planning.reward_averaging_time(mdp, best.policy)
    assert bracket.closed
    assert close(bracket.low, tau)
    assert close(bracket.high, tau)


@every
def test_tau_is_attained_in_the_limit_at_the_left_end(variant):
    mdp = cpsrl.environment("riverswim", variant=variant)
    best = cpsrl.solve_average(mdp, bias_optimal=True)
    tau = cpsrl.planning.reward_averaging_time(mdp, best.policy)
    assert np.argmax(np.abs(best.bias)) == 0
    assert tau.low == pytest.approx(abs(best.bias[0]), rel=1e-12)
    assert tau.high < 0.99 * cpsrl.span(best.bias)


@every
def test_every_gamma_above_gamma0_suffices(variant):
    gamma0 = RIVERS[variant][-1]
    mdp = cpsrl.environment("riverswim", variant=variant)
    found = cpsrl.planning.sufficient_gamma(mdp)
    assert close(found.gamma, (gamma0, 6))
    assert cpsrl.planning_gap(mdp, found.gamma + 1e-7).gap == 0
    assert cpsrl.planning_gap(mdp, found.gamma - 1e-7).gap > 0


def test_the_error_of_a_small_discounted_solution_counts_rounding():
    river = cpsrl.environment("riverswim")
    for gamma in (0.9, 0.99, 0.9999, 0.999999):
        found = cpsrl.solve_discounted(river, gamma)
        exact = _exact_value(river, found.policy, Fraction(gamma))
        errors = [abs(float(Fraction(x) - y)) for x, y in zip(found.value, exact, strict=True)]
        assert max(errors) <= found.error


def _exact_value(mdp, policy, gamma):
    """The value of a policy in fractions, by Gauss-Jordan elimination."""
    n = mdp.n_states
    rows = []
    for s in range(n):
        chances = [Fraction(float(p)) for p in mdp.dense[s, policy[s]]]
        total = sum(chances)  # rounding may leave it a little beside 1
        row = [-gamma * p / total for p in chances]
        row[s] += 1
        rows.append([*row, Fraction(float(mdp.rewards[s, policy[s]]))])
    for k in range(n):
        pivot = rows[k][k]
        rows[k] = [x / pivot for x in rows[k]]
        for i in range(n):
            if i != k:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]
