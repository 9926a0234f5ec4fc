import random

import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.planning import solve_average, span


class Game:
    """The game from its rules, in plain Python: balls are a list of (row, column)."""

    def __init__(self, rows, columns, new_ball, change=None, seed=0):
        self.rows, self.columns, self.new_ball, self.change = rows, columns, new_ball, change
        self.paddle, self.balls, self.wind = columns // 2, [], 0
        self.random = random.Random(seed).random

    def step(self, action):
        self.paddle = max(0, min(self.columns - 1, self.paddle + (-1, 0, 1)[action]))
        pay, falling = 0.0, []
        for row, column in self.balls:
            column = (column + self.wind) % self.columns
            if row + 1 < self.rows - 1:
                falling.append((row + 1, column))
            else:
                pay += 1.0 if column == self.paddle else -1.0
        if self.random() < self.new_ball:
            falling.append((0, int(self.random() * self.columns)))
        self.balls = falling
        if self.change is not None and self.random() < self.change:
            self.wind = (0, -1, 1)[int(self.random() * 3)]
        return pay

    def picture(self):
        lines = [["."] * self.columns for _ in range(self.rows - 1)]
        for row, column in self.balls:
            lines[row][column] = "o"
        lines.append(["=" if j == self.paddle else "_" for j in range(self.columns)])
        return "/".join(map("".join, lines)) + {0: "", -1: " <", 1: " >"}[self.wind]


BOARDS = [("catch", (4, 3, 0.1)), ("catch", (3, 4, 0.4)), ("windy-catch", (3, 4, 0.1, 0.2))]


@pytest.mark.parametrize(
    ("steps", "boards"),
    [(40_000, BOARDS), pytest.param(1_000_000, BOARDS, marks=pytest.mark.slow)],
)
def test_the_gain_is_that_of_a_simulator_written_from_the_rules(steps, boards):
    for name, board in boards:
        options = dict(zip(("rows", "columns", "new_ball", "change"), board, strict=False))
        mdp = environment(name, **options)
        best = solve_average(mdp)
        policy = dict(zip(mdp.state_names, best.policy.tolist(), strict=True))
        game = Game(*board, seed=steps)
        rewards = np.array([game.step(policy[game.picture()]) for _ in range(steps)])
        batches = rewards.reshape(200, -1).mean(axis=1)
        error = batches.std(ddof=1) / np.sqrt(200)
        assert abs(rewards.mean() - best.gain[0]) < 4 * error + span(best.bias) / steps


@pytest.mark.parametrize(("name", "board"), BOARDS)
def test_every_step_of_the_rules_is_possible_and_pays_what_the_model_says(name, board):
    options = dict(zip(("rows", "columns", "new_ball", "change"), board, strict=False))
    mdp = environment(name, **options)
    number = {picture: s for s, picture in enumerate(mdp.state_names)}
    game, dice = Game(*board), random.Random(1)
    assert number[game.picture()] == mdp.initial
    seen = np.zeros((mdp.n_states, 3, mdp.n_states))
    for _ in range(30_000):
        s, action = number[game.picture()], dice.randrange(3)
        assert game.step(action) == mdp.rewards[s, action]
        seen[s, action, number[game.picture()]] += 1
    visits = seen.sum(axis=2, keepdims=True)
    assert (mdp.dense[seen > 0] > 0).all()
    often = np.broadcast_to(visits > 150, seen.shape)
    deviation = np.sqrt(mdp.dense * (1 - mdp.dense) / np.maximum(visits, 1))
    assert often.any()
    assert (np.abs(seen / np.maximum(visits, 1) - mdp.dense) <= 5.5 * deviation + 1e-12)[
        often
    ].all()


def test_the_documented_gains():
    np.testing.assert_allclose(solve_average(environment("catch")).gain, 89 / 930, atol=1e-12)
    windy = environment("windy-catch")
    np.testing.assert_allclose(solve_average(windy).gain, 89 / 930, atol=1e-12)
    windy = solve_average(environment("windy-catch", columns=4)).gain
    np.testing.assert_allclose(windy, 0.0880213733, atol=1e-10)


def test_with_two_columns_every_ball_is_caught_and_without_balls_there_is_nothing_to_gain():
    np.testing.assert_allclose(
        solve_average(environment("catch", rows=3, columns=2, new_ball=1.0)).gain, 1.0, atol=1e-9
    )
    never = environment("catch", rows=3, columns=2, new_ball=0.0)
    np.testing.assert_allclose(solve_average(never).gain, 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("catch", {"rows": 1}, "rows must be a whole number of at least 2, not 1"),
        ("catch", {"new_ball": 2}, r"new_ball must be a number in \[0, 1\], not 2"),
        ("windy-catch", {"change": -1}, r"change must be a number in \[0, 1\], not -1"),
    ],
)
def test_wrong_options_are_refused(name, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        environment(name, **options)
