"""Agents that learn nothing, UCRL2 and differential Q-learning."""

import numpy as np
import pytest
from scipy.optimize import linprog

import cpsrl
from cpsrl.agents.ucrl2 import L1Balls, extended_value_iteration, optimistic_mean


def test_the_optimal_agents_regret_tends_to_minus_the_bias():
    mdp = cpsrl.environment("riverswim")
    runs = cpsrl.simulate(cpsrl.agents.OptimalAgent(), mdp, 2000, 1000)
    last = runs.regret[:, -1]
    bias = cpsrl.solve_average(mdp, bias_optimal=True).bias[0]
    assert abs(last.mean() + bias) < 4 * last.std() / np.sqrt(len(last))


def test_the_random_agent_gains_what_the_uniform_policy_does():
    mdp = cpsrl.environment("riverswim")
    runs = cpsrl.simulate(cpsrl.RandomAgent(), mdp, 20_000, 100)
    gain, bias = cpsrl.planning.gain_and_bias(mdp, np.full((6, 2), 0.5))
    expected = 20_000 * (runs.gain[0] - gain[0]) - bias[0]
    last = runs.regret[:, -1]
    assert abs(last.mean() - expected) < 4 * last.std() / np.sqrt(len(last))


def test_optimistic_mean_is_the_solution_of_its_linear_program():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 7))
        row, value = rng.dirichlet(np.ones(n)), rng.random(n)
        radius = float(rng.random() * 2.5)
        order = np.argsort(-value)
        # maximise p value over p >= 0, sum p = 1, |p - row|_1 <= radius (u bounds the differences)
        eye = np.eye(n)
        program = linprog(
            np.concatenate([-value, np.zeros(n)]),
            A_ub=np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), np.ones((1, n))]]),
            b_ub=np.concatenate([row, -row, [radius]]),
            A_eq=np.concatenate([np.ones(n), np.zeros(n)])[None],
            b_eq=[1.0],
        )
        plausible = L1Balls(row[None], np.array([radius]))
        assert optimistic_mean(plausible, 0, value, order) == pytest.approx(-program.fun)


def test_without_doubt_extended_value_iteration_is_value_iteration():
    mdp = cpsrl.environment("riverswim")
    exact = L1Balls(np.array(mdp.dense).reshape(12, 6), np.zeros(12))
    policy = extended_value_iteration(exact, np.array(mdp.rewards), np.inf, 1e-9, np.zeros(6))
    assert np.array_equal(policy, cpsrl.solve_average(mdp).policy)


def test_ucrl2_keeps_its_policy_until_a_pair_has_doubled():
    agent = cpsrl.start(cpsrl.UCRL2(), cpsrl.Sizes(3, 1))
    episodes = []
    for _ in range(16):
        agent.act(0)
        episodes.append(agent.resamples)
        agent.observe(0, 0, 0.5, 0)
    assert episodes == [1, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5]


def test_ucrl2_learns_a_bandit():
    rewards = np.array([[0.1, 0.9]])
    mdp = cpsrl.TabularMDP(np.ones((1, 2, 1)), rewards, noise="bernoulli")
    runs = cpsrl.simulate(cpsrl.UCRL2(), mdp, 3000, 4)
    assert (np.diff(runs.regret[:, [100, -1]], axis=1) < 0.15 * 1500).all()
    with pytest.warns(UserWarning, match=r"reward of 1.5 is outside \[0, 1\]"):
        cpsrl.start(cpsrl.UCRL2(), mdp).observe(0, 0, 1.5, 0)


def test_differential_q_learning_finds_the_gain_and_the_policy():
    mdp = cpsrl.environment("queue")
    agent = cpsrl.start(cpsrl.agents.DifferentialQLearning(alpha=0.05, epsilon=0.2), mdp)
    world = mdp.simulator()
    rates = []
    for t in range(60_000):
        state = world.state
        action = agent.act(state)
        reward, next_state = world.step(action)
        agent.observe(state, action, reward, next_state)
        if t > 30_000:
            rates.append(agent.reward_rate)
    solution = cpsrl.solve_average(mdp)
    mixed = 0.2 / mdp.n_actions + 0.8 * np.eye(mdp.n_actions)[agent.policy]
    achieved = cpsrl.planning.gain_and_bias(mdp, mixed)[0][mdp.initial]
    best = solution.gain[mdp.initial]
    assert achieved == pytest.approx(np.mean(rates), rel=0.1)
    assert achieved > best - 0.15 * abs(best)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cpsrl.UCRL2(delta=0), r"delta must be in \(0, 1\)"),
        (lambda: cpsrl.start(cpsrl.UCRL2(), cpsrl.Sizes(5000, 2)), "more than 2000"),
        (lambda: cpsrl.agents.DifferentialQLearning(alpha=0), "alpha must be a positive number"),
        (
            lambda: cpsrl.agents.DifferentialQLearning(epsilon=2),
            r"epsilon must be a number in \[0, 1\]",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
