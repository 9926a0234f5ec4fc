"""Mean rewards in a range, with noise of a kind that is learned: against brute force and laws."""

from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats

import cpsrl
from beliefs.test_belief import draws, observe
from cpsrl.beliefs import Forgetting, InRange, Tied, dirichlet
from cpsrl.beliefs.kinds import ODDS, share_weights
from cpsrl.beliefs.reward_kinds import constant_chances, repeated_chances, widened
from cpsrl.live.explain import solved_draws

SIZES = cpsrl.Sizes(3, 2, (-1.0, 3.0))
REWARDS = [[0.5, 0.5, 0.5], [2.0, 2.0], [1.0], [], [0.0, 1.0, 0.0, 2.5], [3.0, 2.0]]
"""Of each of six pairs."""


def live_of(rewards, sizes=SIZES, belief=None, **options):
    live = (belief or cpsrl.Dirichlet(rewards=InRange(**options))).start(sizes)
    seen = [
        (*divmod(row, sizes.n_actions), reward, 0)
        for row, those in enumerate(rewards)
        for reward in those
    ]
    observe(live, seen)
    return live


def by_brute_force(rewards):
    """Return p(w), and P(constant) of every pair, by all kinds of all pairs for every w."""
    chances, weights = np.zeros(len(rewards)), np.zeros(len(ODDS))
    for k, odds in enumerate(ODDS):
        w = odds / (1 + odds)
        for kinds in product([True, False], repeat=len(rewards)):
            likelihood = 1.0
            for constant, those in zip(kinds, rewards, strict=True):
                equal = len(set(those)) < 2
                run = next((i for i, x in enumerate(those) if x != those[0]), len(those))
                # E q^(run - 1), and E q^(run - 1) (1 - q), for q uniform
                repeated = 1.0 if not those else 1 / run if equal else 1 / run - 1 / (run + 1)
                likelihood *= w * equal if constant else (1 - w) * repeated
            weights[k] += likelihood
            chances += likelihood * np.array(kinds)
    return weights / weights.sum(), chances / weights.sum()


def noisy_density(those, low, high, n_tau):
    """Return the density of theta on the range, from the likelihood and the prior of tau."""
    x, a, b = np.array(those), n_tau / 2, n_tau / 2 * (high - low) ** 2

    def density(theta):  # tau is integrated over by hand: a gamma integral
        return (b + 0.5 * ((x - theta) ** 2).sum()) ** -(a + len(x) / 2)

    total = integrate.quad(density, low, high, epsabs=0, epsrel=1e-12)[0]
    return lambda theta: density(theta) / total


@pytest.mark.parametrize("n_tau", [1.0, 2.5])
def test_the_posterior_by_brute_force(n_tau):
    live = live_of(REWARDS, n_tau=n_tau)
    r = live.arrays.rewards
    weights, chances = by_brute_force(REWARDS)
    np.testing.assert_allclose(share_weights(repeated_chances(r.seen, r.m2))[1], weights, atol=1e-9)
    np.testing.assert_allclose(constant_chances(r.seen, r.m2), chances, atol=1e-9)
    low, high = SIZES.reward_range
    expected = []
    for those, chance in zip(REWARDS, chances, strict=True):
        if not those:
            expected.append((low + high) / 2)
            continue
        density = noisy_density(those, low, high, n_tau)
        mean = integrate.quad(lambda x, p=density: x * p(x), low, high, epsrel=1e-12)[0]
        expected.append(chance * those[0] + (1 - chance) * mean)
    np.testing.assert_allclose(live.mean().rewards.ravel(), expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["dense", "sparse", "tied"])
def test_draws_have_the_law(kind, monkeypatch):
    belief = None
    if kind == "sparse":
        monkeypatch.setattr(dirichlet, "DENSE_STATES", 0)
    elif kind == "tied":
        belief = Tied(np.zeros((3, 2, 1), int), rewards=InRange())
    live = live_of(REWARDS, belief=belief)
    rng = np.random.default_rng(1)
    if kind == "tied":
        drawn = np.array([live.sample(rng)[1].ravel() for _ in range(4000)])
    else:
        drawn = draws(live, 4000, seed=1)[1].reshape(4000, -1)
    low, high = SIZES.reward_range
    chances, p = by_brute_force(REWARDS)[1], []
    for those, chance, values in zip(REWARDS, chances, drawn.T, strict=True):
        if not those:
            p.append(stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue)
            continue
        known = values == those[0]
        p.append(stats.binomtest(int(known.sum()), 4000, min(chance, 1.0)).pvalue)
        noisy = np.sort(values[~known])
        density = noisy_density(those, low, high, 1.0)
        grid = np.linspace(low, high, 2001)
        up_to = integrate.cumulative_simpson([density(x) for x in grid], x=grid, initial=0)
        p.append(stats.kstest(noisy, lambda x, g=grid, c=up_to: np.interp(x, g, c)).pvalue)
        assert ((low <= noisy) & (noisy <= high)).all()
    assert min(p) > 1e-3 / len(p)


def test_rewards_outside_the_range():
    """They are believed, and widen the range for others by what cannot be noise."""
    live = live_of([[10.0] * 20, [0.0] * 5, [1.0, 2.0] * 5, [], [], []])
    r = live.arrays.rewards
    assert widened(r.seen, r.mean, r.m2, r.prior) == (-1.0, 10.0)
    drawn = draws(live, 3000)[1].reshape(3000, -1)
    assert np.median(drawn[:, 0]) == 10.0 == drawn[:, 0].max()
    assert 8 < drawn[:, 3].max() <= 10.0
    # one that may be noise does not widen it
    live = live_of([[5.0], [0.0, 1.0] * 5, [2.0, 3.0], [], [], []])
    r = live.arrays.rewards
    assert widened(r.seen, r.mean, r.m2, r.prior) == SIZES.reward_range
    drawn = draws(live, 3000)[1].reshape(3000, -1)
    assert (drawn[drawn[:, 0] != 5.0] <= 3.0).all()
    # many noisy ones: their mean is found, though it is outside
    noisy = np.random.default_rng(0).normal(-20.0, 1.0, 400).tolist()
    live = live_of([noisy, [], [], [], [], []])
    drawn = draws(live, 500)[1].reshape(500, -1)[:, 0]
    assert abs(np.median(drawn) - np.mean(noisy)) < 0.4
    for far in (1e12, -1e12):
        drawn = draws(live_of([[far, 0.0], [far] * 3, [far], [], [], []]), 50)[1]
        assert np.isfinite(drawn).all()


def test_what_fades_goes_back_to_the_prior():
    belief = Forgetting(cpsrl.Dirichlet(rewards=InRange()), half_life=5.0)
    live = belief.start(SIZES)
    observe(live, [(0, 0, 2.0, 0)] * 4)
    assert (draws_of(live, 200)[:, 0] == 2.0).mean() > 0.5
    observe(live, [(1, 1, 0.0, 0)] * 60)
    faded = draws_of(live, 2000)[:, 0]
    assert stats.kstest(faded, stats.uniform(-1, 4).cdf).pvalue > 1e-3


def draws_of(live, n):
    rng = np.random.default_rng(2)
    return np.array([live.sample(rng)[1].ravel() for _ in range(n)])


@pytest.mark.filterwarnings("ignore:a reward of")
def test_intervals_cover_truths_from_the_prior():
    """Of the optimal gain, as `explain` has them: 199 draws, truths from the model's prior."""
    rng, covered, worlds = np.random.default_rng(0), 0, 400
    agent_of = cpsrl.PSRL(
        objective=cpsrl.Average(), belief=cpsrl.Dirichlet(rewards=InRange(), sharpness=10.0)
    )
    sizes = cpsrl.Sizes(3, 2)
    for world in range(worlds):
        odds = ODDS[rng.integers(len(ODDS))]
        constant = rng.random((3, 2)) < odds / (1 + odds)
        deviation = np.where(constant, 0.0, rng.gamma(0.5, 2.0, (3, 2)) ** -0.5)
        means = rng.random((3, 2))
        rows = rng.dirichlet(np.full(3, 1 / 3), (3, 2))
        agent = cpsrl.start(agent_of, sizes, seed=world)
        for _ in range(60):  # any actions will do, chosen by what was seen or not
            s, a = rng.integers(3), rng.integers(2)
            reward = means[s, a] + deviation[s, a] * rng.standard_normal()
            agent.observe(s, a, reward, rng.choice(3, p=rows[s, a]))
        truth = cpsrl.solve_average(cpsrl.TabularMDP(rows, means)).gain[0]
        gains = [one.gain[0] for one in solved_draws(agent, np.array([0]), rng, 199)]
        low, high = np.sort(gains)[[4, 194]]
        covered += low <= truth <= high
    print(covered / worlds)
    assert 0.93 <= covered / worlds <= 0.97


def test_sharpened_draws(monkeypatch):
    """The counts beyond the first five weigh ten times; 1 is exact, and so is `exact`."""
    seen = [(0, 0, 0.0, 1)] * 6 + [(0, 0, 0.0, 2)] * 3 + [(1, 1, 0.0, 0)] * 5
    f, prior = (5 + 10 * 4) / 9, 1 / 3
    for states in (128, 0):
        monkeypatch.setattr(dirichlet, "DENSE_STATES", states)
        live, plain = (
            cpsrl.Dirichlet(sharpness=k, sharp_after=5.0).start(SIZES) for k in (10.0, 1.0)
        )
        observe(live, seen)
        observe(plain, seen)
        P, _ = draws(live, 4000)
        marginal = stats.beta(prior + 6 * f, 2 * prior + 3 * f)
        assert stats.kstest(P[:, 0, 0, 1], marginal.cdf).pvalue > 1e-3
        assert stats.kstest(P[:, 1, 1, 0], stats.beta(prior + 5, 2 * prior).cdf).pvalue > 1e-3
        one, other = (b.sample(np.random.default_rng(4)) for b in (live.exact(), plain))
        assert np.array_equal(one.dense, other.dense)
        assert live.exact() is not live
        assert plain.exact() is plain
        np.testing.assert_array_equal(live.mean().dense, plain.mean().dense)


def test_sharpened_draws_look_for_states_never_left(monkeypatch):
    """From the pair known least, as if five visits more had led to one; only exact draws do not."""
    counts = {(0, 0): 9, (0, 1): 9, (1, 0): 9, (1, 1): 7}
    seen = [(*pair, 0.0, 1) for pair, n in counts.items() for _ in range(n)]
    support = np.ones((3, 2, 3), bool)
    support[1, 1, 2] = False
    for states in (128, 0):
        monkeypatch.setattr(dirichlet, "DENSE_STATES", states)
        live = cpsrl.Dirichlet(sharpness=10.0, sharp_after=5.0).start(SIZES)
        observe(live, seen)
        P, _ = draws(live, 4000)
        assert stats.kstest(P[:, 1, 1, 2], stats.beta(1 / 3 + 5, 2 / 3 + 25).cdf).pvalue > 1e-3
        assert stats.kstest(P[:, 0, 1, 2], stats.beta(1 / 3, 2 / 3 + 45).cdf).pvalue > 1e-3
        exact, _ = draws(live.exact(), 4000)
        assert stats.kstest(exact[:, 1, 1, 2], stats.beta(1 / 3, 2 / 3 + 7).cdf).pvalue > 1e-3
        apart = cpsrl.Dirichlet(support=support, sharpness=10.0, sharp_after=5.0).start(SIZES)
        observe(apart, seen)
        P, _ = draws(apart, 3000)
        assert (P[:, 1, 1, 2] == 0).all()
        looked = (P[:, :, :, 2].reshape(-1, 6)[:, :3] > 0.03).mean(axis=0)
        assert np.abs(looked - looked.mean()).max() < 0.06, "of equal ones each as often"
        assert looked.mean() > 0.3
        observe(live, [(2, 0, 0.0, 2)])
        P, _ = draws(live, 2000)
        assert stats.kstest(P[:, 1, 1, 2], stats.beta(1 / 3, 2 / 3 + 25).cdf).pvalue > 1e-3
