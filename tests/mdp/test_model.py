"""Tabular MDPs: what is refused, what is kept, and how the simulator draws."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from cpsrl.mdp import Simulator
from cpsrl.seeding import Streams, stream

P = np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.2, 0.8], [0.0, 0.0, 1.0]]] * 2)[:3]
R = np.array([[0.0, 0.25], [0.5, 0.75], [1.0, 0.125]])
NAMES = {"state_names": ["low", "mid", "high"], "action_names": ["wait", "go"]}


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def sparse(array):
    return scipy.sparse.csr_array(array.reshape(-1, array.shape[-1]))


WRONG_TRANSITIONS = [
    (changed(P, (1, 0, 1), 0.3), "state 1 under action 0 sum to 1.1"),
    (changed(P, (2, 1, 0), 0.0), r"state 2 under action 1 sum to 0.0, not 1 \(1 such row\)"),
    (changed(P, (0, 0), [1.5, -0.5, 0]), "from state 0 under action 0 to state 0 is 1.5"),
    (changed(P, (0, 1), [1.1, -0.1, 0]), "from state 0 under action 1 to state 0 is 1.1"),
    (changed(P, (1, 1, 2), np.nan), "from state 1 under action 1 to state 2 is nan"),
    (changed(P, (1, 1, 2), -1.0), r"to state 2 is -1.0; it must be in \[0, 1\]"),
]


@pytest.mark.parametrize(("transitions", "complaint"), WRONG_TRANSITIONS)
@pytest.mark.parametrize("form", [lambda x: x, sparse], ids=["dense", "sparse"])
def test_a_wrong_row_is_named(form, transitions, complaint):
    with pytest.raises(ValueError, match=complaint):
        cpsrl.TabularMDP(form(transitions), R)


@pytest.mark.parametrize("form", [lambda x: x, sparse], ids=["dense", "sparse"])
def test_a_wrong_row_is_called_by_its_names(form):
    with pytest.raises(ValueError, match=r"from state 'mid' under action 'wait' sum to 1\.1"):
        cpsrl.TabularMDP(form(changed(P, (1, 0, 1), 0.3)), R, **NAMES)
    with pytest.raises(ValueError, match="state 'mid' under action 'go' to state 'high' is nan"):
        cpsrl.TabularMDP(form(changed(P, (1, 1, 2), np.nan)), R, **NAMES)
    with pytest.raises(ValueError, match=r"that of state 'low' under action 'go' is 1\.5"):
        cpsrl.TabularMDP(form(P), changed(R, (0, 1), 1.5), noise="bernoulli", **NAMES)


@pytest.mark.parametrize("index", [3, -1, 1_000_000])
def test_a_next_state_out_of_range_is_named(index):
    matrix = sparse(P)
    matrix.indices[5] = index
    with pytest.raises(ValueError, match=f"state 1 under action 1 lead to state {index}, .* 0..2"):
        cpsrl.TabularMDP(matrix, R)
    columns = sparse(P).tocsc()
    columns.indices[0] = 6
    with pytest.raises(ValueError, match="ind"):
        cpsrl.TabularMDP(columns, R)


def test_row_pointers_that_go_back_are_refused():
    matrix = sparse(P)
    matrix.indptr[2] = 0
    with pytest.raises(ValueError, match="ind"):
        cpsrl.TabularMDP(matrix, R)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((P[:2], R), r"transitions must be \(S, A, S\) = \(3, 2, 3\) .* not \(2, 2, 3\)"),
        ((P.reshape(6, 3), R), r"transitions must have 3 dimensions, not shape \(6, 3\)"),
        ((sparse(P)[:5], R), r"sparse transitions must be \(S\*A, S\) = \(6, 3\)"),
        (("text", R), "transitions must be an array of numbers"),
        ((P, R.ravel()), r"rewards must have 2 or 3 dimensions, not shape \(6,\)"),
        ((P, np.empty((0, 2))), r"rewards must be \(S, A\) or .* with S, A >= 1"),
        ((P, changed(R, (2, 0), np.inf)), r"rewards\[2, 0\] is inf"),
    ],
)
def test_wrong_shapes_and_rewards_are_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        cpsrl.TabularMDP(*arguments)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"initial": 3}, "the initial state 3 is not in 0..2"),
        ({"initial": -1}, "the initial state -1 is not in 0..2"),
        ({"initial": [0.5, 0.5]}, r"initial must be a state or \(3,\), not \(2,\)"),
        ({"initial": [0.5, 0.6, 0.0]}, "initial must be .* sum to 1"),
        ({"initial": [1.5, -0.5, 0.0]}, "initial must be .* sum to 1"),
        ({"initial": [np.nan, 1.0, 0.0]}, "initial must be .* sum to 1"),
        ({"noise": -0.1}, "noise must be a standard deviation of at least 0"),
        ({"noise": np.nan}, "noise must be a standard deviation of at least 0"),
        ({"noise": "gaussian"}, "noise must be a standard deviation or 'bernoulli'"),
        ({"noise": [0.1, 0.2]}, r"noise must be a number or \(3, 2\), not \(2,\)"),
        ({"state_names": 3}, "state_names must be 3 names, not 3"),
        ({"state_names": ["a", "b"]}, "state_names must be 3 different names, not 2"),
        ({"action_names": ["a", "a"]}, "action_names must be 2 different names, not 1"),
        ({"features": np.ones((2, 4))}, r"features must be \(3, N\), not \(2, 4\)"),
        ({"features": np.full((3, 1), np.nan)}, r"features\[0, 0\] is nan"),
    ],
)
def test_wrong_options_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        cpsrl.TabularMDP(P, R, **options)


def test_what_is_given_is_kept_and_frozen():
    features = np.arange(6.0).reshape(3, 2)
    transitions, rewards = P.copy(), R.copy()
    mdp = cpsrl.TabularMDP(
        transitions, rewards, initial=2, noise=0.5, features=features, name="three", **NAMES
    )
    transitions[:] = rewards[:] = features[:] = 7
    np.testing.assert_array_equal(mdp.dense, P)
    np.testing.assert_array_equal(mdp.rewards, R)
    np.testing.assert_array_equal(mdp.features, [[0, 1], [2, 3], [4, 5]])
    assert (mdp.initial, mdp.noise, mdp.name) == (2, 0.5, "three")
    assert (mdp.state_names, mdp.action_names) == (("low", "mid", "high"), ("wait", "go"))
    assert (mdp.n_states, mdp.n_actions, mdp.sizes) == (3, 2, cpsrl.Sizes(3, 2))
    assert "three: S=3, A=2, dense" in repr(mdp)
    with pytest.raises(FrozenInstanceError):
        mdp.name = "four"
    for array in (mdp.transitions, mdp.dense, mdp.rewards, mdp.features, mdp.csr.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert replace(mdp, name="four").name == "four"


def test_dense_and_sparse_are_the_same_model():
    matrix = sparse(P)
    thin = cpsrl.TabularMDP(matrix, R)
    matrix.data[:] = 7
    full = cpsrl.TabularMDP(P, R)
    assert thin.is_sparse
    assert not full.is_sparse
    np.testing.assert_array_equal(thin.dense, P)
    np.testing.assert_array_equal(full.csr.toarray(), P.reshape(6, 3))
    np.testing.assert_array_equal(thin.by_successor, P.reshape(6, 3).T)
    for a, b in zip(thin.cdf, full.cdf, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="read-only"):
        thin.transitions.data[0] = 0


def test_entries_that_are_stored_twice_are_added_and_zeros_dropped():
    rows, columns = [0, 0, 0, 1, 1], [0, 0, 1, 1, 0]
    matrix = scipy.sparse.coo_array(([0.25, 0.25, 0.5, 1.0, 0.0], (rows, columns)), shape=(2, 2))
    mdp = cpsrl.TabularMDP(matrix, np.zeros((2, 1)))
    np.testing.assert_array_equal(mdp.dense[:, 0], [[0.5, 0.5], [0, 1]])
    assert mdp.csr.nnz == 3


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_what_is_stored_twice_is_a_probability_each_time(form):
    where = [0, 0, 1], [0, 0, 1]
    matrix = scipy.sparse.coo_array(([2.0, -1.0, 1.0], where), shape=(2, 2))
    if form != "coo":
        stored = [2.0, -1.0, 1.0], [0, 0, 1], [0, 2, 3]
        matrix = getattr(scipy.sparse, f"{form}_array")(stored, shape=(2, 2))
    with pytest.raises(ValueError, match=r"from state 0 under action 0 to state 0 is -?[12]\.0"):
        cpsrl.TabularMDP(matrix, np.zeros((2, 1)))


def test_the_simulator_takes_one_uniform_a_step_through_the_inverse_distribution_function():
    mdp = cpsrl.environment("random", n_states=7, n_actions=3, concentration=7.0)
    uniforms = stream(5, 2, "transition").random(300)
    actions = np.random.default_rng(0).integers(3, size=300)
    simulator = mdp.simulator(seed=5, run=2)
    state = 0
    for u, action in zip(uniforms, actions, strict=True):
        right = int(np.searchsorted(np.cumsum(mdp.dense[state, action]), u, "right"))
        reward, following = simulator.step(int(action))
        assert reward == mdp.rewards[state, action]
        assert following == simulator.state == right
        state = following


def test_a_row_with_zeros_never_leads_where_it_cannot():
    mdp = cpsrl.TabularMDP([[[0, 1, 0, 0]]] * 4, np.zeros((4, 1)))
    simulator = mdp.simulator()
    assert {simulator.step(0)[1] for _ in range(100)} == {1}


@pytest.mark.parametrize("noise", [0.0, 0.5, "bernoulli"])
def test_two_policies_on_one_seed_meet_the_same_noise(noise):
    mdp = cpsrl.TabularMDP(P, R, noise=noise)
    first, second = Streams(3, 1), Streams(3, 1)
    one, other = Simulator(mdp, first), Simulator(mdp, second)
    differ = False
    for t in range(200):
        a, b = one.step(0), other.step(t % 2)
        differ |= a != b
    assert differ
    assert first.state() == second.state()


def test_gaussian_rewards_are_the_mean_plus_the_reward_stream():
    deviation = np.array([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0]])
    mdp = cpsrl.TabularMDP(P, R, noise=deviation)
    normals = stream(0, 4, "reward").standard_normal(100)
    simulator = mdp.simulator(seed=0, run=4)
    for t, normal in enumerate(normals):
        state, action = simulator.state, t % 2
        reward, _ = simulator.step(action)
        assert reward == R[state, action] + deviation[state, action] * normal


def test_bernoulli_rewards_are_zero_or_one_with_the_right_mean():
    mdp = cpsrl.TabularMDP(np.ones((1, 1, 1)), [[0.3]], noise="bernoulli")
    uniforms = stream(0, 0, "reward").random(1_000)
    simulator = mdp.simulator()
    rewards = [simulator.step(0)[0] for _ in range(1_000)]
    np.testing.assert_array_equal(rewards, uniforms < 0.3)


def test_the_initial_state_is_drawn_from_its_distribution():
    mdp = cpsrl.TabularMDP(P, R, initial=[0.25, 0.0, 0.75])
    starts = np.array([mdp.simulator(seed=0, run=run).state for run in range(2_000)])
    uniforms = np.array([stream(0, run, "transition").random() for run in range(2_000)])
    np.testing.assert_array_equal(starts, np.where(uniforms < 0.25, 0, 2))
    assert cpsrl.TabularMDP(P, R, initial=1).simulator().state == 1


@pytest.mark.parametrize("action", [2, -1])
def test_an_action_out_of_range_is_refused_and_changes_nothing(action):
    mdp = cpsrl.TabularMDP(P, R, noise=1.0)
    simulator = mdp.simulator()
    before = (simulator.state, simulator.streams.state())
    with pytest.raises(ValueError, match=f"action must be a whole number in 0..1, not {action}"):
        simulator.step(action)
    assert (simulator.state, simulator.streams.state()) == before


@pytest.mark.parametrize("sizes", [(0, 2), (3, -1), (2.5, 1), (True, 1)])
def test_sizes_are_whole_and_positive(sizes):
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        cpsrl.Sizes(*sizes)


AVAILABLE = np.array([[False, True], [True, True], [True, False]])


@pytest.mark.parametrize("form", [lambda x: x, sparse], ids=["dense", "sparse"])
@pytest.mark.parametrize("junk", [0.0, np.nan])
def test_an_unavailable_action_repeats_the_first_that_is_available(form, junk):
    transitions, rewards, noise = P.copy(), R.copy(), np.full((3, 2), 0.5)
    for array in (transitions, rewards, noise):
        array[~AVAILABLE] = junk
    noise[~AVAILABLE] = 9
    mdp = cpsrl.TabularMDP(form(transitions), rewards, available=AVAILABLE, noise=noise)
    assert mdp.stand_in.tolist() == [[1, 1], [0, 1], [0, 0]]
    for state, action in np.argwhere(~AVAILABLE):
        other = mdp.stand_in[state, action]
        assert np.array_equal(mdp.dense[state, action], P[state, other])
        assert mdp.rewards[state, action] == R[state, other]
    assert np.array_equal(mdp.dense[AVAILABLE], P[AVAILABLE])
    assert (mdp.noise == 0.5).all()
    assert mdp.allowed(np.array([0, 0, 1])).tolist() == [1, 0, 0]
    assert np.array_equal(replace(mdp, name="x").available, AVAILABLE)


def test_where_all_actions_are_available_nothing_is_kept_of_it():
    mdp = cpsrl.TabularMDP(P, R, available=np.ones((3, 2), np.int8))
    assert mdp.available is None
    assert mdp.sizes == cpsrl.TabularMDP(P, R).sizes == cpsrl.Sizes(3, 2)
    assert mdp.stand_in.tolist() == [[0, 1]] * 3


@pytest.mark.parametrize(
    ("available", "complaint"),
    [
        (AVAILABLE[:2], r"available must be \(S, A\) = \(3, 2\)"),
        (AVAILABLE * 0.5, "of True and False"),
        (AVAILABLE * 2, "of True and False"),
        (changed(AVAILABLE, 2, False), r"available\[2\] has no action"),
    ],
)
def test_a_wrong_mask_is_refused(available, complaint):
    with pytest.raises(ValueError, match=complaint):
        cpsrl.TabularMDP(P, R, available=available)
    with pytest.raises(ValueError, match=complaint):
        cpsrl.Sizes(3, 2, available=available)


def test_sizes_compare_by_what_is_available():
    masked = cpsrl.Sizes(3, 2, available=AVAILABLE)
    assert masked == cpsrl.Sizes(3, 2, available=AVAILABLE.tolist()) != cpsrl.Sizes(3, 2)
    mdp = cpsrl.TabularMDP(P, R, available=AVAILABLE, reward_range=(0, 1))
    assert len({masked, mdp.sizes}) == 1


def test_the_simulator_refuses_an_unavailable_action_by_name():
    for names, complaint in ((NAMES, "'wait' .* 'low'"), ({}, "action 0 .* state 0")):
        simulator = cpsrl.TabularMDP(P, R, available=AVAILABLE, **names).simulator()
        before = simulator.streams.state()
        with pytest.raises(ValueError, match=complaint):
            simulator.step(0)
        assert simulator.streams.state() == before
        simulator.step(1)


def by_transition(rng, n_states=6, n_actions=2, successors=3):
    """Transitions (S, A, S) with so many successors, and rewards (S, A, S)."""
    weights = rng.random((n_states, n_actions, n_states))
    weights *= weights >= np.sort(weights)[..., -successors, None]
    return weights / weights.sum(-1, keepdims=True), rng.random(weights.shape)


@pytest.mark.parametrize("successors", [3, 6])
@pytest.mark.parametrize("noise", [0.0, 0.3, "bernoulli"])
def test_the_reward_is_that_of_the_transition(noise, successors):
    transitions, rewards = by_transition(np.random.default_rng(successors), successors=successors)
    mdp = cpsrl.TabularMDP(transitions, rewards, noise=noise)
    np.testing.assert_allclose(mdp.rewards, (transitions * rewards).sum(2), rtol=1e-14)
    rows, states = mdp.csr.nonzero()
    assert np.array_equal(mdp.transition_rewards, rewards.reshape(12, 6)[rows, states])
    simulator, excess, squares = mdp.simulator(), [], []
    for step in range(3000):
        state, action = simulator.state, step % 2
        reward, next_state = simulator.step(action)
        mean = rewards[state, action, next_state]
        excess.append(reward - mean)
        squares.append(mean * (1 - mean) if noise == "bernoulli" else noise**2)
    if noise == 0:
        assert not np.any(excess)
    else:
        assert abs(np.mean(excess)) < 4 * np.sqrt(np.mean(squares) / 3000)
        assert np.mean(np.square(excess)) == pytest.approx(np.mean(squares), rel=0.1)


def test_rewards_of_transitions_come_in_any_form_and_stay():
    transitions, rewards = by_transition(np.random.default_rng(0))
    mdp = cpsrl.TabularMDP(transitions, rewards)
    other = cpsrl.TabularMDP(sparse(transitions), scipy.sparse.coo_array(sparse(rewards)))
    again = replace(other, name="again", available=np.arange(12).reshape(6, 2) > 0)
    for one in (other, again):
        assert np.array_equal(mdp.rewards[1:], one.rewards[1:])
        assert np.array_equal(mdp.transition_rewards[6:], one.transition_rewards[6:])
    assert np.array_equal(again.transition_rewards[:3], again.transition_rewards[3:6])
    with pytest.raises(ValueError, match="the means of transition_rewards"):
        replace(mdp, rewards=mdp.rewards + 1)
    nowhere = scipy.sparse.csr_array((12, 6))
    assert not cpsrl.TabularMDP(transitions, nowhere).rewards.any()


def test_rewards_that_do_not_depend_on_the_transition_are_kept_by_row():
    rewards = np.repeat(R[:, :, None], 3, axis=2)
    mdp = cpsrl.TabularMDP(P, np.where(P > 0, rewards, 7.0))
    assert mdp.transition_rewards is None
    assert np.array_equal(mdp.rewards, R)


@pytest.mark.parametrize(
    ("rewards", "options", "complaint"),
    [
        (np.zeros((3, 2, 2)), {}, r"rewards must be \(S, A\) or \(S, A, S\)"),
        (scipy.sparse.csr_array((7, 3)), {}, r"sparse matrix \(S\*A, S\), .* not \(7, 3\)"),
        (np.full((3, 2, 3), np.nan), {}, r"rewards\[0, 0, 0\] is nan"),
        (3 * P, {"noise": "bernoulli"}, r"means in \[0, 1\]"),
        (np.where(P > 0.5, 1.5, 0), {"noise": "bernoulli"}, r"means in \[0, 1\]"),
        (R, {"transition_rewards": [1.0]}, r"transition_rewards must be \(9,\), not \(1,\)"),
        (R, {"transition_rewards": np.ones(9)}, "the means of transition_rewards"),
    ],
)
def test_wrong_rewards_of_transitions_are_refused(rewards, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        cpsrl.TabularMDP(P, rewards, **options)


@pytest.mark.parametrize("form", [lambda x: x, sparse], ids=["dense", "sparse"])
def test_npz_keeps_what_is_available_and_rewards_of_transitions(form, tmp_path):
    transitions, rewards = by_transition(np.random.default_rng(0))
    mask = np.random.default_rng(1).random((6, 2)) < 0.7
    mask[:, 0] |= ~mask[:, 1]
    mdp = cpsrl.TabularMDP(form(transitions), rewards, available=mask)
    mdp.save(tmp_path / "mdp.npz")
    read = cpsrl.TabularMDP.load(tmp_path / "mdp.npz")
    for name in ("dense", "rewards", "transition_rewards", "available"):
        assert np.array_equal(getattr(read, name), getattr(mdp, name)), name


def test_successors_are_counted_with_32_bits():
    mdp = cpsrl.environment("random", n_states=150, n_actions=2, successors=3)
    assert mdp.csr.indices.dtype == mdp.csr.indptr.dtype == np.int32


def test_a_frozen_matrix_with_64_bits_shares_its_numbers_and_has_its_successors_narrowed():
    given = cpsrl.environment("random", n_states=150, n_actions=2, successors=3).csr.copy()
    given.indices, given.indptr = given.indices.astype(np.int64), given.indptr.astype(np.int64)
    for part in (given.data, given.indices, given.indptr):
        part.setflags(write=False)
    mdp = cpsrl.TabularMDP(given, np.zeros((150, 2)))
    assert mdp.csr.indices.dtype == mdp.csr.indptr.dtype == np.int32
    assert np.shares_memory(mdp.csr.data, given.data)
    assert given.indices.dtype == np.int64
