"""UCRL2B: bounds cell by cell, and the span that optimism may imagine."""

import numpy as np
import pytest
from scipy.optimize import linprog

import cpsrl
from cpsrl.agents import UCRL2B
from cpsrl.agents.ucrl2b import Cells, bounded_mean, bounded_value_iteration


def test_the_best_row_between_bounds_is_that_of_a_linear_program():
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = int(rng.integers(2, 8))
        row, value = rng.dirichlet(np.ones(n)), rng.normal(size=n)
        row[rng.random(n) < 0.3] = 0.0
        if not row.any():
            row[0] = 1.0
        row /= row.sum()
        width = rng.random(n) * (2.0 if trial % 3 else 0.2)
        low, high = np.maximum(0, row - width), np.minimum(1, row + width)
        program = linprog(-value, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=list(zip(low, high)))  # noqa: B905
        seen = np.flatnonzero(row)
        spare, starts = np.array([1.0 - low.sum()]), np.array([0, len(seen)])
        plausible = Cells(starts, seen, low[seen], (high - low)[None], spare)
        found = bounded_mean(plausible, 0, value, np.argsort(-value))
        assert found == pytest.approx(-program.fun, abs=1e-9)


def as_rows(mdp):
    """A model as bounds of no width."""
    matrix = mdp.csr
    starts, seen = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    room = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    cells = Cells(starts, seen, np.array(matrix.data), room, np.zeros(len(room)))
    return cells, np.array(mdp.rewards)


def test_without_doubt_it_is_value_iteration():
    for name in ("riverswim", "replacement"):
        mdp = cpsrl.environment(name)
        value = np.zeros(mdp.n_states)
        policy = bounded_value_iteration(*as_rows(mdp), np.inf, 1e-9, value)
        best = cpsrl.solve_average(mdp, bias_optimal=True)
        assert cpsrl.planning.gain_and_bias(mdp, policy)[0] == pytest.approx(best.gain, abs=1e-7)
        assert value == pytest.approx(best.bias - best.bias.min(), abs=1e-5)


def test_values_are_cut_at_the_span_and_only_there():
    mdp = cpsrl.environment("riverswim")
    span = cpsrl.planning.span(cpsrl.solve_average(mdp, bias_optimal=True).bias)
    cut, free = np.zeros(6), np.zeros(6)
    bounded_value_iteration(*as_rows(mdp), 0.5 * span, 1e-9, cut)
    assert np.ptp(cut) == pytest.approx(0.5 * span)
    bounded_value_iteration(*as_rows(mdp), 2 * span, 1e-9, free)
    assert np.ptp(free) == pytest.approx(span, abs=1e-5)


def test_the_true_model_is_plausible():
    """The bounds of a live agent hold the model that its data came from."""
    mdp = cpsrl.TabularMDP(
        np.random.default_rng(3).dirichlet(np.ones(4), (4, 2)),
        np.random.default_rng(4).random((4, 2)),
        noise="bernoulli",
    )
    agent, world = cpsrl.start(UCRL2B(), mdp), mdp.simulator()
    for _ in range(3000):
        state = world.state
        action = agent.act(state)
        reward, following = world.step(action)
        agent.observe(state, action, reward, following)
    visits = np.maximum(1, agent.visits)
    weight = np.log(6 * 8 * visits / 0.05) / visits
    frequency = agent.counts / visits[:, :, None]
    spread = frequency * (1 - frequency) * weight[:, :, None]
    width = 2 * np.sqrt(spread) + 6 * weight[:, :, None]
    assert (np.abs(frequency - mdp.dense) <= width).all()
    mean = agent.reward_sums / visits
    error = 2 * np.sqrt((agent.reward_squares / visits - mean**2) * weight) + 6 * weight
    assert (np.abs(mean - mdp.rewards) <= error).all()


def test_it_learns_where_ucrl2_is_still_in_doubt():
    mdp = cpsrl.environment("riverswim")
    final = {}
    for agent in (cpsrl.UCRL2(), UCRL2B(), UCRL2B(width=0.1, label="narrow")):
        final[agent.label] = cpsrl.simulate(agent, mdp, 10_000, 2).regret[:, -1].max()
    assert final["narrow"] < 0.5 * final["UCRL2"]
    assert final["UCRL2B"] < final["UCRL2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width must be a number above 0"),
        ({"span": -1}, "span must be a number above 0"),
        ({"delta": 1}, r"delta must be in \(0, 1\)"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UCRL2B(**options)
