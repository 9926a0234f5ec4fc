"""The PSRL family: when it resamples, what it plans for, what it is called."""

import numpy as np
import pytest

import cpsrl
from cpsrl import PSRL, Average, Bernoulli, Dirichlet, Discounted, KnownRewards, Sizes
from cpsrl.agents.psrl import RESAMPLES
from cpsrl.resampling import DoublingTimes, TSDEStops


def resample_times(spec, pairs):
    """Return the steps at which the agent resamples when it is shown these state-action pairs."""
    agent = cpsrl.start(spec, Sizes(2, 2))
    times = []
    for t, (state, action) in enumerate(pairs, start=1):
        before = agent.clock[RESAMPLES]
        agent.act(state)
        if agent.clock[RESAMPLES] > before:
            times.append(t)
        agent.observe(state, action, 0.0, 0)
    return times


# Worked out by hand from Ouyang et al. 2017: t > t_k + T_(k-1), or N_t > 2 N_(t_k) for some pair.
#
# One pair only. t=1: t_1=1, T_0=1. t=2: N=1 > 0, so t_2=2, T_1=1, N=1. t=3: 3 <= 3 and 2 <= 2.
# t=4: 4 > 3, so t_3=4, T_2=2, N=3. t=7: 7 > 6, so t_4=7, T_3=3. Then 11, 16, 22, ...
#   counts aliased:  the count test never fires, and the first stop is at t=3;
#   `>=` for `>`:    t=3 would resample, since 2 >= 2;
#   `or` for `and` in the continue-condition: t=2 would not resample, since 2 <= t_1 + T_0.
ONE_PAIR = [(0, 0)] * 23
ONE_PAIR_TIMES = [1, 2, 4, 7, 11, 16, 22]

# Eight visits of (0, 0), then (1, 1). t=7: t_4=7, T_3=3. At t=9 (1, 1) is new: t=10 resamples
# before its time, with T_4=3, N(0,0)=8, N(1,1)=1. t=11: N(1,1)=2 <= 2. t=12: 3 > 2, resample,
# T_5=2. Then (0, 0): t=15 > 12 + 2, T_6=3. t=19 > 15 + 3.
TWO_PAIRS = [(0, 0)] * 8 + [(1, 1)] * 3 + [(0, 0)] * 9
TWO_PAIRS_TIMES = [1, 2, 4, 7, 10, 12, 15, 19]


def test_tsde_by_hand():
    assert resample_times(cpsrl.TSDE(), ONE_PAIR) == ONE_PAIR_TIMES
    assert resample_times(cpsrl.TSDE(), TWO_PAIRS) == TWO_PAIRS_TIMES


@pytest.mark.parametrize(
    "stops",
    [
        lambda t, start, previous, visits, before, memory: t > start + previous,
        lambda t, start, previous, visits, before, memory: visits > 2 * before,
        lambda t, start, previous, visits, before, memory: (
            t > start + previous or visits >= 2 * before
        ),
        lambda t, start, previous, visits, before, memory: (
            t >= start + previous or visits > 2 * before
        ),
        lambda t, start, previous, visits, before, memory: (
            t > start + previous and visits > 2 * before
        ),
    ],
    ids=["counts aliased", "no time", ">= in counts", ">= in time", "and for or"],
)
def test_the_traces_tell_the_known_mistakes_in_a_rule_from_tsde(stops):
    class Mistaken(cpsrl.Rule):
        pass

    Mistaken.stops = staticmethod(stops)
    wrong = PSRL(Mistaken(), Average())
    assert (resample_times(wrong, ONE_PAIR), resample_times(wrong, TWO_PAIRS)) != (
        ONE_PAIR_TIMES,
        TWO_PAIRS_TIMES,
    )


def test_count_doubling_by_hand():
    # One pair: N at the start 0, 1, 2, 4, 8, 16. A new pair ends the pseudo-episode at once; then
    # N(1,1) is 1, 2, and the eight visits of (0, 0) before are matched at the start of step 20.
    assert resample_times(cpsrl.agents.CountDoublingPSRL(), ONE_PAIR) == [1, 2, 3, 5, 9, 17]
    assert resample_times(cpsrl.agents.CountDoublingPSRL(), TWO_PAIRS) == [
        1,
        2,
        3,
        5,
        9,
        10,
        11,
        20,
    ]


def test_rules_known_in_advance():
    assert resample_times(cpsrl.DSPSRL(), ONE_PAIR) == [1, 2, 4, 8, 16]
    assert resample_times(cpsrl.agents.FixedLengthPSRL(10), ONE_PAIR) == [1, 11, 21]
    assert resample_times(cpsrl.agents.EveryStepPSRL(), ONE_PAIR) == list(range(1, 24))


def test_a_step_that_is_only_observed_still_counts():
    agent = cpsrl.start(cpsrl.DSPSRL(), Sizes(2, 2))
    for _ in range(4):
        agent.observe(0, 0, 0.0, 1)
    assert agent.resamples == 0
    agent.act(0)
    agent.act(0)
    assert agent.resamples == 1


def test_the_policy_is_optimal_for_the_objective_in_what_is_known():
    mdp = cpsrl.environment("riverswim", variant="tsde")
    known = Dirichlet(transitions=mdp.dense * 1e9, rewards=KnownRewards())
    for objective, plan in [
        (Discounted(), cpsrl.solve_discounted(mdp, 0.99)),
        (Discounted(0.5), cpsrl.solve_discounted(mdp, 0.5)),
        (Average(), cpsrl.solve_average(mdp)),
    ]:
        agent = cpsrl.start(PSRL(Bernoulli(0.99), objective, known), mdp)
        agent.act(0)
        assert np.array_equal(agent.policy, plan.policy)


def test_planning_takes_the_gamma_of_the_moment_of_resampling():
    mdp = cpsrl.environment("riverswim")
    known = Dirichlet(transitions=mdp.dense * 1e9, rewards=KnownRewards())
    late = cpsrl.ContinuingPSRL(schedule=lambda t: 0.0 if t < 5 else 0.99, belief=known)
    agent = cpsrl.start(late, mdp)
    policies = []
    for _ in range(2000):
        agent.act(0)
        policies.append(agent.policy.copy())
        agent.observe(0, 0, 0.0, 0)
    greedy = np.argmax(mdp.rewards, axis=1)
    assert all(np.array_equal(p, greedy) for p in policies[:4])
    assert np.array_equal(policies[-1], cpsrl.solve_discounted(mdp, 0.99).policy)


def test_the_belief_can_be_looked_at():
    mdp = cpsrl.environment("riverswim")
    agent = cpsrl.start(cpsrl.ContinuingPSRL(), mdp)
    agent.act(0)
    agent.observe(0, 1, 0.0, 1)
    before = agent.state()
    mean = agent.belief.mean()
    assert mean.dense[0, 1, 1] == pytest.approx((1 + 1 / 6) / 2)
    assert agent.belief.sample(np.random.default_rng(0)).n_states == 6
    assert before["streams"] == agent.state()["streams"]


def test_labels():
    assert cpsrl.ContinuingPSRL().label == "Continuing PSRL, gamma=0.99"
    assert cpsrl.ContinuingPSRL(schedule="doubling").label == "Continuing PSRL, doubling"
    tuned = cpsrl.ContinuingPSRL(schedule="horizon").resolve(Sizes(6, 2), 5000)
    assert tuned.label == "Continuing PSRL, horizon T=5000"
    assert cpsrl.ContinuingPSRL(0.9, label="mine").label == "mine"
    assert PSRL(Bernoulli(0.9), Average()).label == "PSRL, gamma=0.9, average"
    assert cpsrl.agents.FixedLengthPSRL(7, gamma=0.5).label == "PSRL, length=7, discounted 0.5"


def test_parts():
    assert cpsrl.TSDE() == PSRL(TSDEStops(), Average(), label="TSDE")
    assert cpsrl.DSPSRL().rule == DoublingTimes()
    assert cpsrl.agents.EveryStepPSRL(gamma=0.9).objective == Discounted(0.9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PSRL(TSDEStops()), "has no gamma to plan with"),
        (lambda: cpsrl.ContinuingPSRL(0.9, schedule="doubling"), "not both"),
        (lambda: cpsrl.start(cpsrl.ContinuingPSRL(schedule="horizon"), Sizes(6, 2)), "horizon=T"),
        (lambda: cpsrl.agents.FixedLengthPSRL(-1), "length"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_state_of_another_agent_is_refused():
    mdp = cpsrl.environment("riverswim")
    agent = cpsrl.start(cpsrl.ContinuingPSRL(0.9), mdp)
    other = cpsrl.start(cpsrl.ContinuingPSRL(0.8), mdp).state()
    with pytest.raises(ValueError, match=r"its rule.gamma is 0.8, not 0.9"):
        agent.restore(other)
    for name, value in (("policy", 2), ("clock", -1)):
        damaged = agent.state()
        damaged[name][4] = value
        with pytest.raises(ValueError, match="policy or clock is damaged"):
            agent.restore(damaged)
    larger = cpsrl.start(cpsrl.ContinuingPSRL(0.9), cpsrl.environment("riverswim", n_states=7))
    with pytest.raises(ValueError, match="does not fit"):
        agent.restore(larger.state())
