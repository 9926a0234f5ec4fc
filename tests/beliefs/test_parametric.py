"""Beliefs about parameters: against Bayes' rule written out, in every loop, file and live agent."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import cpsrl
from contracts.test_agents import equal
from contracts.test_axes import in_steps, joined
from cpsrl import PSRL, Average, Bernoulli, Dirichlet, Discounted, KnownRewards, Sizes, simulate
from cpsrl.agents.codec import from_tree, to_tree
from cpsrl.beliefs import FAMILIES, Forgetting, Parametric, Tied
from cpsrl.beliefs.families import USUAL
from cpsrl.beliefs.parameter_posteriors import Conjugate, Weighted
from cpsrl.beliefs.parametric import METHODS
from cpsrl.beliefs.particles import Particles
from cpsrl.experiments import Entry, Experiment, load, run_experiment

SMALL_SHOP = {"capacity": 5}
OUTCOMES = np.clip(np.arange(6)[:, None, None] + [[[-1, -1, -1], [-1, 0, 1]]], 0, 5)
"""Where RiverSwim's actions lead: left always, right down, nowhere or up."""
OTHER = {
    "inventory": {"demand": 3.0, **SMALL_SHOP},
    "replacement": {"wear": 0.45, "n_states": 4},
    "access-control": {"free_probability": 0.2, "servers": 3},
    "riverswim": {"current": -0.4, "n_states": 5},
    "queue": {"arrival_rate": 0.6, "service_rate": 1.2, "capacity": 4},
}
KNOWN = {
    name: {k: v for k, v in options.items() if k in ("capacity", "n_states", "servers")}
    for name, options in OTHER.items()
}


def walk(mdp, n=60, seed=0):
    """Return transitions of random actions: states, actions, rewards, next states `(n,)`."""
    rng, world, seen = np.random.default_rng(seed), mdp.simulator(seed=seed), []
    for _ in range(n):
        state, action = world.state, int(rng.integers(mdp.n_actions))
        seen.append((state, action, *world.step(action)))
    return tuple(np.array(column) for column in zip(*seen, strict=True))


def transition(*numbers):
    """Return one transition as `observe_many` takes it."""
    return tuple(np.array([number]) for number in numbers)


@pytest.mark.parametrize("name", OTHER)
def test_a_grid_is_bayes_rule(name):
    belief = Parametric(name, options=KNOWN[name], method="grid", points=40)
    problem = cpsrl.environment(name, **OTHER[name])
    live, seen = belief.start(problem), walk(problem)
    assert np.array_equal(live.weights, np.full(40, 1 / 40))
    for part in (slice(0, 25), slice(25, None)):
        live.observe_many(*(column[part] for column in seen))
    states, actions, _, next_states = seen
    likelihood = [
        belief.model(point).dense[states, actions, next_states].prod() for point in live.points
    ]
    np.testing.assert_allclose(live.weights, likelihood / np.sum(likelihood), rtol=1e-12, atol=0)
    assert live.weights.max() > 2 / 40
    drawn = np.array([live.draw(np.random.default_rng(i))[0] for i in range(4000)])
    share = np.array([(drawn == point[0]).mean() for point in live.points])
    error = np.sqrt(live.weights * (1 - live.weights) / 4000)
    assert (np.abs(share - live.weights) < 4.5 * error + 1e-3).all()


def test_the_grid_has_cells_that_are_equally_likely():
    points = Parametric("inventory", {"demand": ("gamma", 2.0, 0.5)}, SMALL_SHOP, points=8).grid
    masses = stats.gamma(2.0, scale=2.0).cdf(points.points[:, 0])
    np.testing.assert_allclose(masses, (np.arange(8) + 0.5) / 8, rtol=1e-12)
    two = {"demand": ("gamma", 2.0, 0.5), "price": [1.0, 2.0, 4.0]}
    points = Parametric("inventory", two, SMALL_SHOP, points=16).grid.points
    assert points.shape == (4 * 3, 2)
    assert set(points[:, 1]) == {1.0, 2.0, 4.0}


def test_an_empty_shelf_hides_demand():
    belief = Parametric("inventory", options=SMALL_SHOP, points=60)
    live = belief.start(Sizes(6, 6))
    days = [(2, 1, 0), (0, 5, 0), (0, 4, 3), (3, 0, 0), (5, 0, 1), (1, 4, 5), (1, 0, 0)]
    log = np.zeros(60)
    for stock, order, left in days:
        demand, morning = stats.poisson(live.points[:, 0]), min(stock + order, 5)
        log += demand.logsf(morning - 1) if left == 0 else demand.logpmf(morning - left)
    live.observe_many(*(np.array(column) for column in np.insert(days, 2, 0, axis=1).T))
    weights = np.exp(log - log.max())
    np.testing.assert_allclose(live.weights, weights / weights.sum(), rtol=1e-10, atol=1e-14)


def test_a_day_far_beyond_all_that_was_expected_is_not_called_impossible():
    belief = Parametric("inventory", {"demand": ("uniform", 0.05, 0.2)}, {"capacity": 20})
    live = belief.start(Sizes(21, 21))
    live.observe_many(*transition(20, 0, 0.0, 2))
    weights = stats.poisson(live.points[:, 0]).pmf(18)
    np.testing.assert_allclose(live.weights, weights / weights.sum(), rtol=1e-10, atol=0)


def test_sold_out_days_say_at_least_and_not_exactly():
    belief = Parametric("inventory", options=SMALL_SHOP, points=300)
    live = belief.start(Sizes(6, 6))
    days = 200
    live.observe_many(*(np.full(days, x) for x in (0, 1, 0.0, 0)))
    demand = live.facts()["parameters"]["demand"]
    assert demand["low"] > 3  # or they would not all have sold out; the sales are 1 a day


EVENTS = {
    "replacement": lambda s, a, t: (0, 0) if a or s == 3 else (t - s, 1 - (t - s)),
    "queue": lambda s, a, t: (
        (0, 0) if s == t == 0 and not a else (int(t >= s > 0 or t > s), int(t < s or t == s == 0))
    ),
    "access-control": lambda s, a, t: (
        t // 4 - max(s // 4 - a, 0),
        3 - max(s // 4 - a, 0) - (t // 4 - max(s // 4 - a, 0)),
    ),
}
"""Of a transition, how many things happened that do with the unknown probability, and not."""


@pytest.mark.parametrize("name", EVENTS)
def test_conjugate_posteriors_count_what_happened(name):
    problem = cpsrl.environment(name, **OTHER[name])
    (parameter,) = USUAL[name]
    belief = Parametric(name, {parameter: ("beta", 2.0, 3.5)}, KNOWN[name])
    live, seen = belief.start(problem), walk(problem, 80)
    assert isinstance(live, Conjugate)
    live.observe_many(*seen)
    states, actions, _, next_states = (column.tolist() for column in seen)
    happened = [EVENTS[name](*one) for one in zip(states, actions, next_states, strict=True)]
    expected = np.array([2.0, 3.5]) + np.sum(happened, axis=0)
    assert np.array_equal(live.posterior, expected)
    assert expected.sum() > 30

    def weight(theta, power=0):
        chances = belief.model(np.array([theta])).dense[states, actions, next_states]
        log = np.log(chances).sum() + stats.beta(2.0, 3.5).logpdf(theta) + power * np.log(theta)
        return np.exp(log - at_most)

    at_most = 0.0
    at_most = np.log(max(weight(x) for x in np.linspace(0.01, 0.99, 99)))
    total, mean = (
        integrate.quad(weight, 0, 1, (power,), epsabs=1e-14, epsrel=1e-13, limit=200)[0]
        for power in (0, 1)
    )
    assert live.facts()["parameters"][parameter]["mean"] == pytest.approx(mean / total, abs=1e-12)
    drawn = [float(live.draw(np.random.default_rng(i))[0]) for i in range(2000)]
    assert stats.kstest(drawn, stats.beta(*expected).cdf).pvalue > 1e-3


def test_a_grid_and_the_conjugate_posterior_agree():
    problem = cpsrl.environment("replacement", **OTHER["replacement"])
    seen, found = walk(problem, 300), []
    for method in ("conjugate", "grid"):
        live = Parametric("replacement", None, KNOWN["replacement"], method, 2000).start(problem)
        live.observe_many(*seen)
        found.append(live.facts()["parameters"]["wear"])
    for what in ("mean", "low", "high"):
        assert found[0][what] == pytest.approx(found[1][what], abs=1e-3)


def machine(wear, repair):
    """Two probabilities, only one of which can be learnt with either action."""
    P = np.array([[[1 - wear, wear], [1.0, 0.0]], [[0.0, 1.0], [repair, 1 - repair]]])
    return P, np.array([[1.0, 0.9], [0.0, 0.0]])


MACHINE = {"wear": ("beta", 1.0, 1.0), "repair": ("beta", 2.0, 2.0)}
EVENTS_SEEN = [(0, 0, 0)] * 14 + [(0, 0, 1)] * 6 + [(1, 1, 0)] * 9 + [(1, 1, 1)] * 2
SEEN = tuple(
    np.array(column) for column in zip(*((s, a, 0.0, t) for s, a, t in EVENTS_SEEN), strict=True)
)
POSTERIORS = (stats.beta(1 + 6, 1 + 14), stats.beta(2 + 9, 2 + 2))


@pytest.mark.parametrize("batches", [1, 31])
def test_particles_are_the_posterior_within_their_error(batches):
    """The error is found from independent sets of particles, and is about that of free draws."""
    n, sets, found = 100, 16, []
    for seed in range(sets):
        spec = Parametric(machine, MACHINE, method="particles", points=n, seed=seed)
        live = spec.start(Sizes(2, 2))
        assert isinstance(live, Particles)
        for part in np.array_split(np.random.default_rng(seed).permutation(31), batches):
            live.observe_many(*(column[part] for column in SEEN))
        size = live.facts()["effective_sample_size"]
        assert n / 2 <= size <= n
        mean = live.weights @ live.points
        second = live.weights @ (live.points - [p.mean() for p in POSTERIORS]) ** 2
        found.append([*mean, *second])
    found = np.array(found)
    exact = [p.mean() for p in POSTERIORS] + [p.var() for p in POSTERIORS]
    error = found.std(axis=0, ddof=1) / sets**0.5
    assert (np.abs(found.mean(axis=0) - exact) < 4 * error).all()
    free = np.array([p.std() for p in POSTERIORS]) / n**0.5
    assert (found.std(axis=0, ddof=1)[:2] < 3 * free).all()


def test_particles_are_renewed_and_drawing_changes_nothing():
    spec = Parametric(machine, MACHINE, method="particles", points=100)
    live = spec.start(Sizes(2, 2))
    prior = live.points.copy()
    live.observe_many(*SEEN)
    assert not np.isin(live.points, prior).any(axis=1).all()
    before = live.state()
    a, b = (live.sample(np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(a.dense, b.dense)
    assert equal(live.state(), before)
    again = spec.start(Sizes(2, 2))
    again.restore(json_like(before))
    for one in (live, again):
        one.observe_many(*SEEN)
    assert equal(live.state(), again.state())
    assert np.array_equal(live.table, again.table)
    other = replace(spec, seed=1).start(Sizes(2, 2))
    other.observe_many(*SEEN)
    assert not equal(other.state(), before)


def json_like(state):
    """Return a state as it is after it was written and read."""
    return {name: np.array(json.loads(json.dumps(array.tolist()))) for name, array in state.items()}


def test_more_than_two_parameters_are_particles_and_two_a_grid():
    def three(a, b, c):
        return machine(0.5 * (a + b), c)

    prior = dict.fromkeys("abc", ("uniform", 0.01, 0.99))
    assert isinstance(Parametric(three, prior, points=10).start(Sizes(2, 2)), Particles)
    assert type(Parametric(machine, MACHINE, points=9).start(Sizes(2, 2))) is Weighted


def lazy(p):
    """A probability in a form that has no conjugate prior."""
    return [[[1 - p / 2, p / 2]], [[1.0, 0.0]]], [[0.0], [1.0]]


def certain(p):
    """Models that rule each other out: p is 0, 1 or in between."""
    return [[[1 - p, p]], [[1.0, 0.0]]], [[0.0], [1.0]]


def test_what_is_not_conjugate_is_a_grid():
    prior = {"p": ("beta", 1.0, 1.0)}
    assert type(Parametric(lazy, prior).start(Sizes(2, 1))) is Weighted
    assert isinstance(Parametric(certain, prior).start(Sizes(2, 1)), Conjugate)
    uniform = {"p": ("uniform", 0.0, 1.0)}
    assert isinstance(Parametric(certain, uniform).start(Sizes(2, 1)), Conjugate)
    assert type(Parametric(certain, {"p": ("uniform", 0.0, 0.9)}).start(Sizes(2, 1))) is Weighted
    with pytest.raises(ValueError, match="is not conjugate"):
        Parametric(lazy, prior, method="conjugate").start(Sizes(2, 1))


@pytest.mark.parametrize("method", METHODS[1:])
def test_a_transition_that_no_parameter_explains_is_named_and_nothing_is_learnt(method):
    belief = Parametric("replacement", None, KNOWN["replacement"], method, 20)
    live = belief.start(Sizes(4, 2))
    live.observe_many(*transition(0, 0, 0.0, 1))
    before = live.state()
    seen = (np.array([0, 1, 2]), np.array([0, 0, 0]), np.zeros(3), np.array([1, 3, 2]))
    message = "state 1 under action 0 cannot lead to state 3"
    with pytest.raises(ValueError, match=message):
        live.observe_many(*seen)
    with pytest.raises(ValueError, match=message):
        live.check_possible(1, 0, 3)
    live.check_possible(1, 0, 2)
    assert equal(live.state(), before)
    agent = cpsrl.start(PSRL(Bernoulli(0.9), belief=belief), Sizes(4, 2))
    agent.observe(0, agent.act(0), 0.0, 0)
    before = agent.state()
    with pytest.raises(ValueError, match=message):
        agent.observe(1, 0, 0.0, 3)
    assert equal(agent.state(), before)
    wrong = cpsrl.TabularMDP(np.full((4, 2, 4), 1 / 4), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="the prior says that state 0"):
        simulate(PSRL(Bernoulli(0.9), belief=belief), wrong, 10, 1)


@pytest.mark.parametrize("method", ["grid", "particles"])
def test_transitions_that_no_parameter_explains_together(method):
    live = Parametric(certain, {"p": [0.0, 1.0]}, method=method, points=20).start(Sizes(2, 1))
    live.observe_many(*transition(0, 0, 0.0, 1))
    assert live.facts()["parameters"]["p"] == pytest.approx({"mean": 1.0, "low": 1.0, "high": 1.0})
    before = live.state()
    seen = (np.array([1, 0, 0]), np.zeros(3, np.int64), np.zeros(3), np.array([0, 1, 0]))
    with pytest.raises(ValueError, match="state 0 under action 0 cannot lead to state 0"):
        live.observe_many(*seen)
    with pytest.raises(ValueError, match="cannot lead to state 0"):
        live.check_possible(0, 0, 0)
    assert equal(live.state(), before)


@pytest.mark.parametrize("method", ["grid", "particles"])
def test_an_agent_refuses_what_contradicts_a_transition_that_its_belief_has_not_met(method):
    belief = Parametric(certain, {"p": [0.0, 1.0]}, method=method, points=20)
    agent = cpsrl.start(PSRL(cpsrl.FixedLength(50), Discounted(0.9), belief), Sizes(2, 1))
    agent.act(0)
    agent.observe(0, 0, 0.0, 1)
    before = agent.state()
    with pytest.raises(ValueError, match="state 0 under action 0 cannot lead to state 0"):
        agent.observe(0, 0, 0.0, 0)
    assert equal(agent.state(), before)
    for state in [1, 0] * 60:
        agent.observe(state, agent.act(state), 0.0, 1 - state)


@pytest.mark.parametrize("belief", [Parametric("riverswim", points=20), Tied(OUTCOMES)])
def test_actions_that_are_not_available(belief):
    river, available = cpsrl.environment("riverswim"), np.ones((6, 2), bool)
    available[0, 0] = False
    world = cpsrl.TabularMDP(river.dense, river.rewards, available=available)
    runs = simulate(PSRL(Bernoulli(0.9), belief=belief), world, 60, 1, trajectory=True)
    path = runs.trajectory[0]
    assert available[path["states"][:-1], path["actions"]].all()


@pytest.mark.parametrize("method", METHODS[1:3])
def test_evidence_may_fade(method):
    problem = cpsrl.environment("replacement", **OTHER["replacement"])
    inner = Parametric("replacement", None, KNOWN["replacement"], method, 40)
    live, seen = Forgetting(inner, 10.0).start(problem), walk(problem, 50)
    live.observe_many(*seen)
    states, actions, _, next_states = seen
    ages = np.arange(50)[::-1]
    points = inner.start(problem).members.points[:, 0]
    chances = [inner.model(np.array([p])).dense[states, actions, next_states] for p in points]
    log = np.log(chances) @ 2.0 ** (-ages / 10)
    if method == "grid":
        weights = np.exp(log - log.max())
        np.testing.assert_allclose(live.weights, weights / weights.sum(), rtol=1e-12)
    else:
        a, b = live.posterior - 1
        mine = a * np.log(points) + b * np.log1p(-points)
        np.testing.assert_allclose(mine - mine[0], log - log[0], rtol=1e-11)
    particles = replace(inner, method="particles")
    with pytest.raises(ValueError, match="can't fade"):
        Forgetting(particles, 10.0).start(problem)
    assert live.facts() != {}
    other, before = live.copy(), live.state()
    wrong = (np.array([0, 1]), np.array([0, 0]), np.zeros(2), np.array([1, 3]))
    with pytest.raises(ValueError, match="state 1 under action 0 cannot lead to state 3"):
        live.observe_many(*wrong)
    other.observe_many(*seen)
    assert equal(live.state(), before)
    assert other.members is live.members


@pytest.mark.parametrize("method", METHODS[1:])
def test_state_copy_and_restore(method):
    belief = Parametric("queue", None, KNOWN["queue"], method, 50)
    problem = cpsrl.environment("queue", **OTHER["queue"])
    live, seen = belief.start(problem), walk(problem)
    live.observe_many(*seen)
    state = live.state()
    other, new = live.copy(), belief.start(problem)
    new.restore(json_like(state))
    assert equal(new.facts(), live.facts())
    for one in (other, new):
        one.observe_many(*seen)
        assert not equal(one.state(), state)
    assert equal(live.state(), state)
    assert equal(other.state(), new.state())
    before = new.state()
    wrong = [{"counts": state["counts"] - 1000}, {"counts": state["counts"][1:]}, {"counts": None}]
    if method == "particles":
        wrong += [{"z": state["z"] * np.nan}, {"log_weights": np.full(50, -np.inf)}]
    for part in wrong:
        with pytest.raises(ValueError, match="stored"):
            new.restore(state | part)
        assert equal(new.state(), before)


AGENTS = {
    "grid": (PSRL(Bernoulli(0.97), belief=Parametric("riverswim", points=30)), "riverswim"),
    "conjugate": (PSRL(cpsrl.TSDEStops(), Average(), Parametric("queue")), "queue"),
    "particles": (
        PSRL(
            cpsrl.DoublingTimes(),
            Discounted(0.9),
            Parametric("replacement", method="particles", points=30),
        ),
        "replacement",
    ),
}


@pytest.mark.parametrize("name", AGENTS)
def test_both_loops_and_every_split_give_one_run(name):
    spec, mdp = AGENTS[name][0], cpsrl.environment(AGENTS[name][1])
    whole = simulate(spec, mdp, 700, [3], trajectory=True, resample_times=True)
    path, times, state = in_steps(spec, mdp, 700)
    assert equal(path, whole.trajectory[0])
    assert np.array_equal(times, whole.resample_times[0])
    assert equal(whole.state[0] | state, whole.state[0])
    first = simulate(spec, mdp, 123, [3], trajectory=True)
    path, _, state = in_steps(spec, mdp, 200, first.state[0])
    last = simulate(spec, mdp, 377, [3], resume=[first.state[0] | state], trajectory=True)
    assert equal(joined([first.trajectory[0], path, last.trajectory[0]]), whole.trajectory[0])
    assert equal(last.state[0], whole.state[0])


@pytest.mark.parametrize("name", sorted(USUAL))
def test_every_family_learns_much_sooner_than_free_rows_do(name):
    assert set(USUAL) == set(FAMILIES.names())
    problem = cpsrl.environment(name, **({"capacity": 8} if name == "inventory" else {}))
    known = {"capacity": 8} if name == "inventory" else {}
    mean = []
    for belief in (Parametric(name, options=known), Dirichlet(rewards=KnownRewards())):
        runs = simulate(PSRL(Bernoulli(0.98), belief=belief), problem, 3000, 8, seed=5)
        mean.append(runs.regret[:, -1].mean())
    assert mean[0] < 0.5 * mean[1]


def test_an_experiment_names_it(tmp_path):
    table = {
        "name": "parametric",
        "family": "inventory",
        "options": SMALL_SHOP,
        "prior": {"demand": ["gamma", 2.0, 0.5]},
        "points": 64,
    }
    belief = Parametric("inventory", {"demand": ["gamma", 2.0, 0.5]}, SMALL_SHOP, points=64)
    shop = Entry("inventory", SMALL_SHOP)
    experiment = Experiment(
        "shop",
        (shop,),
        (Entry("continuing-psrl", {"gamma": 0.9, "belief": table}), PSRL(belief=belief)),
        200,
        seeds=2,
    )
    assert Experiment.from_toml(experiment.to_toml()) == experiment
    run_experiment(experiment, tmp_path / "r")
    runs = simulate(
        PSRL(Bernoulli(0.9), belief=belief), cpsrl.environment("inventory", **SMALL_SHOP), 200, 2
    )
    stored = load(tmp_path / "r")
    assert np.array_equal(stored.select(agent=runs.agents[0]).regret[:, -1], runs.regret[:, -1])


def test_a_live_agent_keeps_it_and_says_what_it_believes(tmp_path):
    belief = Parametric("inventory", options=SMALL_SHOP, points=100)
    spec, path = PSRL(Bernoulli(0.9), belief=belief), tmp_path / "shop.db"
    assert from_tree(json.loads(json.dumps(to_tree(spec)))) == spec
    world = cpsrl.environment("inventory", demand=3.0, **SMALL_SHOP).simulator(seed=1)
    for _ in range(2):
        with cpsrl.open(path, spec, Sizes(6, 6, (-5.0, 5.0))) as agent:
            for _ in range(40):
                state = world.state
                action = agent.act(state)
                agent.observe(state, action, *world.step(action))
            said = agent.explain(0, draws=39)
    with cpsrl.open(path) as agent:
        assert equal(agent.explain(0, draws=39).to_dict(), said.to_dict())
        demand = said.belief["parameters"]["demand"]
        assert demand["low"] < 3.0 < demand["high"] < 6
        assert 1 < said.belief["effective_sample_size"] < 50
        assert said.belief["points"] == 100
        assert f"demand {demand['mean']:.4g}" in str(said)
        assert "effective sample size" in str(said)
        json.loads(said.to_json())
        with pytest.raises(ValueError, match="state 0 under action 0 cannot lead to state 5"):
            agent.observe(0, 0, 0.0, 5)


def test_a_family_of_ones_own_by_its_name():
    def lamp(dims: float, cost: float = 0.5):
        return [[[1 - dims, dims]] * 2, [[0.0, 1.0], [1.0, 0.0]]], [[1.0, 1.0], [0.0, -cost]]

    cpsrl.register("family", "lamp")(lamp)
    try:
        belief = Parametric("lamp", {"dims": ("beta", 1.0, 9.0)}, {"cost": 0.2})
        assert belief.model(np.array([0.25])).rewards[1, 1] == -0.2
        assert from_tree(to_tree(belief)) == belief
    finally:
        del FAMILIES._factories["lamp"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Parametric("inventry"), "did you mean 'inventory'"),
        (lambda: Parametric(7), "family must be a name or a function, not 7"),
        (lambda: Parametric(machine), "needs a prior"),
        (lambda: Parametric("queue", {"arrival": ("beta", 1, 1)}), "did you mean 'arrival_share'"),
        (lambda: Parametric("queue", options={"capcity": 3}), "did you mean 'capacity'"),
        (lambda: Parametric("queue", {"capacity": [3]}, {"capacity": 3}), "not both"),
        (lambda: Parametric("queue", [1]), "prior must be a table by name"),
        (lambda: Parametric(lazy, {"p": "beta"}), "the prior of 'p' must be such as"),
        (lambda: Parametric(lazy, {"p": []}), "the prior of 'p' must be such as"),
        (lambda: Parametric(lazy, {"p": ("beta", 1)}), "needs two numbers"),
        (lambda: Parametric(lazy, {"p": ("bta", 1, 1)}), "did you mean 'beta'"),
        (lambda: Parametric(lazy, {"p": ("gamma", 0.0, 1)}), "must be a positive number"),
        (lambda: Parametric(lazy, {"p": ("uniform", 1, 0)}), "from low to high"),
        (lambda: Parametric(lazy, {"p": [0.1, "x"]}), r"prior of 'p'\[1\] must be a finite number"),
        (lambda: Parametric("queue", method="exact"), "unknown method 'exact'"),
        (lambda: Parametric("queue", points=1), "points must be a whole number of at least 2"),
        (lambda: Parametric("queue").start(Sizes(5, 2)), r"models have \(S, A\) = \(21, 2\)"),
        (
            lambda: Parametric(lazy, {"p": [0.5, 3.0]}).start(Sizes(2, 1)),
            r"makes no model of \{'p': 3.0\}",
        ),
        (
            lambda: Parametric(
                lambda n: lazy(0.5) if n < 2 else machine(0.1, 0.1), {"n": [1, 2]}
            ).start(Sizes(2, 1)),
            "must be of one size",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
