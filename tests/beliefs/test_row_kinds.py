"""Rows of kinds that are learned for each action: against brute force and laws."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import cpsrl
from beliefs.test_belief import draws, observe
from cpsrl.beliefs import Forgetting, Truncated, dirichlet
from cpsrl.beliefs.kinds import ODDS, share_weights
from cpsrl.live.explain import solved_draws

SIZES = cpsrl.Sizes(4, 2)
SUCCESSORS = [[1, 1, 1], [0], [2, 2], [3, 3, 3, 3], [], [1, 2, 1], [0, 0, 3], [2]]
"""Of each of eight pairs, in the order of time; the action is the pair's number modulo 2."""
SUPPORT = np.array([[1, 1, 1, 1], [1, 0, 0, 1]] * 4).reshape(4, 2, 4)
TWO_OF_FOUR = [[1, 1, 1], [0], [2, 2], [3, 3, 3, 3], [], [0, 3], [0, 0, 3], [3]]
GIVEN = np.random.default_rng(5).gamma(1.0, 0.4, (4, 2, 4)) + 0.01
CASES = {
    "default": ({}, SUCCESSORS),
    "support": ({"support": SUPPORT == 1}, TWO_OF_FOUR),
    "array": ({"transitions": GIVEN}, SUCCESSORS),
}


def live_of(successors, states=128, monkeypatch=None, **options):
    if monkeypatch is not None:
        monkeypatch.setattr(dirichlet, "DENSE_STATES", states)
    live = cpsrl.Dirichlet(kinds=True, **options).start(SIZES)
    observe(
        live, [(*divmod(row, 2), 0.0, s) for row, those in enumerate(successors) for s in those]
    )
    return live


def prior_of(options):
    if "transitions" in options:
        return GIVEN.reshape(8, 4)
    possible = SUPPORT.reshape(8, 4) if options else np.ones((8, 4))
    return possible / possible.sum(axis=1, keepdims=True)


def by_brute_force(successors, alpha):
    """Return p(w) by action, P(deterministic) and the mean of every row.

    By all kinds of all pairs for every w, each likelihood made step by step.
    """
    weights, chances = np.zeros((2, len(ODDS))), np.zeros(8)
    means = np.zeros((8, 4))
    for action in range(2):
        rows = range(action, 8, 2)
        for k, odds in enumerate(ODDS):
            w = odds / (1 + odds)
            for kinds in product([True, False], repeat=4):
                likelihood, expected = 1.0, []
                for row, sure in zip(rows, kinds, strict=True):
                    counts = alpha[row].copy()
                    likelihood *= w if sure else 1 - w
                    for i, s in enumerate(successors[row]):
                        if not sure or i == 0:
                            likelihood *= counts[s] / counts.sum()
                        else:
                            likelihood *= float(s == successors[row][0])
                        counts[s] += 1
                    if sure and successors[row]:
                        expected.append(np.eye(4)[successors[row][0]])
                    else:
                        expected.append(counts / counts.sum())
                weights[action, k] += likelihood
                chances[action::2] += likelihood * np.array(kinds)
                means[action::2] += likelihood * np.array(expected)
    total = weights.sum(axis=1)
    rows = np.tile(total, 4)
    return weights / total[:, None], chances / rows, means / rows[:, None]


@pytest.mark.parametrize("states", [128, 0])
@pytest.mark.parametrize("case", CASES)
def test_the_posterior_by_brute_force(case, states, monkeypatch):
    options, successors = CASES[case]
    live = live_of(successors, states, monkeypatch, **options)
    weights, _, means = by_brute_force(successors, prior_of(options))
    for action in range(2):
        mine = share_weights(live.kinds.repeated[action::2])[1]
        np.testing.assert_allclose(mine, weights[action], atol=1e-9)
    np.testing.assert_allclose(live.mean().dense.reshape(8, 4), means, atol=1e-9)
    facts = live.facts()["parameters"]
    for action in range(2):
        w = np.array(ODDS) / (1 + np.array(ODDS))
        share = facts[f"share of deterministic pairs, action {action}"]
        assert share["mean"] == pytest.approx(w @ weights[action], abs=1e-9)


@pytest.mark.parametrize("states", [128, 0])
def test_draws_have_the_law(states, monkeypatch):
    live, n = live_of(SUCCESSORS, states, monkeypatch), 4000
    P = draws(live, n, seed=1)[0].reshape(n, 8, 4)
    _, chances, _ = by_brute_force(SUCCESSORS, prior_of({}))
    p = []
    for row, those in enumerate(SUCCESSORS):
        counts = 0.25 + np.bincount(those, minlength=4)
        # a noisy row may have underflowed to a sure one, with a chance of some 1e-5
        sure = (P[:, row, those[0]] if those else P[:, row].max(axis=1)) == 1.0
        p.append(stats.binomtest(int(sure.sum()), n, chances[row]).pvalue)
        noisy = P[~sure, row]
        if not those:
            p.append(stats.chisquare((P[sure, row] == 1.0).sum(axis=0)).pvalue)
        for s in range(4):
            law = stats.beta(counts[s], counts.sum() - counts[s])
            p.append(stats.kstest(noisy[:, s], law.cdf).pvalue)
    assert min(p) > 1e-3 / len(p)


def test_kinds_of_one_action_are_drawn_together():
    """Rows seen once are sure together or not at all where nothing is known of the share."""
    live = live_of([[0], [1], [0], [1], [0], [1], [0], [1]])
    P = draws(live, 4000, seed=3)[0].reshape(4000, 8, 4)
    sure = np.stack([P[:, row, row % 2] == 1.0 for row in range(8)])
    together = np.corrcoef(sure)
    assert together[0, 2] > 0.3
    assert abs(together[0, 1]) < 0.1


def test_off_it_is_the_plain_belief():
    on, off = cpsrl.Dirichlet(kinds=True), cpsrl.Dirichlet()
    assert on != off
    assert off.start(SIZES).kinds is None
    assert "parameters" not in off.start(SIZES).facts()


def test_what_fades_goes_back_to_the_prior():
    live = Forgetting(cpsrl.Dirichlet(kinds=True), half_life=5.0).start(SIZES)
    observe(live, [(0, 0, 0.0, 2)] * 6)
    assert (sampled(live, 300)[:, 0, 0, 2] == 1.0).mean() > 0.5
    observe(live, [(1, 1, 0.0, 0)] * 80)
    faded = sampled(live, 2000)[:, 0, 0]
    assert faded.mean(axis=0) == pytest.approx([0.25] * 4, abs=0.04)
    noisy = faded[faded.max(axis=1) < 1.0, 2]
    assert stats.kstest(noisy, stats.beta(0.25, 0.75).cdf).pvalue > 1e-3
    np.testing.assert_allclose(live.mean().dense[0, 0], 0.25, atol=1e-4)


def sampled(live, n):
    rng = np.random.default_rng(2)
    return np.array([live.sample(rng)[0] for _ in range(n)])


def test_copies_and_truncated_ones_have_room_of_their_own():
    live = live_of(SUCCESSORS)
    other = live.copy()
    observe(other, [(0, 0, 0.0, 3)])
    assert live.kinds.repeated[0] > 0 > other.kinds.repeated[0]
    assert live.kinds.repeated[0] > 0
    inside = cpsrl.Dirichlet(kinds=True)
    wide = Truncated(1e6, inside).start(SIZES)
    observe(wide, [(0, 0, 0.5, 1), (0, 0, 0.5, 1)])
    assert (draws(wide, 50)[0][:, 0, 0, 1] == 1.0).any()


@pytest.mark.filterwarnings("ignore:a reward of")
def test_intervals_cover_truths_from_the_prior():
    """Of the optimal gain, as `explain` has them: 199 draws, truths from the model's prior."""
    rng, covered, worlds = np.random.default_rng(0), 0, 400
    agent_of = cpsrl.PSRL(
        objective=cpsrl.Average(),
        belief=cpsrl.Dirichlet(rewards=cpsrl.beliefs.InRange(), sharpness=10.0, kinds=True),
    )
    sizes = cpsrl.Sizes(3, 2)
    for world in range(worlds):
        odds = np.array(ODDS)[rng.integers(len(ODDS), size=2)]
        sure = rng.random((3, 2)) < odds / (1 + odds)
        rows = rng.dirichlet(np.full(3, 1 / 3), (3, 2))
        rows = np.where(sure[:, :, None], np.eye(3)[rng.integers(3, size=(3, 2))], rows)
        odds = ODDS[rng.integers(len(ODDS))]
        constant = rng.random((3, 2)) < odds / (1 + odds)
        deviation = np.where(constant, 0.0, rng.gamma(0.5, 2.0, (3, 2)) ** -0.5)
        means = rng.random((3, 2))
        agent = cpsrl.start(agent_of, sizes, seed=world)
        for _ in range(40):
            s, a = rng.integers(3), rng.integers(2)
            reward = means[s, a] + deviation[s, a] * rng.standard_normal()
            agent.observe(s, a, reward, rng.choice(3, p=rows[s, a]))
        truth = cpsrl.solve_average(cpsrl.TabularMDP(rows, means)).gain.max()
        gains = [one.gain.max() for one in solved_draws(agent, np.array([0]), rng, 199)]
        low, high = np.sort(gains)[[4, 194]]
        covered += low <= truth <= high
    print(covered / worlds)
    assert 0.93 <= covered / worlds <= 0.97
