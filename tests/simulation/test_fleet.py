"""Fleets in simulation: one kernel for all agents, the readable loop, and what regret is."""

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal, masked
from cpsrl import Entry, Experiment, simulate
from cpsrl.agents import Fleet
from cpsrl.beliefs import Forgetting
from cpsrl.experiments import continue_experiment
from cpsrl.simulation import Runs
from cpsrl.simulation.fleet import FleetSimulator
from cpsrl.simulation.loops import LOOPS

RIVER = cpsrl.environment("riverswim")
COIN = cpsrl.Bernoulli(0.95)
FADING = Forgetting(half_life=50.0)


def noisy():
    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2))
    return cpsrl.TabularMDP(P, r, noise="bernoulli", initial=np.full(4, 0.25), name="noisy")


def step(simulator, j, action):
    """Take `action` in copy j and return the realised reward and the next state."""
    copy = simulator.each[j]
    copy.state = int(simulator.states[j])
    reward, simulator.states[j] = copy.step(action)
    simulator.paid[j] += reward
    return reward, copy.state


def advance(run, steps, progress, stop):
    """The loop of a fleet, agent by agent, in plain Python."""
    lead, simulator, tape, mark = run.agent, run.simulator, run.recorder.tape, 0
    shared = lead.spec.draws == "shared"
    agents = [lead, *lead.members.values()]
    for t in range(run.step + 1, run.step + 1 + steps):
        for j, own in enumerate(agents):
            agent, state = lead if shared else own, int(simulator.states[j])
            action = agent.act(state)
            reward, next_state = step(simulator, j, action)
            last = not shared or own is agents[-1]
            (agent.observe if last else agent.learn)(state, action, reward, next_state)
        run.step, run.reward_sum = t, float(simulator.paid.sum() / len(agents))
        if mark < len(tape.marks) and tape.marks[mark] == t:
            tape.reward_sums[mark], tape.each[mark] = run.reward_sum, simulator.paid
            tape.resamples[mark] = lead.resamples if shared else sum(a.resamples for a in agents)
            mark += 1
        progress(1)


def same(one, other):
    """Whether two runs of fleets are the same, bit for bit, streams and all."""
    for name in ("regret", "resamples", "by_agent"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for mine, theirs in zip(one.state, other.state, strict=True):
        assert equal(mine, theirs)


CASES = {
    "own": (Fleet(3, rule=COIN), RIVER),
    "shared": (Fleet(3, "shared", rule=COIN), RIVER),
    "a schedule": (Fleet(3, rule=cpsrl.Bernoulli(schedule="doubling")), RIVER),
    "noisy": (Fleet(3, rule=COIN), noisy()),
    "masked": (Fleet(2, rule=COIN), masked()),
    "paused": (Fleet(3, rule=COIN, belief=FADING), noisy()),
    "paused, shared": (Fleet(3, "shared", rule=COIN, belief=FADING), RIVER),
    "changing": (Fleet(2, rule=COIN), cpsrl.environment("changing", every=70)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_readable_and_the_compiled_loop_give_the_same_runs(case, monkeypatch):
    fleet, mdp = CASES[case]
    compiled = simulate(fleet, mdp, 300, [0, 4], record=7)
    monkeypatch.setitem(LOOPS, FleetSimulator, advance)
    same(simulate(fleet, mdp, 300, [0, 4], record=7), compiled)


@pytest.mark.parametrize("case", ["shared", "noisy", "paused", "changing"])
def test_runs_in_parts_are_the_runs_in_one(case):
    fleet, mdp = CASES[case]
    whole = simulate(fleet, mdp, 300, [0, 4], record=1)
    parts, state = [], ()
    for steps in (113, 1, 186):
        parts.append(simulate(fleet, mdp, steps, [0, 4], record=1, resume=state))
        state = parts[-1].state
    by_agent = np.concatenate([part.by_agent for part in parts], axis=2)
    np.testing.assert_array_equal(by_agent, whole.by_agent)
    for mine, theirs in zip(state, whole.state, strict=True):
        assert equal(mine, theirs)


def test_a_fleet_whose_agents_have_different_optima_goes_on():
    apart = cpsrl.TabularMDP(np.eye(2)[:, None], [[0.0], [1.0]], initial=[0.5, 0.5])
    fleet = Fleet(2, rule=COIN)
    whole, first = (simulate(fleet, apart, steps, 8) for steps in (20, 12))
    assert 0.5 in whole.gain
    later = simulate(fleet, apart, 8, resume=first.state)
    np.testing.assert_array_equal(later.regret[:, -1], whole.regret[:, -1])
    other = cpsrl.TabularMDP(np.eye(2)[:, None], [[0.0], [0.9]], initial=[0.5, 0.5])
    with pytest.raises(ValueError, match="a run in another environment"):
        simulate(fleet, other, 8, resume=first.state)


def test_fleets_of_different_sizes_are_joined_without_their_agents():
    two, three = (simulate(Fleet(n, rule=COIN), RIVER, 20, 2) for n in (2, 3))
    joined = Runs.join([two, three])
    assert joined.by_agent is None
    np.testing.assert_array_equal(joined.regret, np.concatenate([two.regret, three.regret]))
    more = simulate(Fleet(2, rule=COIN), RIVER, 20, [2, 3])
    assert (two + more).by_agent.shape == (4, 2, len(two.times))


@pytest.mark.parametrize("mdp", [RIVER, noisy()], ids=repr)
def test_a_fleet_of_one_is_the_agent(mdp):
    one = simulate(cpsrl.PSRL(COIN), mdp, 400, 2, trajectory=True)
    fleet = simulate(Fleet(rule=COIN), mdp, 400, 2, trajectory=True)
    np.testing.assert_array_equal(one.regret, fleet.regret)
    assert all(map(equal, one.trajectory, fleet.trajectory))


def test_an_agent_that_nobody_helps_is_an_agent_alone():
    """Before anybody has learnt: the first action of agent 0, and the noise that it meets."""
    alone = simulate(cpsrl.PSRL(COIN), noisy(), 1, 6, seed=3)
    fleet = simulate(Fleet(4, rule=COIN), noisy(), 1, 6, seed=3)
    np.testing.assert_array_equal(fleet.by_agent[:, 0], alone.regret)


@pytest.mark.parametrize("draws", ["own", "shared"])
def test_regret_is_that_of_each_agent_and_their_mean(draws):
    fleet = Fleet(5, draws, rule=COIN)
    runs = simulate(fleet, RIVER, 200, 3, record=10)
    assert runs.by_agent.shape == (3, 5, 20)
    np.testing.assert_allclose(runs.by_agent.mean(axis=1), runs.regret, atol=1e-9)
    gain = cpsrl.solve_average(RIVER).gain[0]
    for row, state in zip(runs.by_agent, runs.state, strict=True):
        paid = state["environment_state"]["paid"]
        np.testing.assert_allclose(row[:, -1], gain * 200 - paid, atol=1e-9)
        # the belief has all that was paid, each pair's number times its mean
        belief = state["agent"]["belief"]
        assert belief["seen"].sum() == 1000
        assert belief["seen"] @ belief["reward_mean"] == pytest.approx(paid.sum())
    coins = 5 if draws == "own" else 1
    assert 3 * coins <= runs.resamples[0, -1] <= 25 * coins


def test_agents_meet_the_same_noise_in_fleets_of_any_size():
    mdp = cpsrl.TabularMDP(np.full((3, 1, 3), 1 / 3), [[0.0], [0.5], [1.0]])
    small, large = (simulate(Fleet(n, rule=COIN), mdp, 50, 2) for n in (2, 6))
    np.testing.assert_array_equal(small.by_agent, large.by_agent[:, :2])
    paths = {tuple(row) for row in large.by_agent[0].round(9).tolist()}
    assert len(paths) == 6


def test_many_learn_faster_than_one_and_faster_by_draws_of_their_own():
    one, own, shared = (
        simulate(Fleet(n, draws, rule=cpsrl.Bernoulli(0.99)), RIVER, 3000, 12).regret[:, -1].mean()
        for n, draws in ((1, "own"), (16, "own"), (16, "shared"))
    )
    assert own < 0.4 * one
    assert own < 0.6 * shared


def test_in_an_experiment_that_is_carried_on(tmp_path):
    agents = (Entry("fleet", {"draws": "shared"}, grid={"n": [1, 3]}, label="{n}"),)
    short, long = (Experiment("fleets", ("riverswim",), agents, n, 2) for n in (60, 150))
    cpsrl.run_experiment(short, tmp_path / "short")
    continue_experiment(tmp_path / "short", 90)
    cpsrl.run_experiment(long, tmp_path / "long")
    carried, whole = (cpsrl.load(tmp_path / name) for name in ("short", "long"))
    np.testing.assert_array_equal(carried.regret[:, -1], whole.regret[:, -1])
    assert carried.agents == ("1", "3")


def test_errors():
    fleet = Fleet(2, rule=COIN)
    for wanted in ("trajectory", "resample_times"):
        with pytest.raises(ValueError, match="are those of one agent, not of a fleet"):
            simulate(fleet, RIVER, 10, 1, **{wanted: True})
    with pytest.raises(ValueError, match="the discounted regret is that of an agent"):
        simulate(fleet, RIVER, 10, 1, discounted_regret=True)
    state = simulate(fleet, RIVER, 10, 1).state[0]
    for stored, message in (
        (0, "that of a run of one agent"),
        (state["environment_state"] | {"states": np.array([0, 6])}, "impossible numbers"),
        (state["environment_state"] | {"paid": np.zeros(3)}, "does not fit: paid"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate(fleet, RIVER, 10, 1, resume=[state | {"environment_state": stored}])
    with pytest.raises(ValueError, match="its n is 2, not 3"):
        simulate(Fleet(3, rule=COIN), RIVER, 10, 1, resume=[state])
