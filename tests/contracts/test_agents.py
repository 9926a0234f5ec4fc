"""What every registered agent keeps to, with tables or with networks."""

import inspect
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import AGENTS
from cpsrl.mdp import Simulator
from cpsrl.seeding import Streams
from cpsrl.simulation import readable, simulate
from cpsrl.simulation.loops import Recorder, Run

every = pytest.mark.parametrize(
    "name",
    [name for name in AGENTS.names() if all(map(find_spec, AGENTS.make(name).packages))],
)

GO_ON = np.zeros(1, np.int64)


def made(name):
    """The agent; one with networks learns from few transitions at a time, and forgets them soon."""
    spec = AGENTS.make(name)
    return replace(spec, batch=4, capacity=40, target_every=7) if spec.packages else spec


def problems(spec):
    """A small chain, a model with noisy rewards, and one that is large enough to be sparse.

    And one where some actions are not available and rewards depend on the transition. Each with a
    number of steps, which is smaller for networks.
    """
    noisy = cpsrl.TabularMDP(
        np.random.default_rng(0).dirichlet(np.ones(7), (7, 3)),
        np.random.default_rng(1).random((7, 3)),
        noise="bernoulli",
        initial=np.full(7, 1 / 7),
        name="noisy",
        features=np.eye(7),
    )
    large = cpsrl.environment("gridworld", rows=12, columns=12, features="one-hot")
    most = 60 if spec.packages else 600
    every = ((river(), 600), (noisy, 300), (large, 25), (masked(), 300))
    return [(mdp, min(steps, most)) for mdp, steps in every]


def masked():
    """A model in which an action that is not available would be the best, if it were."""
    rng = np.random.default_rng(3)
    P, r = rng.dirichlet(np.full(7, 0.3), (7, 3)), 0.5 * rng.random((7, 3, 7))
    available = np.array(
        [[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1], [1, 0, 0]]
    )
    r[available == 0] += 0.5
    P[available == 0] = 0
    return cpsrl.TabularMDP(P, r, available=available, features=np.eye(7), name="masked")


def river():
    return cpsrl.environment("riverswim", features="thermometer")


def equal(a, b, rounding=False):
    """Return whether two trees of arrays and scalars are the same, bit for bit.

    With `rounding`, what networks compute, in float32, may differ by that.
    """
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key], rounding) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(partial(equal, rounding=rounding), a, b))
    if isinstance(a, np.ndarray):
        near = rounding and a.dtype == np.float32
        same = np.allclose(a, b, rtol=1e-4, atol=2e-5) if near else np.array_equal(a, b)
        return a.dtype == b.dtype and a.shape == b.shape and same
    return a == b


@every
def test_is_documented_and_has_a_default_for_every_option(name):
    assert len(AGENTS.summary(name)) > 20
    assert AGENTS.make(name).label
    for parameter in AGENTS.options(name).values():
        assert parameter.default is not inspect.Parameter.empty


@every
def test_the_readable_and_the_compiled_loop_give_the_same_run(name):
    spec = made(name)
    for mdp, steps in problems(spec):
        runs = simulate(spec, mdp, steps, [3], trajectory=True, resample_times=True)
        streams = Streams(0, 3)
        simulator, agent = Simulator(mdp, streams), spec.start(mdp, streams)
        recorder = Recorder(runs.times, resample_times=True, trajectory=True)
        live = Run(agent, simulator)
        live.recorder = recorder
        readable.advance(live, steps, lambda n: None, GO_ON)
        assert equal(recorder.trajectory(simulator.state), runs.trajectory[0])
        assert np.array_equal(recorder.resample_times, runs.resample_times[0])
        assert np.array_equal(recorder.tape.resamples, runs.resamples[0])
        assert runs.state[0]["reward_sum"] == live.reward_sum
        assert equal(agent.state(), runs.state[0]["agent"], rounding=bool(spec.packages))


@every
def test_a_run_in_two_parts_is_the_run_in_one(name):
    spec = made(name)
    for mdp, steps in problems(spec):
        half = steps // 2
        whole = simulate(spec, mdp, steps, [0, 4], record=1)
        first = simulate(spec, mdp, half, [0, 4], record=1)
        second = simulate(spec, mdp, steps - half, [0, 4], record=1, resume=first.state)
        assert np.array_equal(whole.regret, np.hstack([first.regret, second.regret]))
        assert np.array_equal(whole.resamples, np.hstack([first.resamples, second.resamples]))
        for one, two in zip(whole.state, second.state, strict=True):
            assert equal(two, one)


@every
def test_equal_seeds_agree_and_different_ones_differ(name):
    spec = made(name)
    mdp, steps = problems(spec)[1]
    runs = simulate(spec, mdp, steps, [5, 6], trajectory=True)
    again = simulate(spec, mdp, steps, [6], trajectory=True)
    other = simulate(spec, mdp, steps, [6], seed=1, trajectory=True)
    assert equal(runs.trajectory[1], again.trajectory[0])
    assert not equal(runs.trajectory[0], runs.trajectory[1])
    assert not equal(runs.trajectory[1], other.trajectory[0])


@every
def test_act_answers_the_same_until_time_moves_on(name):
    mdp = river()
    agent = cpsrl.start(made(name), mdp, seed=2)
    world = mdp.simulator(seed=2)
    for _ in range(40):
        state = world.state
        action = agent.act(state)
        before = agent.state()
        assert agent.act(state) == action
        assert equal(agent.state(), before)
        reward, next_state = world.step(action)
        agent.observe(state, action, reward, next_state)


@every
def test_to_decide_and_to_learn_at_once_is_to_act_and_to_observe(name):
    mdp, spec = river(), made(name)
    agents, world = [cpsrl.start(spec, mdp, seed=2) for _ in range(2)], mdp.simulator(seed=2)
    for _ in range(80):
        state = world.state
        action = agents[0].act(state)
        assert agents[1].decide(state) == action
        reward, next_state = world.step(action)
        agents[0].observe(state, action, reward, next_state)
        agents[1].learn(state, action, reward, next_state)
    assert agents[0].act(world.state) == agents[1].act(world.state)
    assert equal(agents[0].state(), agents[1].state())


@every
def test_outcomes_that_come_late_are_learnt_from_in_their_order(name):
    """Whatever was decided in between, what is learnt is what has come."""
    spec, rng = made(name), np.random.default_rng(1)
    agent, waiting = cpsrl.start(spec, river(), seed=2), []
    for _ in range(60):
        state = int(rng.integers(6))
        waiting.append((state, agent.decide(state)))
        while waiting and rng.random() < 0.5:
            state, action = waiting.pop(int(rng.integers(len(waiting))))
            before = agent.streams.state()["rule"]
            agent.learn(state, action, 0.5, int(rng.integers(6)))
            assert agent.streams.state()["rule"] == before
    saved, new = agent.state(), cpsrl.start(spec, river(), seed=9)
    new.restore(saved)
    for state, action in waiting:
        assert new.decide(state) == agent.decide(state)
        for one in (new, agent):
            one.learn(state, action, 0.25, 0)
    assert equal(new.state(), agent.state())


@every
def test_wrong_input_raises_and_changes_nothing(name):
    agent = cpsrl.start(made(name), river())
    agent.observe(0, 1, 0.5, 1)
    before = agent.state()
    for state in (6, -1, 1.5, "left", None, True):
        with pytest.raises(
            ValueError, match=r"(state|observation) must be a whole number in 0\.\.5"
        ):
            agent.act(state)
    for transition in [(9, 0, 0.0, 0), (0, 2, 0.0, 0), (0, 0, np.nan, 0), (0, 0, np.inf, 0),
                       (0, 0, None, 0), (0, 0, 0.0, 6)]:  # fmt: skip
        with pytest.raises(ValueError, match="must be a"):
            agent.observe(*transition)
    assert equal(agent.state(), before)


@every
def test_a_live_agent_goes_on_from_its_state(name):
    mdp, spec = river(), made(name)
    agent, world = cpsrl.start(spec, mdp, seed=1), mdp.simulator(seed=1)

    def steps(agent, n):
        actions = []
        for _ in range(n):
            state = world.state
            actions.append(agent.act(state))
            reward, next_state = world.step(actions[-1])
            agent.observe(state, actions[-1], reward, next_state)
        return actions

    steps(agent, 100)
    agent.act(world.state)
    saved, place, noise = agent.state(), world.state, world.streams.state()
    expected = steps(agent, 100)
    new = cpsrl.start(spec, mdp, seed=99)
    new.restore(saved)
    world.state = place
    world.streams.restore(noise)
    assert steps(new, 100) == expected
    assert equal(new.state(), agent.state())


@every
def test_runs_where_only_the_sizes_are_known(name):
    if name == "optimal":
        with pytest.raises(ValueError, match="needs to know the MDP"):
            cpsrl.start(AGENTS.make(name), cpsrl.Sizes(6, 2))
        return
    seen, sizes = range(6), cpsrl.Sizes(6, 2)
    if AGENTS.make(name).packages:
        seen, sizes = river().features, cpsrl.mdp.problem.FeatureSizes(6, 2)
    agent = cpsrl.start(made(name), sizes)
    for t in range(20):
        action = agent.act(seen[t % 6])
        assert action in (0, 1)
        agent.observe(seen[t % 6], action, 0.5, seen[(t + 1) % 6])


@every
def test_no_unavailable_action_is_ever_taken(name):
    spec, mdp = made(name), masked()
    runs = simulate(spec, mdp, 300 if spec.packages else 10_000, [0], trajectory=True)
    states, actions = runs.trajectory[0]["states"], runs.trajectory[0]["actions"]
    assert mdp.available[states[:-1], actions].all()
    agent = cpsrl.start(spec, mdp)
    for t in range(60):
        for state in range(7):  # at one and the same step
            assert mdp.available[state, agent.act(state)]
        action = agent.act(t % 7)
        agent.observe(t % 7, action, 0.2, int(np.argmax(mdp.dense[t % 7, action])))


@every
def test_an_unavailable_action_cannot_be_observed(name):
    agent = cpsrl.start(made(name), masked())
    agent.act(0)
    before = agent.state()
    with pytest.raises(ValueError, match="action 2 is not available in state 0"):
        agent.observe(0, 2, 0.5, 1)
    assert equal(agent.state(), before)
