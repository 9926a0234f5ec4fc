"""The networks against plain NumPy in float64."""

import numpy as np
import pytest

from cpsrl.networks import Members
from cpsrl.objectives import Average, Discounted

networks = pytest.importorskip("cpsrl.networks.learner")

FEATURES, ACTIONS, ROWS, GAMMA, RATE = 5, 3, 8, 0.9, 1e-3
MASKED = Members(2, prior_scale=3.0, mask=0.5, hidden=(7, 4))
PLAIN = Members(2, prior_scale=3.0, hidden=(7, 4))


def forward(params, k, x):
    """The output of member k and the activations of every layer."""
    layers, kept = len(params) // 2, [x.astype(np.float64)]
    for layer in range(layers):
        z = kept[-1] @ params[f"w{layer}"][k].astype(np.float64) + params[f"b{layer}"][k]
        kept.append(np.maximum(z, 0) if layer < layers - 1 else z)
    return kept[-1], kept


def backward(params, k, kept, cotangent):
    """The gradient of member k's weights, given that of its output."""
    gradient, layers = {}, len(params) // 2
    for layer in reversed(range(layers)):
        gradient[f"w{layer}"] = kept[layer].T @ cotangent
        gradient[f"b{layer}"] = cotangent.sum(0)
        cotangent = (cotangent @ params[f"w{layer}"][k].T) * (kept[layer] > 0)
    return gradient


def errors(learner, k, x, next_x, batch, gamma=GAMMA, centre=0.0):
    """Q(x_b, a_b) - (r_b - rbar) - gamma max_a Q'(x'_b, a) of member k, and its activations."""
    rows = np.arange(len(x))
    q, kept = forward(learner.online, k, x)
    q = q + forward(learner.prior, k, x)[0]
    next_q = forward(learner.target, k, next_x)[0] + forward(learner.prior, k, next_x)[0]
    return q[rows, batch.action] - (batch.reward - centre) - gamma * next_q.max(1), kept


def reference_gradient(learner, k, x, next_x, batch, mask, **how):
    """The gradient of (1/B) sum_b m_b e_b^2, e_b being the errors."""
    rows = np.arange(len(x))
    error, kept = errors(learner, k, x, next_x, batch, **how)
    cotangent = np.zeros((len(x), ACTIONS))
    cotangent[rows, batch.action] = 2 * mask[:, k] * error / len(x)
    return backward(learner.online, k, kept, cotangent)


@pytest.fixture
def problem():
    """Two networks in the middle of training, and a minibatch with masks."""
    rng = np.random.default_rng(1)
    learner = networks.new_learner(MASKED, Discounted(), rng, FEATURES, ACTIONS)
    other = MASKED.initialise(rng, FEATURES, ACTIONS)[0]
    moments = {name: rng.normal(size=w.shape).astype("f4") for name, w in other.items()}
    squares = {name: w**2 for name, w in moments.items()}
    adam = learner.adam._replace(count=np.int32(4), mu=moments, nu=squares)
    learner = learner._replace(target=other, adam=adam)
    x, next_x = rng.normal(size=(2, ROWS, FEATURES)).astype(np.float32)
    each, signature = np.arange(ROWS), MASKED.signatures(rng.random((ROWS, 2)))
    batch = networks.Batch(
        each,
        rng.integers(0, ACTIONS, ROWS),
        rng.normal(size=ROWS).astype("f4"),
        each,
        signature,
        np.float32(GAMMA),
    )
    return learner, x, next_x, batch


def learnt(belief, learner, x, next_x, batch):
    how = networks.Learning(belief, Discounted(), RATE)
    return networks.learn(learner, x, next_x, batch, how)


@pytest.mark.parametrize("indices", [None, np.array([1]), np.array([1, 0, 1])])
def test_outputs_are_those_of_plain_networks(problem, indices):
    learner, x, _, _ = problem
    got = MASKED.outputs(learner.online, indices, x)
    wanted = [forward(learner.online, k, x)[0] for k in ([0, 1] if indices is None else indices)]
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("belief", [MASKED, PLAIN], ids=["masks", "none"])
def test_an_update_is_one_step_of_adam_on_the_belief_s_loss(problem, belief):
    learner, x, next_x, batch = problem
    after = learnt(belief, *problem)
    mask = batch.signature >> np.arange(2) & 1 if belief is MASKED else np.ones((ROWS, 2))
    t = int(learner.adam.count) + 1
    assert int(after.adam.count) == t
    for k in range(2):
        gradient = reference_gradient(learner, k, x, next_x, batch, mask)
        for name, g in gradient.items():
            mean = 0.9 * learner.adam.mu[name][k] + 0.1 * g
            square = 0.999 * learner.adam.nu[name][k] + 0.001 * g**2
            step = mean / (1 - 0.9**t) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
            np.testing.assert_allclose(after.adam.mu[name][k], mean, atol=1e-5)
            np.testing.assert_allclose(
                after.online[name][k], learner.online[name][k] - RATE * step, atol=1e-6
            )
    for name, w in learner.prior.items():
        np.testing.assert_array_equal(after.prior[name], w)
        np.testing.assert_array_equal(after.target[name], learner.target[name])


def test_centred_rewards_are_learnt_undiscounted_and_their_average_follows_the_errors(problem):
    learner, x, next_x, batch = problem
    begun = learner._replace(centre=np.float32(0.7))
    how = networks.Learning(PLAIN, Average(), RATE)
    after = networks.learn(begun, x, next_x, batch._replace(gamma=np.float32(1)), how)
    centred = {"gamma": 1.0, "centre": 0.7}
    error = [errors(learner, k, x, next_x, batch, **centred)[0] for k in range(2)]
    assert abs(after.centre - 0.7 + Average.centre_rate * np.mean(error)) < 1e-6
    for k in range(2):
        ones = np.ones((ROWS, 2))
        for name, g in reference_gradient(learner, k, x, next_x, batch, ones, **centred).items():
            mean = 0.9 * learner.adam.mu[name][k] + 0.1 * g
            np.testing.assert_allclose(after.adam.mu[name][k], mean, atol=1e-5)


def test_the_average_comes_to_rest_at_the_gain():
    """Two states in turn, paying 0 and 1: the gain is 1/2, the bias of the second 1/2 more."""
    belief, rng = Members(3, 1.0, hidden=(10,)), np.random.default_rng(0)
    learner = networks.new_learner(belief, Average(), rng, 2, 1)
    x, each, none = np.eye(2, dtype=np.float32), np.arange(2), np.zeros((2, 0), np.int32)
    rewards, gamma = np.float32([0, 1]), np.float32(1)
    batch = networks.Batch(each, np.zeros(2, int), rewards, each, none, gamma)
    how = networks.Learning(belief, Average(), 3e-3)
    for t in range(3000):
        learner = networks.learn(learner, x, x[::-1], batch, how)
        if t % 10 == 0:
            learner = learner._replace(target=learner.online)
    assert abs(learner.centre - 0.5) < 0.01
    q = belief.outputs(learner.online, None, x) + belief.prior_outputs(learner.prior, None, x)
    np.testing.assert_allclose(q[:, 1, 0] - q[:, 0, 0], 0.5, atol=0.05)


def test_the_gradient_over_a_table_is_that_over_its_gathered_rows(problem):
    import jax

    learner, x, _, batch = problem
    rng = np.random.default_rng(2)
    table = x[:3]
    batch = batch._replace(row=rng.integers(0, 3, ROWS), next_row=rng.integers(0, 3, ROWS))
    next_value = np.asarray(MASKED.outputs(learner.target, None, table)).max(-1)

    def loss(online, rows, next_rows, x, next_value):
        each, q = batch._replace(row=rows, next_row=next_rows), MASKED.outputs(online, None, x)
        how = networks.Learning(MASKED, Discounted(), RATE)
        return networks.td_loss(q, next_value, each, None, how)[0]

    whole = jax.grad(loss)(learner.online, batch.row, batch.next_row, table, next_value)
    each = np.arange(ROWS)
    gathered = jax.grad(loss)(
        learner.online, each, each, table[batch.row], next_value[:, batch.next_row]
    )
    for name, g in gathered.items():
        np.testing.assert_allclose(whole[name], g, atol=1e-5)


def test_a_member_whose_masks_are_zero_has_no_gradient(problem):
    learner, x, next_x, batch = problem
    after = learnt(MASKED, learner, x, next_x, batch._replace(signature=batch.signature & 2))
    for name, mean in learner.adam.mu.items():
        np.testing.assert_allclose(after.adam.mu[name][0], 0.9 * mean[0], rtol=1e-6)
        assert not np.allclose(after.adam.mu[name][1], 0.9 * mean[1], rtol=1e-6)


@pytest.mark.parametrize("members", [2, 31, 32, 33, 70])
def test_a_signature_holds_the_mask_of_every_member(members):
    uniform = np.random.default_rng(0).random((5, members))
    signature = Members(members, mask=0.5).signatures(uniform)
    k = np.arange(members)
    np.testing.assert_array_equal(signature[:, k // 32] >> k % 32 & 1, uniform < 0.5)


def test_weights_begin_as_normals_of_variance_one_over_fan_in():
    belief = Members(50, prior_scale=7.0, hidden=(40,))
    learner = networks.new_learner(belief, Discounted(), np.random.default_rng(0), 20, 2)
    for params, last in ((learner.online, 1.0), (learner.prior, 7.0)):
        for name, scale in (("w0", 20**-0.5), ("w1", last * 40**-0.5)):
            w = params[name]
            assert abs(w.mean()) < 4 * scale / np.sqrt(w.size)
            assert abs(w.std() / scale - 1) < 4 / np.sqrt(2 * w.size)
        assert not params["b0"].any()
        assert not params["b1"].any()
    assert not np.array_equal(learner.online["w0"], learner.prior["w0"])


def test_stored_networks_must_have_the_right_shape(problem):
    learner = problem[0]
    state = networks.learner_state(learner)
    back = networks.restored_learner(state, learner)
    for name, w in learner.adam.nu.items():
        np.testing.assert_array_equal(back.adam.nu[name], w)
    assert int(back.adam.count) == 4
    wider = Members(2, hidden=(8, 4)), Discounted(), np.random.default_rng(0), 5, 3
    with pytest.raises(ValueError, match="do not fit"):
        networks.restored_learner(state, networks.new_learner(*wider))
    centred = learner._replace(centre=np.float32(0.5))
    assert networks.restored_learner(networks.learner_state(centred), centred).centre == 0.5
    for one, other in ((learner, centred), (centred, learner)):
        with pytest.raises(ValueError, match="do not fit"):
            networks.restored_learner(networks.learner_state(one), other)


def test_targets_look_ahead_to_available_actions_only():
    """What a mask takes from the next value, it takes from the target: as from the reward."""
    jax = pytest.importorskip("jax")
    belief, objective = Members(members=3, hidden=(8,)), Discounted()
    rng = np.random.default_rng(0)
    begun = networks.new_learner(belief, objective, rng, 4, 3)
    x, next_x = rng.random((2, 5, 4)).astype(np.float32)
    available = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]], bool)
    each, gamma = np.arange(5), np.float32(0.9)
    batch = networks.Batch(
        each, each % 3, np.zeros(5, np.float32), each, np.zeros((5, 0), np.int32), gamma
    )
    values = belief.outputs(begun.target, None, next_x)
    values = np.asarray(values + belief.prior_outputs(begun.prior, None, next_x))
    allowed = np.where(available, values, -np.inf).max(-1)
    masked = batch._replace(next_available=available)
    how = networks.Learning(belief, objective, 1e-3)
    got = networks.learn(begun, x, next_x, masked, how)
    prediction = belief.outputs(begun.online, None, x) + belief.prior_outputs(begun.prior, None, x)

    _, pull_back = jax.vjp(lambda w: belief.outputs(w, None, x), begun.online)
    wanted = networks.descend(begun, prediction, pull_back, allowed, batch, how)
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)
    for k in range(3):
        picked = networks.greedy(begun, np.int64(k), next_x[0], belief, available[0])
        online = belief.outputs(begun.online, None, next_x)[k, 0]
        q = np.asarray(online + belief.prior_outputs(begun.prior, None, next_x)[k, 0])
        assert picked == np.where(available[0], q, -np.inf).argmax()
