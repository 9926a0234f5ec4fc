"""The belief against formulas, distributions, and wrong input."""

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

from beliefs.by_formula import FormulaBelief
from contracts.test_agents import equal
from cpsrl import TSDE, Dirichlet, KnownRewards, NormalGamma, Sizes, TabularMDP, start
from cpsrl.beliefs import dirichlet
from cpsrl.beliefs.belief import started
from cpsrl.beliefs.dirichlet import DenseDirichlet, sample_rows
from cpsrl.beliefs.gamma_variates import small_gamma
from cpsrl.beliefs.sparse import SparseDirichlet
from cpsrl.seeding import words_of

SIZES = Sizes(5, 2)
DRAWS = 4000


def observe(live, transitions):
    """Tell a live belief of a list of transitions."""
    states, actions, rewards, next_states = zip(*transitions, strict=True)
    live.observe_many(np.array(states), np.array(actions), np.array(rewards), np.array(next_states))


def both(seen, belief=None, alpha=0.2, **rewards):
    mine = (belief or Dirichlet(rewards=NormalGamma(**rewards))).start(SIZES)
    observe(mine, seen)
    formula = FormulaBelief(np.broadcast_to(alpha, (5, 2, 5)), **rewards)
    for transition in seen:
        formula.observe(*transition)
    return mine, formula


def draws(live, n=DRAWS, seed=0):
    """Return transitions `(n, S, A, S)` and rewards `(n, S, A)`."""
    rng = np.random.default_rng(seed)
    samples = [live.sample(rng) for _ in range(n)]
    return np.stack([m.dense for m in samples]), np.stack([m.rewards for m in samples])


@pytest.fixture(params=["dense", "sparse"])
def kind(request, monkeypatch):
    """Make small problems use the sparse belief, too."""
    if request.param == "sparse":
        monkeypatch.setattr(dirichlet, "DENSE_STATES", 0)
    return request.param


def test_mean_by_formula(seen, kind):
    rewards = {"mu0": 0.5, "n_mu": 3.0, "tau0": 2.0, "n_tau": 5.0}
    mine, formula = both(seen, **rewards)
    assert isinstance(mine, DenseDirichlet if kind == "dense" else SparseDirichlet)
    mean = mine.mean()
    for s in range(5):
        for a in range(2):
            row = formula.row(s, a)
            np.testing.assert_allclose(mean.dense[s, a], row / row.sum(), atol=1e-12)
            assert mean.rewards[s, a] == pytest.approx(formula.reward(s, a)[0])


def test_draws_have_the_distribution_of_the_formula(seen, kind):
    mine, formula = both(seen, mu0=0.5, n_mu=2.0, tau0=0.5, n_tau=3.0)
    transitions, rewards = draws(mine)
    p = []
    for s in range(5):
        for a in range(2):
            row = formula.row(s, a)
            for j in range(5):
                marginal = stats.beta(row[j], row.sum() - row[j])
                # Below 1e-12 the beliefs give up exactness, and floats become zeros.
                clipped = np.maximum(transitions[:, s, a, j], 1e-12)
                p.append(stats.kstest(clipped[clipped > 1e-12], _above(marginal, 1e-12)).pvalue)
                zeros = (clipped <= 1e-12).sum()
                p.append(stats.binomtest(int(zeros), DRAWS, marginal.cdf(1e-12)).pvalue)
            p.append(stats.kstest(rewards[:, s, a], formula.reward_marginal(s, a).cdf).pvalue)
    assert min(p) > 1e-3 / len(p)


def _above(marginal, least):
    return lambda x: (marginal.cdf(x) - marginal.cdf(least)) / marginal.sf(least)


def test_dense_and_sparse_agree_in_distribution(monkeypatch):
    rng = np.random.default_rng(1)
    sizes = Sizes(20, 2)
    mask = rng.random((20, 2, 20)) < 0.7
    mask[..., 0] = True
    p = []
    seen = [(0, 0, 0)] * 3 + [(0, 0, 7), (1, 1, 0), (2, 0, 0), (2, 0, 0)]
    for belief in (
        Dirichlet(),
        Dirichlet(transitions=0.3),
        Dirichlet(support=mask),
        Dirichlet(4.0, support=mask),
    ):
        found = []
        for states in (128, 0):
            monkeypatch.setattr(dirichlet, "DENSE_STATES", states)
            live = belief.start(sizes)
            possible = belief.support is None
            observe(live, [(s, a, 0.0, s2) for s, a, s2 in seen if possible or mask[s, a, s2]])
            assert isinstance(live, DenseDirichlet if states else SparseDirichlet)
            found.append(np.maximum(draws(live, 1500, seed=states)[0], 1e-12))
        for s, a in [(0, 0), (1, 1), (2, 0), (3, 1)]:
            for j in range(20):
                p.append(stats.ks_2samp(found[0][:, s, a, j], found[1][:, s, a, j]).pvalue)
            first, second = (np.sort(f[:, s, a], axis=1) for f in found)
            for j in (-1, -2, -3):
                p.append(stats.ks_2samp(first[:, j], second[:, j]).pvalue)
    assert min(p) > 1e-3 / len(p)


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.05, 0.5, 0.7, 1.0, 30.0])
def test_rows_are_distributions_for_every_shape(alpha, kind):
    live = Dirichlet(transitions=alpha).start(SIZES)
    observe(live, [(0, 0, 1.0, 2)] * 3)
    transitions, _ = draws(live, 2000)
    assert (transitions >= 0).all()
    np.testing.assert_allclose(transitions.sum(axis=3), 1, atol=1e-12)
    # Every successor of an unseen row is as likely as any other.
    mean = transitions[:, 3, 1].mean(axis=0)
    deviation = np.sqrt(0.2 * 0.8 / (5 * alpha + 1) / 2000)
    assert np.abs(mean - 0.2).max() < 4.5 * deviation


def test_no_row_is_lost_at_a_hundred_thousand_states():
    n_states = 100_000
    shapes = np.full((1, n_states), 1 / n_states)
    row = np.empty_like(shapes)
    rng = np.random.default_rng(0)
    for visits in (0, 1):
        shapes[0, 5] += visits
        with words_of(rng) as words:
            live = Dirichlet(np.ones((1, 1, 1))).start(Sizes(1, 1)).arrays
            small = small_gamma(1 / n_states)
            belief = live._replace(alpha=shapes, small=small)
            sample_rows(belief, np.array([visits]), words, row)
        assert row.sum() == pytest.approx(1, abs=1e-12)


def test_sparse_rows_of_a_large_problem():
    n_states = 5000
    live = Dirichlet().start(Sizes(n_states, 1))
    assert isinstance(live, SparseDirichlet)
    observe(live, [(0, 0, 0.0, 7)] * 5 + [(0, 0, 0.0, 8)] * 2)
    rng = np.random.default_rng(0)
    shares, biggest, atoms = [], [], []
    for _ in range(40):
        matrix = live.sample(rng).csr
        assert matrix.has_canonical_format
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
        shares.append(matrix[0, 7])
        atoms.append(matrix.nnz / n_states)
        biggest.append(matrix.tocsr().max(axis=1).toarray().ravel()[1:])
    a = 1 / n_states
    assert stats.kstest(shares, stats.beta(5 + a, 2 + (n_states - 1) * a).cdf).pvalue > 1e-3
    assert 20 < np.mean(atoms) < 40
    # The largest atom of a Dirichlet process with mass 1: the Golomb-Dickman constant on average.
    largest = np.concatenate(biggest)
    assert abs(largest.mean() - 0.624330) < 5 * largest.std() / np.sqrt(largest.size)


def test_a_support_is_kept(seen, kind):
    mask = np.zeros((5, 2, 5), bool)
    mask[..., :2] = True
    mask[4, :, 4] = True
    live = Dirichlet(support=mask).start(SIZES)
    observe(live, [(0, 0, 0.0, 1)])
    transitions, _ = draws(live, 200)
    assert not transitions[:, ~mask].any()
    assert (live.mean().dense[~mask] == 0).all()
    assert live.mean().dense[4, 0] == pytest.approx([1 / 3, 1 / 3, 0, 0, 1 / 3])
    same = Dirichlet(support=scipy.sparse.csr_array(mask.reshape(10, 5))).start(SIZES)
    observe(same, [(0, 0, 0.0, 1)])
    assert np.array_equal(live.mean().dense, same.mean().dense)
    live.check_possible(0, 0, 1)
    with pytest.raises(ValueError, match="state 0 under action 0 cannot lead to state 3"):
        live.check_possible(0, 0, 3)
    agent = start(TSDE(Dirichlet(support=mask)), SIZES)
    before = agent.state()
    with pytest.raises(ValueError, match="state 0 under action 0 cannot lead to state 3"):
        agent.observe(0, 0, 0.0, 3)
    assert equal(agent.state(), before)


def test_an_array_of_parameters():
    alpha = np.random.default_rng(0).random((5, 2, 5)) + 0.1
    alpha[0, 0] = [0, 0, 3, 1, 0]
    mine = Dirichlet(transitions=alpha).start(SIZES)
    observe(mine, [(0, 0, 0.0, 3)])
    assert mine.mean().dense[0, 0] == pytest.approx([0, 0, 3 / 5, 2 / 5, 0])
    transitions, _ = draws(mine, 3000)
    assert stats.kstest(transitions[:, 0, 0, 2], stats.beta(3, 2).cdf).pvalue > 1e-3
    marginal = stats.beta(alpha[1, 1, 0], alpha[1, 1].sum() - alpha[1, 1, 0])
    assert stats.kstest(transitions[:, 1, 1, 0], marginal.cdf).pvalue > 1e-3


def test_known_rewards(seen):
    means = np.arange(10.0).reshape(5, 2)
    mine, _ = both(seen, Dirichlet(rewards=KnownRewards(means)))
    assert np.array_equal(mine.mean().rewards, means)
    assert np.array_equal(mine.sample(np.random.default_rng(0)).rewards, means)
    mdp = TabularMDP(np.full((5, 2, 5), 0.2), means)
    assert np.array_equal(Dirichlet(rewards=KnownRewards()).start(mdp).mean().rewards, means)


def test_state_and_restore(seen, kind):
    mine, _ = both(seen[:50])
    state = mine.state()
    new = Dirichlet().start(SIZES)
    new.restore(state)
    for live in (mine, new):
        observe(live, seen[50:])
    first, second = (p.sample(np.random.default_rng(5)) for p in (mine, new))
    assert np.array_equal(first.dense, second.dense)
    assert np.array_equal(first.rewards, second.rewards)
    broken = {**state, "seen": state["seen"][:3]}
    with pytest.raises(ValueError, match="seen is int64"):
        new.restore(broken)
    assert np.array_equal(new.mean().dense, mine.mean().dense)


def test_damaged_states_are_refused(seen, kind):
    mine, _ = both(seen)
    good = mine.state()
    damages = {"seen": -1, "reward_m2": -1.0, "reward_mean": np.nan}
    if kind == "dense":
        damages["alpha"] = np.nan
    else:
        damages |= {"first": 90, "following": 0, "successor": 5, "counts": 0}
    for name, value in damages.items():
        bad = {key: array.copy() for key, array in good.items()}
        bad[name][..., 0] = value
        with pytest.raises(ValueError, match="the stored belief is damaged"):
            Dirichlet().start(SIZES).restore(bad)
    Dirichlet().start(SIZES).restore(good)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dirichlet(transitions=0.0), "positive number"),
        (lambda: Dirichlet(transitions=np.ones((5, 2, 5)), support=np.ones((5, 2, 5))), "not both"),
        (lambda: Dirichlet(rewards=3), "NormalGamma"),
        (lambda: NormalGamma(n_tau=-1), "n_tau must be a positive number"),
        (lambda: NormalGamma(mu0=np.nan), "mu0 must be a finite number"),
        (lambda: Dirichlet(transitions=np.ones((5, 5))).start(SIZES), r"must be \(S, A, S\)"),
        (lambda: Dirichlet(transitions=-np.ones((5, 2, 5))).start(SIZES), r"\[0, 0, 0\] is -1"),
        (lambda: Dirichlet(transitions=np.zeros((5, 2, 5))).start(SIZES), "all 0 from state 0"),
        (lambda: Dirichlet(support=np.zeros((5, 2, 5))).start(SIZES), "no possible successor"),
        (lambda: Dirichlet(support=np.ones((5, 5))).start(SIZES), r"support must be \(S, A, S\)"),
        (lambda: Dirichlet(rewards=KnownRewards()).start(SIZES), "Sizes have none"),
        (lambda: Dirichlet(rewards=KnownRewards([1])).start(SIZES), r"\(S, A\) = \(5, 2\)"),
        (lambda: Dirichlet(transitions=1.0).start(Sizes(50_000, 4)), "smaller parameter per cell"),
        (lambda: Dirichlet().start(Sizes(20_000, 4)).mean(), "prior with a support"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_prior_that_excludes_what_the_mdp_does_is_refused(kind):
    mask = np.ones((5, 2, 5), bool)
    mask[2, 1, 3] = False
    mdp = TabularMDP(np.full((5, 2, 5), 0.2), np.zeros((5, 2)))
    with pytest.raises(ValueError, match="state 2 under action 1 cannot lead to state 3, but in"):
        started(Dirichlet(support=mask), mdp)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ((5, 0, 0.0, 0), r"state must be a whole number in 0\.\.4, not 5"),
        ((0, -1, 0.0, 0), r"action must be a whole number in 0\.\.1, not -1"),
        ((0, 0, 0.0, 1.5), r"next_state must be a whole number in 0\.\.4, not 1.5"),
        ((0, 0, np.nan, 0), "reward must be a finite number"),
        ((0, 0, "a lot", 0), "reward must be a finite number"),
    ],
)
def test_wrong_transitions_change_nothing(seen, kind, transition, message):
    agent = start(TSDE(), Sizes(5, 2, (-10, 10)))
    for good in seen:
        agent.observe(*good)
    before = agent.state()
    with pytest.raises(ValueError, match=message):
        agent.observe(*transition)
    assert equal(agent.state(), before)
