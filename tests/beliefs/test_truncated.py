"""The truncated belief: the draws of the belief inside that obey the cap, and no others."""

import numpy as np
import pytest

from contracts.test_agents import equal
from cpsrl import Dirichlet, KnownRewards, NormalGamma, Sizes, solve_average, span
from cpsrl.beliefs import Truncated

RNG = np.random.default_rng(0)
ALPHA, REWARDS = RNG.gamma(1.0, size=(3, 2, 3)), RNG.random((3, 2))
INNER = Dirichlet(ALPHA, rewards=KnownRewards(REWARDS))
SIZES = Sizes(3, 2)


def drawn(live, n, seed):
    """Return, of n draws, the span of the optimal bias and the first row `(n, 1 + S)`."""
    rng = np.random.default_rng(seed)
    models = [live.sample(rng) for _ in range(n)]
    return np.array([[span(solve_average(m).bias), *m.dense[0, 0]] for m in models])


def test_capped_draws_are_the_free_ones_that_obey_the_cap():
    free = drawn(INNER.start(SIZES), 1500, seed=1)
    cap = float(np.median(free[:, 0]))
    capped = drawn(Truncated(cap, INNER).start(SIZES), 600, seed=2)
    kept = free[free[:, 0] <= cap]
    assert capped[:, 0].max() <= cap + 1e-9
    error = np.hypot(kept.std(axis=0) / len(kept) ** 0.5, capped.std(axis=0) / len(capped) ** 0.5)
    assert (np.abs(kept.mean(axis=0) - capped.mean(axis=0)) < 4 * error).all()
    assert (np.abs(free.mean(axis=0) - capped.mean(axis=0)) > 4 * error).any()


def test_with_the_same_stream_it_is_the_first_free_draw_that_obeys():
    live, free = Truncated(0.5, INNER).start(SIZES), INNER.start(SIZES)
    mine, theirs = np.random.default_rng(4), np.random.default_rng(4)
    rejected = 0
    for _ in range(30):
        model = live.sample(mine)
        while span(solve_average(other := free.sample(theirs)).bias) > 0.5:
            rejected += 1
        assert np.array_equal(model.dense, other.dense)
    assert live.arrays.rejected[0] == rejected > 0


def test_it_learns_what_the_belief_inside_learns():
    belief = Dirichlet(rewards=NormalGamma(mu0=0.0))
    live, inner = Truncated(1e6, belief).start(SIZES), belief.start(SIZES)
    seen = (np.array([0, 2, 0]), np.array([1, 0, 1]), np.array([0.5, 2, 3]), np.array([2, 0, 1]))
    for one in (live, inner):
        one.observe_many(*seen)
    a, b = (one.sample(np.random.default_rng(0)) for one in (live, inner))
    assert np.array_equal(a.dense, b.dense)
    assert np.array_equal(a.rewards, b.rewards)
    assert equal(live.state(), inner.state() | {"rejected": 0})


def test_state_copy_and_restore():
    live = Truncated(0.5, INNER).start(SIZES)
    live.sample(np.random.default_rng(0))
    state = live.state()
    assert state["rejected"] > 0
    other, new = live.copy(), Truncated(0.5, INNER).start(SIZES)
    new.restore(state)
    for one in (other, new):
        one.observe_many(np.array([0]), np.array([0]), np.array([0.0]), np.array([1]))
        assert not equal(one.state(), state)
    assert equal(live.state(), state)
    assert equal(other.state(), new.state())
    before = new.state()
    for wrong in ({"rejected": -1}, {"rejected": None}, {"seen": state["seen"] - 1}):
        with pytest.raises(ValueError, match="stored"):
            new.restore(state | wrong)
        assert equal(new.state(), before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Truncated(0.0), "span must be a positive number"),
        (lambda: Truncated(1.0, NormalGamma()), "must be a Dirichlet"),
        (lambda: Truncated(1.0).start(Sizes(200, 2)), "200 states are too many"),
        (
            lambda: Truncated(1e-9, INNER).start(SIZES).sample(0),
            "hardly any MDP of this prior has an optimal bias of so small a span",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
