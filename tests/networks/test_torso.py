"""Torsos against XLA's own convolution, what is normalised, and where pictures come from."""

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.experiments import Experiment
from cpsrl.experiments.entry import make_agent
from cpsrl.networks import DQN, Convolution, Heads, Hypermodel, Members, Torso, ValueSampling
from cpsrl.objectives import Discounted
from cpsrl.seeding import Streams
from cpsrl.simulation import readable, simulate
from cpsrl.simulation.loops import Recorder, Run

jax = pytest.importorskip("jax")
PICTURE, ACTIONS = (6, 5, 2), 3
X = np.random.default_rng(1).normal(size=(7, 60)).astype(np.float32)


def normal(h, axes):
    return (h - h.mean(axes, keepdims=True)) / np.sqrt(h.var(axes, keepdims=True) + 1e-5)


def by_xla(weights, k, torso, x):
    """The outputs (M, A) of network k, layer by layer, by XLA's convolution."""
    h = x.reshape(len(x), *PICTURE)
    for i, channels in enumerate(torso.channels):
        kernel = weights[f"k{i}"][k].reshape(torso.size, torso.size, h.shape[-1], channels)
        form = ("NHWC", "HWIO", "NHWC")
        h = jax.lax.conv_general_dilated(h, kernel, (1, 1), "VALID", dimension_numbers=form)
        h = np.asarray(h + weights[f"c{i}"][k], np.float64)
        h = np.maximum(normal(h, (1, 2, 3)) if torso.normalise else h, 0).astype(np.float32)
    h = h.reshape(len(x), -1) @ weights["w0"][k] + weights["b0"][k]
    h = np.maximum(normal(h, (1,)) if torso.normalise else h, 0)
    return h @ weights["w1"][k] + weights["b1"][k]


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("channels", [(4,), (4, 3)])
def test_a_convolution_is_that_of_xla(channels, normalise):
    torso = Convolution(channels, picture=PICTURE, normalise=normalise)
    belief = Members(3, hidden=(8,), torso=torso)
    weights, _ = belief.initialise(np.random.default_rng(0), 60, ACTIONS)
    for name in ("c0", "b0"):
        weights[name] += np.float32(0.3)
    found = np.asarray(belief.outputs(weights, None, X))
    for k in range(3):
        np.testing.assert_allclose(found[k], by_xla(weights, k, torso, X), atol=1e-5)
    picked = np.array([2, 0])
    np.testing.assert_array_equal(belief.outputs(weights, picked, X), found[picked])


@pytest.mark.parametrize("belief", [Heads, Hypermodel])
def test_functions_share_a_torso(belief):
    made = belief(hidden=(8,), torso=Convolution((4,), picture=PICTURE))
    weights, prior = made.initialise(np.random.default_rng(0), 60, ACTIONS)
    assert weights["k0"].shape == prior["k0"].shape == (1, 18, 4)
    assert weights["w0"].shape == (1, 4 * 3 * 4, 8)
    assert (weights["k0"] != prior["k0"]).all()


def test_gradients_are_those_of_differences():
    torso = Convolution((2,), picture=PICTURE, normalise=True)
    belief = Members(2, hidden=(4,), torso=torso)
    weights, _ = belief.initialise(np.random.default_rng(0), 60, ACTIONS)

    def loss(weights):
        return (belief.outputs(weights, None, X) ** 2).sum()

    slopes = jax.grad(loss)(weights)
    for name in ("k0", "c0", "w0"):
        at, step = np.unravel_index(abs(slopes[name]).argmax(), slopes[name].shape), 1e-3
        high, low = ({**weights, name: weights[name].copy()} for _ in range(2))
        high[name][at] += step
        low[name][at] -= step
        measured = float(loss(high) - loss(low)) / (2 * step)
        assert measured == pytest.approx(float(slopes[name][at]), rel=0.02)


def test_a_torso_takes_the_picture_of_the_environment():
    world = cpsrl.environment("pixel-catch", rows=6, columns=4)
    spec = ValueSampling(belief=Heads(members=2, hidden=(6,), torso=Convolution((3,))))
    assert cpsrl.start(spec, world).spec.belief.torso.picture == (6, 4, 1)
    with pytest.raises(ValueError, match="needs observations that are pictures"):
        cpsrl.start(spec, cpsrl.environment("pendulum"))
    wrong = ValueSampling(belief=Heads(torso=Convolution(picture=(9, 9, 1))))
    with pytest.raises(ValueError, match="24 numbers is not a picture"):
        cpsrl.start(wrong, world)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"channels": 0}, "channels must be"),
        ({"size": 3, "picture": (3, 2, 1)}, "leave nothing of a picture of 3 x 2"),
        ({"picture": (3, 2)}, "picture must be"),
    ],
)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Convolution(**options)
    with pytest.raises(ValueError, match="torso must be"):
        Heads(torso="convolution")


def test_in_the_compiled_loop_it_is_the_run_of_the_live_agent_split_or_not():
    world = cpsrl.environment("pixel-catch", rows=5, columns=4)
    torso = Convolution((3,), normalise=True)
    belief = Heads(members=2, hidden=(6,), torso=torso)
    spec = ValueSampling(objective=Discounted(0.9), belief=belief, batch=4, capacity=40)
    whole = simulate(spec, world, 60, [3], trajectory=True)
    first = simulate(spec, world, 25, [3])
    rest = simulate(spec, world, 35, resume=first.state)
    assert equal(rest.state[0], whole.state[0])
    streams = Streams(0, 3)
    run = Run(spec.start(world, streams), world.simulator(0, 3))
    run.simulator.streams = streams
    recorder = Recorder(whole.times, trajectory=True, states=False, resample_times=False)
    run.recorder = recorder
    readable.advance(run, 60, lambda n: None, np.zeros(1, np.int64))
    actions = recorder.trajectory(None)["actions"]
    np.testing.assert_array_equal(actions, whole.trajectory[0]["actions"])
    assert equal(run.agent.state(), whole.state[0]["agent"], rounding=True)
    assert run.agent.replay["observation"].dtype == np.uint8


def test_whole_numbers_alone_are_kept_in_8_bits():
    world = cpsrl.environment("pixel-catch", rows=3, columns=3)
    agent = cpsrl.start(DQN(hidden=(4,)), world)
    assert agent.replay.dtype["observation"].shape == (12,)
    with pytest.raises(ValueError, match="whole numbers from 0 to 255"):
        agent._in_8_bits("observation", np.full(9, 0.5, np.float32))


def test_a_torso_is_a_part_by_name():
    text = (
        'name = "x"\nsteps = 10\n[[environments]]\nname = "pixel-catch"\n[[agents]]\n'
        'name = "value-sampling"\nbelief = {name = "heads", hidden = [64], torso = '
        '{name = "convolution", channels = [8, 8], normalise = true}}\n'
    )
    experiment = Experiment.from_toml(text)
    made = make_agent(Experiment.from_toml(experiment.to_toml()).all_agents[0])
    assert made.belief.torso == Convolution((8, 8), normalise=True)
    assert make_agent(experiment.all_agents[0]) == made
    vector = Heads(torso=Torso(normalise=True))
    assert ValueSampling(belief=vector) != ValueSampling(belief=Heads())
