"""The live agent: what it draws, what it refuses, and that it can be stopped anywhere."""

import dataclasses
import sys

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import AGENTS, start
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.problem import FeatureSizes
from cpsrl.networks import DQN, BootstrappedDQN, Members, ValueSampling
from cpsrl.objectives import Average, Discounted, Objective
from cpsrl.resampling import (
    Bernoulli,
    CountDoubling,
    EveryStep,
    FixedLength,
    Never,
    TSDEStops,
)

pytest.importorskip("jax")

SMALL = {"members": 3, "hidden": (6,), "batch": 4, "capacity": 50, "target_every": 5}
RIVER = cpsrl.environment("riverswim", features="thermometer")


class Targetless(Objective):
    plan = Average.plan


def shifted(by, mdp=RIVER):
    """The river with a number added to all rewards, and a range that has room for it."""
    rewards = mdp.rewards + by
    return TabularMDP(mdp.transitions, rewards, features=mdp.features, reward_range=(-10, 10))


def live(run=0, problem=RIVER, **options):
    return start(BootstrappedDQN(**{**SMALL, **options}), problem, run=run)


def play(agent, simulator, steps, see=lambda state: state):
    """Let the agent and the environment go on, and return the actions."""
    actions = []
    for _ in range(steps):
        state = simulator.state
        actions.append(agent.act(see(state)))
        reward, following = simulator.step(actions[-1])
        agent.observe(see(state), actions[-1], reward, see(following))
    return actions


def online(agent):
    return {name: np.array(w) for name, w in agent.learner.online.items()}


def equal(first, second):
    return all(np.array_equal(first[name], second[name]) for name in first)


def test_vectors_and_states_of_a_table_are_the_same_to_it():
    table = live()
    vector = live(problem=FeatureSizes(6, 2))
    actions = play(table, RIVER.simulator(), 40)
    assert play(vector, RIVER.simulator(), 40, see=lambda s: RIVER.features[s]) == actions
    assert equal(online(table), online(vector))


def test_equal_runs_agree_and_different_ones_differ():
    one, same, other = live(run=1), live(run=1), live(run=2)
    actions = [play(agent, RIVER.simulator(run=7), 40) for agent in (one, same, other)]
    assert actions[0] == actions[1]
    assert equal(online(one), online(same))
    assert not equal(online(one), online(other))


@pytest.mark.parametrize(
    "options",
    [{}, {"mask": 0.5, "epsilon": 0.3, "capacity": 8}, {"objective": Average(), "capacity": 8}],
)
def test_it_goes_on_from_a_saved_state_as_if_it_had_not_stopped(options):
    agent, simulator = live(**options), RIVER.simulator()
    play(agent, simulator, 13)
    agent.act(simulator.state)
    saved, where = agent.state(), simulator.state
    noise = simulator.streams.state()
    actions = play(agent, simulator, 20)
    again, later = live(run=5, **options), RIVER.simulator()
    again.restore(saved)
    later.state = where
    later.streams.restore(noise)
    assert play(again, later, 20) == actions
    assert equal(online(again), online(agent))
    assert again.learner.centre == agent.learner.centre
    assert again.state()["streams"] == agent.state()["streams"]


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing():
    agent, other = live(), live(members=4)
    play(agent, RIVER.simulator(), 3)
    before = agent.state()
    with pytest.raises(ValueError, match=r"its belief.members is 4, not 3"):
        agent.restore(other.state())
    with pytest.raises(ValueError, match=r"its belief.mask is 0.5, not 1"):
        agent.restore(live(mask=0.5).state())
    with pytest.raises(ValueError, match=r"its rule.kind is 'Never', not 'Bernoulli'"):
        agent.restore(live(rule=Never()).state())
    for change, message in (
        ({"step": 0}, "impossible"),
        ({"index": np.array([3])}, "impossible"),
        ({"index": np.array([0, 1])}, "does not fit: index"),
        ({"choice": {"member": np.array([0])}}, "choice does not fit"),
        ({"replay": {**before["replay"], "reward": np.zeros(2)}}, "does not fit: reward"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.restore(before | change)
    for name in before:
        damaged = {key: value for key, value in before.items() if key != name}
        with pytest.raises(ValueError, match=r"lacks|another agent"):
            agent.restore(damaged)
    after = agent.state()
    assert equal(before["learner"]["online"], after["learner"]["online"])
    assert before["streams"] == after["streams"]
    assert after["step"] == 4


def damaged(agent, part, **columns):
    """The state of an agent with other values in one of its parts."""
    state = agent.state()
    return state | {part: {**state[part], **columns}}


GAPS = dataclasses.replace(RIVER, available=[[True, s % 2 == 0] for s in range(RIVER.n_states)])


@pytest.mark.parametrize(
    ("problem", "part", "columns", "message"),
    [
        (RIVER, "choice", {"forced": np.array([99])}, "choice is damaged"),
        (RIVER, "choice", {"forced": np.array([-2])}, "choice is damaged"),
        (RIVER, "choice", {"forced": [1]}, None),
        (RIVER, "choice", {"forced": np.array([[0, 0]])}, "does not fit: forced"),
        (RIVER, "choice", {"acting": np.array([10**6])}, "choice is damaged"),
        (RIVER, "choice", {"acting": "x"}, "does not fit: acting"),
        (RIVER, "choice", {"gamma": np.array([np.nan])}, "choice is damaged"),
        (RIVER, "choice", {"resample": np.array([3])}, "does not fit: resample"),
        (GAPS, "choice", {"forced": np.array([[0, 1]])}, None),
        (GAPS, "choice", {"forced": np.array([[1, 0]])}, "choice is damaged"),
        (RIVER, "replay", {"observation": np.full(3, 1000, np.int32)}, "replay is damaged"),
        (RIVER, "replay", {"next_observation": np.full(3, -1, np.int32)}, "replay is damaged"),
        (RIVER, "replay", {"action": np.full(3, 2, np.int32)}, "replay is damaged"),
        (RIVER, "replay", {"reward": np.full(3, np.nan, np.float32)}, "replay is damaged"),
        (
            GAPS,
            "replay",
            {"observation": np.ones(3, np.int32), "action": np.ones(3, np.int32)},
            "replay is damaged",
        ),
        (
            FeatureSizes(6, 2),
            "replay",
            {"observation": np.full((3, 6), np.inf, np.float32)},
            "replay is damaged",
        ),
    ],
)
def test_a_choice_or_a_replay_that_cannot_be_is_refused(problem, part, columns, message):
    agent = live(problem=problem)
    shown = RIVER.features if isinstance(problem, FeatureSizes) else np.arange(RIVER.n_states)
    for state in (0, 2, 4):
        agent.observe(shown[state], agent.act(shown[state]), 0.5, shown[state])
    agent.act(shown[0])
    state, again = damaged(agent, part, **columns), live(problem=problem, run=3)
    if message is None:
        again.restore(state)
        assert again.act(shown[0]) == int(np.ravel(columns["forced"])[-1])
        return
    before = again.state()
    with pytest.raises(ValueError, match=message):
        again.restore(state)
    np.testing.assert_equal(again.state(), before)
    with pytest.raises(ValueError, match="gamma is damaged"):
        again.restore(agent.state() | {"gamma": 2.0})


def test_where_centred_rewards_count_from_is_kept_and_must_be_right():
    agent, again = (live(objective=Average()) for _ in range(2))
    for state in (agent.state(), live(objective=Average()).state() | {"origin": None}):
        again.restore(state)
        assert again.origin is None
    agent.observe(0, 0, 0.25, 1)
    state = agent.state()
    again.restore(state)
    assert again.origin == 0.25
    for change in ({"origin": None}, {"origin": np.nan}, {"origin": "first"}, {"learned": 0}):
        with pytest.raises(ValueError, match="origin"):
            agent.restore(state | change)
    with pytest.raises(ValueError, match="lacks origin"):
        agent.restore({name: value for name, value in state.items() if name != "origin"})
    assert agent.origin == 0.25
    assert "origin" not in live().state()


@pytest.mark.parametrize("by", [8, -8])
def test_adding_a_number_to_all_rewards_changes_no_bit_of_centred_learning(by):
    agents, done = [], []
    for problem in (shifted(0), shifted(by)):
        agents.append(live(problem=problem, objective=Average(), prior_scale=0.5))
        done.append(play(agents[-1], problem.simulator(), 60))
    assert done[0] == done[1]
    assert agents[1].origin == agents[0].origin + by
    assert equal(online(agents[0]), online(agents[1]))
    assert agents[0].learner.centre == agents[1].learner.centre != 0
    discounted = [live(problem=problem) for problem in (shifted(0), shifted(by))]
    for agent, problem in zip(discounted, (shifted(0), shifted(by)), strict=True):
        play(agent, problem.simulator(), 60)
    assert not equal(online(discounted[0]), online(discounted[1]))


def test_the_action_is_the_same_until_time_moves_on():
    agent = live(epsilon=0.5)
    for _ in range(20):
        state = agent.streams.state()
        action = agent.act(0)
        drawn = agent.streams.state()
        assert drawn != state
        assert agent.act(0) == action
        assert agent.streams.state() == drawn
        agent.observe(0, action, 0.0, 0)


def test_the_target_follows_every_few_updates_and_the_prior_never_moves():
    agent, simulator = live(), RIVER.simulator()
    begun = online(agent)
    prior = {name: np.array(w) for name, w in agent.learner.prior.items()}
    play(agent, simulator, 4)
    assert equal(agent.learner.target, begun)
    assert not equal(agent.learner.online, begun)
    play(agent, simulator, 1)
    assert equal(agent.learner.target, agent.learner.online)
    play(agent, simulator, 1)
    assert not equal(agent.learner.target, agent.learner.online)
    assert equal(agent.learner.prior, prior)


def test_the_replay_keeps_the_last_transitions():
    agent = live(capacity=5, mask=0.5)
    for t in range(12):
        agent.observe(t % 6, t % 2, float(t), (t + 1) % 6)
    replay = agent.state()["replay"]
    assert replay["reward"].tolist() == [10, 11, 7, 8, 9]
    assert replay["observation"].tolist() == [4, 5, 1, 2, 3]
    assert replay["next_observation"].tolist() == [5, 0, 2, 3, 4]
    assert replay["action"].tolist() == [0, 1, 1, 0, 1]
    assert replay["signature"].shape == (5, 1)


@pytest.mark.parametrize(
    ("rule", "begun"),
    [
        (Never(), [1]),
        (FixedLength(4), [1, 5, 9, 13, 17]),
        (EveryStep(), list(range(1, 21))),
    ],
)
def test_a_new_member_is_drawn_when_the_rule_says_so(rule, begun):
    agent = live(rule=rule, members=1000)
    draws = agent.draw_choices(20)
    assert (1 + np.flatnonzero(draws.resample)).tolist() == begun
    changes = 1 + np.flatnonzero(np.diff(draws.acting, prepend=-1))
    assert changes.tolist() == begun
    assert agent.resamples == len(begun)
    assert (draws.gamma == 0.99).all()


def test_draws_do_not_depend_on_how_they_are_divided():
    whole, parts = (live(mask=0.5, epsilon=0.3, capacity=30) for _ in range(2))
    expected = whole.draw_steps(90)
    pieces = []
    for n in (1, 9, 50, 30):
        pieces.append(parts.draw_steps(n))
        parts.step, parts.learned = parts.step + n, parts.learned + n
    for part in range(2):
        for place, whole_column in enumerate(expected[part]):
            if whole_column is not None:
                got = np.concatenate([piece[part][place] for piece in pieces])
                np.testing.assert_array_equal(got, whole_column)
    assert parts.streams.state() == whole.streams.state()


def test_draws_have_the_probabilities_they_should():
    agent = live(gamma=0.9, members=4, mask=0.3, epsilon=0.2, batch=8, capacity=1000)
    n = 40_000
    choices, updates = agent.draw_steps(n)

    def near(share, probability, count):
        return abs(share - probability) < 4 * np.sqrt(probability * (1 - probability) / count)

    assert near(choices.resample[1:].mean(), 0.1, n - 1)
    drawn = choices.acting[choices.resample]
    for k in range(4):
        assert near((drawn == k).mean(), 0.25, len(drawn))
        assert near((updates.signature[:, 0] >> k & 1).mean(), 0.3, n)
    for action in range(2):
        assert near((choices.forced == action).mean(), 0.1, n)
    assert (updates.rows[:1000].max(1) < np.arange(1, 1001)).all()
    late = updates.rows[1000:]
    assert late.max() == 999
    assert near((late < 250).mean(), 0.25, late.size)


def test_the_target_discounts_by_the_gamma_of_the_pseudo_episode():
    agent = live(rule=Bernoulli(schedule=lambda t: 0.9 if t < 50 else 0.5))
    draws = agent.draw_choices(200)
    begins = np.maximum.accumulate(np.where(draws.resample, np.arange(1, 201), 0))
    np.testing.assert_array_equal(draws.gamma, np.where(begins < 50, 0.9, 0.5))
    assert ((begins < 50) & (np.arange(1, 201) >= 50)).any()


@pytest.mark.parametrize("rule", [Never(), Bernoulli(0.7)])
def test_the_coin_and_the_discount_factor_can_differ(rule):
    agents = [live(rule=rule, objective=Discounted(gamma)) for gamma in (0.5, 0.9)]
    draws = [agent.draw_choices(30) for agent in agents]
    np.testing.assert_array_equal(draws[0].resample, draws[1].resample)
    assert (draws[0].gamma == 0.5).all()
    assert (draws[1].gamma == 0.9).all()


def test_what_is_learnt_before_the_first_decision_is_discounted_as_after_it():
    agent, other = live(), live()
    agent.learn(0, 0, 1.0, 1)
    assert agent.gamma == 0.99
    other.tick()
    agent.tick()
    np.testing.assert_array_equal(agent.index, other.index)


def test_the_discount_factor_enters_the_update():
    agents = [live(rule=Bernoulli(0.7), objective=Discounted(gamma)) for gamma in (0.5, 0.9)]
    for agent in agents:
        play(agent, RIVER.simulator(), 1)
    assert not equal(online(agents[0]), online(agents[1]))


def test_schedules_take_their_numbers_from_the_table():
    spec = BootstrappedDQN(rule=Bernoulli(schedule="horizon"))
    assert spec == ValueSampling(spec.rule)
    tuned = spec.resolve(RIVER, 1200)
    assert tuned.rule.gammas(1, 1) == pytest.approx(0.9)
    with pytest.raises(ValueError, match="pairs=S\\*A"):
        start(BootstrappedDQN(rule=Bernoulli(schedule="doubling")), FeatureSizes(6, 2))
    start(BootstrappedDQN(rule=Bernoulli(schedule="doubling", pairs=12)), FeatureSizes(6, 2))


def test_gamma_is_the_short_form():
    assert BootstrappedDQN(0.9) == ValueSampling(Bernoulli(0.9), Discounted(), Members())
    assert BootstrappedDQN(0.9, Never()) == ValueSampling(Never(), Discounted(0.9), Members())
    assert BootstrappedDQN().label == "Bootstrapped DQN, gamma=0.99"
    apart = BootstrappedDQN(rule=Bernoulli(0.95), objective=Discounted(0.99))
    assert apart.label == "Bootstrapped DQN, gamma=0.95, discounted 0.99"
    assert BootstrappedDQN(objective=Average()).label == "Bootstrapped DQN, gamma=0.99, average"
    assert BootstrappedDQN(rule=Never(), objective=Average()).label == (
        "Bootstrapped DQN, never, average"
    )


def test_dqn_is_one_member_without_prior_and_with_random_actions():
    agent = start(DQN(hidden=(6,), batch=4), RIVER)
    play(agent, RIVER.simulator(), 5)
    assert agent.learner.online["w0"].shape == (1, 6, 6)
    assert not np.any(agent.learner.prior["w1"])
    draws = agent.draw_choices(10_000)
    assert (draws.acting == 0).all()
    assert abs((draws.forced >= 0).mean() - 0.1) < 4 * np.sqrt(0.09 / 10_000)
    assert (draws.gamma == 0.99).all()
    assert DQN() == DQN(gamma=0.99) == DQN(objective=Discounted(0.99))
    with pytest.raises(ValueError, match="the objective is given"):
        DQN(0.99, objective=Average())


def test_random_actions_become_fewer_along_a_line():
    n = 20_000
    spec = DQN(hidden=(6,), batch=4, epsilon=0.1, anneal=n // 2, objective=Average())
    assert spec.epsilons(1, 2).tolist() == [1, 1 - 0.9 * 2 / n]
    assert spec.epsilons(n // 2 + 1, 1) == [0.1]
    whole, parts = start(spec, RIVER), start(spec, RIVER)
    forced = whole.draw_choices(n).forced >= 0
    assert forced[:50].sum() > 45
    assert abs(forced[: n // 2].mean() - 0.55) < 4 * np.sqrt(0.25 / (n / 2))
    assert abs(forced[n // 2 :].mean() - 0.1) < 4 * np.sqrt(0.09 / (n / 2))
    pieces = []
    for size in (1, 999, n - 1000):
        pieces.append(parts.draw_choices(size).forced >= 0)
        parts.step += size
    np.testing.assert_array_equal(np.concatenate(pieces), forced)
    none = start(DQN(hidden=(6,), batch=4, epsilon=0.0, anneal=10), RIVER)
    forced = none.draw_choices(1000).forced
    assert forced[0] >= 0
    assert (forced[10:] == -1).all()
    with pytest.raises(ValueError, match="anneal must be a whole number of at least 1"):
        DQN(anneal=0)


@pytest.mark.parametrize("rule", [TSDEStops(), CountDoubling()])
def test_rules_that_need_counts_are_refused_with_the_reason(rule):
    with pytest.raises(ValueError, match=r"visit counts.*networks has none"):
        BootstrappedDQN(rule=rule)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 0}, "members must be a whole number of at least 1, not 0"),
        ({"hidden": (50, 0)}, "hidden layer"),
        ({"mask": 1.5}, r"mask must be a number in \[0, 1\], not 1.5"),
        ({"gamma": 1.0}, "gamma must be a number in"),
        ({"gamma": 0.9, "rule": Bernoulli(0.99)}, "gamma is 0.9, but the rule has its own"),
        ({"epsilon": "often"}, "epsilon"),
        ({"gamma": 0.9, "rule": Never(), "objective": Discounted(0.5)}, "the objective is given"),
        ({"rule": Never(), "objective": Discounted()}, "has no gamma to discount by"),
        ({"objective": Targetless()}, "networks cannot learn for the objective 'targetless'"),
        ({"gamma": 0.9, "rule": Never(), "objective": Average()}, "the objective is given"),
        ({"objective": Average}, "objective must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BootstrappedDQN(**options)


def test_a_belief_of_tables_is_refused():
    with pytest.raises(ValueError, match="belief must be one of networks"):
        ValueSampling(belief=cpsrl.Dirichlet())


def test_an_unknown_option_gets_the_nearest_right_one():
    with pytest.raises(ValueError, match="did you mean 'members'"):
        AGENTS.make("bootstrapped-dqn", member=5)


def test_a_problem_without_observations_is_refused():
    with pytest.raises(ValueError, match="has no features"):
        start(BootstrappedDQN(), cpsrl.environment("riverswim"))
    with pytest.raises(ValueError, match="FeatureSizes"):
        start(BootstrappedDQN(), cpsrl.Sizes(6, 2))


def test_what_cannot_be_observed_is_refused_and_changes_nothing():
    agent = live(problem=FeatureSizes(2, 2))
    for transition, message in (
        (([0, 1, 2], 0, 0.0, [0, 1]), "observation must be 2 finite numbers"),
        (([0, 1], 0, 0.0, [0, np.nan]), "next observation must be 2 finite numbers"),
        (([0, 1], 2, 0.0, [0, 1]), "action"),
        (([0, 1], 0, np.inf, [0, 1]), "reward"),
    ):
        before = agent.state()
        with pytest.raises(ValueError, match=message):
            agent.observe(*transition)
        assert agent.state()["streams"] == before["streams"]
        assert agent.step == 1
    with pytest.raises(ValueError, match=r"observation must be a whole number in 0\.\.5"):
        live().act(6)


def test_missing_jax_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ValueError, match=r"cpsrl\[deep\]"):
        start(BootstrappedDQN(), RIVER)
