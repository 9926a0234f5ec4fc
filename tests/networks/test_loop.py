"""The compiled loop of networks: the live agent's actions, bit for bit the same run after run."""

from dataclasses import replace

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.agents import ContinuingPSRL
from cpsrl.mdp import Simulator, TabularMDP
from cpsrl.networks import (
    DQN,
    BootstrappedDQN,
    EnvironmentSimulator,
    Heads,
    Hypermodel,
    Members,
    ValueSampling,
    workers,
)
from cpsrl.networks.run import CALL_STEPS, advance
from cpsrl.objectives import Average, Discounted
from cpsrl.resampling import Bernoulli
from cpsrl.seeding import Streams
from cpsrl.simulation import readable, simulate
from cpsrl.simulation.loops import Recorder, Run

jax = pytest.importorskip("jax")
from networks.parts import LinearIndex, Walk  # noqa: E402

SMALL = {"members": 3, "hidden": (8,), "batch": 4, "capacity": 60, "target_every": 7}
MASKED = {**SMALL, "members": 40, "mask": 0.5, "epsilon": 0.1}
RIVER = cpsrl.environment("riverswim", features="thermometer")


def noisy(noise):
    return TabularMDP(RIVER.transitions, RIVER.rewards, noise=noise, features=RIVER.features)


def same(first, second):
    """Whether two runs are equal to the last bit, in curve and in state."""
    return np.array_equal(first.regret, second.regret) and equal(first.state[0], second.state[0])


def begun(spec, problem, run=0):
    """A run that has taken no step."""
    streams = Streams(0, run)
    kind = Simulator if isinstance(problem, TabularMDP) else EnvironmentSimulator
    return Run(spec.start(problem, streams), kind(problem, streams))


def went_on(run, loop, steps, trajectory=False):
    """Take steps in a loop and return what was recorded of each."""
    marks = np.arange(run.step + 1, run.step + steps + 1)
    recorder = Recorder(marks, resample_times=True, trajectory=trajectory)
    run.recorder = recorder
    loop(run, steps, lambda n: None, np.zeros(1, np.int64))
    return recorder


@pytest.mark.parametrize(
    ("spec", "mdp"),
    [
        (BootstrappedDQN(), RIVER),
        (BootstrappedDQN(**MASKED), noisy("bernoulli")),
        (BootstrappedDQN(**{**SMALL, "batch": 2}), noisy(0.3)),
        (BootstrappedDQN(**SMALL, rule=Bernoulli(schedule="doubling", pairs=12)), RIVER),
        (BootstrappedDQN(**SMALL, rule=Bernoulli(0.9), objective=Discounted(0.5)), RIVER),
        (ValueSampling(belief=LinearIndex(), batch=4, target_every=7), RIVER),
        (BootstrappedDQN(**SMALL, objective=Average()), noisy("bernoulli")),
        (BootstrappedDQN(**{**SMALL, "batch": 2}, objective=Average()), noisy(0.3)),
    ],
    ids=[
        "default",
        "masks",
        "large table",
        "schedule",
        "gamma apart",
        "vector index",
        "average",
        "average, large table",
    ],
)
def test_the_live_agent_does_the_same_step_by_step(spec, mdp):
    steps = 100
    runs = simulate(spec, mdp, steps, seeds=[3], record=1, trajectory=True, resample_times=True)
    live = begun(spec, mdp, run=3)
    recorder = went_on(live, readable.advance, steps, trajectory=True)
    path = recorder.trajectory(live.simulator.state)
    for name, values in runs.trajectory[0].items():
        np.testing.assert_array_equal(values, path[name])
    np.testing.assert_array_equal(runs.resample_times[0], recorder.resample_times)
    np.testing.assert_array_equal(runs.resamples[0], recorder.tape.resamples)
    gain = runs.gain[0] * runs.times
    np.testing.assert_array_equal(runs.regret[0], gain - recorder.tape.reward_sums)
    state = runs.state[0]
    assert equal(live.agent.state(), state["agent"], rounding=True)


@pytest.mark.parametrize(
    ("belief", "objective"),
    [
        (Members(4, 3.0, 0.5, (8,)), Discounted(0.8)),
        (Members(4, 3.0, 0.5, (8,)), Average()),
        (LinearIndex(), Discounted(0.8)),
        (Heads(4, 3.0, 0.5, (8,)), Average()),
        (Hypermodel(dimension=2, functions=3, noise=0.1, hidden=(8,)), Average()),
    ],
    ids=lambda part: part.label,
)
class TestAWorldThatIsNotATable:
    def spec(self, belief, objective):
        return ValueSampling(
            Bernoulli(0.9),
            objective,
            belief,
            epsilon=0.1,
            batch=4,
            target_every=7,
            capacity=60,
        )

    def test_the_live_agent_does_the_same_step_by_step(self, belief, objective):
        live, compiled = (begun(self.spec(belief, objective), Walk(0.3)) for _ in range(2))
        by_step, by_call = (
            went_on(run, loop, 90).tape
            for run, loop in ((live, readable.advance), (compiled, advance))
        )
        np.testing.assert_array_equal(by_step.resamples, by_call.resamples)
        np.testing.assert_allclose(by_step.reward_sums, by_call.reward_sums, rtol=1e-5)
        assert equal(live.agent.state(), compiled.agent.state(), rounding=True)
        actions = (run.agent.replay["action"] for run in (live, compiled))
        np.testing.assert_array_equal(*actions)
        assert compiled.simulator.state["steps"] == 90
        np.testing.assert_allclose(
            live.simulator.state["place"], compiled.simulator.state["place"], rtol=1e-5
        )

    def test_a_run_that_stops_and_goes_on_is_the_same_run(self, belief, objective):
        whole, part = (begun(self.spec(belief, objective), Walk()) for _ in range(2))
        curve = went_on(whole, advance, 90).tape.reward_sums
        curves = [went_on(part, advance, 31).tape.reward_sums]
        again = begun(self.spec(belief, objective), Walk(), run=8)
        again.agent.restore(part.agent.state())
        again.simulator.state = part.simulator.state
        again.step, again.reward_sum = part.step, part.reward_sum
        curves.append(went_on(again, advance, 59).tape.reward_sums)
        np.testing.assert_array_equal(np.concatenate(curves), curve)
        assert equal(again.agent.state(), whole.agent.state())
        for name, value in whole.simulator.state.items():
            assert again.simulator.state[name] == value


def test_adding_a_number_to_all_rewards_changes_no_bit_of_a_centred_run():
    spec, runs = BootstrappedDQN(**SMALL, objective=Average(), prior_scale=0.5), []
    for by in (0, 8, -8):
        mdp = TabularMDP(
            RIVER.transitions, RIVER.rewards + by, features=RIVER.features, reward_range=(-10, 10)
        )
        runs.append(simulate(spec, mdp, 150, seeds=[2], trajectory=True))
        assert runs[-1].state[0]["agent"]["origin"] == runs[0].state[0]["agent"]["origin"] + by
    learners = [run.state[0]["agent"]["learner"] for run in runs]
    for learner, run in zip(learners[1:], runs[1:], strict=True):
        assert equal(learner, learners[0])
        assert equal(run.trajectory[0]["actions"], runs[0].trajectory[0]["actions"])


@pytest.fixture(scope="module")
def one_run():
    return simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=[2], record=10)


def test_a_run_is_the_same_alone_and_among_others_on_any_threads(one_run):
    among = simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=4, record=10, threads=2)
    picked = among._rows([2])
    assert same(picked, one_run)
    assert len({tuple(row) for row in among.regret}) == 4


def test_a_run_is_the_same_in_another_process(one_run):
    workers._close_all()
    assert same(simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=[2], record=10), one_run)


def test_another_root_seed_gives_another_run(one_run):
    other = simulate(BootstrappedDQN(**MASKED), RIVER, 230, seeds=[2], record=10, seed=1)
    assert not np.array_equal(other.regret, one_run.regret)


@pytest.mark.parametrize("rows", [16, 1000])
def test_a_run_that_stops_and_goes_on_is_the_same_run(one_run, rows, monkeypatch):
    monkeypatch.setattr("cpsrl.networks.run.PART_ROWS", rows)
    spec, before = BootstrappedDQN(**MASKED), ()
    curves = []
    for steps in (1, 68, 100, 61):
        part = simulate(spec, RIVER, steps, seeds=[2], record=10, resume=before)
        before = part.state
        curves.append(part.regret[:, part.times % 10 == 0])
    assert same(replace(part, regret=np.concatenate(curves, axis=1)), one_run)


def test_a_run_longer_than_a_call_is_the_same_however_it_is_divided():
    spec = DQN(hidden=(8,), batch=4, capacity=700)
    whole = simulate(spec, RIVER, CALL_STEPS + 500, seeds=1, record=100)
    half = simulate(spec, RIVER, 730, seeds=1, record=100)
    rest = simulate(spec, RIVER, CALL_STEPS - 230, seeds=1, record=100, resume=half.state)
    assert equal(whole.state[0], rest.state[0])
    assert whole.regret[0, -1] == rest.regret[0, -1]


def test_the_target_is_copied_when_it_should_be_however_far_off_that_is():
    def runs(target_every, *parts):
        spec, state = DQN(hidden=(8,), batch=4, target_every=target_every), ()
        for steps in parts:
            state = simulate(spec, RIVER, steps, seeds=1, resume=state).state
        return state[0]["agent"]["learner"]

    far, near, divided = runs(10**10, 1300), runs(1300, 1300), runs(1300, 900, 400)
    assert equal(near, divided)
    assert equal(near["target"], near["online"])
    assert equal(near["online"], far["online"])
    assert not equal(far["target"], far["online"])
    assert equal(runs(1300, 1301)["target"], near["target"])


def test_a_compiled_run_goes_on_live():
    spec = BootstrappedDQN(**SMALL)
    runs = simulate(spec, RIVER, 40, seeds=1)
    more = simulate(spec, RIVER, 30, seeds=1, resume=runs.state, trajectory=True)
    state = runs.state[0]
    live = begun(spec, RIVER, run=9)
    live.agent.restore(state["agent"])
    live.simulator.state, live.step = state["environment_state"], 40
    path = went_on(live, readable.advance, 30, trajectory=True).trajectory(live.simulator.state)
    np.testing.assert_array_equal(path["actions"], more.trajectory[0]["actions"])


def test_tables_and_networks_meet_the_same_noise():
    steps = 60
    asked = {"steps": steps, "seeds": [5], "resample_times": True}
    network_run = simulate(BootstrappedDQN(**SMALL), noisy(0.3), **asked)
    table_run = simulate(ContinuingPSRL(), noisy(0.3), **asked)
    assert np.array_equal(network_run.resample_times, table_run.resample_times)
    network, table = (run.state[0]["agent"]["streams"] for run in (network_run, table_run))
    for stream in ("transition", "reward"):
        assert network[stream] == table[stream]


def test_the_loop_updates_the_replay_in_place():
    from cpsrl.networks.loop import Carried, Stretch, World, take_steps
    from cpsrl.networks.table import Table

    run = begun(BootstrappedDQN(**SMALL), RIVER)
    replay = np.zeros((1_000_000, 4), np.int32)
    carried = Carried(run.agent.learner, replay, np.int32(0))
    table, how = Table(RIVER), run.agent.how
    world, stretch = World(table.pure(), np.float32([0, 1])), Stretch(10, 0, 0, 7)
    draws, noise = run.agent.draw_steps(10), table.draw(Streams(), 10)
    steps = (carried, draws, noise, world, stretch)
    lowered = take_steps.lower(*steps, how=how, whole_table=True)
    used = lowered.compile().memory_analysis()
    assert used.alias_size_in_bytes >= replay.nbytes
    assert used.temp_size_in_bytes < replay.nbytes / 10


def test_a_table_without_features_is_refused():
    with pytest.raises(ValueError, match="has no features"):
        simulate(BootstrappedDQN(), cpsrl.environment("riverswim"), 10, seeds=1)


def test_the_discounted_regret_of_networks_is_refused():
    with pytest.raises(ValueError, match="discounted regret"):
        simulate(BootstrappedDQN(**SMALL), RIVER, 10, seeds=1, discounted_regret=True)
