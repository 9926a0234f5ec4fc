"""The state of an agent: whose it is, and that a bad one is refused and changes nothing."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from contracts.test_agents import equal
from cpsrl.agents.codec import settings_of
from cpsrl.agents.psrl import PREVIOUS, ROW, START, STEP
from cpsrl.beliefs import BATCH
from cpsrl.mdp import ChangingWorld

RIVER = cpsrl.environment("riverswim")
AGENTS = [
    cpsrl.RandomAgent(),
    cpsrl.agents.OptimalAgent(),
    cpsrl.ContinuingPSRL(0.9),
    cpsrl.UCRL2(),
    cpsrl.agents.DifferentialQLearning(),
]


def lived(spec, steps=20, mdp=RIVER):
    agent, world = cpsrl.start(spec, mdp), mdp.simulator()
    for _ in range(steps):
        state = world.state
        action = agent.act(state)
        agent.observe(state, action, *world.step(action))
    return agent


@pytest.mark.parametrize("spec", AGENTS, ids=lambda spec: spec.label)
def test_a_state_that_lacks_something_is_refused_and_changes_nothing(spec):
    whole = lived(spec).state()
    agent = lived(spec, 5)
    before = agent.state()
    for name in whole:
        damaged = {key: value for key, value in whole.items() if key != name}
        with pytest.raises(ValueError, match=r"lacks|does not fit|another agent"):
            agent.restore(damaged)
        assert equal(agent.state(), before)
    streams = {**whole["streams"], "action": {"bit_generator": "PCG64", "state": 3}}
    with pytest.raises(ValueError, match="stream 'action' is damaged"):
        agent.restore({**whole, "streams": streams})
    assert equal(agent.state(), before)
    agent.restore(whole)
    assert equal(agent.state(), whole)


class Remembering(cpsrl.Rule):
    """Resample when a pair is visited for the fifth time; keeps two numbers."""

    def memory(self):
        return np.zeros(2)

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        memory[0] += 1
        return visits == 5


LARGE = cpsrl.environment("gridworld", rows=12, columns=12)
WAITING = cpsrl.PSRL(Remembering(), cpsrl.Average(), cpsrl.Dirichlet(support=LARGE.csr))
"""A sparse belief with a support, which is not yet told of everything when a run stops."""


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("clock", lambda x: changed(x, STEP, 0), "clock is damaged"),
        ("clock", lambda x: changed(x, START, 10**6), "clock is damaged"),
        ("clock", lambda x: changed(x, ROW, 4 * 144), "clock is damaged"),
        ("clock", lambda x: changed(x, PREVIOUS, -1), "clock is damaged"),
        ("clock", lambda x: x[:-1], "does not fit: clock"),
        ("clock", lambda x: x.astype(float), "does not fit: clock"),
        ("policy", lambda x: changed(x, 0, 4), "policy or clock is damaged"),
        ("visits", lambda x: changed(x, 3, -1), "is damaged"),
        ("visits_before", lambda x: x + 1000, "is damaged"),
        ("visits_before", lambda x: x[1:], "does not fit: visits_before"),
        ("memory", lambda x: x[:1], "does not fit: memory"),
        ("memory", lambda x: x.astype(int), "does not fit: memory"),
        ("memory", lambda x: None, "does not fit: memory"),
        ("backlog", lambda x: None, "lacks belief or backlog"),
        ("backlog", lambda x: {"rows": x["rows"]}, "does not fit"),
        ("backlog", lambda x: x | {"rows": x["rows"][:-1]}, "backlog is damaged"),
        ("backlog", lambda x: x | {"rows": changed(x["rows"], 1, 4 * 144)}, "backlog is damaged"),
        ("backlog", lambda x: x | {"rows": changed(x["rows"], 1, -1)}, "backlog is damaged"),
        ("backlog", lambda x: x | {"rows": x["rows"].astype(float)}, "does not fit: rows"),
        (
            "backlog",
            lambda x: x | {"next_states": changed(x["next_states"], 0, 144)},
            "backlog is damaged",
        ),
        (
            "backlog",
            lambda x: x | {"next_states": changed(x["next_states"], 0, 143)},
            "cannot lead to state 143",
        ),
        (
            "backlog",
            lambda x: x | {"rewards": changed(x["rewards"], 0, np.inf)},
            "backlog is damaged",
        ),
        (
            "backlog",
            lambda x: {name: np.resize(array, BATCH) for name, array in x.items()},
            "backlog is damaged",
        ),
        ("belief", lambda x: x | {"seen": x["seen"] - 1}, "belief is damaged"),
        ("belief", lambda x: {}, "stored belief does not fit"),
        ("belief", lambda x: None, "lacks belief or backlog"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(part, change, message):
    whole = lived(WAITING, 40, LARGE).state()
    assert len(whole["backlog"]["rows"]) > 3
    assert whole["memory"][0] == 39
    agent = lived(WAITING, 25, LARGE)
    before = agent.state()
    with pytest.raises(ValueError, match=message):
        agent.restore({**whole, part: change(whole[part])})
    assert equal(agent.state(), before)
    agent.restore(whole)
    assert equal(agent.state(), whole)


@pytest.mark.parametrize(
    ("spec", "other", "message"),
    [
        (AGENTS[0], AGENTS[1], "its kind is 'OptimalAgent', not 'RandomAgent'"),
        (cpsrl.UCRL2(0.05), cpsrl.UCRL2(0.9), "its delta is 0.9, not 0.05"),
        (
            cpsrl.PSRL(cpsrl.Bernoulli(0.9), cpsrl.Discounted()),
            cpsrl.PSRL(cpsrl.Bernoulli(0.9), cpsrl.Average()),
            "its objective.kind is 'Average', not 'Discounted'",
        ),
        (
            cpsrl.TSDE(),
            cpsrl.TSDE(cpsrl.Dirichlet(rewards=cpsrl.NormalGamma(mu0=0.5))),
            "its belief.rewards.mu0 is 0.5, not None",
        ),
        (
            cpsrl.TSDE(cpsrl.Dirichlet(np.ones((6, 2, 6)))),
            cpsrl.TSDE(cpsrl.Dirichlet(np.full((6, 2, 6), 2.0))),
            "its belief.transitions is 'array",
        ),
    ],
)
def test_a_state_of_another_agent_is_refused(spec, other, message):
    with pytest.raises(ValueError, match=message):
        lived(spec).restore(lived(other).state())


def test_a_label_is_not_part_of_what_an_agent_is():
    assert settings_of(cpsrl.TSDE(label="mine")) == settings_of(cpsrl.TSDE())


def test_equal_arrays_are_described_alike_however_they_are_given():
    array = np.random.default_rng(0).random((3, 2, 3))
    beliefs = cpsrl.Dirichlet(array), cpsrl.Dirichlet(array.copy()), cpsrl.Dirichlet(array.tolist())
    assert len({settings_of(belief)["transitions"] for belief in beliefs}) == 1
    mask = scipy.sparse.csr_array(np.ones((6, 3)))
    assert settings_of(cpsrl.Dirichlet(support=mask))["support"].startswith("array ")


def test_a_schedule_that_fails_leaves_the_step_undecided():
    gammas = iter([1.5])
    agent = cpsrl.start(cpsrl.ContinuingPSRL(schedule=lambda t: next(gammas, 0.5)), RIVER)
    with pytest.raises(ValueError, match="gamma of step 1"):
        agent.act(0)
    assert agent.resamples == 0
    agent.act(0)
    assert agent.resamples == 1


def test_a_schedule_that_ends_is_told_that_it_is_a_function_of_every_step():
    gammas = [0.9] * 100
    spec = cpsrl.ContinuingPSRL(schedule=lambda t: gammas[t - 1])
    with pytest.raises(ValueError, match=r"no gamma for step 101 \(IndexError.*every step"):
        cpsrl.simulate(spec, RIVER, 100, 1)


@pytest.mark.parametrize(
    "arrays",
    [
        lambda n: (np.ones(n - 1, bool), np.nan),
        lambda n: (np.ones(n, bool), np.full(n - 1, 0.9)),
        lambda n: (np.ones(n), np.nan),
        lambda n: (np.ones(n, bool), None),
        lambda n: (True, 0.9),
    ],
)
def test_a_rule_that_gives_the_wrong_arrays_is_refused(arrays):
    class Wrong(cpsrl.Rule):
        def arrays(self, first, n, rng):
            return arrays(n)

    agent = cpsrl.PSRL(Wrong(), cpsrl.Average())
    for run in (
        lambda: cpsrl.simulate(agent, RIVER, 100, 1),
        lambda: cpsrl.start(agent, RIVER).act(0),
    ):
        with pytest.raises(
            ValueError, match=r"'Wrong' must give \d+ booleans and \d+ floats or one"
        ):
            run()


def test_small_integers_are_taken_for_what_they_are():
    stay = np.zeros((86, 3, 86))
    stay[np.arange(86), :, np.arange(86)] = 1
    mdp = cpsrl.TabularMDP(stay, np.zeros((86, 3)))
    world = mdp.simulator()
    world.state = 85
    assert world.step(np.uint8(1)) == (0.0, 85)
    agent = cpsrl.start(cpsrl.TSDE(), mdp)
    agent.act(np.uint8(85))
    agent.observe(np.uint8(85), np.uint8(1), np.float32(0.5), np.uint8(85))
    assert agent.belief.arrays.rewards.seen[85 * 3 + 1] == 1


@pytest.mark.parametrize(
    "spec",
    [
        cpsrl.TSDE(),
        cpsrl.UCRL2(),
        cpsrl.agents.DifferentialQLearning(),
        cpsrl.agents.OptimalAgent(),
    ],
)
def test_agents_of_tables_say_that_they_need_states(spec):
    with pytest.raises(ValueError, match=r"needs states|needs to know the MDP"):
        cpsrl.start(spec, cpsrl.mdp.problem.FeatureSizes(3, 2))


def test_the_random_agent_needs_none():
    agent = cpsrl.start(cpsrl.RandomAgent(), cpsrl.mdp.problem.FeatureSizes(3, 2))
    actions = []
    for _ in range(100):
        actions.append(agent.act([0.0, 1.0, 2.0]))
        agent.observe([0.0, 1.0, 2.0], actions[-1], 1.0, [1.0, 1.0, 1.0])
    assert set(actions) == {0, 1}
    with pytest.raises(ValueError, match="state must be 3 finite numbers"):
        agent.act([0.0, np.nan, 2.0])


class Lookalike:
    """Has what every part has, and is none of them."""

    has_gamma, needs_counts, discounts, gamma, label = True, False, True, 0.9, "like"

    def arrays(self, first, n, rng):
        return np.ones(n, bool), 0.9

    def resolve(self, pairs, steps):
        return self

    def plan(self, P, r, gamma, policy, work):
        pass


class Undecided(cpsrl.Rule):
    """Neither known in advance nor a test."""


class Both(cpsrl.Never):
    """Known in advance and a test."""

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        return False


class Half(cpsrl.Belief):
    """A belief whose live form can't be restored."""

    def start(self, problem):
        return SimpleNamespace(observe_many=print, sample=print, state=dict)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cpsrl.PSRL(rule="bernoulli"), "rule must be one such as"),
        (lambda: cpsrl.PSRL(rule=cpsrl.Bernoulli), "rule must be one such as"),
        (lambda: cpsrl.PSRL(rule=Lookalike()), r"one such as Bernoulli\(0.99\), or of a subclass"),
        (lambda: cpsrl.PSRL(rule=cpsrl.Average()), "rule must be one such as"),
        (lambda: cpsrl.PSRL(Undecided(), cpsrl.Average()), "must have `arrays`, .* a test `stops`"),
        (lambda: cpsrl.PSRL(Both(), cpsrl.Average()), "must have `arrays`, .* and not both"),
        (lambda: cpsrl.BootstrappedDQN(rule=cpsrl.Never), "rule must be one such as"),
        (lambda: cpsrl.PSRL(objective=cpsrl.Average), r"must be Discounted\(\) or Average\(\)"),
        (lambda: cpsrl.PSRL(objective=Lookalike()), r"must be Discounted\(\) or Average\(\)"),
        (lambda: cpsrl.PSRL(objective="average"), r"must be Discounted\(\) or Average\(\)"),
        (lambda: cpsrl.PSRL(belief=0.5), r"one such as Dirichlet\(\), with start\(problem\)"),
        (lambda: cpsrl.PSRL(belief=cpsrl.Dirichlet), "belief must be one such as"),
        (lambda: cpsrl.PSRL(belief=cpsrl.NormalGamma()), "belief must be one such as"),
        (lambda: cpsrl.PSRL(belief=Lookalike()), "belief must be one such as"),
        (lambda: cpsrl.TSDE(belief="dirichlet"), "belief must be one such as"),
        (
            lambda: cpsrl.start(cpsrl.TSDE(Half()), RIVER),
            r"a live belief must have restore\(...\)",
        ),
        (lambda: cpsrl.start("tsde", RIVER), "start takes a problem"),
        (lambda: cpsrl.start(cpsrl.TSDE()), "or an agent such as cpsrl.ContinuingPSRL"),
        (lambda: cpsrl.start(cpsrl.TSDE(), (6, 2)), "TSDE needs states"),
        (lambda: cpsrl.Dirichlet(transitions=1e-310), "transitions must be a positive number"),
        (lambda: cpsrl.NormalGamma(tau0=1e-310), "tau0 must be a positive number"),
        (lambda: cpsrl.KnownRewards("all").arrays(RIVER), "known rewards must be an array of num"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_ucrl2_refuses_rewards_without_a_bound_before_it_begins():
    noisy = cpsrl.TabularMDP(RIVER.dense, RIVER.rewards, noise=0.1)
    with pytest.raises(ValueError, match=r"UCRL2 is for rewards in a range, .* Gaussian noise"):
        cpsrl.simulate(cpsrl.UCRL2(), noisy, 10, 1)
    later = ChangingWorld((cpsrl.TabularMDP(RIVER.dense, RIVER.rewards), noisy), (5, 5))
    with pytest.raises(ValueError, match="Gaussian noise"):
        cpsrl.simulate(cpsrl.UCRL2(), later, 10, 1)


def test_what_a_world_will_pay_once_it_has_changed_is_expected():
    P = np.full((2, 1, 2), 0.5)
    first = cpsrl.TabularMDP(P, [[0.0], [1.0]])
    paid = np.array([[[-30.0, 30.0]], [[-30.0, 31.0]]])
    world = ChangingWorld((first, cpsrl.TabularMDP(P, paid)), (5, 5))
    assert world.realised_range == (-30.0, 31.0)
    agent = cpsrl.start(cpsrl.UCRL2(), world)
    assert (agent.low, agent.width) == (-30.0, 61.0)
    noisy = ChangingWorld((first, cpsrl.TabularMDP(P, first.rewards, noise=9.0)), (5, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for problem in (world, noisy):
            live = cpsrl.start(cpsrl.ContinuingPSRL(), problem)
            live.act(0)
            live.observe(0, 0, -30.0, 1)


def test_rewards_of_0_and_1_are_in_the_range_of_what_is_drawn():
    P, means = RIVER.transitions, np.full((6, 2), 0.5)
    drawn = cpsrl.TabularMDP(P, means, noise="bernoulli", reward_range=(0.45, 0.55))
    assert drawn.realised_range == (0.0, 1.0)


def test_values_that_are_no_numbers_are_refused():
    spec = cpsrl.agents.DifferentialQLearning()
    whole = lived(spec, 40).state()
    damaged = whole | {"values": changed(whole["values"], 0, np.nan)}
    with pytest.raises(ValueError, match="stored values are damaged"):
        cpsrl.start(spec, RIVER).restore(damaged)


def test_a_support_with_a_state_that_there_is_not_is_refused():
    entries = (np.ones(12), np.full(12, 10_000_000), np.arange(13))
    support = scipy.sparse.csr_array(entries, shape=(12, 6))
    with pytest.raises(ValueError, match="support has a successor 10000000"):
        cpsrl.start(cpsrl.TSDE(cpsrl.Dirichlet(support=support)), RIVER)


def test_an_option_that_came_later_has_its_default_in_states_that_were_stored_before():
    agent = cpsrl.start(cpsrl.PSRL(cpsrl.FixedLength(7), cpsrl.Average()), cpsrl.Sizes(2, 2))
    state = agent.state()
    del state["spec"]["belief"]["rewards"]["n_tau"]
    agent.restore(state)
    del state["spec"]["rule"]["length"]
    with pytest.raises(ValueError, match=r"another agent: its rule\.length is None, not 7"):
        agent.restore(state)
