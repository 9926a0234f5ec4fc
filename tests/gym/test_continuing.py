"""Episodes one after the other: `Continuing`, and exact tables of the same."""

import gymnasium
import numpy as np
import pytest
import scipy.optimize
from gymnasium.wrappers import TimeLimit, TransformReward

import cpsrl
from cpsrl.gym import Continuing, tabular

CASES = {
    "FrozenLake-v1": {},
    "FrozenLake-v1 8x8": {"map_name": "8x8"},
    "CliffWalking-v1": {},
    "Taxi-v4": {},
}
SAME_STEP = {
    "FrozenLake-v1": 0.017973856209,
    "FrozenLake-v1 8x8": 0.010614143812,
    "CliffWalking-v1": -1.0,
    "Taxi-v4": 0.606732976282,
}


def made(case):
    return gymnasium.make(case.split()[0], **CASES[case])


def by_linear_program(mdp):
    """The optimal gain: the least g with g + h(s) >= r(s, a) + sum p h for all s and a."""
    n, m = mdp.n_states, mdp.n_actions
    own = scipy.sparse.kron(scipy.sparse.eye(n), np.ones((m, 1)))
    upper = scipy.sparse.hstack([-np.ones((n * m, 1)), mdp.csr - own])
    cost = np.zeros(n + 1)
    cost[0] = 1.0
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    done = scipy.optimize.linprog(
        cost, upper, -mdp.rewards.ravel(), bounds=(None, None), method="highs-ds", options=tight
    )
    assert done.success
    return done.fun


@pytest.mark.parametrize("reset", ["same-step", "next-step"])
@pytest.mark.parametrize("case", CASES)
def test_gains_agree_with_a_linear_program(case, reset):
    mdp = tabular(made(case), reset=reset)
    gain = cpsrl.solve_average(mdp).gain
    assert np.ptp(gain) < 1e-12
    assert gain[0] == pytest.approx(by_linear_program(mdp), abs=1e-9)
    if reset == "same-step":
        assert gain[0] == pytest.approx(SAME_STEP[case], abs=1e-12)


def played_gain(env, policy, steps):
    """The mean reward of `steps` steps of the environment itself, and its standard error."""
    state, _ = env.reset(seed=1)
    rewards = np.empty(steps)
    for t in range(steps):
        state, rewards[t], *_ = env.step(int(policy[state]))
    batches = rewards[: steps - steps % 50].reshape(50, -1).mean(axis=1)
    return rewards.mean(), batches.std(ddof=1) / np.sqrt(50)


@pytest.mark.parametrize("steps", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reset", ["same-step", "next-step"])
@pytest.mark.parametrize("case", CASES)
def test_gains_agree_with_gymnasiums_own_environment(case, reset, steps):
    mdp = tabular(made(case), reset=reset, terminal_reward=0.5)
    best = cpsrl.solve_average(mdp)
    env = Continuing(made(case).unwrapped, reset=reset, terminal_reward=0.5)
    mean, error = played_gain(env, best.policy, steps)
    assert abs(mean - best.gain[0]) <= 4 * error + cpsrl.span(best.bias) / steps


@pytest.mark.parametrize("reset", ["same-step", "next-step"])
@pytest.mark.parametrize("case", CASES)
def test_the_table_round_trips(case, reset):
    """What P says of states where no episode is over is what the model's own P says."""
    env = made(case)
    mdp = tabular(env, reset=reset)
    theirs, ours = env.unwrapped.P, cpsrl.gym.TabularEnv(mdp).P
    first = env.unwrapped.initial_state_distrib
    over = {s for rows in theirs.values() for es in rows.values() for _, s, _, d in es if d}
    for s, rows in theirs.items():
        for a, entries in rows.items():
            expected, paid = {}, {}
            for p, successor, reward, ended in entries:
                ends = {successor: 1.0}
                if ended and reset == "same-step":
                    ends = {int(s0): first[s0] for s0 in np.flatnonzero(first)}
                for end, chance in ends.items():
                    expected[end] = expected.get(end, 0.0) + p * chance
                    paid[end] = paid.get(end, 0.0) + p * chance * reward
            if reset == "next-step" and s in over:
                expected = {int(s0): first[s0] for s0 in np.flatnonzero(first)}
                paid = dict.fromkeys(expected, 0.0)
            assert {successor: p for p, successor, *_ in ours[s][a]} == expected
            assert mdp.rewards[s, a] == pytest.approx(sum(paid.values()), abs=1e-12)
            for p, successor, reward, _ in ours[s][a]:
                assert reward == pytest.approx(paid[successor] / p, abs=1e-12)
    again = tabular(cpsrl.gym.TabularEnv(mdp))
    np.testing.assert_array_equal(again.dense, mdp.dense)
    np.testing.assert_array_equal(again.rewards, mdp.rewards)
    assert ours == cpsrl.gym.TabularEnv(again).P


class Counter(gymnasium.Env):
    """States 0, 1, 2; 2 is terminal. Pays the action."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {"begun": True}

    def step(self, action):
        assert self.state < 2, "stepped beyond the end"
        self.state += 1
        return self.state, float(action), self.state == 2, False, {}


def taken(env, n):
    env.reset(seed=0)
    steps = [env.step(1) for _ in range(n)]
    assert not any(terminated or truncated for _, _, terminated, truncated, _ in steps)
    return [(seen, reward, info["ended"]) for seen, reward, _, _, info in steps]


def test_same_step_returns_the_first_observation_of_the_next_episode():
    env = Continuing(Counter(), terminal_reward=-3)
    assert taken(env, 4) == [(1, 1.0, False), (0, -2.0, True)] * 2


def test_next_step_returns_the_last_observation_and_then_waits_a_step():
    env = Continuing(Counter(), reset="next-step", terminal_reward=-3)
    assert taken(env, 6) == [(1, 1.0, False), (2, -2.0, True), (0, 0.0, False)] * 2
    assert taken(env, 2)[-1] == (2, -2.0, True)
    assert taken(env, 1) == [(1, 1.0, False)], "a reset in between begins an episode"


def test_time_limits_are_removed_wherever_they_are():
    inside = TransformReward(TimeLimit(gymnasium.make("CartPole-v1"), 3), lambda r: r)
    assert inside.spec.max_episode_steps == 3
    env = Continuing(inside)
    assert env.spec.max_episode_steps is None
    assert "TimeLimit" not in str(env)
    lake = Continuing(gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=5))
    lake.reset(seed=0)
    ends = [lake.step(0)[-1]["ended"] for _ in range(500)]
    assert not any(ends)


def test_wrong_choices_are_refused():
    with pytest.raises(ValueError, match="did you mean 'next-step'"):
        Continuing(Counter(), reset="next_step")
    with pytest.raises(ValueError, match="terminal_reward"):
        Continuing(Counter(), terminal_reward="none")


def test_slippery_lakes_cliffs_and_rain_are_tables_too():
    lake = cpsrl.environment("gym:FrozenLake-v1", success_rate=0.8)
    np.testing.assert_allclose(lake.dense[0, 2, [0, 1, 4]], [0.1, 0.8, 0.1], atol=1e-15)
    dry = cpsrl.environment("gym:FrozenLake-v1", is_slippery=False)
    assert cpsrl.solve_average(dry).gain[0] == pytest.approx(1 / 6)
    waits = cpsrl.environment("gym:FrozenLake-v1", is_slippery=False, reset="next-step")
    assert cpsrl.solve_average(waits).gain[0] == pytest.approx(1 / 7)
    own = cpsrl.environment("gym:FrozenLake-v1", desc=["SFG"], is_slippery=False)
    assert cpsrl.solve_average(own).gain[0] == pytest.approx(1 / 2)
    cliff = tabular("CliffWalking-v1", is_slippery=True)
    # Right of the start is the cliff, below and left of it the wall: one state, two rewards.
    assert cliff.rewards[36, 2] == pytest.approx((-100 - 1 - 1) / 3)
    rain = tabular("Taxi-v4", is_rainy=True)
    assert cpsrl.solve_average(rain).gain[0] < SAME_STEP["Taxi-v4"]


@pytest.mark.parametrize(
    ("ours", "theirs"), [("taxi", "gym:Taxi-v4"), ("frozen-lake", "gym:FrozenLake-v1")]
)
def test_the_packages_own_models_of_them_agree(ours, theirs):
    gains = [cpsrl.solve_average(cpsrl.environment(name)).gain[0] for name in (ours, theirs)]
    assert gains[0] == pytest.approx(gains[1], abs=1e-12)


def test_what_is_no_table_is_refused_with_the_reason():
    for name, message in [
        ("gym:Blackjack-v1", "Blackjack-v1 has no table P"),
        ("gym:CartPole-v1", "has no table P"),
        ("gym:Tax-v4", "Did you mean: `Taxi`"),
        ("gym:os:Taxi-v4", "import os yourself"),
    ]:
        with pytest.raises(ValueError, match=message):
            cpsrl.environment(name)
    with pytest.raises(ValueError, match="did you mean 'map_name'"):
        cpsrl.environment("gym:FrozenLake-v1", map="8x8")
    with pytest.raises(ValueError, match="changes the destination"):
        cpsrl.environment("gym:Taxi-v4", fickle_passenger=True)
    with pytest.raises(ValueError, match="unknown reset"):
        cpsrl.environment("gym:Taxi-v4", reset="never")


class TwoWays(gymnasium.Env):
    """State 1 is the end of action 0 and the middle of action 1."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    initial_state_distrib = np.array([1.0, 0.0])

    def __init__(self, missing=False):
        self.P = {
            0: {0: [(1.0, 1, 0.0, True)], 1: [(1.0, 1, 0.0, False)]},
            1: {0: [(1.0, 0, 1.0, False)], 1: [(1.0, 0, 1.0, False)]},
        }
        if missing:
            del self.P[1]


def test_a_state_that_ends_one_way_and_not_another_needs_same_step():
    assert cpsrl.solve_average(tabular(TwoWays())).gain[0] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="state 1 ends an episode"):
        tabular(TwoWays(), reset="next-step")
    with pytest.raises(ValueError, match="those of state 1 are missing"):
        tabular(TwoWays(missing=True))


def test_an_experiment_and_the_command_know_them(tmp_path, capsys):
    from cpsrl.cli.main import main

    (tmp_path / "lake.toml").write_text(
        'name = "lake"\nsteps = 200\nseeds = 2\n'
        '[[environments]]\nname = "gym:FrozenLake-v1"\nmap_name = "8x8"\n'
        '[environments.grid]\nreset = ["same-step", "next-step"]\n[[agents]]\nname = "random"\n'
    )
    experiment = cpsrl.experiments.find_experiment(str(tmp_path / "lake.toml"))
    cpsrl.run_experiment(experiment, tmp_path / "results")
    runs = cpsrl.load(tmp_path / "results")
    np.testing.assert_allclose(np.unique(runs.gain), [0.010477337533, 0.010614143812], atol=1e-11)
    assert all("8x8" in name for name in runs.environments)
    main(["solve", "gym:FrozenLake-v1", "--map-name", "8x8"])
    assert "0.0106141438124" in capsys.readouterr().out


def test_the_table_of_an_endless_environment_is_asked_for_as_it_is_played():
    endless = Continuing(gymnasium.make("FrozenLake-v1"), "next-step", terminal_reward=-1.0)
    with pytest.raises(ValueError, match="give the same"):
        tabular(endless)
    with pytest.raises(ValueError, match="give the same"):
        tabular(TransformReward(endless, float), "next-step")
    assert tabular(endless, "next-step", -1.0).n_states == 16
