"""The networks against plain NumPy in float64."""

import numpy as np
import pytest

networks = pytest.importorskip("cpsrl.networks.ensemble")

SIZES = (5, 7, 4, 3)
MEMBERS, ROWS, GAMMA, RATE = 2, 8, 0.9, 1e-3


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


def reference_gradient(ensemble, k, x, next_x, batch):
    """The gradient of (1/B) sum_b m_b (Q(x_b, a_b) - r_b - gamma max_a Q'(x'_b, a))^2."""
    rows = np.arange(len(x))
    q, kept = forward(ensemble.online, k, x)
    q = q + forward(ensemble.prior, k, x)[0]
    next_q = forward(ensemble.target, k, next_x)[0] + forward(ensemble.prior, k, next_x)[0]
    error = q[rows, batch.action] - batch.reward - GAMMA * next_q.max(1)
    cotangent = np.zeros_like(q)
    cotangent[rows, batch.action] = 2 * batch.mask[:, k] * error / len(x)
    return backward(ensemble.online, k, kept, cotangent)


@pytest.fixture
def problem():
    """An ensemble in the middle of training, and a minibatch with masks."""
    rng = np.random.default_rng(1)
    ensemble = networks.initialise(rng, MEMBERS, SIZES, 3.0)
    other = networks.initialise(rng, MEMBERS, SIZES, 3.0).online
    moments = {name: rng.normal(size=w.shape).astype("f4") for name, w in other.items()}
    squares = {name: w**2 for name, w in moments.items()}
    adam = ensemble.adam._replace(count=np.int32(4), mu=moments, nu=squares)
    ensemble = ensemble._replace(target=other, adam=adam)
    x, next_x = rng.normal(size=(2, ROWS, SIZES[0])).astype(np.float32)
    each = np.arange(ROWS)
    mask = rng.integers(0, 2, (ROWS, MEMBERS)).astype(np.float32)
    batch = networks.Batch(
        each, rng.integers(0, SIZES[-1], ROWS), rng.normal(size=ROWS).astype("f4"), each, mask
    )
    return ensemble, x, next_x, batch


def test_values_are_those_of_a_plain_network(problem):
    ensemble, x, _, _ = problem
    got = networks.values(ensemble.online, x)
    assert got.shape == (MEMBERS, ROWS, SIZES[-1])
    for k in range(MEMBERS):
        np.testing.assert_allclose(got[k], forward(ensemble.online, k, x)[0], atol=1e-5)


def test_an_update_is_one_step_of_adam_on_the_masked_loss(problem):
    ensemble, x, next_x, batch = problem
    after = networks.learn(ensemble, x, next_x, batch, np.float32(GAMMA), RATE)
    t = int(ensemble.adam.count) + 1
    assert int(after.adam.count) == t
    for k in range(MEMBERS):
        gradient = reference_gradient(ensemble, k, x, next_x, batch)
        for name, g in gradient.items():
            mean = 0.9 * ensemble.adam.mu[name][k] + 0.1 * g
            square = 0.999 * ensemble.adam.nu[name][k] + 0.001 * g**2
            step = mean / (1 - 0.9**t) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
            np.testing.assert_allclose(after.adam.mu[name][k], mean, atol=1e-5)
            np.testing.assert_allclose(
                after.online[name][k], ensemble.online[name][k] - RATE * step, atol=1e-6
            )
    for name, w in ensemble.prior.items():
        np.testing.assert_array_equal(after.prior[name], w)
        np.testing.assert_array_equal(after.target[name], ensemble.target[name])


def test_the_gradient_over_a_table_is_that_over_its_gathered_rows(problem):
    import jax

    ensemble, x, _, batch = problem
    rng = np.random.default_rng(2)
    table = x[:3]
    batch = batch._replace(row=rng.integers(0, 3, ROWS), next_row=rng.integers(0, 3, ROWS))
    next_value = np.asarray(networks.values(ensemble.target, table)).max(-1)

    def loss(online, rows, next_rows, x, next_value):
        each = batch._replace(row=rows, next_row=next_rows)
        return networks.td_loss(networks.values(online, x), next_value, each, GAMMA)

    whole = jax.grad(loss)(ensemble.online, batch.row, batch.next_row, table, next_value)
    each = np.arange(ROWS)
    gathered = jax.grad(loss)(
        ensemble.online, each, each, table[batch.row], next_value[:, batch.next_row]
    )
    for name, g in gathered.items():
        np.testing.assert_allclose(whole[name], g, atol=1e-5)


def test_a_member_whose_masks_are_zero_has_no_gradient(problem):
    ensemble, x, next_x, batch = problem
    mask = batch.mask.copy()
    mask[:, 0] = 0
    after = networks.learn(ensemble, x, next_x, batch._replace(mask=mask), np.float32(GAMMA), RATE)
    for name, mean in ensemble.adam.mu.items():
        np.testing.assert_allclose(after.adam.mu[name][0], 0.9 * mean[0], rtol=1e-6)
        assert not np.allclose(after.adam.mu[name][1], 0.9 * mean[1], rtol=1e-6)


def test_weights_begin_as_normals_of_variance_one_over_fan_in():
    ensemble = networks.initialise(np.random.default_rng(0), 50, (20, 40, 2), 7.0)
    for params, last in ((ensemble.online, 1.0), (ensemble.prior, 7.0)):
        for name, scale in (("w0", 20**-0.5), ("w1", last * 40**-0.5)):
            w = params[name]
            assert abs(w.mean()) < 4 * scale / np.sqrt(w.size)
            assert abs(w.std() / scale - 1) < 4 / np.sqrt(2 * w.size)
        assert not params["b0"].any()
        assert not params["b1"].any()
    assert not np.array_equal(ensemble.online["w0"], ensemble.prior["w0"])


def test_a_stored_ensemble_must_have_the_right_shape(problem):
    ensemble = problem[0]
    state = networks.ensemble_state(ensemble)
    back = networks.restored_ensemble(state, ensemble)
    for name, w in ensemble.adam.nu.items():
        np.testing.assert_array_equal(back.adam.nu[name], w)
    assert int(back.adam.count) == 4
    wider = networks.initialise(np.random.default_rng(0), MEMBERS, (5, 8, 4, 3), 3.0)
    with pytest.raises(ValueError, match="do not fit"):
        networks.restored_ensemble(state, wider)
