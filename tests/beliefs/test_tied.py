"""Rows that share their noise: against Bayes' rule written out, exactly where outcomes merge."""

import json

import numpy as np
import pytest
from scipy import integrate, special, stats

import cpsrl
from beliefs.test_parametric import json_like, transition
from contracts.test_agents import equal
from contracts.test_axes import in_steps
from cpsrl import PSRL, Bernoulli, Dirichlet, KnownRewards, NormalGamma, Sizes, simulate
from cpsrl.agents.codec import from_tree, to_tree
from cpsrl.beliefs import Tied, tied
from cpsrl.environments.gridworld import grid_outcomes

GRID = cpsrl.environment("gridworld", rows=3, columns=4, slip=0.2)
ON_GRID = Tied("gridworld", options={"rows": 3, "columns": 4})
CORNERS = [(0, 0, 0), (0, 0, 1), (0, 3, 0), (0, 3, 0), (0, 3, 4), (3, 1, 3), (8, 2, 8), (0, 0, 0)]
"""Where the way ahead and the slip to one side both end at the wall, or a slip does not."""
OPEN = [(5, 0, 1), (5, 0, 1), (5, 0, 4), (6, 2, 10), (6, 2, 7), (1, 3, 0), (11, 1, 0), (2, 0, 2)]


def tell(live, triples):
    """Tell a live belief of transitions without rewards."""
    states, actions, next_states = np.array(triples).T
    live.observe_many(states, actions, np.zeros(len(states)), next_states)


def likelihood(triples, outcomes, w):
    """Return the probability of transitions where the outcomes have the probabilities w `(K,)`."""
    hits = outcomes[tuple(np.array(triples).T[:2])] == np.array(triples)[:, 2:]
    return (hits * w).sum(axis=1).prod()


def moment(triples, outcomes, alpha, powers):
    """Return the integral of likelihood times prior times w^powers over the simplex of three."""

    def inner(y, x):
        w = np.array([x, y, max(1 - x - y, 0.0)])
        return likelihood(triples, outcomes, w) * np.prod(w ** (alpha - 1 + powers))

    return integrate.dblquad(inner, 0, 1, 0, lambda x: 1 - x, epsabs=1e-13, epsrel=1e-13)[0]


def test_the_posterior_is_bayes_rule_where_outcomes_merge():
    """Against every way to tell the outcomes apart, one by one."""
    alpha, seen = np.array([3.0, 1.5, 2.0]), CORNERS + OPEN
    live = Tied("gridworld", options=ON_GRID.options, prior=alpha).start(GRID)
    tell(live, seen[:5])
    tell(live, seen[5:])
    outcomes = grid_outcomes(3, 4)
    ways = np.zeros((1, 3))
    for s, a, t in seen:
        which = np.flatnonzero(outcomes[s, a] == t)
        ways = np.concatenate([ways + np.eye(3)[k] for k in which])
    logs = special.gammaln(alpha + ways).sum(axis=1) - special.gammaln(alpha.sum() + len(seen))
    each = np.exp(logs - logs.max())
    each /= each.sum()
    exact = each @ ((alpha + ways) / (alpha.sum() + len(seen)))
    np.testing.assert_allclose(live.facts()["outcomes"][0], exact, rtol=1e-12)
    weights, mine = live.mixture(0)
    assert 1 < len(weights) < len(ways) / 10
    second = weights @ stats_second(mine)
    np.testing.assert_allclose(second, each @ stats_second(alpha + ways), rtol=1e-11)


def stats_second(alpha):
    """Return E w_k^2 of Dirichlets `(T, K)`."""
    total = alpha.sum(axis=1, keepdims=True)
    return alpha * (alpha + 1) / (total * (total + 1))


def test_the_posterior_is_bayes_rule_by_quadrature():
    alpha, seen = np.array([2.0, 1.0, 1.0]), CORNERS[:6] + OPEN[:5]
    live = Tied("gridworld", options=ON_GRID.options, prior=alpha).start(GRID)
    tell(live, seen)
    outcomes = grid_outcomes(3, 4)
    total = moment(seen, outcomes, alpha, np.zeros(3))
    mean = [moment(seen, outcomes, alpha, row) / total for row in np.eye(3)]
    np.testing.assert_allclose(live.facts()["outcomes"][0], mean, rtol=1e-9)


def test_draws_have_the_posterior_s_distribution():
    live = ON_GRID.start(GRID)
    tell(live, CORNERS + OPEN)
    drawn = np.array([live.draw(np.random.default_rng(i))[0] for i in range(3000)])
    weights, alpha = live.mixture(0)
    for k in range(3):
        parts = stats.beta(alpha[:, k], alpha.sum(axis=1) - alpha[:, k])
        cdf = lambda x, parts=parts: weights @ parts.cdf(np.asarray(x)[:, None]).T  # noqa: E731
        assert stats.kstest(drawn[:, k], cdf).pvalue > 1e-3


def test_every_transition_teaches_all_rows_of_its_class():
    outcomes = np.tile(np.arange(4), (4, 2, 1))
    classes = np.array([[0, 1]] * 4)
    live = Tied(outcomes, classes, prior=[[1.0] * 4, [2.0] * 4]).start(Sizes(4, 2))
    tell(live, [(0, 0, 1), (1, 0, 1), (3, 0, 2), (2, 1, 3)])
    assert live.alpha.tolist() == [[1.0] * 4, [2.0] * 4]
    assert live.counts.tolist() == [[0, 2, 1, 0], [0, 0, 0, 1]]
    P, _ = live.sample(np.random.default_rng(0))
    for a in range(2):
        assert (P[:, a] == P[0, a]).all()
    assert not np.allclose(P[0, 0], P[0, 1])


def test_free_classes_are_a_dirichlet_belief():
    outcomes = np.tile(np.arange(3), (3, 2, 1))
    free = Tied(outcomes, np.arange(6).reshape(3, 2), prior=1 / 3).start(Sizes(3, 2))
    other = Dirichlet().start(Sizes(3, 2))
    rng = np.random.default_rng(0)
    columns = (rng.integers(3, size=50), rng.integers(2, size=50))
    seen = (*columns, rng.random(50), rng.integers(3, size=50))
    for live in (free, other):
        live.observe_many(*seen)
    assert np.allclose(free.alpha + free.counts, other.arrays.alpha, rtol=1e-12)
    for name in ("seen", "reward_mean", "reward_m2"):
        assert np.array_equal(free.state()[name], other.state()[name])


def test_a_sampled_model_has_the_outcomes_probabilities():
    live = Tied("gridworld", options=ON_GRID.options, rewards=KnownRewards()).start(GRID)
    P, r = live.sample(np.random.default_rng(4))
    w = live.draw(np.random.default_rng(4))[0]
    outcomes = grid_outcomes(3, 4)
    for s in range(12):
        for a in range(4):
            row = np.zeros(12)
            np.add.at(row, outcomes[s, a], w)
            np.testing.assert_allclose(P[s, a], row, atol=1e-15)
    assert np.array_equal(r, GRID.rewards)
    large = cpsrl.environment("gridworld", rows=12, columns=12)
    options = {"rows": 12, "columns": 12}
    model = Tied("gridworld", options=options).start(large).sample(np.random.default_rng(0))
    assert model.is_sparse
    assert model.n_states == 144


def test_where_there_is_no_room_rows_are_passed_over_whatever_comes_of_them(monkeypatch):
    """A row is used or not before its outcome is seen: so the posterior is calibrated."""
    monkeypatch.setattr(tied, "MOST_TERMS", 8)
    outcomes, rng, ranks = grid_outcomes(3, 4), np.random.default_rng(1), []
    for w in rng.dirichlet(np.ones(3), 250):
        live = ON_GRID.start(GRID)
        k, a = rng.choice(3, 40, p=w), rng.choice([0, 3], 40)
        tell(live, np.stack([np.zeros(40, np.int64), a, outcomes[0, a, k]], axis=1))
        assert len(live.terms[0]) <= 16
        weights, alpha = live.mixture(0)
        parts = stats.beta(alpha, alpha.sum(axis=1, keepdims=True) - alpha)
        ranks.append(weights @ parts.cdf(w))
    assert all(stats.kstest(column, "uniform").pvalue > 1e-3 for column in np.transpose(ranks))
    live = ON_GRID.start(GRID)
    monkeypatch.setattr(tied, "MOST_TERMS", 1)
    tell(live, CORNERS)
    assert live.counts.sum() == 0
    tell(live, OPEN)
    assert live.counts.sum() == len(OPEN) - 1  # the goal leads to the start whatever the outcome


def test_transitions_that_no_outcome_makes():
    live = ON_GRID.start(GRID)
    tell(live, OPEN)
    before = live.state()
    message = "state 5 under action 0 cannot lead to state 9"
    with pytest.raises(ValueError, match=message):
        tell(live, [*CORNERS, (5, 0, 9), (5, 0, 1)])
    with pytest.raises(ValueError, match=message):
        live.check_possible(5, 0, 9)
    live.check_possible(5, 0, 4)
    assert equal(live.state(), before)
    agent = cpsrl.start(PSRL(Bernoulli(0.9), belief=ON_GRID), Sizes(12, 4))
    with pytest.raises(ValueError, match=message):
        agent.observe(5, 0, 0.0, 9)
    wrong = cpsrl.TabularMDP(np.full((12, 4, 12), 1 / 12), np.zeros((12, 4)))
    with pytest.raises(ValueError, match="the prior says that state 0"):
        simulate(PSRL(Bernoulli(0.9), belief=ON_GRID), wrong, 10, 1)


def test_state_copy_and_restore():
    live = ON_GRID.start(GRID)
    live.observe_many(*transition(0, 0, 2.0, 0))
    tell(live, CORNERS)
    state = live.state()
    other, new = live.copy(), ON_GRID.start(GRID)
    new.restore(json_like(state))
    assert equal(new.state(), state)
    for one in (other, new):
        tell(one, CORNERS + OPEN)
        assert not equal(one.state(), state)
    assert equal(live.state(), state)
    assert equal(other.state(), new.state())
    before = new.state()
    for wrong in (
        {"counts": state["counts"] - 10},
        {"terms": state["terms"][:-1]},
        {"logs": state["logs"] * np.nan},
        {"sizes": state["sizes"] + 1},
        {"seen": None},
    ):
        with pytest.raises(ValueError, match="stored"):
            new.restore(state | wrong)
        assert equal(new.state(), before)


@pytest.mark.parametrize("rows", [3, 12])
def test_both_loops_give_one_run(rows):
    options = {"rows": rows, "columns": rows}
    mdp = cpsrl.environment("gridworld", **options)
    for rewards in (KnownRewards(), NormalGamma(mu0=0.0)):
        spec = PSRL(Bernoulli(0.9), belief=Tied("gridworld", options=options, rewards=rewards))
        whole = simulate(spec, mdp, 120, [3], trajectory=True, resample_times=True)
        path, times, state = in_steps(spec, mdp, 120)
        assert equal(path, whole.trajectory[0])
        assert np.array_equal(times, whole.resample_times[0])
        assert equal(whole.state[0] | state, whole.state[0])


def test_it_learns_much_sooner_than_free_rows_do():
    mdp, mean = cpsrl.environment("gridworld", rows=6, columns=6), []
    options, known = {"rows": 6, "columns": 6}, KnownRewards()
    for belief in (Tied("gridworld", options=options, rewards=known), Dirichlet(rewards=known)):
        runs = simulate(PSRL(Bernoulli(0.98), belief=belief), mdp, 2000, 6, seed=5)
        mean.append(runs.regret[:, -1].mean())
    assert mean[0] < 0.1 * mean[1]


def test_a_live_agent_keeps_it_and_says_what_it_believes(tmp_path):
    spec, path = PSRL(Bernoulli(0.9), belief=ON_GRID), tmp_path / "grid.db"
    assert from_tree(json.loads(json.dumps(to_tree(spec)))) == spec
    world = GRID.simulator(seed=1)
    with cpsrl.open(path, spec, Sizes(12, 4)) as agent:
        for _ in range(100):
            state = world.state
            action = agent.act(state)
            agent.observe(state, action, *world.step(action))
        said = agent.explain(0, draws=39)
    assert np.abs(np.array(said.belief["outcomes"][0]) - [0.6, 0.2, 0.2]).max() < 0.2
    with cpsrl.open(path) as agent:
        assert agent.explain(0, draws=39).to_json() == said.to_json()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tied("gridwrld"), "did you mean 'gridworld'"),
        (lambda: Tied("gridworld", options={"row": 3}), "did you mean 'rows'"),
        (lambda: Tied("gridworld", options=3), "options must be a table by name"),
        (lambda: Tied([[[0]]], options={"rows": 3}), "outcomes is an array"),
        (lambda: Tied([[[0]]], rewards=1), "rewards must be NormalGamma"),
        (lambda: Tied("gridworld").start(Sizes(4, 4)), r"\(S, A, K\) = \(4, 4, K\), not \(100, 4"),
        (lambda: Tied([[[0.5]]]).start(Sizes(1, 1)), "array of whole numbers, not of float64"),
        (lambda: Tied([[[0, 1]]]).start(Sizes(1, 1)), "whole numbers in 0..0"),
        (lambda: Tied([[[0]]], [[1]]).start(Sizes(1, 1)), "of which none is left out"),
        (lambda: Tied([[[0]]], [0]).start(Sizes(1, 1)), r"classes must be \(S, A\)"),
        (lambda: Tied([[[0]]], prior=[1.0, 2.0]).start(Sizes(1, 1)), r"must fit \(C, K\)"),
        (lambda: Tied([[[0]]], prior=-1.0).start(Sizes(1, 1)), "prior must be positive"),
        (lambda: Tied([[[0]]], prior=1e308).start(Sizes(1, 1)), r"prior .* \(1e-100 to 1e\+100\)"),
        (
            lambda: Tied(np.zeros((1, 1, 0), int)).start(Sizes(1, 1)),
            r"a K of at least 1, .* not \(1, 1, 0\)",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
