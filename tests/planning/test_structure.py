"""Classes, diameter and reward averaging time."""

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from cpsrl.planning import is_unichain
from planning import brute_force
from planning.brute_force import KINDS, random_mdp


def deterministic(successors):
    """The MDP without rewards that goes to successors[s][a]."""
    successors = np.array(successors)
    n_states, n_actions = successors.shape
    return cpsrl.TabularMDP(np.eye(n_states)[successors], np.zeros((n_states, n_actions)))


EXAMPLES = {
    # two states and the way between them
    "communicating": ([[1, 1], [0, 1]], "communicating", [[0, 1]], []),
    # one state
    "single": ([[0]], "communicating", [[0]], []),
    # state 0 is left for good
    "transient": ([[1, 1], [2, 2], [1, 1]], "weakly communicating", [[1, 2]], [0]),
    # two absorbing states and a choice between them
    "choice": ([[1, 2], [1, 1], [2, 2]], "multichain", [[1], [2]], [0]),
    # state 0 can stay for ever although it can also leave for good
    "stay": ([[0, 1], [1, 1]], "multichain", [[0], [1]], []),
    # a cycle that one of its states can leave, to a cycle that cannot be left
    "cycles": ([[1, 1], [0, 2], [3, 3], [2, 2]], "multichain", [[0, 1], [2, 3]], []),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_class_of_hand_made_models(example):
    successors, kind, classes, transient = EXAMPLES[example]
    found = cpsrl.planning.classify(deterministic(successors))
    assert found.kind == kind
    assert [c.tolist() for c in found.classes] == classes
    assert found.transient.tolist() == transient


def test_an_action_that_may_leave_does_not_hold_a_component_together():
    # 0 and 1 reach each other, but only by an action that ends in state 2 every other time
    transitions = np.zeros((3, 1, 3))
    transitions[0, 0] = [0, 0.5, 0.5]
    transitions[1, 0] = [1, 0, 0]
    transitions[2, 0] = [0, 0, 1]
    found = cpsrl.planning.classify(cpsrl.TabularMDP(transitions, np.zeros((3, 1))))
    assert found.kind == "weakly communicating"
    assert [c.tolist() for c in found.classes] == [[2]]
    assert found.transient.tolist() == [0, 1]


def test_components_that_fall_apart_one_after_the_other():
    # each state needs the next to return; the last one leaks, so none can stay
    n_states = 8
    transitions = np.zeros((n_states, 1, n_states))
    for s in range(n_states - 1):
        transitions[s, 0, [s + 1, max(s - 1, 0)]] += 0.5
    transitions[-2, 0] = 0.5 * (np.eye(n_states)[-1] + np.eye(n_states)[0])
    transitions[-1, 0, -1] = 1
    found = cpsrl.planning.classify(cpsrl.TabularMDP(transitions, np.zeros((n_states, 1))))
    assert [c.tolist() for c in found.classes] == [[n_states - 1]]
    assert found.transient.tolist() == list(range(n_states - 1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_class_agrees_with_all_sets_of_states(kind):
    for index in range(30):
        P, r = random_mdp(np.random.default_rng((40 + KINDS.index(kind), index)), kind)
        found = cpsrl.planning.classify(cpsrl.TabularMDP(P, r))
        components = brute_force.end_components(P)
        assert [tuple(c.tolist()) for c in found.classes] == components
        inside = sorted(s for c in components for s in c)
        assert sorted({*range(len(r))} - {*inside}) == found.transient.tolist()


def test_a_probability_of_zero_that_is_stored_is_no_way():
    rows = scipy.sparse.csr_array(
        (np.array([1.0, 0.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )
    assert cpsrl.planning.classify(cpsrl.TabularMDP(rows, np.zeros((2, 1)))).kind == "multichain"


def test_whether_a_policy_is_unichain():
    mdp = deterministic(EXAMPLES["stay"][0])
    assert not is_unichain(mdp, [0, 0])
    assert is_unichain(mdp, [1, 0])
    assert is_unichain(mdp, [[0.999, 0.001], [1.0, 0.0]])
    grid = cpsrl.environment("gridworld", rows=11, columns=11)
    assert is_unichain(grid, np.full((121, 4), 0.25))


@pytest.mark.parametrize("kind", ["communicating", "deterministic", "periodic", "multichain"])
def test_the_diameter_agrees_with_all_policies(kind):
    finite = 0
    for index in range(25):
        P, r = random_mdp(np.random.default_rng((50 + KINDS.index(kind), index)), kind)
        if len(r) > 4:
            continue
        found, right = cpsrl.planning.diameter(cpsrl.TabularMDP(P, r)), brute_force.diameter(P)
        assert found == pytest.approx(right, rel=1e-10), f"{kind} {index}"
        finite += np.isfinite(right)
    assert finite > 0


def test_the_diameter_of_a_ring_and_of_what_cannot_be_reached():
    ring = deterministic([[1], [2], [3], [0]])
    assert cpsrl.planning.diameter(ring) == pytest.approx(3)
    assert cpsrl.planning.diameter(deterministic(EXAMPLES["transient"][0])) == np.inf
    assert cpsrl.planning.diameter(deterministic(EXAMPLES["single"][0])) == 0


def test_the_diameter_of_a_ladder_that_is_all_but_never_climbed():
    """A rung is won with probability p, all are lost otherwise: p^-1 + p^-2 + p^-3 steps."""
    for p, longest in ((0.25, 84), (1e-50, 1e150), (1e-150, np.inf)):
        transitions = np.zeros((4, 1, 4))
        transitions[:, 0, 0] = [1 - p, 1 - p, 1 - p, 1]
        transitions[[0, 1, 2], 0, [1, 2, 3]] = p
        mdp = cpsrl.TabularMDP(transitions, np.zeros((4, 1)))
        assert cpsrl.planning.diameter(mdp) == pytest.approx(longest, rel=1e-12)


def test_the_diameter_takes_the_sparse_path_on_many_states():
    mdp = cpsrl.environment("gridworld", rows=15, columns=15, slip=0.0)
    # no way is longer than that from corner to corner
    assert cpsrl.planning.diameter(mdp) == pytest.approx(28)
    slips = cpsrl.environment("gridworld", rows=15, columns=15)
    gain = cpsrl.solve_average(slips).gain[0]
    assert cpsrl.planning.diameter(slips, targets=[224]) == pytest.approx(1 / gain - 1)


def test_beyond_2000_states_a_lower_bound_is_given_on_request():
    mdp = cpsrl.environment("gridworld", rows=45, columns=45, slip=0.0)
    with pytest.raises(ValueError, match=r"2025 states .* targets=\[...\]\) is a lower bound"):
        cpsrl.planning.diameter(mdp)
    assert cpsrl.planning.diameter(mdp, targets=[2024]) == pytest.approx(88)


def cyclic_chain(rng, period, size):
    """A random chain of `period` groups of states, each leading to the next."""
    n_states = period * size
    matrix = np.zeros((n_states, n_states))
    for group in range(period):
        following = (group + 1) % period
        rows, columns = (slice(g * size, (g + 1) * size) for g in (group, following))
        matrix[rows, columns] = rng.dirichlet(np.ones(size), size)
    return matrix


def chains():
    rng = np.random.default_rng(9)
    for size in (1, 2, 5):
        yield f"aperiodic {size}", rng.dirichlet(np.ones(size), size)
    for period, size in ((2, 1), (2, 3), (3, 2), (5, 1)):
        yield f"period {period} of {size}", cyclic_chain(rng, period, size)
    blocks = [rng.dirichlet(np.ones(3), 3), cyclic_chain(rng, 2, 2), cyclic_chain(rng, 3, 1)]
    matrix = np.zeros((13, 13))
    start = 0
    for block in blocks:
        stop = start + len(block)
        matrix[start:stop, start:stop] = block
        start = stop
    matrix[start:] = rng.dirichlet(np.ones(13), 13 - start)
    yield "several classes and transient states", matrix


CHAINS = dict(chains())


@pytest.mark.parametrize("name", CHAINS)
def test_the_averaging_time_agrees_with_its_definition(name):
    matrix = CHAINS[name]
    for index in range(5):
        rewards = np.random.default_rng(index).normal(size=len(matrix))
        mdp = cpsrl.TabularMDP(matrix[:, None, :], rewards[:, None])
        found = cpsrl.planning.reward_averaging_time(mdp, np.zeros(len(matrix), int))
        right = brute_force.averaging_time(matrix, rewards, 600)
        assert found.closed
        assert found.low <= found.high
        assert found.low == pytest.approx(right, abs=1e-8)
        assert found.high == pytest.approx(right, abs=1e-8)
        assert float(found) == found.high


def test_the_averaging_time_of_two_states_in_turn():
    mdp = cpsrl.TabularMDP([[[0, 1]], [[1, 0]]], [[1.0], [0.0]])
    found = cpsrl.planning.reward_averaging_time(mdp, [0, 0])
    assert found.closed
    assert found.low == found.high == 0.5


def test_the_averaging_time_of_a_stochastic_policy_on_many_states():
    mdp = cpsrl.environment("random", n_states=120, n_actions=3, successors=5, seed=4)
    policy = np.random.default_rng(1).dirichlet(np.ones(3), 120)
    found = cpsrl.planning.reward_averaging_time(mdp, policy)
    matrix = np.einsum("sa,sat->st", policy, mdp.dense)
    right = brute_force.averaging_time(matrix, (policy * mdp.rewards).sum(axis=1), 600)
    assert found.closed
    assert found.high == pytest.approx(right, abs=1e-8)


def test_the_averaging_time_is_zero_where_the_reward_is_always_the_same():
    mdp = cpsrl.TabularMDP(np.full((3, 1, 3), 1 / 3), np.full((3, 1), 0.7))
    found = cpsrl.planning.reward_averaging_time(mdp, [0, 0, 0])
    assert (found.low, found.closed) == (pytest.approx(0, abs=1e-15), True)


def test_slow_mixing_leaves_the_bracket_open():
    # the sup over T <= 300 is far below the limit, and the span far above it
    slow = np.array([[1 - 1e-4, 1e-4], [3e-4, 1 - 3e-4]])
    mdp = cpsrl.TabularMDP(slow[:, None, :], [[0.0], [1.0]])
    found = cpsrl.planning.reward_averaging_time(mdp, [0, 0], most_steps=300)
    whole = cpsrl.planning.reward_averaging_time(mdp, [0, 0])
    assert not found.closed
    assert whole.closed
    assert whole.low == pytest.approx(1875, rel=1e-9)
    assert found.low <= whole.low * (1 + 1e-12)
    assert found.high >= whole.high
    assert brute_force.averaging_time(slow, np.array([0.0, 1.0]), 300) <= found.high


def test_a_long_period_leaves_the_bracket_open():
    n_states = 30
    ring = np.eye(n_states)[(np.arange(n_states) + 1) % n_states]
    rewards = np.random.default_rng(0).normal(size=n_states)
    mdp = cpsrl.TabularMDP(ring[:, None, :], rewards[:, None])
    policy = np.zeros(n_states, int)
    right = brute_force.averaging_time(ring, rewards, 2 * n_states)
    found = cpsrl.planning.reward_averaging_time(mdp, policy, most_steps=20)
    assert not found.closed
    assert found.low < right <= found.high * (1 + 1e-12)
    whole = cpsrl.planning.reward_averaging_time(mdp, policy)
    assert whole.closed
    assert whole.high == pytest.approx(right, rel=1e-8)
