"""A world that turns round: which model it is when, and regret against that of the moment."""

from dataclasses import replace

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal, masked
from cpsrl import Entry, Experiment, simulate
from cpsrl.agents.psrl import PSRLAgent
from cpsrl.beliefs import Forgetting
from cpsrl.cli.main import main
from cpsrl.environments.changing import mirrored, mixed
from cpsrl.experiments import continue_experiment
from cpsrl.mdp import ChangingWorld
from cpsrl.simulation.loops import LOOPS

AGENT = cpsrl.PSRL(cpsrl.Bernoulli(0.9), belief=Forgetting(half_life=100.0))


def world(every=70, **options):
    return cpsrl.environment("changing", every=every, **options)


def uneven():
    """Three models of unequal gains and lengths, the last for ever."""
    rng = np.random.default_rng(0)
    models = [
        cpsrl.TabularMDP(rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2)), noise="bernoulli")
        for _ in range(3)
    ]
    return ChangingWorld(tuple(models), (30, 55, 10), repeat=False, name="uneven")


def test_the_mirror_image_of_riverswim():
    first, second = world().models
    river = cpsrl.environment("riverswim")
    np.testing.assert_array_equal(first.dense, river.dense)
    for s in range(6):
        for a in range(2):
            assert second.rewards[s, a] == river.rewards[5 - s, 1 - a]
            np.testing.assert_array_equal(second.dense[s, a], river.dense[5 - s, 1 - a, ::-1])
    gains = [cpsrl.solve_average(model).gain[0] for model in (first, second)]
    assert gains == pytest.approx([7203 / 16805] * 2, abs=1e-12)


def test_mirroring_twice_gives_the_model_back():
    mdp = masked()
    twice = mirrored(mirrored(mdp))
    np.testing.assert_array_equal(twice.dense, mdp.dense)
    np.testing.assert_array_equal(twice.rewards, mdp.rewards)
    np.testing.assert_array_equal(twice.transition_rewards, mdp.transition_rewards)
    np.testing.assert_array_equal(twice.available, mdp.available)


def test_a_drift_goes_through_mixtures_and_back():
    drifting = world(60, pieces=3)
    path = drifting.models
    assert drifting.lengths == (20,) * 6
    one, other = path[0], path[3]
    for k, share in [(1, 1 / 3), (2, 2 / 3), (4, 2 / 3), (5, 1 / 3)]:
        mixture = (1 - share) * one.dense + share * other.dense
        np.testing.assert_allclose(path[k].dense, mixture, atol=1e-15)
        np.testing.assert_allclose(
            path[k].rewards, (1 - share) * one.rewards + share * other.rewards, atol=1e-15
        )


@pytest.mark.parametrize("repeat", [True, False])
def test_which_model_it_is_when(repeat):
    changes = ChangingWorld(uneven().models, (3, 1, 4), repeat)
    order = [0, 0, 0, 1, 2, 2, 2, 2]
    order = order * 4 if repeat else order + [2] * 24
    for taken, model in enumerate(order):
        place, left = changes.after(taken)
        assert place == model
        if left is not None:
            assert order[taken : taken + left] == [model] * left
            assert order[taken + left] != model if taken + left < len(order) else True
    spent = changes.spent(np.arange(len(order) + 1))
    by_hand = [[order[:t].count(k) for k in range(3)] for t in range(len(order) + 1)]
    np.testing.assert_array_equal(spent, by_hand)


@pytest.mark.parametrize("mdp", [world(), uneven(), world(60, pieces=6)], ids=repr)
def test_regret_is_against_the_optimum_of_the_moment(mdp):
    runs = simulate(AGENT, mdp, 200, 2, record=1, trajectory=True)
    gains = [cpsrl.solve_average(model).gain[0] for model in mdp.models]
    optimum = np.cumsum([gains[mdp.after(t)[0]] for t in range(200)])
    for row, path in zip(runs.regret, runs.trajectory, strict=True):
        np.testing.assert_allclose(row, optimum - np.cumsum(path["rewards"]), atol=1e-9)
        for t, (state, action) in enumerate(zip(path["states"], path["actions"], strict=False)):
            model = mdp.models[mdp.after(t)[0]]
            assert model.dense[state, action, path["states"][t + 1]] > 0
            if model.noise == 0:
                assert path["rewards"][t] == model.rewards[state, action]


@pytest.mark.parametrize("agent", [AGENT, cpsrl.TSDE(), cpsrl.RandomAgent()], ids=lambda a: a.label)
@pytest.mark.parametrize("mdp", [world(), uneven()], ids=repr)
def test_the_readable_loop_gives_the_same_run(agent, mdp, monkeypatch):
    options = {"record": 7, "trajectory": True, "resample_times": True}
    compiled = simulate(agent, mdp, 300, [4], **options)
    for kind in list(LOOPS):
        monkeypatch.delitem(LOOPS, kind)
    readable = simulate(agent, mdp, 300, [4], **options)
    np.testing.assert_array_equal(readable.regret, compiled.regret)
    assert equal(readable.trajectory[0], compiled.trajectory[0])
    assert np.array_equal(readable.resample_times[0], compiled.resample_times[0])
    assert equal(readable.state[0]["agent"], compiled.state[0]["agent"])


def test_a_run_in_parts_is_the_run_in_one():
    mdp = world()
    whole = simulate(AGENT, mdp, 300, 2, record=1)
    regret, state = [], ()
    for steps in (70, 69, 1, 100, 60):
        part = simulate(AGENT, mdp, steps, 2, record=1, resume=state)
        regret.append(part.regret)
        state = part.state
    np.testing.assert_array_equal(np.hstack(regret), whole.regret)
    assert all(map(equal, state, whole.state))


def test_in_an_experiment_that_is_carried_on(tmp_path):
    agent = Entry("psrl", {"belief": {"name": "forgetting", "half_life": float("inf")}})
    fading = {"name": "forgetting", "half_life": 50.0, "belief": {"name": "truncated", "span": 9.0}}
    entries = (agent, Entry("psrl", {"belief": fading}, label="fading"))
    place = (Entry("changing", {"every": 50, "options": {"variant": "tsde"}}),)
    short, long = (Experiment("turning", place, entries, n, 2) for n in (120, 200))
    cpsrl.run_experiment(short, tmp_path / "short")
    continue_experiment(tmp_path / "short", 80)
    cpsrl.run_experiment(long, tmp_path / "long")
    carried, whole = (cpsrl.load(tmp_path / name) for name in ("short", "long"))
    np.testing.assert_array_equal(carried.regret[:, -1], whole.regret[:, -1])


def test_the_simulator_and_gymnasium_meet_the_changes():
    mdp = cpsrl.environment("changing", every=3)
    simulator = mdp.simulator()
    paid = []
    for _ in range(9):
        simulator.state = 0
        paid.append(simulator.step(0)[0])
    assert paid == [0.005] * 3 + [1.0] * 3 + [0.005] * 3


def test_forgetting_follows_a_change_and_the_plain_posterior_does_not():
    mdp = world(3000)
    lost = {}
    for half_life in (300.0, np.inf):
        agent = cpsrl.PSRL(
            cpsrl.Bernoulli(0.9), cpsrl.Discounted(0.99), Forgetting(half_life=half_life)
        )
        regret = simulate(agent, mdp, 6000, 8, record=3000).regret
        lost[half_life] = (regret[:, 1] - regret[:, 0]).mean()
    assert lost[300.0] < 0.6 * lost[np.inf]


def other_shape():
    return cpsrl.environment("riverswim", n_states=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: world(70, pieces=3), "every = 70 must be a multiple of pieces = 3"),
        (lambda: world(0), "every must be a whole number of at least 1"),
        (
            lambda: ChangingWorld((other_shape(), world().models[0]), (1, 1)),
            r"models\[1\] has other",
        ),
        (lambda: ChangingWorld((other_shape(),), (1, 1)), "there are 1 models and 2 lengths"),
        (lambda: ChangingWorld((world(),), (1,)), r"models\[0\] changes itself"),
        (lambda: ChangingWorld((3,), (1,)), r"models\[0\] must be a TabularMDP, not 3"),
        (lambda: ChangingWorld(other_shape(), 5), "models must be a list, not TabularMDP"),
        (lambda: ChangingWorld((other_shape(),), 5), "lengths must be a list, not 5"),
        (lambda: ChangingWorld((other_shape(),), (5,), repeat="no"), "repeat must be True or"),
        (lambda: world(base="changing"), "base = 'changing' changes itself"),
        (lambda: world(base=3), "base must be the name of an environment, not 3"),
        (lambda: world(options=[3]), r"options must be a table by name, not \[3\]"),
        (lambda: cpsrl.solve_average(world()), "plan for its models one by one"),
        (lambda: simulate(AGENT, world(), 10, 1, discounted_regret=True), "does not change"),
        (
            lambda: simulate(
                cpsrl.TSDE(cpsrl.Dirichlet(rewards=cpsrl.KnownRewards())), world(), 10
            ),
            "those of one model",
        ),
        (lambda: simulate(AGENT, two_gains(), 10, 1), "not the same from every state"),
        (lambda: mixed(masked(), masked(), 0.5), "can drift: take pieces = 1"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("save", r"'save': take that of a model, such as world\.models\[0\]$"),
        ("transitions", "'transitions': take that of a model"),
        ("colour", "'colour'$"),
    ],
)
def test_what_only_models_have_is_said_to_be_theirs(name, said):
    with pytest.raises(AttributeError, match=f"a ChangingWorld has no attribute {said}"):
        getattr(world(), name)


@pytest.mark.parametrize(
    "command",
    [["solve"], ["bound", "--steps", "100"], ["watch", "--steps", "50"], ["compare"]],
    ids=lambda command: command[0],
)
def test_commands_for_one_model_say_that_the_world_changes(command, capsys):
    assert main([command[0], "changing", "--every", "20", *command[1:]]) == 2
    assert "ChangingWorld(changing (every=20)" in capsys.readouterr().err


def two_gains():
    apart = cpsrl.TabularMDP(np.eye(2)[:, None], [[0.0], [1.0]])
    return ChangingWorld((apart, replace(apart, rewards=[[1.0], [0.0]])), (5, 5))


def test_a_support_must_allow_what_every_model_does():
    first = world().models[0]
    agent = cpsrl.TSDE(cpsrl.Dirichlet(support=first.dense > 0))
    assert simulate(agent, first, 5, 1).regret.size
    with pytest.raises(ValueError, match="cannot lead to state"):
        simulate(agent, world(), 5, 1)
    assert PSRLAgent in LOOPS
