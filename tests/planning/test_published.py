"""Values that others published, of models built here from their descriptions.

Every test names where its numbers stand. The models are written anew: facts are taken from the
sources, no text and no file.
"""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

import cpsrl
from cpsrl.planning import diameter, gain_and_bias


def table(moves, first, reward):
    """The MDP of the states reached from `first`, in that order, and those states.

    `moves(state)` gives for every action a list of (next state, probability), `reward(state,
    action, next state)` a number.
    """
    place, states, found = {first: 0}, [first], []
    for state in states:  # it grows
        found.append(moves(state))
        for successor in (s for action in found[-1] for s, p in action if p > 0):
            if place.setdefault(successor, len(states)) == len(states):
                states.append(successor)
    n_actions = max(map(len, found))
    P = np.zeros((len(states), n_actions, len(states)))
    r = np.zeros((len(states), n_actions))
    available = np.zeros(r.shape, np.bool_)
    for s, actions in enumerate(found):
        for a, successors in enumerate(actions):
            available[s, a] = True
            for successor, p in successors:
                P[s, a, place[successor]] += float(p)
                r[s, a] += float(p) * reward(states[s], a, successor)
    return cpsrl.TabularMDP(P, r, available=available), states


def optimal(mdp, sense=1):
    """The largest gains of all states, or with `sense` -1 the least ones, certified to 1e-12."""
    same = {"available": mdp.available}
    best = cpsrl.solve_average(cpsrl.TabularMDP(mdp.transitions, sense * mdp.rewards, **same))
    assert best.reached
    assert best.error <= 1e-12
    return sense * best.gain


# Storm, src/test/storm/modelchecker/prctl/mdp/LraMdpPrctlModelCheckerTest.cpp, test LRA: the
# long-run average of being in a marked state.
STORM = [
    [{1: 1}],
    [{0: 1}, {2: 1}, {4: 0.7, 6: 0.3}],
    [{0: 1}],
    [{4: 1}, {5: 0.8, 9: 0.2}],
    [{3: 1}, {5: 1}],
    [{3: 1}],
    [{7: 1}],
    [{6: 1}, {8: 1}],
    [{6: 1}],
    [{10: 1}],
    [{9: 1}, {11: 1}],
    [{9: 1}],
    [{5: 0.4, 8: 0.3, 11: 0.3}],
    [{7: 0.7, 12: 0.3}],
    [{12: 0.1, 13: 0.9}, {12: 1}],
]
MARKED = {1, 4, 5, 7, 11, 13, 14}
HIGHEST = {0: "37/60", 3: "2/3", 6: "1/2", 9: "1/3", 12: "31/60", 13: "101/200", 14: "31/60"}
LOWEST = {0: "1/10", 3: "0", 6: "1/3", 9: "0", 12: "1/10", 13: "79/300", 14: "1/10"}


@pytest.mark.parametrize(("sense", "known"), [(1, HIGHEST), (-1, LOWEST)])
def test_storms_multichain_mdp_of_15_states(sense, known):
    P, available = np.zeros((15, 3, 15)), np.zeros((15, 3), np.bool_)
    for s, actions in enumerate(STORM):
        for a, successors in enumerate(actions):
            available[s, a] = True
            P[s, a, list(successors)] = list(successors.values())
    rewards = np.repeat([[float(s in MARKED)] for s in range(15)], 3, axis=1)
    gain = optimal(cpsrl.TabularMDP(P, rewards, available=available), sense)
    for s, value in known.items():
        assert abs(gain[s] - Fraction(value)) < 1e-14


# Storm, SparseMdpPcaaMultiObjectiveModelCheckerTest.cpp, test resource_gathering: a robot on a grid
# of 5 x 5 brings gold and a gem home, past two enemies who catch it with probability 1/10 and send
# it home with nothing. Storm gives the Pareto points of gold, gems and attacks a step; the best of
# a weighted sum is that of its best point.
HOME, GOLD, GEM, ENEMIES = (3, 1), (3, 5), (5, 4), ((4, 5), (3, 4))


def robot(state):
    (x, y), gold, gem, _ = state
    actions = []
    for to in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
        if 1 <= to[0] <= 5 and 1 <= to[1] <= 5:
            danger = 0.1 * (to in ENEMIES)
            kept = ((gold and to != HOME) or to == GOLD, (gem and to != HOME) or to == GEM)
            actions.append([((to, *kept, False), 1 - danger)])
            if danger:
                actions[-1].append(((HOME, False, False, True), danger))
    return actions


@pytest.mark.parametrize(
    ("gold", "gem", "attacks", "sense", "known"),
    [
        (1, 0, 0, 1, "27/241"),
        (0, 1, 0, 1, "1/10"),
        (1, 1, 0, 1, "54/349"),
        (1, 0, -1, 1, "8/93"),
        (1, 0, -2, 1, "1/12"),
        (1, 0, 0, -1, "0"),
        (0, 0, 1, -1, "0"),
    ],
)
def test_storms_resource_gathering(gold, gem, attacks, sense, known):
    def reward(state, action, successor):
        brought = successor[0] == HOME and not successor[3]
        return brought * (gold * state[1] + gem * state[2]) + attacks * state[3]

    mdp, _ = table(robot, (HOME, False, False, False), reward)
    np.testing.assert_allclose(optimal(mdp, sense), float(Fraction(known)), atol=1e-14)


# Colosseum, colosseum/benchmark/cached_hardness_measures/RiverSwimContinuous: diameters of rivers
# by their length, p_lazy (staying) and p_rand (a random action). They come from an iteration that
# stops below the truth.
@pytest.mark.parametrize(
    ("size", "lazy", "random", "known"),
    [
        (10, 0.0, 0.26, 11.924114),
        (10, 0.0, 0.51, 17.303562),
        (25, 0.1, 0.0, 26.666565),
        (30, 0.1, 0.2, 40.103657),
        (50, 0.1, 0.1, 60.42502),
        (80, 0.001, 0.2, 98.692276),
    ],
)
def test_colosseums_diameters(size, lazy, random, known):
    P, s = np.zeros((size, 2, size)), np.arange(size)
    ends = (np.maximum(s - 1, 0), np.minimum(s + 1, size - 1))
    for action in (0, 1):
        P[s, action, s] += lazy
        for end in (0, 1):
            P[s, action, ends[end]] += (1 - lazy) * ((end == action) * (1 - random) + random / 2)
    found = diameter(cpsrl.TabularMDP(P, np.zeros((size, 2))))
    assert known <= found <= known * (1 + 2e-4)


# pymdptoolbox, mdptoolbox.example.forest and the tests of relative value and policy iteration: a
# forest burns with probability .1 or gets a year older; waiting pays 4 in the oldest state, cutting
# 1, in the oldest 2 and in the youngest nothing.
def forest(states):
    P, r = np.zeros((states, 2, states)), np.zeros((states, 2))
    P[:, :, 0] = [0.1, 1.0]
    P[np.arange(states), 0, np.minimum(np.arange(states) + 1, states - 1)] += 0.9
    r[1:, 1], r[-1] = 1.0, (4.0, 2.0)
    return cpsrl.TabularMDP(P, r)


@pytest.mark.parametrize(("states", "known"), [(3, 3.24), (10, 1.549681956)])
def test_pymdptoolboxs_forest_on_average(states, known):
    np.testing.assert_allclose(optimal(forest(states)), known, atol=5e-10)


def test_pymdptoolboxs_forest_discounted():
    best = cpsrl.solve_discounted(forest(3), 0.9)
    np.testing.assert_allclose(best.value, [26.244, 29.484, 33.484], atol=1e-12)
    assert best.policy.tolist() == [0, 0, 0]


def test_pymdptoolboxs_two_states_have_a_gain_of_35_9ths():
    """Its tests and documentation say 3.88523524641183: relative value iteration stopped early.

    The policy is the same. With it state 0 pays 10 and moves on, state 1 costs 1 and moves back
    with probability .8: the stationary distribution is (4, 5)/9.
    """
    P = [[[0.5, 0.5], [0.0, 1.0]], [[0.8, 0.2], [0.1, 0.9]]]
    mdp = cpsrl.TabularMDP(P, [[5.0, 10.0], [-1.0, 2.0]])
    best = cpsrl.solve_average(mdp)
    assert best.policy.tolist() == [1, 0]
    np.testing.assert_allclose(best.gain, 35 / 9, atol=1e-14)
    assert 35 / 9 - 3.88523524641183 > 0.003


# Sutton and Barto (2018), example 10.2: ten servers, each busy one free with probability .06,
# customers who pay 1, 2, 4 or 8. The book's learner, which takes a random action with probability
# .1, estimates an average of 2.31.
def test_sutton_and_bartos_access_control():
    def freed(busy):
        return [comb(busy, k) * 0.06**k * 0.94 ** (busy - k) for k in range(busy + 1)]

    def moves(state):
        busy = state[0]
        after = [busy] if busy == 10 else [busy, busy + 1]
        return [
            [((n - k, p), q / 4) for k, q in enumerate(freed(n)) for p in (1, 2, 4, 8)]
            for n in after
        ]

    mdp, states = table(moves, (0, 1), lambda state, action, _: action * state[1])
    assert len(states) == 44
    gain = optimal(mdp)
    np.testing.assert_allclose(gain, 2.7476419506, atol=1e-10)
    np.testing.assert_allclose(gain[0], optimal(cpsrl.environment("access-control"))[0], atol=1e-12)
    best = cpsrl.solve_average(mdp).policy
    assert all(best[s] == 1 for s, (busy, pay) in enumerate(states) if pay == 8 and busy < 10)
    explores = np.where(mdp.available, 0.1 / mdp.available.sum(axis=1, keepdims=True), 0.0)
    explores[np.arange(44), best] += 0.9
    assert 2.31 < gain_and_bias(mdp, explores)[0][0] < gain[0]


# Quantitative Verification Benchmark Set, benchmarks/ctmc/kanban and tandem: long-run averages of
# Markov chains in continuous time, by Storm in rational arithmetic. Uniformised, with a rate above
# all exit rates, a chain has the same stationary distribution in discrete time.
def uniformised(moves, first, reward):
    states, rate = [first], 0.0
    for state in states:  # it grows
        rates = moves(state)
        rate = max(rate, sum(r for _, r in rates))
        states += [s for s in dict.fromkeys(s for s, _ in rates) if s not in states]
    rate *= 1.1

    def steps(state):
        rates = moves(state)
        left = (state, 1 - sum(r for _, r in rates) / rate)
        return [[*((s, r / rate) for s, r in rates), left]]

    mdp, states = table(steps, first, lambda state, _, __: reward(state))
    return optimal(mdp), len(states), sum(len(moves(state)) for state in states)


def kanban(cells):
    """Rates of a production line: cells of one pallet that is empty, at work, to redo or done."""
    redo, done = (0.36, 0.42, 0.39, 0.33), (0.84, 0.98, 0.91, 0.77)

    def changed(**new):
        return tuple(new.get(f"c{i}", cell) for i, cell in enumerate(cells))

    found = []
    for i, cell in enumerate(cells):
        if cell == "work":
            found += [(changed(**{f"c{i}": "redo"}), redo[i])]
            found += [(changed(**{f"c{i}": "done"}), done[i])]
        if cell == "redo":
            found += [(changed(**{f"c{i}": "work"}), 0.3)]
    if cells[0] == "empty":
        found += [(changed(c0="work"), 1.0)]
    if cells[0] == "done" and cells[1] == cells[2] == "empty":
        found += [(changed(c0="empty", c1="work", c2="work"), 0.4)]
    if cells[1] == cells[2] == "done" and cells[3] == "empty":
        found += [(changed(c1="empty", c2="empty", c3="work"), 0.5)]
    if cells[3] == "done":
        found += [(changed(c3="empty"), 0.9)]
    return found


def test_the_throughput_of_kanban():
    entering = lambda cells: float(cells[0] == "empty")  # noqa: E731
    gain, states, rates = uniformised(kanban, ("empty",) * 4, entering)
    assert (states, rates) == (160, 616)
    np.testing.assert_allclose(gain, 0.0925846346333826, atol=1e-14)


def tandem(state):
    """Rates of two queues of 5 in a row; service in the first may have a second phase."""
    first, phase, second = state
    found = [((first + 1, phase, second), 20.0)] * (first < 5)
    if first and second < 5:
        found += [((first - 1, 1, second + 1), 1.8 if phase == 1 else 2.0)]
    if first and phase == 1:
        found += [((first, 2, second), 0.2)]
    return found + [((first, phase, second - 1), 4.0)] * (second > 0)


def test_the_customers_of_tandem():
    gain, states, rates = uniformised(tandem, (0, 1, 0), lambda state: state[0] + state[2])
    assert (states, rates) == (66, 189)
    np.testing.assert_allclose(gain, 5.679249959967679, atol=1e-13)
