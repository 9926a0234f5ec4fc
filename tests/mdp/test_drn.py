"""Storm's explicit format: round trips, files as Storm writes them, and Storm's answers."""

import dataclasses

import numpy as np
import pytest

import cpsrl
from cpsrl.cli.main import main
from cpsrl.planning import solve_average

SHOP = """// Exported by storm
// Original model type: MDP
@type: MDP
@value_type: double
@parameters

@reward_models
cost gained\x20
@nr_states
3
@nr_choices
4
@model
state 0 [0, 0] init
\taction go [1, 0]
\t\t0 : 0.6666666667
\t\t1 : 0.3333333333
\taction wait [0, 0.5]
\t\t0 : 1
state 1 [0, 0]
//[s=1]
\taction __NOLABEL__ [0, 0]
\t\t0 : 3/4
\t\t2 : 1/4
state 2 [0, 5] top
\taction go [1, 0]
\t\t0 : 1
"""
CHAIN = """@type: DTMC
@parameters

@reward_models
r
@nr_states
2
@nr_choices
2
@model
state 0 [0.5] init "at rest"
\t\t0 : 0.25
\t\t1 : 0.75
state 1 [2] moving
\taction 0 [1]
\t\t0 : 1
"""
TABLES = {
    "riverswim": {"n_states": 7},
    "gridworld": {},
    "access-control": {},
    "catch": {"rows": 3, "columns": 2},
    "taxi": {},
    "frozen-lake": {},
}


@pytest.fixture
def written(tmp_path):
    def write(text, name="model.drn"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def without_what_it_has_no_room_for(mdp):
    return cpsrl.TabularMDP(
        mdp.transitions,
        mdp.rewards,
        available=mdp.available,
        state_names=mdp.state_names,
        action_names=mdp.action_names,
        name="model",
    )


def check_same(found, mdp):
    assert (found.csr != mdp.csr).nnz == 0
    np.testing.assert_array_equal(found.rewards, mdp.rewards)
    for field in ("available", "state_names", "action_names", "initial", "name"):
        np.testing.assert_array_equal(getattr(found, field), getattr(mdp, field))


@pytest.mark.parametrize("name", TABLES)
def test_what_is_written_is_read_back_bit_for_bit(name, tmp_path):
    mdp = without_what_it_has_no_room_for(cpsrl.environment(name, **TABLES[name]))
    mdp.save(tmp_path / "model.drn")
    if name == "taxi":  # a name with a space
        names = [action.replace(" ", "_") for action in mdp.action_names]
        mdp = dataclasses.replace(mdp, action_names=names)
    check_same(cpsrl.TabularMDP.load(tmp_path / "model.drn"), mdp)


def test_actions_that_a_state_does_not_have_are_not_available(tmp_path):
    rng = np.random.default_rng(0)
    available = rng.random((9, 4)) < 0.5
    available[:, 0] |= ~available.any(axis=1)
    P = rng.dirichlet(np.ones(9), (9, 4))
    mdp = cpsrl.TabularMDP(P, rng.normal(size=(9, 4)), available=available, initial=3, name="model")
    mdp.save(tmp_path / "model.drn")
    found = cpsrl.TabularMDP.load(tmp_path / "model.drn")
    np.testing.assert_array_equal(found.available, mdp.available)
    np.testing.assert_array_equal(found.rewards[available], mdp.rewards[available])
    np.testing.assert_array_equal(found.dense[available], mdp.dense[available])
    assert found.initial == 3


def test_a_file_as_storm_writes_it(written):
    """Gains by hand: of `gained`, 3/4 of waiting's .5 + 5 on the way; nothing is to be paid."""
    mdp = cpsrl.TabularMDP.load(written(SHOP), reward_model="gained")
    assert (mdp.n_states, mdp.n_actions, mdp.action_names) == (3, 2, None)
    np.testing.assert_array_equal(mdp.available, [[True, True], [True, False], [True, False]])
    np.testing.assert_allclose(mdp.rewards[:, 0], [0, 0, 5])
    np.testing.assert_allclose(mdp.rewards[0, 1], 0.5)
    assert solve_average(mdp).gain[0] == pytest.approx(0.5)
    cost = cpsrl.TabularMDP.load(written(SHOP), reward_model="cost")
    assert solve_average(cost).gain[0] == pytest.approx(3.25 / 4.25)  # 3 + .25 of 3 + 1 + .25 steps


def test_names_are_quoted_once_and_numbers_that_are_names_stay_apart(tmp_path):
    P, rewards = np.full((2, 3, 2), 0.5), np.arange(6.0).reshape(2, 3)
    names = {"state_names": ("at rest", "idle"), "action_names": ("1", "0", "01")}
    mdp = cpsrl.TabularMDP(P, rewards, name="model", reward_range=(0, 5), **names)
    mdp.save(tmp_path / "model.drn")
    lines = (tmp_path / "model.drn").read_text().splitlines()
    assert 'state 0 [0] init "at rest"' in lines
    assert 'state 1 [0] "idle"' in lines
    check_same(cpsrl.TabularMDP.load(tmp_path / "model.drn"), mdp)


def test_a_chain_and_names(written):
    mdp = cpsrl.TabularMDP.load(written(CHAIN))
    assert mdp.state_names == ("at rest", "moving")
    np.testing.assert_array_equal(mdp.rewards, [[0.5], [3.0]])
    np.testing.assert_array_equal(mdp.dense[:, 0], [[0.25, 0.75], [1, 0]])


def test_the_command_takes_a_reward_model(written, capsys):
    main(["solve", str(written(SHOP)), "--reward-model", "gained"])
    assert "0.5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@type: MDP", "@type: CTMC", "of type CTMC, and only MDP and DTMC"),
        ("@parameters\n\n", "@parameters\np q\n", "has parameters: p q"),
        ("double", "double-interval", "line 4: values of the type double-interval"),
        ("@reward_models\ncost gained\x20", "@reward_models\n", "no reward model"),
        ("@nr_states\n3", "@nr_states\nthree", "line 10: @nr_states must be a number"),
        ("@nr_choices\n4", "@nr_choices\n5", "@nr_choices is 5, and the file has 4"),
        ("@model", "@modl", "line 13: '@modl' is not part of the head"),
        ("state 1 ", "state 4 ", "line 20: state 1 should stand here"),
        ("2 : 1/4", "7 : 1/4", "line 24: there is no state 7"),
        ("2 : 1/4", "2 : 1/0", "line 24: '1/0' is not a number"),
        ("2 : 1/4", "2 : -1\n2 : 5/4", "line 24: the probability -1.0 is not in .0, 1."),
        ("2 : 1/4", "2 : 0.2", "line 22: the probabilities sum to 0.95, not 1"),
        ("2 : 1/4", "2 : 0.2501", "line 22: .*, not 1; normalise=True"),
        ("1 : 0.3333333333", "one : 0.3333333333", "line 17: there is no state one"),
        ("[0, 5]", "[0, 5, 1]", "line 25: .0, 5, 1. is not a reward for each reward model"),
        ("state 0 [0, 0] init\n", "", "line 14: this is no state, action or transition"),
        ("[0, 5]", "[0]", "line 25: .0. is not a reward for each reward model"),
        ("\taction go [1, 0]\n\t\t0 : 1\n", "", "@nr_choices is 4, and the file has 3"),
        ("\t\t2 : 1/4", "\t\t2 1/4", "line 24: this is no state, action or transition"),
    ],
)
def test_a_mistake_is_an_error_that_names_its_place(old, new, said, written):
    assert old in SHOP
    with pytest.raises(ValueError, match=said):
        cpsrl.TabularMDP.load(written(SHOP.replace(old, new, 1)), reward_model="gained")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 : 1/4", "2 : {}"),
        ("2 : 1/4", "{} : 1/4"),
        ("[0, 5]", "[{}]"),
        ("@nr_states\n3", "@nr_states\n{}"),
        ("@nr_choices\n4", "@nr_choices\n{}"),
        ("@model", "@{}"),
        ("@type: MDP", "@type: {}"),
        ("@parameters\n\n", "@parameters\n{}\n"),
        ("double", "{}"),
    ],
)
@pytest.mark.parametrize("digits", [4_000, 5_000])
def test_a_number_of_thousands_of_digits_is_not_repeated_whole(old, new, digits, written):
    text = SHOP.replace(old, new.format("7" * digits), 1)
    with pytest.raises(ValueError) as caught:
        cpsrl.TabularMDP.load(path := written(text), reward_model="gained")
    said = str(caught.value).removeprefix(str(path))
    assert "7" * 20 in said
    assert len(said) < 400


def test_which_reward_model_has_to_be_said(written):
    with pytest.raises(ValueError, match="the reward models cost, gained: choose one"):
        cpsrl.TabularMDP.load(written(SHOP))
    with pytest.raises(ValueError, match="did you mean 'gained'"):
        cpsrl.TabularMDP.load(written(SHOP), reward_model="gain")
    cpsrl.TabularMDP([[[1.0]]], [[1.0]]).save(path := written("").with_suffix(".csv"))
    with pytest.raises(ValueError, match=r"only a \.drn file has reward models"):
        cpsrl.TabularMDP.load(path, reward_model="r")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"noise": 0.5}, "no room for noisy rewards"),
        ({"features": np.eye(1)}, "no room for features"),
        ({"state_names": ["init"]}, "the state name 'init' can't stand"),
        ({"action_names": ["[on]"]}, "the action name .* can't stand"),
        ({"action_names": ["0"]}, "in a .drn file the action names '0', .* taken for the actions'"),
        ({"reward_range": (-5, 5)}, "no room for a range that is not that of the rewards"),
    ],
)
def test_what_it_has_no_room_for_is_refused_and_nothing_is_written(options, said, tmp_path):
    mdp = cpsrl.TabularMDP([[[1.0]]], [[1.0]], **options)
    with pytest.raises(ValueError, match=said):
        mdp.save(tmp_path / "model.drn")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["riverswim", "access-control", "catch"])
def test_storm_finds_the_same_gain(name, tmp_path):
    stormpy = pytest.importorskip("stormpy")
    mdp = without_what_it_has_no_room_for(cpsrl.environment(name, **TABLES[name]))
    mdp.save(path := tmp_path / "model.drn")
    model = stormpy.build_model_from_drn(str(path))
    formula = stormpy.parse_properties('R{"reward"}max=? [LRA]')[0]
    env = stormpy.Environment()
    found = stormpy.model_checking(model, formula, environment=env).at(mdp.initial)
    assert found == pytest.approx(solve_average(mdp).gain[mdp.initial], abs=1e-4)
    stormpy.export_to_drn(model, str(tmp_path / "again.drn"))
    again = cpsrl.TabularMDP.load(tmp_path / "again.drn", normalise=True)
    np.testing.assert_allclose(again.rewards, mdp.rewards, atol=1e-9)
