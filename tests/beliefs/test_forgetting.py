"""Evidence that fades, against weighted Bayes by hand, and what it is when it does not fade."""

import numpy as np
import pytest
from scipy import integrate, stats

import cpsrl
from contracts.test_agents import equal
from cpsrl import Bernoulli, Dirichlet, KnownRewards, NormalGamma, Sizes, simulate
from cpsrl.beliefs import Forgetting, Parametric, Truncated
from cpsrl.beliefs.belief import started
from cpsrl.resampling import RULES
from cpsrl.seeding import words_of

SIZES = Sizes(5, 2)
HALF_LIFE = 7.0
PRIOR = {"mu0": 0.5, "n_mu": 3.0, "tau0": 2.0, "n_tau": 5.0}


def observe(live, transitions, batch=13):
    """Tell a live belief of transitions, some at a time."""
    for first in range(0, len(transitions), batch):
        states, actions, rewards, next_states = map(
            np.array, zip(*transitions[first : first + batch], strict=True)
        )
        live.observe_many(states, actions, rewards, next_states)


def weights(n, half_life=HALF_LIFE):
    return 0.5 ** (np.arange(n)[::-1] / half_life)


@pytest.mark.parametrize("batch", [1, 13, 90])
def test_the_posterior_is_that_of_weighted_evidence(seen, batch):
    live = Forgetting(Dirichlet(0.2, rewards=NormalGamma(**PRIOR)), HALF_LIFE).start(SIZES)
    observe(live, seen, batch)
    w, mean = weights(len(seen)), live.mean()
    rewards = live.dense.rewards
    for s in range(5):
        for a in range(2):
            at = [i for i, (s1, a1, _, _) in enumerate(seen) if (s1, a1) == (s, a)]
            row = np.full(5, 0.2)
            np.add.at(row, [seen[i][3] for i in at], w[at])
            np.testing.assert_allclose(mean.dense[s, a], row / row.sum(), rtol=0, atol=1e-12)
            x, n = np.array([seen[i][2] for i in at]), w[at].sum()
            m = (w[at] @ x) / n if at else 0.0
            place = s * 2 + a
            assert rewards.seen[place] == pytest.approx(n, abs=1e-12)
            assert rewards.m2[place] == pytest.approx(w[at] @ (x - m) ** 2, rel=1e-12)
            posterior = (3.0 * 0.5 + n * m) / (3.0 + n)
            assert mean.rewards[s, a] == pytest.approx(posterior, abs=1e-12)


def test_the_posterior_by_integration():
    """Two successors: p(theta) theta^(sum of w) (1 - theta)^(sum of w), by quadrature."""
    live = Forgetting(Dirichlet(1.5), 2.0).start(Sizes(2, 1))
    observe(live, [(0, 0, 0.0, 0), (0, 0, 0.0, 1), (0, 0, 0.0, 0), (1, 0, 0.0, 0)])
    a, b = 2.0**-1.5 + 2.0**-0.5, 2.0**-1.0

    def density(theta):
        return theta ** (0.5 + a) * (1 - theta) ** (0.5 + b)

    options = {"epsabs": 1e-14, "epsrel": 1e-13}
    total = integrate.quad(density, 0, 1, **options)[0]
    first = integrate.quad(lambda theta: theta * density(theta), 0, 1, **options)[0]
    assert live.mean().dense[0, 0, 0] == pytest.approx(first / total, abs=1e-12)


def test_draws_have_the_distribution_of_the_weights(seen):
    live = Forgetting(Dirichlet(0.2, rewards=NormalGamma(**PRIOR)), HALF_LIFE).start(SIZES)
    observe(live, seen)
    rng, arrays = np.random.default_rng(0), live.dense
    P, r = map(np.stack, zip(*(live.sample(rng) for _ in range(3000)), strict=True))
    p = []
    for s, a in [(0, 0), (2, 1), (4, 0)]:
        shapes = arrays.alpha[s * 2 + a]
        for j in np.flatnonzero(shapes > 0.3):
            marginal = stats.beta(shapes[j], shapes.sum() - shapes[j])
            p.append(stats.kstest(P[:, s, a, j], marginal.cdf).pvalue)
        n, m, m2 = (getattr(arrays.rewards, name)[s * 2 + a] for name in ("seen", "mean", "m2"))
        beta = 2.5 / 2.0 + 0.5 * (m2 + 3.0 * n * (m - 0.5) ** 2 / (3.0 + n))
        alpha, mu = 2.5 + n / 2, (1.5 + n * m) / (3.0 + n)
        student = stats.t(2 * alpha, mu, np.sqrt(beta / (alpha * (3.0 + n))))
        p.append(stats.kstest(r[:, s, a], student.cdf).pvalue)
    assert min(p) > 1e-3 / len(p)


@pytest.mark.parametrize("rule", ["bernoulli", "tsde"])
@pytest.mark.parametrize("belief", [Dirichlet(), Truncated(50.0)], ids=["dirichlet", "truncated"])
def test_an_infinite_half_life_is_the_plain_belief(belief, rule):
    mdp = cpsrl.environment("riverswim")
    parts = RULES.make(rule), cpsrl.Discounted(0.9)
    options = {"trajectory": True, "resample_times": True}
    plain, fading = (
        simulate(cpsrl.PSRL(*parts, one), mdp, 500, 2, **options)
        for one in (belief, Forgetting(belief, np.inf))
    )
    assert all(map(equal, plain.trajectory, fading.trajectory))
    assert all(map(np.array_equal, plain.resample_times, fading.resample_times))
    for one, other in zip(plain.state, fading.state, strict=True):
        assert equal(one["agent"]["belief"], other["agent"]["belief"])


def test_a_half_life_beyond_all_steps_gives_the_draws_of_the_plain_belief(seen):
    """Not only the description: weights that are all 1 go through the fading arithmetic."""
    live, plain = Forgetting(Dirichlet(0.25), 1e100).start(SIZES), Dirichlet(0.25).start(SIZES)
    for one in (live, plain):
        observe(one, seen)
    P, r = live.sample(7)
    drawn = plain.sample(7)
    np.testing.assert_array_equal(P, drawn.dense)
    np.testing.assert_array_equal(r, drawn.rewards)


def test_what_is_long_past_is_forgotten():
    live = Forgetting(Dirichlet(1e-3), 1.0).start(SIZES)
    observe(live, [(0, 0, 1.0, 1)] * 5 + [(1, 1, 0.0, 2)] * 300, 50)
    assert live.counts[0, 1] > 0
    assert live.dense.alpha[0, 1] == 1e-3
    for _ in range(50):  # a row whose parameters sum to little is drawn all the same
        P, r = live.sample(np.random.default_rng(1))
        np.testing.assert_allclose(P.sum(axis=2), 1, atol=1e-12)
        assert np.isfinite(r).all()
    observe(live, [(1, 1, 0.0, 2)] * 2000, 1500)
    assert live.counts[0, 1] == 0 == live.dense.rewards.seen[0]
    assert live.counts[3].sum() == pytest.approx(2, abs=1e-12)


def test_known_rewards_do_not_fade(seen):
    means = np.arange(10.0).reshape(5, 2)
    live = Forgetting(Dirichlet(rewards=KnownRewards(means)), HALF_LIFE).start(SIZES)
    observe(live, seen)
    np.testing.assert_array_equal(live.sample(0)[1], means)


def test_a_truncated_belief_that_fades_stays_truncated():
    mdp = cpsrl.environment("riverswim")
    live = started(Forgetting(Truncated(2.0), 50.0), mdp)
    observe(live, [(0, 1, 0.0, 1), (1, 1, 0.0, 0)] * 20)
    for seed in range(10):
        best = cpsrl.solve_average(cpsrl.TabularMDP(*live.sample(seed)))
        assert np.ptp(best.bias) <= 2.0 + 1e-9


class Tally:
    """A plain belief about one number, the share of moves to state 0, that can fade."""

    def __init__(self):
        self.counts = np.zeros(2)

    def fade(self, factor):
        self.counts *= factor

    def observe_many(self, states, actions, rewards, next_states):
        self.counts += np.bincount(next_states, minlength=2)

    def sample(self, rng):
        share = rng.beta(*(1 + self.counts))
        return np.full((2, 1, 2), [share, 1 - share]), np.zeros((2, 1))

    def state(self):
        return {"counts": self.counts.copy()}

    def restore(self, state):
        self.counts = state["counts"].copy()


class Shares(cpsrl.Belief):
    def start(self, problem):
        return Tally()


def test_any_belief_that_can_fade():
    live = started(Forgetting(Shares(), 2.0), Sizes(2, 1))
    observe(live, [(0, 0, 0.0, 1), (1, 0, 0.0, 0), (0, 0, 0.0, 1)], 2)
    np.testing.assert_allclose(live.state()["counts"], [0.5**0.5, 1.5], atol=1e-12)
    other = started(Forgetting(Shares(), 2.0), Sizes(2, 1))
    other.restore(live.state())
    P, _ = live.copy().sample(np.random.default_rng(0))
    np.testing.assert_array_equal(P, other.sample(np.random.default_rng(0))[0])


def two_ways(share):
    """Return a model in which a share of the steps goes to state 1, and half of it from there."""
    return np.array([[[1 - share, share]], [[1 - share / 2, share / 2]]]), np.zeros((2, 1))


def test_parameters_that_fade():
    seen = [(0, 0, 0.0, 1), (1, 0, 0.0, 0), (0, 0, 0.0, 0), (1, 0, 0.0, 1), (0, 0, 0.0, 1)]
    prior = {"share": ("uniform", 0.1, 0.9)}
    parts = {"family": two_ways, "prior": prior, "points": 40}
    live = started(Forgetting(Parametric(**parts, method="grid"), 2.0), Sizes(2, 1))
    observe(live, seen, 2)
    points = live.points[:, 0]
    by_hand = np.zeros(40)
    for weight, (state, _, _, next_state) in zip(weights(5, 2.0), seen, strict=True):
        by_hand += weight * np.log([two_ways(p)[0][state, 0, next_state] for p in points])
    by_hand = np.exp(by_hand) / np.exp(by_hand).sum()
    np.testing.assert_allclose(live.weights, by_hand, atol=1e-12)
    with pytest.raises(ValueError, match="can't fade"):
        started(Forgetting(Parametric(**parts, method="particles"), 2.0), Sizes(2, 1))


def certain(p):
    return np.array([[[1 - p, p]], [[1.0, 0.0]]]), np.zeros((2, 1))


POINTS = Forgetting(Parametric(certain, {"p": [0.0, 0.5, 1.0]}, method="grid"), 2.0)
STAYS, LEAVES, RETURNS = (0, 0, 0.0, 0), (0, 0, 0.0, 1), (1, 0, 0.0, 0)


def test_a_point_that_was_excluded_comes_back_when_the_evidence_is_forgotten():
    live = started(POINTS, Sizes(2, 1))
    observe(live, [STAYS])
    np.testing.assert_allclose(live.weights, [2 / 3, 1 / 3, 0], atol=1e-300)
    observe(live, [RETURNS] * 60)  # which every point explains
    np.testing.assert_allclose(live.weights, 1 / 3, atol=1e-5)
    observe(live, [RETURNS] * 3000, 3000)
    assert (live.weights == 1 / 3).all()
    assert live.counts.tolist().count(0.0) == len(live.counts) - 1, "none sticks"
    observe(live, [LEAVES])
    np.testing.assert_allclose(live.weights, [0, 1 / 3, 2 / 3], atol=1e-300)


def test_a_world_that_changes_into_what_was_excluded_is_followed():
    belief = Forgetting(Parametric(certain, {"p": [0.0, 1.0]}, method="grid"), 2.0)
    live = started(belief, Sizes(2, 1))
    for kind, place in ((STAYS, 0), (LEAVES, 1), (STAYS, 0)):
        observe(live, [kind] * 40)
        assert live.weights[place] == pytest.approx(1.0, abs=1e-12)
        other = started(belief, Sizes(2, 1))
        other.restore(live.state())
        assert (other.weights == live.weights).all()
    with pytest.raises(ValueError, match="state 1 under action 0 cannot lead to state 1"):
        observe(live, [(1, 0, 0.0, 1)])
    agent = cpsrl.start(cpsrl.PSRL(cpsrl.Bernoulli(0.9), belief=belief), Sizes(2, 1))
    for state, _, reward, next_state in [STAYS, LEAVES, RETURNS] * 20:
        agent.observe(state, agent.act(state), reward, next_state)


def test_state_and_restore(seen):
    belief = Forgetting(half_life=HALF_LIFE)
    live, new = belief.start(SIZES), belief.start(SIZES)
    observe(live, seen[:50])
    state = live.state()
    new.restore(state)
    copied = live.copy()
    for one in (live, new, copied):
        observe(one, seen[50:])
    for one in (new, copied):
        assert equal(one.state(), live.state())
        assert all(map(np.array_equal, one.sample(3), live.sample(3)))
    for name, value in {"counts": np.nan, "seen": -1.0, "reward_m2": -1.0}.items():
        bad = {key: array.copy() for key, array in state.items()}
        bad[name][..., 0] = value
        with pytest.raises(ValueError, match="the stored belief is damaged"):
            new.restore(bad)
    assert equal(new.state(), live.state())


def test_in_a_large_model():
    mdp = cpsrl.environment("gridworld", rows=12, columns=12)
    agent = cpsrl.PSRL(Bernoulli(0.9), belief=Forgetting(half_life=20.0))
    runs = simulate(agent, mdp, 40, 1)
    assert runs.state[0]["agent"]["belief"]["counts"].sum() < 1 / (1 - 2 ** (-1 / 20))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Forgetting(half_life=0.0), "half_life must be a positive number"),
        (lambda: Forgetting(half_life=np.nan), "half_life must be a positive number"),
        (lambda: Forgetting(half_life="long"), "half_life must be a positive number"),
        (lambda: Forgetting(3), "belief must be one such as Dirichlet"),
        (lambda: Forgetting(Unfading()).start(SIZES), "can't fade: Forgetting is for Dirichlet"),
        (lambda: Forgetting().start(Sizes(10_000, 4)), "give one number for all cells"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Unfading(cpsrl.Belief):
    def start(self, problem):
        return Dirichlet().start(problem)


def test_the_stream_is_only_lent(seen):
    live = Forgetting(half_life=HALF_LIFE).start(SIZES)
    observe(live, seen)
    rng = np.random.default_rng(0)
    with words_of(rng) as words:
        before = words.copy()
    live.sample(rng)
    with words_of(rng) as words:
        assert (words != before).any()
