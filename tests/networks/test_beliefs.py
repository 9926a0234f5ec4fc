"""Heads and hypermodels against plain NumPy in float64, and what they draw."""

import numpy as np
import pytest

from cpsrl.networks import Heads, Hypermodel
from cpsrl.objectives import Discounted

learner = pytest.importorskip("cpsrl.networks.learner")

FEATURES, ACTIONS, ROWS = 5, 3, 4
HEADS = Heads(6, prior_scale=3.0, hidden=(7, 4))
HYPER = Hypermodel(2, functions=3, prior_scale=3.0, noise=0.5, hidden=(7, 4))


def begun(belief, seed=0):
    """A learner with biases that are not 0, and observations."""
    rng = np.random.default_rng(seed)
    new = learner.new_learner(belief, Discounted(), rng, FEATURES, ACTIONS)
    for name, array in new.online.items():
        if name.startswith("b"):
            array += rng.normal(size=array.shape).astype(np.float32)
    return new, rng.normal(size=(ROWS, FEATURES)).astype(np.float32)


def last_layer(weights, x):
    """The last hidden layer (M, H) of one network, and the weights and biases after it."""
    hidden, layers = x.astype(np.float64), len(weights) // 2
    for layer in range(layers - 1):
        hidden = np.maximum(hidden @ weights[f"w{layer}"][0] + weights[f"b{layer}"][0], 0)
    return hidden, weights[f"w{layers - 1}"][0], weights[f"b{layers - 1}"][0]


def test_heads_are_linear_in_what_they_share():
    new, x = begun(HEADS)
    phi, w, b = last_layer(new.online, x)
    wanted = np.stack(
        [phi @ w[:, 3 * k : 3 * k + 3] + b[3 * k : 3 * k + 3] for k in range(HEADS.members)]
    )
    np.testing.assert_allclose(HEADS.outputs(new.online, None, x), wanted, atol=1e-5)
    picked = np.array([4, 0, 4])
    np.testing.assert_allclose(HEADS.outputs(new.online, picked, x), wanted[picked], atol=1e-5)


def test_a_hypermodel_is_linear_in_what_is_drawn():
    new, x = begun(HYPER)
    z = HYPER.draw_index(np.random.default_rng(1), 5)
    for weights, constant in ((new.online, 1), (new.prior, 0)):
        phi, w, b = last_layer(weights, x)
        parts = (phi @ w + b).reshape(ROWS, 3, ACTIONS)
        drawn = [constant, *np.ones(2) / np.sqrt(2)] * np.insert(z, 0, 1, axis=1)
        wanted = np.einsum("jd,mda->jma", drawn, parts)
        got = HYPER.outputs(weights, z.astype(np.float32), x)
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize(
    "belief", [Heads(200, hidden=(40,)), Hypermodel(50, hidden=(40,))], ids=repr
)
def test_prior_functions_are_spread_as_those_of_networks(belief):
    """Given the trunk's phi, they have mean 0 and variance scale^2 |phi|^2 / H over the index."""
    new = learner.new_learner(belief, Discounted(), np.random.default_rng(0), FEATURES, 20)
    x = np.random.default_rng(1).normal(size=(ROWS, FEATURES)).astype(np.float32)
    index = belief.draw_index(np.random.default_rng(2), 4000)
    q = np.asarray(belief.prior_outputs(new.prior, index, x))
    phi = last_layer(new.prior, x)[0]
    wanted = belief.prior_scale**2 * (phi**2).sum(1) / 40
    assert (np.abs(q.mean((0, 2))) < 0.3 * np.sqrt(wanted)).all()
    np.testing.assert_allclose(q.var(0).mean(1), wanted, rtol=0.3)


def test_indices_and_directions_are_what_they_should_be():
    rng, n = np.random.default_rng(0), 20_000
    uniform = rng.random((n, HYPER.uniforms))
    uniform[0, :4] = 0
    z = HYPER.update_indices(uniform)
    assert z.shape == (n, 3, 2)
    assert np.isfinite(z).all()
    assert np.abs(z[1:].mean((0, 1))).max() < 4 / np.sqrt(3 * n)
    np.testing.assert_allclose(np.cov(z[1:].reshape(-1, 2).T), np.eye(2), atol=0.03)
    xi = HYPER.signatures(uniform).view(np.float32)
    np.testing.assert_allclose(np.linalg.norm(xi, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(xi.T @ xi / n, np.eye(2) / 2, atol=0.02)
    assert np.abs(np.mean(xi[:, :1] * z[:, 0, :])) < 0.03
    quiet = Hypermodel(2, functions=3)
    assert quiet.uniforms == 6
    assert quiet.signatures(uniform).shape == (n, 0)


def test_every_function_is_drawn_to_its_own_perturbed_targets():
    rng = np.random.default_rng(0)
    prediction, target = rng.normal(size=(2, 3, ROWS)).astype(np.float32)
    z = rng.normal(size=(3, 2)).astype(np.float32)
    signature = HYPER.signatures(rng.random((ROWS, HYPER.uniforms)))
    xi = signature.view(np.float32)
    errors = [
        (prediction[j, b] - target[j, b] - HYPER.noise * z[j] @ xi[b]) ** 2 / ROWS
        for j in range(3)
        for b in range(ROWS)
    ]
    assert abs(HYPER.loss(prediction, target, signature, z) - np.sum(errors)) < 1e-4


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (Hypermodel, {"dimension": 0}, "dimension must be a whole number of at least 1, not 0"),
        (Hypermodel, {"functions": 1.5}, "functions must be a whole number"),
        (Hypermodel, {"noise": -1}, "noise must be"),
        (Hypermodel, {"prior_scale": "large"}, "prior_scale must be"),
        (Hypermodel, {"hidden": (0,)}, "hidden layer"),
        (Heads, {"members": 0}, "members must be a whole number of at least 1, not 0"),
        (Heads, {"mask": 2}, "mask must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
