"""`simulate`: runs are what they should be, whoever runs beside them."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import cpsrl
from cpsrl.mdp import Simulator
from cpsrl.planning import discounted_value, solve_discounted
from cpsrl.seeding import Streams
from cpsrl.simulation import compiled
from cpsrl.simulation.loops import Recorder, Run

RIVER = cpsrl.environment("riverswim")


def _without(tree, key):
    return {k: v for k, v in tree.items() if k != key}


def same(a, b):
    return all(np.array_equal(a[key], b[key]) for key in ("states", "actions", "rewards"))


def test_a_run_is_the_same_alone_among_others_and_on_any_number_of_threads():
    together = cpsrl.simulate(cpsrl.ContinuingPSRL(), RIVER, 3000, 6, threads=2, trajectory=True)
    for run in (0, 5):
        alone = cpsrl.simulate(
            cpsrl.ContinuingPSRL(), RIVER, 3000, [run], threads=1, trajectory=True
        )
        assert same(alone.trajectory[0], together.trajectory[run])
        assert np.array_equal(alone.regret[0], together.regret[run])


def test_regret_is_gain_times_steps_minus_rewards():
    runs = cpsrl.simulate(cpsrl.TSDE(), RIVER, 500, 3, record=7, trajectory=True)
    assert runs.gain == pytest.approx([7203 / 16805] * 3, abs=1e-12)
    for row in range(3):
        rewards = np.cumsum(runs.trajectory[row]["rewards"])
        expected = runs.times * runs.gain[row] - rewards[runs.times - 1]
        np.testing.assert_allclose(runs.regret[row], expected, atol=1e-9)


def test_the_trajectory_is_one_of_the_mdp_and_is_consistent():
    runs = cpsrl.simulate(
        cpsrl.ContinuingPSRL(0.9), RIVER, 2000, 2, trajectory=True, resample_times=True, record=1
    )
    for row in range(2):
        path, times = runs.trajectory[row], runs.resample_times[row]
        states, actions = path["states"], path["actions"]
        assert len(states) == 2001
        assert states[0] == 0
        assert (RIVER.dense[states[:-1], actions, states[1:]] > 0).all()
        assert np.array_equal(path["rewards"], RIVER.rewards[states[:-1], actions])
        counted = np.searchsorted(times, runs.times, side="right")
        assert np.array_equal(runs.resamples[row], counted)


def test_two_agents_on_one_seed_meet_the_same_noise():
    mdp = cpsrl.TabularMDP(np.full((4, 2, 4), 0.25), np.zeros((4, 2)), noise=1.0)
    runs = [
        cpsrl.simulate(agent, mdp, 200, [3], trajectory=True).trajectory[0]
        for agent in (cpsrl.ContinuingPSRL(), cpsrl.TSDE(), cpsrl.RandomAgent())
    ]
    for other in runs[1:]:
        assert np.array_equal(runs[0]["states"], other["states"])
        assert np.array_equal(runs[0]["rewards"], other["rewards"])


def test_chunks_do_not_matter():
    found = []
    for chunk in (1 << 16, 37):
        streams = Streams(0, 0)
        agent = cpsrl.ContinuingPSRL(schedule="doubling").start(RIVER, streams)
        simulator = Simulator(RIVER, streams)
        recorder = Recorder(np.arange(50, 1001, 50), chunk, trajectory=True, resample_times=True)
        taken = []
        live = Run(agent, simulator)
        live.recorder = recorder
        compiled.advance(live, 1000, taken.append, np.zeros(1, np.int64))
        assert sum(taken) == live.step == 1000
        found.append((recorder, live.reward_sum, simulator.state, streams.state()))
    assert found[0][1:] == found[1][1:]
    assert same(found[0][0].trajectory(0), found[1][0].trajectory(0))
    assert np.array_equal(found[0][0].resample_times, found[1][0].resample_times)
    assert np.array_equal(found[0][0].tape.reward_sums, found[1][0].tape.reward_sums)


def test_a_horizon_is_kept_when_a_run_goes_on():
    tuned = cpsrl.ContinuingPSRL(schedule="horizon")
    first = cpsrl.simulate(tuned, RIVER, 400, 2, record=1)
    assert first.agents == ("Continuing PSRL, horizon T=400",)
    second = cpsrl.simulate(tuned, RIVER, 600, 2, record=1, resume=first.state)
    assert second.agents == first.agents
    fixed = cpsrl.ContinuingPSRL(schedule="horizon", horizon=400)
    whole = cpsrl.simulate(fixed, RIVER, 1000, 2, record=1)
    assert np.array_equal(whole.regret, np.hstack([first.regret, second.regret]))


def test_a_function_of_the_step_runs():
    runs = cpsrl.simulate(
        cpsrl.ContinuingPSRL(schedule=lambda t: 1 - 1 / np.sqrt(t)), RIVER, 2000, 2
    )
    assert (runs.resamples[:, -1] < 300).all()


def test_discounted_regret():
    spec = cpsrl.ContinuingPSRL(0.9)
    runs = cpsrl.simulate(
        spec, RIVER, 400, 2, record=1, discounted_regret=True, resample_times=True, trajectory=True
    )
    best = solve_discounted(RIVER, 0.9).value
    for row in range(2):
        agent, path = cpsrl.start(spec, RIVER, run=row), runs.trajectory[row]
        expected, total = [], 0.0
        for t in range(400):
            state, before = path["states"][t], agent.resamples
            action = agent.act(int(state))
            if agent.resamples > before:
                total += best[state] - discounted_value(RIVER, agent.policy, 0.9)[state]
            expected.append(total)
            agent.observe(int(state), action, path["rewards"][t], int(path["states"][t + 1]))
        np.testing.assert_allclose(runs.discounted_regret[row], expected, atol=1e-9)
    plain = cpsrl.simulate(spec, RIVER, 400, 2, record=1)
    assert np.array_equal(plain.regret, runs.regret)


def test_discounted_regret_goes_on_and_is_refused_where_it_has_no_meaning():
    spec = cpsrl.ContinuingPSRL(schedule="doubling")
    whole = cpsrl.simulate(spec, RIVER, 300, 2, record=1, discounted_regret=True)
    first = cpsrl.simulate(spec, RIVER, 100, 2, record=1, discounted_regret=True)
    second = cpsrl.simulate(
        spec, RIVER, 200, 2, record=1, discounted_regret=True, resume=first.state
    )
    joined = np.hstack([first.discounted_regret, second.discounted_regret])
    assert np.array_equal(whole.discounted_regret, joined)
    with pytest.raises(ValueError, match="plans discounted"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 10, 1, discounted_regret=True)
    plain = cpsrl.simulate(spec, RIVER, 100, 2)
    with pytest.raises(ValueError, match="cannot begin in the middle"):
        cpsrl.simulate(spec, RIVER, 10, 2, discounted_regret=True, resume=plain.state)


def test_any_object_with_act_and_observe_runs(capsys):
    class Right:
        def act(self, state):
            return 1

        def observe(self, state, action, reward, next_state):
            pass

    cpsrl.simulate(Right(), RIVER, 20, 3)
    assert "compiled loop" not in capsys.readouterr().err
    runs = cpsrl.simulate(Right(), RIVER, 500, 3)
    optimal = cpsrl.simulate(cpsrl.agents.OptimalAgent(), RIVER, 500, 3)
    assert runs.agents == ("Right",)
    assert np.array_equal(runs.regret, optimal.regret)
    assert runs.state is None
    said = capsys.readouterr().err
    assert "Right has no compiled loop" in said
    assert "Optimal" not in said


def test_progress_adds_up():
    taken = []
    cpsrl.simulate(cpsrl.DSPSRL(), RIVER, 70_000, 3, progress=taken.append)
    assert sum(taken) == 210_000


def test_an_error_in_progress_ends_the_simulation():
    def refuse(steps):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        cpsrl.simulate(cpsrl.agents.EveryStepPSRL(), RIVER, 10**9, 3, progress=refuse)


def test_an_error_in_an_agent_comes_out():
    class Wrong:
        def act(self, state):
            return 7

        def observe(self, *transition):
            pass

    with pytest.raises(ValueError, match="7"):
        cpsrl.simulate(Wrong(), RIVER, 10, 2)


@pytest.mark.parametrize(
    "agent", ["ContinuingPSRL()", "RandomAgent()", "agents.DifferentialQLearning()"]
)
def test_an_interrupt_ends_the_simulation(agent):
    code = f"""if True:
        import cpsrl
        print("go", flush=True)
        try:
            cpsrl.simulate(cpsrl.{agent}, cpsrl.environment("riverswim"), 10**12, 3,
                           record=[10**12], progress=lambda n: print("on", flush=True))
        except KeyboardInterrupt:
            print("stopped", flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said.endswith("stopped\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1"),
        ({"seeds": [1, 1]}, "different run numbers"),
        ({"seeds": [-1]}, "at least 0"),
        ({"threads": 0}, "threads must be"),
        ({"record": "logarithmic"}, "did you mean 'log'"),
        ({"record": [0, 5]}, "count from 1"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, **{"steps": 10, "seeds": 1, **options})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("step", 50, "agent and run are not at the same step"),
        ("step", 1.5, "the step of the state must be a whole number"),
        ("environment_state", 2.7, "the environment's state must be"),
        ("reward_sum", np.nan, "reward sum of the state must be a finite number"),
        ("gain", 0.1, "another environment: its optimal gain is 0.1"),
        ("run", 3, "that of run 3 of seed 0, not of run 0 of seed 0"),
        ("seed", 3, "that of run 0 of seed 3, not of run 0 of seed 0"),
        ("agent", None, "the agent's must be a dictionary"),
        ("streams", {}, "streams are transition"),
        ("horizon", 0, "horizon of the state must be a whole number"),
    ],
)
def test_a_damaged_state_is_refused(name, value, message):
    state = cpsrl.simulate(cpsrl.ContinuingPSRL(), RIVER, 100, 1).state[0]
    with pytest.raises(ValueError, match=message):
        cpsrl.simulate(
            cpsrl.ContinuingPSRL(), RIVER, 100, 1, seed=0, resume=[{**state, name: value}]
        )


def test_streams_are_kept_once_with_the_agent_or_with_the_run():
    class Right:
        def act(self, state):
            return 1

        def observe(self, *transition):
            pass

        def state(self):
            return {}

        def restore(self, state):
            assert state == {}

    whole = cpsrl.simulate(Right(), RIVER, 200, 1, record=1)
    first = cpsrl.simulate(Right(), RIVER, 80, 1, record=1)
    second = cpsrl.simulate(Right(), RIVER, 120, 1, record=1, resume=first.state)
    assert np.array_equal(whole.regret, np.hstack([first.regret, second.regret]))
    with pytest.raises(ValueError, match="streams are transition"):
        cpsrl.simulate(Right(), RIVER, 5, 1, resume=[{**first.state[0], "streams": None}])
    state = cpsrl.simulate(cpsrl.TSDE(), RIVER, 100, 1).state[0]
    assert state["streams"] is None
    with pytest.raises(ValueError, match="lacks streams"):
        cpsrl.simulate(
            cpsrl.TSDE(),
            RIVER,
            5,
            1,
            resume=[{**state, "agent": _without(state["agent"], "streams")}],
        )


def test_what_is_not_an_agent_or_not_an_mdp_is_refused():
    with pytest.raises(ValueError, match="is live and belongs to one run"):
        cpsrl.simulate(cpsrl.start(cpsrl.TSDE(), RIVER), RIVER, 10, 1)
    with pytest.raises(ValueError, match="an agent is one of"):
        cpsrl.simulate(cpsrl.UCRL2, RIVER, 10, 1)
    with pytest.raises(ValueError, match="mdp must be a TabularMDP"):
        cpsrl.simulate(cpsrl.TSDE(), "riverswim", 10, 1)
    with pytest.raises(ValueError, match=r"the agent comes first: simulate\(agent, mdp\)"):
        cpsrl.simulate(RIVER, cpsrl.TSDE(), 10, 1)
    with pytest.raises(ValueError, match="run must be at most 4294967295, not 9223372036854775808"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 10, [2**63])


def test_an_attribute_called_state_is_not_taken_for_a_method():
    class Still:
        state = 3

        def act(self, state):
            return 0

        def observe(self, *transition):
            self.state = transition

    assert cpsrl.simulate(Still(), RIVER, 10, 1).state is None


def test_errors_of_start():
    longer = cpsrl.environment("riverswim", n_states=7)
    runs = cpsrl.simulate(cpsrl.TSDE(), RIVER, 10, 2)
    with pytest.raises(ValueError, match=r"resume has 2 states for 3 seeds: .* agent by agent"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 10, 3, resume=runs.state)
    both = [cpsrl.TSDE(), cpsrl.DSPSRL()]
    for states, message in (
        (cpsrl.simulate(both, RIVER, 10, 4).state, "8 states for 3 seeds of 2 agents: .* by agent"),
        (None, "resume is None"),
    ):
        with pytest.raises(ValueError, match=message):
            cpsrl.simulate(both, RIVER, 10, 3, resume=states)
    with pytest.raises(ValueError, match="another environment"):
        cpsrl.simulate(cpsrl.TSDE(), longer, 10, 2, resume=runs.state)
    with pytest.raises(ValueError, match=r"its rule.kind is 'TSDEStops', not 'DoublingTimes'"):
        cpsrl.simulate(cpsrl.DSPSRL(), RIVER, 10, 2, resume=runs.state)
    old = tuple({**state, "format": 0} for state in runs.state)
    with pytest.raises(ValueError, match="format 0"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 10, 2, resume=old)
    with pytest.raises(ValueError, match="lacks streams"):
        cpsrl.simulate(
            cpsrl.TSDE(), RIVER, 10, 2, resume=[_without(s, "streams") for s in runs.state]
        )
    later = cpsrl.simulate(cpsrl.TSDE(), RIVER, 5, [1], resume=runs.state[1:])
    with pytest.raises(ValueError, match="different steps"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 5, 2, resume=(runs.state[0], later.state[0]))
    with pytest.raises(ValueError, match="an agent is one of"):
        cpsrl.simulate("tsde", RIVER, 5, 2)
