"""A belief and rules written here, as a user would, run wherever ours do."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import cpsrl
from contracts.test_agents import equal
from contracts.test_axes import in_steps, joined
from cpsrl import (
    PSRL,
    Average,
    Belief,
    Bernoulli,
    Dirichlet,
    Discounted,
    Never,
    Rule,
    seeding,
    simulate,
)
from cpsrl._private.compile import leaf
from cpsrl.beliefs import BATCH, BELIEFS
from cpsrl.experiments import Entry, Experiment, continue_experiment, load, run_experiment
from cpsrl.objectives import Objective
from cpsrl.resampling import RULES
from cpsrl.simulation import compiled

RIVER = cpsrl.environment("riverswim")


@dataclass(frozen=True)
class PlainDirichlet(Belief):
    """Dirichlet rows and normal-gamma rewards in plain NumPy, with our prior."""

    def start(self, problem):
        return LivePlainDirichlet(problem.n_states, problem.n_actions)


class LivePlainDirichlet:
    def __init__(self, n_states, n_actions):
        self.alpha = np.full((n_states, n_actions, n_states), 1 / n_states)
        self.n = np.zeros((n_states, n_actions))
        self.sum, self.squares = np.zeros_like(self.n), np.zeros_like(self.n)

    def observe_many(self, states, actions, rewards, next_states):
        np.add.at(self.alpha, (states, actions, next_states), 1)
        for array, values in ((self.n, 1), (self.sum, rewards), (self.squares, rewards**2)):
            np.add.at(array, (states, actions), values)

    def sample(self, rng):
        x = rng.standard_gamma(self.alpha)
        weight, a = 1 + self.n, (1 + self.n) / 2
        mean = (1 + self.sum) / weight
        b = (1 + self.squares + 1 - weight * mean**2) / 2
        precision = rng.standard_gamma(a) / b
        rewards = rng.normal(mean, 1 / np.sqrt(weight * precision))
        return x / x.sum(axis=2, keepdims=True), rewards

    def state(self):
        return {name: array.copy() for name, array in vars(self).items()}

    def restore(self, state):
        for name, array in vars(self).items():
            array[:] = state[name]


@dataclass(frozen=True)
class Novelty(Rule):
    """Resample when `most` visits of pairs that were hardly known have added up."""

    most: int = 5

    words: ClassVar[str] = "novelty {most}"

    def memory(self):
        return np.array([0.0, self.most])

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        if visits <= 2 * before + 3:
            memory[0] += 1.0
        if memory[0] >= memory[1] or t > start + 80:
            memory[0] = 0.0
            memory[1] += 1.0
            return True
        return False


@dataclass(frozen=True)
class Binary(Rule):
    """Resample when a count's binary digits, or the sum of those before, say so: not for Numba."""

    def memory(self):
        return np.zeros(1)

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        known = {"digits": bin(visits).count("1"), "memory": memory[0], "visits": str(visits)}
        memory[0] = (known["memory"] + known["digits"]) % 17
        return known["visits"].endswith("00") or known["memory"] == 3


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Register the parts, as a user's module would, and take them out again for the other tests."""
    BELIEFS.add("plain-dirichlet")(PlainDirichlet)
    RULES.add("novelty")(Novelty)
    RULES.add("binary")(Binary)
    yield
    del BELIEFS._factories["plain-dirichlet"]
    del RULES._factories["novelty"], RULES._factories["binary"]


AGENTS = {
    "own belief": PSRL(Bernoulli(0.97), Discounted(), PlainDirichlet()),
    "own belief, count rule": PSRL(cpsrl.TSDEStops(), Average(), PlainDirichlet()),
    "own belief and rule": PSRL(Novelty(), Discounted(0.9), PlainDirichlet()),
    "own belief, rule in Python": PSRL(Binary(), Average(), PlainDirichlet()),
    "own rule": PSRL(Novelty(7), Average()),
    "own rule in Python": PSRL(Binary(), Discounted(0.95)),
    "own rule, truncated": PSRL(Novelty(), Average(), cpsrl.beliefs.Truncated(30.0)),
}
every = pytest.mark.parametrize("name", AGENTS)


@every
def test_both_loops_and_every_split_give_one_run(name):
    spec, steps = AGENTS[name], 700
    options = {"trajectory": True, "resample_times": True}
    whole = simulate(spec, RIVER, steps, [3], **options)
    assert 5 < len(whole.resample_times[0]) < steps / 3
    path, times, state = in_steps(spec, RIVER, steps)
    assert equal(path, whole.trajectory[0])
    assert np.array_equal(times, whole.resample_times[0])
    assert equal(whole.state[0] | state, whole.state[0])
    first = simulate(spec, RIVER, 123, [3], **options)
    path, times, state = in_steps(spec, RIVER, 200, first.state[0])
    last = simulate(spec, RIVER, 377, [3], resume=[first.state[0] | state], **options)
    assert equal(joined([first.trajectory[0], path, last.trajectory[0]]), whole.trajectory[0])
    assert equal(last.state[0], whole.state[0])


@pytest.mark.parametrize(
    "name", ["own belief", "own belief and rule", "own rule in Python", "own rule, discounted"]
)
def test_discounted_regret_in_whichever_loop(name):
    spec = AGENTS.get(name, PSRL(Novelty(), Discounted(0.9)))
    options = {"record": 1, "discounted_regret": True, "trajectory": True}
    runs = simulate(spec, RIVER, 300, [3], **options)
    first = simulate(spec, RIVER, 130, [3], **options)
    second = simulate(spec, RIVER, 170, [3], resume=first.state, **options)
    parts = np.hstack([first.discounted_regret, second.discounted_regret])
    assert np.array_equal(parts, runs.discounted_regret)
    gamma = spec.objective.gamma or spec.rule.gamma
    best = cpsrl.solve_discounted(RIVER, gamma).value
    agent, path = cpsrl.start(spec, RIVER, run=3), runs.trajectory[0]
    expected, total = [], 0.0
    for t in range(300):
        state, before = int(path["states"][t]), agent.resamples
        action = agent.act(state)
        if agent.resamples > before:
            total += (
                best[state] - cpsrl.planning.discounted_value(RIVER, agent.policy, gamma)[state]
            )
        expected.append(total)
        agent.observe(state, action, path["rewards"][t], int(path["states"][t + 1]))
    assert total > 0
    np.testing.assert_allclose(runs.discounted_regret[0], expected, atol=1e-9)


LEVELS = np.array([3, 5, 9, 60])


class Silent(Rule):
    """Resample at every fourth visit of a pair, and say nothing otherwise."""

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        if visits % 4 == 0:
            return True


class Whole(Rule):
    """Resample at every fifth visit of a pair, in whole numbers."""

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        return int(visits % 5 == 0)


class Looking(Rule):
    """Resample at some numbers of visits, looked up in an array."""

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        return np.any(visits == LEVELS)


class Square(Rule):
    """Resample by a memory of two dimensions."""

    def memory(self):
        return np.zeros((2, 2))

    @staticmethod
    def stops(t, start, previous, visits, before, memory):
        memory[0, 1] += 1
        return memory[0, 1] % 7 == 4


@pytest.mark.parametrize("rule", [Silent(), Whole(), Looking(), Square()])
def test_a_test_may_answer_in_its_own_way(rule):
    spec = PSRL(rule, Discounted(0.9), PlainDirichlet())
    whole = simulate(spec, RIVER, 200, [3], trajectory=True, resample_times=True)
    path, times, state = in_steps(spec, RIVER, 200)
    assert 2 < len(times) < 100
    assert equal(path, whole.trajectory[0])
    assert np.array_equal(times, whole.resample_times[0])
    assert equal(whole.state[0] | state, whole.state[0])


@pytest.mark.parametrize(
    ("rule", "compiles"), [(Novelty(), True), (Whole(), True), (Silent(), False), (Binary(), False)]
)
def test_a_test_is_compiled_if_it_can_be(rule, compiles):
    agent = cpsrl.start(PSRL(rule, Average(), PlainDirichlet()), RIVER)
    assert (compiled.kernel_of(agent, False) is not None) == compiles


def test_a_rules_memory_is_its_own_in_every_run():
    together = simulate(AGENTS["own rule"], RIVER, 500, 3, record=1)
    alone = simulate(AGENTS["own rule"], RIVER, 500, [2], record=1)
    assert np.array_equal(alone.resamples[0], together.resamples[2])
    memory = [state["agent"]["memory"] for state in together.state]
    assert all(kept[1] > 7 for kept in memory)
    assert cpsrl.start(AGENTS["own rule"], RIVER).memory.tolist() == [0.0, 7.0]


def draws(belief, seed, n=3000):
    """Return transitions `(n, S, A, S)` and rewards `(n, S, A)` drawn after the same data."""
    rng = np.random.default_rng(0)
    live = belief.start(cpsrl.Sizes(4, 2))
    states, next_states = rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    live.observe_many(states, rng.integers(0, 2, 60), rng.normal(1, 2, 60), next_states)
    draw = np.random.default_rng(seed)
    drawn = [live.sample(draw) for _ in range(n)]
    if isinstance(drawn[0], cpsrl.TabularMDP):
        drawn = [(model.dense, model.rewards) for model in drawn]
    return np.stack([P for P, _ in drawn]), np.stack([r for _, r in drawn])


def test_the_own_belief_draws_what_ours_draws():
    mine, ours = draws(PlainDirichlet(), 1), draws(Dirichlet(), 2)
    p = []
    for s in range(4):
        for a in range(2):
            p.append(stats.ks_2samp(mine[1][:, s, a], ours[1][:, s, a]).pvalue)
            for j in range(4):
                cells = [np.maximum(P[:, s, a, j], 1e-12) for P in (mine[0], ours[0])]
                p.append(stats.ks_2samp(*cells).pvalue)
    assert min(p) > 1e-3 / len(p)


def test_with_the_own_belief_regret_is_on_average_what_it_is_with_ours():
    found = []
    for seed, belief in enumerate((PlainDirichlet(), Dirichlet())):
        runs = simulate(PSRL(Bernoulli(0.95), belief=belief), RIVER, 1000, 100, seed=seed)
        found.append(runs.regret[:, -1])
    (mean, other), error = ([x.mean() for x in found], [x.std() / len(x) ** 0.5 for x in found])
    assert abs(mean - other) < 4 * np.hypot(*error)
    assert max(error) < 0.2 * mean


def test_own_parts_in_an_experiment_on_disk(tmp_path):
    own = {"belief": "plain-dirichlet"}
    agents = (
        Entry("psrl", {"rule": {"name": "novelty", "most": 4}, "objective": "average", **own}),
        Entry("psrl", {"rule": "binary", "objective": {"name": "discounted", "gamma": 0.9}}),
        Entry("continuing-psrl", {"gamma": 0.9, **own}),
    )
    experiment = Experiment("own", (Entry("riverswim"),), agents, 300, seeds=2, record=50)
    assert Experiment.from_toml(experiment.to_toml()) == experiment
    run_experiment(experiment, tmp_path / "r")
    continue_experiment(tmp_path / "r", 150)
    stored = load(tmp_path / "r")
    specs = [
        PSRL(Novelty(4), Average(), PlainDirichlet()),
        PSRL(Binary(), Discounted(0.9)),
        PSRL(Bernoulli(0.9), Discounted(), PlainDirichlet()),
    ]
    assert stored.agents == tuple(spec.label for spec in specs)
    for spec in specs:
        runs, mine = simulate(spec, RIVER, 450, 2, record=50), stored.select(agent=spec.label)
        assert np.array_equal(mine.times, runs.times)
        assert np.array_equal(mine.regret, runs.regret)
        assert np.array_equal(mine.resamples, runs.resamples)


@dataclass(frozen=True)
class Summing(Belief):
    """A belief whose numbers depend on how the transitions are cut into batches."""

    def start(self, problem):
        return LiveSumming(problem)


class LiveSumming:
    def __init__(self, problem):
        self.shape = (problem.n_states, problem.n_actions, problem.n_states)
        self.total, self.batches = np.zeros(2), []

    def observe_many(self, states, actions, rewards, next_states):
        noise = np.sin(1e3 * states + actions + np.arange(len(states))) * 1e-3
        self.total += [np.sum(noise + rewards / 3), np.sum(noise * next_states)]
        self.batches.append(len(states))

    def sample(self, rng):
        P = rng.random(self.shape) + np.abs(np.sin(self.total * 1e6))[0]
        return P / P.sum(axis=2, keepdims=True), rng.random(self.shape[:2]) + self.total[1]

    def state(self):
        return {"total": self.total.copy(), "batches": np.array(self.batches, np.int64)}

    def restore(self, state):
        self.total[:], self.batches = state["total"], [int(n) for n in state["batches"]]


def test_the_sums_of_a_batch_do_depend_on_where_it_is_cut():
    rewards, zeros = np.linspace(0, 1, 1001) ** 3, np.zeros(1001, np.int64)
    whole, parts = LiveSumming(RIVER), LiveSumming(RIVER)
    whole.observe_many(zeros, zeros, rewards, zeros + 1)
    for part in (slice(0, 600), slice(600, None)):
        parts.observe_many(zeros[part], zeros[part], rewards[part], zeros[part] + 1)
    assert (whole.total != parts.total).any()


@pytest.mark.parametrize(
    ("rule", "steps", "cuts"),
    [
        (Bernoulli(0.98), 1500, (1, 2, 333, 1024, 1100)),
        (cpsrl.TSDEStops(), 1500, (700,)),
        (cpsrl.FixedLength(100), 600, (100, 101, 250)),
        (Never(), BATCH + 5000, (10, BATCH - 1, BATCH, BATCH + 1)),
    ],
    ids=lambda value: getattr(value, "label", None),
)
def test_where_a_run_is_split_changes_no_rounding(rule, steps, cuts):
    spec = PSRL(rule, Discounted(0.9), Summing())
    whole = simulate(spec, RIVER, steps, [3])
    _, times, state = in_steps(spec, RIVER, steps)
    assert equal(whole.state[0] | state, whole.state[0])
    start, runs = (), []
    for first, last in zip((0, *cuts), (*cuts, steps), strict=True):
        runs.append(simulate(spec, RIVER, last - first, [3], resume=start))
        start = runs[-1].state
    assert equal(start[0], whole.state[0])
    # Handed over where a resampling was due, and when BATCH had gathered since the last time.
    batches = whole.state[0]["agent"]["belief"]["batches"]
    if isinstance(rule, Never):
        assert batches.tolist() == [BATCH]
        waiting = [len(run.state[0]["agent"]["backlog"]["rows"]) for run in runs]
        assert waiting == [10, BATCH - 1, 0, 1, 5000]
    else:
        assert np.array_equal(np.cumsum(batches), times[1:] - 1)


@dataclass(frozen=True)
class Dealing(Belief):
    """A belief that draws small integers, of which NumPy's generator keeps one for later."""

    def start(self, problem):
        shape = (problem.n_states, problem.n_actions, problem.n_states)

        def sample(rng):
            weights = 1.0 + rng.integers(0, 100, shape, dtype=np.int32)
            rewards = rng.integers(0, 100, shape[:2], dtype=np.int32)
            rng.integers(0, 9, dtype=np.int32)
            return weights / weights.sum(axis=2, keepdims=True), rewards

        return SimpleNamespace(
            observe_many=lambda *transitions: None,
            sample=sample,
            state=dict,
            restore=lambda state: None,
        )


@pytest.mark.parametrize("shared", [True, False])
def test_the_belief_is_lent_its_stream_and_nothing_of_it_is_lost(monkeypatch, shared):
    monkeypatch.setattr(seeding, "SHARED", shared)
    spec = PSRL(Bernoulli(0.9), Discounted(), Dealing())
    whole = simulate(spec, RIVER, 400, [3])
    _, _, state = in_steps(spec, RIVER, 400)
    assert equal(whole.state[0] | state, whole.state[0])
    halves, start = set(), ()
    for _ in range(20):
        start = simulate(spec, RIVER, 20, [3], resume=start).state
        halves.add(start[0]["agent"]["streams"]["belief"]["has_uint32"])
    assert halves == {0, 1}
    assert equal(start[0], whole.state[0])
    monkeypatch.setattr(seeding, "SHARED", not shared)
    assert equal(simulate(spec, RIVER, 400, [3]).state[0], whole.state[0])


def test_looking_at_the_belief_in_between_changes_nothing():
    spec = PSRL(Bernoulli(0.9), Discounted(), Summing())
    agents = [cpsrl.start(spec, RIVER) for _ in range(2)]
    world, lengths = RIVER.simulator(), []
    for _ in range(100):
        state = world.state
        action = agents[0].act(state)
        assert agents[1].act(state) == action
        transition = (state, action, *world.step(action))
        for agent in agents:
            agent.observe(*transition)
        seen = agents[1].belief
        lengths.append(sum(seen.state()["batches"]))
        seen.observe_many(np.array([0]), np.array([0]), np.array([9.0]), np.array([0]))
    assert lengths == list(range(1, 101))
    assert equal(agents[0].state(), agents[1].state())


@dataclass(frozen=True)
class Drawing(Belief):
    """A belief whose draws are what it is told to draw."""

    drawn: Any

    def start(self, problem):
        return SimpleNamespace(
            observe_many=lambda *transitions: None,
            sample=lambda rng: self.drawn,
            state=dict,
            restore=lambda state: None,
        )


P, R = np.full((6, 2, 6), 1 / 6), np.zeros((6, 2))


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        (None, "sample is not a model"),
        ((P, R, R), "sample is not a model"),
        ((2 * P, R), "sample is not a model"),
        ((-P, R), "sample is not a model"),
        ((np.full((6, 2, 6), np.nan), R), "sample is not a model"),
        ((P, np.full((6, 2), np.inf)), "sample is not a model"),
        ((P[:5, :, :5] * 1.2, R[:5]), r"sample has \(5, 2\) states and actions, not \(6, 2\)"),
    ],
)
def test_a_draw_that_is_no_model_is_refused(drawn, message):
    spec = PSRL(Never(), Average(), Drawing(drawn))
    for run in (lambda: simulate(spec, RIVER, 5, 1), lambda: cpsrl.start(spec, RIVER).act(0)):
        with pytest.raises(ValueError, match=message):
            run()


def test_a_draw_may_be_a_model_or_its_two_arrays():
    optimal = simulate(cpsrl.agents.OptimalAgent(), RIVER, 200, 2)
    for drawn in ((RIVER.dense, RIVER.rewards), RIVER, (RIVER.dense.tolist(), RIVER.rewards)):
        runs = simulate(PSRL(Never(), Average(), Drawing(drawn)), RIVER, 200, 2)
        assert np.array_equal(runs.regret, optimal.regret)


def test_options_that_are_several_arrays_are_told_apart():
    one, same, other = (
        cpsrl.start(PSRL(Never(), Average(), Drawing((P, rewards))), RIVER)
        for rewards in (R, R.copy(), R + 1)
    )
    same.restore(one.state())
    with pytest.raises(ValueError, match=r"another agent: its belief.drawn"):
        other.restore(one.state())


@leaf
def plan_nonsense(P, r, gamma, policy, work):
    for s in range(len(policy)):
        policy[s] = 99


@dataclass(frozen=True)
class Nonsense(Objective):
    """Plan actions that there are not."""

    plan = staticmethod(plan_nonsense)


@pytest.mark.parametrize(
    "use",
    [
        lambda spec: cpsrl.simulate(spec, RIVER, 100, 2),
        lambda spec: cpsrl.start(spec, RIVER).act(0),
    ],
    ids=["compiled", "live"],
)
def test_an_action_that_there_is_not_is_refused_before_it_is_taken(use):
    with pytest.raises(ValueError, match="planned an action that does not exist"):
        use(cpsrl.PSRL(cpsrl.Bernoulli(0.9), Nonsense()))
