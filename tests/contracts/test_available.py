"""Parts that meet actions which are not available, and rewards that depend on the transition."""

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from cpsrl.agents import AGENTS
from cpsrl.agents.baselines import RandomAgent
from cpsrl.beliefs import Dirichlet, Truncated
from cpsrl.mdp import Simulator
from cpsrl.planning import (
    classify,
    diameter,
    planning_gap,
    reward_averaging_time,
    solve_average,
    sufficient_gamma,
)
from cpsrl.seeding import Streams
from cpsrl.simulation import readable
from cpsrl.simulation.loops import Recorder, Run

AVAILABLE = np.array([[False, True, True], [True, False, False], [True, True, False]])


def model(seed, n_states=3, options=AVAILABLE, **more):
    rng = np.random.default_rng(seed)
    shape = (n_states, options.shape[1])
    P, r = rng.dirichlet(np.full(n_states, 0.5), shape), rng.random(shape)
    r[~options] = 5.0
    return cpsrl.TabularMDP(P, r, available=options, **more)


class Fixed:
    """A live belief in plain NumPy that always draws one model, the best action unavailable."""

    def __init__(self, form):
        drawn = model(0, options=np.ones((3, 3), bool))
        rewards = drawn.rewards + 5.0 * ~AVAILABLE
        self.drawn = form(drawn.dense, rewards)

    def observe_many(self, *transitions):
        pass

    def sample(self, rng):
        return self.drawn

    def state(self):
        return {}

    def restore(self, state):
        pass


class Plain(cpsrl.Belief):
    def __init__(self, form):
        self.form = form

    def start(self, problem):
        return Fixed(self.form)


@pytest.mark.parametrize("form", [lambda P, r: (P, r), cpsrl.TabularMDP], ids=["arrays", "MDP"])
@pytest.mark.parametrize("known", ["model", "sizes"])
def test_any_belief_is_planned_in_with_available_actions_only(form, known):
    mdp = model(0)
    problem = mdp if known == "model" else cpsrl.Sizes(3, 3, available=AVAILABLE)
    for objective in (cpsrl.Average(), cpsrl.Discounted(0.9)):
        agent = cpsrl.start(cpsrl.PSRL(objective=objective, belief=Plain(form)), problem)
        agent.act(0)
        assert agent.policy.tolist() == objective.solve(mdp, 0.9).tolist()


def test_a_large_model_is_drawn_and_planned_in_with_available_actions_only():
    rng = np.random.default_rng(0)
    n_states, n_actions = 140, 3
    options = rng.random((n_states, n_actions)) < 0.5
    options[:, 1] |= ~options.any(axis=1)
    support = rng.random((n_states, n_actions, n_states)) < 0.03
    support[:, :, 0] = True
    support[~options] = False  # nothing is said of what is not available
    P = support * rng.random(support.shape)
    with np.errstate(invalid="ignore"):
        P /= P.sum(axis=2, keepdims=True)
    flat = support.reshape(-1, n_states)
    P = scipy.sparse.csr_array(np.nan_to_num(P.reshape(flat.shape)))
    mdp = cpsrl.TabularMDP(P, rng.random((n_states, n_actions)), available=options)
    beliefs = (
        Dirichlet(),
        Dirichlet(support=support),
        Dirichlet(support=scipy.sparse.csr_array(flat)),
    )
    for belief in (*beliefs, Dirichlet(transitions=1.0 * support)):
        runs = cpsrl.simulate(cpsrl.TSDE(belief), mdp, 300, 1, trajectory=True)
        path = runs.trajectory[0]
        assert options[path["states"][:-1], path["actions"]].all()


def test_a_truncated_belief_looks_at_the_span_of_what_can_be_done():
    sizes = cpsrl.Sizes(3, 3, available=AVAILABLE)
    live, drawn = Truncated(1.0).start(sizes), []
    for seed in range(200):
        whole = live.sample(seed)
        drawn.append(cpsrl.TabularMDP(whole.dense, whole.rewards, available=AVAILABLE))
    assert max(np.ptp(solve_average(mdp).bias) for mdp in drawn) <= 1.0


def test_an_agent_of_ones_own_is_told_what_it_did():
    class Stubborn:
        def act(self, state):
            return 2

        def observe(self, *transition):
            pass

    mdp = model(1, state_names=list("xyz"), action_names=["a", "b", "c"], initial=1)
    with pytest.raises(ValueError, match="action 'c' is not available in state 'y'"):
        cpsrl.simulate(Stubborn(), mdp, 10, 1)


def test_a_state_with_an_unavailable_action_in_its_policy_is_refused():
    agent = cpsrl.start(cpsrl.TSDE(), model(0))
    agent.act(0)
    state = agent.state()
    state["policy"][0] = 0
    with pytest.raises(ValueError, match="damaged"):
        cpsrl.start(cpsrl.TSDE(), model(0)).restore(state)


def test_chance_is_fair_to_the_available_actions():
    mdp = model(2)
    path = cpsrl.simulate(RandomAgent(), mdp, 30_000, 1, trajectory=True).trajectory[0]
    for state in range(3):
        taken = np.bincount(path["actions"][path["states"][:-1] == state], minlength=3)
        options = AVAILABLE[state].sum()
        deviation = np.sqrt(taken.sum() * (1 / options) * (1 - 1 / options))
        expected = taken.sum() * AVAILABLE[state] / options
        assert (np.abs(taken - expected) <= 4 * deviation).all()


def test_differential_q_looks_ahead_to_available_actions():
    agent = cpsrl.start(AGENTS.make("differential-q"), cpsrl.Sizes(3, 3, available=AVAILABLE))
    agent.values[1, 0] = -3.0
    agent.observe(0, 1, 0.5, 1)
    assert agent.values[0, 1] == pytest.approx(0.1 * (0.5 - 3.0))
    assert agent.values[0, 0] == -np.inf


def test_repeats_change_nothing_in_the_structure():
    """A model whose last action is never available, against the one without it."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        P, r = rng.dirichlet(np.full(4, 0.4), (4, 3)), rng.random((4, 3))
        options = np.array([[True, True, False]] * 4)
        masked, plain = (
            cpsrl.TabularMDP(P, r, available=options),
            cpsrl.TabularMDP(P[:, :2], r[:, :2]),
        )
        assert str(classify(masked)) == str(classify(plain))
        assert diameter(masked) == diameter(plain)
        assert sufficient_gamma(masked, points=40) == sufficient_gamma(plain, points=40)
        assert planning_gap(masked, 0.5).gap == planning_gap(plain, 0.5).gap
        best, other = (
            solve_average(masked, bias_optimal=True),
            solve_average(plain, bias_optimal=True),
        )
        assert np.array_equal(best.policy, other.policy)
        assert best.error <= 2 * other.error + 1e-15
        assert str(reward_averaging_time(masked, best.policy)) == str(
            reward_averaging_time(plain, best.policy)
        )


@pytest.mark.parametrize("noise", [0.2, "bernoulli"])
@pytest.mark.parametrize("n_states", [4, 9])
def test_noise_is_around_the_rewards_of_transitions_in_both_loops(noise, n_states):
    rng = np.random.default_rng(n_states)
    P = rng.dirichlet(np.ones(n_states), (n_states, 2))
    mdp = cpsrl.TabularMDP(P, rng.random((n_states, 2, n_states)), noise=noise)
    for spec in (RandomAgent(), cpsrl.ContinuingPSRL()):
        runs = cpsrl.simulate(spec, mdp, 2000, [1], trajectory=True)
        streams = Streams(0, 1)
        run = Run(spec.start(mdp, streams), Simulator(mdp, streams))
        recorder = Recorder(runs.times, trajectory=True)
        run.recorder = recorder
        readable.advance(run, 2000, lambda n: None, np.zeros(1, np.int64))
        path = recorder.trajectory(run.simulator.state)
        assert all(np.array_equal(path[key], runs.trajectory[0][key]) for key in path)


def test_a_belief_sees_the_variance_that_rewards_of_transitions_have():
    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.full(3, 5.0), (3, 2)), rng.random((3, 2, 3))
    mdp = cpsrl.TabularMDP(P, r)
    path = cpsrl.simulate(RandomAgent(), mdp, 20_000, 1, trajectory=True).trajectory[0]
    belief = Dirichlet().start(mdp)
    states = path["states"]
    belief.observe_many(states[:-1], path["actions"], path["rewards"], states[1:])
    learned = belief.arrays.rewards
    variance = (P * (r - mdp.rewards[:, :, None]) ** 2).sum(axis=2).ravel()
    np.testing.assert_allclose(learned.m2 / learned.seen, variance, rtol=0.1)
    error = np.abs(learned.mean - mdp.rewards.ravel())
    assert (error < 4 * np.sqrt(variance / learned.seen)).all()
