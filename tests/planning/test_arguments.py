"""What planning functions are given is checked, in one place."""

import math
from pathlib import Path

import numpy as np
import pytest

import cpsrl
from cpsrl import planning

RIVER = cpsrl.environment("riverswim")
POLICY = np.ones(6, np.int64)
ON_A_MODEL = {
    "solve_average": (),
    "solve_discounted": (0.9,),
    "planning_gap": (0.9,),
    "sufficient_gamma": (),
    "classify": (),
    "diameter": (),
    "is_unichain": (POLICY,),
    "reward_averaging_time": (POLICY,),
    "discounted_value": (POLICY, 0.9),
    "gain_and_bias": (POLICY,),
    "policy_chain": (POLICY,),
    "stationary_distribution": (POLICY,),
    "bellman_operator": (np.zeros(6), 0.9),
    "greedy_policy": (np.zeros(6), 0.9),
}


def test_every_function_of_a_model_is_here():
    functions = {n for n in planning.__all__ if not n[0].isupper()} - {"span"}
    assert functions == set(ON_A_MODEL)


@pytest.mark.parametrize("name", ON_A_MODEL)
def test_a_world_that_changes_is_no_single_model(name):
    changing = cpsrl.environment("changing")
    function = getattr(planning, name)
    with pytest.raises(ValueError, match=r"changes; plan.*world\.models\[0\]"):
        function(changing, *ON_A_MODEL[name])
    function(changing.models[0], *ON_A_MODEL[name])


@pytest.mark.parametrize("name", ON_A_MODEL)
def test_what_is_not_a_model_is_refused(name):
    function = getattr(planning, name)
    for wrong, hint in (
        ("riverswim", r"did you mean cpsrl\.environment\('riverswim'\)\?"),
        ("my.csv", r"did you mean cpsrl\.TabularMDP\.load\('my\.csv'\)\?"),
        (Path("my.csv"), r"did you mean cpsrl\.TabularMDP\.load\('my\.csv'\)\?"),
        (cpsrl.TabularMDP, r"did you mean TabularMDP\(\)\?"),
        (None, "not None"),
    ):
        with pytest.raises(ValueError, match=f"mdp must be a TabularMDP.*{hint}"):
            function(wrong, *ON_A_MODEL[name])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sufficient_gamma", {"refined": 0}),
        ("sufficient_gamma", {"refined": 1e-17}),
        ("sufficient_gamma", {"points": 0}),
        ("sufficient_gamma", {"points": 1}),
        ("sufficient_gamma", {"points": 2.5}),
        ("sufficient_gamma", {"points": 10**400}),
        ("sufficient_gamma", {"largest": 1.0}),
        ("sufficient_gamma", {"largest": math.nan}),
        ("diameter", {"targets": 0.5}),
        ("diameter", {"targets": -1}),
        ("diameter", {"targets": []}),
        ("diameter", {"targets": [0, 6]}),
        ("diameter", {"targets": 10**400}),
        ("diameter", {"targets": "far"}),
        ("solve_average", {"tol": 10**400}),
        ("solve_average", {"tol": "small"}),
        ("solve_discounted", {"gamma": 10**400}),
        ("planning_gap", {"gamma": 0.9, "optimal": "best"}),
        ("reward_averaging_time", {"policy": POLICY, "most_steps": 0}),
        ("reward_averaging_time", {"policy": POLICY, "tol": -1}),
    ],
)
def test_a_wrong_argument_is_named(name, options):
    wrong = [*options][-1]
    with pytest.raises(ValueError, match=f"{wrong} must be"):
        getattr(planning, name)(RIVER, **options)


@pytest.mark.parametrize("values", [[], "abc", [10**400], [[1], [2, 3]]])
def test_a_span_is_that_of_numbers(values):
    assert cpsrl.span([1, 4.5]) == 3.5
    with pytest.raises(ValueError, match="values must be one or more numbers"):
        cpsrl.span(values)


def test_targets_may_be_one_state_or_some():
    assert planning.diameter(RIVER, targets=5) <= planning.diameter(RIVER)
    assert planning.diameter(RIVER, range(6)) == planning.diameter(RIVER)


def test_a_call_that_lacks_an_argument_is_python_s_own_error():
    with pytest.raises(TypeError, match=r"solve_discounted\(\) missing 1 required"):
        cpsrl.solve_discounted(RIVER)
