"""Environments for networks: the same games as the tables, and the laws of a pendulum."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.environments.catch import WINDS, _catch, gain_bounds
from cpsrl.environments.pendulum import Pendulum
from cpsrl.environments.pure import EXACT, UPPER, EnvironmentSimulator, Reference
from cpsrl.mdp import Simulator
from cpsrl.networks import BootstrappedDQN
from cpsrl.planning import solve_average
from cpsrl.seeding import Streams
from cpsrl.simulation import simulate

jax = pytest.importorskip("jax")


def catch_picture(world, state):
    """The state's name in the table."""
    wind, paddle, balls = state
    board = ["".join("o" if j == b else "." for j in range(world.columns)) for b in balls]
    board.append("".join("=" if j == paddle else "_" for j in range(world.columns)))
    return "/".join(board) + {0: "", -1: " <", 1: " >"}[int(wind)]


def deep_sea_place(world, state):
    row, column = state
    return f"row {row}, column {column}"


GAMES = [
    ("catch", {"rows": 4, "columns": 3, "new_ball": 0.4}, catch_picture),
    ("windy-catch", {"rows": 3, "columns": 4, "new_ball": 0.4, "change": 0.5}, catch_picture),
    ("deep-sea", {"size": 5, "slip": 0.3, "mapping": 3}, deep_sea_place),
    ("deep-sea", {"size": 4, "mapping": None}, deep_sea_place),
]


@pytest.mark.parametrize(("name", "options", "named"), GAMES, ids=[str(g[:2]) for g in GAMES])
def test_the_same_noise_gives_the_same_game_as_in_the_table(name, options, named):
    mdp, world = environment(name, **options), environment(f"pixel-{name}", **options)
    table, game = Simulator(mdp, Streams(2)), EnvironmentSimulator(world, Streams(2))
    actions = np.random.default_rng(0).integers(mdp.n_actions, size=300)
    for action in actions.tolist():
        assert mdp.state_names[table.state] == named(world, game.state)
        assert table.step(action)[0] == pytest.approx(game.step(action)[0], rel=1e-6)
    assert world.reward_range == mdp.reward_range


def test_networks_do_the_same_in_a_table_and_in_the_game():
    agent = BootstrappedDQN(members=2, hidden=(8,), batch=4, target_every=7)
    table = environment("deep-sea", size=4, slip=0.3, mapping=3, features="one-hot")
    world = environment("pixel-deep-sea", size=4, slip=0.3, mapping=3)
    seen, played = (simulate(agent, place, 80, 1, trajectory=True) for place in (table, world))
    for column in ("actions", "rewards"):
        values = (runs.trajectory[0][column] for runs in (seen, played))
        np.testing.assert_allclose(*values, rtol=1e-6)
    np.testing.assert_allclose(played.gain, seen.gain)


class TestDeepSea:
    def test_a_mapping_exchanges_the_actions_in_some_places_and_changes_no_gain(self):
        plain, mapped = (environment("deep-sea", size=6, mapping=m) for m in (None, 1))
        right = mapped.rewards.argmin(axis=1)[:-1]
        assert 0 < right.sum() < len(right)
        np.testing.assert_array_equal(np.sort(mapped.rewards, axis=1), np.sort(plain.rewards, 1))
        assert solve_average(mapped).gain[0] == pytest.approx(0.99 / 6)
        other = environment("deep-sea", size=6, mapping=2)
        assert (other.rewards != mapped.rewards).any()

    def test_the_reference_is_the_gain(self):
        assert environment("pixel-deep-sea", size=7).reference().gain == pytest.approx(0.99 / 7)
        slippery = environment("pixel-deep-sea", size=4, slip=0.25).reference()
        table = environment("deep-sea", size=4, slip=0.25)
        assert slippery == Reference(pytest.approx(solve_average(table).gain[0]), EXACT)

    @pytest.mark.parametrize(("option", "value"), [("size", 0), ("slip", 2), ("mapping", -1)])
    def test_bad_options_are_refused(self, option, value):
        with pytest.raises(ValueError, match=f"{option} must be"):
            environment("pixel-deep-sea", **{option: value})


class TestCatch:
    @pytest.mark.parametrize(
        "board",
        [(2, 3, 0.5, None), (3, 3, 0.1, None), (5, 3, 0.3, None), (4, 3, 0.2, 0.3)],
    )
    def test_the_bounds_of_the_gain_hold_the_gain_of_the_table(self, board):
        low, high = gain_bounds(*board)
        gain = solve_average(_catch(*board)).gain[0]
        assert low - 1e-12 <= gain <= high + 1e-12
        assert high - low < 2e-7

    def test_a_board_of_csuite_has_its_gain_to_seven_digits_where_it_is_no_table(self):
        low, high = gain_bounds(8, 5, 0.1, None)
        assert 0.0859850 < low < high < 0.0859852

    def test_the_reference_of_a_board_beyond_reach_is_an_upper_bound_with_a_lower_one(
        self, monkeypatch
    ):
        monkeypatch.setattr(sys.modules[gain_bounds.__module__], "MOST_CELLS", 1000)
        gain, kind, reason, at_least = environment("pixel-catch", rows=40).reference()
        assert (gain, kind) == (0.1, UPPER)
        assert reason == "no ball pays more than 1"
        assert 0.0858 < at_least < 0.086

    def test_the_picture_shows_balls_paddle_and_wind(self):
        world = environment("pixel-windy-catch", rows=3, columns=3)
        state = np.int32(-1), np.int32(2), np.array([1, -1], np.int32)
        picture = np.asarray(world.observation(state))
        np.testing.assert_array_equal(picture, [0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0])
        assert world.n_features == 9 + len(WINDS)


class TestPendulum:
    def test_it_follows_the_laws_of_motion(self):
        """Gymnasium's equations, in float64."""
        world = environment("pendulum", torques=5)
        simulator, (angle, speed) = EnvironmentSimulator(world, Streams()), (np.pi, 0.0)
        for action in [0, 4, 3, 4, 4, 0, 0, 1, 2, 2] * 3:
            torque = action - 2.0
            wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
            expected = -(wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2)
            speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * torque), -8, 8)
            angle = angle + 0.05 * speed
            reward, state = simulator.step(action)
            assert reward == pytest.approx(expected, abs=1e-3)
            assert np.cos(state[0]) == pytest.approx(np.cos(angle), abs=1e-3)
            assert state[1] == pytest.approx(speed, abs=1e-3)

    def test_upright_at_rest_nothing_is_lost_and_at_worst_what_the_range_says(self):
        world = environment("pendulum")
        reward, (angle, speed) = world.step((np.float32(0), np.float32(0)), 1, 0.0)
        assert (float(reward), float(angle), float(speed)) == (0.0, 0.0, 0.0)
        worst, _ = world.step((np.float32(np.pi), np.float32(8)), 0, 0.0)
        assert float(worst) == pytest.approx(world.reward_range[0], rel=1e-5)

    def test_a_swing_by_energy_comes_near_the_bound(self):
        """Pump energy up to that of standing upright, then hold: the bound is nearly met."""
        world = environment("pendulum", torques=5)
        simulator, rewards = EnvironmentSimulator(world, Streams()), []
        for _ in range(600):
            angle, speed = (float(x) for x in simulator.state)
            torque = np.sign(speed or 1.0) * np.sign(15.0 - speed**2 / 2 - 15 * np.cos(angle)) * 2
            if abs(angle) < 0.5:
                torque = -(12 * angle + 3 * speed)
            action = int(np.clip(np.rint(torque + 2), 0, 4))
            rewards.append(simulator.step(action)[0])
        assert np.mean(rewards[300:]) > -0.05
        assert world.reference()[:2] == (0.0, UPPER)


@dataclass(frozen=True)
class Odd(Pendulum):
    def reference(self):
        return 3.0


def test_a_reference_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"reference\(\) must be a Reference, not 3.0"):
        simulate(BootstrappedDQN(), Odd(3, 0.0), 5, 1)
